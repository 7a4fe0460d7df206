package enginetest

import (
	"slices"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// reaping checks which sessions and leases a reaper handles, and in which order.
func reaping(t *testing.T, h Harness) {
	f := open(t, h)
	t.Run("not before its time", func(t *testing.T) {
		_, e := f.add("early")
		w, as := f.take(e.ID)
		for {
			const ttl = 15 * time.Second
			begun := time.Now()
			must(f.Renew(f.ctx, []engine.Renewal{{Worker: w}}, ttl))
			got := must(f.Reap(f.ctx, 100, 3))
			if time.Since(begun) > ttl-time.Second {
				continue // the machine was suspended; the session may rightly be gone
			}
			if got.Sessions != 0 || got.Leases != 0 || got.Lost() != 0 {
				t.Fatalf("%v before its end a session is reaped: %+v", ttl, got)
			}
			break
		}
		if orders := must(f.Renew(f.ctx, []engine.Renewal{{Worker: w}}, time.Hour)); len(orders.Ended) != 0 {
			t.Error("the session has ended")
		}
		if vs := must(f.Finish(f.ctx, []job.Finish{succeed(as[0])})); !vs[0].Accepted {
			t.Errorf("its result is refused: %s", vs[0].Reason)
		}
	})
	t.Run("the latest first, until nothing is left", func(t *testing.T) {
		w := f.worker()
		const n = 12
		var ids []job.ExecutionID
		for i := range n {
			_, e := f.add("one of many")
			as := must(f.Lease(f.ctx, []engine.Grant{{Worker: w, Executions: []job.ExecutionID{e.ID}}}, engine.Fence{}))
			if i > 0 && i < n-1 {
				must(f.Finish(f.ctx, []job.Finish{succeed(as[0])}))
				continue
			}
			ids = append(ids, e.ID)
		}
		f.expire(w)
		first := must(f.Reap(f.ctx, 5, 3))
		if first.Sessions != 1 || first.Leases != 5 || len(first.Ready) != 1 || first.Ready[0].ID != ids[1] {
			t.Errorf("first: %+v; want the latest", first)
		}
		leases, passes := first.Leases, 1
		var back []job.ExecutionID
		for ; ; passes++ {
			got := must(f.Reap(f.ctx, 5, 3))
			if got.Leases == 0 {
				break
			}
			leases += got.Leases
			for _, r := range got.Ready {
				back = append(back, r.ID)
			}
		}
		if leases != n || passes != 3 || !slices.Equal(back, ids[:1]) {
			t.Errorf("%d leases in %d passes, %v came back", leases, passes, back)
		}
	})
}
