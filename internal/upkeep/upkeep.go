// Package upkeep runs the loops that keep the store in order: Reaper returns the executions of dead workers to the
// queue, Canceller ends executions that were asked to stop and did not, Watchdog those that last too long although
// their worker is alive, Expirer those that did not start in time; Redriver runs dead letters again if their jobs say
// so, Resumer resumes jobs whose pause has expired, Tidier drops what has expired.
//
// Each is a Tick that does a bounded amount; any number of servers may run them over one store. None decides what may
// be lost: a session with heartbeats is never reaped, and only what has served its purpose is dropped.
package upkeep

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Reaper returns the executions of dead workers to the queue.
type Reaper struct {
	Store engine.Recovery
	Hint  func([]job.Ready) // called with executions that may be leased again
	Log   *slog.Logger

	// Poison is how many workers an execution may lose within an hour before it ends as POISON.
	Poison int
}

const reapBatch = 1000 // leases of dead sessions

// Tick reaps once.
func (r *Reaper) Tick(ctx context.Context) (time.Duration, error) {
	got, err := r.Store.Reap(ctx, reapBatch, r.Poison)
	if err != nil {
		return 0, fmt.Errorf("reap: %w", err)
	}
	if got.Sessions > 0 || got.Lost() > 0 {
		r.Log.Warn("workers stopped answering; their executions are queued again", "workers", got.Sessions, "executions", len(got.Ready), "poisoned", got.Poisoned, "cancelled", got.Cancelled)
	}
	if got.Lost() > 0 {
		r.Hint(got.Ready)
	}
	if got.Leases > 0 {
		return 0, nil // there may be more: most leases contain only finished executions, so that nothing is lost with them
	}
	return time.Second, nil
}

// Canceller forcibly ends executions that were asked to stop and did not.
type Canceller struct {
	Store engine.Recovery
	Grace time.Duration
	Log   *slog.Logger
}

const forceBatch = 1000

// Tick ends executions past their grace period.
func (c *Canceller) Tick(ctx context.Context) (time.Duration, error) {
	n, err := c.Store.Force(ctx, c.Grace, forceBatch)
	if err != nil {
		return 0, fmt.Errorf("force cancels: %w", err)
	}
	if len(n) > 0 {
		c.Log.Warn("executions that did not stop when asked were ended by force", "executions", len(n), "grace", c.Grace)
	}
	if len(n) == forceBatch {
		return 0, nil
	}
	return time.Second, nil
}

// Tidier drops what has expired and prepares what comes.
type Tidier struct {
	Store interface {
		Tidy(ctx context.Context) (more bool, err error)
	}
}

// Tick tidies once.
func (t *Tidier) Tick(ctx context.Context) (time.Duration, error) {
	more, err := t.Store.Tidy(ctx)
	if err != nil {
		return 0, fmt.Errorf("tidy: %w", err)
	}
	if more {
		return 100 * time.Millisecond, nil
	}
	return time.Minute, nil
}
