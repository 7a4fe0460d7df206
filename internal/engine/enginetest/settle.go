package enginetest

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// settling checks that a pause holds, and its end frees, more than one transaction handles, whatever happens
// meanwhile.
func settling(t *testing.T, h Harness) {
	f := open(t, h)
	waiting := func(n int) (j job.Job, ids []job.ExecutionID) {
		t.Helper()
		j = f.recurring("with a backlog", f.now().Add(time.Hour))
		es := make([]job.Execution, n)
		for i := range es {
			es[i] = f.due(j)
			es[i].Trigger, es[i].ScheduledAt = job.ByBackfill, f.now().Add(time.Duration(i-n)*time.Minute)
			ids = append(ids, es[i].ID)
		}
		if got := must(f.Backfill(f.ctx, tenant.Default, j.ID, es)); len(got) != n {
			t.Fatalf("%d of %d were added", len(got), n)
		}
		return j, ids
	}
	set := func(t *testing.T, j job.Job, s job.State, holds int) {
		t.Helper()
		j = f.job(j.ID)
		j.State = s
		must(f.UpdateJob(f.ctx, tenant.Default, engine.Update{Job: j, AsOf: f.now(), Holds: holds}))
	}
	are := func(t *testing.T, ids []job.ExecutionID, want ...job.Status) {
		t.Helper()
		for i, id := range ids {
			if got := f.execution(id).Status; got != want[min(i, len(want)-1)] {
				t.Errorf("%d is %v, want %v", i, got, want[min(i, len(want)-1)])
			}
		}
	}
	lease := func(ids []job.ExecutionID) (job.WorkerID, []job.Attempt) {
		w := f.worker()
		return w, must(f.Lease(f.ctx, []engine.Grant{{Worker: w, Executions: ids}}, f.fence()))
	}
	settle := func(t *testing.T, want ...int) {
		t.Helper()
		for _, n := range want {
			if got := must(f.Settle(f.ctx, 2)); got != n {
				t.Errorf("settled %d, want %d", got, n)
			}
		}
	}
	// over repeats until nothing is left to do.
	over := func() {
		for must(f.Settle(f.ctx, 2)) > 0 {
		}
	}
	const wait, free = job.Waiting, job.Pending

	t.Run("in pieces", func(t *testing.T) {
		j, ids := waiting(5)
		set(t, j, job.Paused, 2)
		are(t, ids, wait, wait, free)
		if _, as := lease(ids); len(as) != 0 {
			t.Errorf("%d of a paused job were leased", len(as))
		}
		if must(f.Settle(f.ctx, 0)) != 0 {
			t.Error("a piece of nothing settled something")
		}
		settle(t, 2, 1, 0)
		are(t, ids, wait)
		set(t, j, job.Active, 2)
		are(t, ids, free, free, wait)
		if _, as := lease(ids); len(as) != 2 {
			t.Errorf("%d were leased of two that are free", len(as))
		}
		settle(t, 2, 1, 0)
		if _, as := lease(ids); len(as) != 3 {
			t.Errorf("%d were leased in the end, want the other 3", len(as))
		}
	})
	t.Run("as many as fit", func(t *testing.T) {
		j, ids := waiting(2)
		set(t, j, job.Paused, 2)
		are(t, ids, wait)
		settle(t, 1, 0) // which finds that nothing is left
	})
	t.Run("resumed before it was settled", func(t *testing.T) {
		j, ids := waiting(7)
		set(t, j, job.Paused, 2)
		settle(t, 2)
		set(t, j, job.Active, 1)
		are(t, ids, free, wait, wait, wait, free)
		over()
		if _, as := lease(ids); len(as) != len(ids) {
			t.Errorf("%d of %d were leased", len(as), len(ids))
		}
	})
	t.Run("paused before it was settled", func(t *testing.T) {
		j, ids := waiting(7)
		set(t, j, job.Paused, 100)
		set(t, j, job.Active, 2)
		set(t, j, job.Paused, 1)
		if _, as := lease(ids); len(as) != 0 {
			t.Errorf("%d of a paused job were leased", len(as))
		}
		over()
		are(t, ids, wait)
	})
	t.Run("changed before it was settled", func(t *testing.T) {
		j, ids := waiting(5)
		set(t, j, job.Paused, 2)
		set(t, j, job.Paused, 2) // which changes something else
		if _, as := lease(ids); len(as) != 0 {
			t.Errorf("%d of a paused job were leased", len(as))
		}
		settle(t, 2, 1, 0)
		are(t, ids, wait)
	})
	t.Run("deleted before it was settled", func(t *testing.T) {
		j, ids := waiting(5)
		set(t, j, job.Paused, 2)
		must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: j.ID, AsOf: f.now(), Most: 1}))
		settle(t, 1, 0)
		if _, as := lease(ids); len(as) != 0 {
			t.Errorf("%d of a deleted job were leased", len(as))
		}
		if n := len(must(f.CancelWaiting(f.ctx, tenant.Default, j.ID, 10))); n != 4 {
			t.Errorf("cancelled %d, want 4", n)
		}
		are(t, ids, job.Cancelled)
	})
	t.Run("what runs meanwhile", func(t *testing.T) {
		j, ids := waiting(6)
		_, before := lease(ids[:1])
		_, behind := lease(ids[5:])
		set(t, j, job.Paused, 2)
		hand := f.due(j)
		hand.Trigger = job.ByHand
		must(f.Trigger(f.ctx, tenant.Default, hand, engine.Idempotency{}, nil))
		if _, as := lease([]job.ExecutionID{hand.ID}); len(as) != 1 {
			t.Error("what was triggered by hand was not leased")
		}
		for _, as := range [][]job.Attempt{before, behind} {
			must(f.Finish(f.ctx, []job.Finish{again(as[0], f.now(), 1)}))
		}
		over()
		are(t, ids, wait)
		set(t, j, job.Active, 2)
		over()
		if _, as := lease(ids); len(as) != len(ids) {
			t.Errorf("%d of %d were leased", len(as), len(ids))
		}
	})
	t.Run("each job has its turn", func(t *testing.T) {
		long, many := waiting(9)
		short, few := waiting(3)
		set(t, long, job.Paused, 2)
		set(t, short, job.Paused, 2)
		settle(t, 2, 1)
		are(t, few, wait)
		are(t, many, wait, wait, wait, wait, free)
		over()
		are(t, many, wait)
	})
}
