package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// LastStatuses tell how jobs did last, to those who need no more of their statistics.
type LastStatuses interface {
	// LastStatus is how the latest finished execution of each job ended, as Stats has it; 0 for a job that is unknown or has
	// had none. What is not tallied (a one-off job's own fire) counts if it finished since an instant; zero: always. It is
	// found by key, and reads nothing of what waits or runs, so that it costs the same however much that is; an instant
	// spares it the days before.
	LastStatus(ctx context.Context, t tenant.ID, ids []job.ID, since time.Time) ([]job.Status, error)
}
