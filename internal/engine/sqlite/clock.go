package sqlite

import (
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
)

const (
	// step is how far the machine's clock must differ from the monotonic one to count as set. Less is drift, which is
	// followed.
	step = time.Second
	// behindStep is how long after a step back due times may still come from callers that have not noticed it.
	behindStep = 3 * time.Second
)

// ticking is the store's clock: this machine's, as long as it continues like the monotonic clock. When that was set,
// the next write follows it, and moves everything that counts from a moment, leases first, by the same amount.
type ticking struct {
	machine clock.Clock
	mono    func() time.Duration // nil: the machine's clock is trusted
	ahead   atomic.Int64         // of the monotonic clock, in microseconds
}

// newTicking follows a clock. Without one it is this machine's, checked by the monotonic one.
func newTicking(cfg Config) *ticking {
	t := &ticking{machine: cfg.Clock, mono: cfg.Monotonic}
	if t.machine == nil {
		t.machine = clock.System{}
		if t.mono == nil {
			begun := time.Now()
			t.mono = func() time.Duration { return time.Since(begun) }
		}
	}
	if t.mono != nil {
		t.ahead.Store(t.machine.Now().UnixMicro() - t.mono().Microseconds())
	}
	return t
}

// read returns the clock's time, in microseconds, and by how much the machine's was set since it was followed.
func (t *ticking) read() (now, by int64) {
	machine := t.machine.Now().UnixMicro()
	if t.mono == nil {
		return machine, 0
	}
	ahead := t.ahead.Load()
	now = t.mono().Microseconds() + ahead
	by = machine - now
	if by >= step.Microseconds() || by <= -step.Microseconds() {
		return now, by
	}
	t.ahead.CompareAndSwap(ahead, ahead+by)
	return machine, 0
}

const (
	shiftSessionsSQL = "UPDATE sessions SET expires_at = expires_at + ?1, beat_at = beat_at + ?1 WHERE deposed = 0"
	shiftLeasesSQL   = "UPDATE leases SET at = at + ?1"
	shiftRunningSQL  = `
		UPDATE live SET started_at = started_at + ?1, leased_at = leased_at + ?1, progress_at = progress_at + ?1, cancel_at = cancel_at + ?1, parked_until = parked_until + ?1
		WHERE lease > 0`
	// For executions leased before, a retry or a snooze, the delay counts, not the instant.
	shiftDelaysSQL = "UPDATE live SET due_at = due_at + ?1 WHERE lease < 0 AND due_at > ?2"
	// What was due stays due.
	shiftDueSQL     = "UPDATE live SET due_at = ?2 + ?1 WHERE due_at > ?2 + ?1 AND due_at <= ?2"
	shiftBucketsSQL = "UPDATE buckets SET full_us = full_us + ?1"
)

// shift moves everything that counts from a moment, after the machine's clock, which showed now, was set.
func shift(c *conn, now, by int64) error {
	for _, sql := range []string{shiftSessionsSQL, shiftLeasesSQL, shiftRunningSQL, shiftBucketsSQL} {
		if _, err := c.prepare(sql).int(by).exec(); err != nil {
			return err
		}
	}
	if by < 0 {
		if _, err := c.prepare(shiftDueSQL).int(by).int(now).exec(); err != nil {
			return err
		}
	}
	_, err := c.prepare(shiftDelaysSQL).int(by).int(now).exec()
	return err
}

// setBack records that a clock was set back, on the connection that writes.
type setBack struct{ by, until int64 }

// due returns when something is due after an outcome: the caller may not have noticed that the clock was set back.
func (b setBack) due(at time.Time, now int64) time.Time {
	if at.IsZero() || now > b.until || at.UnixMicro()-now < b.by {
		return at
	}
	return at.Add(-time.Duration(b.by) * time.Microsecond)
}
