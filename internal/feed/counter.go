package feed

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	keepEvery = 5 * time.Second
	keepOpen  = 2 * time.Minute // for which a minute stays in memory; a batch may be late
	keepMost  = 120             // minutes in memory while the store is away; the oldest go first
)

// Counter counts what starts and what ends, minute by minute.
type Counter struct {
	store engine.Counts
	clock clock.Clock // the store's
	id    engine.ServerID

	mu      sync.Mutex
	minutes map[time.Time]*counted // guarded by mu
}

type counted struct {
	engine.Minute
	dirty bool
}

// NewCounter makes a counter that keeps what it counts in the store, under a name of its own.
func NewCounter(store engine.Counts, clk clock.Clock) *Counter {
	return &Counter{store: store, clock: clk, id: engine.ServerID(uuid.New()), minutes: map[time.Time]*counted{}}
}

// minute is the one that it is now; mu is held.
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

// started counts attempts that were leased.
func (c *Counter) started(as []job.Attempt) {
	if len(as) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
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
			delay := max(0, a.Execution.At().Sub(a.ScheduledAt.Truncate(time.Millisecond)))
			m.Fired++
			m.Delay, m.MaxDelay = m.Delay+delay, max(m.MaxDelay, delay)
		}
	}
}

// finished counts what ended, or is tried again.
func (c *Counter) finished(fs []job.Finish, vs []job.Verdict) {
	var completed, failed, again int64
	for i, v := range vs {
		if !v.Accepted || i >= len(fs) {
			continue
		}
		switch s := fs[i].Then.Status; {
		case s == job.Succeeded:
			completed++
		case s == job.Failed || s == job.TimedOut:
			failed++
		case fs[i].Then.Move == job.Again:
			again++
		}
	}
	if completed+failed+again == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.minute()
	m.Completed, m.Failed, m.Again = m.Completed+completed, m.Failed+failed, m.Again+again
}

// Tick writes down what has changed.
func (c *Counter) Tick(ctx context.Context) (time.Duration, error) {
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
		return keepEvery, nil
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
	return keepEvery, err
}
