package enginetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// begun is a workflow run with n executions of nodes that wait for workers.
type begun struct {
	fixture
	run     engine.WorkflowRun
	attempt job.Attempt // of the run's own execution
	members []job.Execution
}

// begin begins a run of a workflow with n nodes, each of which is an execution of its own job.
func (f fixture) begin(n int, change ...func(*job.Execution)) begun {
	f.Helper()
	w := f.sample("flow")
	w.Schedule, w.Queue, w.Labels, w.Target = job.Schedule{Type: job.Manual}, job.DefaultQueue, nil, job.Target{Kind: job.Workflow, Version: 1}
	f.store(engine.Creation{Tenant: w.Tenant, Jobs: []job.Job{w}})
	e := f.due(w)
	e.Trigger, e.Class = job.ByHand, job.Class(job.Workflow)
	must(f.Trigger(f.ctx, tenant.Default, e, engine.Idempotency{}, nil))
	_, as := f.take(e.ID)
	b := begun{fixture: f, attempt: as[0]}
	b.run = engine.WorkflowRun{
		ID: e.ID, Execution: e.ID, Token: as[0].Token, Tenant: tenant.Default, Workflow: w.ID, Version: 1, Attempt: 1, Status: 3, State: []byte("begun"),
		Input: []byte(`{"a":1}`), ScheduledAt: e.ScheduledAt, BegunAt: f.now(),
	}
	first := b.same()
	for i := range n {
		j := f.sample("node")
		j.ID, j.State, j.Schedule = job.NodeID(newID()), job.Inline, job.Schedule{Type: job.Manual}
		f.store(engine.Creation{Tenant: j.Tenant, Jobs: []job.Job{j}})
		x := f.due(j)
		x.Trigger = job.ByWorkflow
		for _, c := range change {
			c(&x)
		}
		b.members = append(b.members, x)
		first.Members = append(first.Members, engine.NewMember{Place: engine.PlaceOf(i, -1), Execution: x})
	}
	got := must(f.BeginRuns(f.ctx, []engine.NewRun{{Run: b.run, First: first}}))[0]
	if !got.New || len(got.Changed.Ready) != n {
		f.Fatalf("the run began: %+v", got)
	}
	if v := f.park(as[0], job.Forever); !v.Accepted {
		f.Fatalf("the run was not parked: %+v", v)
	}
	return b
}

// same is a change that leaves the run as it is.
func (b begun) same() engine.RunChange {
	return engine.RunChange{Version: b.run.Version, Attempt: b.run.Attempt, Status: b.run.Status, State: b.run.State, Input: b.run.Input}
}

// change changes the run, and returns what decide saw.
func (b begun) change(f func(engine.RunView) *engine.RunChange) (seen engine.RunView, out engine.RunChanged) {
	b.Helper()
	got := must(b.ChangeRuns(b.ctx, []job.ExecutionID{b.run.ID}, func(v engine.RunView) (*engine.RunChange, error) {
		seen = v
		if f == nil {
			return nil, nil
		}
		return f(v), nil
	}))
	if len(got) != 1 {
		b.Fatalf("%d runs changed, want 1", len(got))
	}
	return seen, got[0]
}

// wakes lists the runs that somebody must look after.
func (b begun) wakes() []job.ExecutionID {
	b.Helper()
	due, _, err := b.WakeRuns(b.ctx, 10)
	if err != nil {
		b.Fatal(err)
	}
	return due
}

// marks takes the marks of the run, and returns how its members ended.
func (b begun) marks() map[job.ExecutionID]job.Status {
	b.Helper()
	seen, _ := b.change(nil)
	out := map[job.ExecutionID]job.Status{}
	for _, m := range seen.Marks {
		out[m.Execution] = m.Status
	}
	return out
}

