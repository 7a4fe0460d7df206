package enginetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// recurring stores a CRON job that will fire at an instant.
func (f fixture) recurring(name string, at time.Time, change ...func(*job.Job)) job.Job {
	f.Helper()
	j := f.sample(name)
	j.Schedule = job.Schedule{
		Type: job.Cron, Cron: "* * * * *", Zone: "Europe/Berlin", Day: "or", Jitter: 5 * time.Second,
		Start: at.Add(-time.Hour), End: at.Add(time.Hour), MaxRuns: 9, Calendar: "holidays",
	}
	j.Overlap, j.CatchUp, j.CatchUpLimit = job.OverlapSkip, job.CatchUpAll, 7
	j.NextRunAt, j.PausedAt, j.ResumedAt = at, at.Add(-3*time.Hour), at.Add(-2*time.Hour)
	for _, c := range change {
		c(&j)
	}
	f.store(engine.Creation{Tenant: tenant.Default, Jobs: []job.Job{j}})
	return j
}

// firing returns the firing of a job's planned instant, and of more in the seconds after it.
func (f fixture) firing(j job.Job, was, next time.Time, n int) engine.Firing {
	f.Helper()
	g := engine.Firing{Tenant: j.Tenant, Job: j.ID, Revision: j.Revision, Was: was, Next: next, Runs: int64(n), Overlap: j.Overlap}
	for i := range n {
		g.Executions = append(g.Executions, j.Fire(newID(), was.Add(time.Duration(i)*time.Second), f.now()))
	}
	return g
}

func (f fixture) job(id job.ID) job.Job {
	f.Helper()
	return must(f.Job(f.ctx, tenant.Default, engine.Ref{ID: id}))
}

