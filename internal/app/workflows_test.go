package app_test

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/app"
)

// workflow stores a workflow of the nodes given and returns its id.
func (s *server) workflow(key, nodes string) string {
	s.Helper()
	return want[client.Workflow](s, 201, "POST", "/api/v1/workflows", fmt.Sprintf(`{"key": %q, "name": %q, "nodes": [%s]}`, key, key, nodes)).WorkflowID
}

// trigger starts a run and returns its id.
func (s *server) trigger(workflow string) string {
	s.Helper()
	return want[client.Triggered](s, 202, "POST", "/api/v1/jobs/"+workflow+"/trigger", "").ExecutionID
}

func TestWorkflowMetrics(t *testing.T) {
	onEachStore(t, func(t *testing.T, where string) {
		s := serve(t, where)
		flow := s.workflow("flow", `{"key": "work", "execution": {"target": "simulate", "work_kind": "noop"}}, {"key": "each", "depends_on": ["work"], "map": "3", "execution": {"target": "simulate", "work_kind": "noop"}}`)
		s.ends(s.trigger(flow), "SUCCEEDED")
		asks := s.workflow("asks", `{"key": "ok", "wait": {"approval": {}}}`)
		waiting := s.trigger(asks)
		s.until("the approval to be shown", func() bool {
			got := s.scrape()
			return got["workflow_approvals_waiting"] == 1 && got["workflow_oldest_approval_seconds"] > 0
		})
		got := s.scrape()
		for name, want := range map[string]float64{
			`workflow_runs_total{status="SUCCEEDED"}`: 1, `workflow_runs_total{status="CANCELLED"}`: 0, "workflow_runs_in_flight": 1, "workflow_node_wait_seconds_count": 4,
			"workflow_decision_delay_seconds_count": 4, `executions_total{status="SUCCEEDED"}`: 5, `executions_total{status="CANCELLED"}`: 0,
		} {
			if v, ok := got[name]; !ok || v != want {
				t.Errorf("%s: %v, want %v", name, v, want)
			}
		}
		want[map[string]any](s, 202, "POST", "/api/v1/executions/"+waiting+"/cancel", "")
		s.ends(waiting, "CANCELLED")
		s.until("the gauges to follow", func() bool {
			got = s.scrape()
			return got["workflow_approvals_waiting"] == 0 && got["workflow_runs_in_flight"] == 0
		})
		if got[`workflow_runs_total{status="CANCELLED"}`] != 1 || got[`executions_total{status="CANCELLED"}`] != 1 {
			t.Errorf("the cancelled run counts as %v runs, %v executions", got[`workflow_runs_total{status="CANCELLED"}`], got[`executions_total{status="CANCELLED"}`])
		}
	})
}

// A run is one trace: its nodes are children of it, and their targets are called with it. A sub-workflow has a trace of its own, linked
// from its node and to it.
func TestWorkflowTraces(t *testing.T) {
	onEachStore(t, func(t *testing.T, where string) {
		r := &receiver{}
		web := httptest.NewServer(r)
		defer web.Close()
		s := serve(t, where, func(o *app.Options) { o.Config.Tracing.Endpoint, o.Config.Tracing.Sample = web.URL, "1" })
		url, parents := sink(t)
		s.workflow("inner", `{"key": "deep", "execution": {"target": "simulate", "work_kind": "noop"}}`)
		id := s.trigger(s.workflow("outer", fmt.Sprintf(`{"key": "call", "execution": {"callback_url": %q}, "retry_policy": {"max_retries": 1, "initial_delay_ms": 1}},
			{"key": "pause", "depends_on": ["call"], "wait": {"timer": "1ms"}}, {"key": "sub", "depends_on": ["pause"], "job_id": "key:inner"}`, url)))
		s.ends(id, "SUCCEEDED")
		s.stop()

		trace := strings.ReplaceAll(id, "-", "")
		root := r.find(t, trace, "run")
		r.find(t, trace, "timer")
		if len(root.ParentSpanId) != 0 || attribute(root, "carillon.job_name") != "outer" || attribute(root, "carillon.status") != "SUCCEEDED" {
			t.Errorf("the run: %v", root)
		}
		nodes := map[string]*otlp.Span{}
		attempts := 0
		for _, x := range r.all() {
			if hex.EncodeToString(x.TraceId) != trace {
				continue
			}
			switch x.Name {
			case "node":
				nodes[attribute(x, "carillon.job_name")] = x
				if string(x.ParentSpanId) != string(root.SpanId) {
					t.Errorf("a node that is no child of the run: %v", x)
				}
			case "attempt":
				attempts++
			}
		}
		call, sub := nodes["outer/call"], nodes["inner"]
		if len(nodes) != 2 || call == nil || sub == nil || attempts != 2 {
			t.Fatalf("%d attempts, nodes %v", attempts, nodes)
		}
		if a := r.find(t, trace, "attempt"); string(a.ParentSpanId) != string(call.SpanId) {
			t.Errorf("the attempt is no part of its node: %v", a)
		}
		for _, p := range parents() {
			if !strings.HasPrefix(p, "00-"+trace+"-") || !strings.HasSuffix(p, "-01") {
				t.Errorf("the target was called in %q", p)
			}
		}
		if len(sub.Links) != 1 {
			t.Fatalf("the node of the sub-workflow has %d links", len(sub.Links))
		}
		below := hex.EncodeToString(sub.Links[0].TraceId)
		inner := r.find(t, below, "run")
		if !slices.ContainsFunc(inner.Links, func(l *otlp.Span_Link) bool { return string(l.SpanId) == string(sub.SpanId) }) {
			t.Errorf("the run below is linked to %v", inner.Links)
		}
		if deep := r.find(t, below, "node"); string(deep.ParentSpanId) != string(inner.SpanId) || attribute(deep, "carillon.job_name") != "inner/deep" {
			t.Errorf("its node: %v", deep)
		}
	})
}

