package engine

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Leases hand executions to workers and accept their results.
type Leases interface {
	// Lanes lists up to limit lanes that hold any execution, after the given one; nil begins at the first. The store
	// defines their order, but those of one partition, tenant and class are adjacent, in order of group and priority.
	Lanes(ctx context.Context, after *job.Lane, limit int) ([]job.Lane, error)
	// Ready lists, for each cursor, up to perLane free and due executions after it, in due order. It lists no fewer
	// if there are more, but a few extra rather than split a bundle if perLane is at least the size of one.
	// Executions of groups may be listed in the lane of those without, as Packed, until they are unpacked.
	Ready(ctx context.Context, cs []LaneCursor, perLane int) ([]job.Ready, error)
	// Unpack makes free executions be listed in the lanes of their groups.
	Unpack(ctx context.Context, ids []job.ExecutionID) error
	// CountDue counts all executions that are due, not held back, and unfinished, whether leased or waiting. It uses
	// an index, and enough statements to keep each of them short, so the counts are not a snapshot of one instant. A
	// missing count is zero.
	CountDue(ctx context.Context) (map[DueKey]int, error)
	// Lease gives each session the executions it requests, under one token or two: those that are free, due and older
	// than the token. It leaves out executions that another took, of a deleted job, that expired before they started,
	// and those that the fence rejects; the rest is in the requested order, grant by grant. ErrSession if a session
	// has ended.
	Lease(ctx context.Context, gs []Grant, f Fence) ([]job.Attempt, error)
	// Running lists the leases in the partitions, for a new owner to count; all, if none is named.
	Running(ctx context.Context, ps []job.Partition) ([]Running, error)
	// Leased reads again what Lease returned, for workers that are about to start what they hold, with the definitions
	// of the jobs as they are now. It answers in order; nil for a lease that the worker does not hold, or no longer
	// does, for what is parked or was asked to stop, and for executions of a deleted job.
	Leased(ctx context.Context, hs []HeldBy) ([]*job.Attempt, error)
	// Held reads what deciding an outcome needs, for those leases that still hold.
	Held(ctx context.Context, ls []job.Lease) ([]job.Held, error)
	// Finish applies each transition under its lease's token, and answers in order. What is to be retried
	// although its job was deleted meanwhile ends instead, as FAILED or, after a timeout, TIMED_OUT, and what is snoozed as
	// CANCELLED; what was asked to stop ends as CANCELLED. The verdict says how. The same outcome
	// under the same token again is accepted again and changes nothing, whatever transition comes with
	// it: SUCCEEDED where it ended so, FAILED where that attempt failed (it ended so, or is tried
	// again), CANCELLED and SNOOZED likewise. Any other finish under a stale token is refused, which is an event of the
	// execution, once for each token. A finish that names a worker holds for that worker's leases only: of another's lease, or another
	// tenant's execution, it is told that there is none. A finish that expels leaves an order for the worker that held it to let go.
	Finish(ctx context.Context, fs []job.Finish) ([]job.Verdict, error)
	// Park leaves executions to their targets, which complete them under the same tokens. Each stays leased, whatever
	// happens to its session (Leave, Disown, Reap and Release skip it), until it is finished or Overrun lists it. It
	// answers in order. An execution parked under its token before, or ended under it by a result, is accepted again;
	// any other stale token is refused, which is recorded as an event of the execution. For executions that the
	// worker does not hold, see Finish.
	Park(ctx context.Context, ps []Parking) ([]job.Verdict, error)
	// Release returns executions that the worker holds to the queue, uncharged; it skips other leases. Here, as
	// whenever a lease ends without a result (Leave, Disown, Reap), executions of a deleted job end as CANCELLED
	// instead.
	Release(ctx context.Context, w job.WorkerID, ls []job.Lease) (Requeued, error)
}

// HeldBy is a lease and the worker that holds it.
type HeldBy struct {
	Worker job.WorkerID
	job.Lease
}

// Renewal is a heartbeat of a session.
type Renewal struct {
	Worker job.WorkerID
	job.Beat
	Advances []job.Advance
}

// Orders is the answer to renewals.
type Orders struct {
	Ended  []job.WorkerID
	Drain  []job.WorkerID
	Orders []job.Order
}

// Requeued describes leases that ended without a result.
type Requeued struct {
	Ready []job.Ready // back in the queue
	Ended []Ended     // finished instead: they were asked to stop, or their job is gone
}

// Cancelled is the result of a cancel.
type Cancelled struct {
	Status job.Status // after it: CANCELLED or CANCELLING
	Ended  []Ended    // the execution, if this call ended it
}

// Overrun is a lease that has lasted too long.
type Overrun struct {
	job.Held
	Stalled bool // it made no progress; otherwise it timed out
	Parked  bool // no worker holds it, and its target did not complete it
}

// Parking leaves an execution to its target.
type Parking struct {
	job.Outcome
	Worker job.WorkerID
	Until  time.Time
}

// DueKey is the key by which due executions are counted.
type DueKey struct {
	Tenant   tenant.ID
	Class    job.Class
	Priority int
}

// Running is a lease as its partition's owner counts it.
type Running struct {
	job.Ready
	Token job.Token
}

// Newest removes older leases of the same execution from a list that was read in pieces while executions were leased
// anew.
func Newest(rs []Running) []Running {
	slices.SortFunc(rs, func(a, b Running) int {
		return cmp.Or(bytes.Compare(a.ID[:], b.ID[:]), cmp.Compare(b.Token, a.Token))
	})
	return slices.CompactFunc(rs, func(a, b Running) bool { return a.ID == b.ID })
}

// ServerID identifies one run of a server over a shared store.
type ServerID [16]byte

// Fence describes what a server owns when it leases. An execution in a partition of Epochs is leased only while the
// server owns that partition under that epoch, and one in a group only in such a partition. A single-process store
// lets everything through.
type Fence struct {
	Server ServerID
	Epochs map[job.Partition]int64
}

// LaneCursor is a position in a lane: after the execution due at DueAt with this id.
type LaneCursor struct {
	Lane  job.Lane
	DueAt time.Time
	After job.ExecutionID
}

// Holding is the set of partitions a server owns. Ownership saves work and makes limits exact; only the fence
// protects rows.
type Holding struct {
	Fence   Fence
	Version int64                  // changes with every change of the fence
	Quiet   map[job.Partition]bool // partitions of others at which no worker waits, or of nobody
	Lapsed  bool                   // it could not attend in time: what it owns, and what of that runs, is unknown
}

// Grant describes what one worker session gets.
type Grant struct {
	Worker     job.WorkerID
	Executions []job.ExecutionID
}
