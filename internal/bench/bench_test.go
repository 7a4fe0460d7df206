package bench_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/bench"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
)

// small is a run that takes a second, over stores that wrap may change.
func small(url string, wrap func(engine.Store) engine.Store) bench.Options {
	return bench.Options{
		Open: func(ctx context.Context) (engine.Store, func(context.Context) error, error) {
			s, remove, err := app.OpenScratch(ctx, url)
			if err == nil && wrap != nil {
				s = wrap(s)
			}
			return s, remove, err
		},
		Load: bench.Load{Batch: 50, Inserters: 3, Payload: 64, Slots: 4}, Jobs: 260, Singles: 50, Callers: 10, Samples: 5, Rate: 200, RateFor: 250 * time.Millisecond,
	}
}

// folder is a URL in a new folder, which must be empty in the end.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	return "sqlite:" + filepath.Join(dir, "carillon.db")
}

func TestRun(t *testing.T) {
	for name, url := range map[string]func(*testing.T) string{
		"SQLite":     folder,
		"PostgreSQL": func(t *testing.T) string { return postgrestest.Server(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := bench.Run(t.Context(), small(url(t), nil))
			if err != nil {
				t.Fatal(err)
			}
			if want := 2*260 + 3*2*(260+1) + 2*260 + 260 + 1 + 50 + 50 + 15 + 50; r.Accepted != want || r.Lost != 0 || r.Doubled != 0 {
				t.Errorf("accepted %d, lost %d, doubled %d; want %d, 0, 0", r.Accepted, r.Lost, r.Doubled, want)
			}
			if r.Turns != 3 {
				t.Errorf("%d turns, want 3", r.Turns)
			}
			if r.AtRate == nil || r.Callbacks == nil || r.Remote == nil || r.Logs == nil || r.SingleMS == nil || r.HTTPMS == nil || r.IdlePickupMS == nil {
				t.Fatalf("something was not measured: %+v", r)
			}
			for what, x := range map[string]float64{
				"insert": r.InsertPerS, "work": r.WorkPerS, "both": r.BothPerS, "limits": r.LimitsPerS, "single": r.SinglePerS, "single p99": r.SingleMS.P99, "http": r.HTTPPerS, "http p99": r.HTTPMS.P99,
				"idle p50": r.IdlePickupMS.P50, "idle p99": r.IdlePickupMS.P99, "reached": r.AtRate.ReachedPerS, "at rate p50": r.AtRate.P50, "remote": r.Remote.PerS, "logs": r.Logs.PerS, "memory": r.RSSMB,
			} {
				if x <= 0 {
					t.Errorf("%s is %v", what, x)
				}
			}
			if len(r.Engine) < len(name)+2 || r.Engine[:len(name)] != name {
				t.Errorf("the engine is %q, want %s and its version", r.Engine, name)
			}
		})
	}
}

func TestOnlyWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	o := small(folder(t), nil)
	o.Only = []string{"limits"} // with nothing that it is compared with
	if r, err := bench.Run(t.Context(), o); err != nil || r.LimitsPerS <= 0 || r.BothPerS != 0 || r.Turns != 0 || r.Accepted != 261 {
		t.Errorf("got %+v, %v; want limits alone, once", r, err)
	}
	o.Only, o.Rate = []string{"idle", "rate"}, 0
	r, err := bench.Run(t.Context(), o)
	if err != nil || r.IdlePickupMS == nil || r.AtRate != nil || r.InsertPerS != 0 || r.SingleMS != nil || r.BothPerS != 0 {
		t.Errorf("got %+v, %v; want the idle pickup alone", r, err)
	}
}

// broken is a store that breaks its promises once.
type broken struct {
	engine.Store
	finish func([]job.Finish) []job.Finish
	free   func([]job.Attempt) []job.Lease // leases that it gives and does not keep
	create func([]engine.Creation) []engine.Creation
}