func overlap(t *testing.T, h Harness) {
	f := open(t, h)
	now := f.now()
	t.Run("what is replaced may be very much", func(t *testing.T) {
		at := now.Truncate(time.Second)
		j := f.recurring("crowded", at)
		j.Overlap = job.OverlapReplace
		const waiting = engine.CancelsAtOnce + 1000
		es := make([]job.Execution, waiting)
		for i := range es {
			es[i] = j.Fire(newID(), at.Add(time.Duration(i-waiting)*time.Second), now)
			es[i].Trigger = job.ByCatchUp
		}
		for i := 0; i < waiting; i += 1000 {
			must(f.Backfill(f.ctx, j.Tenant, j.ID, es[i:i+1000]))
		}
		var ended []engine.Ended
		x := f.firing(j, at, at.Add(time.Hour), 1)
		var fired []job.Ready
		for range 10 { // one call may leave it to the next
			got := must(f.Fire(f.ctx, []engine.Firing{x}, engine.Fence{}))
			ended = append(ended, got.Ended...)
			if fired = got.Ready; len(fired) > 0 {
				break
			}
		}
		if len(fired) != 1 || fired[0].ID != x.Executions[0].ID || len(ended) != waiting || f.job(j.ID).Runs != 1 {
			t.Errorf("fired %d, ended %d of %d, %d runs", len(fired), len(ended), waiting, f.job(j.ID).Runs)
		}
		live := must(f.FindExecutions(f.ctx, engine.ExecutionFilter{Tenant: j.Tenant, Job: j.ID, Statuses: []job.Status{job.Pending}}, engine.Page{Limit: 10}))
		if len(live.Executions) != 1 || live.Executions[0].ID != fired[0].ID {
			t.Errorf("%d wait, want the one that fired", len(live.Executions))
		}
	})
	t.Run("a recurring job comes back whole", func(t *testing.T) {
		j := f.recurring("whole", now)
		if got := f.job(j.ID); !cmp.Equal(got, j) {
			t.Errorf("(-want +got):\n%s", cmp.Diff(j, got))
		}
		due := must(f.Due(f.ctx, engine.DueFilter{Partitions: []job.Partition{job.PartitionOf(j.ID)}, Until: now, Limit: 100}))
		if len(due) != 1 || due[0].Job.Schedule != j.Schedule || due[0].Job.Overlap != j.Overlap || due[0].Job.CatchUp != j.CatchUp || due[0].Job.CatchUpLimit != 7 {
			t.Fatalf("due: %+v", due)
		}
		if other := must(f.Due(f.ctx, engine.DueFilter{Partitions: []job.Partition{(job.PartitionOf(j.ID) + 1) % job.Partitions}, Until: now, Limit: 100})); len(other) != 0 {
			t.Errorf("in another partition: %+v", other)
		}
	})
	fire := func(g engine.Firing) []job.ExecutionID {
		t.Helper()
		var ids []job.ExecutionID
		for _, r := range must(f.Fire(f.ctx, []engine.Firing{g}, engine.Fence{})).Ready {
			ids = append(ids, r.ID)
		}
		return ids
	}
	minute := func(n int) time.Time { return now.Add(time.Duration(n) * time.Minute) }
	t.Run("allow", func(t *testing.T) {
		j := f.recurring("allows", minute(0), func(j *job.Job) { j.Overlap = job.OverlapAllow })
		g := f.firing(j, minute(0), minute(1), 2)
		if got := fire(g); len(got) != 2 {
			t.Errorf("%d fired", len(got))
		}
		if got := f.job(j.ID); got.Runs != 2 || !got.NextRunAt.Equal(minute(1)) {
			t.Errorf("runs %d, next %v", got.Runs, got.NextRunAt)
		}
		if got := fire(g); len(got) != 0 {
			t.Error("it fired again")
		}
	})
	t.Run("skip", func(t *testing.T) {
		j := f.recurring("skips", minute(0))
		g := f.firing(j, minute(0), minute(1), 2)
		if got := fire(g); len(got) != 1 || got[0] != g.Executions[0].ID {
			t.Fatalf("fired %v", got)
		}
		skipped := f.execution(g.Executions[1].ID)
		if skipped.Status != job.Skipped || skipped.Metadata["reason"] != string(job.SkipOverlap) || skipped.FinishedAt.IsZero() || skipped.Error != nil {
			t.Errorf("the second of one firing: %v, %v", skipped.Status, skipped.Metadata)
		}
		f.took(g.Executions[0].ID) // running counts, too
		g2 := f.firing(j, minute(1), minute(2), 1)
		if got := fire(g2); len(got) != 0 || f.execution(g2.Executions[0].ID).Status != job.Skipped {
			t.Errorf("while it runs %d fired", len(got))
		}
		byHand := j.Fire(newID(), f.now(), f.now())
		byHand.Trigger = job.ByHand
		if got := must(f.Trigger(f.ctx, tenant.Default, byHand, engine.Idempotency{}, nil)); got.Unique != nil {
			t.Error("a manual one was refused")
		}
	})
	t.Run("a manual one is in nobody's way", func(t *testing.T) {
		j := f.recurring("by hand", minute(0))
		byHand := j.Fire(newID(), f.now(), f.now())
		byHand.Trigger = job.ByHand
		must(f.Trigger(f.ctx, tenant.Default, byHand, engine.Idempotency{}, nil))
		if got := fire(f.firing(j, minute(0), minute(1), 1)); len(got) != 1 {
			t.Errorf("%d fired", len(got))
		}
	})
	t.Run("queue", func(t *testing.T) {
		x := f.fence()
		j := f.recurring("queues", minute(0), func(j *job.Job) { j.Overlap = job.OverlapQueue })
		g := f.firing(j, minute(0), minute(1), 1)
		fire(g)
		w := f.worker()
		if as := must(f.Lease(f.ctx, []engine.Grant{{Worker: w, Executions: []job.ExecutionID{g.Executions[0].ID}}}, x)); len(as) != 1 {
			t.Fatal("not leased")
		}
		g2, g3 := f.firing(j, minute(1), minute(2), 1), f.firing(j, minute(2), minute(3), 1)
		if got := fire(g2); len(got) != 1 {
			t.Errorf("while it runs %d fired, want one that waits", len(got))
		}
		if got := fire(g3); len(got) != 0 || f.execution(g3.Executions[0].ID).Status != job.Skipped {
			t.Errorf("while one waits %d fired", len(got))
		}
	})
	t.Run("records of what did not fire", func(t *testing.T) {
		j := f.recurring("missed", minute(0))
		g := f.firing(j, minute(0), minute(9), 0)
		skip := j.Skip(newID(), job.Stretch{From: minute(0), To: minute(8), Count: 9}, job.SkipMissed, now)
		g.Skips = []job.Execution{skip}
		if got := fire(g); len(got) != 0 {
			t.Errorf("%d fired", len(got))
		}
		got := f.execution(skip.ID)
		if got.Status != job.Skipped || got.Metadata["count"] != "9" || !got.ScheduledAt.Equal(minute(0)) || !cmp.Equal(got.Metadata, skip.Metadata) {
			t.Errorf("got %v, %v", got.Status, got.Metadata)
		}
		if got := f.job(j.ID); !got.NextRunAt.Equal(minute(9)) || got.Runs != 0 {
			t.Errorf("next %v, runs %d", got.NextRunAt, got.Runs)
		}
		page := must(f.FindExecutions(f.ctx, engine.ExecutionFilter{Tenant: tenant.Default, Job: j.ID}, engine.Page{Limit: 10}))
		if len(page.Executions) != 1 || page.Executions[0].Metadata["count"] != "9" {
			t.Errorf("listed: %+v", page.Executions)
		}
	})
	t.Run("completed when nothing is left", func(t *testing.T) {
		j := f.recurring("ends", minute(0))
		g := f.firing(j, minute(0), time.Time{}, 1)
		fire(g)
		if got := f.job(j.ID); got.State != job.Active {
			t.Errorf("while it runs: %v", got.State)
		}
		f.report(succeed(f.took(g.Executions[0].ID)))
		if got := f.job(j.ID); got.State != job.Completed {
			t.Errorf("after its last run: %v", got.State)
		}
	})
}

