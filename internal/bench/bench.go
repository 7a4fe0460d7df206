package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// Options is what a run is told. All numbers are given; what they may be is checked by whoever asks people for them.
type Options struct {
	// Open makes a fresh, migrated store, and what closes and removes it. It is called once a phase.
	Open func(ctx context.Context) (engine.Store, func(ctx context.Context) error, error)
	Load
	Jobs    int           // in each phase of throughput
	Singles int           // jobs created one by one
	Callers int           // who do so at once
	Samples int           // of the idle pickup
	Rate    int           // jobs a second in the phase rate; 0: that phase is left out
	RateFor time.Duration // how long that phase creates
	Only    []string      // names of measurements; none: all
	Watch   Watcher       // nil: nobody looks
}

// Watcher is told how a run goes.
type Watcher interface {
	// Begin says that a measurement has begun; done tells how much of the total is done, at any time.
	Begin(name string, total int, done func() int)
	// End says that the latest one has ended.
	End()
}

// Names lists the measurements.
func Names() []string {
	var all []string
	for _, p := range phases {
		all = append(all, p.names...)
	}
	return all
}

// Wrong says that a run lost or doubled executions.
type Wrong struct{ Tally }

func (w Wrong) Error() string {
	early := ""
	if w.Early > 0 {
		early = fmt.Sprintf(", %d early", w.Early)
	}
	return fmt.Sprintf("of %d executions that were accepted %d were lost and %d doubled%s; this must not happen: please report it", w.Accepted, w.Lost, w.Doubled, early)
}

// cleanTime is how long removing a throwaway store may take.
const cleanTime = 30 * time.Second

// Run measures. A run that lost or doubled anything returns Wrong beside its report.
func Run(ctx context.Context, o Options) (Report, error) {
	rep := Report{Cores: runtime.GOMAXPROCS(0), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	began := time.Now()
	wanted := slices.DeleteFunc(slices.Clone(phases), func(p phase) bool { return !p.wanted(o) })
	for len(wanted) > 0 {
		n := 1
		for wanted[0].compared && n < len(wanted) && wanted[n].compared {
			n++
		}
		if err := takeTurns(ctx, wanted[:n], o, &rep); err != nil {
			return rep, err
		}
		wanted = wanted[n:]
	}
	rep.Seconds = round(time.Since(began).Seconds(), 1)
	rep.RSSMB = round(float64(peakMemory())/(1<<20), 1)
	if rep.Lost > 0 || rep.Doubled > 0 {
		return rep, Wrong{Tally{Accepted: rep.Accepted, Lost: rep.Lost, Doubled: rep.Doubled}}
	}
	return rep, nil
}

// turns is how often phases take turns that are compared with each other: a machine that is not its user's alone is faster in
// one second than in the next.
const turns = 3

// takeTurns runs a phase, or, in turns, several; what counts of each is the turn with its median rate.
func takeTurns(ctx context.Context, ps []phase, o Options, rep *Report) error {
	n := 1
	if len(ps) > 1 {
		n = turns
	}
	all := make([]Report, 0, n)
	for range n {
		for _, p := range ps {
			if err := runPhase(ctx, p, o, rep); err != nil {
				return fmt.Errorf("%s: %w", strings.Join(p.names, " and "), err)
			}
		}
		all = append(all, *rep)
	}
	both := medianBy(all, func(r Report) float64 { return r.BothPerS })
	limits := medianBy(all, func(r Report) float64 { return r.LimitsPerS })
	rep.BothPerS, rep.BothCost, rep.LimitsPerS, rep.LimitsCost = both.BothPerS, both.BothCost, limits.LimitsPerS, limits.LimitsCost
	return nil
}

// medianBy is the one with the median rate.
func medianBy(rs []Report, rate func(Report) float64) Report {
	rs = slices.SortedFunc(slices.Values(rs), func(a, b Report) int { return cmp.Compare(rate(a), rate(b)) })
	return rs[len(rs)/2]
}

func (p phase) wanted(o Options) bool {
	if p.skip != nil && p.skip(o) {
		return false
	}
	return len(o.Only) == 0 || slices.ContainsFunc(p.names, func(n string) bool { return slices.Contains(o.Only, n) })
}

// runPhase gives a phase a store of its own, and checks it before the store is removed.
func runPhase(ctx context.Context, p phase, o Options, rep *Report) (err error) {
	store, remove, err := o.Open(ctx)
	if err != nil {
		return err
	}
	defer func() {
		// Also after Ctrl-C: what was made is removed.
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
		defer cancel()
		err = errors.Join(err, remove(clean))
	}()
	rep.Engine, _, _ = strings.Cut(store.Describe(), " at ")
	rig, err := NewRig(ctx, store, o.Load)
	if err != nil {
		return err
	}
	defer rig.Close()
	if err := p.run(ctx, rig, o, rep); err != nil {
		return err
	}
	done := watch(o, "check", rig.Accepted(), rig.Checked)
	defer done()
	t, err := rig.Check(ctx)
	rep.Accepted, rep.Lost, rep.Doubled = rep.Accepted+t.Accepted, rep.Lost+t.Lost, rep.Doubled+t.Doubled
	return err
}

// watch tells the watcher, if there is one, of a measurement until end is called.
func watch(o Options, name string, total int, done func() int) (end func()) {
	if o.Watch == nil {
		return func() {}
	}
	o.Watch.Begin(name, total, done)
	return o.Watch.End
}
