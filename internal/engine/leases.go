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

// Leases hand executions to workers and take the results.
type Leases interface {
	// Lanes lists up to limit lanes that hold any execution, behind one; nil begins at the first. Their order is the store's,
	// but those of one partition, tenant and class stand together, in order of group and priority.
	Lanes(ctx context.Context, after *job.Lane, limit int) ([]job.Lane, error)
	// Ready lists, for each cursor, up to perLane free and due executions behind it, in due order; if there are more, no fewer, but
	// some more where those of a bundle would be parted and perLane is that of one or larger. Those of groups may be listed in the
	// lane of what is in none, as Packed, until they are unpacked.
	Ready(ctx context.Context, cs []LaneCursor, perLane int) ([]job.Ready, error)
	// Unpack has executions that are free listed in the lanes of their groups.
	Unpack(ctx context.Context, ids []job.ExecutionID) error
	// CountDue counts all executions that are due, not held back, and have not finished, whether they are leased or wait: by an index, in as
	// many statements as keep each of them short, so that it is no picture of one instant. What is in no count is none.
	CountDue(ctx context.Context) (map[DueKey]int, error)
	// Lease gives each session the executions it asks for, under one token or two: those that are free, due
	// and older than the token. What another took, what is of a deleted job, what has expired before it started, and what
	// the fence does not let through is left out; the rest is in the order asked for, grant by grant. ErrSession if a session has ended.
	Lease(ctx context.Context, gs []Grant, f Fence) ([]job.Attempt, error)
	// Running lists what is leased in the partitions, for a new owner to count; all, if none is named.
	Running(ctx context.Context, ps []job.Partition) ([]Running, error)
	// Held reads what deciding an outcome needs, of those leases that still hold.
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
	// Park leaves executions to their targets, which complete them under the same tokens: each stays leased, whatever
	// becomes of the session that has it (Leave, Disown, Reap and Release pass it over), until it is finished or Overrun
	// lists it. It answers in order. What was parked under its token before, or has ended under it by a result, is
	// accepted again; any other stale token is refused, which is an event of the execution, and what the worker does not hold as by Finish.
	Park(ctx context.Context, ps []Parking) ([]job.Verdict, error)
	// Release returns executions that the worker holds to the queue, uncharged; other leases are passed over. Here, as wherever a
	// lease ends without a result (Leave, Disown, Reap), what is of a deleted job ends as CANCELLED instead.
	Release(ctx context.Context, w job.WorkerID, ls []job.Lease) (Requeued, error)
}

// Renewal is a sign of life of a session.
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

// Requeued tells of leases that ended without a result.
type Requeued struct {
	Ready []job.Ready // back in the queue
	Ended []Ended     // over instead: they were asked to stop, or their job is gone
}

// Cancelled tells of a cancel.
type Cancelled struct {
	Status job.Status // after it: CANCELLED or CANCELLING
	Ended  []Ended    // the execution, if this call ended it
}

// Overrun is a lease that has lasted too long.
type Overrun struct {
	job.Held
	Stalled bool // it made no progress; else its time is over
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

// Newest leaves out of what was listed in pieces what was leased anew meanwhile, but for its newest lease.
func Newest(rs []Running) []Running {
	slices.SortFunc(rs, func(a, b Running) int {
		return cmp.Or(bytes.Compare(a.ID[:], b.ID[:]), cmp.Compare(b.Token, a.Token))
	})
	return slices.CompactFunc(rs, func(a, b Running) bool { return a.ID == b.ID })
}

// ServerID names a server's run over a shared store.
type ServerID [16]byte

// Fence names what a server owns when it leases. What is in a partition of Epochs is leased only while the server
// owns that partition under that epoch, and what is in a group only in such a partition. A store that is one process's
// own lets everything through.
type Fence struct {
	Server ServerID
	Epochs map[job.Partition]int64
}

// LaneCursor is a place in a lane: behind the execution due at DueAt with this id.
type LaneCursor struct {
	Lane  job.Lane
	DueAt time.Time
	After job.ExecutionID
}

// Holding is the partitions a server owns. Ownership saves work and makes limits exact; it guards no row but by the fence.
type Holding struct {
	Fence   Fence
	Version int64                  // changes with every change of the fence
	Quiet   map[job.Partition]bool // partitions of others at which no worker waits, or of nobody
	Lapsed  bool                   // it could not attend in time: what it owns, and what of that runs, is not known
}

// Grant says what one worker session gets.
type Grant struct {
	Worker     job.WorkerID
	Executions []job.ExecutionID
}
