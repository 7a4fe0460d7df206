package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// phase is one load on a fresh store, and its measurements. It leaves nothing unfinished, so that all can be checked.
type phase struct {
	names    []string // names of its measurements; any of them selects it
	compared bool     // it takes turns with the other compared phases
	skip     func(o Options) bool
	run      func(ctx context.Context, r *Rig, o Options, rep *Report) error
}

var phases = []phase{
	{names: []string{"insert", "work"}, run: backlog},
	{names: []string{"both"}, compared: true, run: both},
	{names: []string{"limits"}, compared: true, run: limited},
	{names: []string{"callbacks"}, run: callbacks},
	{names: []string{"remote"}, run: remote},
	{names: []string{"logs"}, run: logs},
	{names: []string{"single"}, run: single},
	{names: []string{"http"}, run: overHTTP},
	{names: []string{"idle"}, run: idle},
	{names: []string{"rate"}, run: steady, skip: func(o Options) bool { return o.Rate == 0 }},
}

// everybody is the tenant that creates the jobs if there is only one.
var everybody = tenant.Local()

func perSecond(n int, since time.Time) float64 {
	return round(float64(n)/time.Since(since).Seconds(), 1)
}

// backlog creates all jobs, and only then processes them.
func backlog(ctx context.Context, r *Rig, o Options, rep *Report) error {
	end := watch(o, "insert", o.Jobs, r.Accepted)
	m := newMeter(ctx, r.store)
	began := time.Now()
	err := r.Insert(ctx, everybody, o.Jobs)
	end()
	if err != nil {
		return err
	}
	rep.InsertPerS, rep.InsertCost = perSecond(o.Jobs, began), m.per(o.Jobs)
	m = newMeter(ctx, r.store)
	rep.WorkPerS, err = workOff(ctx, r, o, "work", r.Work)
	rep.WorkCost = m.per(o.Jobs)
	return err
}

// workOff processes all waiting executions, and returns executions a second, from the start of the first handler on.
func workOff(ctx context.Context, r *Rig, o Options, name string, work func() (stop func())) (float64, error) {
	defer watch(o, name, r.Accepted(), r.Ended)()
	before := r.Ended()
	r.ledger.first.Store(0)
	defer work()()
	_, err := r.Wait(ctx)
	return r.ledger.rate(r.Ended()-before, time.Duration(r.ledger.first.Load())), err
}

// both creates jobs while running workers process them.
func both(ctx context.Context, r *Rig, o Options, rep *Report) error {
	defer watch(o, "both", o.Jobs, r.Ended)()
	stop, err := r.working(ctx)
	if err != nil {
		return err
	}
	defer stop()
	before, m, began := r.Ended(), newMeter(ctx, r.store), time.Since(r.ledger.start)
	if err := r.Insert(ctx, everybody, o.Jobs); err != nil {
		return err
	}
	if _, err := r.Wait(ctx); err != nil {
		return err
	}
	rep.BothPerS, rep.BothCost = r.ledger.rate(r.Ended()-before, began), m.per(o.Jobs)
	return nil
}

// working starts the workers, and returns once they have done one job.
func (r *Rig) working(ctx context.Context) (stop func(), err error) {
	stop = r.Work()
	if _, err = r.Create(ctx, everybody); err == nil {
		_, err = r.Wait(ctx) // the check says what is lost
	}
	if err != nil {
		stop()
	}
	return stop, err
}

// limited creates jobs of three tenants while they are processed, all under limits that cost but do not bind: a
// concurrency key with a thousand values, and a rate and a concurrency limit for each tenant.
func limited(ctx context.Context, r *Rig, o Options, rep *Report) error {
	system := everybody
	all := []tenant.ID{system.Tenant}
	for _, t := range []tenant.Tier{tenant.Pro, tenant.Free} {
		id, err := r.tenant(ctx, "bench "+t.String(), t)
		if err != nil {
			return err
		}
		all = append(all, id)
	}
	for _, t := range all {
		l := job.Limit{Max: 1_000_000, Rate: job.Rate{Count: 1_000_000, Per: time.Second, Burst: 100_000}}
		if err := r.Service.SetLimit(ctx, tenant.Principal{Tenant: t, Role: tenant.System}, l); err != nil {
			return err
		}
	}
	defer watch(o, "limits", o.Jobs, r.Ended)()
	stop, err := r.working(ctx)
	if err != nil {
		return err
	}
	defer stop()
	before, m, began := r.Ended(), newMeter(ctx, r.store), time.Since(r.ledger.start)
	err = r.InsertEach(ctx, o.Jobs, func(batch int) tenant.Principal {
		return tenant.Principal{Tenant: all[batch%len(all)], Role: tenant.System}
	}, r.keyed)
	if err != nil {
		return err
	}
	if _, err := r.Wait(ctx); err != nil {
		return err
	}
	rep.LimitsPerS, rep.LimitsCost = r.ledger.rate(r.Ended()-before, began), m.per(o.Jobs)
	return nil
}

