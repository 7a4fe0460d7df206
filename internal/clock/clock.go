// Package clock is where the time comes from.
//
// Code that decides takes an instant as an argument; code that runs takes a
// Clock. System reads this machine's clock. Tracked follows another clock, the
// store's, which is the one that judges what is due: it keeps the offset
// between the two, so that asking it costs nothing, and it never runs ahead of
// what it follows. It does not step backwards, unless what it follows was set
// back by more than a second: what is stamped with its time must be due by the
// store's clock. Timers stay with package time.
//
// Clocks are set, too. A step of this machine's clock does not reach Tracked,
// which counts on with the monotonic one; until the store's clock was asked
// again it says that it is Held. A step of the store's clock ahead is followed
// when it has lasted for a few seconds, one back at once. Both raise an alarm.
// Built with -tags failpoint, this machine's clock can be made to be wrong; see
// SkewVariable.
package clock

import (
	"sync"
	"time"
)

// Clock tells the time.
type Clock interface{ Now() time.Time }

// System is this machine's clock.
type System struct{}

// Now is the time in UTC.
func (System) Now() time.Time { return host().UTC() }

// Manual is a clock that moves only when told.
type Manual struct {
	mu sync.Mutex
	at time.Time // guarded by mu
}

// NewManual is a clock that stands at the given instant.
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

// Fresh reports whether something that was read, and may be used again for life, until an instant, may be. What was read before the clock
// was set back may not: it would be used for as long as the clock was set back by.
func Fresh(now, until time.Time, life time.Duration) bool {
	left := until.Sub(now)
	return left > 0 && left <= life
}
