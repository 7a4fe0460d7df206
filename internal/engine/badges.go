package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Badges are addresses at which anybody sees how a job is, until they are revoked. Of an address the store keeps a hash.
type Badges interface {
	// AddBadge stores a badge; ErrConflict where its tenant would have more than most.
	AddBadge(ctx context.Context, b Badge, most int, i Idempotency) (Created, error)
	// Badge finds one by its hash; ErrNotFound if there is none.
	Badge(ctx context.Context, hash [32]byte) (Badge, error)
	// Badges lists a tenant's, the newest first.
	Badges(ctx context.Context, t tenant.ID) ([]Badge, error)
	// DeleteBadge revokes one of a tenant's, and answers with it; ErrNotFound if there is none.
	DeleteBadge(ctx context.Context, t tenant.ID, id string) (Badge, error)
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
