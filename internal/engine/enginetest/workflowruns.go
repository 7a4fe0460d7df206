package enginetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

// Lists of runs hold those that wait to begin, and those that ended without, in one order with the others.
func listUnbegun(t *testing.T, h Harness) {
	f := open(t, h)
	b := f.begin(0)
	w, now := f.job(b.run.Workflow), f.now()
	pending := f.waits(w, now.Add(-time.Minute))
	held := f.waits(w, now.Add(-2*time.Minute), func(e *job.Execution) { e.Status = job.Waiting })
	gone := f.waits(w, now.Add(-3*time.Minute))
	must(f.Cancel(f.ctx, tenant.Default, gone.ID, "enough", nil))
	plain := f.sample("plain")
	f.store(engine.Creation{Tenant: plain.Tenant, Jobs: []job.Job{plain}})
	must(f.Trigger(f.ctx, tenant.Default, f.due(plain), engine.Idempotency{}, nil))
	for range 20 { // so many workflows are not looked at one by one
		other := f.sample("flow")
		other.Schedule, other.Target = job.Schedule{Type: job.Manual}, job.Target{Kind: job.Workflow, Version: 1}
		for _, all := range []engine.RunFilter{{Tenant: tenant.Default}, {Tenant: tenant.Default, Workflow: w.ID}} {
			for _, c := range []struct {
				statuses []job.Status
				want     []job.ExecutionID
			}{
				{nil, []job.ExecutionID{b.run.ID, pending.ID, held.ID, gone.ID}},
				{[]job.Status{job.Waiting}, []job.ExecutionID{held.ID}},
				{[]job.Status{job.Pending}, []job.ExecutionID{pending.ID}},
				{[]job.Status{job.Pending, job.Waiting}, []job.ExecutionID{pending.ID, held.ID}},
				{[]job.Status{job.Cancelled, job.Waiting}, []job.ExecutionID{held.ID, gone.ID}},
				{[]job.Status{job.Failed}, nil},
				{[]job.Status{job.Running}, []job.ExecutionID{b.run.ID}},
			} {
				all.Statuses = nil
				for _, s := range c.statuses {
					all.Statuses = append(all.Statuses, int(s))
				}
				got := must(f.WorkflowRuns(f.ctx, all, engine.Page{Limit: 10}))
				var ids []job.ExecutionID
				for _, r := range got.Rows {
					ids = append(ids, r.ID)
				}
				if !slices.Equal(ids, c.want) || got.Next != "" || got.Total.Count != int64(len(c.want)) {
					t.Fatalf("%v: %v, of %d; want %v", c.statuses, ids, got.Total.Count, c.want)
				}
			}
			all.Statuses = nil
			var ids []job.ExecutionID
			for page := (engine.Page{Limit: 1}); ; {
				got := must(f.WorkflowRuns(f.ctx, all, page))
				for _, r := range got.Rows {
					ids = append(ids, r.ID)
					if r.Workflow != w.ID || r.Execution != r.ID || r.Attempt != 1 {
						t.Errorf("listed: %+v", r)
					}
				}
				if page.Cursor = got.Next; page.Cursor == "" {
					break
				}
			}
			if want := []job.ExecutionID{b.run.ID, pending.ID, held.ID, gone.ID}; !slices.Equal(ids, want) {
				t.Errorf("page by page: %v, want %v", ids, want)
			}
			all.Kept = now.Add(time.Hour)
			if got := must(f.WorkflowRuns(f.ctx, all, engine.Page{Limit: 10})); len(got.Rows) != 3 {
				t.Errorf("without what is no longer kept: %+v", got.Rows)
			}
		}
		f.store(engine.Creation{Tenant: other.Tenant, Jobs: []job.Job{other}})
	}
}

