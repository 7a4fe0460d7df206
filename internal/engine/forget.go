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
	// ForgetOwn drops what jobs of a tenant no longer keep by a retention of their own: executions, and runs of
	// workflows as a whole, and the jobs that end with them. It examines up to limit of them, from a place on (zero:
	// the start). A job whose retention was shortened less than tenant.CutGrace ago is passed over.
	ForgetOwn(ctx context.Context, t tenant.ID, now time.Time, from OwnPlace, limit int) (ForgotOwn, error)
}

// Forgot tells what a call has dropped.
type Forgot struct {
	N    int
	More bool  // there may be more …
	Next Place // … after this place
}

// OwnPlace is a place in what jobs with a retention of their own have: a job, in the order of ids, and of a job its
// runs before its executions, each in the order of their scheduled times.
type OwnPlace struct {
	Job        job.ID // this one or a later one
	Executions bool   // its runs are done
	After      Place
}

// ForgotOwn is the outcome of a call of ForgetOwn.
type ForgotOwn struct {
	N    int
	More bool     // there may be more …
	Next OwnPlace // … from this place on
}

// FirstID returns the least id that can be made at an instant.
func FirstID(at time.Time) (id job.ID) {
	ms := uint64(max(at.UnixMilli(), 0))
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	return id
}
