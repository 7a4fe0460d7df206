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

// Options are the options of a run. All numbers are set; the caller validates user input.
type Options struct {
	// Open makes a fresh, migrated store, and a function that closes and removes it. It is called once per phase and
	// turn.
	Open func(ctx context.Context) (engine.Store, func(ctx context.Context) error, error)
	Load
	Jobs    int           // in each phase of throughput
	Singles int           // jobs created one by one
	Callers int           // who do so at once
	Samples int           // of the idle pickup
	Rate    int           // jobs a second in the phase rate; 0: skip that phase
	RateFor time.Duration // how long that phase creates
	Only    []string      // names of measurements; none: all
	Watch   Watcher       // nil: nobody looks
}

// Watcher is told the progress of a run.
type Watcher interface {
	// Begin reports that a measurement has begun; done may be called at any time and returns how much of the total is
	// done.
	Begin(name string, total int, done func() int)
	// End reports that the current measurement has ended.
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

// Wrong is the error of a run that lost or repeated executions.
type Wrong struct{ Tally }

func (w Wrong) Error() string {
	early := ""
	if w.Early > 0 {
		early = fmt.Sprintf(", %d early", w.Early)
	}
	return fmt.Sprintf("of %d executions that were accepted %d were lost and %d doubled%s; this must not happen: please report it", w.Accepted, w.Lost, w.Doubled, early)
}

// cleanTime limits how long it takes to remove a temporary store.
const cleanTime = 30 * time.Second

// Run runs the measurements. If executions were lost or repeated, it returns Wrong beside its report.
func Run(ctx context.Context, o Options) (Report, error) {
	rep := Report{Cores: runtime.GOMAXPROCS(0), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	began := time.Now()
	for _, group := range wanted(o) {
		var err error
		if len(group) == 1 {
			err = runPhase(ctx, group[0], o, &rep)
		} else {
			err = takeTurns(group, o, &rep, func(p phase, o Options) error { return runPhase(ctx, p, o, &rep) })
		}
		if err != nil {
			return rep, err
		}
	}
	rep.Seconds = round(time.Since(began).Seconds(), 1)
	rep.RSSMB = round(float64(peakMemory())/(1<<20), 1)
	if rep.Lost > 0 || rep.Doubled > 0 {
		return rep, Wrong{Tally{Accepted: rep.Accepted, Lost: rep.Lost, Doubled: rep.Doubled}}
	}
	return rep, nil
}

// turns counts the turns of compared phases: a shared machine is faster in one second than in the next.
const turns = 3

// takeTurns runs compared phases in turns, reversing the order each time. The whole turn with the median share
// counts.
func takeTurns(ps []phase, o Options, rep *Report, run func(phase, Options) error) error {
	rep.Turns = turns
	watcher := o.Watch
	var all []Report
	for turn := range turns {
		if watcher != nil {
			o.Watch = inTurn{watcher, turn + 1}
		}
		for _, p := range ps {
			if err := run(p, o); err != nil {
				return err
			}
		}
		all = append(all, *rep)
		slices.Reverse(ps)
	}
	m := median(all)
	rep.BothPerS, rep.BothCost, rep.LimitsPerS, rep.LimitsCost = m.BothPerS, m.BothCost, m.LimitsPerS, m.LimitsCost
	return nil
}

// median is the turn with the median share of limits.
func median(turns []Report) Report {
	turns = slices.SortedFunc(slices.Values(turns), func(a, b Report) int { return cmp.Compare(a.LimitsPerS*b.BothPerS, b.LimitsPerS*a.BothPerS) })
	return turns[len(turns)/2]
}

// inTurn names the turn of measurements.
type inTurn struct {
	Watcher
	turn int
}

func (w inTurn) Begin(name string, total int, done func() int) {
	w.Watcher.Begin(fmt.Sprintf("%s, turn %d of %d", name, w.turn, turns), total, done)
}

// wanted returns the requested phases; compared ones are together.
func wanted(o Options) (out [][]phase) {
	for _, p := range phases {
		if !p.wanted(o) {
			continue
		}
		if last := len(out) - 1; p.compared && last >= 0 && out[last][0].compared {
			out[last] = append(out[last], p)
		} else {
			out = append(out, []phase{p})
		}
	}
	return out
}

func (p phase) wanted(o Options) bool {
	if p.skip != nil && p.skip(o) {
		return false
	}
	return len(o.Only) == 0 || slices.ContainsFunc(p.names, func(n string) bool { return slices.Contains(o.Only, n) })
}

// runPhase runs a phase on its own store, and checks it before the store is removed.
func runPhase(ctx context.Context, p phase, o Options, rep *Report) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", strings.Join(p.names, " and "), err)
		}
	}()
	store, remove, err := o.Open(ctx)
	if err != nil {
		return err
	}
	defer func() {
		// Clean up after Ctrl-C, too.
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

// watch reports a measurement to the watcher, if there is one, until end is called.
func watch(o Options, name string, total int, done func() int) (end func()) {
	if o.Watch == nil {
		return func() {}
	}
	o.Watch.Begin(name, total, done)
	return o.Watch.End
}
