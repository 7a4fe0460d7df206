package api_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/dispatch"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
	"github.com/carillon-jobs/carillon/internal/scheduler"
	"github.com/carillon-jobs/carillon/internal/service"
	"github.com/carillon-jobs/carillon/internal/workflows"
)

// fires has schedules fire until the test ends.
func (f face) fires(d *dispatch.Dispatcher) {
	s := scheduler.New(f.store, clock.System{}, scheduler.Config{LookAhead: time.Second, Hint: d.Offer})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			wait, err := s.Tick(ctx)
			if err != nil && ctx.Err() == nil {
				f.Error(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(max(wait, 10*time.Millisecond)):
			}
		}
	})
	f.Cleanup(func() { cancel(); wg.Wait() })
}

// runsOf waits until a workflow has so many runs, and lists their ids, the earliest first.
func (f face) runsOf(workflow string, n int) (ids []string) {
	f.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		found := want[client.Executions](f, 200, "GET", "/api/v1/jobs/"+workflow+"/executions", "").Executions
		if len(found) >= n {
			for _, e := range found {
				ids = append(ids, e.ExecutionID)
			}
			slices.Reverse(ids)
			return ids
		}
		if time.Now().After(deadline) {
			f.Fatalf("%d runs, want %d", len(found), n)
		}
	}
}

// A run under overlap queue waits until the one before has ended, its finally nodes included; under replace that one is cancelled first.
func TestOverlapOfRuns(t *testing.T) {
	var d *dispatch.Dispatcher
	f := newFace(t, withRuns(t), func(c *api.Config, _ engine.Store) { d = c.Dispatch })
	f.fires(d)
	c := newCrew(f)
	for _, overlap := range []string{"queue", "replace"} {
		w := want[client.Workflow](f, 201, "POST", "/api/v1/workflows", `{"name": "w", "overlap": "`+overlap+`", "schedule": {"type": "INTERVAL", "every": "1s", "max_runs": 2},
				"nodes": [`+x("a")+`,`+x("z", `, "finally": true`)+`]}`)
		c.take(1)
		runs := f.runsOf(w.WorkflowID, 2)
		first, second := runs[0], runs[1]
		if r := f.stands(second, "WAITING", "a", "WAITING", "z", "WAITING"); len(r.Nodes) != 2 || r.StartedAt != nil {
			t.Errorf("%s: the second run: %s", overlap, encoded(r))
		}
		status := "SUCCEEDED"
		if overlap == "replace" {
			status = "CANCELLED"
			f.stands(first, "CANCELLING", "a", "CANCELLING", "z", "WAITING")
		}
		c.end("a", status)
		c.take(1)
		if r := f.run(second); node(c.held[0]) != "z" || r.Status != "WAITING" {
			t.Errorf("%s: %s runs, and the second run is %s", overlap, node(c.held[0]), r.Status)
		}
		c.end("z", "SUCCEEDED")
		f.stands(first, status, "a", status, "z", "SUCCEEDED")
		c.take(1)
		f.stands(second, "RUNNING", "a", "RUNNING")
		c.end("a", "SUCCEEDED")
		c.take(1)
		c.end("z", "SUCCEEDED")
		f.stands(second, "SUCCEEDED")
	}
}

// A backfill of a workflow begins a run for each instant, and each run knows its own.
func TestBackfillOfAWorkflow(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		var s *service.Service
		f := open(withRuns(t), func(c *api.Config, _ engine.Store) { s = c.Service })
		c := newCrew(f)
		w := want[client.Workflow](f, 201, "POST", "/api/v1/workflows", `{"name": "w", "schedule": {"type": "CRON", "cron_expression": "@hourly"}, "input": {"n": 1}, "output": "run.scheduled_time",
			"nodes": [{"key": "a", "execution": {"target": "worker", "kind": "x", "payload": {"at": "{{ run.scheduled_time }}", "n": "{{ run.input.n }}"}}}]}`)
		path := "/api/v1/jobs/" + w.WorkflowID + "/backfill"
		const night = `"from": "2026-01-01T01:00:00Z", "to": "2026-01-01T04:00:00Z"`
		if n := want[client.Begun](f, 200, "POST", path, `{`+night+`, "dry_run": true}`); n.Count != 3 {
			t.Errorf("a dry run: %+v", n)
		}
		op := want[client.Begun](f, 202, "POST", path, `{`+night+`}`)
		if done := f.operated(s.Runner(slog.New(slog.DiscardHandler)), op.OperationID); done.Done != 3 || done.State != "SUCCEEDED" {
			t.Errorf("the operation: %+v", done)
		}
		c.take(3)
		var at []string
		for _, a := range c.held {
			text := strings.ReplaceAll(string(a.Payload), " ", "")
			at = append(at, text)
			c.report(a, "SUCCEEDED")
		}
		slices.Sort(at)
		for i, got := range at {
			if want := fmt.Sprintf(`{"at":"2026-01-01T0%d:00:00Z","n":1}`, i+1); got != want {
				t.Errorf("run %d got %s; want %s", i, got, want)
			}
		}
		for _, id := range f.runsOf(w.WorkflowID, 3) {
			r := f.stands(id, "SUCCEEDED")
			if r.ScheduledTime == nil || string(r.Output) != `"`+r.ScheduledTime.Format(time.RFC3339)+`"` {
				t.Errorf("its run: %s", encoded(r))
			}
			if e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+id, ""); e.Trigger != "backfill" || e.Status != "SUCCEEDED" {
				t.Errorf("its execution: %s", encoded(e))
			}
		}
	})
}

