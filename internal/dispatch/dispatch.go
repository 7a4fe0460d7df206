package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/loop"
)

// Config holds the options of a dispatcher.
type Config struct {
	LeaseTTL time.Duration // how long a session lives without a beat
	Poll     time.Duration // how often waiting claims poll the store without a hint
	Window   int           // executions held in memory
	PerLane  int           // executions read from a lane at once
	Owner    Owner         // nil: no other server uses this store

	OwnershipTTL time.Duration // how long a server keeps its partitions without attending

	Marked func(runs ...job.ExecutionID) // nodes of these workflow runs have ended; nil: nobody asks
	Tokens func()                        // executions of jobs on which others depend have ended; nil: nobody asks

	// Nodes finishes nodes of workflows, and decides what follows in the same commit; nil: the store's Finish does, and what follows is
	// decided later. Its verdicts name the runs of which something is left to decide.
	Nodes func(ctx context.Context, fs []job.Finish) ([]job.Verdict, error)
}

func (c Config) withDefaults() Config {
	if c.LeaseTTL == 0 {
		c.LeaseTTL = 30 * time.Second
	}
	if c.Poll == 0 {
		c.Poll = 250 * time.Millisecond
	}
	if c.OwnershipTTL == 0 {
		c.OwnershipTTL = 5 * time.Second
	}
	if c.Window == 0 {
		c.Window = 50_000
	}
	if c.PerLane == 0 {
		c.PerLane = 100
	}
	return c
}

// ErrStopped means that the dispatcher no longer accepts claims.
var ErrStopped = errors.New("the dispatcher has stopped")

// Store is the part of a store that a dispatcher uses.
type Store interface {
	engine.Sessions
	engine.Leases
	Disown(ctx context.Context, w job.WorkerID, keep []job.Token, before time.Time) (engine.Requeued, error)
	Draw(ctx context.Context, ds []engine.Draw) ([]engine.Drawn, error)
	Tenants(ctx context.Context) ([]tenant.Tenant, error)
	Limits(ctx context.Context, t tenant.ID) ([]job.Limit, error)
	AppendLogs(ctx context.Context, as []engine.LogAppend) ([]engine.LogAppended, error)
}

// Owner decides which partitions this server owns, of those shared with other servers.
type Owner interface {
	// Holding returns what this server owns now.
	Holding() engine.Holding
	// SetDemand sets whether workers are waiting here for executions.
	SetDemand(waiting bool)
	// Want asks the owners of partitions for them.
	Want(ps []job.Partition)
	// FitUntil reports, for this server's partitions with waiting executions that only their owner may lease, until
	// when the server can serve them: for a while after the last claim of a worker that takes them. After that it may
	// be asked to give them up. It also lists, in order, the partitions in which its workers are behind, and the
	// number of slots of these workers.
	FitUntil(at map[job.Partition]time.Time, behind []job.Partition, slots int)
	// Borrow asks for shares of limits; see engine.Owners.
	Borrow(ctx context.Context, bs []engine.Share) ([]int, error)
}

// Dispatcher hands executions to workers and takes their results.
type Dispatcher struct {
	store  Store
	clock  clock.Clock // the store's
	log    *slog.Logger
	cfg    Config
	claims chan *claim
	offers chan []job.Ready // full: hints are dropped, and the sweep finds the executions
	missed atomic.Bool      // a hint was dropped
	wake   chan struct{}    // something may be ready without a hint
	freed  chan struct{}    // leases that count have ended
	anew   atomic.Bool      // limits, tenants or cordons have changed
	done   chan struct{}

	reports *batch[report, []job.Verdict]
	beats   *batch[engine.Renewal, Orders]
	logs    *batch[engine.LogAppend, engine.LogAppended]
	starts  *batch[engine.HeldBy, *job.Attempt]

	ledger   ledger
	watchers watchers
	loads    loads

	pauses atomic.Pointer[pauses] // of queues, as they were last read

	counts atomic.Bool // leases count against limits
	mu     sync.Mutex
	known  map[job.WorkerID]*session // guarded by mu: the sessions served here
	ended  []job.Lease               // guarded by mu: ended leases that may count against limits
}

