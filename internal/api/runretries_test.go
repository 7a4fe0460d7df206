package api_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// executionOf is the id of a node's execution.
func executionOf(t *testing.T, r client.WorkflowRun, key string) string {
	t.Helper()
	id := nodeOf(r, key).ExecutionID
	if id == nil {
		t.Fatalf("node %s has no execution: %s", key, encoded(r))
	}
	return *id
}

// To run the execution of a node again, or its dead letter, is to retry that node in its run.
func TestRetryingTheExecutionOfANode(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t))
		c := newCrew(f)
		j := want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "plain", "schedule": {"type": "MANUAL"}, "execution": {"target": "worker", "kind": "x"}, "retry_policy": {"max_retries": 0}}`)
		for name, nodes := range map[string]string{"inline": x("a") + "," + x("b", after("a")), "of a job": `{"key": "a", "job_id": "` + j.JobID + `"},` + x("b", after("a"))} {
			for verb, path := range map[string]string{"retry": "/api/v1/executions/%s/retry", "redrive": "/api/v1/dead-letters/%s/redrive"} {
				_, run := f.flow(nodes, `{}`)
				c.take(1)
				a := *nodeOf(f.stands(run, "RUNNING"), "a").ExecutionID
				if p := want[client.Problem](f, 409, "POST", fmt.Sprintf(path, a), ""); p.Code != "cannot_"+verb {
					t.Errorf("%s: to %s what runs: %s", name, verb, encoded(p))
				}
				c.report(c.held[0], "FAILED")
				c.held = nil
				f.stands(run, "FAILED")
				again := want[client.Triggered](f, 202, "POST", fmt.Sprintf(path, a), "")
				r := f.stands(run, "RUNNING", "b", "WAITING")
				if r.Attempt != 2 || executionOf(t, r, "a") != again.ExecutionID {
					t.Errorf("%s: the run after the %s: %s; answered with %s", name, verb, encoded(r), again.ExecutionID)
				}
				if e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+again.ExecutionID, ""); e.RetryOf == nil || *e.RetryOf != a {
					t.Errorf("%s: the new execution: %s", name, encoded(e))
				}
				if p := want[client.Problem](f, 409, "POST", "/api/v1/executions/"+a+"/retry", ""); p.Code != "cannot_retry" {
					t.Errorf("%s: a retry while the run is running: %s", name, encoded(p))
				}
				for range 2 {
					c.take(1)
					c.report(c.held[0], "SUCCEEDED")
					c.held = nil
				}
				f.stands(run, "SUCCEEDED", "a", "SUCCEEDED", "b", "SUCCEEDED")
				if p := want[client.Problem](f, 409, "POST", "/api/v1/dead-letters/"+a+"/redrive", ""); p.Code != "cannot_redrive" {
					t.Errorf("%s: a second redrive: %s", name, encoded(p))
				}
				if p := want[client.Problem](f, 422, "POST", "/api/v1/executions/"+a+"/retry", `{"payload_override": 1}`); p.Errors[0].Field != "payload_override" {
					t.Errorf("%s: another payload: %s", name, encoded(p))
				}
			}
		}
		if dead := want[client.DeadLetters](f, 200, "GET", "/api/v1/dead-letters", ""); len(dead.DeadLetters) != 0 {
			t.Errorf("dead letters are left: %s", encoded(dead))
		}
	})
}

// To run the execution of a run again, or its dead letter, is to retry the run.
func TestRetryingTheExecutionOfARun(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t))
		c := newCrew(f)
		_, run := f.flow(x("a")+","+x("b"), `{"input": {"day": 1}}`)
		c.take(2)
		c.end("a", "FAILED")
		c.end("b", "SUCCEEDED")
		f.stands(run, "FAILED")
		second := want[client.Triggered](f, 202, "POST", "/api/v1/dead-letters/"+run+"/redrive", "")
		if r := f.stands(run, "RUNNING", "b", "SUCCEEDED"); r.Attempt != 2 || r.ExecutionID != second.ExecutionID {
			t.Errorf("after the redrive: %s; answered with %s", encoded(r), second.ExecutionID)
		}
		c.take(1)
		c.end("a", "FAILED")
		f.stands(run, "FAILED")
		want[client.Triggered](f, 202, "POST", "/api/v1/executions/"+second.ExecutionID+"/retry", `{"payload_override": {"day": 2}}`)
		if r := f.stands(run, "RUNNING"); r.Attempt != 3 || string(r.Input) != `{"day":2}` {
			t.Errorf("after the retry: %s", encoded(r))
		}
		if all := want[client.WorkflowRuns](f, 200, "GET", "/api/v1/workflow-runs", ""); len(all.WorkflowRuns) != 1 {
			t.Errorf("the runs: %s", encoded(all))
		}
	})
}

// A retry or redrive that is repeated with its idempotency key is answered as the first time, and changes nothing.
func TestRepeatedRetriesOfRuns(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t))
		c := newCrew(f)
		for verb, path := range map[string]string{"retry": "/api/v1/executions/%s/retry", "redrive": "/api/v1/dead-letters/%s/redrive"} {
			for part, of := range map[string]func(run string) string{
				"node": func(run string) string { return executionOf(t, f.run(run), "a") },
				"run":  func(run string) string { return run },
			} {
				_, run := f.flow(x("a"), `{}`)
				c.take(1)
				c.end("a", "FAILED")
				f.stands(run, "FAILED")
				path, key := fmt.Sprintf(path, of(run)), []string{"X-Idempotency-Key", verb + part}
				first := want[client.Triggered](f, 202, "POST", path, "", key...)
				if again := want[client.Triggered](f, 202, "POST", path, "", key...); again != first {
					t.Errorf("%s of a %s: repeated, it answers %s, not %s", verb, part, encoded(again), encoded(first))
				}
				c.take(1)
				c.end("a", "FAILED")
				f.stands(run, "FAILED")
				if again := want[client.Triggered](f, 202, "POST", path, "", key...); again != first {
					t.Errorf("%s of a %s: repeated after its end, it answers %s, not %s", verb, part, encoded(again), encoded(first))
				}
				if r := f.stands(run, "FAILED"); r.Attempt != 2 {
					t.Errorf("%s of a %s: the run has %d attempts", verb, part, r.Attempt)
				}
				if other := want[client.Problem](f, 422, "POST", path, "{}", key...); other.Code != "idempotency_key_reused" {
					t.Errorf("%s of a %s: its key for another request: %s", verb, part, encoded(other))
				}
			}
		}
	})
}

// To redrive the dead letter of an item is to run the items again that did not succeed, also of a map that did.
func TestRedrivingAnItem(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t))
		c := newCrew(f)
		_, run := f.flow(x("m", `, "map": [1, 2, 3], "tolerate": 1`), `{}`)
		c.take(3)
		bad := c.held[0].ExecutionID
		c.report(c.held[0], "FAILED")
		c.report(c.held[1], "SUCCEEDED")
		c.report(c.held[2], "SUCCEEDED")
		c.held = nil
		f.stands(run, "SUCCEEDED")
		again := want[client.Triggered](f, 202, "POST", "/api/v1/dead-letters/"+bad+"/redrive", "")
		c.take(1)
		if c.held[0].ExecutionID != again.ExecutionID {
			t.Errorf("%s runs again; answered with %s", c.held[0].ExecutionID, again.ExecutionID)
		}
		c.end("m", "SUCCEEDED")
		if r := f.stands(run, "SUCCEEDED"); r.Attempt != 2 || nodeOf(r, "m").Map.Succeeded != 3 {
			t.Errorf("after the redrive: %s", encoded(r))
		}
	})
}

// A bulk redrive or retry of what failed in a run is one retry of the run.
func TestRedrivingARunInBulk(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		var svc *service.Service
		f := open(withRuns(t), func(c *api.Config, _ engine.Store) { svc = c.Service })
		c := newCrew(f)
		finish := func(op string) client.Operation {
			r := svc.Runner(slog.New(slog.DiscardHandler))
			for {
				if _, err := r.Tick(t.Context()); err != nil {
					t.Fatal(err)
				}
				if o := want[client.Operation](f, 200, "GET", "/api/v1/operations/"+op, ""); o.State != "RUNNING" {
					return o
				}
			}
		}
		_, run := f.flow(x("a")+","+x("b")+","+x("d"), `{}`)
		c.take(3)
		for _, key := range []string{"a", "b"} {
			c.end(key, "FAILED")
		}
		c.end("d", "SUCCEEDED")
		r := f.stands(run, "FAILED")
		body := fmt.Sprintf(`{"ids": [%q, %q]}`, executionOf(t, r, "a"), executionOf(t, r, "b"))
		if o := finish(want[client.Begun](f, 202, "POST", "/api/v1/dead-letters:redrive", body).OperationID); o.Done != 2 || o.Passed != 0 {
			t.Errorf("the redrive: %s", encoded(o))
		}
		c.take(2)
		c.end("a", "SUCCEEDED")
		c.end("b", "FAILED")
		if r := f.stands(run, "FAILED"); r.Attempt != 2 {
			t.Errorf("after the redrive: %s", encoded(r))
		}
		if o := finish(want[client.ExecutionBulkBegun](f, 202, "POST", "/api/v1/executions:bulk", `{"action": "retry", "filter": {"status": "FAILED"}}`).OperationID); o.State != "SUCCEEDED" {
			t.Errorf("the retry: %s", encoded(o))
		}
		c.take(1)
		c.end("b", "SUCCEEDED")
		if r := f.stands(run, "SUCCEEDED"); r.Attempt != 3 {
			t.Errorf("after the retry: %s", encoded(r))
		}
		if all := want[client.WorkflowRuns](f, 200, "GET", "/api/v1/workflow-runs", ""); len(all.WorkflowRuns) != 1 {
			t.Errorf("the runs: %s", encoded(all))
		}
	})
}

// A run that failed before it began, on its input, is listed, and runs once it gets another.
func TestRetryingARunThatNeverBegan(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t))
		c := newCrew(f)
		want[client.Workflow](f, 201, "POST", "/api/v1/workflows", `{"name": "w", "schedule": {"type": "IMMEDIATE"}, "input_schema": {"type": "object"}, "nodes": [`+x("a")+`]}`)
		var found client.WorkflowRuns
		f.until(func() bool {
			found = want[client.WorkflowRuns](f, 200, "GET", "/api/v1/workflow-runs?status=FAILED", "")
			return len(found.WorkflowRuns) == 1
		})
		r := found.WorkflowRuns[0]
		run := r.WorkflowRunID
		if r.Error == nil || r.Error.Type != "INPUT" || r.Version != 1 || r.WorkflowName != "w" || r.StartedAt != nil || r.FinishedAt == nil {
			t.Errorf("the run: %s", encoded(r))
		}
		at := "/api/v1/workflow-runs/" + run + "/retry"
		if p := want[client.Problem](f, 422, "POST", at, ""); p.Errors[0].Field != "input" {
			t.Errorf("the same input: %s", encoded(p))
		}
		if p := want[client.Problem](f, 422, "POST", at, `{"input": {}, "nodes": ["a"]}`); p.Errors[0].Field != "nodes" {
			t.Errorf("a retry of nodes: %s", encoded(p))
		}
		if r := want[client.WorkflowRunChanged](f, 200, "POST", at, `{"input": {}, "dry_run": true}`); len(r.Changes) != 1 || r.Status != "FAILED" {
			t.Errorf("a dry run: %s", encoded(r))
		}
		changed := want[client.WorkflowRunChanged](f, 200, "POST", at, `{"input": {}}`)
		if changed.WorkflowRunID != run || changed.Attempt != 2 || changed.ExecutionID == run || changed.Status != "RUNNING" {
			t.Errorf("another input: %s", encoded(changed))
		}
		c.take(1)
		c.end("a", "SUCCEEDED")
		f.stands(run, "SUCCEEDED")
		if e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+changed.ExecutionID, ""); e.RetryOf == nil || *e.RetryOf != run {
			t.Errorf("its execution: %s", encoded(e))
		}
		for list, n := range map[string]int{"": 1, "?status=FAILED": 0, "?status=SUCCEEDED": 1, "?workflow=" + r.WorkflowID: 1} {
			if all := want[client.WorkflowRuns](f, 200, "GET", "/api/v1/workflow-runs"+list, ""); len(all.WorkflowRuns) != n {
				t.Errorf("the runs %s: %s", list, encoded(all))
			}
		}
		if dead := want[client.DeadLetters](f, 200, "GET", "/api/v1/dead-letters", ""); len(dead.DeadLetters) != 0 {
			t.Errorf("dead letters are left: %s", encoded(dead))
		}
	})
}

// A run that waits to begin is listed, can be cancelled, and refuses what only a run that has begun can do.
func TestRunsThatWaitToBegin(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open() // nobody begins runs
		id, run := f.flow(x("a"), `{"input": 1}`)
		listed := func(status string) bool {
			for _, of := range []string{"", "&workflow=" + id} {
				all := want[client.WorkflowRuns](f, 200, "GET", "/api/v1/workflow-runs?status="+status+of, "")
				if len(all.WorkflowRuns) != 1 || all.WorkflowRuns[0].WorkflowRunID != run || all.WorkflowRuns[0].Status != status || all.WorkflowRuns[0].Version != 1 {
					t.Errorf("runs that are %s: %s", status, encoded(all))
					return false
				}
			}
			return true
		}
		listed("PENDING")
		at := "/api/v1/workflow-runs/" + run
		for path, code := range map[string]string{"/pause": "cannot_pause", "/unpause": "cannot_unpause", "/retry": "cannot_retry", "/nodes/a/skip": "cannot_skip"} {
			if p := want[client.Problem](f, 409, "POST", at+path, ""); p.Code != code || !strings.Contains(p.Detail, "PENDING") {
				t.Errorf("%s: %s", path, encoded(p))
			}
		}
		want[client.WorkflowRunChanged](f, 200, "POST", at+"/cancel", "")
		listed("CANCELLED")
		if all := want[client.WorkflowRuns](f, 200, "GET", "/api/v1/workflow-runs?status=PENDING", ""); len(all.WorkflowRuns) != 0 {
			t.Errorf("runs that are PENDING: %s", encoded(all))
		}
	})
}

// What is done to a run holds for the runs below it: a pause, its end, and a cancel with force.
func TestActsReachSubRuns(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t))
		c := newCrew(f)
		sub := want[client.Workflow](f, 201, "POST", "/api/v1/workflows", `{"name": "sub", "nodes": [`+x("a")+`,`+x("b", after("a"))+`,`+x("z", `, "finally": true`)+`]}`)
		_, run := f.flow(`{"key": "s", "job_id": "`+sub.WorkflowID+`"}`, `{}`)
		c.take(1)
		below := executionOf(t, f.run(run), "s")
		want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/pause", "")
		f.stands(below, "PAUSED")
		c.end("a", "SUCCEEDED")
		f.stands(below, "PAUSED", "a", "SUCCEEDED", "b", "WAITING")
		want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/unpause", "")
		f.stands(below, "RUNNING")
		c.take(1)
		want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/pause", "")
		f.stands(below, "PAUSED")
		want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/cancel", "")
		f.stands(below, "CANCELLING")
		c.end("b", "CANCELLED")
		f.stands(below, "CANCELLING", "z", "PENDING")
		want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/cancel", `{"force": true}`)
		f.stands(below, "CANCELLED", "z", "CANCELLED")
		f.stands(run, "CANCELLED")
	})
}

// An approval that asks for two people counts credentials, not names.
func TestTwoVotesOfOneName(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t), byName)
		ann, twin, viewer := []string{"Authorization", "ann operator 1"}, []string{"Authorization", "ann operator 2"}, []string{"Authorization", "vi viewer 3"}
		w := want[client.Workflow](f, 201, "POST", "/api/v1/workflows", `{"name": "w", "nodes": [{"key": "ok", "wait": {"approval": {"min": 2}}}, {"key": "no", "wait": {"approval": {"roles": ["admin"]}}}]}`, ann...)
		run := want[client.WorkflowTriggered](f, 202, "POST", "/api/v1/workflows/"+w.WorkflowID+"/trigger", "", ann...).WorkflowRunID
		f.until(func() bool { return has(f.run(run, ann...), "ok", "RUNNING", "no", "RUNNING") })
		at := "/api/v1/workflow-runs/" + run + "/nodes/"
		for _, act := range []string{"/approve", "/reject"} {
			want[client.Problem](f, 403, "POST", at+"ok"+act, "", viewer...)
			if p := want[client.Problem](f, 403, "POST", at+"no"+act, "", ann...); p.Code != "forbidden" {
				t.Errorf("%s by a role that is not asked: %s", act, encoded(p))
			}
		}
		want[client.WorkflowRunChanged](f, 200, "POST", at+"ok/approve", "", ann...)
		if p := want[client.Problem](f, 409, "POST", at+"ok/approve", "", ann...); p.Code != "already_decided" {
			t.Errorf("a second vote with one key: %s", encoded(p))
		}
		for _, who := range [][]string{ann, twin} {
			got := want[client.PendingApprovals](f, 200, "GET", "/api/v1/approvals", "", who...)
			if n := len(got.Approvals); (n == 1) != (who[1] == twin[1]) {
				t.Errorf("approvals of %s: %s", who[1], encoded(got))
			}
		}
		r := want[client.WorkflowRunChanged](f, 200, "POST", at+"ok/approve", "", twin...)
		if n := nodeOf(r.WorkflowRun, "ok"); n.Status != "SUCCEEDED" || n.Wait.Votes[len(n.Wait.Votes)-1].By != "ann" {
			t.Errorf("after two votes: %s", encoded(n))
		}
		admin := []string{"Authorization", "root admin 4"}
		want[client.WorkflowRunChanged](f, 200, "POST", at+"no/skip", "", admin...)
		p := want[client.Problem](f, 409, "POST", at+"no/reject", "", admin...)
		if p.Code != "cannot_reject" {
			t.Errorf("a rejection that comes too late: %s", encoded(p))
		}
	})
}

// The priority of a workflow is that of its inline nodes, however it is changed.
func TestThePriorityOfAWorkflow(t *testing.T) {
	f := newFace(t, withRuns(t))
	c := newCrew(f)
	w := want[client.Workflow](f, 201, "POST", "/api/v1/workflows", `{"name": "w", "nodes": [`+x("a")+`]}`)
	j := want[client.Job](f, 200, "PATCH", "/api/v1/jobs/"+w.WorkflowID, `{"priority": 9, "name": "v"}`)
	if j.Priority != 9 || j.Name != "v" {
		t.Errorf("the job: %s", encoded(j))
	}
	run := f.trigger(w.WorkflowID, `{}`)
	c.take(1)
	if e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+executionOf(t, f.run(run), "a"), ""); e.Priority != 9 {
		t.Errorf("the execution of the node: %s", encoded(e))
	}
}
