package bench

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/feed"
	"github.com/carillon-jobs/carillon/internal/loop"
	"github.com/carillon-jobs/carillon/internal/upkeep"
)

// PagesOptions are the options of Pages: how many Jobs are stored, how many Samples are taken of each page, and the
// number of concurrent Callers after the sequential requests.
type PagesOptions struct {
	Options
	Executions int           // that are stored
	Settle     time.Duration // the pause after loading; 0: depends on the number of executions
}

const (
	goalList   = 100.0 // ms, p99, of lists and histories
	goalPage   = 200.0 // ms, p99, of all other requests of the dashboard, and of each of its screens
	walkPages  = 200   // pages walked in sequence
	settleMost = time.Minute
)

// Pages stores a realistic number of jobs and executions, and measures how long the API takes for the requests of the
// dashboard.
func Pages(ctx context.Context, o PagesOptions) (GoalReport, error) {
	name := fmt.Sprintf("pages over %s jobs and %s executions", thousands(o.Jobs), thousands(o.Executions))
	var counter *feed.Counter
	watched := func(ctx context.Context, store engine.Store, load Load) (*Rig, error) {
		return newRig(ctx, store, load, func(s engine.Store, clk clock.Clock) engine.Store {
			counter = feed.NewCounter(s, clk)
			return feed.Over(s, counter, feed.NewHub())
		})
	}
	rep, err := measureOver(ctx, o.Options, name, watched, func(ctx context.Context, r *Rig, rep *GoalReport) (Tally, error) {
		return pages(ctx, r, counter, o, rep)
	})
	rep.Config = map[string]any{"jobs": o.Jobs, "executions": o.Executions, "samples": o.Samples, "callers": o.Callers, "batch": o.Batch, "slots": o.Slots}
	if err == nil {
		err = rep.refused()
	}
	return rep, err
}

func pages(ctx context.Context, r *Rig, counter *feed.Counter, o PagesOptions, rep *GoalReport) (Tally, error) {
	var others [2]tenant.ID
	for i := range others {
		var err error
		if others[i], err = r.tenant(ctx, fmt.Sprintf("bench other %d", i+1), tenant.Pro); err != nil {
			return Tally{}, err
		}
	}
	sealer := upkeep.Sealer{Store: r.store}
	defer inBackground(func(ctx context.Context) { loop.Run(ctx, r.quiet, "sealer", nil, sealer.Tick) })()
	s := newStock(r, o.Jobs, o.Executions, others)
	if err := s.fill(ctx, counter, o, rep); err != nil {
		return Tally{}, err
	}
	defer s.work()() // who lists workers sees one
	key, err := access.Bootstrap(ctx, r.store, "", r.Clock.Now())
	if err != nil {
		return Tally{}, err
	}
	auth := access.New(r.store, r.Clock, nil)
	address, stop, err := r.serve(func(c *api.Config) { c.Authenticate, c.SignIns = auth.Authenticate, auth })
	if err != nil {
		return Tally{}, err
	}
	defer stop()
	a := &asker{base: "http://" + address, key: key, http: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	defer a.http.CloseIdleConnections()
	if err := s.furnish(ctx, a); err != nil {
		return Tally{}, fmt.Errorf("furnish: %w", err)
	}
	if err := ask(ctx, a, s, o, rep); err != nil {
		return Tally{}, err
	}
	return Tally{Accepted: int(s.made.Load()) + s.waiting}, nil
}

// fill loads the stock, waits until all of it is counted, and then waits while the database does its background work.
func (s *stock) fill(ctx context.Context, counter *feed.Counter, o PagesOptions, rep *GoalReport) error {
	stopCounting := inBackground(func(ctx context.Context) {
		for ctx.Err() == nil {
			wait, err := counter.Tick(context.WithoutCancel(ctx)) // it asks to be called again at once while it has more
			if err == nil && wait <= time.Second {
				continue
			}
			_ = until(ctx, time.Now().Add(time.Second))
		}
	})
	defer stopCounting()
	stopWorking := s.work()
	defer stopWorking()
	end := watch(o.Options, "load", o.Executions, func() int { return int(s.ended.Load()) })
	began := time.Now()
	err := s.load(ctx)
	end()
	if err != nil {
		return err
	}
	rep.note("load_per_s", "executions stored, run and ended", perSecond(int(s.made.Load()), began), "/s")
	rep.note("load_s", "  until all had", round(time.Since(began).Seconds(), 1), "s")
	stopWorking()
	stopCounting()
	for {
		wait, err := counter.Tick(ctx)
		if err != nil {
			return fmt.Errorf("keep what was counted: %w", err)
		}
		if wait > time.Second {
			break
		}
	}
	if err := s.count(ctx); err != nil {
		return err
	}
	settle := cmp.Or(o.Settle, min(settleMost, time.Duration(o.Executions)*6*time.Microsecond))
	rep.note("settle_s", "left alone then, for the database to analyse", round(settle.Seconds(), 1), "s")
	defer watch(o.Options, "settle", 0, func() int { return 0 })()
	return until(ctx, time.Now().Add(settle))
}

// inBackground runs f until stop is called, which returns when f has ended.
func inBackground(f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { f(ctx) })
	return sync.OnceFunc(func() { cancel(); wg.Wait() })
}
