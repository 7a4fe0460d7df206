package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Forgetting drops what is past its retention. Each call does a bounded amount in one transaction, and drops each
// thing together with all that belongs to it. A finished one-off job, and a deleted job, go with the last of their
// history.
type Forgetting interface {
	// ForgetHistory drops executions of a tenant that finished before an instant, with their attempts, events, logs,
	// traces and dead letters, and the jobs that end with them. It examines up to limit, in the order of their
	// scheduled times, after a place (zero: from the start). Executions that belong to a run of a workflow go with
	// the run.
	ForgetHistory(ctx context.Context, t tenant.ID, before time.Time, from Place, limit int) (Forgot, error)
	// ForgetRuns drops up to limit rows of runs of a tenant that ended before an instant, oldest run first, after a
	// place, and the executions of their nodes. A run itself is dropped when nothing else of it is left, with its own
	// execution.
	ForgetRuns(ctx context.Context, t tenant.ID, before time.Time, from Place, limit int) (Forgot, error)
	// ForgetJobs drops one-off jobs of a tenant that are over, and deleted jobs, that were last changed before an
	// instant and have no history. Others may have been in the way when their last execution was dropped. It examines
	// up to limit of all jobs that were created before the instant, after the one in the place.
	ForgetJobs(ctx context.Context, t tenant.ID, before time.Time, from Place, limit int) (Forgot, error)
}

// Forgot tells what a call has dropped.
type Forgot struct {
	N    int
	More bool  // there may be more …
	Next Place // … after this place
}

// FirstID returns the least id that can be made at an instant.
func FirstID(at time.Time) (id job.ID) {
	ms := uint64(max(at.UnixMilli(), 0))
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	return id
}