// session holds what a dispatcher knows about a worker that it serves.
type session struct {
	worker    job.Worker
	local     bool               // it claims only here
	held      map[job.Token]int  // how many executions it was given here under each token
	suspect   bool               // local, and the answer to one of its leases was lost: it may hold executions unknowingly
	since     time.Time          // when the first of the next heartbeats to compare came, by the store's clock
	named     map[job.Token]bool // by any of them
	completed int64
	failed    int64
}

func newSession(w job.Worker, local bool) *session {
	return &session{worker: w, local: local, held: map[job.Token]int{}}
}

// New makes a dispatcher over a store and its clock.
func New(store Store, clk clock.Clock, log *slog.Logger, cfg Config) *Dispatcher {
	d := &Dispatcher{
		store: store, clock: clk, log: log, cfg: cfg.withDefaults(),
		claims: make(chan *claim), offers: make(chan []job.Ready, 1024), wake: make(chan struct{}, 1), freed: make(chan struct{}, 1), done: make(chan struct{}),
		known: map[job.WorkerID]*session{},
	}
	d.loads.life, d.loads.end = context.WithCancel(context.Background())
	d.reports = &batch[report, []job.Verdict]{max: 100, do: d.finish}
	d.beats = &batch[engine.Renewal, Orders]{max: 1000, do: d.renew}
	d.starts = &batch[engine.HeldBy, *job.Attempt]{max: 50, do: d.store.Leased}
	d.logs = &batch[engine.LogAppend, engine.LogAppended]{max: 100, do: d.store.AppendLogs}
	return d
}

// Refresh signals that limits, tenants or cordons have changed; it never blocks. Without it the change takes effect a
// second or two later.
func (d *Dispatcher) Refresh() {
	d.anew.Store(true)
	d.Wake()
}

// Now returns the time of the store's clock.
func (d *Dispatcher) Now() time.Time { return d.clock.Now() }

// LeaseTTL returns how long a session lives without a heartbeat.
func (d *Dispatcher) LeaseTTL() time.Duration { return d.cfg.LeaseTTL }

// Offer hints that these executions may be leased once they are due. It never blocks; the sweep finds those whose
// hint is lost.
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

// Wake hints that something may be ready: waiting claims look into the store at once. It never blocks.
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

// RegisterLocal begins the session of a worker in this process, which claims only here.
func (d *Dispatcher) RegisterLocal(ctx context.Context, w job.Worker) error {
	return d.register(ctx, w, true)
}

func (d *Dispatcher) register(ctx context.Context, w job.Worker, local bool) error {
	if err := d.store.Register(ctx, w, d.cfg.LeaseTTL); err != nil {
		return err
	}
	d.remember(newSession(w, local))
	return nil
}

// maxKnown limits the number of cached sessions; those of remote workers can be read again.
const maxKnown = 20_000

func (d *Dispatcher) remember(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known) >= maxKnown {
		maps.DeleteFunc(d.known, func(_ job.WorkerID, s *session) bool { return !s.local })
	}
	d.known[s.worker.ID] = s
}

// Worker finds the worker of a session, even if it began at another server. It returns engine.ErrSession if there is
// none; also, with the worker, if its session has ended.
func (d *Dispatcher) Worker(ctx context.Context, id job.WorkerID) (job.Worker, error) {
	d.mu.Lock()
	s := d.known[id]
	d.mu.Unlock()
	if s != nil {
		return s.worker, nil
	}
	w, err := d.store.Worker(ctx, id)
	switch {
	case errors.Is(err, engine.ErrNotFound):
		return job.Worker{}, engine.ErrSession
	case err != nil:
		return job.Worker{}, err
	case w.Ended:
		return w, engine.ErrSession
	}
	d.remember(newSession(w, false))
	return w, nil
}

