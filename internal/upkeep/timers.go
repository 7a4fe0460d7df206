package upkeep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Watchdog ends attempts that exceed their timeout, or make no progress, although their worker is alive and did not
// end them itself.
type Watchdog struct {
	Store interface {
		engine.Recovery
		Finish(ctx context.Context, fs []job.Finish) ([]job.Verdict, error)
	}
	Clock clock.Clock       // the store's
	Hint  func([]job.Ready) // called with executions that are retried
	Log   *slog.Logger
}

const (
	overrunBatch = 100
	overrunSlack = 5 * time.Second // time for the worker to end and report it itself
)

// Tick ends what has overrun.
func (w *Watchdog) Tick(ctx context.Context) (time.Duration, error) {
	over, err := w.Store.Overrun(ctx, overrunSlack, overrunBatch)
	if err != nil {
		return 0, fmt.Errorf("look for overruns: %w", err)
	}
	if len(over) == 0 {
		return time.Second, nil
	}
	now := w.Clock.Now()
	fs := make([]job.Finish, len(over))
	for i, o := range over {
		out := job.Outcome{Lease: job.Lease{Execution: o.ID, Token: o.Token}, Status: job.OutcomeFailed, Error: overrunError(o), Retryable: true}
		then := job.Decide(o.Held, out, now)
		out.Error = o.Explain(out, then)
		fs[i] = job.Finish{Outcome: out, Then: then, Worker: o.Worker, Expel: !o.Parked}
	}
	vs, err := w.Store.Finish(ctx, fs)
	if err != nil {
		return 0, fmt.Errorf("end overruns: %w", err)
	}
	var retried []job.Ready
	ended := 0
	for i, v := range vs {
		if !v.Accepted {
			continue // its worker was quicker
		}
		ended++
		if then := fs[i].Came(&vs[i]); !then.Status.Final() {
			r := over[i].Ready()
			r.DueAt = then.DueAt
			retried = append(retried, r)
		}
	}
	if ended > 0 {
		w.Log.Warn("attempts that lasted too long, or stood still, were ended", "executions", ended, "tried_again", len(retried))
	}
	w.Hint(retried)
	if len(over) == overrunBatch {
		return 0, nil
	}
	return time.Second, nil
}

func overrunError(o engine.Overrun) *job.Error {
	if o.Stalled {
		return &job.Error{Type: job.Stalled, Message: fmt.Sprintf("the attempt reported no progress for %s", o.Stall)}
	}
	if o.Parked {
		return &job.Error{Type: job.TimeoutError, Message: fmt.Sprintf("the target accepted the callback with 202 and did not complete the execution within %s", o.Timeout)}
	}
	return &job.Error{Type: job.TimeoutError, Message: fmt.Sprintf("the attempt did not end within %s, nor did its worker end it", o.Timeout)}
}

// Expirer ends executions that did not start in time.
type Expirer struct {
	Store engine.Recovery
	Log   *slog.Logger
}

const expireBatch = 1000

// Tick ends what has expired.
func (e *Expirer) Tick(ctx context.Context) (time.Duration, error) {
	n, err := e.Store.Expire(ctx, expireBatch)
	if err != nil {
		return 0, fmt.Errorf("expire: %w", err)
	}
	if len(n) > 0 {
		e.Log.Info("executions that did not start in time have expired", "executions", len(n))
	}
	if len(n) == expireBatch {
		return 0, nil
	}
	return time.Second, nil
}

// Redriver runs dead letters again if their jobs say so.
type Redriver struct {
	Store   engine.Executions
	Redrive func(context.Context, job.Execution) error
	Log     *slog.Logger
}

const (
	redriveBatch = 100
	redriveAgain = 10 * time.Minute
)

// Tick redrives what is due. One that cannot be run again, because its job was deleted or another holds its unique key,
// is postponed for a while, so that it never hides the others.
func (r *Redriver) Tick(ctx context.Context) (time.Duration, error) {
	due, err := r.Store.Redrivable(ctx, redriveBatch)
	if err != nil {
		return 0, fmt.Errorf("look for dead letters to run again: %w", err)
	}
	var stuck []job.ExecutionID
	var away error
	done := 0
	for _, e := range due {
		err := r.Redrive(ctx, e)
		if err == nil {
			done++
			continue
		}
		if ctx.Err() != nil || errors.Is(err, engine.ErrUnavailable) { // which says nothing about this one
			away = fmt.Errorf("run a dead letter again: %w", err)
			break
		}
		r.Log.Warn("a dead letter could not be run again by itself", "execution", e.ID, "again_in", redriveAgain, "error", err)
		stuck = append(stuck, e.ID)
	}
	if done > 0 {
		r.Log.Info("dead letters were run again, as their jobs say", "executions", done)
	}
	if len(stuck) > 0 {
		if err := r.Store.Postpone(ctx, stuck, redriveAgain); err != nil {
			away = errors.Join(away, fmt.Errorf("put off dead letters that cannot be run again: %w", err))
		}
	}
	if away != nil || len(due) == redriveBatch {
		return 0, away
	}
	return time.Second, nil
}
