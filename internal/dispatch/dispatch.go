package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/loop"
)

// Config is what a dispatcher may be told.
type Config struct {
	LeaseTTL time.Duration // how long a session lives without a beat
	Poll     time.Duration // how often waiting claims look into the store when no hint came
	Window   int           // executions held in memory
	PerLane  int           // executions read from a lane at once
}

func (c Config) withDefaults() Config {
	if c.LeaseTTL == 0 {
		c.LeaseTTL = 30 * time.Second
	}
	if c.Poll == 0 {
		c.Poll = 250 * time.Millisecond
	}
	if c.Window == 0 {
		c.Window = 50_000
	}
	if c.PerLane == 0 {
		c.PerLane = 100
	}
	return c
}

// ErrStopped says that the dispatcher no longer takes claims.
var ErrStopped = errors.New("the dispatcher has stopped")

// Dispatcher hands executions to workers and takes their results.
type Dispatcher struct {
	store  engine.Leases
	clock  clock.Clock // the store's
	log    *slog.Logger
	cfg    Config
	claims chan *claim
	offers chan []job.Ready // full: dropped, and the sweep finds them
	missed atomic.Bool      // a hint was dropped
	wake   chan struct{}    // something may be ready that no hint tells of
	done   chan struct{}

	mu    sync.Mutex
	known map[job.WorkerID]*session // guarded by mu: the sessions that are served here
}

// session is what a dispatcher knows of a worker that it serves.
type session struct {
	worker    job.Worker
	local     bool              // it claims here and nowhere else
	held      map[job.Token]int // how many executions it was given here under each token
	suspect   bool              // a lease for it was not answered: it may hold what nobody was told of
	compared  time.Time         // when what it says it holds was last compared with what it was given
	completed int64
	failed    int64
}

// New makes a dispatcher over a store whose clock is given.
func New(store engine.Leases, clk clock.Clock, log *slog.Logger, cfg Config) *Dispatcher {
	return &Dispatcher{
		store: store, clock: clk, log: log, cfg: cfg.withDefaults(),
		claims: make(chan *claim), offers: make(chan []job.Ready, 1024), wake: make(chan struct{}, 1), done: make(chan struct{}),
		known: map[job.WorkerID]*session{},
	}
}

// LeaseTTL is how long a session lives without a beat.
func (d *Dispatcher) LeaseTTL() time.Duration { return d.cfg.LeaseTTL }

// Offer says that these executions may be leased once they are due. It never blocks; a hint that is lost is found by the sweep.
func (d *Dispatcher) Offer(rs []job.Ready) {
	if len(rs) == 0 {
		return
	}
	select {
	case d.offers <- rs:
	default:
		d.missed.Store(true)
	}
}

// Wake says that something may be ready that no hint tells of: claims that wait look into the store at once. It never blocks.
func (d *Dispatcher) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Register begins the session of a worker outside this process, which may claim at any server.
func (d *Dispatcher) Register(ctx context.Context, w job.Worker) error {
	return d.register(ctx, w, false)
}

// RegisterLocal begins the session of a worker in this process, which claims here and nowhere else.
func (d *Dispatcher) RegisterLocal(ctx context.Context, w job.Worker) error {
	return d.register(ctx, w, true)
}

func (d *Dispatcher) register(ctx context.Context, w job.Worker, local bool) error {
	if err := d.store.Register(ctx, w, d.cfg.LeaseTTL); err != nil {
		return err
	}
	d.remember(&session{worker: w, local: local, held: map[job.Token]int{}})
	return nil
}

// maxKnown bounds the sessions that are remembered; those of workers elsewhere can be read again.
const maxKnown = 20_000

func (d *Dispatcher) remember(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known) >= maxKnown {
		maps.DeleteFunc(d.known, func(_ job.WorkerID, s *session) bool { return !s.local })
	}
	d.known[s.worker.ID] = s
}

// Worker finds the worker of a session, also of one that began at another server. engine.ErrSession if there is none,
// or it has ended.
func (d *Dispatcher) Worker(ctx context.Context, id job.WorkerID) (job.Worker, error) {
	d.mu.Lock()
	s := d.known[id]
	d.mu.Unlock()
	if s != nil {
		return s.worker, nil
	}
	w, err := d.store.Worker(ctx, id)
	switch {
	case errors.Is(err, engine.ErrNotFound) || err == nil && w.Ended:
		return job.Worker{}, engine.ErrSession
	case err != nil:
		return job.Worker{}, err
	}
	d.remember(&session{worker: w, held: map[job.Token]int{}})
	return w, nil
}

