package postgres

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

// recurring stores n jobs that are to fire at an instant.
func recurring(t *testing.T, s *Store, n int, o job.Overlap, at time.Time) []job.Job {
	t.Helper()
	c := engine.Creation{Tenant: tenant.Default, Jobs: creation(t, s, n).Jobs}
	for i := range c.Jobs {
		j := &c.Jobs[i]
		j.Schedule, j.NextRunAt, j.Overlap = job.Schedule{Type: job.Cron, Cron: "* * * * *"}, at, o
	}
	store(t, s, c)
	return c.Jobs
}

// firingOf is the firing of a job for instants, the last of which is followed by a minute's rest.
func firingOf(j job.Job, now time.Time, instants ...time.Time) engine.Firing {
	f := engine.Firing{
		Tenant: j.Tenant, Job: j.ID, Revision: j.Revision, Was: instants[0], Next: instants[len(instants)-1].Add(time.Minute),
		Runs: int64(len(instants)), Overlap: j.Overlap,
	}
	for _, at := range instants {
		f.Executions = append(f.Executions, j.Fire(newID(), at, now))
	}
	return f
}

func reason(t *testing.T, s *Store, id job.ExecutionID) string {
	t.Helper()
	e := must[job.Execution](t)(s.Execution(t.Context(), tenant.Default, id))
	switch {
	case e.Status != job.Skipped:
		return e.Status.String()
	case e.Error != nil:
		return string(job.SkipUnique)
	}
	return e.Metadata["reason"]
}

// Each of several reasons is told as it is, and one firing's are not another's.
func TestWhyFiresAreSkipped(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	now := must[time.Time](t)(s.Now(t.Context()))
	js := recurring(t, s, 4, job.OverlapSkip, now)
	busy, held, free, allows := js[0], js[1], js[2], js[3]
	busy.UniqueKey, held.UniqueKey, allows.UniqueKey, allows.Overlap = "busy", "taken", "free", job.OverlapAllow
	must[engine.Fired](t)(s.Fire(t.Context(), []engine.Firing{firingOf(busy, now, now)}, engine.Fence{}))
	holder := creation(t, s, 1)
	holder.Executions[0].UniqueKey = "taken"
	store(t, s, holder)

	second := now.Add(time.Second)
	fs := []engine.Firing{firingOf(busy, now, now.Add(time.Minute)), firingOf(held, now, now, second), firingOf(free, now, now, second), firingOf(allows, now, now, second)}
	fs[2].Skips = []job.Execution{free.Skip(newID(), job.Stretch{From: second, To: second, Count: 1}, job.SkipMissed, now)}
	if rs := must[engine.Fired](t)(s.Fire(t.Context(), fs, engine.Fence{})).Ready; len(rs) != 2 {
		t.Errorf("%d fired, want 2", len(rs))
	}
	for i, want := range [][]string{{"overlap"}, {"unique", "unique"}, {"PENDING", "overlap"}, {"PENDING", "unique"}} {
		var got []string
		for _, e := range fs[i].Executions {
			got = append(got, reason(t, s, e.ID))
		}
		if !slices.Equal(got, want) {
			t.Errorf("firing %d: got %v, want %v", i, got, want)
		}
	}
	if got := reason(t, s, fs[2].Skips[0].ID); got != "missed" {
		t.Errorf("the record says %s", got)
	}
}

