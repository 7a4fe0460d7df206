package sqlite

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// recurring stores a job that is to fire at an instant.
func (b bench) recurring(at time.Time, overlap job.Overlap) job.Job {
	b.Helper()
	c := some(b.Store, 1)
	j := &c.Jobs[0]
	j.Schedule, j.Overlap, j.NextRunAt = job.Schedule{Type: job.Interval, Every: time.Minute, MaxRuns: 3}, overlap, at
	c.Executions = nil
	if _, err := b.CreateJobs(b.Context(), []engine.Creation{c}); err != nil {
		b.Fatal(err)
	}
	return *j
}

// fire fires a job n times, a minute apart, and says how many are to run.
func (b bench) fire(j job.Job, n int, skips ...job.Execution) (g engine.Firing, fired int) {
	b.Helper()
	g = engine.Firing{
		Tenant: j.Tenant, Job: j.ID, Revision: j.Revision, Was: j.NextRunAt, Next: j.NextRunAt.Add(time.Duration(n) * time.Minute), Runs: int64(n),
		Overlap: j.Overlap, Skips: skips,
	}
	for i := range n {
		g.Executions = append(g.Executions, j.Fire(newID(), j.NextRunAt.Add(time.Duration(i)*time.Minute), b.clock.Now()))
	}
	rs, err := b.Fire(b.Context(), []engine.Firing{g}, engine.Fence{})
	if err != nil {
		b.Fatal(err)
	}
	return g, len(rs.Ready)
}

func (b bench) update(j job.Job) job.Job {
	b.Helper()
	got, err := b.UpdateJob(b.Context(), tenant.Default, engine.Update{Job: j, Revision: j.Revision, AsOf: b.clock.Now()})
	if err != nil {
		b.Fatal(err)
	}
	return got
}

func (b bench) job(id job.ID) job.Job {
	b.Helper()
	j, err := b.Job(b.Context(), tenant.Default, engine.Ref{ID: id})
	if err != nil {
		b.Fatal(err)
	}
	return j
}

// What an update takes back has not run: it is planned again, and no longer counted.
func TestUpdateTakesBackRuns(t *testing.T) {
	b := newBench(t)
	soon := b.clock.Now().Add(time.Minute)
	j := b.recurring(soon, job.OverlapAllow)
	g, _ := b.fire(j, 2)
	b.clock.Advance(time.Minute) // the first is due now, and stays
	got := b.update(b.job(j.ID))
	if second := soon.Add(time.Minute); got.Runs != 1 || !got.NextRunAt.Equal(second) {
		t.Errorf("runs %d, next %v; want 1, %v", got.Runs, got.NextRunAt, second)
	}
	b.run(g.Executions[0].ID, time.Second, job.Succeeded)
	if _, err := b.Execution(t.Context(), tenant.Default, g.Executions[1].ID); err == nil {
		t.Error("the second is still there")
	}
	if _, fired := b.fire(got, 2); fired != 2 || b.job(j.ID).Runs != 3 {
		t.Errorf("fired %d again, runs %d", fired, b.job(j.ID).Runs)
	}
}

// What has failed and waits for its next try is nothing staged: it is held while the job is paused, and not taken back.
func TestPauseHoldsRetries(t *testing.T) {
	b := newBench(t)
	j := b.recurring(b.clock.Now(), job.OverlapSkip)
	g, _ := b.fire(j, 1)
	id := g.Executions[0].ID
	as := b.take(id)
	_, err := b.Finish(t.Context(), []job.Finish{{
		Outcome: job.Outcome{Lease: as[0].Lease, Status: job.OutcomeFailed, Retryable: true},
		Then:    job.Transition{Move: job.Again, Status: job.Retrying, DueAt: b.clock.Now().Add(time.Hour), Tries: 1},
	}})
	if err != nil {
		t.Fatal(err)
	}
	p := b.job(j.ID)
	p.State = job.Paused
	p = b.update(p)
	status := func() job.Status {
		e, err := b.Execution(t.Context(), tenant.Default, id)
		if err != nil {
			t.Fatal(err)
		}
		return e.Status
	}
	if got := status(); got != job.Waiting || p.Runs != 1 {
		t.Errorf("paused: %v, runs %d", got, p.Runs)
	}
	p.State = job.Active
	b.update(p)
	if got := status(); got != job.Retrying {
		t.Errorf("resumed: %v", got)
	}
}

// That a job is COMPLETED follows from what is planned and live; whoever writes it back as it was read stores ACTIVE.
func TestUpdateOfCompleted(t *testing.T) {
	b := newBench(t)
	c := some(b.Store, 1)
	store(t, b.Store, c)
	b.run(c.Executions[0].ID, time.Second, job.Succeeded)
	j := b.job(c.Jobs[0].ID)
	if j.State != job.Completed {
		t.Fatalf("it is %v", j.State)
	}
	j.Name = "after"
	if j = b.update(j); j.State != job.Completed || j.Name != "after" {
		t.Errorf("got %v, %q", j.State, j.Name)
	}
	j.NextRunAt = b.clock.Now()
	got, err := b.UpdateJob(t.Context(), tenant.Default, engine.Update{Job: j, Replan: true, AsOf: b.clock.Now()})
	if err != nil || got.State != job.Active {
		t.Errorf("planned anew: %v, %v", got.State, err)
	}
	if due, err := b.Due(t.Context(), engine.DueFilter{Until: b.clock.Now(), Limit: 10}); err != nil || len(due) != 1 {
		t.Errorf("%d due, %v", len(due), err)
	}
}

// What did not fire is no run.
func TestStatsOfSkips(t *testing.T) {
	b := newBench(t)
	at := b.clock.Now().Add(-time.Hour)
	j := b.recurring(at, job.OverlapSkip)
	missed := j.Skip(newID(), job.Stretch{From: at.Add(-time.Hour), To: at, Count: 60}, job.SkipMissed, b.clock.Now())
	g, fired := b.fire(j, 2, missed)
	if fired != 1 {
		t.Fatalf("%d fired", fired)
	}
	b.want(j.ID, job.Stats{})
	b.clock.Advance(time.Second)
	began := b.clock.Now()
	b.run(g.Executions[0].ID, time.Second, job.Succeeded)
	b.want(j.ID, job.Stats{Total: 1, Succeeded: 1, AvgDuration: time.Second, P95Duration: time.Second, LastStatus: job.Succeeded, LastRunAt: began})
}
