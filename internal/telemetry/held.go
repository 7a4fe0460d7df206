package telemetry

import (
	"sync"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// held remembers when leases made here began, until they end. Those that end at another server stay behind, so there
// are two generations: new ones go into the younger, and when it is full the older is dropped.
type held struct {
	mu         sync.Mutex
	young, old map[job.ExecutionID]lease // guarded by mu
}

type lease struct {
	token           job.Token
	started, begins int64   // microseconds; see job.Begins
	traced          *traced // nil: it is not part of a sampled trace
}

// generation limits how many leases one generation holds.
const generation = 100_000

func newHeld() held {
	return held{young: map[job.ExecutionID]lease{}, old: map[job.ExecutionID]lease{}}
}

func (h *held) add(as []job.Attempt, traces map[job.ExecutionID]*traced) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range as {
		if len(h.young) >= generation {
			h.young, h.old = h.old, h.young
			clear(h.young)
		}
		a := &as[i]
		h.young[a.Execution] = lease{a.Token, a.StartedAt.UnixMicro(), job.Begins(a.Job, a.Execution, a.Trigger, a.ScheduledAt).UnixMicro(), traces[a.Execution]}
	}
}

// find returns the entry of a lease. The caller holds mu.
func (h *held) find(l job.Lease) (lease, bool) {
	x, ok := h.young[l.Execution]
	if !ok && len(h.old) > 0 {
		x, ok = h.old[l.Execution]
	}
	if !ok || x.token != l.Token {
		return lease{}, false
	}
	return x, true
}

// take removes and returns the entry of a lease. The caller holds mu.
func (h *held) take(l job.Lease) (lease, bool) {
	x, ok := h.find(l)
	if ok {
		delete(h.young, l.Execution)
		if len(h.old) > 0 {
			delete(h.old, l.Execution)
		}
	}
	return x, ok
}

// drop removes leases that returned to the queue.
func (h *held) drop(rs []job.Ready) {
	if len(rs) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range rs {
		delete(h.young, rs[i].ID)
		delete(h.old, rs[i].ID)
	}
}