// Beat keeps a worker's session, and with it all its leases, alive, and answers with its orders.
// engine.ErrSession if it has ended.
func (d *Dispatcher) Beat(ctx context.Context, w job.WorkerID, held []job.Lease, draining bool) ([]job.Order, error) {
	beat := job.Beat{Running: len(held), Draining: draining}
	suspect, compare := false, false
	d.mu.Lock()
	if s := d.known[w]; s != nil {
		beat.Completed, beat.Failed = s.completed, s.failed
		suspect = s.suspect && !s.local
		// The answer to a claim may be lost after the lease, here or with the server that gave it, while the session lives
		// on. What the worker does not name a whole lease later it was never told of.
		if compare = !s.local && !suspect && time.Since(s.compared) >= d.cfg.LeaseTTL; compare {
			s.compared = time.Now()
		}
	}
	d.mu.Unlock()
	got, err := d.store.Renew(ctx, []engine.Renewal{{Worker: w, Beat: beat}}, d.cfg.LeaseTTL)
	if err != nil {
		return nil, err
	}
	if len(got.Ended) > 0 {
		d.mu.Lock()
		delete(d.known, w)
		d.mu.Unlock()
		return nil, engine.ErrSession
	}
	switch {
	case suspect:
		err = d.disown(ctx, w, held, 0)
	case compare:
		err = d.disown(ctx, w, held, d.cfg.LeaseTTL)
	}
	if err != nil {
		return nil, err
	}
	return got.Orders, nil
}

// disown returns what a session was given at least age ago and holds beyond what its worker has just said it holds.
func (d *Dispatcher) disown(ctx context.Context, w job.WorkerID, held []job.Lease, age time.Duration) error {
	keep := make([]job.Token, len(held))
	for i, l := range held {
		keep[i] = l.Token
	}
	rs, err := d.store.Disown(ctx, w, keep, age)
	if err != nil {
		return err
	}
	d.mu.Lock()
	if s := d.known[w]; s != nil && age == 0 {
		s.suspect = false
	}
	d.mu.Unlock()
	d.Offer(rs)
	return nil
}

// Leave ends a worker's session; what it held is offered to others at once.
func (d *Dispatcher) Leave(ctx context.Context, w job.WorkerID) error {
	rs, err := d.store.Leave(ctx, w)
	if err != nil {
		return err
	}
	d.mu.Lock()
	delete(d.known, w)
	d.mu.Unlock()
	d.Offer(rs)
	return nil
}

// Release hands executions back, uncharged.
func (d *Dispatcher) Release(ctx context.Context, w job.WorkerID, ls []job.Lease) error {
	rs, err := d.store.Release(ctx, ls)
	if err != nil {
		return err
	}
	d.settle(w, ls, 0, 0)
	d.Offer(rs)
	return nil
}

// Report takes the outcomes of attempts and answers in their order.
func (d *Dispatcher) Report(ctx context.Context, w job.WorkerID, outcomes []job.Outcome) ([]job.Verdict, error) {
	failed := make([]job.Lease, 0)
	for _, o := range outcomes {
		if o.Status == job.OutcomeFailed {
			failed = append(failed, o.Lease)
		}
	}
	held := map[job.Lease]job.Held{}
	if len(failed) > 0 {
		hs, err := d.store.Held(ctx, failed)
		if err != nil {
			return nil, err
		}
		for _, h := range hs {
			held[job.Lease{Execution: h.ID, Token: h.Token}] = h
		}
	}
	now := d.clock.Now()
	fs := make([]job.Finish, len(outcomes))
	for i, o := range outcomes {
		h, ok := held[o.Lease]
		if !ok {
			h.Status = job.Running // a success needs no more; a failure that is no longer held is refused, or accepted again, by its token
		}
		fs[i] = job.Finish{Outcome: o, Then: job.Decide(h, o, now)}
	}
	vs, err := d.store.Finish(ctx, fs)
	if err != nil {
		return nil, err
	}
	var retry []job.Ready
	var completed, unsuccessful int64
	ls := make([]job.Lease, len(outcomes))
	for i, v := range vs {
		ls[i] = outcomes[i].Lease
		if !v.Accepted {
			d.log.Warn("a result was refused", "execution", v.Execution, "token", int64(ls[i].Token), "worker", w, "reason", v.Reason)
			continue
		}
		if outcomes[i].Status == job.OutcomeSucceeded {
			completed++
		} else {
			unsuccessful++
		}
		if h, ok := held[ls[i]]; ok && !fs[i].Then.Status.Final() {
			retry = append(retry, job.Ready{ID: h.ID, Tenant: h.Tenant, Partition: h.Partition, Class: h.Class, Priority: h.Priority, DueAt: fs[i].Then.DueAt})
		}
	}
	d.settle(w, ls, completed, unsuccessful)
	d.Offer(retry)
	return vs, nil
}

// settle forgets leases that have ended, and counts how.
func (d *Dispatcher) settle(w job.WorkerID, ls []job.Lease, completed, failed int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.known[w]
	if !ok {
		return // the session has left, or another server began it
	}
	s.completed, s.failed = s.completed+completed, s.failed+failed
	for _, l := range ls {
		if s.held[l.Token]--; s.held[l.Token] <= 0 {
			delete(s.held, l.Token)
		}
	}
}

// Run owns the window until ctx ends; claims that wait then are answered with ErrStopped.
func (d *Dispatcher) Run(ctx context.Context) {
	defer close(d.done)
	m := &matcher{d: d, win: newWindow(d.cfg.Window)}
	loop.Run(ctx, d.log, "dispatch", nil, func(ctx context.Context) (time.Duration, error) { return 0, m.pass(ctx) })
	for _, c := range m.waiting {
		c.answer(nil, ErrStopped)
	}
}
