package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/internal/allowlist"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/config"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/dashboard"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/internal/dispatch"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/failpoint"
	"github.com/carillon-jobs/carillon/internal/feed"
	"github.com/carillon-jobs/carillon/internal/history"
	"github.com/carillon-jobs/carillon/internal/loop"
	"github.com/carillon-jobs/carillon/internal/notify"
	"github.com/carillon-jobs/carillon/internal/ownership"
	"github.com/carillon-jobs/carillon/internal/peer"
	"github.com/carillon-jobs/carillon/internal/ratelimit"
	"github.com/carillon-jobs/carillon/internal/scheduler"
	"github.com/carillon-jobs/carillon/internal/seal"
	"github.com/carillon-jobs/carillon/internal/secret"
	"github.com/carillon-jobs/carillon/internal/service"
	"github.com/carillon-jobs/carillon/internal/sign"
	"github.com/carillon-jobs/carillon/internal/telemetry"
	"github.com/carillon-jobs/carillon/internal/upkeep"
	"github.com/carillon-jobs/carillon/internal/workflows"
)

// cancelGrace limits how long an execution that was asked to stop may take to do so.
const cancelGrace = 30 * time.Second

// Options are the options of a process besides its settings.
type Options struct {
	Config config.Config
	Dev    bool // no sign-in, loopback only
	Demo   bool // add sample jobs and their target
	Out    io.Writer
	Logger *slog.Logger
	Log    *telemetry.Log                  // a log whose level can be changed at run time; nil: none
	Wrap   func(engine.Store) engine.Store // nil: none; tests wrap the store in one that misbehaves

	ConfigFile string // the settings file; "": none
}

// Run serves until ctx ends, drains, and returns when everything has stopped.
func Run(ctx context.Context, o Options) error {
	if err := arm(); err != nil {
		return err
	}
	r := &running{Options: o, log: o.Logger}
	defer r.stop()
	if err := r.start(ctx); err != nil {
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			return nil // it was told to stop before it served
		}
		return err
	}
	select {
	case <-ctx.Done():
		r.log.Info("stopping: waiting for running executions to end", "seconds", int(o.Config.Workers.Drain.Seconds()))
		return nil
	case err := <-r.failed:
		return err
	}
}

// arm sets the failpoints of builds that have them.
func arm() error {
	spec := os.Getenv(failpoint.Variable)
	if err := failpoint.Arm(spec); err != nil {
		return config.Mistakes{{Key: "failpoints", Value: spec, Want: err.Error(), From: "environment " + failpoint.Variable}}
	}
	wrong := os.Getenv(clock.SkewVariable)
	if err := clock.Skew(wrong); err != nil {
		return config.Mistakes{{Key: "clock_skew", Value: wrong, Want: err.Error(), From: "environment " + clock.SkewVariable}}
	}
	return nil
}

// running is a process and what it has started, in order.
type running struct {
	Options
	log      *slog.Logger
	stops    []stop
	draining atomic.Bool
	disp     atomic.Pointer[dispatch.Dispatcher]
	failed   chan error
	remote   bool // it works for remote servers and holds no store
	address  net.Addr
	tls      *tls.Config // nil: plain HTTP
	ring     *seal.Ring  // the keys for encryption at rest; nil: none
	vault    *secret.Vault
	metrics  *telemetry.Metrics
	tracer   *telemetry.Tracer // nil: there is none
	scrapes  net.Addr          // address of the separate metrics listener; nil: none
	token    string            // of dev: the token for other users of the machine

	tokenFile string

	office *api.Archive    // nil: history stays in the store
	doubts []func() string // each warns of something that does not keep the server from serving; empty: all is well

	scheduling atomic.Pointer[func() engine.Holding] // returns the partitions whose schedules it fires
}

// stop undoes one step of starting.
type stop struct {
	name string
	do   func() error
}

func (r *running) onStop(name string, do func() error) { r.stops = append(r.stops, stop{name, do}) }

// stop undoes everything, the last step first.
func (r *running) stop() {
	r.draining.Store(true)
	for _, s := range slices.Backward(r.stops) {
		if err := s.do(); err != nil {
			r.log.Warn("could not stop cleanly", "part", s.name, "error", err)
		}
	}
}

