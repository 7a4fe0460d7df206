package scheduler

import (
	"container/heap"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	herdBatch = 4000 // of a lane, while there is much, if there are several
	// Jobs that a pass found in a herd and may not stage yet are skipped in the next one, at most this many in a
	// lane.
	maxPassed = 2 * herdBatch

	firstRate = 5000.0 // jobs a second, until measured
	leastRate = 500.0
	mostRate  = 200_000.0
	slack     = 1.5 // the factor on a herd's expected duration

	lookEvery   = 2 * time.Second  // between looks ahead …
	lookCost    = 20               // … or this many times the duration of one
	lookBarren  = 15 * time.Second // after one that led to nothing
	maxHints    = 20_000           // executions staged far ahead
	longestPass = 10 * time.Second // a longer one says nothing about the rate
)

// Lanes returns how many batches are fired at once over a store: a shared one has several writers.
func Lanes(store engine.Store) int {
	if _, ok := store.(engine.Owners); ok {
		return 3
	}
	return 1
}

// outlook is what a scheduler knows about the coming instants.
type outlook struct {
	rate   float64   // jobs it fires in a second while there are many
	far    bool      // more is ahead than it can fire within the look-ahead: it stages as early as allowed
	yield  int       // what it has staged since
	look   time.Time // when it looks next
	many   bool      // the last pass left something: the next one fires in lanes
	passed int       // how many the last pass found far ahead and may not stage yet
	hints  hints     // of what was staged far ahead
}

// ahead returns how early plain schedules are prepared.
func (s *Scheduler) ahead() time.Duration {
	if s.out.far {
		return max(s.cfg.LookAhead, schedule.HerdAhead)
	}
	return s.cfg.LookAhead
}

// lookOut determines whether to stage as early as allowed: some instant will come before everything up to it can be
// fired.
func (s *Scheduler) lookOut(ctx context.Context, ps []job.Partition, now time.Time) error {
	o := &s.out
	if o.far || now.Before(o.look) || s.cfg.LookAhead >= schedule.HerdAhead {
		return nil
	}
	counts, err := s.store.Ahead(ctx, ps, now, int(schedule.HerdAhead/time.Second), int(o.rate*schedule.HerdAhead.Seconds()))
	if err != nil {
		return fmt.Errorf("look ahead: %w", err)
	}
	done := s.clock.Now()
	o.look = done.Add(max(lookEvery, lookCost*done.Sub(now)))
	sum := 0
	for second, n := range counts {
		if sum += n; sum > batch && float64(sum)*slack > o.rate*float64(second) {
			o.far, o.yield = true, 0
			return nil
		}
	}
	return nil
}

// learn updates the outlook after a pass that began at an instant.
func (s *Scheduler) learn(began time.Time, vs []volley) {
	o := &s.out
	fired, full := 0, false
	o.many, o.passed = false, 0
	for i := range vs {
		v := &vs[i]
		fired += len(v.ready)
		if v.full {
			full = true
			o.many = o.many || len(v.ready) > 0
			if o.far {
				o.passed += v.passed
			}
		}
	}
	now := s.clock.Now()
	if took := now.Sub(began); o.many && took > 0 && took < longestPass {
		o.rate = min(max(0.7*o.rate+0.3*float64(fired)/took.Seconds(), leastRate), mostRate)
	}
	if !o.far {
		return
	}
	if o.yield += fired; full && (fired > 0 || o.passed < maxPassed) {
		return
	}
	if o.far, o.look = false, now.Add(lookEvery); o.yield == 0 {
		o.look = now.Add(lookBarren) // nothing ahead may be staged
	}
}

// lanes returns the partitions of each lane: all in one, unless there is much.
func (s *Scheduler) lanes(ps []job.Partition) [][]job.Partition {
	n := s.cfg.Lanes
	if !s.out.many || n < 2 {
		return [][]job.Partition{ps}
	}
	if len(ps) == 0 {
		for p := range job.Partition(job.Partitions) {
			ps = append(ps, p)
		}
	}
	out := make([][]job.Partition, min(n, len(ps)))
	for i, p := range ps {
		out[i%len(out)] = append(out[i%len(out)], p)
	}
	return out
}

// volley is the result of one lane's pass.
type volley struct {
	pass   *pass
	ready  []job.Ready
	next   time.Duration // when to look again
	full   bool          // there may be more
	passed int           // how many it found that may not be staged yet
	nudge  bool
	err    error
}

// each fires the lanes concurrently.
func (s *Scheduler) each(ctx context.Context, lanes [][]job.Partition, now time.Time, fence engine.Fence) []volley {
	size := batch
	if s.cfg.Lanes > 1 && (s.out.many || s.out.far) { // so that a store's only writer is not blocked for that long
		size = herdBatch
	}
	size += min(s.out.passed/len(lanes), maxPassed) // so that those never hide the others
	vs := make([]volley, len(lanes))
	fire := func(i int) {
		vs[i].pass = s.begin(now, s.ahead())
		vs[i].fire(ctx, lanes[i], size, fence)
	}
	if len(lanes) == 1 {
		fire(0)
		return vs
	}
	var wg sync.WaitGroup
	for i := range lanes {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					vs[i].err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
				}
			}()
			fire(i)
		})
	}
	wg.Wait()
	return vs
}

// hint reports executions that may be leased: those due within the look-ahead at once, the others when they are due.
// If very many are staged far ahead only some are remembered; lessors find the others.
func (s *Scheduler) hint(rs []job.Ready, now time.Time) {
	until := now.Add(max(s.cfg.LookAhead, between))
	soon := rs
	if s.out.far {
		soon = slices.DeleteFunc(rs, func(r job.Ready) bool {
			if !r.DueAt.After(until) {
				return false
			}
			if len(s.out.hints) < maxHints {
				heap.Push(&s.out.hints, r)
			}
			return true
		})
	}
	for len(s.out.hints) > 0 && !s.out.hints[0].DueAt.After(until) {
		soon = append(soon, heap.Pop(&s.out.hints).(job.Ready))
	}
	if len(soon) > 0 {
		s.cfg.Hint(soon)
	}
}

// hints holds executions in the order in which they are due.
type hints []job.Ready

func (h hints) Len() int           { return len(h) }
func (h hints) Less(i, j int) bool { return h[i].DueAt.Before(h[j].DueAt) }
func (h hints) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *hints) Push(x any)        { *h = append(*h, x.(job.Ready)) }
func (h *hints) Pop() any {
	old := *h
	r := old[len(old)-1]
	*h = old[:len(old)-1]
	return r
}
