package clock

import (
	"context"
	"sync"
	"time"
)

const (
	// Leap is the smallest step of a clock, against the monotonic one, that counts as setting it.
	Leap = time.Minute
	// lasts is how long a forward leap of the followed clock must last before it is believed.
	lasts = 5 * time.Second
	// setBack is how far the followed clock may fall behind before it counts as set back.
	setBack = time.Second
)

// Jump is a step of a clock against the monotonic one.
type Jump struct {
	By   time.Duration // ahead; less than 0: back
	Host bool          // of this machine's clock; else of the followed one
}

// Tracked follows another clock by an offset to this machine's monotonic one.
type Tracked struct {
	ask   func(context.Context) (time.Time, error)
	wall  func() time.Time // this machine's clock
	alarm func(Jump)

	mu    sync.Mutex
	base  time.Time // guarded by mu: the followed clock's reading …
	at    time.Time // guarded by mu: … and when, on the monotonic clock, it had surely been read
	last  time.Time // guarded by mu: what Now returned last
	asked bool      // guarded by mu: it was read at least once
	doubt time.Time // guarded by mu: since when a forward leap has been doubted; zero: there is none

	shown   time.Time // guarded by mu: the reading of this machine's clock …
	shownAt time.Time // guarded by mu: … and when, on the monotonic one
}

// NewTracked follows the clock that ask reads. It returns this machine's time until the first Refresh.
func NewTracked(ask func(context.Context) (time.Time, error)) *Tracked {
	return NewTrackedOn(ask, host)
}

// NewTrackedOn is NewTracked with the given clock as this machine's.
func NewTrackedOn(ask func(context.Context) (time.Time, error), wall func() time.Time) *Tracked {
	now, shown := time.Now(), wall().Round(0)
	return &Tracked{ask: ask, wall: wall, alarm: func(Jump) {}, base: shown, at: now, shown: shown, shownAt: now}
}

// Alarm makes Refresh report jumps to f. Call it before the clock is used.
func (t *Tracked) Alarm(f func(Jump)) { t.alarm = f }

// Refresh reads the followed clock.
func (t *Tracked) Refresh(ctx context.Context) error {
	base, err := t.ask(ctx)
	if err != nil {
		return err
	}
	at := time.Now() // after the answer, so that the offset errs on the late side
	for _, j := range t.take(base, at) {
		t.alarm(j)
	}
	return nil
}

// take records a reading, and returns the jumps that it shows.
func (t *Tracked) take(base, at time.Time) (jumps []Jump) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if by := t.drift(at); by.Abs() > Leap {
		jumps = append(jumps, Jump{By: by, Host: true})
	}
	t.shown, t.shownAt = t.wall().Round(0), at
	by := base.Sub(t.base.Add(at.Sub(t.at)))
	first := !t.asked
	t.asked = true
	switch {
	case first || by.Abs() <= Leap:
		t.doubt = time.Time{}
	case by < 0:
		t.doubt = time.Time{}
		jumps = append(jumps, Jump{By: by})
	case t.doubt.IsZero():
		t.doubt = at
		return append(jumps, Jump{By: by})
	case at.Sub(t.doubt) < lasts:
		return jumps
	default:
		t.doubt = time.Time{}
	}
	t.base, t.at = base, at
	return jumps
}

// drift returns how far this machine's clock was set since the last look.
func (t *Tracked) drift(at time.Time) time.Duration {
	return t.wall().Round(0).Sub(t.shown) - at.Sub(t.shownAt)
}

// Held reports whether this machine's clock has leapt and the followed one was not read since: nothing should be
// started.
func (t *Tracked) Held() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.drift(time.Now()).Abs() > Leap
}

// Now returns the followed clock's time, or a little less. It does not go backwards unless that clock was set back.
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