func update(t *testing.T, h Harness) {
	f := open(t, h)
	now := f.now()
	future := now.Add(time.Minute)
	change := func(j job.Job, c ...func(*engine.Update)) (job.Job, error) {
		u := engine.Update{Job: j, Revision: j.Revision, AsOf: f.now()}
		for _, x := range c {
			x(&u)
		}
		return f.UpdateJob(f.ctx, tenant.Default, u)
	}
	t.Run("the limits of what waits", func(t *testing.T) {
		hourly, fast := job.Rate{Count: 1, Per: time.Hour, Burst: 1}, job.Rate{Count: 1000, Per: time.Second, Burst: 100}
		for i, x := range []struct{ was, is job.Group }{
			{job.Group{Max: 3, Rate: hourly}, job.Group{Max: 5, Rate: fast}},
			{job.Group{Rate: hourly}, job.Group{Rate: fast}},
			{job.Group{Max: 3}, job.Group{Max: 5}},
			{job.Group{Rate: hourly}, job.Group{Max: 5}},
			{job.Group{Max: 3}, job.Group{}},
		} {
			key := job.GroupKey(77 + i)
			x.was.Key, x.is.Key = key, key
			j, waits := f.add("limited", func(j *job.Job, e *job.Execution) {
				j.MaxConcurrent, j.Rate, j.Group = x.was.Max, x.was.Rate, x.was
				e.Join(j.Group)
			})
			j = f.job(j.ID)
			others := job.Group{Key: key, Max: 1, Rate: hourly} // as another policy sets
			own := j.Fire(newID(), f.now(), f.now())
			own.Trigger = job.ByHand
			own.Join(others)
			must(f.Trigger(f.ctx, tenant.Default, own, engine.Idempotency{}, nil))
			j.MaxConcurrent, j.Rate = x.is.Max, x.is.Rate
			if _, err := change(j, func(u *engine.Update) { u.Was = &x.was }); err != nil {
				t.Fatal(err)
			}
			for id, want := range map[job.ExecutionID]job.Group{waits.ID: x.is, own.ID: others} {
				if got := must(f.Execution(f.ctx, tenant.Default, id)).Group; got != want {
					t.Errorf("from %+v to %+v: its limits are %+v, want %+v", x.was, x.is, got, want)
				}
			}
		}
	})
	t.Run("the definition", func(t *testing.T) {
		j := f.recurring("before", future)
		n := j
		n.Name, n.Tags, n.Priority, n.Payload, n.Target.URL, n.Schedule.Cron = "after", []string{"x"}, 3, []byte(`{"n":2}`), "https://example.com/2", "0 * * * *"
		got, err := change(n)
		if err != nil || got.Revision != 2 || got.Name != "after" || !got.UpdatedAt.After(j.UpdatedAt) || !got.CreatedAt.Equal(j.CreatedAt) {
			t.Fatalf("got %+v, %v", got, err)
		}
		if stored := f.job(j.ID); !cmp.Equal(stored, got) {
			t.Errorf("(-answered +stored):\n%s", cmp.Diff(got, stored))
		}
		if !got.NextRunAt.Equal(future) || string(got.Payload) != `{"n":2}` {
			t.Errorf("next %v, payload %s", got.NextRunAt, got.Payload)
		}
		if _, err := change(n); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("under an old revision: %v", err)
		}
		if _, err := change(n, func(u *engine.Update) { u.Revision = 0 }); err != nil {
			t.Errorf("under any revision: %v", err)
		}
		n.ID = newID()
		if _, err := change(n); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("unknown: %v", err)
		}
		if _, err := f.UpdateJob(f.ctx, "other", engine.Update{Job: j, AsOf: now}); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("another tenant's: %v", err)
		}
		must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: j.ID, AsOf: f.now()}))
		if _, err := change(j, func(u *engine.Update) { u.Revision = 0 }); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("deleted: %v", err)
		}
	})
	t.Run("what is staged is taken back", func(t *testing.T) {
		j := f.recurring("staged", future)
		must(f.Fire(f.ctx, []engine.Firing{f.firing(j, future, future.Add(time.Minute), 1)}, engine.Fence{}))
		byHand := j.Fire(newID(), future, f.now())
		byHand.Trigger = job.ByHand
		must(f.Trigger(f.ctx, tenant.Default, byHand, engine.Idempotency{}, nil))
		got, err := change(f.job(j.ID))
		if err != nil || !got.NextRunAt.Equal(future) {
			t.Fatalf("next %v, want %v; %v", got.NextRunAt, future, err)
		}
		page := must(f.FindExecutions(f.ctx, engine.ExecutionFilter{Tenant: tenant.Default, Job: j.ID}, engine.Page{Limit: 10}))
		if len(page.Executions) != 1 || page.Executions[0].ID != byHand.ID {
			t.Errorf("live: %+v", page.Executions)
		}
		elsewhere := future.Add(time.Hour)
		n := got
		n.NextRunAt = elsewhere
		if got, err = change(n, func(u *engine.Update) { u.Replan = true }); err != nil || !got.NextRunAt.Equal(elsewhere) {
			t.Errorf("planned anew: %v, %v", got.NextRunAt, err)
		}
		n = got
		n.NextRunAt = time.Time{}
		if got, err = change(n, func(u *engine.Update) { u.Replan = true }); err != nil || !got.NextRunAt.IsZero() {
			t.Errorf("planned never: %v, %v", got.NextRunAt, err)
		}
	})
	t.Run("what has come and waits for its jitter stays", func(t *testing.T) {
		past := now.Add(-2 * time.Second)
		j := f.recurring("jitters", past, func(j *job.Job) { j.Overlap = job.OverlapAllow })
		g := f.firing(j, past, future, 2) // the second of them has come, too, and may have run
		g.Executions[0].DueAt = now.Add(time.Hour)
		must(f.Fire(f.ctx, []engine.Firing{g}, engine.Fence{}))
		f.report(succeed(f.took(g.Executions[1].ID)))
		got, err := change(f.job(j.ID))
		if err != nil || !got.NextRunAt.Equal(future) || got.Runs != 2 {
			t.Errorf("next %v, want %v; runs %d; %v", got.NextRunAt, future, got.Runs, err)
		}
		if e := f.execution(g.Executions[0].ID); e.Status != job.Pending {
			t.Errorf("it is %v", e.Status)
		}
	})
	t.Run("pause and resume", func(t *testing.T) {
		j := f.recurring("paused", now.Add(-time.Second), func(j *job.Job) { j.Overlap = job.OverlapAllow })
		g := f.firing(j, j.NextRunAt, future, 1)
		must(f.Fire(f.ctx, []engine.Firing{g}, engine.Fence{}))
		p := f.job(j.ID)
		p.State, p.PauseNote, p.PausedTill = job.Paused, "it is holiday ✓", now.Add(-time.Second)
		p, err := change(p)
		if err != nil || p.State != job.Paused || p.PauseNote != "it is holiday ✓" || !p.PausedTill.Equal(now.Add(-time.Second)) || !p.NextRunAt.Equal(future) {
			t.Fatalf("paused: %+v, %v", p, err)
		}
		if due := must(f.Due(f.ctx, engine.DueFilter{Until: future, Limit: 100})); slices.ContainsFunc(due, func(d engine.Due) bool { return d.Job.ID == j.ID }) {
			t.Error("a paused job is due")
		}
		if rs := must(f.Fire(f.ctx, []engine.Firing{f.firing(p, future, future.Add(time.Minute), 1)}, engine.Fence{})).Ready; len(rs) != 0 {
			t.Error("a paused job fired")
		}
		if got := f.execution(g.Executions[0].ID); got.Status != job.Waiting {
			t.Errorf("what waited is %v", got.Status)
		}
		if as := must(f.Lease(f.ctx, []engine.Grant{{Worker: f.worker(), Executions: []job.ExecutionID{g.Executions[0].ID}}}, engine.Fence{})); len(as) != 0 {
			t.Error("what is held was leased")
		}
		if rs := must(f.Resumable(f.ctx, 10)); len(rs) != 1 || rs[0].ID != j.ID || rs[0].Revision != p.Revision {
			t.Errorf("resumable: %+v", rs)
		}
		r := p
		r.State, r.PauseNote, r.PausedTill = job.Active, "", time.Time{}
		if r, err = change(r); err != nil || r.State != job.Active || !r.NextRunAt.Equal(future) || !r.PausedTill.IsZero() {
			t.Fatalf("resumed: %+v, %v", r, err)
		}
		if got := f.execution(g.Executions[0].ID); got.Status != job.Pending {
			t.Errorf("what waited is %v", got.Status)
		}
		f.took(g.Executions[0].ID)
		if rs := must(f.Resumable(f.ctx, 10)); len(rs) != 0 {
			t.Errorf("resumable: %+v", rs)
		}
	})
	t.Run("a firing under an old revision does not count", func(t *testing.T) {
		j := f.recurring("races", now)
		g := f.firing(j, now, future, 1)
		if _, err := change(j); err != nil {
			t.Fatal(err)
		}
		if rs := must(f.Fire(f.ctx, []engine.Firing{g}, engine.Fence{})).Ready; len(rs) != 0 {
			t.Error("it fired")
		}
	})
}

