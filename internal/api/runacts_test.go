package api_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Nodes that a retry starts at once get its input, and so do those that follow.
func TestARetryWithAnotherInput(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t))
		c := newCrew(f)
		_, run := f.flow(x("a")+","+x("b", after("a")), `{"input": {"day": 1}}`)
		plays := func(day string) {
			for _, key := range []string{"a", "b"} {
				c.take(1)
				if got := strings.ReplaceAll(string(c.held[0].Payload), " ", ""); got != day {
					t.Errorf("%s gets %s; want %s", key, got, day)
				}
				c.end(key, "SUCCEEDED")
			}
			f.stands(run, "SUCCEEDED")
		}
		plays(`{"day":1}`)
		want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/retry", `{"nodes": ["a"], "input": {"day": 2}}`)
		plays(`{"day":2}`)
	})
}

// byName has a credential be a name, a role and perhaps the id of a key, as "ann operator 1".
func byName(c *api.Config, _ engine.Store) {
	c.Authenticate = func(_ context.Context, credential, _ string) (tenant.Principal, error) {
		parts := append(strings.Fields(credential), "", "")
		return tenant.Principal{Tenant: tenant.Default, Role: tenant.Role(parts[1]), Name: parts[0], Key: parts[2]}, nil
	}
}

// Whoever may not decide an approval may not skip or mark it, either, nor what comes between it and others; and a mark is no vote.
func TestApprovalsAreNotOverruled(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t), byName)
		ann, bob := []string{"Authorization", "ann admin"}, []string{"Authorization", "bob operator"}
		const gates = `{"key": "gate", "wait": {"approval": {"roles": ["admin"]}}}, {"key": "two", "wait": {"approval": {"min": 2}}}, {"key": "mine", "wait": {"approval": {}}},
			{"key": "between", "depends_on": ["gate"], "wait": {"timer": "1h"}}, {"key": "deploy", "depends_on": ["between"], "execution": {"target": "worker", "kind": "x"}}`
		w := want[client.Workflow](f, 201, "POST", "/api/v1/workflows", `{"name": "w", "nodes": [`+gates+`]}`, ann...)
		run := want[client.WorkflowTriggered](f, 202, "POST", "/api/v1/workflows/"+w.WorkflowID+"/trigger", "", ann...).WorkflowRunID
		for !has(f.run(run, ann...), "gate", "RUNNING", "two", "RUNNING", "mine", "RUNNING") {
			time.Sleep(5 * time.Millisecond)
		}
		at := "/api/v1/workflow-runs/" + run + "/nodes/"
		const forged = `{"result": {"approved": true, "by": "ann", "at": "2026-01-01T00:00:00Z"}}`
		for _, act := range []string{"/skip", "/mark"} {
			for node, says := range map[string]string{"gate": "the role admin", "two": "2 votes", "between": "the approval gate"} {
				if p := want[client.Problem](f, 403, "POST", at+node+act, `{}`, bob...); !strings.Contains(p.Detail, says) {
					t.Errorf("%s%s: %s; want %q", node, act, p.Detail, says)
				}
			}
		}
		want[client.WorkflowRunChanged](f, 200, "POST", at+"deploy/skip", `{}`, bob...) // on which nothing depends
		want[client.WorkflowRunChanged](f, 200, "POST", at+"two/skip", `{}`, ann...)
		marked := want[client.WorkflowRunChanged](f, 200, "POST", at+"mine/mark", forged, bob...)
		if n := nodeOf(marked.WorkflowRun, "mine"); n.Status != "SUCCEEDED" || len(n.Wait.Votes) != 0 {
			t.Errorf("marked: %s", encoded(n))
		}
		if p := want[client.Problem](f, 409, "POST", at+"mine/approve", `{}`, ann...); p.Code != "cannot_approve" || !strings.Contains(p.Detail, "by hand") {
			t.Errorf("approving what was marked: %s", encoded(p))
		}
		want[client.WorkflowRunChanged](f, 200, "POST", at+"gate/approve", `{}`, ann...)
		want[client.WorkflowRunChanged](f, 200, "POST", at+"between/mark", `{}`, bob...)
	})
}

// A retry with the latest version holds the run's input to that version's schema.
func TestARetryWithAnotherSchema(t *testing.T) {
	f := newFace(t, withRuns(t))
	c := newCrew(f)
	id, run := f.flow(x("a"), `{"input": {"day": 1}}`)
	c.take(1)
	c.end("a", "FAILED")
	f.stands(run, "FAILED")
	want[client.Workflow](f, 200, "PATCH", "/api/v1/workflows/"+id, `{"input_schema": {"type": "object", "required": ["hour"]}}`)
	at := "/api/v1/workflow-runs/" + run + "/retry"
	for _, dry := range []string{`, "dry_run": true`, ``} {
		if p := want[client.Problem](f, 422, "POST", at, `{"version": "latest"`+dry+`}`); p.Errors[0].Field != "input" || !strings.Contains(p.Detail, "hour") {
			t.Errorf("the old input: %s", encoded(p))
		}
	}
	if r := want[client.WorkflowRunChanged](f, 200, "POST", at, `{"version": "latest", "input": {"hour": 2}}`); r.Version != 2 || r.Attempt != 2 {
		t.Errorf("another input: %s", encoded(r))
	}
}
