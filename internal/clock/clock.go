// Package clock provides the time.
//
// Code that decides takes an instant as an argument; code that runs takes a Clock. System reads this machine's clock.
// Tracked follows the store's clock, which decides what is due: it keeps the offset between the two, so that reading
// it is cheap, and it never runs ahead of the store's. It does not go backwards, unless the store's clock was set
// back by more than a second: timestamps taken from it must be due by the store's clock. Timers stay with package
// time.
//
// Clocks are sometimes set. A step of this machine's clock does not affect Tracked, which counts on with the
// monotonic clock; until it has read the store's clock again it reports Held. It follows a forward step of the
// store's clock once that has lasted for a few seconds, and a backward step at once. Both raise an alarm. Built with
// -tags failpoint, this machine's clock can be made wrong; see SkewVariable.
package clock

import (
	"sync"
	"time"
)

// Clock returns the current time.
type Clock interface{ Now() time.Time }

// System is this machine's clock.
type System struct{}

// Now returns the current time in UTC.
func (System) Now() time.Time { return host().UTC() }

// Manual is a clock that moves only when told.
type Manual struct {
	mu sync.Mutex
	at time.Time // guarded by mu
}

// NewManual returns a clock that stands at the given instant.
func NewManual(at time.Time) *Manual { return &Manual{at: at} }

// Now returns the current time.
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

// Fresh reports whether something read at an instant may still be used, given its lifetime. Anything read before the
// clock was set back may not: it would be used for longer by that step.
func Fresh(now, until time.Time, life time.Duration) bool {
	left := until.Sub(now)
	return left > 0 && left <= life
}
