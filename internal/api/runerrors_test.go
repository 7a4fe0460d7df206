package api_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/workflows"
)

// broke checks that a node failed, and that the run, its explanation and the explanation of its execution say why: the type of the error
// alone, and what the message must hold.
func (f face) broke(r client.WorkflowRun, key, status, kind string, says ...string) {
	f.Helper()
	n := nodeOf(r, key)
	if n.Status != status || n.Error == nil || n.Error.Type != kind || !strings.HasPrefix(n.Reason, kind+": ") {
		f.Errorf("%s: %s; want %s by %s", key, encoded(n), status, kind)
		return
	}
	why := want[client.WorkflowRunExplanation](f, 200, "GET", "/api/v1/workflow-runs/"+r.WorkflowRunID+"/explain", "")
	i := slices.IndexFunc(why.Nodes, func(n client.WorkflowNodeExplanation) bool { return n.Key == key })
	own := want[client.Explanation](f, 200, "GET", "/api/v1/executions/"+r.ExecutionID+"/explain", "")
	k := slices.IndexFunc(own.Details.Nodes, func(n client.WorkflowNodeExplanation) bool { return n.Key == key })
	if i < 0 || k < 0 || why.Nodes[i].Summary != n.Reason || own.Details.Nodes[k].Summary != n.Reason && kind != "REJECTED" {
		f.Errorf("%s is explained otherwise: %s and %s; want %q", key, encoded(why.Nodes), encoded(own.Details.Nodes), n.Reason)
	}
	for _, s := range says {
		if !strings.Contains(n.Error.Message, s) {
			f.Errorf("%s: %q; want %q in it", key, n.Error.Message, s)
		}
	}
}

// item reads one item of a map.
func (f face) item(run, key string, index int) client.WorkflowRunItem {
	f.Helper()
	for _, i := range want[client.WorkflowRunItems](f, 200, "GET", "/api/v1/workflow-runs/"+run+"/nodes/"+key+"/items", "").Items {
		if i.Index == index {
			return i
		}
	}
	f.Fatalf("%s has no item %d", key, index)
	return client.WorkflowRunItem{}
}

