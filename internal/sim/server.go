package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/check"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/internal/dispatch"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/enginetest"
	"github.com/carillon-jobs/carillon/internal/loop"
	"github.com/carillon-jobs/carillon/internal/ownership"
	"github.com/carillon-jobs/carillon/internal/scheduler"
	"github.com/carillon-jobs/carillon/internal/service"
	"github.com/carillon-jobs/carillon/internal/upkeep"
	"github.com/carillon-jobs/carillon/internal/workflows"
	"github.com/carillon-jobs/carillon/worker"
)

// server is a process with all roles, as app wires them.
type server struct {
	name  string
	ctx   context.Context // ends when it is killed
	kill  context.CancelFunc
	store *enginetest.Faulty
	board *board            // nil: its store is its own
	owner *ownership.Keeper // likewise
	disp  *dispatch.Dispatcher
	door  *api.Door
	svc   *service.Service
	host  host
	exec  *executor         // of its workers; nil: it has none
	flows *workflows.Runner // of workflow runs; nil: there are none
	hints lossyHints        // of them
	plans *ownership.Keeper // of schedules; nil: it may fire all of them
}

func (s *server) alive() bool { return s.ctx.Err() == nil }

// name returns the name of a process.
func (w *world) name(prefix string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started++
	return fmt.Sprint(prefix, w.started)
}

func (w *world) startServer() {
	s := &server{name: w.name("s")}
	s.ctx, s.kill = context.WithCancel(w.ctx)
	faults := w.script.store
	if !w.broken.Load() {
		faults = enginetest.Faults{}
	}
	faults.Seed = stream(w.seed, s.name).Uint64()
	s.store = enginetest.NewFaulty(w.store, faults)
	s.host.by.Store(int64(w.drift) * stream(w.seed, s.name).Int64N(2))
	clk := clock.NewTrackedOn(s.store.Now, s.host.now)
	for clk.Refresh(s.ctx) != nil && s.alive() { // like app: nothing starts before the store's clock was read
		w.after(100 * time.Millisecond)
	}
	cfg := dispatch.Config{LeaseTTL: lease, Poll: poll, OwnershipTTL: owned}
	if w.flowing || w.linked {
		s.hints.w, s.hints.rng = w, stream(w.seed, s.name+" hints")
	}
	if w.linked {
		cfg.Tokens = func() {
			if !s.hints.lost() {
				s.flows.Tokens()
			}
		}
	}
	if w.flowing {
		cfg.Marked = func(runs ...job.ExecutionID) {
			if !s.hints.lost() {
				s.flows.Advance(runs...)
			}
		}
		cfg.Nodes = func(ctx context.Context, fs []job.Finish) ([]job.Verdict, error) { return s.flows.Finish(ctx, fs) }
	}
	if w.shared != nil {
		s.board = &board{Owners: s.store.Owners(w.shared)}
		s.owner = ownership.New(s.board, w.log, ownership.Config{Host: s.name, TTL: owned, Change: func() {
			w.store.add(check.Event{Proc: s.name, Kind: check.Fault, Op: moved})
			s.disp.Wake()
		}})
		cfg.Owner = s.owner
		if w.apart {
			s.plans = ownership.New(s.board, w.log, ownership.Config{Duty: engine.Scheduling, Host: s.name, TTL: owned, Change: func() {}})
		}
	}
	s.disp = dispatch.New(s.store, clk, w.log, cfg)
	s.door = api.NewDoor(s.disp, delivery.New(s.disp, w.log), clk)
	s.flows = w.runner(s, clk)
	s.svc = service.New(s.store, clk, service.Config{LookAhead: ahead, Runs: s.flows, Hint: s.disp.Offer, Nudge: s.door.Nudge, Refresh: s.disp.Refresh})
	ticks := map[string]loop.Tick{
		"clock":     func(ctx context.Context) (time.Duration, error) { return time.Second, clk.Refresh(ctx) },
		"reaper":    (&upkeep.Reaper{Store: s.store, Hint: s.disp.Offer, Log: w.log, Poison: poison}).Tick,
		"canceller": (&upkeep.Canceller{Store: s.store, Grace: grace, Log: w.log}).Tick,
		"watchdog":  (&upkeep.Watchdog{Store: s.store, Clock: clk, Hint: s.disp.Offer, Log: w.log}).Tick,
		"expirer":   (&upkeep.Expirer{Store: s.store, Log: w.log}).Tick,
		"redriver":  (&upkeep.Redriver{Store: s.store, Redrive: s.svc.AutoRedrive, Log: w.log}).Tick,
		"tidier":    (&upkeep.Tidier{Store: s.store}).Tick,
	}
	if s.owner != nil {
		ticks["ownership"] = s.owner.Tick
	}
	w.schedules(s, clk, ticks)
	for _, name := range []string{"reaper", "canceller", "watchdog", "expirer", "redriver", "resumer", "settler"} {
		if ticks[name] == nil {
			continue
		}
		ticks[name] = seldom(ticks[name])
	}
	for name, tick := range ticks {
		w.wg.Go(func() { loop.Run(s.ctx, w.log, name, nil, tick) })
	}
	if w.flowing {
		w.flow(s)
	}
	if w.linked {
		w.wg.Go(func() { s.flows.RunDependencies(s.ctx) })
	}
	w.wg.Go(func() { s.disp.Run(s.ctx) })
	if !w.idle(s.name) {
		s.exec = &executor{w: w, proc: s.name + "w", gone: s.ctx.Done()}
		pool := worker.New(&inside{s.door, s}, s.exec, w.pool(s.exec.proc))
		w.wg.Go(func() { pool.Run(s.ctx) })
	}
	w.mu.Lock()
	w.servers = append(slices.Clone(w.servers), s)
	w.mu.Unlock()
}

