package engine

import (
	"context"
	"errors"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Executions reads what ran, runs and will run.
type Executions interface {
	// Execution finds one; ErrNotFound also for another tenant's.
	Execution(ctx context.Context, t tenant.ID, id job.ExecutionID) (job.Execution, error)
	// FindExecutions lists executions of a tenant, or of one of its jobs, those with the latest scheduled time first. A page
	// that is Bounded ends where the search has taken its time, and says so.
	FindExecutions(ctx context.Context, f ExecutionFilter, p Page) (ExecutionPage, error)
	// Attempts lists the failed and lost attempts of an execution, earliest first.
	Attempts(ctx context.Context, t tenant.ID, id job.ExecutionID) ([]job.PastAttempt, error)
	// DeadLetters lists dead letters with their whole error history, latest first. An execution is one from the commit
	// that ends it as FAILED or TIMED_OUT (see job.Dead) until it is rerun or discarded.
	DeadLetters(ctx context.Context, f DeadLetterFilter, p Page) (DeadLetterPage, error)
	// Events lists what was kept of an execution as it happened (see job.Timeline), the first thing first.
	Events(ctx context.Context, t tenant.ID, id job.ExecutionID) ([]job.Event, error)
	// Redrivable lists up to limit dead letters of any tenant that are to be run again by themselves by now.
	Redrivable(ctx context.Context, limit int) ([]job.Execution, error)
	// Postpone puts off for a while those that Redrivable lists, as they could not be run again; what it does not list
	// stays as it is.
	Postpone(ctx context.Context, ids []job.ExecutionID, by time.Duration) error
	// Discard forgets dead letters, never the executions, and returns how many there were. Its idempotency key is stored in the same commit, with
	// what answer makes of that number. A key that is known discards nothing.
	Discard(ctx context.Context, t tenant.ID, ids []job.ExecutionID, i Idempotency, answer func(n int) []byte, e *audit.Entry) (int, Created, error)
}

// DeadLetterFilter chooses dead letters; a zero field chooses all.
type DeadLetterFilter struct {
	Tenant    tenant.ID
	Job       job.ID
	Execution job.ExecutionID
	Reason    job.DeadReason
	Text      string    // anywhere in the last error's message, in any case
	From      time.Time // died at or after
	Until     time.Time // died before
}

// DeadLetterPage is one page of dead letters.
type DeadLetterPage struct {
	DeadLetters []job.DeadLetter
	Next        string
	Partial     bool // the search took its time, see ExecutionPage
	Total       Total
}

// ErrAnswered ends a transaction whose request was answered before; engines do not return it.
var ErrAnswered = errors.New("the request was answered before")
