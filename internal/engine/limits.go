package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Limits are what tenants and queues may use, and the tenants themselves.
type Limits interface {
	// CreateTenant stores a tenant; ErrConflict if its id exists.
	CreateTenant(ctx context.Context, t tenant.Tenant) error
	// Tenants lists all tenants in order of their ids.
	Tenants(ctx context.Context) ([]tenant.Tenant, error)
	// UpdateTenant changes a tenant's name, tier, overrides and reach; ErrNotFound if there is none. Its active jobs are counted anew.
	UpdateTenant(ctx context.Context, t tenant.Tenant) error
	// SetLimit keeps a limit, in place of any before; one that is zero is removed. A pause stays as it is: see Pauses.
	SetLimit(ctx context.Context, l job.Limit) error
	// Limits lists the limits of a tenant, or of all where it is empty, its own before those of its queues, and which of
	// these are paused; one that is paused may have no limit.
	Limits(ctx context.Context, t tenant.ID) ([]job.Limit, error)
	// Draw takes tokens out of buckets that fill at their rate, up to their burst, by the store's clock, and answers in
	// order. Each bucket is named once. All who draw share them.
	Draw(ctx context.Context, ds []Draw) ([]Drawn, error)
}

// Draw asks a bucket for tokens.
type Draw struct {
	Bucket string
	Rate   job.Rate
	N      int // 0: only to see when there will be one
}

// Drawn is what it gave.
type Drawn struct {
	N    int           // tokens, at most as many as asked for
	Wait time.Duration // until there is one more
}
