package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Operations are bulk actions that run in the background.
type Operations interface {
	AddOperation(ctx context.Context, o job.Operation, i Idempotency, e *audit.Entry) (Created, error)
	// Operation finds one; ErrNotFound also for another tenant's.
	Operation(ctx context.Context, t tenant.ID, id job.OperationID) (job.Operation, error)
	// FindOperations lists operations, newest first.
	FindOperations(ctx context.Context, t tenant.ID, p Page) (OperationPage, error)
	// TakeOperation hands out, for ttl, the running operation without a holder whose UpdatedAt is oldest; ErrNotFound
	// if there is none.
	TakeOperation(ctx context.Context, ttl time.Duration) (job.Operation, error)
	// SaveOperation stores the progress and state of an operation, under its version, and returns the next version.
	// The caller holds it for another ttl, or releases it with 0. ErrConflict if it has another version by now.
	SaveOperation(ctx context.Context, o job.Operation, ttl time.Duration) (job.Operation, error)
	// CancelOperation ends a running operation as CANCELLED; a cancelled one is returned again. ErrConflict if it has
	// finished otherwise.
	CancelOperation(ctx context.Context, t tenant.ID, id job.OperationID, e *audit.Entry) (job.Operation, error)
}

// OperationPage is one page of operations.
type OperationPage struct {
	Operations []job.Operation
	Next       string
	Total      Total
}