func calendars(t *testing.T, h Harness) {
	f := open(t, h)
	c := engine.Calendar{Tenant: tenant.Default, Name: "holidays", Spec: []byte(`{"dates":["2026-12-25"]}`), UpdatedAt: f.now()}
	if _, err := f.Calendar(f.ctx, tenant.Default, "holidays"); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
	for _, spec := range []string{`{"dates":["2026-12-25"]}`, `{}`} {
		c.Spec = []byte(spec)
		if err := f.PutCalendar(f.ctx, c, nil); err != nil {
			t.Fatal(err)
		}
		if got := must(f.Calendar(f.ctx, tenant.Default, "holidays")); !cmp.Equal(got, c) {
			t.Errorf("(-want +got):\n%s", cmp.Diff(c, got))
		}
	}
	if _, err := f.Calendar(f.ctx, "other", "holidays"); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("another tenant's: %v", err)
	}
	a := c
	a.Name = "a"
	if err := f.PutCalendar(f.ctx, a, nil); err != nil {
		t.Fatal(err)
	}
	if got := must(f.Calendars(f.ctx, tenant.Default)); !cmp.Equal(got, []engine.Calendar{a, c}) {
		t.Errorf("got %+v", got)
	}
	if err := f.DeleteCalendar(f.ctx, tenant.Default, "a", nil); err != nil {
		t.Fatal(err)
	}
	if err := f.DeleteCalendar(f.ctx, tenant.Default, "a", nil); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("twice: %v", err)
	}
}
