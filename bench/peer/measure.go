package peer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/bench/report"
)

// look sets how often a phase checks whether it has ended: rarely enough not to affect the result.
const look = 5 * time.Millisecond

// measurement is one run of all phases.
type measurement struct {
	Config
	peer    Peer
	numbers *report.Numbers
	way     Way // the fastest
	backed  int // jobs waiting after the insert phase
	picked  int // pickups completed in time
}

// insert measures each method on an empty queue and leaves the jobs of the last one as the backlog.
func (m *measurement) insert(ctx context.Context) error {
	m.numbers.InsertWays = map[string]float64{}
	for _, way := range m.peer.Ways() {
		if err := m.peer.Clear(ctx); err != nil {
			return err
		}
		start := time.Now()
		inserted, err := m.insertAll(ctx, way)
		if err != nil {
			return fmt.Errorf("%s: %w", way.Name, err)
		}
		rate := float64(inserted) / time.Since(start).Seconds()
		m.numbers.InsertWays[way.Name] = rate
		if rate > m.numbers.InsertPerS {
			m.numbers.InsertPerS, m.way = rate, way
		}
		m.backed = inserted
	}
	return nil
}

// insertAll inserts the jobs in batches, several at a time, and returns how many it managed in time. They are the
// first ones without a gap.
func (m *measurement) insertAll(ctx context.Context, way Way) (int, error) {
	deadline := time.Now().Add(m.Limit)
	var next atomic.Int64
	var mu sync.Mutex // guards inserted and failed
	var inserted int
	var failed error
	var group sync.WaitGroup
	for range m.Inserters {
		group.Go(func() {
			for time.Now().Before(deadline) {
				first := int(next.Add(int64(m.Batch))) - m.Batch
				n := min(m.Batch, m.Jobs-first)
				if n <= 0 {
					return
				}
				err := way.Insert(ctx, first, n)
				mu.Lock()
				inserted, failed = inserted+n, errors.Join(failed, err)
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	group.Wait()
	return inserted, failed
}

// backlog times from the first handler to the last recorded end.
func (m *measurement) backlog(ctx context.Context) error {
	if err := m.peer.Settle(ctx); err != nil {
		return err
	}
	t := newTally(m.backed)
	stop, err := m.peer.Work(ctx, t.handle)
	if err != nil {
		return err
	}
	e, err := m.finish(ctx, t, m.backed)
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	if e.done == 0 {
		return fmt.Errorf("no job was done in %v", m.Limit)
	}
	m.numbers.WorkPerS = float64(e.done) / e.at.Sub(t.begun()).Seconds()
	m.account(t, m.backed, e)
	return nil
}

// both measures the time from the first insert to the last recorded end, with the workers already running.
func (m *measurement) both(ctx context.Context) error {
	return m.withWorkers(ctx, m.Jobs+1, func(t *tally) error {
		start := time.Now()
		inserted, err := m.insertAll(ctx, m.way)
		if err != nil {
			return err
		}
		e, err := m.finish(ctx, t, inserted+1)
		if err != nil {
			return err
		}
		m.numbers.BothPerS = float64(e.done-1) / e.at.Sub(start).Seconds() // one was done before
		m.account(t, inserted, e)
		return nil
	})
}

// warmUp is the number of inserts into the idle queue that are not counted: connections open and statements are
// prepared.
const warmUp = 10

// idle inserts one job at a time; the next follows when the end of the last is recorded.
func (m *measurement) idle(ctx context.Context) error {
	return m.withWorkers(ctx, warmUp+m.Pickups+1, func(t *tally) error {
		deadline := time.Now().Add(m.Limit)
		var took []float64
		for i := 0; i < warmUp+m.Pickups && time.Now().Before(deadline); i++ {
			d, err := m.pickup(ctx, t, i)
			if err != nil {
				return err
			}
			if _, err := m.finish(ctx, t, i+2); err != nil {
				return err
			}
			if i >= warmUp {
				took = append(took, d.Seconds()*1000)
			}
		}
		m.picked = len(took)
		m.numbers.IdlePickupMS = report.Pickup{P50: report.Percentile(took, 0.50), P99: report.Percentile(took, 0.99)}
		return nil
	})
}

// withWorkers calls do once the queue is empty and the workers have proved that they work: they have finished the
// last of the tally's jobs.
func (m *measurement) withWorkers(ctx context.Context, jobs int, do func(*tally) error) (err error) {
	if err := m.peer.Clear(ctx); err != nil {
		return err
	}
	if err := m.peer.Settle(ctx); err != nil {
		return err
	}
	t := newTally(jobs)
	stop, err := m.peer.Work(ctx, t.handle)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if _, err := m.pickup(ctx, t, jobs-1); err != nil {
		return err
	}
	if _, err := m.finish(ctx, t, 1); err != nil {
		return err
	}
	return do(t)
}

// pickup inserts one job and returns the time from the call to the handler's start.
func (m *measurement) pickup(ctx context.Context, t *tally, seq int) (time.Duration, error) {
	started := t.watch(seq)
	begin := time.Now()
	if err := m.peer.Insert(ctx, seq); err != nil {
		return 0, err
	}
	select {
	case at := <-started:
		return at.Sub(begin), nil
	case <-time.After(m.Limit):
		return 0, fmt.Errorf("a job on the idle queue was not started in %v", m.Limit)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// ending describes how a phase ended.
type ending struct {
	done, unfinished int
	at               time.Time
}

// finish waits until as many jobs as wanted have been handled and none is unfinished,
// or until time is up.
func (m *measurement) finish(ctx context.Context, t *tally, wanted int) (ending, error) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	deadline := time.Now().Add(m.Limit)
	for {
		handled := t.handled()
		late := time.Now().After(deadline)
		if handled >= wanted || late {
			unfinished, err := m.peer.Unfinished(ctx)
			if err != nil {
				return ending{}, err
			}
			if unfinished == 0 || late {
				return ending{min(handled, max(0, wanted-unfinished)), unfinished, time.Now()}, nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ending{}, ctx.Err()
		}
	}
}

// account records jobs that ran more than once, and jobs that neither ran nor wait.
func (m *measurement) account(t *tally, jobs int, e ending) {
	never, doubled := t.count(jobs)
	m.numbers.Doubled += doubled
	m.numbers.Lost += max(0, never-e.unfinished)
}

// peakMB is the peak memory of this process, or 0 if the system does not report it.
func peakMB() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb / 1024
		}
	}
	return 0
}