// What is asked of the runs below a run is found at once, and what is asked of one that never will be is forgotten.
func askRunsBelow(t *testing.T, h Harness) {
	f := open(t, h)
	sub := f.sample("sub")
	sub.Schedule, sub.Queue, sub.Labels, sub.Target = job.Schedule{Type: job.Manual}, job.DefaultQueue, nil, job.Target{Kind: job.Workflow, Version: 1}
	f.store(engine.Creation{Tenant: sub.Tenant, Jobs: []job.Job{sub}})
	b := f.begin(1, func(e *job.Execution) { e.Job, e.Class = sub.ID, job.Class(job.Workflow) })
	worker, as := f.take(b.members[0].ID)
	pause := true
	b.change(func(engine.RunView) *engine.RunChange {
		c := b.same()
		c.Pause = &pause
		return &c
	})
	b.change(func(engine.RunView) *engine.RunChange {
		c := b.same()
		c.Cancel, c.Force, c.Reason = []engine.NodeStop{{Node: 0}}, true, "enough"
		return &c
	})
	id := b.members[0].ID
	if got := b.wakes(); !slices.Contains(got, id) {
		t.Errorf("runs to look after: %v; want %v among them", got, id)
	}
	run := b.run
	run.ID, run.Execution, run.Token, run.Workflow = id, id, as[0].Token, sub.ID
	must(f.BeginRuns(f.ctx, []engine.NewRun{{Run: run, First: b.same()}}))
	below := b
	below.run = run
	seen, _ := below.change(nil)
	asked := map[engine.NodePlace]job.Status{}
	for _, m := range seen.Marks {
		asked[m.Place] = m.Status
	}
	if len(asked) != 3 || asked[engine.AskedToStop] == 0 || asked[engine.AskedToForce] == 0 || asked[engine.AskedToPause(1)] != job.Waiting {
		t.Errorf("asked of the run below: %v", asked)
	}
	must(f.Leave(f.ctx, worker))

	b = f.begin(1, func(e *job.Execution) { e.Job, e.Class = sub.ID, job.Class(job.Workflow) })
	_, as = f.take(b.members[0].ID)
	b.change(func(engine.RunView) *engine.RunChange {
		c := b.same()
		c.Pause = &pause
		return &c
	})
	o := job.Outcome{Lease: as[0].Lease, Status: job.OutcomeFailed, Error: &job.Error{Type: "INPUT", Message: "no"}}
	f.report(job.Finish{Outcome: o, Then: job.Transition{Move: job.Died, Status: job.Failed, Tries: 1}})
	for _, want := range []bool{true, false} {
		if got := b.wakes(); slices.Contains(got, b.members[0].ID) != want {
			t.Errorf("runs to look after: %v; want the one that never began: %v", got, want)
		}
		must(f.ChangeRuns(f.ctx, []job.ExecutionID{b.members[0].ID}, func(engine.RunView) (*engine.RunChange, error) { return nil, nil }))
	}
}

// One commit cancels so many executions of a run, and leaves a wait for the rest.
func cancelPieces(t *testing.T, h Harness) {
	f := open(t, h)
	b := f.begin(0)
	const items = 2*engine.StopsAtOnce + 5
	j := f.sample("item")
	j.ID, j.State, j.Schedule = job.NodeID(newID()), job.Inline, job.Schedule{Type: job.Manual}
	f.store(engine.Creation{Tenant: j.Tenant, Jobs: []job.Job{j}})
	b.change(func(engine.RunView) *engine.RunChange {
		c := b.same()
		for i := range items {
			x := f.due(j)
			x.Trigger = job.ByWorkflow
			c.Members = append(c.Members, engine.NewMember{Place: engine.PlaceOf(0, i), Execution: x})
		}
		return &c
	})
	next, left := engine.NodeStop{Node: 0}, items
	for left > 0 {
		_, out := b.change(func(engine.RunView) *engine.RunChange {
			c := b.same()
			c.Closed = []engine.RunWait{{Node: 0, Kind: engine.WaitStop}}
			c.Cancel, c.Reason = []engine.NodeStop{next}, "enough"
			return &c
		})
		more := left >= engine.StopsAtOnce
		if n := min(left, engine.StopsAtOnce); len(out.Ended) != n || more && !out.More {
			t.Fatalf("a commit cancelled %d of %d, more: %v", len(out.Ended), left, out.More)
		}
		left -= len(out.Ended)
		waits := must(f.RunWaits(f.ctx, tenant.Default, b.run.ID))
		if (len(waits) == 1) != more {
			t.Fatalf("waits: %+v; %d are left", waits, left)
		}
		for _, w := range waits {
			after, err := strconv.ParseInt(w.Event, 10, 64)
			if w.Kind != engine.WaitStop || err != nil {
				t.Fatalf("waits: %+v", waits)
			}
			next.After = engine.NodePlace(after)
		}
	}
}

