package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/loop"
	"github.com/carillon-jobs/carillon/internal/ownership"
	"github.com/carillon-jobs/carillon/internal/scheduler"
)

// recurs is the name of recurring jobs, by which their handler recognises them. Their payload is their number.
const recurs = "bench recurring"

// lookAhead sets how early executions are prepared, as in a server with default settings.
const lookAhead = 5 * time.Second

// fires tracks which instants of numbered recurring jobs were due, became claimable and ran. Job i is due first +
// every × k, where its phase moves the first.
type fires struct {
	first  time.Time     // of phase 0
	every  time.Duration // whole seconds
	phases int           // job i has phase i % phases, in seconds
	count  int           // instants of each job to allocate
	jobs   []job.ID      // by number; each is written by its creator
	until  time.Time     // instants before this one are measured; zero: all are

	staged  atomic.Int64 // executions that the scheduler has created
	ran     atomic.Int64 // instants that ran
	ended   atomic.Int64 // executions whose success was acknowledged
	early   atomic.Int64 // starts before the instant
	unknown atomic.Int64 // starts of what nobody is owed
	shards  [64]fireShard

	mu        sync.Mutex
	claimable []time.Duration // guarded by mu: how long after it was due each execution was claimable
	last      time.Time       // guarded by mu: when the last one was
}

// fireShard is a part of the instants, so that workers do not block each other.
type fireShard struct {
	mu    sync.Mutex
	cells []cell                       // guarded by mu: count cells for each job
	again map[job.ExecutionID]*doubled // guarded by mu: instants that started more than once
}

// cell records the outcome of an instant.
type cell struct {
	execution job.ExecutionID
	delay     time.Duration // from the instant to its first start
	runs      uint8
}

// doubled is an instant that started more than once.
type doubled struct {
	runs   int
	others bool // by another execution
}

func newFires(jobs, phases, count int, first time.Time, every time.Duration) *fires {
	f := &fires{first: first, every: every, phases: phases, count: count, jobs: make([]job.ID, jobs)}
	for i := range f.shards {
		f.shards[i] = fireShard{cells: make([]cell, (jobs/len(f.shards)+1)*count), again: map[job.ExecutionID]*doubled{}}
	}
	return f
}

// at returns the first instant of a job.
func (f *fires) at(i int) time.Time {
	return f.first.Add(time.Duration(i%f.phases) * time.Second)
}

// cell returns the cell of a job's k-th instant; the caller holds the shard's lock.
func (f *fires) cell(s *fireShard, i, k int) *cell { return &s.cells[i/len(f.shards)*f.count+k] }

// stage records that executions may be leased, as of an instant.
func (f *fires) stage(rs []job.Ready, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range rs {
		at := now
		if r.DueAt.After(at) {
			at = r.DueAt
		}
		if f.measured(r.DueAt) {
			f.claimable = append(f.claimable, at.Sub(r.DueAt))
		}
		if at.After(f.last) {
			f.last = at
		}
	}
	f.staged.Add(int64(len(rs)))
}

func (f *fires) measured(at time.Time) bool { return f.until.IsZero() || at.Before(f.until) }

// begin records that a handler received an execution of a recurring job.
func (f *fires) begin(id job.ExecutionID, a client.Attempt, now time.Time) {
	var n int
	err := json.Unmarshal(a.Payload, &n)
	if err != nil || n < 0 || n >= len(f.jobs) {
		f.unknown.Add(1)
		return
	}
	since := a.ScheduledTime.Sub(f.at(n))
	k := int(since / f.every)
	if since < 0 || since%f.every != 0 || k >= f.count {
		f.unknown.Add(1)
		return
	}
	if now.Before(a.ScheduledTime) {
		f.early.Add(1)
	}
	s := &f.shards[n%len(f.shards)]
	s.mu.Lock()
	defer s.mu.Unlock()
	c := f.cell(s, n, k)
	if c.runs++; c.runs == 1 {
		c.execution, c.delay = id, now.Sub(a.ScheduledTime)
		f.ran.Add(1)
		return
	}
	d := s.again[c.execution]
	if d == nil {
		d = &doubled{runs: 1}
		s.again[c.execution] = d
	}
	d.runs++
	d.others = d.others || id != c.execution
	c.runs = 2 // it counts no further
}

