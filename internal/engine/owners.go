package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Duty is what a partition is owned for.
type Duty uint8

// The duties. Their numbers are stored; never renumber them.
const (
	Dispatching Duty = 1
	Scheduling  Duty = 2
)

// Owners is a store that several servers share. They divide the partitions among themselves, for each duty, to save each
// other work and to count limits exactly; no row depends on who owns what but by a Fence. A server that has two duties
// attends as two.
type Owners interface {
	// Attend keeps a server alive for ttl, beginning with its first call, and says who else has its duty and who owns which
	// partition for it. ErrSession if it was deposed: it missed its time and owns nothing any more.
	Attend(ctx context.Context, s Server, ttl time.Duration) (Roster, error)
	// Take makes the server the owner of those partitions that nobody alive owns, under a new epoch each.
	Take(ctx context.Context, s ServerID, ps []job.Partition) error
	// Give hands partitions that the server owns to another that is alive, under a new epoch each.
	Give(ctx context.Context, from, to ServerID, ps []job.Partition) error
	// Want notes that the server asks for partitions of others; their owners decide whether to give them. The first server to ask is noted
	// until it gets the partition, is gone, or attends without Waiting: then the next to ask takes its place.
	Want(ctx context.Context, s ServerID, ps []job.Partition) error
	// Retire ends a server at once, as if it had missed its time.
	Retire(ctx context.Context, s ServerID) error
	// Borrow says how much of each limit the server may use, and keeps that for it: as much as it asks for or, where all
	// together ask for more than there is, its part (see pick.Allot); never more than others leave. What it uses is
	// kept for it in any case, though it may be more than it may use. It answers in order. What a server that
	// is gone had is counted until all its partitions have another owner. ErrSession if the server itself is.
	Borrow(ctx context.Context, s ServerID, bs []Share) ([]int, error)
}

// Lender is a store whose servers share limits.
type Lender interface {
	// Lent lists what servers have of a tenant's limits on what runs at once, those that have none left out.
	Lent(ctx context.Context, t tenant.ID) ([]Lending, error)
}

// Lending is a server's part of a limit.
type Lending struct {
	Queue  string // empty: of the tenant's
	Server ServerID
	Host   string
	Share  int
	Parts  []job.Partition // that it owns
}

// Present is a store that several servers share and that knows which of them live, whichever steps its schema has had.
type Present interface {
	// Present lists the hosts of live servers, each once, in order.
	Present(ctx context.Context) ([]string, error)
}

// Server is a server as the others see it.
type Server struct {
	ID        ServerID
	Duty      Duty
	Host      string
	Waiting   bool // workers wait here for executions
	Slots     int  // of the workers that asked here lately
	StartedAt time.Time
}

// Roster says who is there and who owns what.
type Roster struct {
	Servers    []Server    // alive, by id
	Partitions []Partition // all, in order
}

// Partition says who owns a partition.
type Partition struct {
	Part   job.Partition
	Owner  ServerID // zero: nobody alive
	Epoch  int64
	Wanted ServerID // who would have it; zero: nobody
}

// Share is a part of a limit on what runs at once.
type Share struct {
	Tenant tenant.ID
	Queue  string // empty: the tenant's
	Max    int    // the whole limit
	Want   int    // what the server would have of it
	Used   int    // what of it runs there now
}

// Notifier is a store that several servers share and that lets them wake each other. A notification is a hint: one may
// be lost, or come for nothing.
type Notifier interface {
	// Notify tells the other servers that something may have become ready.
	Notify(ctx context.Context) error
	// Listen calls wake when it begins, since something may have been missed before, and whenever another server has
	// notified, until ctx ends or the connection breaks.
	Listen(ctx context.Context, wake func()) error
}
