package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// Counts describes the state of the installation, for its operator.
type Counts interface {
	// KeepMinutes stores the counts of a server by minute, and replaces its earlier values.
	KeepMinutes(ctx context.Context, s ServerID, ms []Minute) error
	// Minutes sums up the counts of all servers, from the minute of an instant on, earliest first. Empty minutes are
	// left out; those older than two days are dropped.
	Minutes(ctx context.Context, from time.Time) ([]Minute, error)
}

// MinutesKept is how long minutes are kept.
const MinutesKept = 48 * time.Hour

// Minute counts the events in one minute.
type Minute struct {
	At        time.Time // its beginning
	Started   int64     // attempts
	Completed int64     // executions that succeeded
	Failed    int64     // executions that failed, or timed out, for good
	Again     int64     // failed attempts that are followed by another
	Waited    int64     // executions that started for the first time
	Wait      time.Duration
	MaxWait   time.Duration // from when they were due
	Fired     int64         // of those, the ones fired by a schedule
	Delay     time.Duration
	MaxDelay  time.Duration // from when they could first fire until they were fired
}

// Add adds the counts of the same minute from elsewhere.
func (m *Minute) Add(o Minute) {
	m.Started, m.Completed, m.Failed, m.Again = m.Started+o.Started, m.Completed+o.Completed, m.Failed+o.Failed, m.Again+o.Again
	m.Waited, m.Wait, m.MaxWait = m.Waited+o.Waited, m.Wait+o.Wait, max(m.MaxWait, o.MaxWait)
	m.Fired, m.Delay, m.MaxDelay = m.Fired+o.Fired, m.Delay+o.Delay, max(m.MaxDelay, o.MaxDelay)
}

// Census counts what exists now.
type Census struct {
	Workers       int // that live, and take more
	Draining      int
	Dead          int // sessions that have ended within the hour
	Slots         int // of those that take more
	Busy          int // slots in use, as of the last heartbeats
	DrainingSlots int
	Memory        int64   // resident, in bytes, of all live workers that report it; 0: none does
	MemoryShare   float64 // of the worker closest to its limit; 0: none reports it
	DeadLetters   Total
	OldestDead    time.Time // when the oldest dead letter died; zero: there is none
	Overdue       Total     // jobs
	Unscheduled   int       // partitions whose schedules no server fires; 0 if the store belongs to one process
	Runs          Total     // of workflows, that have not ended
	Approvals     Total     // that runs wait for
	OldestWaits   time.Time // when the approval began to wait that has waited for the longest; zero: none waits
	Undecided     time.Time // since when a run, or a job that depends on others, has not taken in that something ended, of all of them; zero: each has
	HistoryBytes  int64     // that finished executions, their attempts and their logs take up, or, where that cannot be distinguished, all
}

// Reaped describes what happened to expired sessions and their leases.
type Reaped struct {
	Ready     []job.Ready // back in the queue
	Sessions  int         // that have ended
	Leases    int         // of ended sessions that were handled, including those of finished executions
	Poisoned  int         // executions that ended as FAILED
	Cancelled int         // executions that ended as CANCELLED: they were asked to stop, or their job is gone
	Ended     []Ended     // all executions that ended
}

// Lost returns how many leases ended without a result.
func (r Reaped) Lost() int { return len(r.Ready) + r.Poisoned + r.Cancelled }
