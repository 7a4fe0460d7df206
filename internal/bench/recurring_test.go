package bench_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/bench"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
)

func places(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); test(t, folder(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { t.Parallel(); test(t, postgrestest.Server(t)) })
}

// numbered are options for n recurring jobs.
func numbered(url string, wrap func(engine.Store) engine.Store) bench.Options {
	o := small(url, wrap)
	o.Load = bench.Load{Batch: 500, Inserters: 2, Slots: 8}
	return o
}

func exact(t *testing.T, r bench.GoalReport, err error, least int) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if r.Lost != 0 || r.Doubled != 0 || r.Early != 0 || r.Accepted < least {
		t.Errorf("owed %d, lost %d, doubled %d, early %d; want at least %d, and nothing else", r.Accepted, r.Lost, r.Doubled, r.Early, least)
	}
	for _, m := range r.Measures {
		if m.Value < 0 || strings.HasSuffix(m.Key, "_per_s") && m.Value == 0 {
			t.Errorf("%s is %v", m.Key, m.Value)
		}
	}
	t.Logf("%+v", r)
}

// Of three thousand schedules each instant that is due fires once, and none early.
func TestSchedules(t *testing.T) {
	t.Parallel()
	places(t, func(t *testing.T, url string) {
		r, err := bench.Schedules(t.Context(), bench.SchedulesOptions{Options: numbered(url, nil), Schedules: 3000, DueRate: 200, For: 3 * time.Second})
		exact(t, r, err, 3*200)
	})
}

// Of two thousand jobs that are due in one second each runs once, and none early; what another tenant asks for runs, too.
func TestHerd(t *testing.T) {
	t.Parallel()
	places(t, func(t *testing.T, url string) {
		r, err := bench.Herd(t.Context(), bench.HerdOptions{Options: numbered(url, nil), Herd: 2000, Trickle: 5})
		exact(t, r, err, 2000+5)
	})
}

// unfair is a store that fires wrongly, once.
type unfair struct {
	engine.Store
	fire func([]engine.Firing) []engine.Firing
}

func (u unfair) Fire(ctx context.Context, fs []engine.Firing, f engine.Fence) (engine.Fired, error) {
	return u.Store.Fire(ctx, u.fire(fs), f)
}

func TestTheCheckOfSchedulesFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil         func(f *engine.Firing)
		lost, doubled int
		early         int
	}{
		"an instant is passed over": {spoil: func(f *engine.Firing) { f.Executions = nil }, lost: 1},
		"an instant fires twice": {spoil: func(f *engine.Firing) {
			e := f.Executions[0]
			e.ID[0] ^= 0xff
			e.ScheduledAt = e.ScheduledAt.Add(-time.Microsecond)
			f.Executions = append(f.Executions, e)
		}, doubled: 2}, // it is not owed, and the store has one more than ran
		"an instant fires early": {spoil: func(f *engine.Firing) { f.Executions[0].DueAt = f.Executions[0].DueAt.Add(-time.Hour) }, early: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var done atomic.Bool
			o := numbered(folder(t), func(s engine.Store) engine.Store {
				return unfair{s, func(fs []engine.Firing) []engine.Firing {
					if len(fs) > 0 && len(fs[0].Executions) > 0 && done.CompareAndSwap(false, true) {
						fs = slices.Clone(fs)
						c.spoil(&fs[0])
					}
					return fs
				}}
			})
			o.Patience = 10 * time.Second // in which a slow machine, too, gets on
			r, err := bench.Schedules(t.Context(), bench.SchedulesOptions{Options: o, Schedules: 50, DueRate: 10, For: 3 * time.Second})
			var wrong bench.Wrong
			if !errors.As(err, &wrong) || r.Lost != c.lost || r.Doubled != c.doubled || r.Early != c.early {
				t.Errorf("got %v, lost %d, doubled %d, early %d; want %d, %d, %d", err, r.Lost, r.Doubled, r.Early, c.lost, c.doubled, c.early)
			}
		})
	}
}

func TestGoals(t *testing.T) {
	goal, yes, no := 5.0, true, false
	r := bench.GoalReport{Benchmark: "a herd", Engine: "X 1", Platform: "p", Cores: 2, Accepted: 1200, Measures: []bench.Measure{
		{Key: "a", Name: "alpha", Value: 1234.5, Unit: "/s"}, {Key: "b", Name: "beta", Value: 4.25, Unit: "s", Goal: &goal, Met: &yes},
	}}
	if err := r.Check(); err != nil {
		t.Error(err)
	}
	r.Measures = append(r.Measures, bench.Measure{Key: "c", Name: "gamma", Value: 6, Unit: "s", Goal: &goal, Met: &no})
	var missed bench.Missed
	if err := r.Check(); !errors.As(err, &missed) || err.Error() != "goals were missed: gamma is 6 s, at most 5 wanted" {
		t.Errorf("got %v", err)
	}
	var b strings.Builder
	if err := r.WriteTable(&b, false); err != nil {
		t.Fatal(err)
	}
	for _, say := range []string{"alpha", "1 235 /s", "goal ≤ 5      ✓", "goal ≤ 5      ✗", "lost 0, doubled 0, early 0: all 1 200"} {
		if !strings.Contains(b.String(), say) {
			t.Errorf("the table lacks %q:\n%s", say, b.String())
		}
	}
}

func TestASchedulesRunThatIsStoppedLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"load", "measure", "check"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o := numbered(folder(t), nil) // which looks into the folder
			o.Watch = interrupter{at, cancel}
			if _, err := bench.Schedules(ctx, bench.SchedulesOptions{Options: o, Schedules: 20, DueRate: 10, For: time.Second}); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want context.Canceled", err)
			}
		})
	}
}
