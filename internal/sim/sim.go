package sim

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/internal/check"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/enginetest"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
)

// Options are the options of a run beside its seed.
type Options struct {
	Path   string                            // of a database file with its schema, and nothing in it
	Logger *slog.Logger                      // of the product; nil: none
	Mutant func(engine.Store) engine.Store   // breaks the store, to check that it is noticed; nil: none
	Owners func(engine.Owners) engine.Owners // likewise, what servers hear of each other
	Flaws  Flaws                             // break something else
}

// Result is the result of a run.
type Result struct {
	History    *check.History
	Violations []check.Violation
	Executions int
	Faults     int           // that were injected
	Settled    time.Duration // from the end of the faults until everything had ended
}

// world is one run.
type world struct {
	script
	history *check.History
	log     *slog.Logger
	store   *recorder
	shared  engine.Owners // nil: there is one server, whose store is its own
	flaws   Flaws
	clock   *skewed       // the store's
	shares  engine.Owners // the store's account of them; nil like shared
	slow    atomic.Bool   // the store is slow
	out     atomic.Bool   // all servers are to be gone
	quiet   atomic.Bool   // the last fault is over, and its delayed calls have arrived
	jumped  atomic.Int64  // when that was set, since the beginning
	ctx     context.Context
	wg      sync.WaitGroup // of everything that runs
	broken  atomic.Bool    // there are faults
	count   atomic.Int64   // of faults
	pending atomic.Int64   // clients that have not ended, and calls in progress that nobody waits for
	runs    runs

	mu      sync.Mutex
	servers []*server // guarded by mu: those that run
	remotes []*remote // guarded by mu
	started int       // guarded by mu: servers and workers so far, for their names
}

// leftBehind outlasts store calls that nobody waits for any more: a server serves many callers by one call, for up to 10 s
// after the last of them has gone.
const leftBehind = 20 * time.Second

// Run plays the script of a seed and judges what happened. It must be called in a bubble of testing/synctest.
func Run(seed uint64, o Options) (Result, error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	clk, begun := newSkewed(skewOf(seed)), time.Now()
	sound, err := sqlite.Open(ctx, sqlite.Config{Path: o.Path, Readers: 1, Clock: clk, Monotonic: func() time.Duration { return time.Since(begun) }})
	if err != nil {
		return Result{}, err
	}
	defer sound.Close()
	if err := sound.Migrate(ctx); err != nil {
		return Result{}, err
	}
	w := &world{script: write(seed), history: check.NewHistory(), log: o.Logger, flaws: o.Flaws, ctx: ctx, clock: clk}
	var store engine.Store = sound
	if !w.alone {
		shared := enginetest.NewShared(store)
		store, w.shared, w.shares = shared, shared, shared
	}
	if o.Mutant != nil {
		store = o.Mutant(store)
	}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	w.store = newRecorder(store, w.history, w.now)
	w.store.fired = w.early
	if w.tight {
		w.store.shared, w.store.most = shared(w.shared), w.limits[0].Max
	}
	if o.Owners != nil && w.shared != nil {
		w.shared = o.Owners(w.shared)
	}
	w.broken.Store(true)
	if err := w.found(ctx, sound); err != nil {
		return Result{}, err
	}
	for _, l := range w.limits {
		l.Tenant = tenant.Default
		w.store.limit(l)
		if err := sound.SetLimit(ctx, l, nil); err != nil {
			return Result{}, err
		}
		for _, k := range []check.Kind{check.Invoke, check.OK} {
			w.store.add(check.Event{Proc: "nemesis", Kind: k, Op: check.Limited, Queue: l.Queue, Max: l.Max})
		}
	}
	for range w.script.servers {
		w.startServer()
	}
	for n := range w.script.remotes {
		w.startRemote(n)
	}
	w.setClocks()
	w.wg.Go(w.observe)
	if w.outage.last > 0 {
		w.wg.Go(func() {
			if w.after(w.outage.at) {
				w.goOut()
			}
		})
	}
	for c, ws := range w.clients {
		w.later(func() { w.client(c, ws) })
	}
	w.breakThings()
	settled := w.settle()
	w.returned()
	stop()
	if err := w.wait(); err != nil {
		return Result{}, err
	}
	<-time.After(leftBehind)
	extra, err := w.read(context.Background(), sound)
	if err != nil {
		return Result{}, fmt.Errorf("read what is there in the end: %w", err)
	}
	zero := w.store.begun.Add(w.skew) // by the store's clock
	if w.jump.last == 0 {             // otherwise no clock defines an instant of the history
		extra = append(extra, check.Pauses(w.history, zero, learn)...)
		extra = append(extra, check.JobPauses(w.history, zero)...)
		extra = append(extra, check.Punctuality(w.history, zero, calmed, late)...)
		extra = append(extra, check.Rates(w.history)...)
	}
	for _, c := range []check.Check{check.Changes, check.Kept} {
		extra = append(extra, c(w.history)...)
	}
	extra = append(extra, check.Losses(w.history, hearing)...)
	if w.forget {
		gone, err := w.forgets(store)
		if err != nil {
			return Result{}, fmt.Errorf("forget what is too old: %w", err)
		}
		extra = append(extra, gone...)
	}
	if w.outage.last == 0 { // otherwise nobody was there to notice
		extra = append(extra, check.Heard(w.history, hearing)...)
	}
	extra = append(extra, w.store.over...)
	if w.script.servers == 1 { // if a partition moves while something of it runs, several may be over the limits of a tenant or a queue
		extra = append(extra, check.Quotas(w.history)...)
	}
	return Result{
		History: w.history, Violations: slices.Concat(check.All(w.history, within+w.hours), extra, w.runs.wrong),
		Executions: len(w.store.known), Faults: int(w.count.Load()), Settled: settled,
	}, nil
}