// heed ends the process when its store reports that it can store nothing until a restart.
func (r *running) heed(store engine.Store) {
	b, ok := store.(interface{ Broken() <-chan error })
	if !ok {
		return
	}
	r.background("store that breaks", func(ctx context.Context) {
		select {
		case err := <-b.Broken():
			r.log.Error("the store is broken; stopping, so that a restart can check what it contains", "error", err)
			select {
			case r.failed <- err:
			default: // something else has already ended it
			}
		case <-ctx.Done():
		}
	})
}

// background runs f in a goroutine that is stopped in reverse order of starting.
func (r *running) background(name string, f func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { f(ctx) })
	r.onStop(name, func() error {
		cancel()
		wg.Wait()
		return nil
	})
}

// dispatches reports whether workers claim from this process: its own, or others over the API.
func (r *running) dispatches() bool { return r.has("api") || r.has("worker") }

func (r *running) has(role string) bool { return slices.Contains(r.Config.Roles, role) }

// start starts, in this order: the listener, the store, the clock, the HTTP server, the dispatcher, the scheduler,
// the workers.
func (r *running) start(ctx context.Context) error {
	c := r.Config
	r.failed = make(chan error, 1)
	if c.TLSCert != "" {
		pair, err := loadCertificate(c.TLSCert, c.TLSKey, r.log)
		if err != nil {
			return config.Mistakes{{Key: "tls.cert", Value: c.TLSCert, Want: "with tls.key, the files of a certificate and its key: " + err.Error(), From: "as set"}}
		}
		if r.tls, err = pair.config(c); err != nil {
			return err
		}
	}
	ln, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", c.Listen, err)
	}
	r.address = ln.Addr()
	r.onStop("listener", func() error { // the HTTP server closes it too
		if err := ln.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	})

	if err := r.watched(ctx, telemetry.NewMetrics(Version)); err != nil {
		return err
	}
	ship, err := r.shipper()
	if err != nil {
		return err
	}
	store, err := OpenStore(ctx, c.Database, StoreOptions{AllowAsyncCommit: c.AllowAsyncCommit, AppRole: c.AppRole, Log: r.log, Tap: ship.Tap()})
	if err != nil {
		return err
	}
	r.onStop("store", func() error {
		err := store.Close()
		ship.Closed()
		return err
	})
	r.heed(store)
	if err := r.fit(ctx, store); err != nil {
		return err
	}
	if err := errors.Join(r.replicate(ctx, ship, store), r.backups(store)); err != nil {
		return err
	}
	if w, ok := store.(engine.Walled); ok && w.Wall() != "" {
		r.log.Warn("row-level security, the second wall between tenants, is not in effect; the first one, in every statement, is", "because", w.Wall())
	}
	if r.Wrap != nil {
		store = r.Wrap(store)
	}
	if err := r.unlock(ctx, store); err != nil {
		return err
	}
	clk := clock.NewTracked(store.Now)
	clk.Alarm(r.jumped)
	if err := clk.Refresh(ctx); err != nil {
		return fmt.Errorf("read the store's clock: %w", err)
	}
	r.background("clock", func(ctx context.Context) {
		loop.Run(ctx, r.log, "clock", nil, func(ctx context.Context) (time.Duration, error) { return time.Second, clk.Refresh(ctx) })
	})

	shared, _ := store.(engine.Feeds)
	owners := store // calls between servers bypass the observing wrappers
	kept := telemetry.Over(store, clk, r.metrics, r.tracer)
	store = kept
	if r.tracer != nil {
		r.background("begun", kept.KeepBegun)
	}
	artifacts, err := r.artifacts(ctx, store, owners) // before this server counts as present, see place.check
	if err != nil {
		return err
	}
	files, err := r.archive(ctx, store, owners)
	if err != nil {
		return err
	}
	counter := feed.NewCounter(store, clk)
	hub := feed.NewHub()
	seen := feed.Over(store, counter, hub)
	r.background("feed", func(ctx context.Context) { hub.Share(ctx, shared, r.log) })
	r.metrics.CountsLost(counter.Lost)
	r.background("counter", func(ctx context.Context) { count(ctx, counter, r.log) })
	var flows *workflows.Runner
	disp := dispatch.New(seen, clk, r.log, dispatch.Config{LeaseTTL: c.Workers.Lease, Poll: c.Workers.Poll, Owner: r.owner(owners), OwnershipTTL: c.OwnershipTTL,
		Marked: func(runs ...job.ExecutionID) { flows.Advance(runs...) }, Tokens: func() { flows.Tokens() },
		Nodes: func(ctx context.Context, fs []job.Finish) ([]job.Verdict, error) { return flows.Finish(ctx, fs) }})
	r.disp.Store(disp)
	r.background("depths", func(ctx context.Context) { sample(ctx, disp, store, clk, r.log) })
	secrets := sign.NewSecrets(store, r.ring, clk)
	var tokens *sign.Tokens
	err = r.whenAnswered(ctx, func() (err error) {
		tokens, err = sign.LoadTokens(ctx, store, r.ring)
		return err
	})
	if errors.Is(err, seal.ErrNoKey) || errors.Is(err, seal.ErrUnknownKey) {
		return fmt.Errorf("%w; set secrets.key_file or CARILLON_SECRETS_KEY to the key it was sealed under, or run 'carillon secret rekey' with both before one is removed", err)
	}
	if err != nil {
		return err
	}
	out := delivery.New(disp, r.log, kept.Step, r.vault.Step, allowlist.New(store, clk).Step, sign.Step(secrets, tokens, clk)) // which is the last step
	r.onStop("delivery", func() error { out.Close(); return nil })
	door := api.NewDoor(disp, out, clk)
	door.Guard(r.vault)
	commands := door.Of(tenant.Default)
	nudge := func() { door.Nudge(); commands.Nudge(); flows.Look() }
	hint := r.hints(owners, disp)
	var svc *service.Service // enforces quotas on runs; no run advances before it is set
	flows = workflows.New(seen, clk, workflows.Config{
		Hint: hint, Settled: disp.Settled, Refuse: service.RefusePayload, Log: r.log,
		Limits: func(ctx context.Context, t tenant.ID) (workflows.Limits, error) { return svc.RunLimits(ctx, t) },
	})
	schedules := schedule.NewCache(time.LoadLocation)
	replan, late := make(chan struct{}, 1), make(chan struct{}, 1)
	exec, err := r.executor(func(ctx context.Context, t tenant.ID, id string) (io.ReadCloser, error) {
		return artifacts.Open(ctx, t, id)
	})
	if err != nil {
		return err
	}
	_, several := owners.(engine.Owners)
	r.gauges(store, several, disp, clk, exec)
	limiter := ratelimit.New(store, clk)
	r.background("limiter", func(ctx context.Context) { loop.Run(ctx, r.log, "limiter", nil, limiter.Tick) })
	var begun func(context.Context, tenant.ID, ...[16]byte)
	if r.tracer != nil {
		begun = kept.Begun
	}
	var lent func(context.Context, tenant.ID) ([]engine.Lending, error)
	if l, ok := owners.(engine.Lender); ok {
		lent = l.Lent
	}
	var everything engine.Store = seen // also what is archived
	if files != nil {
		everything = history.Over(seen, files, r.log)
	}
	svc = service.New(everything, clk, service.Config{
		Lent:      lent,
		LookAhead: c.LookAhead, Begun: begun, Hint: hint, Nudge: nudge, Refresh: disp.Refresh, Schedules: schedules, Secrets: r.vault,
		Replan: func() { wake(replan); wake(late); disp.Wake() },
		Sealer: r.ring, Resign: secrets.Forget, Commands: r.Config.Commands.Allow, Egress: r.egress(), Artifacts: artifacts, Limiter: limiter, Runs: flows, KeepDays: c.History.Retention,
	})
	r.onStop("service", func() error { svc.Close(); return nil })
	secrets.Seed(svc.SeedSigningSecret)
	if err := r.whenAnswered(ctx, func() error { return r.signs(ctx, svc) }); err != nil {
		return err
	}
	movers := make(chan struct{}, 1)
	if files != nil {
		r.office = r.archivist(owners, files, clk, func() { wake(movers) })
	}
	key, err := r.serve(ctx, ln, store, svc, disp, out, tokens, hub, clk)
	if err != nil {
		return err
	}
	if r.has("scheduler") {
		owned := r.schedules(owners, replan)
		if owned != nil {
			r.scheduling.Store(&owned)
		}
		for part, woken := range map[scheduler.Part]chan struct{}{scheduler.Punctual: replan, scheduler.Behind: late} {
			s := scheduler.New(seen, clk, scheduler.Config{
				Part: part, LookAhead: c.LookAhead, Lanes: scheduler.Lanes(owners), Schedules: schedules, Owner: owned, Hint: hint, Nudge: nudge, Log: r.log,
			})
			r.background(string(part), func(ctx context.Context) { loop.Run(ctx, r.log, string(part), woken, s.Tick) })
		}
		reaper := &upkeep.Reaper{Store: seen, Hint: hint, Log: r.log, Poison: c.PoisonAfter}
		canceller := &upkeep.Canceller{Store: seen, Grace: cancelGrace, Log: r.log}
		watchdog := &upkeep.Watchdog{Store: seen, Clock: clk, Hint: hint, Log: r.log}
		expirer := &upkeep.Expirer{Store: seen, Log: r.log}
		redriver := &upkeep.Redriver{Store: store, Redrive: svc.AutoRedrive, Log: r.log}
		resumer := &upkeep.Resumer{Store: store, Resume: svc.AutoResume, Log: r.log}
		settler := &upkeep.Settler{Store: store}
		tidier := &upkeep.Tidier{Store: store}
		sealer := &upkeep.Sealer{Store: store}
		forgetter := &upkeep.Forgetter{Store: store, Clock: clk, Days: c.History.Retention}
		sweeper := &upkeep.Sweeper{Store: store, Clock: clk}
		for name, tick := range map[string]loop.Tick{
			"reaper": reaper.Tick, "canceller": canceller.Tick, "watchdog": watchdog.Tick,
			"expirer": expirer.Tick, "redriver": redriver.Tick, "resumer": resumer.Tick, "settler": settler.Tick, "tidier": tidier.Tick, "sealer": sealer.Tick, "forgetter": forgetter.Tick, "sweeper": sweeper.Tick,
		} {
			r.background(name, func(ctx context.Context) { loop.Run(ctx, r.log, name, nil, tick) })
		}
		if files != nil {
			m := r.mover(owners, files, clk, disp)
			r.background("archive", func(ctx context.Context) { loop.Run(ctx, r.log, "archive", movers, m.Tick) })
		}
		notifier := &notify.Notifier{Store: store, Send: svc.Notify, Clock: clk, Mine: mine(owned), Log: r.log}
		r.background("notifier", func(ctx context.Context) { loop.Run(ctx, r.log, "notifier", nil, notifier.Tick) })
		r.background("operations", func(ctx context.Context) { operate(ctx, svc.Runner(r.log), r.log) })
	}
	if r.dispatches() {
		r.background("dispatcher", disp.Run)
		r.background("workflows", flows.Run)
		r.background("dependencies", flows.RunDependencies)
		r.background("workflow runs", func(ctx context.Context) { flows.Begin(ctx, disp, hostname(), Version) })
	}
	if r.has("worker") {
		r.work(r.traced(exec), door, commands)
	}
	if r.Dev {
		if err := demonstrate(ctx, svc, tenant.Local(), "http://"+hostPort(r.address), r.Demo); err != nil {
			return fmt.Errorf("update the sample jobs: %w", err)
		}
	}
	secret, err := r.devSecret(ctx, svc)
	if err != nil {
		return fmt.Errorf("make the signing secret: %w", err)
	}
	greet(r.Out, greeting{
		Dev: r.Dev, Demo: r.Demo, Pages: dashboard.Built().Ready(), Store: store.Describe(), Embedded: embeddedFile(c.Database), Address: hostPort(r.address), TLS: r.tls != nil, Metrics: r.scrapes, Roles: c.Roles,
		Slots: c.Workers.DefaultCount, MaxSlots: c.Workers.MaxCount, Targets: r.targets(), Allow: c.CallbacksAllow, Key: key, SigningSecret: secret, Token: r.token, TokenFile: r.tokenFile, Unknown: r.Dev && !peer.Known,
	})
	return nil
}

