// Package clock is where the time comes from.
//
// Code that decides takes an instant as an argument; code that runs takes a
// Clock. System reads this machine's clock. Tracked follows another clock, the
// store's, which is the one that judges what is due: it keeps the offset
// between the two, so that asking it costs nothing, and it never runs ahead of
// what it follows. It does not step backwards, unless what it follows was set
// back by more than a second: what is stamped with its time must be due by the
// store's clock. Timers stay with package time.
package clock

import (
	"context"
	"sync"
	"time"
)

// Clock tells the time.
type Clock interface{ Now() time.Time }

// System is this machine's clock.
type System struct{}

// Now is the time in UTC.
func (System) Now() time.Time { return time.Now().UTC() }

// Manual is a clock that moves only when told.
type Manual struct {
	mu sync.Mutex
	at time.Time // guarded by mu
}

// NewManual is a clock that stands at the given instant.
func NewManual(at time.Time) *Manual { return &Manual{at: at} }

// Now is where the clock stands.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}

// Advance moves the clock.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = m.at.Add(d)
}

// Tracked follows another clock by an offset to this machine's monotonic one.
type Tracked struct {
	ask func(context.Context) (time.Time, error)

	mu   sync.Mutex
	base time.Time // guarded by mu: the followed clock's reading …
	at   time.Time // guarded by mu: … and when, on the monotonic clock, it had surely been read
	last time.Time // guarded by mu: what was told last
}

// NewTracked follows the clock that ask reads. It tells this machine's time until the first Refresh.
func NewTracked(ask func(context.Context) (time.Time, error)) *Tracked {
	now := time.Now()
	return &Tracked{ask: ask, base: now, at: now}
}

// Refresh reads the followed clock.
func (t *Tracked) Refresh(ctx context.Context) error {
	base, err := t.ask(ctx)
	if err != nil {
		return err
	}
	at := time.Now() // after the answer, so that the offset errs to the late side
	t.mu.Lock()
	defer t.mu.Unlock()
	t.base, t.at = base, at
	return nil
}

// setBack is how far the followed clock may be behind what was told before it is believed to have been set back.
const setBack = time.Second

// Now is the followed clock's time, or a little less; not less than it told before, unless that clock was set back.
func (t *Tracked) Now() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.base.Add(time.Since(t.at)).UTC()
	if now.Before(t.last) && t.last.Sub(now) < setBack {
		return t.last
	}
	t.last = now
	return now
}
