package worker

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// Source is a server as a worker sees it. A call that returns ErrSession means that the session has ended.
type Source interface {
	Register(ctx context.Context, r client.Registration) (client.Session, error)
	// Claim waits until there is work, or ctx ends, and leases up to limit attempts. A session may have two claims in
	// flight at once.
	Claim(ctx context.Context, s client.Session, limit int) ([]client.Attempt, error)
	// Start returns an attempt that was claimed with LateSecrets, whole.
	Start(ctx context.Context, s client.Session, h client.Held) (client.Attempt, error)
	Beat(ctx context.Context, s client.Session, b client.Beat) (client.Orders, error)
	Report(ctx context.Context, s client.Session, outcomes []client.Outcome) ([]client.Verdict, error)
	// Logs adds lines to the log of an attempt; see client.Client.
	Logs(ctx context.Context, s client.Session, r client.LogRequest) (client.LogAnswer, error)
	Release(ctx context.Context, s client.Session, held []client.Held) error
	Leave(ctx context.Context, s client.Session) error
}

// Nudger is a Source that can request an early heartbeat.
type Nudger interface {
	Nudged() <-chan struct{}
}

// Gauge is a Source that can count the executions that wait for the worker, up to most.
type Gauge interface {
	Waiting(ctx context.Context, s client.Session, most int) (int, error)
}

// Executor runs one attempt. It returns soon after ctx ends; context.Cause says why it ended. One that has not returned 5 s
// after a stop is abandoned: its execution is handed back, though it may still be at work. A result that is not JSON or
// has more than client.MaxResult bytes makes the attempt a failure.
type Executor interface {
	Execute(ctx context.Context, a client.Attempt) client.Outcome
}

// Why a context given to an Executor ends, beside its deadline.
var (
	ErrCancelled = errors.New("the execution was cancelled")
	ErrLeaseLost = errors.New("the lease was lost")
	ErrStopping  = errors.New("the worker is stopping")
)

// ErrSession means that the server has ended the worker's session.
var ErrSession = client.ErrSession

// Config holds the options of a pool.
type Config struct {
	Host     string
	Version  string
	Labels   []string
	Queues   []string // none: every queue
	Targets  []string
	Kinds    []string      // of handlers, for the target worker
	Slots    int           // initial number of concurrent attempts
	MaxSlots int           // and the maximum: as many as run and wait, if the source is a Gauge; else twice as many while all are in use
	Scale    time.Duration // how often the number of slots is adapted
	Drain    time.Duration // how long a stop waits for running attempts
	Logger   *slog.Logger
	Refused  func(err error) (end bool) // decides whether Run ends because the pool could not register; nil: it retries
}

func (c Config) withDefaults() Config {
	c.Slots = max(c.Slots, 1)
	c.MaxSlots = max(c.MaxSlots, c.Slots)
	if c.Scale == 0 {
		c.Scale = time.Second
	}
	if c.Drain == 0 {
		c.Drain = 30 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Pool is a set of slots that run attempts under one session at a time.
type Pool struct {
	src  Source
	exec Executor
	cfg  Config
	log  *slog.Logger

	registered atomic.Bool
	drained    atomic.Bool  // the server asked it to take no more work
	busy       atomic.Int64 // attempts that run
	onWay      atomic.Int64 // bytes of logs that the server has not accepted
}

// Use returns how many attempts are running in the pool, and their maximum.
func (p *Pool) Use() (running, capacity int) { return int(p.busy.Load()), p.cfg.MaxSlots }

// Registered reports whether the pool has a session.
func (p *Pool) Registered() bool { return p.registered.Load() }

// New makes a pool.
func New(src Source, exec Executor, cfg Config) *Pool {
	cfg = cfg.withDefaults()
	return &Pool{src: src, exec: exec, cfg: cfg, log: cfg.Logger}
}

// Run serves until ctx ends and everything that ran has ended or was released.
func (p *Pool) Run(ctx context.Context) {
	for fails := 0; ctx.Err() == nil; {
		s, err := p.src.Register(ctx, client.Registration{
			Host: p.cfg.Host, Version: p.cfg.Version, Labels: p.cfg.Labels, Queues: p.cfg.Queues, Targets: p.cfg.Targets, Kinds: p.cfg.Kinds, Capacity: p.cfg.MaxSlots,
			Memory: Memory(),
		})
		if err != nil && p.cfg.Refused != nil && p.cfg.Refused(err) {
			return
		}
		if err != nil {
			fails++
			if fails == 1 {
				p.log.Warn("cannot register; trying again", "error", err)
			}
			pause(ctx, again(fails, err, rand.N))
			continue
		}
		fails = 0
		p.log.Info("registered", "worker", s.WorkerID)
		p.registered.Store(true)
		newShift(p, s).run(ctx)
		p.registered.Store(false)
	}
}

// barred reports whether an answer will be the same the next time.
func barred(err error) bool {
	var r *client.Problem
	return hopeless(err) || errors.As(err, &r) && (r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden || r.Status == http.StatusNotFound)
}

// backoff is the wait after the n-th failure in a row.
func backoff(n int) time.Duration { return min(2*time.Second, 50*time.Millisecond<<min(n-1, 6)) }

// longestRefused limits the wait of a worker when a server has too many for now.
const longestRefused = 30 * time.Second

// again returns the wait before a worker registers again, after the n-th failure in a row. Many fail at the same time
// when a server stops or starts, so waits vary. They grow if a server says that it is busy: it accepts so many a
// second, however many ask.
func again(n int, err error, vary func(time.Duration) time.Duration) time.Duration {
	d, least := backoff(n), time.Duration(0)
	var p *client.Problem
	if errors.As(err, &p) && p.Status == http.StatusTooManyRequests {
		d, least = min(longestRefused, time.Second<<min(n-1, 5)), p.RetryAfter
	}
	return max(d/2, least) + vary(d/2+1)
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
