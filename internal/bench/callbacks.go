package bench

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/executor"
	"github.com/carillon-jobs/carillon/internal/seal"
	"github.com/carillon-jobs/carillon/internal/service"
	"github.com/carillon-jobs/carillon/internal/sign"
	"github.com/carillon-jobs/carillon/worker"
)

const (
	callbackSlots = 64
	callbackRate  = 1000 // per second, at which latency is measured
	callbackFor   = 5 * time.Second
)

// Callbacks measures the rate of callbacks, and the time from the end of a claim until its target is called.
type Callbacks struct {
	PerS float64    `json:"per_s"`
	Rate int        `json:"rate"`
	Sent *Quantiles `json:"sent_ms"`
}

// callbacks makes signed callbacks to a target in this process: first at full speed, then at a steady rate.
func callbacks(ctx context.Context, r *Rig, o Options, rep *Report) error {
	t, err := newCallee(r)
	if err != nil {
		return err
	}
	defer t.close()
	r.def.Target = job.Target{Kind: job.HTTP, URL: t.url, Method: "POST", Timeout: job.DefaultTimeout}
	end := watch(o, "callbacks", o.Jobs, r.Ended)
	defer func() { end() }()
	if err := r.Insert(ctx, everybody, o.Jobs); err != nil {
		return err
	}
	stop, err := t.work(ctx)
	if err != nil {
		return err
	}
	defer stop()
	began := time.Now()
	if _, err := r.Wait(ctx); err != nil {
		return err
	}
	out := &Callbacks{PerS: perSecond(r.Ended(), began), Rate: callbackRate}
	end()
	n := min(o.Jobs, callbackRate*int(callbackFor/time.Second))
	end = watch(o, "callbacks at a rate", n, func() int { return r.Ended() - o.Jobs })
	t.time()
	began = time.Now()
	err = each(ctx, 100, n, func(ctx context.Context, i int) error {
		if err := until(ctx, began.Add(time.Duration(i)*time.Second/callbackRate)); err != nil {
			return err
		}
		_, err := r.Create(ctx, everybody)
		return err
	})
	if err != nil {
		return err
	}
	if _, err := r.Wait(ctx); err != nil {
		return err
	}
	out.Sent = quantiles(t.took())
	rep.Callbacks = out
	return nil
}

// callee is a target, and the worker that calls it as a server's own worker would.
type callee struct {
	rig    *Rig
	url    string
	server *http.Server

	mu      sync.Mutex
	claimed map[string]time.Time // guarded by mu: nil until it is timed
	sent    []time.Duration      // guarded by mu
}

func newCallee(r *Rig) (*callee, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &callee{rig: r, url: fmt.Sprintf("http://%s/", ln.Addr())}
	c.server = &http.Server{Handler: c, ReadHeaderTimeout: time.Minute}
	go func() { _ = c.server.Serve(ln) }() // it ends with close
	return c, nil
}

func (c *callee) close() { _ = c.server.Close() }

// ServeHTTP records when a callback arrived.
func (c *callee) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	id := r.Header.Get("X-Execution-ID")
	c.mu.Lock()
	if from, ok := c.claimed[id]; ok {
		c.sent = append(c.sent, at.Sub(from))
		delete(c.claimed, id)
	}
	c.mu.Unlock()
	_, _ = io.Copy(io.Discard, r.Body)
	w.WriteHeader(http.StatusNoContent)
}

func (c *callee) time() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claimed = map[string]time.Time{}
}

func (c *callee) took() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent
}

// work starts a worker whose callbacks are signed.
func (c *callee) work(ctx context.Context) (stop func(), err error) {
	keys, err := seal.ParseKeys(seal.NewKey())
	if err != nil {
		return nil, err
	}
	ring, err := seal.NewRing(keys...)
	if err != nil {
		return nil, err
	}
	r := c.rig
	svc := service.New(r.store, r.Clock, service.Config{Sealer: ring})
	if _, _, err := svc.AddSigningSecret(ctx, everybody, sign.HMAC, 0, service.Once[engine.SigningSecret]{}); err != nil {
		return nil, err
	}
	tokens, err := sign.LoadTokens(ctx, r.store, ring)
	if err != nil {
		return nil, err
	}
	desk := delivery.New(r.Dispatch, slog.New(slog.DiscardHandler), sign.Step(sign.NewSecrets(r.store, ring, r.Clock), tokens, r.Clock))
	exec := executor.New(executor.Config{AllowLoopback: true, Log: slog.New(slog.DiscardHandler), Breaker: executor.Breaker{Failures: 5}})
	pool := worker.New(caller{source{api.NewDoor(r.Dispatch, desk, r.Clock), r.ledger, r.fires}, c}, noting{exec, r.ledger}, worker.Config{
		Host: "bench", Version: "bench", Targets: []string{string(job.HTTP)}, Slots: callbackSlots, MaxSlots: callbackSlots,
	})
	running, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { pool.Run(running) })
	return sync.OnceFunc(func() { cancel(); wg.Wait(); exec.Close() }), nil
}

// caller records when attempts were claimed.
type caller struct {
	source
	callee *callee
}

// Claim passes claims on.
func (c caller) Claim(ctx context.Context, s client.Session, limit int) ([]client.Attempt, error) {
	as, err := c.source.Claim(ctx, s, limit)
	at := time.Now()
	c.callee.mu.Lock()
	defer c.callee.mu.Unlock()
	if c.callee.claimed != nil {
		for _, a := range as {
			c.callee.claimed[a.ExecutionID] = at
		}
	}
	return as, err
}

// noting is an executor that records in the ledger what it runs.
type noting struct {
	*executor.Executor
	ledger *ledger
}

// Execute runs the attempt.
func (n noting) Execute(ctx context.Context, a client.Attempt) client.Outcome {
	if id, err := job.ParseExecutionID(a.ExecutionID); err == nil {
		n.ledger.begin(id, time.Now())
	}
	return n.Executor.Execute(ctx, a)
}
