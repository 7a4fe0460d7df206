package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	core "github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/internal/dispatch"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
	"github.com/carillon-jobs/carillon/internal/workflows"
)

// withRuns has a face begin and advance runs, as a server does.
func withRuns(t testing.TB, change ...func(*workflows.Config)) func(*api.Config, engine.Store) {
	return func(c *api.Config, store engine.Store) {
		var flows *workflows.Runner
		c.Dispatch = dispatch.New(store, clock.System{}, c.Logger, dispatch.Config{LeaseTTL: 30 * time.Second, Poll: 20 * time.Millisecond, Marked: func(ids ...core.ExecutionID) { flows.Advance(ids...) }, Tokens: func() { flows.Tokens() }})
		c.Delivery = delivery.New(c.Dispatch, c.Logger, c.Secrets.Step)
		cfg := workflows.Config{Hint: c.Dispatch.Offer, Settled: c.Dispatch.Settled, Refuse: service.RefusePayload, Log: c.Logger}
		for _, change := range change {
			change(&cfg)
		}
		flows = workflows.New(store, clock.System{}, cfg)
		c.Service = service.New(store, clock.System{}, service.Config{LookAhead: 5 * time.Second, Hint: c.Dispatch.Offer, Nudge: flows.Look, Secrets: c.Secrets, Runs: flows})
		keepRuns(t, flows, c.Dispatch)
	}
}

// keepRuns begins and advances runs until the test ends.
func keepRuns(t testing.TB, flows *workflows.Runner, d *dispatch.Dispatcher) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { flows.Run(ctx) })
	wg.Go(func() { flows.RunDependencies(ctx) })
	wg.Go(func() { flows.Begin(ctx, d, "h", "test") })
	t.Cleanup(func() { cancel(); wg.Wait() })
}

// crew is the worker of every node of kind x.
type crew struct {
	face
	session client.Session
	by      []string
	held    []client.Attempt
}

func newCrew(f face) *crew {
	f.Helper()
	c := &crew{face: f}
	c.session = want[client.Session](f, 201, "POST", "/api/v1/workers", `{"kinds": ["x"], "capacity": 1000}`)
	c.by = []string{"X-Worker-Session", c.session.Session}
	return c
}

// take claims until so many are held.
func (c *crew) take(n int) {
	c.Helper()
	for deadline := time.Now().Add(2 * time.Minute); len(c.held) < n; {
		if time.Now().After(deadline) {
			c.Fatalf("%d are held, want %d", len(c.held), n)
		}
		got := want[client.Claimed](c.face, 200, "POST", "/api/v1/workers/"+c.session.WorkerID+"/claim", `{"max": 1000, "wait_seconds": 1}`, c.by...)
		c.held = append(c.held, got.Attempts...)
	}
}

// node is the key of the node that an attempt runs.
func node(a client.Attempt) string {
	_, key, _ := strings.Cut(a.JobName, "/")
	return key
}

// end reports the outcome of the first attempt that is held of a node.
func (c *crew) end(key, outcome string) {
	c.Helper()
	for i, a := range c.held {
		if node(a) == key {
			c.held = append(c.held[:i:i], c.held[i+1:]...)
			c.report(a, outcome)
			return
		}
	}
	c.Fatalf("no attempt of %s is held", key)
}

// report reports an outcome: a status, or the JSON of a result.
func (c *crew) report(a client.Attempt, outcome string) {
	c.Helper()
	o := client.Outcome{ExecutionID: a.ExecutionID, FencingToken: a.FencingToken, Status: outcome}
	switch outcome {
	case "SUCCEEDED", "CANCELLED":
	case "FAILED":
		o.Error = &client.Error{Type: "HANDLER_ERROR", Message: "it broke"}
	default:
		o.Status, o.Result = "SUCCEEDED", json.RawMessage(outcome)
	}
	v := want[client.Verdicts](c.face, 200, "POST", "/api/v1/workers/"+c.session.WorkerID+"/complete", encoded(client.CompleteRequest{Outcomes: []client.Outcome{o}}), c.by...)
	if v.Verdicts[0].Verdict != client.Accepted {
		c.Fatalf("%s: %+v", a.JobName, v)
	}
}

// run reads a run.
func (f face) run(id string, headers ...string) client.WorkflowRun {
	f.Helper()
	return want[client.WorkflowRun](f, 200, "GET", "/api/v1/workflow-runs/"+id, "", headers...)
}