// A node that fails says what is wrong, where, and what would be right, whether it had an execution or not.
func TestNodesSayWhyTheyFailed(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t))
		c := newCrew(f)
		http := func(key, more string) string {
			return fmt.Sprintf(`{"key": %q, "execution": {"target": "http", "callback_url": "https://example.com/"%s}}`, key, more)
		}
		_, run := f.flow(strings.Join([]string{
			x("cond", `, "if": "run.input.five"`), x("list", `, "map": "run.input.text"`), x("many", `, "map": "run.input.half"`),
			`{"key": "tmpl", "execution": {"target": "worker", "kind": "x", "payload": {"v": "{{ run.input.text * 2 }}"}}}`,
			`{"key": "url", "execution": {"target": "http", "callback_url": "{{ run.input.text }}"}}`,
			http("header", `, "headers": {"X-Day": "{{ run.input.lines }}"}`),
			`{"key": "each", "map": "run.input.items", "tolerate": 1, "execution": {"target": "worker", "kind": "x", "payload": {"v": "{{ item * 2 }}"}}}`,
			`{"key": "lost", "map": 2, "tolerate": 0, "max_parallel": 1, "execution": {"target": "worker", "kind": "x"}, "retry_policy": {"max_retries": 0}}`,
			`{"key": "ok", "wait": {"approval": {}}}`, `{"key": "late", "wait": {"event": "never"}, "timeout": "1s"}`, `{"key": "match", "wait": {"event": "e", "match": "run.input.text * 2"}}`,
			x("bad"), x("below", after("bad")),
		}, ","), `{"input": {"five": 5, "half": 1.5, "text": "abc", "lines": "a\nb", "items": [1, "two"]}}`)
		c.take(3) // an item of each, one of lost, bad
		c.end("each", "SUCCEEDED")
		c.end("lost", "FAILED")
		c.end("bad", "FAILED")
		want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/nodes/ok/reject", `{"comment": "not today"}`)
		r := f.stands(run, "FAILED", "late", "TIMED_OUT")
		f.broke(r, "cond", "FAILED", "EXPRESSION", "if: `run.input.five` gives the number 5; want true, false or null")
		f.broke(r, "list", "FAILED", "MAP_NOT_A_LIST", "map: `run.input.text` gives the string \"abc\"; want a list")
		f.broke(r, "many", "FAILED", "MAP_NOT_A_LIST", "the number 1.5", "a whole number")
		f.broke(r, "tmpl", "FAILED", "EXPRESSION", "execution: payload: `run.input.text * 2`")
		f.broke(r, "url", "FAILED", "EXPRESSION", "node url", "execution.callback_url", "http")
		f.broke(r, "header", "FAILED", "EXPRESSION", "node header", `headers["X-Day"]`)
		f.broke(r, "lost", "FAILED", "MAP_FAILED", "1 of 2 items failed, 0 are tolerated")
		f.broke(r, "ok", "FAILED", "REJECTED", "rejected by ", "not today")
		f.broke(r, "late", "TIMED_OUT", "TIMEOUT", "nothing released the wait within its timeout of 1s")
		f.broke(r, "match", "FAILED", "EXPRESSION", "wait.match")
		f.broke(r, "bad", "FAILED", "HANDLER_ERROR", "it broke")
		for _, key := range []string{"cond", "list", "tmpl", "url", "header", "ok", "late", "match"} {
			if n := nodeOf(r, key); n.ExecutionID != nil {
				t.Errorf("%s has an execution: %s", key, encoded(n))
			}
		}
		e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+*nodeOf(r, "bad").ExecutionID, "")
		if got := nodeOf(r, "bad").Error; e.Error == nil || *got != *e.Error {
			t.Errorf("bad: %+v; its execution says %+v", got, e.Error)
		}
		if n := nodeOf(r, "below"); n.Error != nil || n.Reason != "not run because of bad (FAILED) (trigger all_success)" {
			t.Errorf("below: %s", encoded(n))
		}
		if n := nodeOf(r, "each"); n.Status != "SUCCEEDED" || n.Error != nil {
			t.Errorf("each: %s", encoded(n))
		}
		if i := f.item(run, "each", 1); i.Status != "FAILED" || i.ExecutionID != nil || i.Error == nil || i.Error.Type != "EXPRESSION" || !strings.Contains(i.Error.Message, "execution of item 1") {
			t.Errorf("an item that did not start: %s", encoded(i))
		}
		if i := f.item(run, "each", 0); i.Error != nil {
			t.Errorf("a good item: %s", encoded(i))
		}
		if i := f.item(run, "lost", 0); i.Status != "FAILED" || i.ExecutionID == nil || i.Error == nil || i.Error.Type != "HANDLER_ERROR" || i.Error.Message != "it broke" {
			t.Errorf("an item that failed: %s", encoded(i))
		}
		if i := f.item(run, "lost", 1); i.Status != "NOT_RUN" || i.Error != nil {
			t.Errorf("an item that did not run: %s", encoded(i))
		}
	})
}

// Nodes below see what the API shows, also of nodes without an execution.
func TestExpressionsSeeWhyNodesFailed(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t))
		c := newCrew(f)
		_, run := f.flow(`{"key": "ok", "wait": {"approval": {}}, "on_failure": "handle"},`+x("m", `, "map": "run.input", "on_failure": "handle"`)+`,
			{"key": "h", "depends_on": ["ok", "m"], "trigger": "all_failed", "execution": {"target": "worker", "kind": "x", "payload": {"ok": "{{ nodes.ok.error.type }}", "m": "{{ nodes.m.error.type }}"}}}`,
			`{"input": "none"}`, `, "output": "nodes.ok.error"`)
		f.stands(run, "RUNNING", "ok", "RUNNING")
		want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/nodes/ok/reject", `{}`)
		c.take(1)
		if got := strings.ReplaceAll(string(c.held[0].Payload), " ", ""); got != `{"ok":"REJECTED","m":"MAP_NOT_A_LIST"}` && got != `{"m":"MAP_NOT_A_LIST","ok":"REJECTED"}` {
			t.Errorf("the handler got %s", got)
		}
		c.end("h", "SUCCEEDED")
		if r := f.stands(run, "SUCCEEDED"); !strings.Contains(string(r.Output), "REJECTED") {
			t.Errorf("the output is %s", r.Output)
		}
	})
}