// An instant that has fired and is planned again, which no update does, is neither fired again nor told to be skipped.
func TestAnInstantThatFiredIsNotSkipped(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	now := must[time.Time](t)(s.Now(t.Context()))
	j := recurring(t, s, 1, job.OverlapSkip, now)[0]
	must[engine.Fired](t)(s.Fire(t.Context(), []engine.Firing{firingOf(j, now, now)}, engine.Fence{}))
	if _, err := s.UpdateJob(t.Context(), tenant.Default, engine.Update{Job: j, Replan: true, AsOf: now}); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("an update plans it again: %v", err)
	}
	exec(t, direct(t, s), "UPDATE schedules SET next_run_at = $1 WHERE job = $2", now, [16]byte(j.ID))
	if rs := must[engine.Fired](t)(s.Fire(t.Context(), []engine.Firing{firingOf(j, now, now, now.Add(time.Second))}, engine.Fence{})).Ready; len(rs) != 0 {
		t.Errorf("fired again: %+v", rs)
	}
	p := must[engine.ExecutionPage](t)(s.FindExecutions(t.Context(), engine.ExecutionFilter{Tenant: tenant.Default, Job: j.ID}, engine.Page{Limit: 5}))
	if len(p.Executions) != 2 || p.Executions[0].Status != job.Skipped || p.Executions[1].Status != job.Pending {
		t.Errorf("got %+v, want the second instant skipped and the first as it was", p.Executions)
	}
}

// What is taken back has not run; what was leased has, even if it waits again.
func TestWhatAnUpdateTakesBack(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	now := must[time.Time](t)(s.Now(t.Context()))
	soon := now.Add(time.Minute)
	j := recurring(t, s, 1, job.OverlapAllow, soon)[0]
	f := firingOf(j, now, soon, soon.Add(time.Second), soon.Add(2*time.Second))
	must[engine.Fired](t)(s.Fire(t.Context(), []engine.Firing{f}, engine.Fence{}))
	c := direct(t, s)
	exec(t, c, "UPDATE live SET lease = -5 WHERE id = $1", [16]byte(f.Executions[0].ID)) // as a snooze leaves it
	j.State = job.Completed
	got := must[job.Job](t)(s.UpdateJob(t.Context(), tenant.Default, engine.Update{Job: j, AsOf: now}))
	if !got.NextRunAt.Equal(soon.Add(time.Second)) || got.Runs != 1 || got.State != job.Active {
		t.Errorf("next %v, runs %d, %v", got.NextRunAt, got.Runs, got.State)
	}
	if n := one[int](t, c, "SELECT count(*) FROM live"); n != 1 {
		t.Errorf("%d are left, want the one that ran", n)
	}
}

// Whatever updates and fires come between each other, each instant is planned, or fired once.
func TestUpdatesAmongFires(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	now := must[time.Time](t)(s.Now(t.Context()))
	start := now.Add(time.Hour)
	js := recurring(t, s, 5, job.OverlapAllow, start)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 15 {
				due, err := s.Due(t.Context(), engine.DueFilter{Until: start.Add(100 * time.Hour), Limit: 100})
				if err != nil {
					t.Errorf("due: %v", err)
					return
				}
				var fs []engine.Firing
				for _, d := range due {
					fs = append(fs, firingOf(d.Job, now, d.Job.NextRunAt))
				}
				if _, err := s.Fire(t.Context(), fs, engine.Fence{}); err != nil {
					t.Errorf("fire: %v", err)
				}
			}
		})
	}
	for _, j := range js {
		wg.Go(func() {
			for i := range 6 {
				u := j
				u.State = []job.State{job.Active, job.Paused}[i%2]
				if _, err := s.UpdateJob(t.Context(), tenant.Default, engine.Update{Job: u, AsOf: now}); err != nil {
					t.Errorf("update: %v", err)
				}
			}
			if _, err := s.UpdateJob(t.Context(), tenant.Default, engine.Update{Job: j, AsOf: now}); err != nil {
				t.Errorf("update: %v", err)
			}
		})
	}
	wg.Wait()
	c := direct(t, s)
	for _, j := range js {
		got := must[job.Job](t)(s.Job(t.Context(), tenant.Default, engine.Ref{ID: j.ID}))
		fired := one[int64](t, c, "SELECT count(*) FROM live WHERE job = $1 AND scheduled_at < $2", [16]byte(j.ID), got.NextRunAt)
		all := one[int64](t, c, "SELECT count(*) FROM live WHERE job = $1", [16]byte(j.ID))
		if want := int64(got.NextRunAt.Sub(start) / time.Minute); fired != want || all != want || got.Runs != want {
			t.Errorf("%d before the next instant and %d in all fired, %d runs counted; want %d", fired, all, got.Runs, want)
		}
		if n := one[int](t, c, "SELECT count(*) FROM live WHERE job = $1 AND hold <> 0", [16]byte(j.ID)); n != 0 {
			t.Errorf("%d of an active job are held", n)
		}
	}
}

