package dispatch

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// Work that no hint told of starts within about a second of its turn, also in a lane that is never empty.
func TestWorkWithoutAHintInALaneThatIsNeverEmpty(t *testing.T) {
	for name, c := range map[string]struct {
		claim    int // executions in each claim
		backlog  int // executions that always wait in the lane
		inFlight int // executions that come before it, whose lease is not answered yet
	}{
		"one at a time":               {claim: 1, backlog: 40},
		"many at a time":              {claim: 50, backlog: 1000},
		"behind a lease in leaseCall": {claim: 400, backlog: 2000, inFlight: 1500},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(time.Now)
				d := running(t, f, Config{})
				next := 0
				made := func() job.Ready {
					next++
					return job.Ready{ID: job.ExecutionID{13: byte(next >> 16), 14: byte(next >> 8), 15: byte(next)}, Tenant: "default", Priority: 5, DueAt: time.Now()}
				}
				supply := func(n int) {
					rs := make([]job.Ready, n)
					for i := range rs {
						rs[i] = made()
					}
					f.add(rs...)
					d.Offer(rs)
				}
				if c.inFlight > 0 {
					answered := make(chan struct{})
					defer close(answered)
					f.slow, f.open = map[int]chan struct{}{1: answered}, true
					supply(c.inFlight)
					claims(t, d, job.WorkerID{9}, c.inFlight)
				}
				time.Sleep(time.Millisecond)
				silent := made()
				time.Sleep(time.Millisecond)
				supply(c.backlog)
				if as, err := claimed(t, d, w1, c.claim); err != nil || len(as) != c.claim {
					t.Fatalf("%d attempts, %v", len(as), err)
				}
				f.add(silent)
				for began := time.Now(); time.Since(began) <= sweepEvery+probeEvery; time.Sleep(10 * time.Millisecond) {
					as, err := claimed(t, d, w1, c.claim)
					if err != nil {
						t.Fatal(err)
					}
					for _, a := range as {
						if a.Execution == silent.ID {
							return
						}
					}
					supply(len(as))
				}
				t.Errorf("not found within %v", sweepEvery+probeEvery)
			})
		})
	}
}

// What is loaded of a lane may be gone from the store, and all that the store has be new. Probes take in no more of that than there is
// room for, whatever else the window holds.
func TestProbesLeaveTheWindowItsSize(t *testing.T) {
	const size, per = 200, 50
	now := time.Now()
	made := func(kind byte, n int) job.Ready {
		return job.Ready{ID: job.ExecutionID{0: kind, 14: byte(n >> 8), 15: byte(n)}, Tenant: "t", Priority: 5, DueAt: now}
	}
	for _, ghosts := range []int{10, size} {
		t.Run(fmt.Sprint(ghosts), func(t *testing.T) {
			f, w := newFake(func() time.Time { return now }), newWindow(size)
			for i := range ghosts {
				w.offer([]job.Ready{made(1, i)}, now)
			}
			for i := range 1000 {
				f.add(made(2, i))
			}
			for range 20 {
				lanes, _ := f.Lanes(t.Context(), nil, 10)
				w.sweep(lanes, now)
				w.round++
				for cs := w.heads(10, everyLane); len(cs) > 0; {
					rs, _ := f.Ready(t.Context(), cs, per)
					cs = w.probed(cs, rs, per)
				}
				if w.held() > 2*size {
					t.Fatalf("the window holds %d", w.held())
				}
			}
			if w.held() < size {
				t.Errorf("the window holds %d, and there is more", w.held())
			}
		})
	}
}
