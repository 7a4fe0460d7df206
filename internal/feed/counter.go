package feed

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	keepEvery = 5 * time.Second
	keepOpen  = 2 * time.Minute // how long a minute stays in memory; a batch may be late
	keepMost  = 120             // minutes in memory while the store is down; the oldest are dropped first
)

// Counter counts starts and ends, minute by minute.
type Counter struct {
	store keeper
	clock clock.Clock // the store's
	id    engine.ServerID

	mu      sync.Mutex
	minutes map[time.Time]*counted // guarded by mu
	tallies tallies                // guarded by mu
}

// keeper is the part of a store that stores counts.
type keeper interface {
	engine.Counts
	KeepTally(ctx context.Context, s engine.ServerID, number int64, t engine.Tally) error
	Whose(ctx context.Context, ids []job.ExecutionID, since time.Time) ([]engine.Owned, error)
}

type counted struct {
	engine.Minute
	dirty bool
}

// NewCounter makes a counter that stores its counts under its own name.
func NewCounter(store keeper, clk clock.Clock) *Counter {
	return &Counter{store: store, clock: clk, id: engine.ServerID(uuid.New()), minutes: map[time.Time]*counted{}, tallies: newTallies()}
}

// minute returns the current minute. The caller holds mu.
func (c *Counter) minute() *engine.Minute {
	at := c.clock.Now().UTC().Truncate(time.Minute)
	m := c.minutes[at]
	if m == nil {
		m = &counted{Minute: engine.Minute{At: at}}
		c.minutes[at] = m
	}
	m.dirty = true
	return &m.Minute
}

// started counts leased attempts.
func (c *Counter) started(as []job.Attempt) {
	if len(as) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tallies.started(as, c.clock.Now())
	m := c.minute()
	m.Started += int64(len(as))
	for i := range as {
		a := &as[i]
		if !a.StartedAt.Equal(a.LeasedAt) {
			continue // it started before
		}
		wait := max(0, a.LeasedAt.Sub(a.DueAt))
		m.Waited++
		m.Wait, m.MaxWait = m.Wait+wait, max(m.MaxWait, wait)
		if a.Trigger == job.BySchedule {
			delay := job.Delay(a.Job, a.Execution, a.ScheduledAt)
			m.Fired++
			m.Delay, m.MaxDelay = m.Delay+delay, max(m.MaxDelay, delay)
		}
	}
}

// finished counts those finishes that are news: executions that ended, or are retried. of are their owners, as far as known.
func (c *Counter) finished(fs []job.Finish, vs []job.Verdict, news []int, of map[job.Lease]owner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	for _, i := range news {
		then := fs[i].Came(&vs[i])
		e := end{id: fs[i].Outcome.Execution, at: now, status: then.Status, why: fs[i].Outcome.Error}
		switch s := e.status; {
		case s == job.Succeeded:
			c.minute().Completed++
		case s == job.Failed || s == job.TimedOut:
			c.minute().Failed++
		case then.Move == job.Again:
			c.minute().Again++
			e.status = job.Retrying
		case s != job.Cancelled:
			continue
		}
		if o, ok := of[fs[i].Outcome.Lease]; ok {
			e.in(c.tallies.minute("", now))
			c.tallies.of(o, &e)
		} else {
			c.tallies.ended(e)
		}
	}
}

// ended counts executions that ended without a result.
func (c *Counter) ended(es []engine.Ended) {
	if len(es) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	for i := range es {
		if s := es[i].Status; s == job.Failed || s == job.TimedOut {
			c.minute().Failed++
		}
		c.tallies.without(&es[i], now)
	}
}

// fired counts instants that firings did not run, and executions that they replaced.
func (c *Counter) fired(fs []engine.Firing, ended []engine.Ended) {
	if len(ended) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tallies.passedOver(fs, ended, c.clock.Now())
}

// Tick stores what has changed.
func (c *Counter) Tick(ctx context.Context) (time.Duration, error) {
	err := c.write(ctx)
	more, err2 := c.tally(ctx)
	if more && err2 == nil {
		return soon, err
	}
	return keepEvery, errors.Join(err, err2)
}

// write stores the minutes of the installation.
func (c *Counter) write(ctx context.Context) error {
	now := c.clock.Now()
	var ms []engine.Minute
	c.mu.Lock()
	var oldest time.Time
	for at, m := range c.minutes {
		switch {
		case m.dirty:
			ms = append(ms, m.Minute)
			m.dirty = false
			if oldest.IsZero() || at.Before(oldest) {
				oldest = at
			}
		case now.Sub(at) > keepOpen+time.Minute:
			delete(c.minutes, at)
		}
	}
	if len(c.minutes) > keepMost {
		delete(c.minutes, oldest)
	}
	c.mu.Unlock()
	if len(ms) == 0 {
		return nil
	}
	err := c.store.KeepMinutes(ctx, c.id, ms)
	if err != nil {
		c.mu.Lock()
		for _, m := range ms {
			if x := c.minutes[m.At]; x != nil {
				x.dirty = true
			}
		}
		c.mu.Unlock()
	}
	return err
}