// A fire that waits for an update has another revision in front of it then.
func TestNoFireOfAJobThatIsBeingUpdated(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	now := must[time.Time](t)(s.Now(t.Context()))
	j := recurring(t, s, 1, job.OverlapSkip, now)[0]
	mine := direct(t, s)
	exec(t, mine, "BEGIN")
	exec(t, mine, "UPDATE schedules SET revision = revision + 1")
	got := make(chan []job.Ready)
	go func() {
		rs, err := s.Fire(t.Context(), []engine.Firing{firingOf(j, now, now)}, engine.Fence{})
		if err != nil {
			t.Errorf("fire: %v", err)
		}
		got <- rs.Ready
	}()
	untilOneWaits(t, direct(t, s))
	exec(t, mine, "COMMIT")
	if rs := <-got; len(rs) != 0 {
		t.Errorf("fired under the old revision: %+v", rs)
	}
}

// Whoever takes a partition for scheduling waits for the fires under its fence.
func TestATakeoverWaitsForFires(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	now := must[time.Time](t)(s.Now(t.Context()))
	j := recurring(t, s, 1, job.OverlapAllow, now)[0]
	p := job.PartitionOf(j.ID)
	x := engine.Server{ID: newID(), Duty: engine.Scheduling, Host: "h", StartedAt: now}
	must[engine.Roster](t)(s.Attend(t.Context(), x, time.Hour))
	if err := s.Take(t.Context(), x.ID, []job.Partition{p}); err != nil {
		t.Fatal(err)
	}
	mine := direct(t, s)
	exec(t, mine, "BEGIN")
	exec(t, mine, "SELECT 1 FROM schedules FOR UPDATE") // so that the fire waits, with its fence locked
	got := make(chan []job.Ready)
	go func() {
		rs, err := s.Fire(t.Context(), []engine.Firing{firingOf(j, now, now)}, engine.Fence{Server: x.ID, Epochs: map[job.Partition]int64{p: 1}})
		if err != nil {
			t.Errorf("fire: %v", err)
		}
		got <- rs.Ready
	}()
	other := direct(t, s)
	untilOneWaits(t, other)
	if free := one[int](t, other, "SELECT count(*) FROM (SELECT 1 FROM partitions WHERE part = $1 FOR UPDATE SKIP LOCKED) p", int16(p)); free != 1 {
		t.Errorf("%d rows of the partition are free while a fire has not committed, want that of the other duty", free)
	}
	exec(t, mine, "COMMIT")
	if rs := <-got; len(rs) != 1 {
		t.Errorf("%d fired, want 1", len(rs))
	}
}

func TestDueOfPartitions(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	now := must[time.Time](t)(s.Now(t.Context()))
	js := recurring(t, s, 400, job.OverlapAllow, now)
	for _, ps := range [][]job.Partition{{0}, {job.Partitions - 1}, {3, 31, 32, 63}, nil} {
		want := 0
		for _, j := range js {
			if len(ps) == 0 || slices.Contains(ps, job.PartitionOf(j.ID)) {
				want++
			}
		}
		due := must[[]engine.Due](t)(s.Due(t.Context(), engine.DueFilter{Partitions: ps, Until: now, Limit: 1000}))
		if len(due) != want {
			t.Errorf("%v: %d are due, want %d", ps, len(due), want)
		}
		for _, d := range due {
			if len(ps) > 0 && !slices.Contains(ps, job.PartitionOf(d.Job.ID)) {
				t.Errorf("%v: one of partition %d is due", ps, job.PartitionOf(d.Job.ID))
			}
		}
	}
}
