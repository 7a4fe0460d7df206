package enginetest

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

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
