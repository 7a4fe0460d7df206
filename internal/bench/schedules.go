package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// SchedulesOptions are the options of Schedules.
type SchedulesOptions struct {
	Options
	Schedules int           // recurring jobs
	DueRate   int           // of these, due each second; the others are due much later
	For       time.Duration // how long to measure; whole seconds
}

// The goals.
const (
	goalDelayP99  = 1000.0 // ms, always
	goalDelayAim  = 50.0   // ms, outside herds, from the instant until it may be claimed
	goalClaimable = 5.0    // s, until all of a herd may be claimed
	goalOthers    = 1000.0 // ms, p99 of other tenants' starts during a herd
	goalMemory    = 300.0  // MB
)

// Schedules creates recurring jobs, a fixed number of which are due each second, and measures how long after their
// instants they start.
func Schedules(ctx context.Context, o SchedulesOptions) (GoalReport, error) {
	name := fmt.Sprintf("%s recurring jobs, %s due each second for %v", thousands(o.Schedules), thousands(o.DueRate), o.For)
	rep, err := measure(ctx, o.Options, name, func(ctx context.Context, r *Rig, rep *GoalReport) (Tally, error) { return schedules(ctx, r, o, rep) })
	rep.Config = map[string]any{"schedules": o.Schedules, "due_per_s": o.DueRate, "seconds": int(o.For.Seconds()), "batch": o.Batch, "slots": o.Slots}
	return rep, err
}

// longestEvery is the interval of the jobs that are due, if there are enough of them.
const longestEvery = 60

func schedules(ctx context.Context, r *Rig, o SchedulesOptions, rep *GoalReport) (Tally, error) {
	if err := loadSchedules(ctx, r, o, rep); err != nil {
		return Tally{}, err
	}
	until := r.fires.until
	stopScheduler, err := r.Schedule(ctx)
	if err != nil {
		return Tally{}, err
	}
	defer stopScheduler()
	defer r.Work()()
	owed := r.fires.owed(until)
	end := watch(o.Options, "measure", owed, func() int { return int(r.fires.ran.Load()) })
	defer func() { end() }()
	if err := r.until(ctx, until); err != nil {
		return Tally{}, err
	}
	if _, err := r.waitFor(ctx, r.fires.ran.Load, func() int64 { return int64(owed) }); err != nil {
		return Tally{}, err
	}
	stopScheduler()
	if _, err := r.waitFor(ctx, r.fires.ended.Load, r.fires.staged.Load); err != nil {
		return Tally{}, err
	}
	end()

	c50, c99, cMax := delayOf(r.fires.claimable)
	s50, s99, sMax := delayOf(r.fires.delays())
	rep.note("claimable_p50_ms", "from the instant until it may be claimed, p50", c50, "ms")
	rep.goal("claimable_p99_ms", "  p99", c99, "ms", goalDelayAim)
	rep.note("claimable_max_ms", "  at the most", cMax, "ms")
	rep.note("start_p50_ms", "from the instant until it starts, p50", s50, "ms")
	rep.goal("start_p99_ms", "  p99", s99, "ms", goalDelayP99)
	rep.note("start_max_ms", "  at the most", sMax, "ms")

	var checked atomic.Int64
	end = watch(o.Options, "check", len(r.fires.jobs), func() int { return int(checked.Load()) })
	return r.fires.check(ctx, r.store, everybody.Tenant, until, &checked)
}

// loadSchedules creates the jobs: first those due much later, then, once all are there, those that are due.
func loadSchedules(ctx context.Context, r *Rig, o SchedulesOptions, rep *GoalReport) error {
	rate, err := r.probe(ctx, o.Schedules)
	if err != nil {
		return err
	}
	phases := max(1, min(longestEvery, o.Schedules/o.DueRate))
	hot := min(o.Schedules, phases*o.DueRate)
	far := o.Schedules - hot
	var created atomic.Int64
	defer watch(o.Options, "load", o.Schedules, func() int { return int(created.Load()) })()
	began := time.Now()
	if err := r.loadFar(ctx, everybody.Tenant, far, &created); err != nil {
		return err
	}
	if far >= hot {
		rate = perSecond(far, began)
	}
	every, measured := time.Duration(phases)*time.Second, o.For.Truncate(time.Second)
	first := foresee(r.Clock.Now(), hot, rate)
	// The scheduler continues until everything measured has run.
	r.fires = newFires(hot, phases, int((measured+lookAhead+r.load.Patience)/every)+2, first, every)
	r.fires.until = first.Add(measured)
	if err := r.loadFires(ctx, everybody.Tenant, &created); err != nil {
		return err
	}
	rep.note("load_per_s", "recurring jobs created", perSecond(o.Schedules, began), "/s")
	if r.Clock.Now().After(first.Add(-lookAhead)) {
		return errSlow
	}
	return nil
}

// until waits until an instant of the store's clock.
func (r *Rig) until(ctx context.Context, at time.Time) error {
	for {
		left := at.Sub(r.Clock.Now())
		if left <= 0 {
			return nil
		}
		if err := until(ctx, time.Now().Add(min(left, time.Second))); err != nil {
			return err
		}
	}
}
