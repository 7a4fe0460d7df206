package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/engine"
)

var (
	asAnn = []string{"Authorization", "ann admin"}
	asBob = []string{"Authorization", "bob operator"}
)

// reaches waits until a run is as it should be.
func (f face) reaches(run string, nodes ...string) client.WorkflowRun {
	f.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		r := f.run(run, asAnn...)
		if has(r, nodes...) {
			return r
		}
		if time.Now().After(deadline) {
			f.Fatalf("want %v: %s", nodes, encoded(r))
		}
	}
}

// Whoever may not decide an approval in a sub-workflow may not skip or mark the node that runs it, however it ended, nor what comes after it.
func TestApprovalsBelowAreNotOverruled(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t), byName)
		create := func(key, nodes string) {
			t.Helper()
			want[client.Workflow](f, 201, "POST", "/api/v1/workflows", fmt.Sprintf(`{"name": %q, "key": %q, "nodes": [%s]}`, key, key, nodes), asAnn...)
		}
		create("ask", `{"key": "ok", "wait": {"approval": {"roles": ["admin"]}}}, {"key": "then", "depends_on": ["ok"], "wait": {"event": "e"}}`)
		create("mid", `{"key": "inner", "job_id": "key:ask"}`)
		create("top", `{"key": "gate", "job_id": "key:mid"}, {"key": "deploy", "depends_on": ["gate"], "execution": {"target": "worker", "kind": "x"}}, {"key": "after", "depends_on": ["deploy"], "wait": {"timer": "1h"}},
			{"key": "each", "map": 1, "job_id": "key:ask", "on_failure": "ignore"}`)
		run := want[client.WorkflowTriggered](f, 202, "POST", "/api/v1/workflows/key:top/trigger", "", asAnn...).WorkflowRunID
		at := "/api/v1/workflow-runs/" + run + "/nodes/"
		refused := func(node string) {
			t.Helper()
			for _, act := range []string{"/skip", "/mark"} {
				p := want[client.Problem](f, 403, "POST", at+node+act, `{}`, asBob...)
				if !strings.Contains(p.Detail, "ok, which asks for a decision of the role admin") {
					t.Errorf("%s%s: %s", node, act, p.Detail)
				}
			}
		}
		below := func(run, node string) string {
			t.Helper()
			for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
				if n := nodeOf(f.run(run, asAnn...), node); n.ExecutionID != nil && n.Status == "RUNNING" {
					return *n.ExecutionID
				}
			}
			t.Fatalf("%s does not run: %s", node, encoded(f.run(run, asAnn...)))
			return ""
		}
		mid := below(run, "gate")
		inner := below(mid, "inner")
		f.reaches(inner, "ok", "RUNNING")
		refused("deploy")
		want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+mid+"/cancel", `{}`, asBob...)
		f.reaches(run, "gate", "CANCELLED", "deploy", "NOT_RUN")
		refused("gate")
		refused("deploy")
		// Once the approval has passed, what failed after it may be skipped.
		second := want[client.WorkflowTriggered](f, 202, "POST", "/api/v1/workflows/key:top/trigger", "", asAnn...).WorkflowRunID
		at = "/api/v1/workflow-runs/" + second + "/nodes/"
		mid = below(second, "gate")
		inner = below(mid, "inner")
		f.reaches(inner, "ok", "RUNNING")
		want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+inner+"/nodes/ok/approve", `{}`, asAnn...)
		want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+mid+"/cancel", `{}`, asBob...)
		f.reaches(second, "gate", "CANCELLED")
		f.reaches(inner, "then", "CANCELLED")
		want[client.WorkflowRunChanged](f, 200, "POST", at+"gate/mark", `{}`, asBob...)
		want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/nodes/gate/mark", `{}`, asAnn...)
	})
}

// A retry on the latest version does not get past an approval that this version weakens.
func TestARetryDoesNotWeakenApprovals(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t), byName)
		const deploy = `{"key": "deploy", "depends_on": ["ok"], "wait": {"timer": "1h"}}, {"key": "fail", "depends_on": ["ok"], "map": "'x'", "execution": {"target": "worker", "kind": "x"}}`
		w := want[client.Workflow](f, 201, "POST", "/api/v1/workflows", `{"name": "w", "nodes": [{"key": "ok", "wait": {"approval": {"roles": ["admin"]}}}, `+deploy+`]}`, asAnn...)
		run := want[client.WorkflowTriggered](f, 202, "POST", "/api/v1/workflows/"+w.WorkflowID+"/trigger", "", asAnn...).WorkflowRunID
		f.reaches(run, "ok", "RUNNING")
		want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/cancel", `{}`, asBob...)
		f.reaches(run, "ok", "CANCELLED")
		for _, nodes := range []string{
			`{"key": "ok", "wait": {"approval": {}}}, ` + deploy, `{"key": "ok", "wait": {"timer": "1s"}}, ` + deploy, `{"key": "no", "wait": {"timer": "1h"}}`,
			`{"key": "ok", "wait": {"approval": {"roles": ["admin"]}}}, {"key": "deploy", "wait": {"timer": "1h"}}`,
		} {
			want[client.Workflow](f, 200, "PATCH", "/api/v1/workflows/"+w.WorkflowID, `{"nodes": [`+nodes+`]}`, asBob...)
			p := want[client.Problem](f, 403, "POST", "/api/v1/workflow-runs/"+run+"/retry", `{"version": "latest"}`, asBob...)
			if !strings.Contains(p.Detail, "the approval ok") {
				t.Errorf("%s: %s", nodes, p.Detail)
			}
			want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/retry", `{"version": "latest", "dry_run": true}`, asAnn...)
		}
		want[client.Workflow](f, 200, "PATCH", "/api/v1/workflows/"+w.WorkflowID, `{"nodes": [{"key": "ok", "wait": {"approval": {"roles": ["admin"], "min": 2}}}, `+deploy+`, {"key": "more", "wait": {"timer": "1h"}}]}`, asBob...)
		want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/retry", `{"version": "latest", "dry_run": true}`, asBob...)
	})
}