// However the execution of a node ends, its run hears of it.
func finishNodes(t *testing.T, h Harness) {
	b := open(t, h).begin(2)
	_, as := b.take(b.members[0].ID, b.members[1].ID)
	failing, asked := errors.New("not now"), 0
	vs, outs, err := b.FinishNodes(b.ctx, []job.Finish{succeed(as[0])}, func(engine.RunView) (*engine.RunChange, error) { return nil, failing })
	if err != nil || !vs[0].Accepted || vs[0].Run != b.run.ID || len(outs) != 1 || !errors.Is(outs[0].Err, failing) {
		t.Errorf("a node whose run's decision fails ends: %+v, %+v, %v", vs, outs, err)
	}
	if e := b.execution(as[0].Execution); e.Status != job.Succeeded {
		t.Errorf("it is %v", e.Status)
	}
	child := b.members[0]
	child.ID = newID()
	next := func(v engine.RunView) (*engine.RunChange, error) {
		if asked++; len(v.Marks) != 2 {
			t.Errorf("decided from %+v", v.Marks)
		}
		c := b.same()
		c.State = []byte("next")
		c.Members = []engine.NewMember{{Place: engine.PlaceOf(2, -1), Execution: child}}
		return &c, nil
	}
	other := succeed(as[1])
	other.Outcome.Token += 1000
	if vs, outs, err = b.FinishNodes(b.ctx, []job.Finish{other}, next); err != nil || vs[0].Accepted || len(outs)+asked > 0 {
		t.Errorf("under a token that is none: %+v, %+v, %v", vs, outs, err)
	}
	vs, outs, err = b.FinishNodes(b.ctx, []job.Finish{succeed(as[1])}, next)
	if err != nil || !vs[0].Accepted || vs[0].Run != b.run.ID || len(outs) != 1 || len(outs[0].Ready) != 1 || outs[0].Ready[0].ID != child.ID {
		t.Errorf("a node ends: %+v, %+v, %v", vs, outs, err)
	}
	if vs, outs, err = b.FinishNodes(b.ctx, []job.Finish{succeed(as[1])}, next); err != nil || !vs[0].Accepted || len(outs) > 0 || asked != 1 {
		t.Errorf("the same result again: %+v, %+v, %v; decided %d times", vs, outs, err, asked)
	}
	if n := len(b.marks()); n != 0 {
		t.Errorf("%d marks are left", n)
	}
	if r := must(b.WorkflowRun(b.ctx, tenant.Default, b.run.ID)); string(r.State) != "next" || r.Seq != 2 {
		t.Errorf("the run: %+v", r)
	}
	ms := must(b.Members(b.ctx, tenant.Default, b.run.ID, 0, engine.PlaceOf(3, -1), 10))
	if len(ms) != 3 || ms[0].Status != job.Succeeded || ms[1].Status != job.Succeeded || ms[2].Status != job.Pending {
		t.Errorf("members: %+v", ms)
	}
}

func everyEndMarks(t *testing.T, h Harness) {
	f := open(t, h)
	soon := func(x *job.Execution) { x.ExpiresAt = f.now().Add(-time.Second) }
	for name, c := range map[string]struct {
		want   job.Status
		change func(*job.Execution)
		end    func(b begun, id job.ExecutionID)
	}{
		"succeeds":  {job.Succeeded, nil, func(b begun, id job.ExecutionID) { _, as := b.take(id); b.report(succeed(as[0])) }},
		"fails":     {job.Failed, nil, func(b begun, id job.ExecutionID) { _, as := b.take(id); b.report(die(as[0], 1)) }},
		"cancelled": {job.Cancelled, nil, func(b begun, id job.ExecutionID) { must(b.Cancel(b.ctx, tenant.Default, id, "no", nil)) }},
		"expires":   {job.Expired, soon, func(b begun, id job.ExecutionID) { must(b.Expire(b.ctx, 10)) }},
		"forced": {job.Cancelled, nil, func(b begun, id job.ExecutionID) {
			b.take(id)
			must(b.Cancel(b.ctx, tenant.Default, id, "no", nil))
			must(b.Force(b.ctx, 0, 10))
		}},
		"poisons": {job.Failed, nil, func(b begun, id job.ExecutionID) {
			w, _ := b.take(id)
			b.expire(w)
			must(b.Reap(b.ctx, 10, 1))
		}},
		"handed back after a cancel": {job.Cancelled, nil, func(b begun, id job.ExecutionID) {
			w, as := b.take(id)
			must(b.Cancel(b.ctx, tenant.Default, id, "no", nil))
			must(b.Release(b.ctx, w, []job.Lease{as[0].Lease}))
		}},
	} {
		var changes []func(*job.Execution)
		if c.change != nil {
			changes = append(changes, c.change)
		}
		b := f.begin(1, changes...)
		id := b.members[0].ID
		c.end(b, id)
		if got := b.marks(); len(got) != 1 || got[id] != c.want {
			t.Errorf("%s: marks %v, want one of %v", name, got, c.want)
		}
		if m := must(b.MemberOf(b.ctx, tenant.Default, id)); m.Status != c.want || m.Run != b.run.ID {
			t.Errorf("%s: the member is %+v", name, m)
		}
	}
	_, plain := f.add("plain")
	_, as := f.take(plain.ID)
	if v := f.report(succeed(as[0])); !v[0].Run.IsZero() {
		t.Errorf("an execution of no run names %v", v[0].Run)
	}
	if _, err := f.MemberOf(f.ctx, tenant.Default, plain.ID); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("an execution of no run is a member: %v", err)
	}
}