// idle reports whether a server has no workers: in some runs none has, in others some have.
func (w *world) idle(name string) bool {
	return w.bare || w.mixed && stream(w.seed, name+" idles").IntN(2) == 0
}

// schedules adds the loops that fire schedules and end pauses.
func (w *world) schedules(s *server, clk clock.Clock, ticks map[string]loop.Tick) {
	cfg := scheduler.Config{LookAhead: ahead, Hint: s.disp.Offer, Nudge: s.door.Nudge}
	if s.plans != nil {
		cfg.Owner = s.plans.Holding
		ticks["ownership of schedules"] = s.plans.Tick
	}
	parts := []scheduler.Part{scheduler.Both}
	if w.apart {
		parts = []scheduler.Part{scheduler.Punctual, scheduler.Behind}
	}
	for _, p := range parts {
		cfg.Part = p
		ticks["scheduler "+string(p)] = scheduler.New(s.store, w.schedulerClock(clk), cfg).Tick
	}
	if w.regular {
		ticks["resumer"] = (&upkeep.Resumer{Store: s.store, Resume: s.svc.AutoResume, Log: w.log}).Tick
		ticks["settler"] = (&upkeep.Settler{Store: s.store}).Tick
	}
}

// seldom makes a waiting loop wait twice as long: most of a run's time is spent polling.
func seldom(tick loop.Tick) loop.Tick {
	return func(ctx context.Context) (time.Duration, error) {
		next, err := tick(ctx)
		return 2 * next, err
	}
}

// slots is the least number of attempts that a worker runs.
const slots = 2

// pool returns the configuration of workers.
func (w *world) pool(name string) worker.Config {
	return worker.Config{Host: name, Targets: []string{"worker"}, Kinds: []string{kind}, Slots: slots, MaxSlots: 4, Drain: 300 * time.Millisecond, Logger: w.log}
}

// board tells a server who owns what. Cut off from it, the server continues with everything else.
type board struct {
	engine.Owners
	cut atomic.Bool
}

