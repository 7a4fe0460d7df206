package bench

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/internal/dispatch"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/loop"
	"github.com/carillon-jobs/carillon/internal/ownership"
	"github.com/carillon-jobs/carillon/internal/service"
	"github.com/carillon-jobs/carillon/internal/upkeep"
	"github.com/carillon-jobs/carillon/internal/workflows"
	"github.com/carillon-jobs/carillon/worker"
)

// Load describes the load that a rig puts on a store.
type Load struct {
	Batch     int           // jobs created at once
	Inserters int           // goroutines that create batches at the same time; 0: one
	Payload   int           // bytes of each job's payload
	Slots     int           // executions run at once
	Patience  time.Duration // how long without any end until the rest counts as lost; 0: a minute
}

// Rig is the product over one store, as a server wires it, with a handler that does nothing.
type Rig struct {
	Service  *service.Service
	Dispatch *dispatch.Dispatcher
	Clock    clock.Clock

	store    engine.Store
	load     Load
	def      job.Definition
	payloads [][]byte // one a customer
	ledger   *ledger
	fires    *fires // nil: nothing recurs
	flows    *workflows.Runner
	runs     *runs
	quiet    *slog.Logger
	stop     func()
}

// NewRig starts everything but the workers. The store must be migrated; the caller closes it.
func NewRig(ctx context.Context, store engine.Store, load Load) (*Rig, error) {
	return newRig(ctx, store, load, func(s engine.Store, _ clock.Clock) engine.Store { return s })
}

// newRig starts a rig whose parts work over the store that over returns.
func newRig(ctx context.Context, store engine.Store, load Load, over func(engine.Store, clock.Clock) engine.Store) (*Rig, error) {
	if load.Patience == 0 {
		load.Patience = time.Minute
	}
	clk := clock.NewTracked(store.Now)
	if err := clk.Refresh(ctx); err != nil {
		return nil, fmt.Errorf("read the store's clock: %w", err)
	}
	quiet := slog.New(slog.DiscardHandler)
	cfg := dispatch.Config{}
	ticks := map[string]loop.Tick{}
	shared, ok := store.(engine.Owners)
	if ok {
		k := ownership.New(shared, quiet, ownership.Config{Host: "bench"})
		if _, err := k.Tick(ctx); err != nil {
			return nil, fmt.Errorf("take the partitions: %w", err)
		}
		cfg.Owner, ticks["ownership"] = k, k.Tick
	}
	seen := over(store, clk)
	var flows *workflows.Runner
	cfg.Marked = func(ids ...job.ExecutionID) { flows.Advance(ids...) }
	cfg.Nodes = func(ctx context.Context, fs []job.Finish) ([]job.Verdict, error) { return flows.Finish(ctx, fs) }
	d := dispatch.New(seen, clk, quiet, cfg)
	began := newRuns()
	flows = workflows.New(seen, clk, workflows.Config{
		Hint: d.Offer, Settled: func(ls []job.Lease) { d.Settled(ls); began.settled(ls) }, Refuse: service.RefusePayload, Log: quiet,
	})
	reaper := &upkeep.Reaper{Store: seen, Hint: d.Offer, Log: quiet, Poison: 3}
	running, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { d.Run(running) })
	ticks["reaper"], ticks["tidier"] = reaper.Tick, (&upkeep.Tidier{Store: store}).Tick
	ticks["watchdog"] = (&upkeep.Watchdog{Store: seen, Clock: clk, Hint: d.Offer, Log: quiet}).Tick
	ticks["expirer"] = (&upkeep.Expirer{Store: seen, Log: quiet}).Tick
	ticks["clock"] = func(ctx context.Context) (time.Duration, error) { return time.Second, clk.Refresh(ctx) }
	for name, tick := range ticks {
		wg.Go(func() { loop.Run(running, quiet, name, nil, tick) })
	}
	payloads := make([][]byte, customers)
	for c := range payloads {
		payloads[c] = ofCustomer(load.Payload, c)
	}
	return &Rig{
		Service:  service.New(seen, clk, service.Config{LookAhead: 5 * time.Second, Hint: d.Offer, Refresh: d.Refresh, Runs: flows}),
		Dispatch: d, Clock: clk, store: store, load: load, def: definition(load.Payload), payloads: payloads, ledger: newLedger(), flows: flows, runs: began, quiet: quiet,
		stop: func() { cancel(); wg.Wait() },
	}, nil
}

// Close stops everything that NewRig started.
func (r *Rig) Close() { r.Service.Close(); r.stop() }

func definition(payload int) job.Definition {
	return job.Definition{
		Name: "bench", Priority: job.DefaultPriority, Queue: job.DefaultQueue, Schedule: job.Schedule{Type: job.Immediate}, Retry: job.DefaultRetry, Payload: Payload(payload),
		Target: job.Target{Kind: job.Simulate, WorkKind: "noop", Timeout: job.DefaultTimeout},
	}
}

// customers is the number of different payloads of jobs, each with its own customer.
const customers = 1000

// ofCustomer returns a payload that names a customer, of the given size if that is enough.
func ofCustomer(n, customer int) []byte {
	head := fmt.Sprintf(`{"customer": %d, "text": "`, customer)
	return []byte(head + strings.Repeat("x", max(0, n-len(head)-2)) + `"}`)
}

// plain returns the i-th job; keyed returns the same with a limit on how many of its customer's jobs run at once.
func (r *Rig) plain(i int) job.Definition {
	d := r.def
	if p := r.payloads[i%customers]; len(p) == len(d.Payload) {
		d.Payload = p
	}
	return d
}

func (r *Rig) keyed(i int) job.Definition {
	d := r.def
	d.Payload, d.ConcurrencyKey, d.MaxConcurrent = r.payloads[i%customers], "payload.customer", 100
	return d
}