// workflowRuns tests what is stored of runs.
func workflowRuns(t *testing.T, h Harness) {
	t.Run("begin once", func(t *testing.T) {
		b := open(t, h).begin(1)
		again := b.run
		again.Token, again.State = b.run.Token+5, []byte("other")
		got := must(b.BeginRuns(b.ctx, []engine.NewRun{{Run: again, First: b.same()}}))[0]
		if got.New || string(got.Run.State) != "begun" || got.Run.Token != again.Token {
			t.Errorf("begun again: %+v", got)
		}
		stored := must(b.WorkflowRun(b.ctx, tenant.Default, b.run.ID))
		if stored.Seq != 1 || string(stored.Input) != `{"a":1}` || !stored.EndedAt.IsZero() {
			t.Errorf("stored: %+v", stored)
		}
		if _, err := b.WorkflowRun(b.ctx, "other", b.run.ID); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("another tenant's run: %v", err)
		}
	})
	t.Run("begin and park at once", func(t *testing.T) {
		b := open(t, h).begin(0)
		w := b.job(b.run.Workflow)
		for lost, status := range map[bool]job.Status{false: job.Running, true: job.Pending} {
			e := b.due(w)
			e.Trigger, e.Class = job.ByHand, job.Class(job.Workflow)
			must(b.Trigger(b.ctx, tenant.Default, e, engine.Idempotency{}, nil))
			wid, as := b.take(e.ID)
			if lost {
				must(b.Leave(b.ctx, wid))
			}
			run := b.run
			run.ID, run.Execution, run.Token = e.ID, e.ID, as[0].Token
			if got := must(b.BeginRuns(b.ctx, []engine.NewRun{{Run: run, First: b.same()}}))[0]; got.Lost != lost || got.New == lost {
				t.Errorf("its lease is lost: %v; it began: %+v", lost, got)
			}
			if !lost { // the server dies before it can report that the execution is parked
				must(b.Leave(b.ctx, wid))
			}
			if e := b.execution(e.ID); e.Status != status {
				t.Errorf("its lease is lost: %v; the run's execution is %v, want %v", lost, e.Status, status)
			}
			if _, err := b.WorkflowRun(b.ctx, tenant.Default, e.ID); lost != errors.Is(err, engine.ErrNotFound) {
				t.Errorf("its lease is lost: %v; the run: %v", lost, err)
			}
		}
	})
	t.Run("begin several", func(t *testing.T) {
		b := open(t, h).begin(0)
		w := b.job(b.run.Workflow)
		var all []engine.NewRun
		for i := range 3 {
			e := b.due(w)
			e.Trigger, e.Class = job.ByHand, job.Class(job.Workflow)
			must(b.Trigger(b.ctx, tenant.Default, e, engine.Idempotency{}, nil))
			wid, as := b.take(e.ID)
			if i == 1 {
				must(b.Leave(b.ctx, wid))
			}
			run := b.run
			run.ID, run.Execution, run.Token = e.ID, e.ID, as[0].Token
			all = append(all, engine.NewRun{Run: run, First: b.same()})
		}
		slices.Reverse(all) // the answers are in this order, whatever order rows are locked in
		got := must(b.BeginRuns(b.ctx, append(all, engine.NewRun{Run: b.run, First: b.same()})))
		for i, want := range []engine.Begun{{New: true}, {Lost: true}, {New: true}, {}} {
			if got[i].New != want.New || got[i].Lost != want.Lost || i < 3 && got[i].Run.ID != all[i].Run.ID {
				t.Errorf("run %d of 4 began: %+v", i, got[i])
			}
		}
		for _, x := range []engine.NewRun{all[0], all[2]} {
			if r := must(b.WorkflowRun(b.ctx, tenant.Default, x.Run.ID)); r.Seq != 1 || b.execution(x.Run.ID).Status != job.Running {
				t.Errorf("a run that began with others: %+v", r)
			}
		}
		if _, err := b.WorkflowRun(b.ctx, tenant.Default, all[1].Run.ID); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("a run whose execution was taken back: %v", err)
		}
	})
	t.Run("every end leaves a mark", func(t *testing.T) { everyEndMarks(t, h) })
	t.Run("results of nodes", func(t *testing.T) { resultsOfNodes(t, h) })
	t.Run("errors of nodes", func(t *testing.T) { errorsOfNodes(t, h) })
	t.Run("marks are taken once", func(t *testing.T) {
		b := open(t, h).begin(2)
		_, as := b.take(b.members[0].ID)
		v := b.report(succeed(as[0]))
		if v[0].Run != b.run.ID {
			t.Errorf("the verdict names the run %v, want %v", v[0].Run, b.run.ID)
		}
		failing := errors.New("not now")
		got := must(b.ChangeRuns(b.ctx, []job.ExecutionID{b.run.ID, newID()}, func(engine.RunView) (*engine.RunChange, error) { return nil, failing }))
		if len(got) != 1 || !errors.Is(got[0].Err, failing) {
			t.Errorf("a decision that failed: %+v", got)
		}
		if n := len(b.marks()); n != 1 {
			t.Errorf("%d marks after a decision that failed, want 1", n)
		}
		if n := len(b.marks()); n != 0 {
			t.Errorf("%d marks are left", n)
		}
		if v := b.report(succeed(as[0])); !v[0].Accepted || !v[0].Run.IsZero() {
			t.Errorf("the same result again: %+v", v)
		}
		if n := len(b.marks()); n != 0 {
			t.Errorf("the same result left %d marks more", n)
		}
		ms := must(b.Members(b.ctx, tenant.Default, b.run.ID, 0, engine.PlaceOf(2, -1), 10))
		if len(ms) != 2 || ms[0].Status != job.Succeeded || ms[0].FinishedAt.IsZero() || ms[1].Status != job.Pending {
			t.Errorf("members: %+v", ms)
		}
	})
	t.Run("a decision about what has changed since", func(t *testing.T) { lateDecision(t, h) })
	t.Run("a run in a run", func(t *testing.T) { runInARun(t, h) })
	t.Run("nodes end with what follows", func(t *testing.T) { finishNodes(t, h) })
	t.Run("a change", func(t *testing.T) { changeARun(t, h) })
	t.Run("the end of a run", func(t *testing.T) { endARun(t, h) })
	t.Run("a run is asked to stop", func(t *testing.T) { stopARun(t, h) })
	t.Run("the next attempt", func(t *testing.T) { retryARun(t, h) })
	t.Run("events", func(t *testing.T) { runEvents(t, h) })
	t.Run("events whose senders die", func(t *testing.T) { sendersDie(t, h) })
	t.Run("events whose senders die in the middle", func(t *testing.T) { sendersDieLater(t, h) })
	t.Run("approvals", func(t *testing.T) { listApprovals(t, h) })
	t.Run("lists of runs that have not begun", func(t *testing.T) { listUnbegun(t, h) })
	t.Run("what is asked of runs below", func(t *testing.T) { askRunsBelow(t, h) })
	t.Run("cancels in pieces", func(t *testing.T) { cancelPieces(t, h) })
	t.Run("lists", func(t *testing.T) {
		f := open(t, h)
		a, b := f.begin(0), f.begin(0)
		all := must(f.WorkflowRuns(f.ctx, engine.RunFilter{Tenant: tenant.Default}, engine.Page{Limit: 10}))
		if len(all.Rows) != 2 || all.Rows[0].ID != b.run.ID || all.Total.Count != 2 {
			t.Errorf("all: %+v", all)
		}
		for _, r := range all.Rows {
			if r.State != nil || r.Input != nil || r.Output != nil {
				t.Errorf("a list has more of a run than it shows: %+v", r)
			}
		}
		first := must(f.WorkflowRuns(f.ctx, engine.RunFilter{Tenant: tenant.Default}, engine.Page{Limit: 1}))
		rest := must(f.WorkflowRuns(f.ctx, engine.RunFilter{Tenant: tenant.Default}, engine.Page{Limit: 1, Cursor: first.Next}))
		if len(rest.Rows) != 1 || rest.Rows[0].ID != a.run.ID {
			t.Errorf("the second page: %+v", rest)
		}
		for name, filter := range map[string]engine.RunFilter{
			"workflow": {Tenant: tenant.Default, Workflow: a.run.Workflow}, "status": {Tenant: tenant.Default, Workflow: a.run.Workflow, Statuses: []int{3, 10}},
		} {
			if got := must(f.WorkflowRuns(f.ctx, filter, engine.Page{Limit: 10})); len(got.Rows) != 1 || got.Rows[0].ID != a.run.ID {
				t.Errorf("by %s: %+v", name, got.Rows)
			}
		}
		if got := must(f.WorkflowRuns(f.ctx, engine.RunFilter{Tenant: tenant.Default, Statuses: []int{10}}, engine.Page{Limit: 10})); len(got.Rows) != 0 {
			t.Errorf("of another status: %+v", got.Rows)
		}
	})
}

// waits triggers a workflow whose run does not begin.
func (f fixture) waits(w job.Job, at time.Time, change ...func(*job.Execution)) job.Execution {
	f.Helper()
	e := f.due(w)
	e.ScheduledAt = at
	e.Trigger, e.Class = job.ByHand, job.Class(job.Workflow)
	for _, c := range change {
		c(&e)
	}
	must(f.Trigger(f.ctx, tenant.Default, e, engine.Idempotency{}, nil))
	return e
}