// stands waits until a run, and nodes of it given as key and status, stand so, and returns the run.
func (f face) stands(id, status string, nodes ...string) client.WorkflowRun {
	f.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		r := f.run(id)
		if r.Status == status && has(r, nodes...) {
			return r
		}
		if time.Now().After(deadline) {
			f.Fatalf("the run is not %s with %v: %s", status, nodes, encoded(r))
		}
	}
}

// until waits until something holds.
func (f face) until(holds func() bool) {
	f.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.Fatal("it never held")
		}
	}
}

func has(r client.WorkflowRun, nodes ...string) bool {
	for i := 0; i+1 < len(nodes); i += 2 {
		if n := nodeOf(r, nodes[i]); n.Status != nodes[i+1] {
			return false
		}
	}
	return true
}

func nodeOf(r client.WorkflowRun, key string) client.WorkflowRunNode {
	for _, n := range r.Nodes {
		if n.Key == key {
			return n
		}
	}
	return client.WorkflowRunNode{}
}

// flow makes a workflow of nodes, and begins a run.
func (f face) flow(nodes, input string, rest ...string) (workflow, run string) {
	f.Helper()
	w := want[client.Workflow](f, 201, "POST", "/api/v1/workflows", fmt.Sprintf(`{"name": "w", "nodes": [%s]%s}`, nodes, strings.Join(rest, "")))
	return w.WorkflowID, f.trigger(w.WorkflowID, input)
}

func (f face) trigger(workflow, input string) string {
	f.Helper()
	return want[client.WorkflowTriggered](f, 202, "POST", "/api/v1/workflows/"+workflow+"/trigger", input).WorkflowRunID
}

// x is a node that the crew runs.
func x(key string, more ...string) string {
	return fmt.Sprintf(`{"key": %q, "execution": {"target": "worker", "kind": "x"}, "retry_policy": {"max_retries": 0}%s}`, key, strings.Join(more, ""))
}

func after(keys string) string {
	return `, "depends_on": ["` + strings.ReplaceAll(keys, ",", `", "`) + `"]`
}