// delays returns the times from the measured instants to their starts.
func (f *fires) delays() (all []time.Duration) {
	for i := range f.jobs {
		s := &f.shards[i%len(f.shards)]
		s.mu.Lock()
		for k := range f.count {
			if c := f.cell(s, i, k); c.runs > 0 && f.measured(f.instant(i, k)) {
				all = append(all, c.delay)
			}
		}
		s.mu.Unlock()
	}
	return all
}

func (f *fires) instant(i, k int) time.Time { return f.at(i).Add(time.Duration(k) * f.every) }

// owed returns how many instants are due before the given one.
func (f *fires) owed(before time.Time) (n int) {
	for p := range f.phases {
		each := len(f.jobs) / f.phases
		if p < len(f.jobs)%f.phases {
			each++
		}
		for k := 0; f.instant(p, k).Before(before); k++ {
			n += each
		}
	}
	return n
}

// check compares what ran with what was due before an instant, and with the store. Everything staged must have ended.
func (f *fires) check(ctx context.Context, store engine.Store, t tenant.ID, owed time.Time, checked *atomic.Int64) (Tally, error) {
	tally := Tally{Early: int(f.early.Load()), Doubled: int(f.unknown.Load())}
	for i := range f.shards {
		for id, d := range f.shards[i].again {
			wrong := d.others
			if !wrong {
				var err error
				if wrong, err = unjustified(ctx, store, t, id, d.runs); err != nil {
					return tally, err
				}
			}
			if wrong {
				tally.Doubled++
			}
		}
	}
	for from := 0; from < len(f.jobs); from += checkBatch {
		ids := f.jobs[from:min(from+checkBatch, len(f.jobs))]
		stats, err := store.Stats(ctx, t, ids)
		if err != nil {
			return tally, fmt.Errorf("check that nothing was lost: %w", err)
		}
		for n := range ids {
			i := from + n
			ran := int64(0)
			for k := range f.count {
				c := f.cell(&f.shards[i%len(f.shards)], i, k)
				due := f.instant(i, k).Before(owed)
				if due {
					tally.Accepted++
				}
				switch {
				case c.runs > 0:
					ran++
				case due:
					tally.Lost++
				}
			}
			if more := stats[n].Total - ran; more > 0 {
				tally.Doubled += int(more)
			}
			if fewer := ran - stats[n].Succeeded; fewer > 0 {
				tally.Lost += int(fewer)
			}
		}
		checked.Add(int64(len(ids)))
	}
	return tally, nil
}

// recurring returns the definition of the n-th recurring job.
func recurring(n int, every time.Duration, start time.Time) job.Definition {
	return job.Definition{
		Name: recurs, Priority: job.DefaultPriority, Queue: job.DefaultQueue, Retry: job.DefaultRetry, Payload: strconv.AppendInt(nil, int64(n), 10),
		Schedule: job.Schedule{Type: job.Interval, Every: every, Start: start}, CatchUp: job.CatchUpAll, CatchUpLimit: 1000,
		Target: job.Target{Kind: job.Simulate, WorkKind: "noop", Timeout: job.DefaultTimeout},
	}
}

// farAway is the interval of jobs that never fire during the run.
const farAway = 30 * 24 * time.Hour

// loadFar creates n recurring jobs that fire from tomorrow on.
func (r *Rig) loadFar(ctx context.Context, t tenant.ID, n int, done *atomic.Int64) error {
	tomorrow := r.Clock.Now().Truncate(time.Second).Add(24 * time.Hour)
	return r.loadRecurring(ctx, t, n, done, func(i int) (job.Definition, time.Time) {
		at := tomorrow.Add(time.Duration(i%(28*86_400)) * time.Second)
		return recurring(-1, farAway, at), at
	}, nil)
}

