package engine

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Pauses keep what is in a queue from starting. Limits lists them with the limits: those that last by the store's clock.
type Pauses interface {
	// PauseQueue pauses a tenant's queue, in place of any pause before; the zero Pause ends it. The queue's limit stays.
	PauseQueue(ctx context.Context, t tenant.ID, queue string, p job.Pause) error
}
