package enginetest

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// jobPauses checks that the pause of a job holds everything of its schedule that returns to the queue, and that its
// end frees it.
func jobPauses(t *testing.T, h Harness) {
	f := open(t, h)
	set := func(j job.Job, s job.State) {
		t.Helper()
		j = f.job(j.ID)
		j.State, j.PauseNote = s, "the target is moved"
		must(f.UpdateJob(f.ctx, tenant.Default, engine.Update{Job: j, AsOf: f.now()}))
	}
	leasable := func(e job.ExecutionID) bool {
		t.Helper()
		return len(must(f.Lease(f.ctx, []engine.Grant{{Worker: f.worker(), Executions: []job.ExecutionID{e}}}, engine.Fence{}))) == 1
	}
	for name, back := range map[string]func(w job.WorkerID, a job.Attempt){
		"it fails, and is to be tried again": func(_ job.WorkerID, a job.Attempt) { must(f.Finish(f.ctx, []job.Finish{again(a, f.now(), 1)})) },
		"it is snoozed": func(_ job.WorkerID, a job.Attempt) {
			must(f.Finish(f.ctx, []job.Finish{{
				Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeSnoozed}, Then: job.Transition{Move: job.Snoozed, Status: job.Pending, DueAt: f.now()},
			}}))
		},
		"its worker is lost":       func(w job.WorkerID, _ job.Attempt) { f.expire(w); must(f.Reap(f.ctx, 100, 3)) },
		"its worker leaves":        func(w job.WorkerID, _ job.Attempt) { must(f.Leave(f.ctx, w)) },
		"its worker hands it back": func(w job.WorkerID, a job.Attempt) { must(f.Release(f.ctx, w, []job.Lease{a.Lease})) },
		"its lease is disowned":    func(w job.WorkerID, _ job.Attempt) { must(f.Disown(f.ctx, w, nil, time.Time{})) },
	} {
		t.Run(name, func(t *testing.T) {
			j, e := f.add("paused")
			w, as := f.take(e.ID)
			set(j, job.Paused)
			if got := f.execution(e.ID); got.Status != job.Running {
				t.Fatalf("the pause made it %v", got.Status)
			}
			back(w, as[0])
			if got := f.execution(e.ID); got.Status != job.Waiting {
				t.Errorf("it is %v, want WAITING", got.Status)
			}
			if ready := must(f.Ready(f.ctx, []engine.LaneCursor{{Lane: e.Ready().Lane()}}, 100)); len(ready) != 0 {
				t.Errorf("it is ready: %+v", ready)
			}
			if leasable(e.ID) {
				t.Error("it was leased")
			}
			set(j, job.Active)
			if !leasable(e.ID) {
				t.Error("resumed, it is not leased")
			}
		})
	}
	t.Run("a retry keeps its time", func(t *testing.T) {
		j, e := f.add("later")
		_, as := f.take(e.ID)
		set(j, job.Paused)
		at := f.now().Add(time.Hour)
		must(f.Finish(f.ctx, []job.Finish{again(as[0], at, 1)}))
		set(j, job.Active)
		if got := f.execution(e.ID); got.Status != job.Retrying || !got.DueAt.Equal(at.Truncate(time.Microsecond)) {
			t.Errorf("it is %v, due %v; want %v", got.Status, got.DueAt, at)
		}
	})
	t.Run("what waits for a retry when the pause begins", func(t *testing.T) {
		j, e := f.add("retries")
		_, as := f.take(e.ID)
		must(f.Finish(f.ctx, []job.Finish{again(as[0], f.now(), 1)}))
		set(j, job.Paused)
		if got := f.execution(e.ID); got.Status != job.Waiting || leasable(e.ID) {
			t.Errorf("it is %v", got.Status)
		}
	})
	t.Run("a trigger by hand has its retries", func(t *testing.T) {
		j, e := f.add("by hand")
		must(f.Finish(f.ctx, []job.Finish{succeed(f.took(e.ID))}))
		set(j, job.Paused)
		x := j.Fire(newID(), f.now(), f.now())
		x.Trigger = job.ByHand
		must(f.Trigger(f.ctx, tenant.Default, x, engine.Idempotency{}, nil))
		must(f.Finish(f.ctx, []job.Finish{again(f.took(x.ID), f.now(), 1)}))
		if got := f.execution(x.ID); got.Status != job.Retrying || !leasable(x.ID) {
			t.Errorf("it is %v", got.Status)
		}
	})
}