// A run's data is removed before what its executions left behind.
func resultsOfNodes(t *testing.T, h Harness) {
	b := open(t, h).begin(3)
	for _, m := range b.members[:2] {
		_, as := b.take(m.ID)
		b.report(succeed(as[0]))
	}
	all := engine.ResultQuery{Tenant: tenant.Default, Run: b.run.ID, From: 0, Until: engine.PlaceOf(3, -1), Since: b.run.BegunAt.Add(-time.Hour)}
	ask := func(q engine.ResultQuery, most, wantSize int64, want ...string) {
		t.Helper()
		rs, size, err := b.NodeResults(b.ctx, q, most)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range rs {
			got = append(got, string(r.Result))
		}
		if size != wantSize || !slices.Equal(got, want) {
			t.Errorf("%d bytes: %q, want %d: %q", size, got, wantSize, want)
		}
	}
	ask(all, 22, 22, `{"ok":true}`, `{"ok":true}`)
	ask(all, 21, 22)
	b.change(func(v engine.RunView) *engine.RunChange {
		c := b.same()
		c.Results = []engine.RunResult{{Place: engine.PlaceOf(1, -1), Result: []byte(`7`)}, {Place: engine.PlaceOf(2, -1), Error: &job.Error{Type: "X", Message: "no"}}}
		return &c
	})
	ask(all, 1000, 12, `{"ok":true}`, `7`, ``)
	one, later, other := all, all, all
	one.From, one.Until = engine.PlaceOf(1, -1), engine.PlaceOf(2, -1)
	ask(one, 1000, 1, `7`)
	later.Since = b.now().Add(time.Hour)
	ask(later, 1000, 1, `7`, ``)
	other.Tenant = "other"
	ask(other, 1000, 0)
}

