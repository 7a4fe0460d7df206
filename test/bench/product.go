package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/dispatch"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/executor"
	"github.com/carillon-jobs/carillon/internal/service"
	"github.com/carillon-jobs/carillon/worker"
)

// payload is 256 bytes of JSON.
var payload = []byte(`{"text":"` + strings.Repeat("x", 256-11) + `"}`)

func definition() job.Definition {
	return job.Definition{
		Name: "bench", Priority: job.DefaultPriority, Queue: job.DefaultQueue, Schedule: job.Schedule{Type: job.Immediate}, Retry: job.DefaultRetry, Payload: payload,
		Target: job.Target{Kind: job.Simulate, WorkKind: "noop", Timeout: job.DefaultTimeout},
	}
}

// product measures Carillon as it is wired in a server: service, dispatcher, worker pool, store.
type product struct {
	store engine.Store
	// count says how many executions history holds, and how many of these are distinct.
	count func(ctx context.Context) (rows, distinct int64, err error)
	// empty forgets everything, so that each measurement begins alike.
	empty func(ctx context.Context) error
}

// parts is a wired product.
type parts struct {
	service  *service.Service
	dispatch *dispatch.Dispatcher
	clock    *clock.Tracked
	stop     func()
}

func (p *product) wire(ctx context.Context) (parts, error) {
	if err := p.empty(ctx); err != nil {
		return parts{}, err
	}
	clk := clock.NewTracked(p.store.Now)
	if err := clk.Refresh(ctx); err != nil {
		return parts{}, err
	}
	d := dispatch.New(p.store, clk, quiet, dispatch.Config{})
	running, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { d.Run(running) })
	return parts{
		service:  service.New(p.store, clk, service.Config{LookAhead: 5 * time.Second, Hint: d.Offer}),
		dispatch: d, clock: clk, stop: func() { cancel(); wg.Wait() },
	}, nil
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func (x parts) insert(ctx context.Context, s settings) error {
	for done := 0; done < s.jobs; done += s.batch {
		defs := make([]job.Definition, min(s.batch, s.jobs-done))
		for i := range defs {
			defs[i] = definition()
		}
		if _, _, err := x.service.CreateJobs(ctx, tenant.Local(), defs, service.Once[[]service.NewJob]{}); err != nil {
			return err
		}
	}
	return nil
}

func (p *product) phases(ctx context.Context, s settings) (r rates, err error) {
	x, err := p.wire(ctx)
	if err != nil {
		return r, err
	}
	defer x.stop()
	began := time.Now()
	if err := x.insert(ctx, s); err != nil {
		return r, err
	}
	r.insert = perSecond(s.jobs, began)

	w := job.Worker{ID: job.WorkerID(uuid.Must(uuid.NewV7())), Host: "bench", Targets: []string{"simulate"}, StartedAt: x.clock.Now()}
	if err := x.dispatch.RegisterLocal(ctx, w); err != nil {
		return r, err
	}
	began = time.Now()
	var attempts []job.Attempt
	for len(attempts) < s.jobs {
		as, err := x.dispatch.Claim(ctx, w.ID, s.batch)
		if err != nil {
			return r, err
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
		vs, err := x.dispatch.Report(ctx, w.ID, outcomes)
		if err != nil {
			return r, err
		}
		for _, v := range vs {
			if !v.Accepted {
				return r, fmt.Errorf("a result was refused: %s", v.Reason)
			}
		}
	}
	r.finish = perSecond(s.jobs, began)
	return r, p.verify(ctx, s)
}

// counted is a source that counts the results the server has taken.
type counted struct {
	worker.Source
	left    *atomic.Int64
	done    chan struct{}
	refused *atomic.Int64
}

func (c counted) Report(ctx context.Context, s client.Session, outcomes []client.Outcome) ([]client.Verdict, error) {
	vs, err := c.Source.Report(ctx, s, outcomes)
	for _, v := range vs {
		if v.Verdict != client.Accepted {
			c.refused.Add(1)
		}
	}
	if err == nil && c.left.Add(-int64(len(outcomes))) == 0 {
		close(c.done)
	}
	return vs, err
}

func (p *product) life(ctx context.Context, s settings) (float64, error) {
	x, err := p.wire(ctx)
	if err != nil {
		return 0, err
	}
	defer x.stop()
	var left, refused atomic.Int64
	left.Store(int64(s.jobs))
	exec := executor.New(executor.Config{Version: "bench"})
	defer exec.Close()
	src := counted{api.NewDoor(x.dispatch, x.clock), &left, make(chan struct{}), &refused}
	pool := worker.New(src, exec, worker.Config{Host: "bench", Targets: []string{"simulate"}, Slots: 8, Logger: quiet})
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { pool.Run(running) })
	began := time.Now()
	if err := x.insert(ctx, s); err != nil {
		return 0, err
	}
	select {
	case <-src.done:
	case <-time.After(10 * time.Minute):
		return 0, fmt.Errorf("%d jobs have not ended", left.Load())
	}
	rate := perSecond(s.jobs, began)
	cancel()
	wg.Wait()
	if n := refused.Load(); n > 0 {
		return 0, fmt.Errorf("%d results were refused", n)
	}
	return rate, p.verify(ctx, s)
}

// verify counts: each job is in history exactly once.
func (p *product) verify(ctx context.Context, s settings) error {
	rows, distinct, err := p.count(ctx)
	if err != nil {
		return err
	}
	if rows != int64(s.jobs) || distinct != rows {
		return fmt.Errorf("history holds %d executions, %d of them distinct; want %d: lost %d, doubled %d", rows, distinct, s.jobs, int64(s.jobs)-distinct, rows-distinct)
	}
	return nil
}

func median(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	return xs[len(xs)/2]
}