func TestRunsOverHTTP(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t))
		c := newCrew(f)
		id, run := f.flow(x("a")+","+x("b", after("a"))+","+x("m", after("a"), `, "map": "nodes.a.result", "max_parallel": 2`)+","+x("z", `, "finally": true`), `{"input": {"day": 1}}`, `, "output": "nodes.a.result"`)
		c.take(1)
		r := f.stands(run, "RUNNING", "a", "RUNNING")
		if r.WorkflowID != id || r.WorkflowName != "w" || r.Attempt != 1 || r.Version != 1 || string(r.Input) != `{"day": 1}` && string(r.Input) != `{"day":1}` || r.StartedAt == nil || r.ExecutionID != run {
			t.Errorf("begun: %+v", r)
		}
		if n := nodeOf(r, "b"); n.Status != "WAITING" || n.Reason != "waits for parent a" || n.ExecutionID != nil {
			t.Errorf("b: %+v", n)
		}
		if a := nodeOf(r, "a"); a.ExecutionID == nil || *a.ExecutionID != c.held[0].ExecutionID || a.StartedAt == nil {
			t.Errorf("a: %+v", a)
		}
		if e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+run, ""); e.Status != "RUNNING" {
			t.Errorf("its execution: %+v", e)
		}

		// Paused: what ends ends, nothing starts.
		dry := want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/pause", `{"dry_run": true}`)
		if dry.Status != "RUNNING" {
			t.Errorf("a dry run paused: %+v", dry)
		}
		if p := want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/pause", ``); p.Status != "PAUSED" {
			t.Errorf("paused: %+v", p)
		}
		if e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+run, ""); e.Status != "RUNNING" {
			t.Errorf("its execution while it is paused: %+v", e)
		}
		c.end("a", `["p", "q", "r"]`)
		r = f.stands(run, "PAUSED", "a", "SUCCEEDED", "b", "WAITING", "m", "WAITING")
		for nodeOf(r, "b").Reason != "held: the run is paused" { // once the run knows that a has ended
			r = f.run(run)
		}
		dry = want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/unpause", `{"dry_run": true}`)
		if len(dry.Changes) != 2 || *dry.Changes[0].From != "WAITING" || *dry.Changes[0].To != "PENDING" || dry.Status != "PAUSED" {
			t.Errorf("a dry unpause: %s", encoded(dry))
		}
		if u := want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/unpause", `{}`); u.Status != "RUNNING" || !has(u.WorkflowRun, "b", "PENDING", "m", "RUNNING") {
			t.Errorf("unpaused: %s", encoded(u))
		}
		c.take(3)
		items := want[client.WorkflowRunItems](f, 200, "GET", "/api/v1/workflow-runs/"+run+"/nodes/m/items", "")
		if len(items.Items) != 3 || items.Items[0].Status != "RUNNING" || items.Items[0].ExecutionID == nil || items.Items[2].Status != "WAITING" || items.Items[2].ExecutionID != nil || items.Pagination.Total != 3 {
			t.Errorf("items: %s", encoded(items))
		}
		if page := want[client.WorkflowRunItems](f, 200, "GET", "/api/v1/workflow-runs/"+run+"/nodes/m/items?limit=2", ""); len(page.Items) != 2 || page.Pagination.NextCursor == nil || *page.Pagination.NextCursor != "2" {
			t.Errorf("a page: %s", encoded(page))
		}
		if some := want[client.WorkflowRunItems](f, 200, "GET", "/api/v1/workflow-runs/"+run+"/nodes/m/items?status=waiting", ""); len(some.Items) != 1 || some.Items[0].Index != 2 {
			t.Errorf("those that wait: %s", encoded(some))
		}
		wider := want[client.WorkflowRunChanged](f, 200, "PATCH", "/api/v1/workflow-runs/"+run+"/nodes/m", `{"max_parallel": 3, "tolerate": 1}`)
		if m := nodeOf(wider.WorkflowRun, "m").Map; m == nil || m.Running != 3 || m.Total != 3 {
			t.Errorf("a wider map: %+v", m)
		}
		c.take(4)
		c.end("m", "FAILED")
		c.end("m", "SUCCEEDED")
		c.end("m", "SUCCEEDED")
		c.end("b", "FAILED")
		c.take(1)
		c.end("z", "SUCCEEDED")
		r = f.stands(run, "FAILED", "a", "SUCCEEDED", "b", "FAILED", "m", "SUCCEEDED", "z", "SUCCEEDED")
		if r.FinishedAt == nil || r.Error == nil || !strings.Contains(r.Error.Message, "b is FAILED") || len(r.CriticalPath) == 0 || r.CriticalPath[0] != "a" {
			t.Errorf("ended: %s", encoded(r))
		}
		why := want[client.WorkflowRunExplanation](f, 200, "GET", "/api/v1/workflow-runs/"+run+"/explain", "")
		if !strings.Contains(why.Summary, "b (FAILED)") {
			t.Errorf("why: %s", encoded(why))
		}

		// Retried, it is the same run, and its execution another.
		was := *nodeOf(r, "b").ExecutionID
		dry = want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/retry", `{"dry_run": true}`)
		if len(dry.Changes) != 2 || dry.Changes[0].Node != "b" || dry.Changes[1].Node != "z" || dry.Status != "FAILED" {
			t.Errorf("a dry retry: %s", encoded(dry))
		}
		again := want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/retry", `{}`)
		if again.WorkflowRunID != run || again.Attempt != 2 || again.ExecutionID == run || again.Status != "RUNNING" || len(again.Changes) != 2 {
			t.Errorf("retried: %s", encoded(again))
		}
		if e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+again.ExecutionID, ""); e.RetryOf == nil || *e.RetryOf != run || e.Status != "RUNNING" {
			t.Errorf("its second execution: %+v", e)
		}
		c.take(1)
		if by := f.run(again.ExecutionID); by.WorkflowRunID != run || *nodeOf(by, "b").ExecutionID == was {
			t.Errorf("by its second execution: %s", encoded(by))
		}
		if e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+c.held[0].ExecutionID, ""); e.RetryOf == nil || *e.RetryOf != was || e.Trigger != "workflow" {
			t.Errorf("the second execution of b: %s", encoded(e))
		}
		c.end("b", "SUCCEEDED")
		c.take(1)
		c.end("z", "SUCCEEDED")
		r = f.stands(run, "SUCCEEDED")
		if string(r.Output) != `["p","q","r"]` && string(r.Output) != `["p", "q", "r"]` {
			t.Errorf("output: %s", r.Output)
		}
		p := want[client.Problem](f, 409, "POST", "/api/v1/workflow-runs/"+run+"/retry", `{}`)
		if p.Code != "cannot_retry" {
			t.Errorf("retrying what succeeded: %+v", p)
		}
		p = want[client.Problem](f, 409, "POST", "/api/v1/workflow-runs/"+run+"/cancel", `{}`)
		if p.Code != "cannot_cancel" {
			t.Errorf("cancelling what succeeded: %+v", p)
		}

		// The list.
		other := f.trigger(id, "")
		c.take(1)
		list := want[client.WorkflowRuns](f, 200, "GET", "/api/v1/workflow-runs?workflow="+id, "")
		if len(list.WorkflowRuns) != 2 || list.WorkflowRuns[0].WorkflowRunID != other || list.WorkflowRuns[1].Status != "SUCCEEDED" || list.WorkflowRuns[1].Nodes != nil {
			t.Errorf("listed: %s", encoded(list))
		}
		if list := want[client.WorkflowRuns](f, 200, "GET", "/api/v1/workflow-runs?status=succeeded,failed", ""); len(list.WorkflowRuns) != 1 || list.WorkflowRuns[0].WorkflowRunID != run {
			t.Errorf("those that ended: %s", encoded(list))
		}
	})
}

