package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/bench"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/dispatch"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// payload is 256 bytes of JSON.
var payload = bench.Payload(256)

// product measures Carillon as wired in a server: service, dispatcher, worker pool, store.
type product struct {
	store engine.Store
	// empty drops everything, so that each measurement begins alike.
	empty func(ctx context.Context) error
}

func (p *product) rig(ctx context.Context, s settings) (*bench.Rig, error) {
	if err := p.empty(ctx); err != nil {
		return nil, err
	}
	return bench.NewRig(ctx, p.store, bench.Load{Batch: s.batch, Payload: len(payload), Slots: 8})
}

func (p *product) phases(ctx context.Context, s settings) (r rates, err error) {
	x, err := p.rig(ctx, s)
	if err != nil {
		return r, err
	}
	defer x.Close()
	began := time.Now()
	if err := x.Insert(ctx, tenant.Local(), s.jobs); err != nil {
		return r, err
	}
	r.insert = perSecond(s.jobs, began)

	w := job.Worker{ID: job.WorkerID(uuid.Must(uuid.NewV7())), Host: "bench", Targets: []string{"simulate"}, StartedAt: x.Clock.Now()}
	if err := x.Dispatch.RegisterLocal(ctx, w); err != nil {
		return r, err
	}
	live := make(chan error, 1)
	beating, stop := context.WithCancel(ctx)
	go func() { live <- beat(beating, x, w.ID) }()
	err = p.claimAndFinish(ctx, x, w.ID, s, &r)
	stop()
	if err := errors.Join(err, <-live); err != nil {
		return r, err
	}
	return r, verify(ctx, x)
}

// beat keeps a session alive, as a worker does, until ctx ends.
func beat(ctx context.Context, x *bench.Rig, w job.WorkerID) error {
	tick := time.NewTicker(x.Dispatch.LeaseTTL() / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if _, err := x.Dispatch.Beat(ctx, w, dispatch.Sign{}); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// claimAndFinish claims everything, and only then finishes it.
func (p *product) claimAndFinish(ctx context.Context, x *bench.Rig, w job.WorkerID, s settings, r *rates) error {
	began := time.Now()
	var attempts []job.Attempt
	for len(attempts) < s.jobs {
		as, err := x.Dispatch.Claim(ctx, w, s.batch)
		if err != nil {
			return err
		}
		attempts = append(attempts, as...)
	}
	r.claim = perSecond(s.jobs, began)

	began = time.Now()
	for part := range slices.Chunk(attempts, s.batch) {
		outcomes := make([]job.Outcome, len(part))
		for i, a := range part {
			outcomes[i] = job.Outcome{Lease: a.Lease, Status: job.OutcomeSucceeded}
		}
		vs, err := x.Dispatch.Report(ctx, w, outcomes)
		if err != nil {
			return err
		}
		for _, v := range vs {
			if !v.Accepted {
				return fmt.Errorf("a result was refused: %s", v.Reason)
			}
		}
	}
	r.finish = perSecond(s.jobs, began)
	return nil
}

func (p *product) life(ctx context.Context, s settings) (float64, error) {
	x, err := p.rig(ctx, s)
	if err != nil {
		return 0, err
	}
	defer x.Close()
	defer x.Work()()
	began := time.Now()
	if err := x.Insert(ctx, tenant.Local(), s.jobs); err != nil {
		return 0, err
	}
	if _, err := x.Wait(ctx); err != nil {
		return 0, err
	}
	rate := perSecond(s.jobs, began)
	return rate, verify(ctx, x)
}

// verify checks that each job has succeeded exactly once.
func verify(ctx context.Context, x *bench.Rig) error {
	t, err := x.Check(ctx)
	if err == nil && (t.Lost > 0 || t.Doubled > 0) {
		err = bench.Wrong{Tally: t}
	}
	return err
}

func median(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	return xs[len(xs)/2]
}
