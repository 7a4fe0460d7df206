package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Duty is the purpose for which a partition is owned.
type Duty uint8

// The duties. Their numbers are stored; never renumber them.
const (
	Dispatching Duty = 1
	Scheduling  Duty = 2
)

// Owners is a store that several servers share. They divide the partitions among themselves, for each duty, to save
// each other work and to count limits exactly; rows depend on ownership only through a Fence. A server with two
// duties attends as two.
type Owners interface {
	// Attend keeps a server alive for ttl, beginning with its first call, and returns the other servers with its duty
	// and the owners of partitions. ErrSession if it was deposed: it missed its time and owns nothing any more.
	Attend(ctx context.Context, s Server, ttl time.Duration) (Roster, error)
	// Take makes the server the owner of those partitions that no live server owns, under a new epoch each.
	Take(ctx context.Context, s ServerID, ps []job.Partition) error
	// Give hands partitions that the server owns to another live server, under a new epoch each.
	Give(ctx context.Context, from, to ServerID, ps []job.Partition) error
	// Want records that the server asks for partitions of others; their owners decide whether to give them. The first
	// server to ask is recorded until it gets the partition, is gone, or attends without Waiting: then the next one
	// takes its place.
	Want(ctx context.Context, s ServerID, ps []job.Partition) error
	// Retire ends a server at once, as if it had missed its time.
	Retire(ctx context.Context, s ServerID) error
	// Borrow returns how much of each limit the server may use, and reserves that for it: as much as it asks for or,
	// if the servers together ask for more than there is, its part (see pick.Allot); never more than others leave.
	// What it uses is reserved for it in any case, even if it exceeds what it may use. It answers in order. The share
	// of a server that is gone counts until all its partitions have another owner. ErrSession if the calling server
	// is gone.
	Borrow(ctx context.Context, s ServerID, bs []Share) ([]int, error)
}

// Lender is a store whose servers share limits.
type Lender interface {
	// Lent lists the servers' shares of a tenant's concurrency limits, omitting those that have none.
	Lent(ctx context.Context, t tenant.ID) ([]Lending, error)
}

// Lending is a server's share of a limit.
type Lending struct {
	Queue  string // empty: of the tenant's
	Server ServerID
	Host   string
	Share  int
	Parts  []job.Partition // that it owns
}

// Present is a store that several servers share and that knows which of them are alive, whatever steps its schema has
// had.
type Present interface {
	// Present lists the hosts of live servers, each once, in order.
	Present(ctx context.Context) ([]string, error)
}

// Server is a server as the others see it.
type Server struct {
	ID        ServerID
	Duty      Duty
	Host      string
	Waiting   bool // workers are waiting here for executions
	Slots     int  // of the workers that claimed here lately
	StartedAt time.Time
}

// Roster lists the live servers and the owners of partitions.
type Roster struct {
	Servers    []Server    // alive, by id
	Partitions []Partition // all, in order
}

// Partition describes who owns a partition.
type Partition struct {
	Part   job.Partition
	Owner  ServerID // zero: nobody alive
	Epoch  int64
	Wanted ServerID // the server that asks for it; zero: none
}

// Share is a part of a concurrency limit.
type Share struct {
	Tenant tenant.ID
	Queue  string // empty: the tenant's
	Max    int    // the whole limit
	Want   int    // how much the server could use
	Used   int    // what of it runs there now
}

// Notifier is a store that several servers share and through which they wake each other. A notification is a hint: it
// may be lost, or be spurious.
type Notifier interface {
	// Notify tells the other servers that something may have become ready.
	Notify(ctx context.Context) error
	// Listen calls wake when it begins, since something may have been missed before, and whenever another server has
	// notified, until ctx ends or the connection breaks.
	Listen(ctx context.Context, wake func()) error
}
