package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// Counts describes the state of the installation, for its operator.
type Counts interface {
	// KeepMinutes keeps what a server has counted in minutes, in place of what it said of them before.
	KeepMinutes(ctx context.Context, s ServerID, ms []Minute) error
	// Minutes sums up what all servers counted, from the minute of an instant on, earliest first. A minute in which
	// nothing happened is left out; what is older than two days is forgotten.
	Minutes(ctx context.Context, from time.Time) ([]Minute, error)
}

// MinutesKept sets how long minutes are kept.
const MinutesKept = 48 * time.Hour

// Minute counts the events in one minute.
type Minute struct {
	At        time.Time // its beginning
	Started   int64     // attempts
	Completed int64     // executions that succeeded
	Failed    int64     // executions that failed, or timed out, for good
	Again     int64     // attempts that failed, and that another one follows
	Waited    int64     // executions that started for the first time
	Wait      time.Duration
	MaxWait   time.Duration // from when they were due
	Fired     int64         // of those, such as a schedule fired
	Delay     time.Duration
	MaxDelay  time.Duration // from when they could first fire until they were fired
}

// Add adds what happened in the same minute elsewhere.
func (m *Minute) Add(o Minute) {
	m.Started, m.Completed, m.Failed, m.Again = m.Started+o.Started, m.Completed+o.Completed, m.Failed+o.Failed, m.Again+o.Again
	m.Waited, m.Wait, m.MaxWait = m.Waited+o.Waited, m.Wait+o.Wait, max(m.MaxWait, o.MaxWait)
	m.Fired, m.Delay, m.MaxDelay = m.Fired+o.Fired, m.Delay+o.Delay, max(m.MaxDelay, o.MaxDelay)
}

// Census counts what there is.
type Census struct {
	Workers       int // that live, and take more
	Draining      int
	Dead          int // sessions that have ended within the hour
	Slots         int // of those that take more
	Busy          int // of these slots, as of the last beats
	DrainingSlots int
	Memory        int64   // resident, in bytes, of all live workers that report it; 0: none does
	MemoryShare   float64 // of its limit that the worker uses which is closest to it; 0: none tells
	DeadLetters   Total
	OldestDead    time.Time // when the dead letter died that has been one for the longest; zero: there is none
	Overdue       Total     // jobs
	Unscheduled   int       // partitions whose schedules no server fires; 0 if one process has the store for itself
	HistoryBytes  int64     // that finished executions, their attempts and their logs take up, or, where that cannot be distinguished, all
}

// Reaped is the outcome for sessions that had expired and for what they held.
type Reaped struct {
	Ready     []job.Ready // back in the queue
	Sessions  int         // that have ended
	Leases    int         // of ended sessions that are dealt with, also those of which everything had finished
	Poisoned  int         // executions that ended as FAILED
	Cancelled int         // executions that ended as CANCELLED: they were asked to, or their job is gone
	Ended     []Ended     // all executions that ended
}

// Lost returns how many leases ended without a result.
func (r Reaped) Lost() int { return len(r.Ready) + r.Poisoned + r.Cancelled }