// What is too large fails the node that has it or reads it, and nothing else.
func TestLargeValuesInRuns(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t, func(c *workflows.Config) {
			c.Limits = func(context.Context, tenant.ID) (workflows.Limits, error) {
				return workflows.Limits{Width: 3, Payload: 64 << 10}, nil
			}
		}))
		c := newCrew(f)
		_, run := f.flow(strings.Join([]string{
			x("a"), x("b"), x("reads", after("a,b"), `, "if": "nodes.a.result != nodes.b.result"`), x("one", after("a"), `, "if": "nodes.a.result != nil"`),
			`{"key": "pays", "depends_on": ["a"], "execution": {"target": "worker", "kind": "x", "payload": "{{ nodes.a.result }}"}}`,
			`{"key": "some", "depends_on": ["a"], "map": 2, "tolerate": 1, "execution": {"target": "worker", "kind": "x", "payload": "{{ index == 0 ? nodes.a.result : 1 }}"}}`,
			x("wide", `, "map": "run.input"`),
		}, ","), `{"input": [1, 2, 3, 4]}`)
		c.take(2)
		large := `"` + strings.Repeat("x", 600<<10) + `"`
		c.end("a", large)
		c.end("b", strings.Replace(large, "x", "y", 1))
		c.take(2) // one, and an item of some
		c.end("one", "SUCCEEDED")
		c.end("some", "SUCCEEDED")
		r := f.stands(run, "FAILED", "one", "SUCCEEDED", "a", "SUCCEEDED", "b", "SUCCEEDED", "some", "SUCCEEDED")
		f.broke(r, "reads", "FAILED", "INPUT_TOO_LARGE", "more than 1048576 bytes together", "artifacts")
		f.broke(r, "pays", "FAILED", "PAYLOAD_TOO_LARGE", "node pays", "at most 65536")
		f.broke(r, "wide", "FAILED", "MAP_TOO_WIDE", "4 items", "at most 3")
		if i := f.item(run, "some", 0); i.Status != "FAILED" || i.Error == nil || i.Error.Type != "PAYLOAD_TOO_LARGE" || !strings.Contains(i.Error.Message, "item 0 of node some") {
			t.Errorf("an item with a large payload: %s", encoded(i))
		}
	})
}

// A worker is told at once that a result is too large, and the node ends as the worker says then.
func TestResultsAreBounded(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t))
		c := newCrew(f)
		_, run := f.flow(x("a")+","+x("b", after("a")), "")
		c.take(1)
		o := client.Outcome{ExecutionID: c.held[0].ExecutionID, FencingToken: c.held[0].FencingToken, Status: "SUCCEEDED", Result: []byte(`"` + strings.Repeat("x", workflow.MaxValue) + `"`)}
		p := want[client.Problem](f, 422, "POST", "/api/v1/workers/"+c.session.WorkerID+"/complete", encoded(client.CompleteRequest{Outcomes: []client.Outcome{o}}), c.by...)
		if p.Errors[0].Field != "outcomes[0].result" || !strings.Contains(p.Errors[0].Want, "at most 1048576 bytes") {
			t.Errorf("a result that is too large: %s", encoded(p))
		}
		c.end("a", "FAILED")
		f.broke(f.stands(run, "FAILED", "b", "NOT_RUN"), "a", "FAILED", "HANDLER_ERROR")
	})
}