// moved lists what an act changed, as "key: FROM → TO".
func moved(x client.WorkflowRunChanged) string {
	var out []string
	for _, c := range x.Changes {
		text := func(s *string) string {
			if s == nil {
				return "none"
			}
			return *s
		}
		out = append(out, c.Node+": "+text(c.From)+" → "+text(c.To))
	}
	return strings.Join(out, ", ")
}

// A retry on the latest version matches nodes by key: what was good stays, with its result, whatever place it has now.
func TestARetryOnTheLatestVersion(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t))
		c := newCrew(f)
		id, run := f.flow(x("a")+","+x("m", `, "map": 3, "max_parallel": 1`)+","+x("gone", after("a"))+","+x("b", after("a")), "", `, "output": "nodes.a.result"`)
		c.take(2)
		c.end("a", `{"n": 7}`)
		c.take(3)
		c.end("m", "SUCCEEDED")
		c.take(3)
		c.end("m", "FAILED")
		c.end("gone", "SUCCEEDED")
		c.end("b", "FAILED")
		was := f.stands(run, "FAILED", "m", "FAILED", "b", "FAILED", "a", "SUCCEEDED", "gone", "SUCCEEDED")
		want[client.Workflow](f, 200, "PATCH", "/api/v1/workflows/"+id, `{"nodes": [`+x("new", after("b"))+`,{"key": "b", "depends_on": ["a", "m"], "execution": {"target": "worker", "kind": "x", "payload": {"n": "{{ nodes.a.result.n }}", "m": "{{ nodes.m.items.total }}"}}},`+
			x("m", `, "map": 3, "max_parallel": 1`)+","+x("a")+`]}`)
		at := "/api/v1/workflow-runs/" + run + "/retry"
		const changes = "new: none → WAITING, b: FAILED → WAITING, m: FAILED → RUNNING, gone: SUCCEEDED → none"
		dry := want[client.WorkflowRunChanged](f, 200, "POST", at, `{"version": "latest", "dry_run": true}`)
		if moved(dry) != changes || dry.Version != 1 || dry.Attempt != 1 || len(dry.Nodes) != 4 {
			t.Errorf("a dry retry: %s; %s", moved(dry), encoded(dry.WorkflowRun))
		}
		again := want[client.WorkflowRunChanged](f, 200, "POST", at, `{"version": "latest"}`)
		if moved(again) != changes || again.Version != 2 || again.Attempt != 2 || nodeOf(again.WorkflowRun, "gone").Key != "" {
			t.Errorf("retried: %s; %s", moved(again), encoded(again.WorkflowRun))
		}
		if n, before := nodeOf(again.WorkflowRun, "a"), nodeOf(was, "a"); n.Status != "SUCCEEDED" || *n.ExecutionID != *before.ExecutionID || !n.FinishedAt.Equal(*before.FinishedAt) {
			t.Errorf("a: %s; it was %s", encoded(n), encoded(before))
		}
		for range 2 { // the item that failed, and the one that did not run
			c.take(1)
			c.end("m", "SUCCEEDED")
		}
		c.take(1)
		if got := strings.ReplaceAll(string(c.held[0].Payload), " ", ""); got != `{"m":3,"n":7}` && got != `{"n":7,"m":3}` {
			t.Errorf("b got %s", got)
		}
		c.end("b", "SUCCEEDED")
		c.take(1)
		c.end("new", "SUCCEEDED")
		if r := f.stands(run, "SUCCEEDED", "a", "SUCCEEDED", "m", "SUCCEEDED", "b", "SUCCEEDED", "new", "SUCCEEDED"); strings.ReplaceAll(string(r.Output), " ", "") != `{"n":7}` || nodeOf(r, "m").Map.Succeeded != 3 || nodeOf(r, "b").Error != nil {
			t.Errorf("in the end: %s", encoded(r))
		}
	})
}