// Why a node failed is known as soon as it has ended. What a run keeps goes before what executions of earlier attempts left behind.
func errorsOfNodes(t *testing.T, h Harness) {
	b := open(t, h).begin(4)
	for i, m := range b.members[:3] {
		_, as := b.take(m.ID)
		done := succeed(as[0])
		if i < 2 {
			done = die(as[0], 1)
			done.Outcome.Error = &job.Error{Type: "OWN", Message: m.ID.String(), HTTPStatus: 503}
		}
		b.report(done)
	}
	all := engine.ErrorQuery{Tenant: tenant.Default, Run: b.run.ID, Attempt: 1, Since: b.run.BegunAt.Add(-time.Hour)}
	for n := range 4 {
		all.Places = append(all.Places, engine.PlaceOf(n, -1))
	}
	ask := func(q engine.ErrorQuery, want ...string) {
		t.Helper()
		var got []string
		for _, r := range must(b.RunErrors(b.ctx, q)) {
			got = append(got, fmt.Sprintf("%d %s", r.Place.Node(), r.Error.Type))
			if r.Error.Type == "OWN" && (r.Error.Message != b.members[r.Place.Node()].ID.String() || r.Error.HTTPStatus != 503) {
				t.Errorf("the error of an execution is %+v", r.Error)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: %q, want %q", q, got, want)
		}
	}
	ask(all, "0 OWN", "1 OWN")
	b.change(func(engine.RunView) *engine.RunChange {
		c := b.same()
		c.Results = []engine.RunResult{{Place: engine.PlaceOf(1, -1), Error: &job.Error{Type: "KEPT"}}, {Place: engine.PlaceOf(2, -1), Error: &job.Error{Type: "KEPT"}}, {Place: engine.PlaceOf(3, -1), Result: []byte("1")}}
		return &c
	})
	ask(all, "0 OWN", "1 OWN", "2 KEPT")
	again, some, later, other := all, all, all, all
	again.Attempt = 2
	ask(again, "0 OWN", "1 KEPT", "2 KEPT")
	some.Places = all.Places[1:2]
	ask(some, "1 OWN")
	some.Places = nil
	ask(some)
	later.Since = b.now().Add(time.Hour)
	ask(later, "1 KEPT", "2 KEPT")
	other.Tenant = "other"
	ask(other)
}

// A change is written whole.
func changeARun(t *testing.T, h Harness) {
	b := open(t, h).begin(1)
	now := b.now()
	j := b.sample("late node")
	j.ID, j.State, j.Schedule = job.NodeID(newID()), job.Inline, job.Schedule{Type: job.Manual}
	b.store(engine.Creation{Tenant: j.Tenant, Jobs: []job.Job{j}})
	x := b.due(j)
	x.Trigger = job.ByWorkflow
	target := j.Target
	target.Timeout = 77 * time.Second
	_, out := b.change(func(v engine.RunView) *engine.RunChange {
		c := b.same()
		c.State, c.Began = []byte("changed"), []int{2, 3}
		c.Members = []engine.NewMember{{Place: engine.PlaceOf(1, 4), Execution: x, Target: engine.EncodeTarget(&target)}}
		c.Results = []engine.RunResult{{Place: engine.PlaceOf(0, -1), Result: []byte("1")}, {Place: engine.PlaceOf(1, 0), Result: []byte("2")}, {Place: engine.PlaceOf(1, 2), Error: &job.Error{Type: "X", Message: "m"}}}
		c.Waits = []engine.RunWait{
			{Node: 2, Kind: engine.WaitApproval, BegunAt: now, Votes: []byte("[]")}, {Node: 3, Kind: engine.WaitTimer, BegunAt: now, WakeAt: now.Add(-time.Minute)},
			{Node: 3, Kind: engine.WaitDeadline, BegunAt: now, WakeAt: now.Add(time.Hour)},
		}
		return &c
	})
	if len(out.Ready) != 1 || out.Ready[0].ID != x.ID {
		t.Errorf("ready: %+v", out.Ready)
	}
	holder, as := b.take(x.ID)
	if as[0].Target.Timeout != target.Timeout || as[0].Run != b.run.ID {
		t.Errorf("the node's own target and run were not leased: %+v", as[0])
	}
	if d := cmp.Diff([]*job.Attempt{&as[0]}, must(b.Leased(b.ctx, []engine.HeldBy{{Worker: holder, Lease: as[0].Lease}}))); d != "" {
		t.Errorf("they were not read again (-leased +read):\n%s", d)
	}
	if got := must(b.Census(b.ctx, now)); got.Runs.Count != 1 || got.Approvals.Count != 1 || !got.OldestWaits.Equal(now) || !got.Undecided.Equal(now.Add(-time.Minute)) {
		t.Errorf("census: %+v", got)
	}
	if got := must(b.RunResults(b.ctx, tenant.Default, b.run.ID, engine.PlaceOf(1, -1), engine.PlaceOf(2, -1))); len(got) != 2 || got[1].Place.Item() != 2 || got[1].Error == nil || string(got[0].Result) != "2" {
		t.Errorf("results: %+v", got)
	}
	if got := must(b.Approvals(b.ctx, tenant.Default, 10)); len(got) != 1 || got[0].Run != b.run.ID || got[0].Node != 2 {
		t.Errorf("approvals: %+v", got)
	}
	for i, after := range []engine.RunWait{{BegunAt: now}, {BegunAt: now.Add(-time.Hour)}, {BegunAt: now, Run: b.run.ID, Node: 1}, {BegunAt: now, Run: b.run.ID, Node: 2}, {BegunAt: now.Add(time.Second)}} {
		n := 0
		if i < 3 {
			n = 1
		}
		if got := must(b.NewApprovals(b.ctx, tenant.Default, after, 10)); len(got) != n {
			t.Errorf("approvals after %v: %+v, want %d", after, got, n)
		}
		if got := must(b.NewApprovals(b.ctx, "other", after, 10)); len(got) != 0 {
			t.Errorf("another tenant's approvals: %+v", got)
		}
	}
	if got := b.wakes(); !slices.Equal(got, []job.ExecutionID{b.run.ID}) {
		t.Errorf("to be woken: %v", got)
	}
	soon := now.Add(time.Hour)
	b.change(func(engine.RunView) *engine.RunChange {
		c := b.same()
		c.State, c.Waits = []byte("changed"), []engine.RunWait{{Node: 9, Kind: engine.WaitTimer, BegunAt: now, WakeAt: soon.Add(time.Hour)}, {Node: 8, Kind: engine.WaitTimer, BegunAt: now, WakeAt: soon}}
		return &c
	})
	if _, next, err := b.WakeRuns(b.ctx, 10); err != nil || !next.Equal(soon) {
		t.Errorf("a wait is due next at %v, want %v; %v", next, soon, err)
	}
	b.change(func(v engine.RunView) *engine.RunChange {
		c := b.same()
		c.State, c.Closed = []byte("changed"), []engine.RunWait{{Node: 8, Kind: engine.WaitTimer}, {Node: 9, Kind: engine.WaitTimer}}
		return &c
	})
	seen, _ := b.change(func(v engine.RunView) *engine.RunChange {
		if rs := must(v.Reader.Results(v.Run.ID, 1)); len(rs) != 2 {
			t.Errorf("read while it is decided: %+v", rs)
		}
		c := b.same()
		c.Closed, c.Forget, c.Over = []engine.RunWait{{Node: 3, Kind: engine.WaitTimer}}, []int{1}, []int{3, 5}
		return &c
	})
	if string(seen.Run.State) != "changed" || seen.Run.Seq != 4 || len(seen.Waits) != 3 || seen.Now.Before(now) {
		t.Errorf("seen: %+v", seen)
	}
	spans := must(b.NodeSpans(b.ctx, tenant.Default, b.run.ID))
	if len(spans) != 2 || spans[0].Node != 2 || spans[0].StartedAt.Before(now) || !spans[0].FinishedAt.IsZero() || spans[1].Node != 3 || spans[1].FinishedAt.Before(spans[1].StartedAt) {
		t.Errorf("times of nodes: %+v", spans)
	}
	if got := must(b.NodeSpans(b.ctx, "other", b.run.ID)); len(got) != 0 {
		t.Errorf("times of another tenant's run: %+v", got)
	}
	if got := must(b.RunWaits(b.ctx, tenant.Default, b.run.ID)); len(got) != 2 {
		t.Errorf("waits: %+v", got)
	}
	if got := must(b.RunResults(b.ctx, tenant.Default, b.run.ID, 0, engine.PlaceOf(9, -1))); len(got) != 1 {
		t.Errorf("results after some were forgotten: %+v", got)
	}
	if got := b.wakes(); len(got) != 0 {
		t.Errorf("still to be woken: %v", got)
	}
	_, out = b.change(func(engine.RunView) *engine.RunChange {
		c := b.same()
		c.Cancel, c.Reason, c.Renumber = []engine.NodeStop{{Node: 0}, {Node: 1}}, "stop", map[int]int{0: 1, 1: 0, 3: -1}
		c.Began = []int{2}
		return &c
	})
	if got := must(b.RunResults(b.ctx, tenant.Default, b.run.ID, 0, engine.PlaceOf(9, -1))); len(got) != 1 || got[0].Place != engine.PlaceOf(1, -1) {
		t.Errorf("results after nodes were renumbered: %+v", got)
	}
	if got := must(b.NodeSpans(b.ctx, tenant.Default, b.run.ID)); len(got) != 1 || got[0].Node != 2 || got[0].StartedAt.Before(spans[0].StartedAt) {
		t.Errorf("times after nodes were renumbered: %+v", got)
	}
	if len(out.Ended) != 1 || out.Ended[0].Execution != b.members[0].ID || !slices.Contains(out.Runs, b.run.ID) {
		t.Errorf("cancelled: %+v", out)
	}
	if e := b.execution(x.ID); e.Status != job.Cancelling {
		t.Errorf("what ran is %v", e.Status)
	}
}

// The end of a run ends its execution in the same commit; if that is a node of another run, that run is told.
func endARun(t *testing.T, h Harness) {
	f := open(t, h)
	b := f.begin(1)
	finish := func() (engine.RunView, engine.RunChanged) {
		return b.change(func(engine.RunView) *engine.RunChange {
			c := b.same()
			c.Status, c.State, c.Ended, c.Output = 10, []byte("over"), true, []byte(`{"ok":true}`)
			c.Finish = &job.Finish{
				Outcome: job.Outcome{Lease: job.Lease{Execution: b.run.Execution, Token: b.run.Token}, Status: job.OutcomeSucceeded, Result: c.Output},
				Then:    job.Transition{Status: job.Succeeded, Move: job.Done},
			}
			return &c
		})
	}
	_, out := finish()
	if len(out.Ended) != 1 || out.Ended[0].Status != job.Succeeded || out.Released != b.attempt.Lease {
		t.Errorf("the end: %+v", out)
	}
	e := b.execution(b.run.ID)
	var result map[string]bool
	if err := json.Unmarshal(e.Result, &result); err != nil || e.Status != job.Succeeded || !result["ok"] {
		t.Errorf("the run's execution: %v %s", e.Status, e.Result)
	}
	stored := must(f.WorkflowRun(f.ctx, tenant.Default, b.run.ID))
	if stored.EndedAt.IsZero() || stored.Status != 10 || string(stored.Output) != `{"ok":true}` {
		t.Errorf("stored: %+v", stored)
	}
	must(f.ForgetRuns(f.ctx, tenant.Default, stored.EndedAt, engine.Place{}, 10))
	must(f.WorkflowRun(f.ctx, tenant.Default, b.run.ID)) // too early
	if !must(f.ForgetRuns(f.ctx, tenant.Default, stored.EndedAt.Add(time.Second), engine.Place{}, 1)).More {
		t.Error("a run with a node was forgotten in one piece")
	}
	must(f.WorkflowRun(f.ctx, tenant.Default, b.run.ID)) // until nothing else is left of it
	if must(f.ForgetRuns(f.ctx, tenant.Default, stored.EndedAt.Add(time.Second), engine.Place{}, 10)).More {
		t.Error("there is more to forget, and there is only one run")
	}
	if _, err := f.WorkflowRun(f.ctx, tenant.Default, b.run.ID); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("a forgotten run: %v", err)
	}
	if _, err := f.MemberOf(f.ctx, tenant.Default, b.members[0].ID); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("a node of a forgotten run: %v", err)
	}
	b = f.begin(0)
	again := b.run
	again.Token += 5 // somebody else is about to hold it
	must(f.BeginRuns(f.ctx, []engine.NewRun{{Run: again, First: b.same()}}))
	if _, out := finish(); len(out.Ended) != 0 || b.execution(b.run.ID).Status != job.Running {
		t.Errorf("another token than that of the lease ended the run's execution: %+v", out)
	}
}