// Sign is a worker's heartbeat.
type Sign struct {
	Held     []job.Lease // all leases that it holds; nil: it does not say
	Advances []job.Advance
	Draining bool
	Memory   job.Memory
}

// Orders is the response to a worker's heartbeat.
type Orders struct {
	Orders []job.Order
	Drain  bool
	ended  bool
}

// Beat keeps a worker's session, and with it all its leases, alive, and returns its orders. It fails with
// engine.ErrSession if the session has ended.
func (d *Dispatcher) Beat(ctx context.Context, w job.WorkerID, s Sign) (Orders, error) {
	beat := job.Beat{Running: len(s.Held), Draining: s.Draining, Memory: s.Memory}
	d.mu.Lock()
	if k := d.known[w]; k != nil {
		beat.Completed, beat.Failed = k.completed, k.failed
	}
	d.mu.Unlock()
	got, err := d.beats.call(ctx, engine.Renewal{Worker: w, Beat: beat, Advances: s.Advances})
	if err != nil {
		return Orders{}, err
	}
	if got.ended {
		d.mu.Lock()
		delete(d.known, w)
		d.mu.Unlock()
		return Orders{}, engine.ErrSession
	}
	if keep, before, ok := d.unheard(w, s.Held); ok {
		rs, err := d.disown(ctx, w, keep, before)
		if err != nil {
			return Orders{}, err
		}
		for _, r := range rs {
			got.Orders = append(got.Orders, job.Order{Worker: w, Lease: job.Lease{Execution: r.ID}, Kind: job.OrderLost})
		}
	}
	return got, nil
}

// Keep keeps a session alive that takes no orders.
func (d *Dispatcher) Keep(ctx context.Context, w job.WorkerID, held []job.Lease) error {
	_, err := d.Beat(ctx, w, Sign{Held: held})
	return err
}

// renew keeps several sessions alive at once.
func (d *Dispatcher) renew(ctx context.Context, rs []engine.Renewal) ([]Orders, error) {
	got, err := d.store.Renew(ctx, rs, d.cfg.LeaseTTL)
	if err != nil {
		return nil, err
	}
	out := make([]Orders, len(rs))
	for i, r := range rs {
		out[i].ended = slices.Contains(got.Ended, r.Worker)
		out[i].Drain = slices.Contains(got.Drain, r.Worker)
		for _, o := range got.Orders {
			if o.Worker == r.Worker {
				out[i].Orders = append(out[i].Orders, o)
			}
		}
	}
	return out, nil
}

// unheard reports whether to look for leases that a remote worker holds without knowing, which tokens it named, and
// the instant before which it was given what it must have named: the response to a claim may be lost after the lease,
// here or with the server that sent it, while the session lives on. It takes two heartbeats a lease apart that do not
// name a token: a single one may have been sent before the claim. Heartbeats to other servers in between do not
// matter, since each names everything that the worker holds.
func (d *Dispatcher) unheard(w job.WorkerID, named []job.Lease) (keep []job.Token, before time.Time, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.known[w]
	if s == nil || s.local || named == nil {
		return nil, before, false
	}
	now := d.clock.Now()
	if s.named == nil || now.Before(s.since) { // or the clock was set back
		s.since, s.named = now, map[job.Token]bool{}
	}
	for _, l := range named {
		s.named[l.Token] = true
	}
	if now.Sub(s.since) < d.cfg.LeaseTTL {
		return nil, before, false
	}
	keep, before = slices.Collect(maps.Keys(s.named)), s.since
	s.since = now
	clear(s.named)
	for _, l := range named {
		s.named[l.Token] = true
	}
	return keep, before, true
}

// disown releases leases that a worker does not know of, among those given before an instant; zero: at any time.
func (d *Dispatcher) disown(ctx context.Context, w job.WorkerID, keep []job.Token, before time.Time) ([]job.Ready, error) {
	got, err := d.store.Disown(ctx, w, keep, before)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	if s := d.known[w]; s != nil && before.IsZero() {
		s.suspect = false
	}
	d.mu.Unlock()
	if len(got.Ready) > 0 {
		d.log.Warn("executions that their worker never heard of are queued again", "worker", w, "executions", len(got.Ready))
	}
	d.Offer(got.Ready)
	return got.Ready, nil
}