// jumped logs that a clock was set.
func (r *running) jumped(j clock.Jump) {
	switch {
	case j.Host:
		r.log.Warn("this machine's clock was changed; due times follow the store's clock, which is read again before anything fires", "by", j.By.Round(time.Millisecond).String())
	case j.By > 0:
		r.log.Warn("the store's clock jumped ahead; it is followed if that lasts for a few seconds", "by", j.By.Round(time.Millisecond).String())
	default:
		r.log.Warn("the store's clock was set back; past fires are not repeated, and planned ones wait for their time", "by", j.By.Round(time.Millisecond).String())
	}
}

// owner shares the partitions with the other servers, if there may be any; nil: it owns them all.
func (r *running) owner(store engine.Store) dispatch.Owner {
	shared, ok := store.(engine.Owners)
	if !ok || !r.dispatches() {
		return nil
	}
	return r.keep(shared, engine.Dispatching, func() {
		if d := r.disp.Load(); d != nil {
			d.Wake()
		}
	})
}

// schedules shares the schedules with the other servers, if there may be any; nil: it owns them all.
func (r *running) schedules(store engine.Store, replan chan struct{}) func() engine.Holding {
	shared, ok := store.(engine.Owners)
	if !ok {
		return nil
	}
	return r.keep(shared, engine.Scheduling, func() { wake(replan) }).Holding
}