// loadFires creates the jobs of the rig's fires.
func (r *Rig) loadFires(ctx context.Context, t tenant.ID, done *atomic.Int64) error {
	f := r.fires
	return r.loadRecurring(ctx, t, len(f.jobs), done, func(i int) (job.Definition, time.Time) {
		return recurring(i, f.every, f.at(i).Add(-f.every)), f.at(i)
	}, f.jobs)
}

// loadRecurring creates n jobs in batches, straight through the port; ids, if not nil, receives their ids.
func (r *Rig) loadRecurring(ctx context.Context, t tenant.ID, n int, done *atomic.Int64, def func(i int) (job.Definition, time.Time), ids []job.ID) error {
	batch := r.load.Batch
	return each(ctx, max(r.load.Inserters, 1), (n+batch-1)/batch, func(ctx context.Context, b int) error {
		now := r.Clock.Now().Truncate(time.Microsecond)
		jobs := make([]job.Job, min(batch, n-b*batch))
		for k := range jobs {
			d, at := def(b*batch + k)
			j := job.Job{ID: job.ID(uuid.Must(uuid.NewV7())), Tenant: t, Definition: d, State: job.Active, NextRunAt: at, CreatedAt: now, UpdatedAt: now, Revision: 1}
			j.Group = j.GroupOf("")
			jobs[k] = j
			if ids != nil {
				ids[b*batch+k] = j.ID
			}
		}
		if _, err := r.store.CreateJobs(ctx, []engine.Creation{{Tenant: t, Jobs: jobs}}); err != nil {
			return fmt.Errorf("create recurring jobs: %w", err)
		}
		done.Add(int64(len(jobs)))
		return nil
	})
}

// Schedule starts a scheduler, as a server does; stop returns once it has stopped.
func (r *Rig) Schedule(ctx context.Context) (stop func(), err error) {
	cfg := scheduler.Config{LookAhead: lookAhead, Lanes: scheduler.Lanes(r.store), Log: r.quiet, Hint: r.Dispatch.Offer}
	ticks := map[string]loop.Tick{}
	if shared, ok := r.store.(engine.Owners); ok {
		k := ownership.New(shared, r.quiet, ownership.Config{Duty: engine.Scheduling, Host: "bench"})
		if _, err := k.Tick(ctx); err != nil {
			return nil, fmt.Errorf("take the partitions: %w", err)
		}
		cfg.Owner, ticks["ownership"] = k.Holding, k.Tick
	}
	s := scheduler.New(stager{r.store, r}, r.Clock, cfg)
	// A running pass completes, so that everything it stored is counted.
	ticks["scheduler"] = func(ctx context.Context) (time.Duration, error) { return s.Tick(context.WithoutCancel(ctx)) }
	running, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for name, tick := range ticks {
		wg.Go(func() { loop.Run(running, r.quiet, name, nil, tick) })
	}
	return sync.OnceFunc(func() { cancel(); wg.Wait() }), nil
}

// stager is a store that records what is staged in it.
type stager struct {
	engine.Store
	rig *Rig
}

// Fire fires, and records what may be leased then.
func (s stager) Fire(ctx context.Context, fs []engine.Firing, f engine.Fence) (engine.Fired, error) {
	got, err := s.Store.Fire(ctx, fs, f)
	s.rig.fires.stage(got.Ready, s.rig.Clock.Now())
	return got, err
}

// waitFor waits until a count reaches a target; it returns all=false if the count has not changed for patience.
func (r *Rig) waitFor(ctx context.Context, count func() int64, want func() int64) (all bool, err error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	before, since := int64(-1), time.Now()
	for {
		n := count()
		if n >= want() {
			return true, nil
		}
		if n != before {
			before, since = n, time.Now()
		}
		if time.Since(since) > r.load.Patience {
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-tick.C:
		}
	}
}

// delayOf sorts delays and returns their median, 99th percentile and maximum.
func delayOf(all []time.Duration) (p50, p99, most float64) {
	slices.Sort(all)
	return rank(all, 0.5), rank(all, 0.99), rank(all, 1)
}
