package engine

import (
	"context"
	"errors"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Executions reads past, running and future executions.
type Executions interface {
	// Execution finds one; ErrNotFound also for another tenant's.
	Execution(ctx context.Context, t tenant.ID, id job.ExecutionID) (job.Execution, error)
	// FindExecutions lists executions of a tenant, or of one of its jobs, latest scheduled time first. A Bounded page
	// ends when the search runs out of time, and says so.
	FindExecutions(ctx context.Context, f ExecutionFilter, p Page) (ExecutionPage, error)
	// Attempts lists the failed and lost attempts of an execution, oldest first.
	Attempts(ctx context.Context, t tenant.ID, id job.ExecutionID) ([]job.PastAttempt, error)
	// DeadLetters lists dead letters with their whole error history, newest first. An execution is one from the
	// commit that ends it as FAILED or TIMED_OUT (see job.Dead) until it is rerun or discarded.
	DeadLetters(ctx context.Context, f DeadLetterFilter, p Page) (DeadLetterPage, error)
	// Events lists the recorded events of an execution (see job.Timeline), oldest first.
	Events(ctx context.Context, t tenant.ID, id job.ExecutionID) ([]job.Event, error)
	// Redrivable lists up to limit dead letters of any tenant that are due for an automatic redrive.
	Redrivable(ctx context.Context, limit int) ([]job.Execution, error)
	// Postpone postpones for a while those that Redrivable lists, when they could not be run again; others stay
	// unchanged.
	Postpone(ctx context.Context, ids []job.ExecutionID, by time.Duration) error
	// Discard discards dead letters, never the executions, and returns how many there were. Its idempotency key is
	// stored in the same commit, with the answer made from that number. With a known key it discards nothing.
	Discard(ctx context.Context, t tenant.ID, ids []job.ExecutionID, i Idempotency, answer func(n int) []byte, e *audit.Entry) (int, Created, error)
}

// DeadLetterFilter selects dead letters; a zero field matches everything.
type DeadLetterFilter struct {
	Tenant    tenant.ID
	Job       job.ID
	Execution job.ExecutionID
	Reason    job.DeadReason
	Text      string    // contained in the last error's message, ignoring case
	From      time.Time // died at or after
	Until     time.Time // died before
	OwnAsOf   time.Time // as in ExecutionFilter
}

// DeadLetterPage is one page of dead letters.
type DeadLetterPage struct {
	DeadLetters []job.DeadLetter
	Next        string
	Partial     bool // the search ran out of time, see ExecutionPage
	Total       Total
}

// ErrAnswered ends a transaction whose request was answered before; engines do not return it.
var ErrAnswered = errors.New("the request was answered before")