// A cancel does not end a run: it asks the run to stop, which then ends what is in progress.
func stopARun(t *testing.T, h Harness) {
	b := open(t, h).begin(1)
	for range 2 {
		if got := must(b.Cancel(b.ctx, tenant.Default, b.run.ID, "enough", nil)); got.Status != job.Cancelling || len(got.Ended) != 0 {
			t.Errorf("the cancel of a run: %+v", got)
		}
	}
	if got := must(b.Force(b.ctx, 0, 10)); len(got) != 0 {
		t.Errorf("a run was ended by force: %+v", got)
	}
	seen, _ := b.change(nil)
	if len(seen.Marks) != 1 || seen.Marks[0].Place != engine.AskedToStop || seen.Marks[0].Execution != b.run.Execution {
		t.Errorf("marks: %+v", seen.Marks)
	}
	if e := b.execution(b.run.ID); e.Status != job.Cancelling {
		t.Errorf("the run's execution is %v", e.Status)
	}
	if e := b.execution(b.members[0].ID); e.Status != job.Pending {
		t.Errorf("its node is %v", e.Status)
	}
	if os := must(b.Overrun(b.ctx, 0, 10)); len(os) != 0 {
		t.Errorf("a run has taken too long: %+v", os)
	}
}

// A retry of a finished run continues under a new execution, and is found by the ids of all its attempts.
func retryARun(t *testing.T, h Harness) {
	b := open(t, h).begin(1)
	_, as := b.take(b.members[0].ID)
	b.report(die(as[0], 1))
	b.change(func(engine.RunView) *engine.RunChange {
		c := b.same()
		c.Status, c.Ended = 11, true
		c.Finish = &job.Finish{Outcome: job.Outcome{Lease: b.attempt.Lease, Status: job.OutcomeFailed, Error: &job.Error{Type: job.NodeFailed, Message: "m"}}, Then: job.Transition{Status: job.Failed, Move: job.Died, Tries: 1}}
		return &c
	})
	w := b.job(b.run.Workflow)
	next := b.due(w)
	next.Trigger, next.RetryOf, next.Class = job.ByRetry, b.run.ID, job.Class(job.Workflow)
	again := b.due(b.job(b.members[0].Job))
	again.Trigger = job.ByWorkflow
	b.change(func(engine.RunView) *engine.RunChange {
		c := b.same()
		c.Attempt, c.Next = 2, &next
		c.Members = []engine.NewMember{{Place: engine.PlaceOf(0, -1), Execution: again}}
		return &c
	})
	if e := b.execution(again.ID); e.RetryOf != b.members[0].ID {
		t.Errorf("the node's second execution is one more try of %v, want %v", e.RetryOf, b.members[0].ID)
	}
	if dead := must(b.DeadLetters(b.ctx, engine.DeadLetterFilter{Tenant: tenant.Default}, engine.Page{Limit: 10})); len(dead.DeadLetters) != 0 {
		t.Errorf("what is tried again is still dead: %+v", dead.DeadLetters)
	}
	for _, id := range []job.ExecutionID{b.run.ID, next.ID} {
		if got := must(b.WorkflowRun(b.ctx, tenant.Default, id)); got.ID != b.run.ID || got.Execution != next.ID || got.Attempt != 2 || !got.EndedAt.IsZero() || got.Token <= b.run.Token {
			t.Errorf("by %v: %+v", id, got)
		}
	}
	if e := b.execution(next.ID); e.Status != job.Running || e.RetryOf != b.run.ID {
		t.Errorf("the next attempt's execution: %+v", e)
	}
	if e := b.execution(b.run.ID); e.Status != job.Failed {
		t.Errorf("the first attempt's execution is %v", e.Status)
	}
	b.change(func(v engine.RunView) *engine.RunChange {
		c := b.same()
		c.Attempt, c.Status, c.Ended = 2, 10, true
		c.Finish = &job.Finish{Outcome: job.Outcome{Lease: job.Lease{Execution: v.Run.Execution, Token: v.Run.Token}, Status: job.OutcomeSucceeded}, Then: job.Transition{Status: job.Succeeded, Move: job.Done}}
		return &c
	})
	if e := b.execution(next.ID); e.Status != job.Succeeded {
		t.Errorf("the second attempt ended as %v", e.Status)
	}
}

