package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Tenants are the tenants, and what they and their queues may use.
type Tenants interface {
	// CreateTenant stores a tenant; ErrConflict if its id exists.
	CreateTenant(ctx context.Context, t tenant.Tenant, e *audit.Entry) error
	// Tenants lists all tenants in order of their ids.
	Tenants(ctx context.Context) ([]tenant.Tenant, error)
	// UpdateTenant changes a tenant's name, tier, overrides and reach; ErrNotFound if there is none. Its active jobs are counted again.
	UpdateTenant(ctx context.Context, t tenant.Tenant, e *audit.Entry) error
	// SetLimit keeps a limit, in place of any before; one that is zero is removed. A pause stays as it is: see PauseQueue.
	SetLimit(ctx context.Context, l job.Limit, e *audit.Entry) error
	// Limits lists the limits of a tenant, or of all where it is empty, its own before those of its queues, and which of
	// these are paused; one that is paused may have no limit.
	Limits(ctx context.Context, t tenant.ID) ([]job.Limit, error)
	// PauseQueue pauses a tenant's queue, in place of any pause before; the zero Pause ends it. The queue's limit stays.
	PauseQueue(ctx context.Context, t tenant.ID, queue string, p job.Pause, e *audit.Entry) error
	// Reaches finds the tenants whose callbacks may go elsewhere than those of the others.
	Reaches(ctx context.Context) (map[tenant.ID]Reach, error)
}

// Draw asks a bucket for tokens.
type Draw struct {
	Bucket string
	Rate   job.Rate
	N      int // 0: only to see when there will be one
}

// Drawn is the result of drawing tokens.
type Drawn struct {
	N    int           // tokens, at most as many as asked for
	Wait time.Duration // until there is one more
}

// Reach says where callbacks of a tenant may go, beyond those of most tenants.
type Reach struct {
	Allow     string // address ranges that they may reach though they are not public, separated by commas
	HTTPSOnly bool   // they may not go over plain http
}
