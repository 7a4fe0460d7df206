package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Badges are addresses that show anybody the state of a job, until they are revoked. The store keeps a hash of each
// address.
type Badges interface {
	// AddBadge stores a badge; ErrConflict if its tenant would have more than most. Those of deleted jobs do not
	// count, and are removed.
	AddBadge(ctx context.Context, b Badge, most int, i Idempotency, e *audit.Entry) (Created, error)
	// Badge finds one by its hash; ErrNotFound if there is none.
	Badge(ctx context.Context, hash [32]byte) (Badge, error)
	// FindBadges lists a tenant's badges, newest first, except those of deleted jobs. The cursor is an id.
	FindBadges(ctx context.Context, t tenant.ID, p Page) (Listed[Badge], error)
	// DeleteBadge revokes a tenant's badge, and returns it; ErrNotFound if there is none.
	DeleteBadge(ctx context.Context, t tenant.ID, id string, e *audit.Entry) (Badge, error)
}

// Badge is an address that shows anybody the state of a job.
type Badge struct {
	ID        string // public; a UUID that grows with time
	Tenant    tenant.ID
	Job       job.ID
	Label     string   // shown in place of the job's name; "": the name
	Hash      [32]byte // of the token in its address
	CreatedAt time.Time
}

// AllBadges is a cursor that is greater than any id.
const AllBadges = "~"

// BadgePage makes a page of the badges after its cursor, given one more than fits. The total is -1 if it still has to
// be counted.
func BadgePage(p Page, found []Badge) Listed[Badge] {
	limit := max(p.Limit, 1)
	out := Listed[Badge]{Rows: found}
	if len(found) > limit {
		out.Rows, out.Next = found[:limit], found[limit-1].ID
	}
	switch {
	case p.Uncounted:
	case p.Cursor == "" && out.Next == "":
		out.Total.Count = int64(len(found))
	default:
		out.Total.Count = -1
	}
	return out
}