func TestCancelsOfRuns(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t))
		c := newCrew(f)
		for _, by := range []string{"/api/v1/workflow-runs/%s/cancel", "/api/v1/executions/%s/cancel"} {
			_, run := f.flow(x("a")+","+x("b", after("a"))+","+x("z", `, "finally": true`), "")
			c.take(1)
			w := f.ask("POST", fmt.Sprintf(by, run), `{"reason": "wrong day"}`)
			if w.Code/100 != 2 {
				t.Fatalf(by+": %d %s", run, w.Code, w.Body)
			}
			r := f.run(run) // an act has been applied when it is answered
			if r.Status != "CANCELLING" || !has(r, "a", "CANCELLING", "b", "NOT_RUN", "z", "WAITING") {
				t.Errorf(by+": %s", run, encoded(r))
			}
			if e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+run, ""); e.Status != "CANCELLING" {
				t.Errorf(by+": its execution is %s", run, e.Status)
			}
			c.end("a", "CANCELLED")
			c.take(1)
			c.end("z", "SUCCEEDED")
			f.stands(run, "CANCELLED", "a", "CANCELLED", "b", "NOT_RUN", "z", "SUCCEEDED")
			if e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+run, ""); e.Status != "CANCELLED" {
				t.Errorf(by+": its execution is %s", run, e.Status)
			}
		}
	})
}

// tardy does not find a run the first time, as if it began just after that.
type tardy struct {
	engine.Store
	misses atomic.Bool
}

func (s *tardy) WorkflowRun(ctx context.Context, t tenant.ID, id core.ExecutionID) (engine.WorkflowRun, error) {
	if s.misses.CompareAndSwap(true, false) {
		return engine.WorkflowRun{}, engine.ErrNotFound
	}
	return s.Store.WorkflowRun(ctx, t, id)
}

// A run that begins and ends while it is read is not told to have ended without beginning.
func TestARunThatBeginsWhileItIsRead(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		s := &tardy{}
		f := open(func(c *api.Config, store engine.Store) {
			s.Store = store
			withRuns(t)(c, s)
		})
		_, id := f.flow(`{"key": "nap", "wait": {"timer": "1ms"}}`, `{"input": {"n": 1}}`, `, "output": "run.input.n"`)
		f.stands(id, "SUCCEEDED")
		s.misses.Store(true)
		if r := f.run(id); string(r.Output) != "1" || nodeOf(r, "nap").Status != "SUCCEEDED" || s.misses.Load() {
			t.Errorf("it was read as %s", encoded(r))
		}
	})
}