func (b broken) Finish(ctx context.Context, fs []job.Finish) ([]job.Verdict, error) {
	if b.finish == nil {
		return b.Store.Finish(ctx, fs)
	}
	if _, err := b.Store.Finish(ctx, b.finish(fs)); err != nil {
		return nil, err
	}
	vs := make([]job.Verdict, len(fs))
	for i, f := range fs {
		vs[i] = job.Verdict{Execution: f.Outcome.Lease.Execution, Accepted: true}
	}
	return vs, nil
}

func (b broken) Lease(ctx context.Context, gs []engine.Grant, f engine.Fence) ([]job.Attempt, error) {
	as, err := b.Store.Lease(ctx, gs, f)
	if err == nil && b.free != nil {
		_, err = b.Store.Release(ctx, job.WorkerID{}, b.free(as))
	}
	return as, err
}

func (b broken) CreateJobs(ctx context.Context, cs []engine.Creation) ([]engine.Created, error) {
	if b.create == nil {
		return b.Store.CreateJobs(ctx, cs)
	}
	_, err := b.Store.CreateJobs(ctx, b.create(slices.Clone(cs)))
	return make([]engine.Created, len(cs)), err
}

func TestTheCheckFindsWhatIsWrong(t *testing.T) {
	first := func() func() bool {
		var done atomic.Bool
		return func() bool { return done.CompareAndSwap(false, true) }
	}
	for name, c := range map[string]struct {
		wrap          func() broken
		lost, doubled int
		patience      time.Duration
	}{
		"a finish is dropped": {wrap: func() broken {
			once := first()
			return broken{finish: func(fs []job.Finish) []job.Finish {
				if len(fs) > 0 && once() {
					return fs[1:]
				}
				return fs
			}}
		}, lost: 1},
		"an execution is handed out twice": {wrap: func() broken {
			once := first()
			return broken{free: func(as []job.Attempt) []job.Lease {
				if len(as) > 0 && once() {
					return []job.Lease{as[0].Lease}
				}
				return nil
			}}
		}, doubled: 1},
		"an execution is not stored": {wrap: func() broken {
			once := first()
			return broken{create: func(cs []engine.Creation) []engine.Creation {
				if once() {
					cs[0].Jobs, cs[0].Executions = cs[0].Jobs[1:], cs[0].Executions[1:]
				}
				return cs
			}}
		}, lost: 1, patience: 500 * time.Millisecond},
	} {
		for _, only := range []string{"insert", "both", "limits", "single", "idle", "rate"} {
			t.Run(name+" in "+only, func(t *testing.T) {
				t.Parallel()
				o := small(folder(t), func(s engine.Store) engine.Store {
					b := c.wrap()
					b.Store = s
					return b
				})
				o.Only, o.Patience = []string{only}, c.patience
				r, err := bench.Run(t.Context(), o)
				exact := c.patience == 0 // else a slow machine may run out of it while more is under way
				var wrong bench.Wrong
				if !errors.As(err, &wrong) || r.Lost < c.lost || exact && r.Lost != c.lost || r.Doubled != c.doubled || wrong.Lost != r.Lost || wrong.Doubled != r.Doubled {
					t.Errorf("got %v, lost %d, doubled %d; want Wrong, %d, %d", err, r.Lost, r.Doubled, c.lost, c.doubled)
				}
			})
		}
	}
}

// interrupter stops a run when a measurement begins.
type interrupter struct {
	at   string
	stop func()
}

func (i interrupter) Begin(name string, _ int, _ func() int) {
	if name == i.at {
		i.stop()
	}
}
func (interrupter) End() {}

func TestARunThatIsStoppedLeavesNothingBehind(t *testing.T) {
	for _, at := range []string{"insert", "work", "both, turn 1 of 3", "limits, turn 2 of 3", "check, turn 3 of 3", "single", "idle", "rate", "check"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o := small(folder(t), nil) // which looks into the folder
			o.Watch = interrupter{at, cancel}
			if _, err := bench.Run(ctx, o); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want context.Canceled", err)
			}
		})
	}
}