// gate is a workflow that asks for an approval behind a map, beside a node that is skipped.
const gate = `{"key": "list", "execution": {"target": "simulate", "work_kind": "noop"}},
	{"key": "load", "depends_on": ["list"], "map": "2", "execution": {"target": "simulate", "work_kind": "noop"}},
	{"key": "extra", "depends_on": ["list"], "if": "1 > 2", "execution": {"target": "simulate", "work_kind": "noop"}},
	{"key": "ok", "depends_on": ["load"], "wait": {"approval": {"roles": ["operator"]}}, "timeout": "24h"},
	{"key": "ship", "depends_on": ["ok"], "execution": {"target": "simulate", "work_kind": "noop"}}`

// The execution of a run explains what the run waits for, and those of nodes where they belong.
func TestWorkflowsAreExplained(t *testing.T) {
	onEachStore(t, func(t *testing.T, where string) {
		s := serve(t, where)
		run := s.trigger(s.workflow("gate", gate))
		var why client.Explanation
		s.until("the run to wait for the approval", func() bool {
			why = want[client.Explanation](s, 200, "GET", "/api/v1/executions/"+run+"/explain", "")
			return why.Code == "AWAITING_APPROVAL"
		})
		if !strings.HasPrefix(why.Summary, "The run waits for approval of ok since 20") || !strings.HasSuffix(why.Summary, "; 3 of 5 nodes have ended.") || why.Since == nil || why.Details.RunID == nil || *why.Details.RunID != run {
			t.Errorf("the run: %+v", why)
		}
		says := map[string]string{}
		for _, n := range why.Details.Nodes {
			says[n.Key] = n.Status + " " + n.Summary
		}
		if !strings.HasPrefix(says["ok"], "RUNNING waits for an approval since 20") || !strings.Contains(says["ok"], ", until 20") || says["ship"] != "WAITING waits for parent ok" || says["extra"] != "SKIPPED skipped because `if` was false: 1 > 2" || len(says) != 3 {
			t.Errorf("its nodes: %q", says)
		}
		nodes := want[client.Executions](s, 200, "GET", "/api/v1/executions?trigger=workflow", "").Executions
		found := 0
		for _, e := range nodes {
			why := want[client.Explanation](s, 200, "GET", "/api/v1/executions/"+e.ExecutionID+"/explain", "")
			switch d := why.Details; {
			case d.RunID == nil || *d.RunID != run:
				t.Errorf("a node: %+v", why)
			case d.Node == "load" && d.Item != nil && strings.Contains(why.Summary, fmt.Sprintf("It is item %d of node load of run %s.", *d.Item, run)), d.Node == "list" && d.Item == nil:
				found++
			}
		}
		if found != 3 {
			t.Errorf("%d of the 3 executions say which node they are", found)
		}
		want[client.Execution](s, 202, "POST", "/api/v1/executions/"+run+"/cancel", "")
		s.ends(run, "CANCELLED")
		why = want[client.Explanation](s, 200, "GET", "/api/v1/executions/"+run+"/explain", "")
		if why.Code != "CANCELLED" || len(why.Details.Nodes) != 3 || why.Details.Nodes[2].Summary != "not run: the run was cancelled" {
			t.Errorf("the cancelled run: %+v", why)
		}
	})
}