// An event finds waits that match, and a wait that begins later finds the event.
func runEvents(t *testing.T, h Harness) {
	b := open(t, h).begin(0)
	now := b.now()
	waits := func() {
		b.change(func(engine.RunView) *engine.RunChange {
			c := b.same()
			c.Waits = []engine.RunWait{
				{Node: 0, Kind: engine.WaitEvent, BegunAt: now, Event: "paid", Match: []byte(`"a"`)},
				{Node: 1, Kind: engine.WaitEvent, BegunAt: now, Event: "sent"},
			}
			return &c
		})
	}
	waits()
	if got := must(b.EventWaits(b.ctx, tenant.Default, "paid", []byte(`"a"`), 10)); len(got) != 1 || got[0] != b.run.ID {
		t.Errorf("runs that wait for the event: %v", got)
	}
	send := func(name, match string) []job.ExecutionID {
		return must(b.SendEvent(b.ctx, engine.RunEvent{ID: newID(), Tenant: tenant.Default, Name: name, Match: []byte(match), Payload: []byte(`{"n":1}`), At: b.now()}, engine.EventOnce{}, nil)).Runs
	}
	for _, c := range []struct {
		name, match string
		want        int
	}{{"paid", `"a"`, 1}, {"paid", `"b"`, 0}, {"paid", "", 0}, {"sent", `"x"`, 1}, {"sent", "", 1}, {"other", "", 0}} {
		if got := send(c.name, c.match); len(got) != c.want {
			t.Errorf("%s with %s releases %d runs, want %d", c.name, c.match, len(got), c.want)
		}
		// Its sender may die before anybody advances the run: the sweep finds it.
		if woken := b.wakes(); slices.Contains(woken, b.run.ID) != (c.want > 0) {
			t.Errorf("%s with %s: the sweep finds %v", c.name, c.match, woken)
		}
		waits() // as they were
	}
	b.change(func(v engine.RunView) *engine.RunChange {
		for _, c := range []struct {
			name, match string
			since       time.Time
			want        bool
		}{{"paid", `"b"`, now.Add(-time.Hour), true}, {"paid", `"z"`, now.Add(-time.Hour), false}, {"paid", "", now.Add(-time.Hour), true}, {"sent", "", now.Add(time.Hour), false}} {
			got := must(v.Reader.Event(tenant.Default, c.name, []byte(c.match), c.since))
			if (got != nil) != c.want || got != nil && string(got.Payload) != `{"n":1}` {
				t.Errorf("the event %s with %s: %+v", c.name, c.match, got)
			}
		}
		return nil
	})
}