// single makes many callers create one job at a time; then all jobs are processed, to be checked.
func single(ctx context.Context, r *Rig, o Options, rep *Report) (err error) {
	rep.SinglePerS, rep.SingleMS, err = oneByOne(ctx, r, o, "single", func(ctx context.Context) error {
		_, err := r.Create(ctx, everybody)
		return err
	})
	return err
}

// oneByOne makes the callers create one job at a time, measures them, and processes the jobs.
func oneByOne(ctx context.Context, r *Rig, o Options, name string, create func(ctx context.Context) error) (perS float64, ms *Quantiles, err error) {
	end := watch(o, name, o.Singles, r.Accepted)
	took := make([]time.Duration, o.Singles)
	began := time.Now()
	err = each(ctx, o.Callers, o.Singles, func(ctx context.Context, i int) error {
		called := time.Now()
		err := create(ctx)
		took[i] = time.Since(called)
		return err
	})
	end()
	if err != nil {
		return 0, nil, err
	}
	perS, ms = perSecond(o.Singles, began), quantiles(took)
	_, err = workOff(ctx, r, o, "work off", r.Work)
	return perS, ms, err
}

// warmUp counts the first samples of the idle start that are left out: connections open and statements are prepared.
const warmUp = 10

// idle creates one job at a time on an otherwise idle system.
func idle(ctx context.Context, r *Rig, o Options, rep *Report) error {
	defer watch(o, "idle", warmUp+o.Samples, r.Ended)()
	defer r.Work()()
	took := make([]time.Duration, 0, o.Samples)
	for i := range warmUp + o.Samples {
		called := time.Now()
		id, err := r.Create(ctx, everybody)
		if err != nil {
			return err
		}
		all, err := r.Wait(ctx)
		if err != nil {
			return err
		}
		if !all {
			break // one is lost: waiting for the others would take as long
		}
		if began := r.Began(id); i >= warmUp && !began.IsZero() {
			took = append(took, began.Sub(called))
		}
	}
	rep.IdlePickupMS = quantiles(took)
	return nil
}

// maxCallers limits the callers of the phase rate, well below what the service refuses.
const maxCallers = 5000

// steady creates jobs at a given rate while they are processed. Latency counts from the instant at which a job should
// have been created, so that a slow store cannot hide it.
func steady(ctx context.Context, r *Rig, o Options, rep *Report) error {
	n := max(1, int(float64(o.Rate)*o.RateFor.Seconds()))
	defer watch(o, "rate", n, r.Ended)()
	defer r.Work()()
	ids := make([]job.ExecutionID, n)
	began := time.Now()
	due := func(i int) time.Time { return began.Add(time.Duration(i) * time.Second / time.Duration(o.Rate)) }
	err := each(ctx, min(o.Rate, maxCallers), n, func(ctx context.Context, i int) (err error) {
		if err := until(ctx, due(i)); err != nil {
			return err
		}
		ids[i], err = r.Create(ctx, everybody)
		return err
	})
	if err != nil {
		return err
	}
	if _, err := r.Wait(ctx); err != nil {
		return err
	}
	reached := perSecond(r.Ended(), began)
	var took []time.Duration
	for i, id := range ids {
		if at := r.Began(id); !at.IsZero() {
			took = append(took, at.Sub(due(i)))
		}
	}
	q := quantiles(took)
	rep.AtRate = &AtRate{Rate: o.Rate, ReachedPerS: reached, P50: q.P50, P99: q.P99, P999: q.P999}
	return nil
}

// until waits until an instant.
func until(ctx context.Context, at time.Time) error {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// each makes n calls from several callers, each taking the next as soon as it is free; the first error stops them
// all.
func each(ctx context.Context, callers, n int, call func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var next atomic.Int64
	for range min(callers, n) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := call(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
