package sqlite

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// What a one-off job fires as it is created has the job's id, and is in no index by job: it is found all the same.
func TestOwnFire(t *testing.T) {
	b := newBench(t)
	c := some(b.Store, 1)
	store(t, b.Store, c)
	j := c.Jobs[0]
	list := func(want ...job.Status) {
		t.Helper()
		for _, f := range [][]job.Status{nil, want} {
			got, err := b.FindExecutions(t.Context(), engine.ExecutionFilter{Tenant: tenant.Default, Job: j.ID, Statuses: f}, engine.Page{Limit: 10})
			if err != nil || len(got.Executions) != len(want) || got.Total.Count != int64(len(want)) {
				t.Fatalf("with %v: %+v, %v", f, got, err)
			}
			for i, e := range got.Executions {
				if e.Status != want[i] {
					t.Errorf("%d: %v, want %v", i, e.Status, want[i])
				}
			}
		}
	}
	state := func(want job.State) {
		t.Helper()
		if got, err := b.Job(t.Context(), tenant.Default, engine.Ref{ID: j.ID}); err != nil || got.State != want {
			t.Errorf("%v, %v; want %v", got.State, err, want)
		}
	}
	list(job.Pending)
	state(job.Active)
	b.run(c.Executions[0].ID, time.Second, job.Succeeded)
	list(job.Succeeded)
	state(job.Completed)
	b.clock.Advance(time.Second)
	e := j.Fire(newID(), b.clock.Now(), b.clock.Now())
	e.Trigger = job.ByHand
	if _, err := b.Trigger(t.Context(), tenant.Default, e, engine.Idempotency{}, nil); err != nil {
		t.Fatal(err)
	}
	list(job.Pending, job.Succeeded)
	state(job.Active)
	if _, err := b.DeleteJob(t.Context(), tenant.Default, engine.Deletion{Job: j.ID, AsOf: b.clock.Now()}); err != nil {
		t.Fatal(err)
	}
	list(job.Cancelled, job.Succeeded)

	c = some(b.Store, 1)
	store(t, b.Store, c)
	j = c.Jobs[0]
	if _, err := b.DeleteJob(t.Context(), tenant.Default, engine.Deletion{Job: j.ID, AsOf: b.clock.Now()}); err != nil {
		t.Fatal(err)
	}
	list(job.Cancelled)
}