func TestApprovalsAndEvents(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t))
		_, run := f.flow(`{"key": "ok", "wait": {"approval": {"roles": ["operator"], "schema": {"type": "object", "required": ["why"]}}}, "timeout": "1h"},
			{"key": "two", "wait": {"approval": {"min": 2}}}, {"key": "no", "wait": {"approval": {}}},
			{"key": "paid", "wait": {"event": "order.paid", "match": "run.input.order"}}, {"key": "any", "wait": {"event": "order.paid"}}, {"key": "nap", "wait": {"timer": "1h"}}`, `{"input": {"order": "A-17"}}`)
		r := f.stands(run, "RUNNING", "ok", "RUNNING")
		if w := nodeOf(r, "ok").Wait; w == nil || w.Kind != "approval" || w.Until == nil || len(w.Roles) != 1 || w.Min != 1 || w.Schema == nil {
			t.Errorf("ok waits: %s", encoded(w))
		}
		if w := nodeOf(r, "nap").Wait; w == nil || w.Kind != "timer" || w.Until == nil {
			t.Errorf("nap waits: %s", encoded(w))
		}
		list := want[client.PendingApprovals](f, 200, "GET", "/api/v1/approvals", "")
		if len(list.Approvals) != 3 || list.Approvals[0].WorkflowRunID != run || list.Approvals[0].Node != "ok" || list.Approvals[0].WorkflowName != "w" || list.Approvals[1].Min != 2 ||
			list.Approvals[0].Schema == nil || list.Approvals[0].Roles[0] != "operator" || list.Approvals[1].Schema != nil || len(list.Approvals[1].Roles) != 0 {
			t.Errorf("approvals: %s", encoded(list))
		}
		at := "/api/v1/workflow-runs/" + run + "/nodes/"
		if p := want[client.Problem](f, 422, "POST", at+"ok/approve", `{"data": {}}`); p.Errors[0].Field != "data" || !strings.Contains(p.Detail, "why") {
			t.Errorf("data that does not fit: %s", encoded(p))
		}
		dry := want[client.WorkflowRunChanged](f, 200, "POST", at+"ok/approve", `{"data": {"why": 1}, "dry_run": true}`)
		if len(dry.Changes) != 1 || dry.Changes[0].Node != "ok" || *dry.Changes[0].To != "SUCCEEDED" || nodeOf(dry.WorkflowRun, "ok").Status != "RUNNING" {
			t.Errorf("a dry approval: %s", encoded(dry))
		}
		done := want[client.WorkflowRunChanged](f, 200, "POST", at+"ok/approve", `{"data": {"why": 1}, "comment": "go"}`)
		if n := nodeOf(done.WorkflowRun, "ok"); n.Status != "SUCCEEDED" || len(n.Wait.Votes) != 1 || n.Wait.Votes[0].Comment != "go" || n.StartedAt == nil || n.FinishedAt == nil {
			t.Errorf("approved: %s", encoded(n))
		}
		if p := want[client.Problem](f, 409, "POST", at+"ok/reject", `{}`); p.Code != "already_decided" || !strings.Contains(p.Detail, done.Nodes[0].Wait.Votes[0].By) || !strings.Contains(p.Detail, "20") {
			t.Errorf("a second decision: %s", encoded(p))
		}
		one := want[client.WorkflowRunChanged](f, 200, "POST", at+"two/approve", ``)
		if n := nodeOf(one.WorkflowRun, "two"); n.Status != "RUNNING" || len(n.Wait.Votes) != 1 {
			t.Errorf("one of two: %s", encoded(n))
		}
		want[client.Problem](f, 409, "POST", at+"two/approve", ``)
		want[client.Problem](f, 409, "POST", at+"nap/approve", ``)
		if list := want[client.PendingApprovals](f, 200, "GET", "/api/v1/approvals", ""); len(list.Approvals) != 1 || list.Approvals[0].Node != "no" {
			t.Errorf("approvals that others make: %s", encoded(list))
		}
		want[client.WorkflowRunChanged](f, 200, "POST", at+"two/skip", ``)
		if r := want[client.WorkflowRunChanged](f, 200, "POST", at+"no/reject", `{"comment": "no"}`); nodeOf(r.WorkflowRun, "no").Status != "FAILED" {
			t.Errorf("rejected: %s", encoded(r))
		}

		// Events: by match, and without one.
		if e := want[client.EventSent](f, 200, "POST", "/api/v1/events:send", `{"event": "order.paid", "match": "A-17", "dry_run": true}`); len(e.WorkflowRuns) != 1 || e.EventID != "" {
			t.Errorf("a dry event: %s", encoded(e))
		}
		want[client.EventSent](f, 200, "POST", "/api/v1/events:send", `{"event": "order.paid", "match": "B-1", "payload": {"n": 1}}`)
		if r := f.run(run); !has(r, "any", "SUCCEEDED", "paid", "RUNNING") {
			t.Errorf("after an event with another match: %s", encoded(r))
		}
		want[client.EventSent](f, 200, "POST", "/api/v1/events:send", `{"event": "order.paid", "match": "A-17", "payload": {"n": 2}}`)
		if r := f.run(run); !has(r, "paid", "SUCCEEDED") {
			t.Errorf("after its event: %s", encoded(r))
		}
		// One that begins later sees an event that was sent before.
		_, later := f.flow(`{"key": "paid", "wait": {"event": "order.paid", "match": "run.input.order"}}`, `{"input": {"order": "A-17"}}`, `, "output": "nodes.paid.result"`)
		if r := f.stands(later, "SUCCEEDED"); string(r.Output) != `{"n": 2}` && string(r.Output) != `{"n":2}` {
			t.Errorf("its output: %s", r.Output)
		}
		if p := want[client.Problem](f, 422, "POST", "/api/v1/events:send", `{"event": "a b"}`); p.Errors[0].Field != "event" {
			t.Errorf("a bad name: %s", encoded(p))
		}
		// Skip and mark.
		skipped := want[client.WorkflowRunChanged](f, 200, "POST", at+"nap/skip", `{}`)
		if !has(skipped.WorkflowRun, "nap", "SKIPPED") || skipped.Status != "FAILED" {
			t.Errorf("skipped: %s", encoded(skipped))
		}
		marked := want[client.WorkflowRunChanged](f, 200, "POST", at+"no/mark", `{"result": 5}`)
		if marked.Status != "SUCCEEDED" || marked.Attempt != 2 || marked.ExecutionID == run {
			t.Errorf("marked: %s", encoded(marked))
		}
	})
}

