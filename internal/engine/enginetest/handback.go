package enginetest

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func handBack(t *testing.T, h Harness) {
	f := open(t, h)
	t.Run("release charges nothing", func(t *testing.T) {
		_, e := f.add("released")
		_, as := f.take(e.ID)
		rs := must(f.Release(f.ctx, job.WorkerID{}, []job.Lease{as[0].Lease, {Execution: newID(), Token: 5}})).Ready
		if len(rs) != 1 || rs[0].ID != e.ID {
			t.Errorf("got %+v", rs)
		}
		if got := f.execution(e.ID); got.Status != job.Pending || got.Attempt != 0 || got.Lost != 0 {
			t.Errorf("got %+v", got)
		}
		if rs := must(f.Release(f.ctx, job.WorkerID{}, []job.Lease{as[0].Lease})).Ready; len(rs) != 0 {
			t.Errorf("released twice: %+v", rs)
		}
		if vs := f.report(succeed(as[0])); vs[0].Accepted {
			t.Error("a result after the release was accepted")
		}
		_, next := f.take(e.ID)
		if next[0].Number != 1 || next[0].Token <= as[0].Token {
			t.Errorf("number %d, token %d after %d", next[0].Number, next[0].Token, as[0].Token)
		}
	})
	t.Run("a worker speaks for its own leases only", func(t *testing.T) { ownLeases(t, f) })
	t.Run("what never ran has not started", func(t *testing.T) {
		for name, end := range map[string]func(job.WorkerID, job.Attempt){
			"release": func(_ job.WorkerID, a job.Attempt) { must(f.Release(f.ctx, job.WorkerID{}, []job.Lease{a.Lease})) },
			"leave":   func(w job.WorkerID, _ job.Attempt) { must(f.Leave(f.ctx, w)) },
			"disown":  func(w job.WorkerID, _ job.Attempt) { must(f.Disown(f.ctx, w, nil, time.Time{})) },
		} {
			_, e := f.add("never ran: " + name)
			w, as := f.take(e.ID)
			end(w, as[0])
			if got := f.execution(e.ID); got.Status != job.Pending || !got.StartedAt.IsZero() {
				t.Errorf("%s: it is %v, started at %v", name, got.Status, got.StartedAt)
			}
			f.report(again(f.took(e.ID), f.now(), 1))
			began := f.execution(e.ID).StartedAt
			w, as = f.take(e.ID)
			end(w, as[0])
			if got := f.execution(e.ID); began.IsZero() || !got.StartedAt.Equal(began) || got.Attempt != 1 {
				t.Errorf("%s of its second attempt: it started at %v, then at %v", name, began, got.StartedAt)
			}
		}
	})
	t.Run("leaving releases all", func(t *testing.T) {
		_, a := f.add("a")
		_, b := f.add("b")
		_, c := f.add("done before")
		w, as := f.take(a.ID, b.ID, c.ID)
		f.report(succeed(as[2]))
		if rs := must(f.Leave(f.ctx, w)).Ready; len(rs) != 2 {
			t.Errorf("%d came back, want 2", len(rs))
		}
		for _, id := range []job.ExecutionID{a.ID, b.ID} {
			if got := f.execution(id); got.Status != job.Pending || got.Attempt != 0 {
				t.Errorf("got %v, attempt %d", got.Status, got.Attempt)
			}
		}
		if rs := must(f.Leave(f.ctx, w)).Ready; len(rs) != 0 {
			t.Error("leaving twice gave more")
		}
	})
	t.Run("disowning spares what is known", func(t *testing.T) {
		_, a := f.add("known")
		_, b := f.add("unknown")
		w := f.worker()
		known := must(f.Lease(f.ctx, []engine.Grant{{Worker: w, Executions: []job.ExecutionID{a.ID}}}, engine.Fence{}))
		must(f.Lease(f.ctx, []engine.Grant{{Worker: w, Executions: []job.ExecutionID{b.ID}}}, engine.Fence{}))
		rs := must(f.Disown(f.ctx, w, []job.Token{known[0].Token}, time.Time{})).Ready
		if len(rs) != 1 || rs[0].ID != b.ID {
			t.Errorf("got %+v", rs)
		}
		if got := f.execution(b.ID); got.Status != job.Pending || got.Attempt != 0 {
			t.Errorf("got %v, attempt %d", got.Status, got.Attempt)
		}
		if vs := f.report(succeed(known[0])); !vs[0].Accepted {
			t.Error("what was known was disowned, too")
		}
		if rs := must(f.Disown(f.ctx, w, nil, time.Time{})).Ready; len(rs) != 0 {
			t.Errorf("nothing is left, got %+v", rs)
		}
	})
	t.Run("a dead worker's executions come back as lost attempts", func(t *testing.T) {
		_, a := f.add("lost")
		_, b := f.add("finished in time")
		_, c := f.add("alive")
		dead, as := f.take(a.ID, b.ID)
		_, kept := f.take(c.ID)
		f.report(succeed(as[1]))
		if rs := must(f.Reap(f.ctx, 100, 3)).Ready; len(rs) != 0 {
			t.Errorf("reaped the living: %+v", rs)
		}
		f.expire(dead)
		got := must(f.Reap(f.ctx, 100, 3))
		if len(got.Ready) != 1 || got.Ready[0].ID != a.ID || got.Sessions != 1 || got.Lost() != 1 {
			t.Fatalf("got %+v", got)
		}
		if got := f.execution(a.ID); got.Status != job.Pending || got.Attempt != 1 || got.Lost != 1 || got.Tries != 0 {
			t.Errorf("got %+v", got)
		}
		past := must(f.Attempts(f.ctx, tenant.Default, a.ID))
		if len(past) != 1 || past[0].Error.Type != job.LeaseLost || past[0].Worker != dead {
			t.Errorf("attempts: %+v", past)
		}
		for _, late := range []job.Finish{succeed(as[0]), die(as[0], 1), again(as[0], f.now(), 1)} {
			if vs := f.report(late); vs[0].Accepted || vs[0].Reason != job.RefusedStale {
				t.Errorf("its late result: %+v", vs)
			}
		}
		if got := must(f.Renew(f.ctx, []engine.Renewal{{Worker: dead}}, time.Hour)); len(got.Ended) != 1 {
			t.Error("the dead renewed its session")
		}
		_, next := f.take(a.ID)
		if next[0].Number != 2 || next[0].Token <= as[0].Token {
			t.Errorf("number %d, token %d after %d", next[0].Number, next[0].Token, as[0].Token)
		}
		for _, x := range []job.Attempt{next[0], kept[0]} {
			if vs := f.report(succeed(x)); !vs[0].Accepted {
				t.Errorf("refused: %+v", vs)
			}
		}
		if rs := must(f.Reap(f.ctx, 100, 3)).Ready; len(rs) != 0 {
			t.Errorf("reaped again: %+v", rs)
		}
	})
	t.Run("what keeps killing its workers ends", func(t *testing.T) {
		_, e := f.add("poison")
		var last job.Attempt
		for n := 1; n <= 3; n++ {
			w, as := f.take(e.ID)
			last = as[0]
			f.expire(w)
			got := must(f.Reap(f.ctx, 100, 3))
			if (len(got.Ready) == 1) != (n < 3) || (got.Poisoned == 1) != (n == 3) || got.Sessions != 1 || got.Cancelled != 0 {
				t.Fatalf("after %d losses: %+v", n, got)
			}
		}
		got := f.execution(e.ID)
		if got.Status != job.Failed || got.Error == nil || got.Error.Type != job.Poison || got.Attempt != 3 || got.Lost != 3 || got.Tries != 0 || got.Token != last.Token {
			t.Errorf("got %+v, %+v", got, got.Error)
		}
		if past := must(f.Attempts(f.ctx, tenant.Default, e.ID)); len(past) != 3 || past[2].Error.Type != job.LeaseLost {
			t.Errorf("attempts: %+v", past)
		}
		for _, late := range []job.Finish{succeed(last), die(last, 1)} {
			if vs := f.report(late); vs[0].Accepted {
				t.Error("a late result was accepted")
			}
		}
	})
	t.Run("what was asked to stop ends with its worker", func(t *testing.T) {
		_, e := f.add("asked to stop")
		_, other := f.add("not asked")
		w, _ := f.take(e.ID, other.ID)
		must(f.Cancel(f.ctx, tenant.Default, e.ID, "", nil))
		f.expire(w)
		if got := must(f.Reap(f.ctx, 100, 3)); len(got.Ready) != 1 || got.Ready[0].ID != other.ID || got.Sessions != 1 || got.Cancelled != 1 || got.Poisoned != 0 || got.Lost() != 2 {
			t.Errorf("got %+v", got)
		}
		f.report(succeed(f.took(other.ID)))
	})
	t.Run("tidying loses nothing", func(t *testing.T) {
		_, e := f.add("kept")
		_, as := f.take(e.ID)
		for range 20 {
			if !must(f.Tidy(f.ctx)) {
				break
			}
		}
		if vs := f.report(succeed(as[0])); !vs[0].Accepted {
			t.Errorf("refused: %+v", vs)
		}
	})
}
