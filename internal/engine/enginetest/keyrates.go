package enginetest

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/pick"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// keyRates lets two jobs share a concurrency key with different rates: every execution keeps the rate of its own job,
// whatever happens to it, and the buckets of the two rates stay independent.
func keyRates(t *testing.T, h Harness) {
	f := open(t, h)
	const key job.GroupKey = 77 // an odd one: an expression gave it
	slow, fast := job.Rate{Count: 1, Per: time.Hour, Burst: 1}, job.Rate{Count: 1000, Per: time.Second, Burst: 5}
	_, a := f.add("slow", inGroup(key, 0, slow))
	_, b := f.add("fast", inGroup(key, 0, fast))
	rates := func(when string, rs []job.Ready) {
		t.Helper()
		got := map[job.ExecutionID]job.Rate{}
		for _, r := range rs {
			got[r.ID] = r.Group.Rate
		}
		if len(got) != 2 || got[a.ID] != slow || got[b.ID] != fast {
			t.Errorf("%s: rates %v, want %v for one and %v for the other", when, got, slow, fast)
		}
	}
	ready := func() []job.Ready {
		lanes := must(f.Lanes(f.ctx, nil, 10))
		if len(lanes) != 1 || lanes[0].Group != key {
			t.Fatalf("lanes %+v, want one, of the key", lanes)
		}
		return must(f.Ready(f.ctx, []engine.LaneCursor{{Lane: lanes[0]}}, 10))
	}
	rates("ready", ready())
	x, w := f.fence(), f.worker()
	grant := []engine.Grant{{Worker: w, Executions: []job.ExecutionID{a.ID, b.ID}}}
	as := must(f.Lease(f.ctx, grant, x))
	if len(as) != 2 {
		t.Fatalf("leased %d of 2", len(as))
	}
	var running []job.Ready
	for _, r := range must(f.Running(f.ctx, nil)) {
		running = append(running, r.Ready)
	}
	rates("running", running)
	rates("released", must(f.Release(f.ctx, job.WorkerID{}, []job.Lease{as[0].Lease, as[1].Lease})).Ready)
	as = must(f.Lease(f.ctx, grant, x))
	for _, l := range as {
		f.report(again(l, f.now(), 1))
	}
	rates("to be retried", ready())

	draw := func(r job.Rate, n int) engine.Drawn {
		return must(f.Draw(f.ctx, []engine.Draw{{Bucket: pick.GroupBucket(key, r), Rate: r, N: n}}))[0]
	}
	if got := draw(slow, 1); got.N != 1 {
		t.Fatalf("of the full bucket of the slow rate: %+v", got)
	}
	for range 3 { // tokens of one are not asked of the other, in one draw or in several
		for began, n := time.Now(), 0; n < 10; <-time.After(time.Millisecond) {
			n += draw(fast, 5).N
			if time.Since(began) > 20*time.Second {
				t.Fatalf("%d came of the fast rate in %v", n, time.Since(began))
			}
		}
		both := must(f.Draw(f.ctx, []engine.Draw{{Bucket: pick.GroupBucket(key, fast), Rate: fast}, {Bucket: pick.GroupBucket(key, slow), Rate: slow, N: 1}}))
		if both[1].N != 0 || both[1].Wait < 50*time.Minute || both[0].Wait > time.Second {
			t.Errorf("beside the fast rate: %+v, want none of the slow one for an hour", both)
		}
		must(f.Tidy(f.ctx)) // which deletes only full buckets
	}
	if got := draw(slow, 1); got.N != 0 || got.Wait < 50*time.Minute {
		t.Errorf("of the slow rate in the end: %+v", got)
	}
}