// What is wrong is refused with what would be right.
func TestBadActsOnRuns(t *testing.T) {
	f := newFace(t, withRuns(t))
	c := newCrew(f)
	_, run := f.flow(x("a")+`, {"key": "m", "map": 3, "execution": {"target": "worker", "kind": "x"}}`, "")
	c.take(4)
	for _, x := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"POST", "/retry", `{}`, 409, "RUNNING"},
		{"POST", "/retry", `{"version": "newest"}`, 422, "latest"},
		{"POST", "/retry", `{"nodes": "a"}`, 400, "nodes"},
		{"POST", "/retry", `{"only": true}`, 409, "RUNNING"},
		{"POST", "/retry", `{"nodes": ["a"], "dry_run": true}`, 409, "a run that has ended"},
		{"POST", "/unpause", `{"dry_run": "yes"}`, 400, "dry_run"},
		{"POST", "/nodes/m/mark", `{}`, 409, "cancel its execution first"},
		{"POST", "/nodes/b/mark", `{}`, 404, `no node \"b\"`},
		{"POST", "/nodes/a/reject", `{}`, 409, "a node that waits for an approval"},
		{"POST", "/cancel", `{"force": true}`, 409, "cancel it first"},
		{"POST", "/cancel", `{"force": 1}`, 400, "force"},
		{"POST", "/cancel", `{"why": 1}`, 400, "why"},
		{"POST", "/pause?x=1", `{}`, 400, "no parameters"},
		{"POST", "/nodes/a/approve", `{}`, 409, "a node that waits for an approval"},
		{"POST", "/nodes/b/approve", `{}`, 404, `no node \"b\"`},
		{"POST", "/nodes/a/skip", `{}`, 409, "cancel its execution first"},
		{"PATCH", "/nodes/a", `{"max_parallel": 1}`, 409, "a map that is RUNNING"},
		{"PATCH", "/nodes/m", `{}`, 422, "max_parallel, tolerate or both"},
		{"PATCH", "/nodes/m", `{"max_parallel": -1}`, 422, "max_parallel"},
		{"PATCH", "/nodes/m", `{"tolerate": "many"}`, 422, "a count such as 3"},
		{"GET", "/nodes/a/items", ``, 422, "a node with map"},
		{"GET", "/nodes/m/items?cursor=x", ``, 400, "cursor"},
		{"GET", "/nodes/m/items?status=GONE", ``, 400, "NOT_RUN"},
	} {
		w := f.ask(x.method, "/api/v1/workflow-runs/"+run+x.path, x.body)
		if w.Code != x.status || !strings.Contains(w.Body.String(), x.says) {
			t.Errorf("%s %s %s: %d %s; want %d and %q", x.method, x.path, x.body, w.Code, w.Body, x.status, x.says)
		}
	}
	for _, path := range []string{"/api/v1/workflow-runs?status=GONE", "/api/v1/workflow-runs?workflow=x%20y"} {
		want[client.Problem](f, 400, "GET", path, "")
	}
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", noop)
	for _, id := range []string{"x", "0190a6c8-7b3e-7cc0-8a1b-0123456789ab", j.ExecutionID, c.held[0].ExecutionID} {
		want[client.Problem](f, 404, "GET", "/api/v1/workflow-runs/"+id, "")
		want[client.Problem](f, 404, "POST", "/api/v1/workflow-runs/"+id+"/cancel", "{}")
	}
	want[client.Problem](f, 404, "GET", "/api/v1/workflow-runs?workflow="+j.JobID, "")
}