// mine reports whether this server does the work that only one server does: the owner of the first partition.
func mine(owned func() engine.Holding) func() bool {
	if owned == nil {
		return nil
	}
	return func() bool {
		_, ok := owned().Fence.Epochs[0]
		return ok
	}
}

// keep begins to own partitions for a duty.
func (r *running) keep(shared engine.Owners, duty engine.Duty, change func()) *ownership.Keeper {
	k := ownership.New(shared, r.log, ownership.Config{Duty: duty, Host: hostname(), TTL: r.Config.OwnershipTTL, Change: change})
	r.background("ownership", func(ctx context.Context) {
		loop.Run(ctx, r.log, "ownership", nil, k.Tick)
		last, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := k.Retire(last); err != nil {
			r.log.Warn("could not release the partitions; other servers take them over in a few seconds", "error", err)
		}
	})
	return k
}

// wake signals on a channel with a buffer of one. It never blocks.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// operate runs operations until ctx ends, and returns unfinished ones.
func operate(ctx context.Context, runner *service.Runner, log *slog.Logger) {
	loop.Run(ctx, log, "operations", runner.Wake(), runner.Tick)
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := runner.Close(last); err != nil {
		log.Warn("could not release the operations; another server continues them in a few seconds", "error", err)
	}
}

