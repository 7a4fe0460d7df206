package engine

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Cordons keep workers from being given anything more, for as long as someone wants that.
type Cordons interface {
	// Cordon cordons a session that lives and may serve the tenant, or ends that; ErrNotFound if there is none.
	Cordon(ctx context.Context, t tenant.ID, w job.WorkerID, on bool) error
	// Cordoned lists the sessions that have not ended and are cordoned.
	Cordoned(ctx context.Context) ([]job.WorkerID, error)
}
