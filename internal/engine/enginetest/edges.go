package enginetest

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// manual stores a job that runs when it is triggered.
func (f fixture) manual(name string, change ...func(*job.Job)) job.Job {
	f.Helper()
	j := f.sample(name)
	j.Schedule = job.Schedule{Type: job.Manual}
	for _, c := range change {
		c(&j)
	}
	f.store(engine.Creation{Tenant: j.Tenant, Jobs: []job.Job{j}})
	return j
}

// depend has a job depend on others.
func (f fixture) depend(child job.ID, reset bool, parents ...job.ID) error {
	f.Helper()
	j := f.job(child)
	j.DependsOn, j.DependsIf = parents, "always"
	if len(parents) == 0 {
		j.DependsIf = ""
	}
	_, err := f.UpdateJob(f.ctx, tenant.Default, engine.Update{Job: j, AsOf: f.now(), Parents: &engine.ParentsChange{Reset: reset}})
	return err
}

func (f fixture) check(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// dependent stores a job that depends on others, and takes the mark that asks to look at it.
func (f fixture) dependent(name string, parents ...job.ID) job.Job {
	f.Helper()
	j := f.manual(name)
	if err := f.depend(j.ID, false, parents...); err != nil {
		f.Fatal(err)
	}
	f.fold(j.ID, nil)
	return f.job(j.ID)
}

// triggered has an execution of a job wait for a worker.
func (f fixture) triggered(j job.Job, change ...func(*job.Execution)) job.Execution {
	f.Helper()
	e := f.due(j)
	e.Trigger = job.ByHand
	for _, c := range change {
		c(&e)
	}
	must(f.Trigger(f.ctx, tenant.Default, e, engine.Idempotency{}, nil))
	return e
}

// ends has an execution of a job succeed.
func (f fixture) ends(j job.Job) job.Execution {
	f.Helper()
	e := f.triggered(j)
	_, as := f.take(e.ID)
	if vs := f.report(succeed(as[0])); !vs[0].Accepted {
		f.Fatalf("it did not end: %+v", vs[0])
	}
	return e
}

// fold takes the marks of a child, and says what decide saw; nothing if there were no marks.
func (f fixture) fold(child job.ID, decide func(engine.TokenView) engine.TokenChange) (seen engine.TokenView, out engine.TokensFolded) {
	f.Helper()
	out = must(f.FoldTokens(f.ctx, engine.Child{Tenant: tenant.Default, Job: child}, func(v engine.TokenView) (engine.TokenChange, error) {
		seen = v
		if decide == nil {
			return engine.TokenChange{}, nil
		}
		return decide(v), nil
	}))
	return seen, out
}

// put is the change that gives the tokens of all marks.
func put(v engine.TokenView) (next engine.TokenChange) {
	for _, m := range v.Marks {
		if m.Execution != job.ExecutionID(v.Job) {
			next.Tokens = append(next.Tokens, engine.Edge{Child: v.Job, Parent: m.Parent, Token: m.Execution, At: m.At})
		}
	}
	return next
}

// tokens lists, in the order of a job's parents, what they have left.
func (f fixture) tokens(child job.ID) (out []job.ExecutionID) {
	f.Helper()
	for _, e := range must(f.Dependencies(f.ctx, tenant.Default, []job.ID{child})) {
		out = append(out, e.Token)
	}
	return out
}

// marked lists the children with marks.
func (f fixture) marked() (out []job.ID) {
	f.Helper()
	for _, c := range must(f.MarkedChildren(f.ctx, 0, 100)) {
		out = append(out, c.Job)
	}
	return out
}

// edges are the dependencies between jobs.
func edges(t *testing.T, h Harness) {
	t.Run("set and read", func(t *testing.T) {
		f := open(t, h)
		a, b, c := f.manual("a"), f.manual("b"), f.manual("c")
		if err := f.depend(c.ID, false, b.ID, a.ID); err != nil {
			t.Fatal(err)
		}
		if got := f.job(c.ID); !slices.Equal(got.DependsOn, []job.ID{b.ID, a.ID}) || got.DependsIf != "always" || got.Revision != 2 {
			t.Errorf("stored: %+v", got)
		}
		got := must(f.Dependencies(f.ctx, tenant.Default, []job.ID{c.ID, a.ID}))
		if len(got) != 2 || got[0].Child != c.ID || got[0].Parent != a.ID || got[1].Parent != b.ID || !got[0].Token.IsZero() || !got[0].At.IsZero() {
			t.Errorf("edges: %+v", got)
		}
		if got := must(f.Dependencies(f.ctx, "other", []job.ID{c.ID})); len(got) != 0 {
			t.Errorf("another tenant's: %+v", got)
		}
		if got := must(f.Dependants(f.ctx, tenant.Default, a.ID, 10)); !slices.Equal(got, []job.ID{c.ID}) {
			t.Errorf("dependants: %v", got)
		}
		if got := f.marked(); !slices.Equal(got, []job.ID{c.ID}) {
			t.Errorf("to look at: %v", got)
		}
		if got := must(f.MarkedChildren(f.ctx, time.Hour, 10)); len(got) != 0 {
			t.Errorf("to look at for an hour: %v", got)
		}
		if err := f.depend(a.ID, false, c.ID); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("a circle: %v", err)
		}
		if err := f.depend(a.ID, false, a.ID); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("on itself: %v", err)
		}
		if err := f.depend(a.ID, false, newID()); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("on what is unknown: %v", err)
		}
		if got := f.tokens(a.ID); len(got) != 0 {
			t.Errorf("what was refused is stored: %v", got)
		}
		var no *engine.Used
		if _, err := f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: a.ID, AsOf: f.now()}); !errors.As(err, &no) || len(no.Dependants) != 1 || no.Dependants[0].Name != "c" {
			t.Errorf("deleting a parent: %v", err)
		}
		must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: c.ID, AsOf: f.now()}))
		must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: a.ID, AsOf: f.now()}))
		if err := f.depend(b.ID, false, a.ID); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("on what is deleted: %v", err)
		}
		f.fold(c.ID, func(engine.TokenView) engine.TokenChange {
			t.Error("a deleted job is to be decided about")
			return engine.TokenChange{}
		})
		if got := f.marked(); len(got) != 0 {
			t.Errorf("marks of a deleted job: %v", got)
		}
	})
	t.Run("what is above a job", func(t *testing.T) {
		f := open(t, h)
		a, b, w := f.manual("a"), f.manual("b"), f.manual("w")
		f.check(f.depend(b.ID, false, a.ID))
		v := engine.WorkflowVersion{Tenant: tenant.Default, Workflow: w.ID, Version: 1, CreatedAt: f.now(), By: "x", Definition: []byte("{}"), Jobs: []job.ID{a.ID}}
		f.check(f.AddWorkflow(f.ctx, v))
		want := []engine.Edge{{Child: b.ID, Parent: a.ID}, {Child: a.ID, Parent: w.ID}}
		if got := must(f.Above(f.ctx, tenant.Default, []job.ID{b.ID}, 10)); !slices.Equal(got, want) {
			t.Errorf("above b: %v; want %v", got, want)
		}
		if got := must(f.Above(f.ctx, tenant.Default, []job.ID{b.ID}, 1)); len(got) != 1 {
			t.Errorf("one of those above b: %v", got)
		}
		if got := must(f.Above(f.ctx, "other", []job.ID{a.ID, b.ID}, 10)); len(got) != 0 {
			t.Errorf("another tenant's: %v", got)
		}
		if err := f.depend(w.ID, false, b.ID); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("a workflow that depends on what it runs: %v", err)
		}
		f.check(f.depend(w.ID, false, f.manual("before").ID))
	})
	t.Run("more above a job than may be", func(t *testing.T) {
		f := open(t, h)
		layer := func(name string) (ids []job.ID) {
			for range 100 {
				ids = append(ids, f.manual(name).ID)
			}
			return ids
		}
		top, middle := layer("top"), layer("middle")
		for _, id := range middle {
			f.check(f.depend(id, false, top...))
		}
		last := f.manual("last")
		if err := f.depend(last.ID, false, middle...); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("on 100 that depend on 100 each: %v", err)
		}
		f.check(f.depend(last.ID, false, middle[:99]...))
	})
	t.Run("a workflow that comes to run what it depends on", func(t *testing.T) {
		f := open(t, h)
		a, b, w := f.manual("a"), f.manual("b"), f.manual("w")
		v := engine.WorkflowVersion{Tenant: tenant.Default, Workflow: w.ID, Version: 1, CreatedAt: f.now(), By: "x", Definition: []byte("{}")}
		f.check(f.AddWorkflow(f.ctx, v))
		f.check(f.depend(b.ID, false, a.ID))
		f.check(f.depend(w.ID, false, b.ID))
		for id, ok := range map[job.ID]bool{a.ID: false, b.ID: false, f.manual("c").ID: true} {
			v.Version, v.Jobs = 2, []job.ID{id}
			j := f.job(w.ID)
			if _, err := f.UpdateJob(f.ctx, tenant.Default, engine.Update{Job: j, AsOf: f.now(), Workflow: &v}); ok != (err == nil) || !ok && !errors.Is(err, engine.ErrConflict) {
				t.Errorf("a version that runs %s: %v", id, err)
			}
		}
	})
	t.Run("a circle that two changes make together", func(t *testing.T) {
		f := open(t, h)
		for range 10 {
			a, b := f.manual("a"), f.manual("b")
			var wg sync.WaitGroup
			var errs [2]error
			wg.Go(func() { errs[0] = f.depend(a.ID, false, b.ID) })
			wg.Go(func() { errs[1] = f.depend(b.ID, false, a.ID) })
			wg.Wait()
			if (errs[0] == nil) == (errs[1] == nil) {
				t.Fatalf("%v and %v; want that exactly one succeeds", errs[0], errs[1])
			}
		}
	})
	t.Run("every end leaves a mark", func(t *testing.T) {
		f := open(t, h)
		parent := f.manual("parent")
		child := f.dependent("child", parent.ID)
		other := f.dependent("other", parent.ID)
		take := func(change ...func(*job.Execution)) (job.Execution, job.Attempt) {
			e := f.triggered(parent, change...)
			_, as := f.take(e.ID)
			return e, as[0]
		}
		for name, x := range map[string]struct {
			want job.Status
			end  func() job.ExecutionID
		}{
			"succeeded": {job.Succeeded, func() job.ExecutionID { return f.ends(parent).ID }},
			"failed": {job.Failed, func() job.ExecutionID {
				e, a := take()
				f.report(job.Finish{Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeFailed, Error: boom}, Then: job.Transition{Move: job.Died, Status: job.Failed, Tries: 1}})
				return e.ID
			}},
			"cancelled while it waits": {job.Cancelled, func() job.ExecutionID {
				e := f.triggered(parent)
				must(f.Cancel(f.ctx, tenant.Default, e.ID, "stop", nil))
				return e.ID
			}},
			"forced": {job.Cancelled, func() job.ExecutionID {
				e, _ := take()
				must(f.Cancel(f.ctx, tenant.Default, e.ID, "stop", nil))
				must(f.Force(f.ctx, -time.Second, 10))
				return e.ID
			}},
			"expired": {job.Expired, func() job.ExecutionID {
				e := f.triggered(parent, func(e *job.Execution) { e.ExpiresAt = f.now().Add(-time.Second) })
				must(f.Expire(f.ctx, 10))
				return e.ID
			}},
			"lost too often": {job.Failed, func() job.ExecutionID {
				e := f.triggered(parent)
				w, _ := f.take(e.ID)
				f.expire(w)
				must(f.Reap(f.ctx, 10, 1))
				return e.ID
			}},
		} {
			id := x.end()
			if e := f.execution(id); e.Status != x.want {
				t.Errorf("%s: it is %v", name, e.Status)
			}
			for _, c := range []job.Job{child, other} {
				seen, _ := f.fold(c.ID, nil)
				if len(seen.Marks) != 1 || seen.Marks[0].Execution != id || seen.Marks[0].Parent != parent.ID || seen.Marks[0].Status != x.want || seen.Marks[0].At.IsZero() {
					t.Errorf("%s: the marks are %+v", name, seen.Marks)
				}
			}
		}
		_, a := take()
		again := job.Finish{Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeFailed, Error: boom}, Then: job.Transition{Move: job.Again, Status: job.Retrying, Tries: 1, DueAt: f.now()}}
		if vs := f.report(again); vs[0].Tokens {
			t.Error("an attempt that is tried again left a mark")
		}
		e, a := take()
		if vs := f.report(succeed(a)); !vs[0].Tokens {
			t.Error("the verdict says nothing of marks")
		}
		if vs := f.report(succeed(a)); !vs[0].Accepted || vs[0].Tokens {
			t.Errorf("the same result again: %+v", vs[0])
		}
		if got := f.marked(); len(got) != 2 {
			t.Errorf("%d children have marks, want 2", len(got))
		}
		if seen, _ := f.fold(child.ID, nil); len(seen.Marks) != 1 || seen.Marks[0].Execution != e.ID {
			t.Errorf("the marks are %+v", seen.Marks)
		}
		plain, own := f.add("nobody depends on it")
		_, as := f.take(own.ID)
		if vs := f.report(succeed(as[0])); vs[0].Tokens {
			t.Error("an execution left a mark though no job depends on its own")
		}
		f.ends(plain)
		if got := f.marked(); !slices.Equal(got, []job.ID{other.ID}) {
			t.Errorf("marked are %v", got)
		}
	})
	t.Run("the own fire of a one-off job", func(t *testing.T) {
		f := open(t, h)
		waits, e := f.add("waits")
		runs, x := f.add("runs")
		_, as := f.take(x.ID)
		child := f.dependent("child", waits.ID, runs.ID)
		_, bs := f.take(e.ID)
		if vs := f.report(succeed(as[0]), succeed(bs[0])); !vs[0].Tokens || !vs[1].Tokens {
			t.Errorf("the verdicts are %+v", vs)
		}
		if seen, _ := f.fold(child.ID, nil); len(seen.Marks) != 2 {
			t.Errorf("the marks are %+v", seen.Marks)
		}
	})
	t.Run("tokens are put and consumed once", func(t *testing.T) {
		f := open(t, h)
		a, b := f.manual("a"), f.manual("b")
		child := f.dependent("child", a.ID, b.ID)
		x := f.ends(a)
		f.fold(child.ID, put)
		if got := f.tokens(child.ID); got[0] != x.ID || !got[1].IsZero() {
			t.Fatalf("the tokens are %v", got)
		}
		if seen, _ := f.fold(child.ID, nil); seen.Marks != nil {
			t.Errorf("the mark was given twice: %+v", seen.Marks)
		}
		y := f.ends(b)
		fires := f.due(child)
		fires.Trigger = job.ByWorkflow
		var view engine.TokenView
		consume := func(v engine.TokenView) engine.TokenChange {
			view = v
			return engine.TokenChange{Tokens: []engine.Edge{{Child: child.ID, Parent: a.ID}}, Start: []job.Execution{fires}}
		}
		if _, out := f.fold(child.ID, consume); len(out.Ready) != 1 || out.Ready[0].ID != fires.ID {
			t.Errorf("ready are %+v", out.Ready)
		}
		if len(view.Edges) != 2 || view.Edges[0].Token != x.ID || !view.Edges[0].At.Equal(f.execution(x.ID).FinishedAt) || view.Marks[0].Execution != y.ID || view.State != job.Active || view.Now.IsZero() {
			t.Errorf("it was decided by %+v", view)
		}
		if got := f.tokens(child.ID); !got[0].IsZero() || !got[1].IsZero() {
			t.Errorf("the tokens are %v", got)
		}
		if got := f.execution(fires.ID); got.Status != job.Pending || got.Trigger != job.ByWorkflow {
			t.Errorf("it fired as %+v", got)
		}
		if seen, _ := f.fold(child.ID, consume); seen.Marks != nil {
			t.Error("it was decided about again")
		}
	})
	t.Run("what fails changes nothing", func(t *testing.T) {
		f := open(t, h)
		a := f.manual("a")
		child := f.dependent("child", a.ID)
		f.ends(a)
		c := engine.Child{Tenant: tenant.Default, Job: child.ID}
		if _, err := f.FoldTokens(f.ctx, c, func(engine.TokenView) (engine.TokenChange, error) { return engine.TokenChange{}, errors.New("boom") }); err == nil {
			t.Error("the error of decide is lost")
		}
		stale := func(v engine.TokenView) (engine.TokenChange, error) {
			v.Edges[0].Token = newID() // as it would be had someone else put one
			next := put(v)
			next.Start = []job.Execution{f.due(child)}
			return next, nil
		}
		if _, err := f.FoldTokens(f.ctx, c, stale); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("a token that is not as it was read: %v", err)
		}
		unheld := func(engine.TokenView) (engine.TokenChange, error) {
			return engine.TokenChange{Release: newID()}, nil
		}
		if _, err := f.FoldTokens(f.ctx, c, unheld); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("letting go of what does not wait: %v", err)
		}
		if page := must(f.FindExecutions(f.ctx, engine.ExecutionFilter{Tenant: tenant.Default, Job: child.ID}, engine.Page{Limit: 10})); len(page.Executions) != 0 {
			t.Errorf("it fired: %+v", page.Executions)
		}
		if seen, _ := f.fold(child.ID, nil); len(seen.Marks) != 1 {
			t.Errorf("the marks are %+v", seen.Marks)
		}
	})
	t.Run("two at once fire once", func(t *testing.T) {
		f := open(t, h)
		a := f.manual("a")
		child := f.dependent("child", a.ID)
		for round := range 10 {
			f.ends(a)
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					_, err := f.FoldTokens(f.ctx, engine.Child{Tenant: tenant.Default, Job: child.ID}, func(engine.TokenView) (engine.TokenChange, error) {
						e := f.due(child)
						e.Trigger = job.ByWorkflow
						return engine.TokenChange{Start: []job.Execution{e}}, nil
					})
					if err != nil && !errors.Is(err, engine.ErrConflict) {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			page := must(f.FindExecutions(f.ctx, engine.ExecutionFilter{Tenant: tenant.Default, Job: child.ID}, engine.Page{Limit: 50}))
			if len(page.Executions) != round+1 {
				t.Fatalf("after %d ends it fired %d times", round+1, len(page.Executions))
			}
		}
	})
	t.Run("what its schedule fires waits", func(t *testing.T) {
		f := open(t, h)
		a := f.manual("a")
		at := f.now().Add(-time.Minute)
		child := f.recurring("child", at)
		if err := f.depend(child.ID, false, a.ID); err != nil {
			t.Fatal(err)
		}
		child = f.job(child.ID)
		g := f.firing(child, at, at.Add(2*time.Hour), 1)
		g.Executions[0].Status = job.Waiting
		if rs := must(f.Fire(f.ctx, []engine.Firing{g}, engine.Fence{})); len(rs.Ready)+len(rs.Ended) == 0 {
			t.Fatal("it did not fire")
		}
		x := g.Executions[0].ID
		waits := func(want job.Status) {
			t.Helper()
			if got := f.execution(x); got.Status != want {
				t.Fatalf("it is %v, want %v", got.Status, want)
			}
			if as := must(f.Ready(f.ctx, []engine.LaneCursor{{Lane: g.Executions[0].Ready().Lane()}}, 10)); (len(as) > 0) != (want == job.Pending) {
				t.Errorf("it is %v, and ready are %+v", want, as)
			}
		}
		waits(job.Waiting)
		if as := must(f.Lease(f.ctx, []engine.Grant{{Worker: f.worker(), Executions: []job.ExecutionID{x}}}, engine.Fence{})); len(as) != 0 {
			t.Error("what waits was leased")
		}
		if got := must(f.CountDue(f.ctx)); len(got) > 0 && got[engine.DueKey{Tenant: tenant.Default, Class: child.Class(), Priority: child.Priority}] != 0 {
			t.Errorf("what waits counts as due: %v", got)
		}
		for _, state := range []job.State{job.Paused, job.Active} {
			j := f.job(child.ID)
			j.State = state
			must(f.UpdateJob(f.ctx, tenant.Default, engine.Update{Job: j, AsOf: f.now()}))
			waits(job.Waiting)
			if got := f.marked(); !slices.Equal(got, []job.ID{child.ID}) {
				t.Errorf("it is %v; to look at: %v", state, got)
			}
		}
		if seen, _ := f.fold(child.ID, nil); seen.Waiting != x {
			t.Errorf("it is decided by %+v", seen)
		}
		f.ends(a)
		if _, out := f.fold(child.ID, func(v engine.TokenView) engine.TokenChange { return engine.TokenChange{Release: v.Waiting} }); len(out.Ready) != 1 || out.Ready[0].ID != x || out.Ready[0].Class != child.Class() {
			t.Errorf("ready are %+v", out.Ready)
		}
		waits(job.Pending)
		f.took(x)
	})
	t.Run("without parents nothing waits for them", func(t *testing.T) {
		f := open(t, h)
		a := f.manual("a")
		for state, want := range map[job.State]job.Status{job.Active: job.Pending, job.Paused: job.Waiting} {
			at := f.now().Add(-time.Minute)
			child := f.recurring("child", at)
			if err := f.depend(child.ID, false, a.ID); err != nil {
				t.Fatal(err)
			}
			child = f.job(child.ID)
			g := f.firing(child, at, at.Add(2*time.Hour), 1)
			g.Executions[0].Status = job.Waiting
			must(f.Fire(f.ctx, []engine.Firing{g}, engine.Fence{}))
			j := f.job(child.ID)
			j.State = state
			must(f.UpdateJob(f.ctx, tenant.Default, engine.Update{Job: j, AsOf: f.now()}))
			if err := f.depend(child.ID, false); err != nil {
				t.Fatal(err)
			}
			if got := f.execution(g.Executions[0].ID); got.Status != want {
				t.Errorf("the job is %v, and what waited is %v, want %v", state, got.Status, want)
			}
			if got := f.job(child.ID); len(got.DependsOn) != 0 {
				t.Errorf("it depends on %v", got.DependsOn)
			}
			j = f.job(child.ID)
			j.State = job.Active
			must(f.UpdateJob(f.ctx, tenant.Default, engine.Update{Job: j, AsOf: f.now()}))
			if got := f.execution(g.Executions[0].ID); got.Status != job.Pending {
				t.Errorf("resumed: it is %v", got.Status)
			}
		}
	})
	t.Run("other parents keep the tokens of those that stay", func(t *testing.T) {
		f := open(t, h)
		a, b, c := f.manual("a"), f.manual("b"), f.manual("c")
		child := f.dependent("child", a.ID, b.ID)
		x := f.ends(a)
		f.fold(child.ID, put)
		for _, step := range []struct {
			reset   bool
			parents []job.ID
			want    []job.ExecutionID
		}{
			{false, []job.ID{a.ID, c.ID}, []job.ExecutionID{x.ID, {}}},
			{false, []job.ID{a.ID}, []job.ExecutionID{x.ID}},
			{true, []job.ID{a.ID}, []job.ExecutionID{{}}},
		} {
			if err := f.depend(child.ID, step.reset, step.parents...); err != nil {
				t.Fatal(err)
			}
			if got := f.tokens(child.ID); !slices.Equal(got, step.want) {
				t.Errorf("%v: the tokens are %v, want %v", step.parents, got, step.want)
			}
		}
		f.fold(child.ID, nil)
		f.ends(b)
		if got := f.marked(); len(got) != 0 {
			t.Errorf("what is no parent any more left a mark: %v", got)
		}
	})
	t.Run("a unique key", func(t *testing.T) {
		f := open(t, h)
		a := f.manual("a")
		child := f.dependent("child", a.ID)
		f.triggered(child, func(e *job.Execution) { e.UniqueKey = "one" })
		f.ends(a)
		var taken, free bool
		f.fold(child.ID, func(v engine.TokenView) engine.TokenChange {
			taken, free = must(v.Taken("one")), must(v.Taken("two"))
			return engine.TokenChange{Again: true}
		})
		if !taken || free {
			t.Errorf("one is taken: %t; two is taken: %t", taken, free)
		}
		if got := f.marked(); !slices.Equal(got, []job.ID{child.ID}) {
			t.Errorf("to look at again: %v", got)
		}
	})
}
