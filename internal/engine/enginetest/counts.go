package enginetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func counts(t *testing.T, h Harness) {
	f := open(t, h)
	now := f.now().Truncate(time.Minute)
	one, two := engine.ServerID(newID()), engine.ServerID(newID())
	keep := func(s engine.ServerID, ms ...engine.Minute) {
		t.Helper()
		if err := f.KeepMinutes(f.ctx, s, ms); err != nil {
			t.Fatal(err)
		}
	}
	a := engine.Minute{
		At: now.Add(-time.Minute), Started: 5, Completed: 3, Failed: 1, Again: 1, Waited: 4, Wait: 8 * time.Second, MaxWait: 5 * time.Second,
		Fired: 2, Delay: 30 * time.Millisecond, MaxDelay: 20 * time.Millisecond,
	}
	b := engine.Minute{At: now, Started: 1}
	half := a
	half.Started = 2
	keep(one, half)
	keep(one, a, b) // it replaces the earlier values
	keep(one, a)
	keep(two, engine.Minute{At: a.At, Started: 1, MaxWait: 9 * time.Second})
	keep(two, engine.Minute{At: now.Add(-72 * time.Hour), Started: 1})
	keep(two)
	sum := a
	sum.Add(engine.Minute{Started: 1, MaxWait: 9 * time.Second})
	if d := cmp.Diff([]engine.Minute{sum, b}, must(f.Minutes(f.ctx, now.Add(-5*time.Minute)))); d != "" {
		t.Errorf("minutes (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]engine.Minute{b}, must(f.Minutes(f.ctx, now.Add(30*time.Second)))); d != "" {
		t.Errorf("from within a minute (-want +got):\n%s", d)
	}
	must(f.Tidy(f.ctx))
	if got := must(f.Minutes(f.ctx, now.Add(-100*time.Hour))); len(got) != 2 {
		t.Errorf("%d minutes are left, want 2", len(got))
	}

	unowned := 0 // nobody fires schedules, if servers are to divide them
	if _, ok := f.Store.(engine.Owners); ok {
		unowned = job.Partitions
	}
	census := func(overdue time.Time) engine.Census {
		got := must(f.Census(f.ctx, overdue))
		if got.HistoryBytes < 4096 {
			t.Errorf("history takes up %d bytes", got.HistoryBytes)
		}
		got.HistoryBytes = 0
		return got
	}
	if got := census(f.now()); got != (engine.Census{Unscheduled: unowned}) {
		t.Errorf("of nothing: %+v", got)
	}
	_, e := f.add("dies")
	w, as := f.take(e.ID)
	f.report(die(as[0], 1))
	died := must(f.Execution(f.ctx, e.Tenant, e.ID)).FinishedAt
	must(f.Renew(f.ctx, []engine.Renewal{{Worker: w, Beat: job.Beat{Running: 3, Memory: job.Memory{Used: 100, Limit: 400}}}}, time.Hour))
	f.expire(f.worker())
	gone := f.worker()
	must(f.Leave(f.ctx, gone))
	drains := f.worker()
	must(f.Renew(f.ctx, []engine.Renewal{{Worker: drains, Beat: job.Beat{Draining: true, Memory: job.Memory{Used: 30, Limit: 40}}}}, time.Hour))
	own := job.Worker{ID: newID(), Host: "a server", Version: "v1", Capacity: 32, StartedAt: f.now(), Targets: []string{string(job.Workflow)}}
	if err := f.Register(f.ctx, own, time.Hour); err != nil {
		t.Fatal(err)
	}
	silent := f.worker()
	must(f.Renew(f.ctx, []engine.Renewal{{Worker: silent, Beat: job.Beat{Memory: job.Memory{Used: 7}}}}, time.Hour)) // no limit is known
	late := f.sample("late")
	late.Schedule = job.Schedule{Type: job.Interval, Every: time.Hour}
	late.NextRunAt = f.now().Add(-time.Minute)
	f.store(engine.Creation{Tenant: late.Tenant, Jobs: []job.Job{late}})
	got := census(f.now().Add(-5 * time.Second))
	if d := cmp.Diff(engine.Census{
		Workers: 2, Draining: 1, Dead: 2, Slots: 20, Busy: 3, DrainingSlots: 10, Memory: 137, MemoryShare: 0.75, DeadLetters: engine.Total{Count: 1}, OldestDead: died, Overdue: engine.Total{Count: 1}, Unscheduled: unowned,
	}, got); d != "" {
		t.Errorf("census with %v (-want +got):\n%s", w, d)
	}
	if got := must(f.Census(f.ctx, f.now().Add(-time.Hour))); got.Overdue.Count != 0 {
		t.Errorf("overdue for an hour: %+v", got)
	}
}
