package engine

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// LastStatuses tell how jobs did last, to those who need no more of their statistics.
type LastStatuses interface {
	// LastStatus is how the latest finished execution of a job ended, as Stats has it; 0 for a job that is unknown or has had
	// none. It is found by key, and reads nothing of what waits or runs, so that it costs the same however much that is.
	LastStatus(ctx context.Context, t tenant.ID, id job.ID) (job.Status, error)
}
