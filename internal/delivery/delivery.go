// Package delivery turns a leased attempt into what its worker receives. What is stored says which secrets,
// signatures and tokens an attempt needs; they are added only here, on the way out, so that they are never stored.
//
//	dispatch ──job.Attempt──▶ Give ──step, step, …──▶ client.Attempt ──▶ worker
//
// If a step fails, the worker does not get the attempt: with a Refusal the attempt fails, with any other error its
// lease is released, and the execution is handed out again later.
//
// A worker that claims ahead of its slots gets attempts that name secrets without what the steps add. Start completes
// each as it begins.
//
// The package never changes what is stored of an execution but through its outcome.
package delivery

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
)

// Step completes what a worker receives of an attempt.
type Step func(ctx context.Context, a job.Attempt, out *client.Attempt) error

// Refusal is an error of a step that a retry of the hand-out would not fix: the attempt fails with it.
type Refusal struct {
	Cause     job.Error
	Retryable bool
}

func (r *Refusal) Error() string { return r.Cause.Message }

// outcome is what an attempt ends with when it is refused.
func (r *Refusal) outcome(a *job.Attempt) job.Outcome {
	return job.Outcome{Lease: a.Lease, Status: job.OutcomeFailed, Error: &r.Cause, Retryable: r.Retryable}
}

// Dispatcher takes back what could not be handed out.
type Dispatcher interface {
	Report(ctx context.Context, w job.WorkerID, os []job.Outcome) ([]job.Verdict, error)
	Release(ctx context.Context, w job.WorkerID, ls []job.Lease) error
}

// Pipeline hands attempts out.
type Pipeline struct {
	d     Dispatcher
	log   *slog.Logger
	steps []Step

	ctx   context.Context // ends with Close
	end   context.CancelFunc
	mu    sync.Mutex
	later sync.WaitGroup // retries in progress; mu ensures that nothing is added once ctx has ended
}

// New makes a pipeline with these steps, in their order.
func New(d Dispatcher, log *slog.Logger, steps ...Step) *Pipeline {
	k := &Pipeline{d: d, log: log, steps: steps}
	k.ctx, k.end = context.WithCancel(context.Background())
	return k
}

// Close ends the background retries. What has not been released by then is released when its worker's session ends.
func (k *Pipeline) Close() {
	k.mu.Lock()
	k.end()
	k.mu.Unlock()
	k.later.Wait()
}

// Give returns what the worker receives for its leased attempts: those that are complete, and those that Start is to
// complete, because the worker has said that it starts them and late selects them. late may be nil.
func (k *Pipeline) Give(ctx context.Context, w job.WorkerID, as []job.Attempt, late func(*job.Attempt) bool) []client.Attempt {
	out := make([]client.Attempt, len(as))
	seconds := make([]int64, len(as))
	n := 0
	var failed []job.Outcome
	var back []job.Lease
	for i := range as {
		a := &as[i]
		out[n] = wire(a, &seconds[i])
		if late != nil && late(a) {
			withhold(&out[n])
			n++
			continue
		}
		err := k.complete(ctx, a, &out[n])
		var no *Refusal
		switch {
		case err == nil:
			n++
		case errors.As(err, &no):
			failed = append(failed, no.outcome(a))
		default:
			k.log.WarnContext(ctx, "an attempt could not be handed out; it is given back", "execution_id", a.Execution, "error", err)
			back = append(back, a.Lease)
		}
	}
	k.settle(ctx, w, failed, back)
	return out[:n]
}

// Start completes an attempt that its worker is about to start. If a step refuses it, the attempt fails and the error is
// the *Refusal; after any other error the worker still holds it, and may ask again.
func (k *Pipeline) Start(ctx context.Context, w job.WorkerID, a *job.Attempt) (client.Attempt, error) {
	var seconds int64
	out := wire(a, &seconds)
	err := k.complete(ctx, a, &out)
	if no := (*Refusal)(nil); errors.As(err, &no) {
		k.settle(ctx, w, []job.Outcome{no.outcome(a)}, nil)
	}
	return out, err
}

func (k *Pipeline) complete(ctx context.Context, a *job.Attempt, out *client.Attempt) error {
	for _, step := range k.steps {
		if err := step(ctx, *a, out); err != nil {
			return err
		}
	}
	return nil
}

// settleFor is how long to try to end what cannot be handed out; by then the worker's session has ended, or nothing
// helps.
const settleFor = time.Hour

// settle ends what cannot be handed out, and retries in the background while the store is down: a worker of this
// process continues its heartbeats, so nobody else would ever take it.
func (k *Pipeline) settle(ctx context.Context, w job.WorkerID, failed []job.Outcome, back []job.Lease) {
	ctx = context.WithoutCancel(ctx)
	if failed, back = k.try(ctx, w, failed, back); len(failed)+len(back) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx.Err() != nil {
		return
	}
	k.later.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, settleFor)
		defer cancel()
		defer context.AfterFunc(k.ctx, cancel)()
		for wait := 100 * time.Millisecond; len(failed)+len(back) > 0; wait = min(2*wait, 10*time.Second) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
				failed, back = k.try(ctx, w, failed, back)
			}
		}
	})
}

// try ends what it can, and returns the rest.
func (k *Pipeline) try(ctx context.Context, w job.WorkerID, failed []job.Outcome, back []job.Lease) ([]job.Outcome, []job.Lease) {
	if len(failed) > 0 {
		if _, err := k.d.Report(ctx, w, failed); err != nil {
			k.log.WarnContext(ctx, "attempts that could not be handed out could not be ended; trying again", "executions", len(failed), "error", err)
		} else {
			failed = nil
		}
	}
	if len(back) > 0 {
		if err := k.d.Release(ctx, w, back); err != nil {
			k.log.WarnContext(ctx, "attempts that could not be handed out could not be given back; trying again", "executions", len(back), "error", err)
		} else {
			back = nil
		}
	}
	return failed, back
}
