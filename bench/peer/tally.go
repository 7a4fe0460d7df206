package peer

import (
	"sync/atomic"
	"time"
)

// tally counts how often each job was handled. Handlers call it from many goroutines.
type tally struct {
	runs    []atomic.Int32
	unique  atomic.Int64
	first   atomic.Pointer[time.Time]
	watched atomic.Pointer[watch]
}

// watch waits for the start of one job.
type watch struct {
	seq     int
	started chan time.Time
}

func newTally(jobs int) *tally { return &tally{runs: make([]atomic.Int32, jobs)} }

// handle records that job seq was started.
func (t *tally) handle(seq int) {
	if seq < 0 || seq >= len(t.runs) {
		return // not of this phase
	}
	w := t.watched.Load()
	if w != nil && w.seq == seq {
		select {
		case w.started <- time.Now():
		default: // it ran twice; the first start counts
		}
	}
	if t.first.Load() == nil {
		now := time.Now()
		t.first.CompareAndSwap(nil, &now)
	}
	if t.runs[seq].Add(1) == 1 {
		t.unique.Add(1)
	}
}

// watch returns a channel that delivers the start of job seq.
func (t *tally) watch(seq int) <-chan time.Time {
	w := &watch{seq: seq, started: make(chan time.Time, 1)}
	t.watched.Store(w)
	return w.started
}

// handled returns how many different jobs were started.
func (t *tally) handled() int { return int(t.unique.Load()) }

// begun returns when the first job was started.
func (t *tally) begun() time.Time {
	if at := t.first.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// count returns how many of the first jobs never ran, and how many ran more than once.
func (t *tally) count(jobs int) (lost, doubled int) {
	for i := range jobs {
		switch runs := t.runs[i].Load(); {
		case runs == 0:
			lost++
		case runs > 1:
			doubled++
		}
	}
	return lost, doubled
}