// Payload returns n bytes of JSON; nil for none.
func Payload(n int) []byte {
	switch n {
	case 0:
		return nil
	case 1:
		return []byte("1")
	}
	return slices.Concat([]byte(`"`), bytes.Repeat([]byte("x"), n-2), []byte(`"`))
}

// Insert creates n jobs in batches.
func (r *Rig) Insert(ctx context.Context, p tenant.Principal, n int) error {
	return r.InsertEach(ctx, n, func(int) tenant.Principal { return p }, r.plain)
}

// InsertEach creates n jobs in batches, each by somebody; define returns the i-th job.
func (r *Rig) InsertEach(ctx context.Context, n int, by func(batch int) tenant.Principal, def func(i int) job.Definition) error {
	batch := r.load.Batch
	return each(ctx, max(r.load.Inserters, 1), (n+batch-1)/batch, func(ctx context.Context, i int) error {
		defs := make([]job.Definition, min(batch, n-i*batch))
		for k := range defs {
			defs[k] = def(i*batch + k)
		}
		p := by(i)
		all, _, err := r.Service.CreateJobs(ctx, p, defs, service.Once[[]service.NewJob]{})
		if err == nil {
			r.ledger.accept(p.Tenant, all...)
		}
		return err
	})
}

// Create creates one job.
func (r *Rig) Create(ctx context.Context, p tenant.Principal) (job.ExecutionID, error) {
	n, _, err := r.Service.CreateJob(ctx, p, r.def, service.Once[[]service.NewJob]{})
	if err != nil {
		return job.ExecutionID{}, err
	}
	r.ledger.accept(p.Tenant, n)
	return n.Execution, nil
}

// Accepted returns how many executions have been accepted so far.
func (r *Rig) Accepted() int { return int(r.ledger.count.Load()) }

// Ended returns how many executions have ended so far.
func (r *Rig) Ended() int { return int(r.ledger.ended.Load()) }

// Checked returns how many of the accepted executions Check has examined.
func (r *Rig) Checked() int { return int(r.ledger.checked.Load()) }

// Began returns when an execution's handler first began; zero if it did not.
func (r *Rig) Began(id job.ExecutionID) time.Time {
	x := r.ledger.record(id)
	if x.runs == 0 {
		return time.Time{}
	}
	return r.ledger.start.Add(x.began)
}

// Work starts the workers; stop returns once they have stopped.
func (r *Rig) Work() (stop func()) {
	pool := worker.New(source{api.NewDoor(r.Dispatch, delivery.New(r.Dispatch, slog.New(slog.DiscardHandler)), r.Clock), r.ledger, r.fires}, handler{r.ledger, r.fires, r.runs, r.Clock}, worker.Config{
		Host: "bench", Version: "bench", Targets: []string{string(job.Simulate)}, Slots: r.load.Slots,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { pool.Run(ctx) })
	return sync.OnceFunc(func() { cancel(); wg.Wait() })
}

// Wait returns when everything accepted has ended, or all=false when nothing has for too long: then Check reports
// what is lost.
func (r *Rig) Wait(ctx context.Context) (all bool, err error) {
	return r.ledger.wait(ctx, r.load.Patience)
}

// Check compares what was accepted and run with the store.
func (r *Rig) Check(ctx context.Context) (Tally, error) { return r.ledger.check(ctx, r.store) }

// handler does nothing but record its calls.
type handler struct {
	ledger *ledger
	fires  *fires
	runs   *runs
	clock  clock.Clock
}

// Execute succeeds at once.
func (h handler) Execute(_ context.Context, a client.Attempt) client.Outcome {
	at := time.Now()
	id, err := job.ParseExecutionID(a.ExecutionID)
	if err != nil {
		return client.Outcome{Status: client.Failed, Error: &client.Error{Type: "UNKNOWN", Message: err.Error()}}
	}
	if h.fires != nil && a.JobName == recurs {
		h.fires.begin(id, a, h.clock.Now())
	} else {
		h.ledger.begin(id, at)
		h.runs.begin(a.JobName, at)
	}
	return client.Outcome{Status: client.Succeeded}
}

// source is the server that the worker asks, and records the results it accepted.
type source struct {
	worker.Source
	ledger *ledger
	fires  *fires
}

// Report passes outcomes on.
func (s source) Report(ctx context.Context, w client.Session, outcomes []client.Outcome) ([]client.Verdict, error) {
	vs, err := s.Source.Report(ctx, w, outcomes)
	s.ledger.acknowledged()
	for i, v := range vs {
		if v.Verdict != client.Accepted || outcomes[i].Status != client.Succeeded {
			continue
		}
		id, err := job.ParseExecutionID(v.ExecutionID)
		switch {
		case err != nil:
		case s.fires != nil && s.ledger.record(id).runs == 0:
			s.fires.ended.Add(1)
		default:
			s.ledger.end(id)
		}
	}
	s.ledger.tell()
	return vs, err
}

// tenant creates a tenant with the weight of a tier, and without its limits.
func (r *Rig) tenant(ctx context.Context, name string, tier tenant.Tier) (tenant.ID, error) {
	t, _, err := r.Service.CreateTenant(ctx, everybody, name, tier, service.Once[tenant.Tenant]{})
	if err != nil {
		return "", err
	}
	none := tenant.NoLimit
	_, err = r.Service.UpdateTenant(ctx, everybody, t.ID, service.TenantChange{Quotas: func(o tenant.Overrides) tenant.Overrides {
		o.ActiveJobs, o.ExecutionsPerMinute, o.PayloadBytes, o.MaxRetries = new(int64(none)), &none, &none, &none
		o.BestPriority, o.ShortestIntervalMS = new(1), new(int64(0))
		return o
	}})
	return t.ID, err
}
