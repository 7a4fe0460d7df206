package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

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
