package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// HerdOptions are the options of Herd.
type HerdOptions struct {
	Options
	Herd    int // recurring jobs that are due in the same second
	Trickle int // executions per second of another tenant meanwhile
}

// Herd creates recurring jobs that are all due at one instant, and measures how soon they can be claimed, how soon
// all have run, and how another tenant is affected.
func Herd(ctx context.Context, o HerdOptions) (GoalReport, error) {
	name := fmt.Sprintf("%s jobs due in the same second, %s executions per second of another tenant", thousands(o.Herd), thousands(o.Trickle))
	rep, err := measure(ctx, o.Options, name, func(ctx context.Context, r *Rig, rep *GoalReport) (Tally, error) { return herd(ctx, r, o, rep) })
	rep.Config = map[string]any{"herd": o.Herd, "trickle_per_s": o.Trickle, "batch": o.Batch, "slots": o.Slots}
	return rep, err
}

func herd(ctx context.Context, r *Rig, o HerdOptions, rep *GoalReport) (Tally, error) {
	other, err := r.tenant(ctx, "bench other", tenant.Free)
	if err != nil {
		return Tally{}, err
	}
	rate, err := r.probe(ctx, o.Herd)
	if err != nil {
		return Tally{}, err
	}
	at := foresee(r.Clock.Now(), o.Herd, rate).Add(foreseen(o.Herd))
	r.fires = newFires(o.Herd, 1, 1, at, farAway)
	var loaded atomic.Int64
	end := watch(o.Options, "load", o.Herd, func() int { return int(loaded.Load()) })
	defer func() { end() }()
	began := time.Now()
	if err := r.loadFires(ctx, everybody.Tenant, &loaded); err != nil {
		return Tally{}, err
	}
	rep.note("load_per_s", "recurring jobs created", perSecond(o.Herd, began), "/s")
	if r.Clock.Now().After(at.Add(-lookAhead - foreseen(o.Herd))) {
		return Tally{}, errSlow
	}
	end()
	spent := newMeter(ctx, r.store)

	stopScheduler, err := r.Schedule(ctx)
	if err != nil {
		return Tally{}, err
	}
	defer stopScheduler()
	defer r.Work()()
	end = watch(o.Options, "herd", o.Herd, func() int { return int(r.fires.ran.Load()) })
	trickle := r.trickle(ctx, tenant.Principal{Tenant: other, Role: tenant.System}, o.Trickle)
	if err := r.staging(ctx, at, o.Herd); err != nil {
		return Tally{}, err
	}
	staged, cost := int(r.fires.staged.Load()), spent.per(int(r.fires.staged.Load()))
	if err := r.until(ctx, at); err != nil {
		return Tally{}, err
	}
	_, err = r.waitFor(ctx, r.fires.ended.Load, func() int64 { return int64(o.Herd) })
	all := r.Clock.Now().Sub(at)
	delays, lost := trickle()
	if err != nil {
		return Tally{}, err
	}
	if lost != nil {
		return Tally{}, fmt.Errorf("the other tenant: %w", lost)
	}
	if _, err := r.Wait(ctx); err != nil {
		return Tally{}, err
	}
	stopScheduler()
	end()

	r.fires.mu.Lock()
	claimable := r.fires.last.Sub(at)
	r.fires.mu.Unlock()
	rep.goal("all_claimable_s", "until all may be claimed", round(claimable.Seconds(), 3), "s", goalClaimable)
	rep.note("staged_before", "staged before their instant", float64(staged), "jobs")
	if cost != nil {
		rep.note("stage_process_us", "processor time of this process to stage a job", cost.Process, "µs")
		rep.note("stage_database_us", "  of the database", cost.Database, "µs")
	}
	rep.note("all_ran_s", "until all have run", round(all.Seconds(), 3), "s")
	rep.note("ran_per_s", "executions run", round(float64(o.Herd)/all.Seconds(), 1), "/s")
	o50, o99, oMax := delayOf(delays(r))
	rep.note("other_p50_ms", "start of another tenant's execution, p50", o50, "ms")
	rep.goal("other_p99_ms", "  p99", o99, "ms", goalOthers)
	rep.note("other_max_ms", "  at the most", oMax, "ms")

	var checked atomic.Int64
	end = watch(o.Options, "check", o.Herd, func() int { return int(checked.Load()) })
	t, err := r.fires.check(ctx, r.store, everybody.Tenant, at.Add(time.Second), &checked)
	if err != nil {
		return t, err
	}
	others, err := r.Check(ctx)
	return Tally{t.Accepted + others.Accepted, t.Lost + others.Lost, t.Doubled + others.Doubled, t.Early}, err
}

// foreseen returns how long before its instant a herd is loaded, in whole seconds, as instants are: a scheduler that
// runs all the time sees it coming.
func foreseen(jobs int) time.Duration {
	return min(schedule.HerdAhead, time.Duration((jobs+999)/1000)*time.Second)
}

// staging waits until n executions are staged, or an instant has come.
func (r *Rig) staging(ctx context.Context, at time.Time, jobs int) error {
	for r.Clock.Now().Before(at) && r.fires.staged.Load() < int64(jobs) {
		if err := until(ctx, time.Now().Add(5*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}

// trickle creates jobs that run at once, at a rate, until stop is called; delays then holds the times from when each
// should have been created to its start.
func (r *Rig) trickle(ctx context.Context, p tenant.Principal, rate int) (stop func() (delays func(*Rig) []time.Duration, err error)) {
	ctx, cancel := context.WithCancel(ctx)
	type created struct {
		id job.ExecutionID
		at time.Time
	}
	var mu sync.Mutex
	var made []created // guarded by mu
	var failed error   // guarded by mu
	var wg sync.WaitGroup
	began := time.Now()
	wg.Go(func() {
		var calls sync.WaitGroup
		defer calls.Wait()
		for i := 0; rate > 0; i++ {
			at := began.Add(time.Duration(i) * time.Second / time.Duration(rate))
			if until(ctx, at) != nil {
				return
			}
			calls.Go(func() {
				ctx := context.WithoutCancel(ctx)
				id, err := r.Create(ctx, p)
				for errors.Is(err, engine.ErrUnavailable) { // it is retried, and its delay counts from the first try
					if err = until(ctx, time.Now().Add(50*time.Millisecond)); err == nil {
						id, err = r.Create(ctx, p)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed = err
					return
				}
				made = append(made, created{id, at})
			})
		}
	})
	return func() (func(*Rig) []time.Duration, error) {
		cancel()
		wg.Wait()
		return func(r *Rig) (all []time.Duration) {
			for _, m := range made {
				if at := r.Began(m.id); !at.IsZero() {
					all = append(all, at.Sub(m.at))
				}
			}
			return all
		}, failed
	}
}
