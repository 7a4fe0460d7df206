package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Operations are work over many things, done in the background.
type Operations interface {
	AddOperation(ctx context.Context, o job.Operation, i Idempotency, e *audit.Entry) (Created, error)
	// Operation finds one; ErrNotFound also for another tenant's.
	Operation(ctx context.Context, t tenant.ID, id job.OperationID) (job.Operation, error)
	// FindOperations lists operations, newest first.
	FindOperations(ctx context.Context, t tenant.ID, p Page) (OperationPage, error)
	// TakeOperation hands out, for ttl, the one of the running that nobody has and that was saved the longest ago, by its
	// UpdatedAt; ErrNotFound if there is none.
	TakeOperation(ctx context.Context, ttl time.Duration) (job.Operation, error)
	// SaveOperation keeps how far an operation has come, and its state, under the version it has, and answers with the
	// next one; it is had for ttl more, or by nobody where that is 0. ErrConflict if it has another version by now.
	SaveOperation(ctx context.Context, o job.Operation, ttl time.Duration) (job.Operation, error)
	// CancelOperation ends one that runs as CANCELLED; one that is cancelled answers again. ErrConflict if it has finished otherwise.
	CancelOperation(ctx context.Context, t tenant.ID, id job.OperationID, e *audit.Entry) (job.Operation, error)
}

// OperationPage is one page of operations.
type OperationPage struct {
	Operations []job.Operation
	Next       string
	Total      Total
}