// A retry of given nodes only leaves what depends on them as it is.
func TestARetryOfOneNodeOnly(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t))
		c := newCrew(f)
		_, run := f.flow(x("a")+","+x("b", after("a"))+","+x("c", after("b"))+","+x("z", `, "finally": true`), "", `, "output": "nodes.b.result"`)
		for _, key := range []string{"a", "b", "c", "z"} {
			c.take(1)
			c.end(key, "1")
		}
		was := f.stands(run, "SUCCEEDED")
		at := "/api/v1/workflow-runs/" + run + "/retry"
		if p := want[client.Problem](f, 422, "POST", at, `{"only": true}`); p.Errors[0].Field != "only" {
			t.Errorf("only without nodes: %s", encoded(p))
		}
		if p := want[client.Problem](f, 422, "POST", at, `{"nodes": ["b", "none"], "only": true}`); p.Errors[0].Field != "nodes[1]" {
			t.Errorf("an unknown node: %s", encoded(p))
		}
		if got := moved(want[client.WorkflowRunChanged](f, 200, "POST", at, `{"nodes": ["b"], "only": true}`)); got != "b: SUCCEEDED → PENDING, z: SUCCEEDED → WAITING" {
			t.Errorf("retried: %s", got)
		}
		for _, key := range []string{"b", "z"} {
			c.take(1)
			c.end(key, "2")
		}
		r := f.stands(run, "SUCCEEDED")
		if string(r.Output) != "2" || r.Attempt != 2 {
			t.Errorf("in the end: %s", encoded(r))
		}
		for _, key := range []string{"a", "c"} {
			if *nodeOf(r, key).ExecutionID != *nodeOf(was, key).ExecutionID {
				t.Errorf("%s ran again", key)
			}
		}
	})
}

// Waits go on under a pause, and what they release starts afterwards.
func TestWaitsUnderAPause(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t))
		c := newCrew(f)
		_, run := f.flow(`{"key": "nap", "wait": {"timer": "1s"}}, {"key": "ok", "wait": {"approval": {}}}, {"key": "paid", "wait": {"event": "paused.paid"}}, {"key": "late", "wait": {"event": "never"}, "timeout": "1s", "on_timeout": "skip"},`+
			x("a", after("nap"))+","+x("b", after("ok"))+","+x("c", after("paid"))+","+x("d", after("late"), `, "trigger": "none_failed"`), "")
		f.stands(run, "RUNNING", "nap", "RUNNING", "ok", "RUNNING", "paid", "RUNNING")
		want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/pause", `{}`)
		if got := want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/nodes/ok/approve", `{}`); got.Status != "PAUSED" || !has(got.WorkflowRun, "ok", "SUCCEEDED", "b", "WAITING") {
			t.Errorf("approved: %s", encoded(got))
		}
		if sent := want[client.EventSent](f, 200, "POST", "/api/v1/events:send", `{"event": "paused.paid"}`); len(sent.WorkflowRuns) != 1 {
			t.Errorf("sent: %+v", sent)
		}
		r := f.stands(run, "PAUSED", "nap", "SUCCEEDED", "ok", "SUCCEEDED", "paid", "SUCCEEDED", "late", "SKIPPED", "a", "WAITING", "b", "WAITING", "c", "WAITING", "d", "WAITING")
		for _, key := range []string{"a", "b", "c", "d"} {
			if n := nodeOf(r, key); n.Reason != "held: the run is paused" || n.ExecutionID != nil {
				t.Errorf("%s: %s", key, encoded(n))
			}
		}
		if got := moved(want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/unpause", `{}`)); got != "a: WAITING → PENDING, b: WAITING → PENDING, c: WAITING → PENDING, d: WAITING → PENDING" {
			t.Errorf("unpaused: %s", got)
		}
		c.take(4)
		for _, key := range []string{"a", "b", "c", "d"} {
			c.end(key, "SUCCEEDED")
		}
		f.stands(run, "SUCCEEDED")
	})
}

// An event counts for waits that begin within 24 hours after it, and not a moment longer.
func TestEventsCountForADay(t *testing.T) {
	clk := clock.NewManual(monday)
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "c.db"), Clock: clk})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	f := faceOver(t, store, withRuns(t), func(c *api.Config, store engine.Store) {
		c.Service = service.New(store, clk, service.Config{LookAhead: 5 * time.Second, Secrets: c.Secrets, Runs: workflows.New(store, clk, workflows.Config{Log: c.Logger})})
	})
	for _, x := range []struct {
		after  time.Duration
		counts bool
	}{{24 * time.Hour, true}, {24*time.Hour + time.Millisecond, false}} {
		event := fmt.Sprintf("paid.%d", x.after.Milliseconds())
		if sent := want[client.EventSent](f, 200, "POST", "/api/v1/events:send", `{"event": "`+event+`", "payload": 5}`); len(sent.WorkflowRuns) != 0 {
			t.Errorf("nobody waits yet: %+v", sent)
		}
		clk.Advance(x.after)
		_, run := f.flow(`{"key": "paid", "wait": {"event": "`+event+`"}}`, "", `, "output": "nodes.paid.result"`)
		if x.counts {
			if r := f.stands(run, "SUCCEEDED", "paid", "SUCCEEDED"); string(r.Output) != "5" {
				t.Errorf("%v later: %s", x.after, encoded(r))
			}
			continue
		}
		f.stands(run, "RUNNING", "paid", "RUNNING")
		want[client.EventSent](f, 200, "POST", "/api/v1/events:send", `{"event": "`+event+`", "payload": 6}`)
		if r := f.stands(run, "SUCCEEDED", "paid", "SUCCEEDED"); string(r.Output) != "6" {
			t.Errorf("%v later: %s", x.after, encoded(r))
		}
	}
}