// A rule tells of approvals that wait and of runs that fail, and not of the nodes by which they do.
func TestWorkflowNotifications(t *testing.T) {
	onEachStore(t, func(t *testing.T, where string) {
		s := serve(t, where)
		got := make(chan client.Notification, 100)
		hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			var n client.Notification
			if err := json.NewDecoder(r.Body).Decode(&n); err != nil {
				t.Error(err)
			}
			got <- n
		}))
		defer hook.Close()
		want[client.NotificationRule](s, 200, "PUT", "/api/v1/notification-rules/team", fmt.Sprintf(`{"events": ["failed", "approval_waiting"], "callback_url": %q}`, hook.URL))
		gated := s.trigger(s.workflow("gate", gate))
		n := <-got
		if n.Event != "approval_waiting" || n.Approval == nil || n.Approval.WorkflowRunID != gated || n.Approval.Node != "ok" || n.Approval.Until == nil || n.Summary != "gate waits for the approval of ok by operator" || *n.Job.Key != "gate" {
			t.Errorf("told: %+v", n)
		}
		failed := s.trigger(s.workflow("bad", `{"key": "dies", "execution": {"target": "simulate", "work_kind": "fail_permanent"}}`))
		n = <-got
		if n.Event != "failed" || n.Execution == nil || n.Execution.ExecutionID != failed || *n.Job.Key != "bad" {
			t.Errorf("told: %+v", n)
		}
		fine := s.trigger(s.workflow("fine", `{"key": "dies", "on_failure": "ignore", "execution": {"target": "simulate", "work_kind": "fail_permanent"}}`))
		s.ends(fine, "SUCCEEDED")
		s.trigger("key:gate")
		if n = <-got; n.Event != "approval_waiting" { // the node that died before would have been told of by now
			t.Errorf("told: %+v", n)
		}
	})
}

// The live feed tells of a run, also of what happens in it without an execution.
func TestWorkflowsAreLive(t *testing.T) {
	onEachStore(t, func(t *testing.T, where string) {
		s := serve(t, where)
		w := s.workflow("asks", `{"key": "ok", "wait": {"approval": {}}}`)
		r, _ := http.NewRequestWithContext(t.Context(), "GET", s.url+"/api/v1/events/stream", nil)
		r.Header.Set("Authorization", "Bearer "+key)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		lines := bufio.NewScanner(answer.Body)
		if !lines.Scan() { // it listens
			t.Fatal("the stream has ended")
		}
		run := s.trigger(w)
		next := func(status string) {
			t.Helper()
			for lines.Scan() {
				text, ok := strings.CutPrefix(lines.Text(), "data: ")
				var batch client.Changes
				if !ok || json.Unmarshal([]byte(text), &batch) != nil {
					continue
				}
				for _, c := range batch.Changes {
					if c.Type == "run.changed" && c.Status == status && c.WorkflowRunID == run && c.JobID == w {
						return
					}
				}
			}
			t.Fatalf("the stream has ended before the run was %s: %v", status, lines.Err())
		}
		next("RUNNING")
		want[client.Execution](s, 202, "POST", "/api/v1/executions/"+run+"/cancel", "")
		next("CANCELLED")
	})
}

// The sample workflow of the demonstration runs by itself until it waits for a person.
func TestDemoWorkflow(t *testing.T) {
	s := serve(t, "sqlite:"+filepath.Join(t.TempDir(), "c.db"), func(o *app.Options) { o.Dev, o.Demo = true, true })
	s.until("the sample workflow to wait for an approval", func() bool {
		for _, e := range want[client.Executions](s, 200, "GET", "/api/v1/executions?job_id=key:demo-workflow", "").Executions {
			why := want[client.Explanation](s, 200, "GET", "/api/v1/executions/"+e.ExecutionID+"/explain", "")
			if strings.HasPrefix(why.Summary, "The run waits for approval of approve since ") && strings.HasSuffix(why.Summary, "3 of 5 nodes have ended.") {
				return true
			}
		}
		return false
	})
}