// sample records once a minute how many executions wait and run, until ctx ends.
func sample(ctx context.Context, disp *dispatch.Dispatcher, store engine.Tallies, clk clock.Clock, log *slog.Logger) {
	loop.Run(ctx, log, "depths", nil, func(ctx context.Context) (time.Duration, error) {
		now := clk.Now()
		ds, err := disp.Depths(ctx)
		if err == nil {
			_, err = store.KeepDepths(ctx, now, ds)
		}
		return now.Truncate(time.Minute).Add(time.Minute).Sub(now), err
	})
}

// count stores this server's counts until ctx ends, and then the remainder.
func count(ctx context.Context, c *feed.Counter, log *slog.Logger) {
	lost := int64(0)
	loop.Run(ctx, log, "counter", nil, func(ctx context.Context) (time.Duration, error) {
		next, err := c.Tick(ctx)
		if n := c.Lost(); n > lost {
			log.Warn("too many executions ended to count them all by tenant and job", "lost", n-lost)
			lost = n
		}
		return next, err
	})
	last, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if _, err := c.Tick(last); err != nil {
		log.Warn("could not save the final counts", "error", err)
	}
}

// hints returns the receivers of hints about executions that may be leased: the dispatcher in this process and, if
// there may be any, other servers.
func (r *running) hints(store engine.Store, disp *dispatch.Dispatcher) func([]job.Ready) {
	offer := func([]job.Ready) {}
	if r.dispatches() {
		offer = disp.Offer
	}
	shared, ok := store.(engine.Notifier)
	if !ok {
		return offer
	}
	b := newBell(shared, r.log)
	r.background("bell", b.Tell)
	if r.dispatches() {
		r.background("listener", func(ctx context.Context) { b.Hear(ctx, disp.Wake) })
	}
	return func(rs []job.Ready) {
		if len(rs) > 0 {
			offer(rs)
			b.Ring()
		}
	}
}
