package dispatch

import (
	"context"
	"sync/atomic"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// claim is a worker's request for executions.
type claim struct {
	worker job.Worker
	max    int
	taken  atomic.Bool // by the matcher, which will answer, or by the caller, who no longer waits
	reply  chan answer // of one
}

type answer struct {
	attempts []job.Attempt
	err      error
}

func (c *claim) answer(as []job.Attempt, err error) { c.reply <- answer{as, err} }

// Claim waits until there is at least one execution for the worker, and leases up to limit of them. It returns
// nothing if ctx ends first.
func (d *Dispatcher) Claim(ctx context.Context, id job.WorkerID, limit int) ([]job.Attempt, error) {
	w, err := d.Worker(ctx, id)
	if err != nil {
		return nil, err
	}
	for limit > 0 && ctx.Err() == nil {
		as, err := d.claimOnce(ctx, w, limit)
		if err != nil || len(as) > 0 {
			return as, err
		}
	}
	return nil, nil
}

// claimOnce waits for one match, which may be empty if another server was quicker.
func (d *Dispatcher) claimOnce(ctx context.Context, w job.Worker, limit int) ([]job.Attempt, error) {
	c := &claim{worker: w, max: limit, reply: make(chan answer, 1)}
	select {
	case d.claims <- c:
	case <-ctx.Done():
		return nil, nil
	case <-d.done:
		return nil, ErrStopped
	}
	select {
	case a := <-c.reply:
		return a.attempts, a.err
	case <-ctx.Done():
		if c.taken.CompareAndSwap(false, true) {
			return nil, nil
		}
		select { // it is being leased for us: nobody else will release it
		case a := <-c.reply:
			return a.attempts, a.err
		case <-d.done:
			return nil, ErrStopped
		}
	}
}

// Start reads an attempt that a worker holds and is about to start, with the definition of its job as it is now;
// ErrStale if the worker does not hold it, it was asked to stop or its job was deleted.
func (d *Dispatcher) Start(ctx context.Context, w job.WorkerID, l job.Lease) (job.Attempt, error) {
	a, err := d.starts.call(ctx, engine.HeldBy{Worker: w, Lease: l})
	if err != nil {
		return job.Attempt{}, err
	}
	if a == nil {
		return job.Attempt{}, ErrStale
	}
	return *a, nil
}

// Held reads the lease that a worker holds; ErrStale if it does not hold it.
func (d *Dispatcher) Held(ctx context.Context, w job.WorkerID, l job.Lease) (job.Held, error) {
	hs, err := d.store.Held(ctx, []job.Lease{l})
	if err != nil {
		return job.Held{}, err
	}
	if len(hs) == 0 || hs[0].Worker != w {
		return job.Held{}, ErrStale
	}
	return hs[0], nil
}