// Leave ends a worker's session; the executions it held are offered to others at once.
func (d *Dispatcher) Leave(ctx context.Context, w job.WorkerID) error {
	got, err := d.store.Leave(ctx, w)
	if err != nil {
		return err
	}
	d.mu.Lock()
	delete(d.known, w)
	d.mu.Unlock()
	d.Offer(got.Ready)
	return nil
}

// Release returns executions to the queue, uncharged.
func (d *Dispatcher) Release(ctx context.Context, w job.WorkerID, ls []job.Lease) error {
	got, err := d.store.Release(ctx, w, ls)
	if err != nil {
		return err
	}
	back := make(map[job.ExecutionID]bool, len(got.Ready))
	for _, r := range got.Ready {
		back[r.ID] = true
	}
	over := slices.DeleteFunc(slices.Clone(ls), func(l job.Lease) bool { return !back[l.Execution] }) // the worker may name leases that are not its own
	d.settle(w, ls, over, 0, 0)
	d.Offer(got.Ready)
	return nil
}

// report holds the outcomes that one worker reports.
type report struct {
	worker   job.WorkerID
	outcomes []job.Outcome
}

// Report accepts the outcomes of attempts and returns their verdicts in order. Concurrent reports share a commit.
func (d *Dispatcher) Report(ctx context.Context, w job.WorkerID, outcomes []job.Outcome) ([]job.Verdict, error) {
	if len(outcomes) == 0 {
		return nil, nil
	}
	for i := range outcomes {
		if outcomes[i].Status == job.OutcomeParked {
			return d.reportParked(ctx, w, outcomes)
		}
	}
	return d.reports.call(ctx, report{w, outcomes})
}

// finish decides the consequences of the outcomes, and makes the store apply them.
func (d *Dispatcher) finish(ctx context.Context, rs []report) ([][]job.Verdict, error) {
	fs, held, err := d.decide(ctx, rs)
	if err != nil {
		return nil, err
	}
	vs, err := d.apply(ctx, fs)
	if err != nil {
		return nil, err
	}
	out := make([][]job.Verdict, len(rs))
	var retry []job.Ready
	var runs []job.ExecutionID
	tokens := false
	for i, r := range rs {
		n := len(r.outcomes)
		out[i] = vs[:n]
		var completed, unsuccessful int64
		ls, over := make([]job.Lease, n), make([]job.Lease, 0, n)
		for k, v := range vs[:n] {
			o := &r.outcomes[k]
			ls[k] = o.Lease
			if v.Reason != job.RefusedUnknown { // it may be another's, and continue
				over = append(over, o.Lease)
			}
			if !v.Run.IsZero() {
				runs = append(runs, v.Run)
			}
			tokens = tokens || v.Tokens
			if !v.Accepted {
				d.log.Warn("a result was refused", "execution", v.Execution, "token", int64(o.Token), "worker", r.worker, "reason", v.Reason)
				continue
			}
			if o.Status == job.OutcomeSucceeded {
				completed++
			} else {
				unsuccessful++
			}
			if h, ok := held[o.Lease]; ok && !fs[k].Came(&vs[k]).Status.Final() {
				x := h.Ready()
				x.DueAt = fs[k].Then.DueAt
				retry = append(retry, x)
			}
		}
		d.settle(r.worker, ls, over, completed, unsuccessful)
		vs, fs = vs[n:], fs[n:]
	}
	d.Offer(retry)
	if tokens && d.cfg.Tokens != nil {
		d.cfg.Tokens()
	}
	if len(runs) > 0 && d.cfg.Marked != nil {
		d.cfg.Marked(runs...)
	}
	return out, nil
}