func (b *board) Attend(ctx context.Context, s engine.Server, ttl time.Duration) (engine.Roster, error) {
	if b.cut.Load() {
		return engine.Roster{}, fmt.Errorf("attend: %w", engine.ErrUnavailable)
	}
	return b.Owners.Attend(ctx, s, ttl)
}

// moved signals that a server owns other partitions than before.
const moved check.Op = "moved"

// cutServer keeps a server from attending, for a time; its leases arrive late.
func (w *world) cutServer(whom int, last time.Duration) {
	s := w.aServer(whom)
	if s == nil || s.board == nil {
		return
	}
	w.fault("depose", s.name)
	s.board.cut.Store(true)
	s.store.Set(enginetest.Faults{Only: "Lease", Slow: 0.7, Delay: owned + last/2})
	w.wg.Go(func() {
		if w.after(last); w.broken.Load() && s.alive() {
			s.store.Set(w.script.store)
		}
		s.board.cut.Store(false)
	})
}

// killServer ends a server with its workers, at once or after it gave up what it owns; after a time a replacement
// starts.
func (w *world) killServer(whom int, after time.Duration, how string) {
	w.mu.Lock()
	if len(w.servers) == 0 {
		w.mu.Unlock()
		return
	}
	i := whom % len(w.servers)
	s := w.servers[i]
	w.servers = slices.Delete(slices.Clone(w.servers), i, i+1)
	w.mu.Unlock()
	w.fault(how, s.name)
	for _, k := range []*ownership.Keeper{s.owner, s.plans} {
		if how != "retire" || k == nil {
			continue
		}
		if err := k.Retire(w.ctx); err != nil {
			w.log.Info("it could not retire", "server", s.name, "error", err)
		}
	}
	s.store.Set(enginetest.Faults{Before: 1})
	s.kill()
	if how == outage {
		return
	}
	w.wg.Go(func() {
		if w.after(min(after, 2*lease)) && !w.out.Load() {
			w.startServer()
		}
	})
}

const outage = "outage"

// goOut ends all servers, for a long time.
func (w *world) goOut() {
	w.out.Store(true)
	for w.aServer(0) != nil {
		w.killServer(0, 0, outage)
	}
	w.after(w.outage.last)
	w.out.Store(false)
	for range w.script.servers {
		w.startServer()
	}
}

// aServer returns the n-th of the running servers, or nil.
func (w *world) aServer(n int) *server {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.servers) == 0 {
		return nil
	}
	return w.servers[n%len(w.servers)]
}

var errAway = errors.New("the connection was lost")

// inside is the door of a server for the workers in its process, which die with it.
type inside struct {
	*api.Door
	s *server
}

func living[T any](i *inside, v T, err error) (T, error) {
	if !i.s.alive() {
		return *new(T), client.ErrSession // so that the rest of the pool ends
	}
	return v, err
}

func (i *inside) Register(ctx context.Context, r client.Registration) (client.Session, error) {
	s, err := i.Door.Register(ctx, r)
	return living(i, s, err)
}

func (i *inside) Claim(ctx context.Context, s client.Session, limit int) ([]client.Attempt, error) {
	as, err := i.Door.Claim(ctx, s, limit)
	return living(i, as, err)
}

func (i *inside) Beat(ctx context.Context, s client.Session, b client.Beat) (client.Orders, error) {
	o, err := i.Door.Beat(ctx, s, b)
	return living(i, o, err)
}

func (i *inside) Report(ctx context.Context, s client.Session, os []client.Outcome) ([]client.Verdict, error) {
	vs, err := i.Door.Report(ctx, s, os)
	return living(i, vs, err)
}

func (i *inside) Release(ctx context.Context, s client.Session, held []client.Held) error {
	_, err := living(i, struct{}{}, i.Door.Release(ctx, s, held))
	return err
}

func (i *inside) Leave(ctx context.Context, s client.Session) error {
	_, err := living(i, struct{}{}, i.Door.Leave(ctx, s))
	return err
}