// A retry that goes on with an old version whose job has been deleted since fails that node, and says so.
func TestARetryWithADeletedJob(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t))
		c := newCrew(f)
		j := want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"key": "old", "name": "old", "schedule": {"type": "MANUAL"}, "execution": {"target": "worker", "kind": "x"}, "retry_policy": {"max_retries": 0}}`)
		id, run := f.flow(`{"key": "n", "job_id": "key:old"}, {"key": "m", "map": 1, "job_id": "key:old"}`, "")
		c.take(2)
		for _, a := range c.held {
			c.report(a, "FAILED")
		}
		c.held = nil
		f.stands(run, "FAILED")
		if p := want[client.Problem](f, 409, "DELETE", "/api/v1/jobs/"+j.JobID, ""); p.Code != "in_use" || !strings.Contains(p.Detail, `"w"`) {
			t.Errorf("deleting a used job: %s", encoded(p))
		}
		want[client.Workflow](f, 200, "PATCH", "/api/v1/workflows/"+id, `{"nodes": [`+x("n")+`]}`)
		want[client.Job](f, 200, "DELETE", "/api/v1/jobs/"+j.JobID, "")
		want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/retry", `{}`)
		r := f.stands(run, "FAILED", "n", "FAILED", "m", "FAILED")
		if r.Attempt != 2 {
			t.Errorf("retried: %s", encoded(r))
		}
		f.broke(r, "n", "FAILED", "JOB_DELETED", "node n", "deleted")
		if i := f.item(run, "m", 0); i.Error == nil || i.Error.Type != "JOB_DELETED" || !strings.Contains(i.Error.Message, "item 0 of node m") {
			t.Errorf("its item: %s", encoded(i))
		}
		want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/retry", `{"version": "latest"}`)
		c.take(1)
		c.end("n", "SUCCEEDED")
		if r := f.stands(run, "SUCCEEDED"); len(r.Nodes) != 1 || r.Nodes[0].Error != nil || r.Nodes[0].Reason != "" {
			t.Errorf("on the latest version: %s", encoded(r))
		}
	})
}

// A node whose execution somebody cancels makes the run fail, and finally nodes see that.
func TestARunFailsByACancelledNode(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t))
		c := newCrew(f)
		_, run := f.flow(x("a")+","+x("z", `, "finally": true, "if": "run.failed && run.status == 'FAILED'"`), "")
		c.take(1)
		want[client.Execution](f, 202, "POST", "/api/v1/executions/"+c.held[0].ExecutionID+"/cancel", "")
		c.end("a", "CANCELLED")
		c.take(1)
		c.end("z", "SUCCEEDED")
		f.broke(f.stands(run, "FAILED", "z", "SUCCEEDED"), "a", "CANCELLED", "CANCELLED")

		// A run that is cancelled is not one that failed.
		_, run = f.flow(x("a")+","+x("z", `, "finally": true, "if": "run.failed"`), "")
		c.take(1)
		want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/cancel", `{}`)
		c.end("a", "CANCELLED")
		f.broke(f.stands(run, "CANCELLED", "z", "SKIPPED"), "a", "CANCELLED", "CANCELLED")
	})
}

// What the contract shows of a run is there from the start.
func TestRunsHaveAllTheirFields(t *testing.T) {
	f := newFace(t, withRuns(t))
	_, run := f.flow(`{"key": "nap", "wait": {"timer": "1h"}}`, "")
	f.stands(run, "RUNNING", "nap", "RUNNING")
	text := strings.ReplaceAll(f.ask("GET", "/api/v1/workflow-runs/"+run, "").Body.String(), " ", "")
	for _, field := range []string{`"input":null`, `"output":null`, `"critical_path":[]`, `"error":null`, `"execution_id":null`, `"finished_at":null`} {
		if !strings.Contains(text, field) {
			t.Errorf("%s is not in %s", field, text)
		}
	}
	want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/cancel", `{}`)
	if r := f.stands(run, "CANCELLED"); nodeOf(r, "nap").FinishedAt == nil || time.Since(*nodeOf(r, "nap").StartedAt) < 0 {
		t.Errorf("cancelled: %s", encoded(r))
	}
}
