package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Badges are addresses at which anybody sees how a job is, until they are revoked. Of an address the store keeps a hash.
type Badges interface {
	// AddBadge stores a badge; ErrConflict where its tenant would have more than most. Those of deleted jobs do not count, and go.
	AddBadge(ctx context.Context, b Badge, most int, i Idempotency, e *audit.Entry) (Created, error)
	// Badge finds one by its hash; ErrNotFound if there is none.
	Badge(ctx context.Context, hash [32]byte) (Badge, error)
	// FindBadges lists a tenant's, newest first, but for those of deleted jobs. The cursor is an id.
	FindBadges(ctx context.Context, t tenant.ID, p Page) (Listed[Badge], error)
	// DeleteBadge revokes one of a tenant's, and answers with it; ErrNotFound if there is none.
	DeleteBadge(ctx context.Context, t tenant.ID, id string, e *audit.Entry) (Badge, error)
}

// Badge is an address at which anybody sees how a job is.
type Badge struct {
	ID        string // public; a UUID that grows with time
	Tenant    tenant.ID
	Job       job.ID
	Label     string   // what is shown in place of the job's name; "": that
	Hash      [32]byte // of the token in its address
	CreatedAt time.Time
}

// AllBadges is a cursor behind which all are: it is greater than any id.
const AllBadges = "~"

// BadgePage is the page that the badges behind its cursor make, of which one more than it has was looked for. Where its total
// is to be counted it is -1.
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