// A decision about a run that has changed since it was read is refused, and nothing of it is stored, though no lock kept the run as it was.
func lateDecision(t *testing.T, h Harness) {
	b := open(t, h).begin(1)
	_, as := b.take(b.members[0].ID)
	b.report(succeed(as[0]))
	to := func(state string) *engine.RunChange {
		c := b.same()
		c.State, c.Began = []byte(state), []int{0}
		c.Results = []engine.RunResult{{Place: engine.PlaceOf(0, -1), Result: []byte(`"` + state + `"`)}}
		return &c
	}
	late := h.Behind(b.Store, func() {
		if seen, _ := b.change(func(engine.RunView) *engine.RunChange { return to("first") }); len(seen.Marks) != 1 {
			t.Errorf("the first decision saw the marks %+v", seen.Marks)
		}
	})
	var seen engine.RunView
	got, err := late.ChangeRuns(b.ctx, []job.ExecutionID{b.run.ID}, func(v engine.RunView) (*engine.RunChange, error) { seen = v; return to("late"), nil })
	if !errors.Is(err, engine.ErrConflict) {
		t.Errorf("a late decision: %+v, %v; want a conflict", got, err)
	}
	if seen.Run.Seq != 1 || len(seen.Marks) != 1 {
		t.Errorf("the late decision saw %+v", seen)
	}
	if r := must(b.WorkflowRun(b.ctx, tenant.Default, b.run.ID)); string(r.State) != "first" || r.Seq != 2 {
		t.Errorf("the run: %+v", r)
	}
	if rs := must(b.RunResults(b.ctx, tenant.Default, b.run.ID, 0, engine.PlaceOf(9, -1))); len(rs) != 1 || string(rs[0].Result) != `"first"` {
		t.Errorf("results: %+v", rs)
	}
	again := h.Behind(b.Store, func() {})
	if got := must(again.ChangeRuns(b.ctx, []job.ExecutionID{b.run.ID}, func(engine.RunView) (*engine.RunChange, error) { return to("second"), nil })); len(got) != 1 || got[0].Err != nil {
		t.Errorf("a decision about what is as it was read: %+v", got)
	}
}

// A run that is a node of another has two marks by one execution: that it is to be cancelled, and, for the run above it, that it has ended.
func runInARun(t *testing.T, h Harness) {
	b := open(t, h).begin(1, func(x *job.Execution) { x.Class = job.Class(job.Workflow) })
	node := b.members[0].ID
	_, as := b.take(node)
	sub := b.run
	sub.ID, sub.Execution, sub.Token = node, node, as[0].Token
	if got := must(b.BeginRuns(b.ctx, []engine.NewRun{{Run: sub, First: b.same()}}))[0]; !got.New {
		t.Fatalf("the run in the run: %+v", got)
	}
	if got := must(b.Cancel(b.ctx, tenant.Default, node, "enough", nil)); got.Status != job.Cancelling {
		t.Fatalf("its cancel: %+v", got)
	}
	if v := b.report(succeed(as[0])); !v[0].Accepted || v[0].Run != b.run.ID {
		t.Fatalf("its end: %+v", v)
	}
	below := begun{fixture: b.fixture, run: sub}
	if seen, _ := below.change(nil); len(seen.Marks) != 1 || seen.Marks[0].Place != engine.AskedToStop {
		t.Errorf("marks of the run in the run: %+v", seen.Marks)
	}
	if got := b.marks(); len(got) != 1 || got[node] == 0 {
		t.Errorf("marks of the run above it: %v", got)
	}
	if got := b.marks(); len(got) != 0 {
		t.Errorf("they are there still: %v", got)
	}
}