// apply has transitions applied, and answers in order.
func (d *Dispatcher) apply(ctx context.Context, fs []job.Finish) ([]job.Verdict, error) {
	var nodes, others []job.Finish
	if d.cfg.Nodes != nil {
		for i := range fs {
			if fs[i].Outcome.Execution.OfNode() {
				nodes = append(nodes, fs[i])
			}
		}
	}
	if len(nodes) == 0 {
		return d.store.Finish(ctx, fs)
	}
	ended, err := d.cfg.Nodes(ctx, nodes)
	if err != nil && !isUnavailable(err) { // a run may be at fault, which must not keep results from being stored
		d.log.Error("what follows the ends of nodes could not be decided at once; it is decided later", "nodes", len(nodes), "error", err)
		ended, err = d.store.Finish(ctx, nodes)
	}
	if err != nil || len(nodes) == len(fs) {
		return ended, err
	}
	for i := range fs {
		if !fs[i].Outcome.Execution.OfNode() {
			others = append(others, fs[i])
		}
	}
	rest, err := d.store.Finish(ctx, others)
	if err != nil {
		return nil, err
	}
	out := make([]job.Verdict, 0, len(fs))
	for i := range fs {
		from := &rest
		if fs[i].Outcome.Execution.OfNode() {
			from = &ended
		}
		out = append(out, (*from)[0])
		*from = (*from)[1:]
	}
	return out, nil
}

// Settled records the end of leases that no worker ended: those of workflow runs.
func (d *Dispatcher) Settled(ls []job.Lease) { d.settle(job.WorkerID{}, nil, ls, 0, 0) }

// decide returns the consequence of each outcome; it first reads what that requires.
func (d *Dispatcher) decide(ctx context.Context, rs []report) ([]job.Finish, map[job.Lease]job.Held, error) {
	var failed []job.Lease
	n := 0
	for _, r := range rs {
		n += len(r.outcomes)
		for i := range r.outcomes {
			if s := r.outcomes[i].Status; s == job.OutcomeFailed || s == job.OutcomeSnoozed {
				failed = append(failed, r.outcomes[i].Lease)
			}
		}
	}
	held := map[job.Lease]job.Held{}
	if len(failed) > 0 {
		hs, err := d.store.Held(ctx, failed)
		if err != nil {
			return nil, nil, err
		}
		for _, h := range hs {
			held[job.Lease{Execution: h.ID, Token: h.Token}] = h
		}
	}
	now := d.clock.Now()
	fs := make([]job.Finish, 0, n)
	for _, r := range rs {
		for _, o := range r.outcomes {
			h, ok := held[o.Lease]
			if !ok {
				h.Status = job.Running // a success needs nothing else; a failure that is no longer held is refused, or accepted again, by its token
			}
			then := job.Decide(h, o, now)
			o.Error = h.Explain(o, then)
			fs = append(fs, job.Finish{Outcome: o, Then: then, Worker: r.worker})
		}
	}
	return fs, held, nil
}

// settle removes what a worker no longer holds, and counts finished executions by outcome.
func (d *Dispatcher) settle(w job.WorkerID, ls, over []job.Lease, completed, failed int64) {
	d.over(over)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.counts.Load() {
		d.ended = append(d.ended, over...)
		select {
		case d.freed <- struct{}{}:
		default:
		}
	}
	s, ok := d.known[w]
	if !ok {
		return // the session has left, or another server began it
	}
	s.completed, s.failed = s.completed+completed, s.failed+failed
	for _, l := range ls {
		s.drop(l.Token)
	}
}

// Run owns the window until ctx ends; claims that are waiting then fail with ErrStopped.
func (d *Dispatcher) Run(ctx context.Context) {
	defer close(d.done)
	defer d.loads.close()
	m := newMatcher(d)
	loop.Run(ctx, d.log, "dispatch", nil, func(ctx context.Context) (time.Duration, error) { return 0, m.tick(ctx) })
	_ = m.receiveAll() // whose claims are told
	for _, c := range m.waiting {
		c.answer(nil, ErrStopped)
	}
}

func isUnavailable(err error) bool { return errors.Is(err, engine.ErrUnavailable) }
