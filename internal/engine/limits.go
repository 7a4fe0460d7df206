package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Tenants are the tenants, and the limits on them and their queues.
type Tenants interface {
	// CreateTenant stores a tenant; ErrConflict if its id exists.
	CreateTenant(ctx context.Context, t tenant.Tenant, e *audit.Entry) error
	// Tenants lists all tenants in order of their ids.
	Tenants(ctx context.Context) ([]tenant.Tenant, error)
	// UpdateTenant changes a tenant's name, tier, overrides and reach; ErrNotFound if there is none. It recounts the
	// tenant's active jobs.
	UpdateTenant(ctx context.Context, t tenant.Tenant, e *audit.Entry) error
	// SetLimit sets or replaces a limit; a zero one removes it. A pause stays as it is: see PauseQueue.
	SetLimit(ctx context.Context, l job.Limit, e *audit.Entry) error
	// Limits lists the limits of a tenant, or of all if it is empty, its own before those of its queues, and which of
	// these are paused; a paused queue may have no limit.
	Limits(ctx context.Context, t tenant.ID) ([]job.Limit, error)
	// PauseQueue sets or replaces the pause of a tenant's queue; the zero Pause ends it. The queue's limit stays.
	PauseQueue(ctx context.Context, t tenant.ID, queue string, p job.Pause, e *audit.Entry) error
	// Reaches returns the tenants whose callbacks have other rules than most.
	Reaches(ctx context.Context) (map[tenant.ID]Reach, error)
}

// Draw is a request for tokens of a bucket.
type Draw struct {
	Bucket string
	Rate   job.Rate
	N      int // 0: only to ask when there will be one
}

// Drawn is the result of drawing tokens.
type Drawn struct {
	N    int           // tokens, at most as many as requested
	Wait time.Duration // until there is one more
}

// Reach describes where callbacks of a tenant may go, beyond those of most tenants.
type Reach struct {
	Allow     string // private address ranges that they may reach, separated by commas
	HTTPSOnly bool   // they must not use plain http
}
