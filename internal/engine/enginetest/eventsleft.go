package enginetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// sendAndDie sends an event, and dies in the last commit that wakes waits for it.
func (b begun) sendAndDie(at time.Time) {
	b.Helper()
	ctx, die := context.WithCancel(b.ctx)
	once := engine.EventOnce{
		Idempotency: engine.Idempotency{Key: "k" + at.String(), Hash: [32]byte{1}, Until: b.now().Add(time.Hour)},
		Make:        func([16]byte, []job.ExecutionID) []byte { die(); return nil },
	}
	ev := engine.RunEvent{ID: newID(), Tenant: tenant.Default, Name: "paid", Match: []byte(`"a"`), At: at}
	if got, err := b.SendEvent(ctx, ev, once, nil); err == nil {
		b.Fatalf("whoever sent the event did not die: %+v", got)
	}
}

// reached reports whether the wait of a run for an event is due.
func (b begun) reached(run job.ExecutionID) bool {
	b.Helper()
	ws := must(b.RunWaits(b.ctx, tenant.Default, run))
	if len(ws) != 1 {
		b.Fatalf("waits of the run %v: %+v", run, ws)
	}
	return !ws[0].WakeAt.IsZero()
}

// forWaits lists n waits for the event, which nothing else ends.
func (b begun) forWaits(n int) (out []engine.RunWait) {
	for i := range n {
		out = append(out, engine.RunWait{Node: i, Kind: engine.WaitEvent, BegunAt: b.now(), Event: "paid", Match: []byte(`"a"`)})
	}
	return out
}

// Whoever sent an event died before it had found a single wait: the sweep finds it.
func sendersDie(t *testing.T, h Harness) {
	b := open(t, h).begin(0)
	wait := func() {
		b.change(func(engine.RunView) *engine.RunChange {
			c := b.same()
			c.Waits = b.forWaits(1)
			return &c
		})
	}
	wait()
	b.sendAndDie(b.now().Add(time.Hour)) // who sent an event that is so new may be about to wake its waits
	if woken := b.wakes(); slices.Contains(woken, b.run.ID) || b.reached(b.run.ID) {
		t.Errorf("the sweep goes on with a new event: %v", woken)
	}
	b.sendAndDie(b.now().Add(-2 * engine.EventAge))
	if b.reached(b.run.ID) {
		t.Fatal("whoever sent the event woke the wait before it died")
	}
	if n := must(b.ForgetEvents(b.ctx, 10)); n != 0 {
		t.Errorf("%d events were forgotten that have not woken the waits for them", n)
	}
	if woken := b.wakes(); !slices.Contains(woken, b.run.ID) || !b.reached(b.run.ID) {
		t.Errorf("the sweep finds %v", woken)
	}
	wait() // as it was
	if woken := b.wakes(); slices.Contains(woken, b.run.ID) || b.reached(b.run.ID) {
		t.Errorf("an event that has woken all waits wakes them again: %v", woken)
	}
	if n := must(b.ForgetEvents(b.ctx, 10)); n != 1 {
		t.Errorf("%d events were forgotten; want the one that has woken all waits", n)
	}
}

// Whoever sent an event died after its first commit that wakes waits: the sweep wakes the rest.
func sendersDieLater(t *testing.T, h Harness) {
	longForGuests(t, h)
	f := open(t, h)
	sub := f.sample("sub")
	sub.Schedule, sub.Queue, sub.Labels, sub.Target = job.Schedule{Type: job.Manual}, job.DefaultQueue, nil, job.Target{Kind: job.Workflow, Version: 1}
	f.store(engine.Creation{Tenant: sub.Tenant, Jobs: []job.Job{sub}})
	b := f.begin(0)
	var ids []job.ExecutionID
	b.change(func(engine.RunView) *engine.RunChange {
		c := b.same()
		for i := range engine.WokenAtOnce + 1 {
			x := f.due(sub)
			x.Trigger, x.Class = job.ByWorkflow, job.Class(job.Workflow)
			ids = append(ids, x.ID)
			c.Members = append(c.Members, engine.NewMember{Place: engine.PlaceOf(0, i), Execution: x})
		}
		return &c
	})
	_, as := f.take(ids...)
	var all []engine.NewRun
	for _, a := range as {
		run, first := b.run, b.same()
		run.ID, run.Execution, run.Token, run.Workflow = a.Execution, a.Execution, a.Token, sub.ID
		first.Waits = b.forWaits(1)
		all = append(all, engine.NewRun{Run: run, First: first})
	}
	must(f.BeginRuns(f.ctx, all))
	slices.SortFunc(ids, func(a, b job.ExecutionID) int { return slices.Compare(a[:], b[:]) })
	first, last := ids[0], ids[len(ids)-1]
	b.sendAndDie(b.now().Add(-time.Minute))
	if !b.reached(first) || b.reached(last) {
		t.Fatalf("before whoever sent the event died, it woke the first: %v, the last: %v; want only the first", b.reached(first), b.reached(last))
	}
	due, _, err := f.WakeRuns(f.ctx, len(ids))
	if err != nil || !slices.Contains(due, first) || !slices.Contains(due, last) || !b.reached(last) {
		t.Errorf("the sweep finds %d runs, %v; want the first and the last among them", len(due), err)
	}
}