// shared is the store's account of who owns what.
func shared(o engine.Owners) *enginetest.Shared {
	s, _ := o.(*enginetest.Shared)
	return s
}

// after waits, and reports whether the run continues.
func (w *world) after(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-w.ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// fault records a fault.
func (w *world) fault(op, whom string) {
	w.count.Add(1)
	w.store.add(check.Event{Proc: whom, Kind: check.Fault, Op: check.Op(op)})
}

// breakThings applies the faults of the script, and repairs everything in the end.
func (w *world) breakThings() {
	begun := time.Now()
	for _, f := range w.faults {
		if w.after(f.at - time.Since(begun)); w.gone(f.at) {
			continue
		}
		switch f.kind {
		case killServer:
			w.killServer(f.whom, f.last, "kill")
		case stopServer:
			w.killServer(f.whom, f.last, "retire")
		case cutServer:
			w.cutServer(f.whom, f.last)
		case killWorker:
			w.killRemote(f.whom, f.last, "kill")
		case stopWorker:
			w.killRemote(f.whom, f.last, "stop")
		case pauseWorker:
			w.pauseRemote(f.whom, f.last, true)
		case cutWorker:
			w.pauseRemote(f.whom, f.last, false)
		case slowStore:
			w.slowStore(f.last)
		}
	}
	w.after(chaos + w.outage.last - time.Since(begun))
	w.broken.Store(false)
	w.mu.Lock()
	servers, remotes := w.servers, w.remotes
	w.mu.Unlock()
	for _, s := range servers {
		s.store.Set(enginetest.Faults{})
		if s.board != nil {
			s.board.cut.Store(false)
		}
	}
	for _, r := range remotes {
		r.resume()
	}
}

// slowStore makes the store slow for all servers, for a time.
func (w *world) slowStore(last time.Duration) {
	w.fault("slow", "store")
	w.slow.Store(true)
	w.mu.Lock()
	servers := w.servers
	w.mu.Unlock()
	for _, s := range servers {
		s.store.Set(enginetest.Faults{Before: w.script.store.Before, After: w.script.store.After, Slow: 0.5, Delay: 4 * time.Second})
	}
	w.wg.Go(func() {
		w.after(min(last, lease))
		if w.slow.Store(false); !w.broken.Load() {
			return
		}
		for _, s := range servers {
			if s.alive() {
				s.store.Set(w.script.store)
			}
		}
	})
}

// settle waits until everything has ended, or should have.
func (w *world) settle() time.Duration {
	// Most late calls arrive before the final time begins to count.
	w.after(lease)
	w.quiet.Store(true)
	w.store.add(check.Event{Proc: "nemesis", Kind: check.Fault, Op: check.Quiet})
	begun := time.Now()
	last := begun // when something was last open
	for time.Since(last) < calm && time.Since(begun) < within+w.hours {
		w.after(time.Second)
		if w.pending.Load() == 0 && len(w.store.pausedJobs()) > 0 {
			w.later(w.resumeAll)
		}
		if w.flowing && w.pending.Load() == 0 && len(w.store.waiting()) > 0 {
			w.later(w.tend)
		}
		marked := w.linked && w.marked()
		if w.linked && !marked && w.pending.Load() == 0 {
			w.later(w.complete)
		}
		if marked || w.store.open() > 0 || w.pending.Load() > 0 { // a late call may begin something new
			last = time.Now()
		}
	}
	return last.Sub(begun)
}

// calm is how long nothing may be open, and no call late, before a run is over.
const calm = 2 * time.Second

// later does something that may still change the store, in the background.
func (w *world) later(f func()) {
	w.pending.Add(1)
	w.wg.Go(func() {
		defer w.pending.Add(-1)
		f()
	})
}

// stuck limits how long everything may take to stop.
const stuck = 10 * time.Minute

// wait waits until everything has stopped.
func (w *world) wait() error {
	done := make(chan struct{})
	go func() { w.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-time.After(stuck):
		return fmt.Errorf("not everything stopped within %v:\n%s", stuck, stacks())
	}
}

var bubble = regexp.MustCompile(`synctest bubble \d+`)

// stacks returns the stacks of the goroutines in this bubble.
func stacks() string {
	b := make([]byte, 4<<20)
	all := strings.Split(string(b[:runtime.Stack(b, true)]), "\n\n")
	mine := bubble.FindString(all[0])
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return bubble.FindString(s) != mine }), "\n\n")
}
