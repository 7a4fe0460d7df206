package sqlite

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// What is of a deleted job is neither snoozed nor run again by itself.
func TestDeletedJobsStayDown(t *testing.T) {
	b := newBench(t)
	c := some(b.Store, 3)
	store(t, b.Store, c)
	as := b.take(ids(c)...)
	dies := func(n int) job.Finish {
		return job.Finish{
			Outcome: job.Outcome{Lease: as[n].Lease, Status: job.OutcomeFailed},
			Then:    job.Transition{Move: job.Died, Status: job.Failed, RedriveAt: b.clock.Now()},
		}
	}
	report := func(f job.Finish) {
		t.Helper()
		for range 2 {
			if vs, err := b.Finish(t.Context(), []job.Finish{f}); err != nil || !vs[0].Accepted {
				t.Errorf("%+v, %v", vs, err)
			}
		}
	}
	redrivable := func(want int) {
		t.Helper()
		if es, err := b.Redrivable(t.Context(), 10); err != nil || len(es) != want {
			t.Errorf("%d are to be run again, %v; want %d", len(es), err, want)
		}
	}
	report(dies(0))
	redrivable(1)
	for _, j := range c.Jobs {
		if _, err := b.DeleteJob(t.Context(), tenant.Default, engine.Deletion{Job: j.ID, AsOf: b.clock.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	redrivable(0)
	report(dies(1))
	redrivable(0)
	report(job.Finish{
		Outcome: job.Outcome{Lease: as[2].Lease, Status: job.OutcomeSnoozed, RetryAfter: time.Hour},
		Then:    job.Transition{Move: job.Snoozed, Status: job.Pending, DueAt: b.clock.Now().Add(time.Hour)},
	})
	b.status(as[2].Execution, job.Cancelled)
}

// Overrun does not look at a grant again before its first execution may have run for too long, and then it does.
func TestOverrunComesInTime(t *testing.T) {
	b := newBench(t)
	c := some(b.Store, 2)
	c.Executions[0].Timeout, c.Executions[1].Timeout = time.Minute, time.Hour
	store(t, b.Store, c)
	b.take(ids(c)...)
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{2 * time.Second, 0}, {57 * time.Second, 0}, {2 * time.Second, 1}, {time.Second, 1}} {
		b.clock.Advance(step.after)
		got, err := b.Overrun(t.Context(), 0, 10)
		if err != nil || len(got) != step.want {
			t.Errorf("%s later: %d, %v; want %d", step.after, len(got), err, step.want)
		}
	}
}
