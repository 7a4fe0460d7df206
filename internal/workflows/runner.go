package workflows

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/failpoint"
	"github.com/carillon-jobs/carillon/internal/loop"
)

// Store is the part of a store that a runner asks.
type Store interface {
	engine.Runs
	engine.Edges
	Job(ctx context.Context, t tenant.ID, r engine.Ref) (job.Job, error)
	WorkflowVersion(ctx context.Context, t tenant.ID, workflow job.ID, version int) (engine.WorkflowVersion, error)
}

// Config holds what a runner tells others.
type Config struct {
	Hint    func([]job.Ready)                                // executions wait for workers
	Settled func([]job.Lease)                                // leases of runs have ended
	Refuse  func(j job.Job, payload []byte) error            // says why an execution of a job may not have a payload of its own; nil: each may
	Limits  func(context.Context, tenant.ID) (Limits, error) // of a tenant; nil: there are none
	Graphs  workflow.Limits                                  // of compiled workflows; zero: workflow.DefaultLimits
	Log     *slog.Logger
}

// Limits are what the quota of a tenant says about its runs.
type Limits struct {
	Width   int // how many items a map that begins may have; 0: as many as any map
	Live    int // how many executions of what one trigger began may be live at once, at each depth of nesting; 0: any number
	Payload int // how many bytes a rendered payload may have; negative: as many as any value
}

// Runner begins and advances runs.
type Runner struct {
	store  Store
	clock  clock.Clock
	cfg    Config
	graphs graphs
	lists  lists // for items that ask for themselves
	begun  lists // for items that start

	mu      sync.Mutex
	waiting map[job.ExecutionID]bool // guarded by mu: runs that are to be advanced
	look    bool                     // guarded by mu: a sweep is to be made at once
	due     time.Time                // guarded by mu: when a wait is due next, by the store's clock; zero: none is known
	wake    chan struct{}

	told atomic.Bool   // of marks for jobs that depend on others
	left chan struct{} // likewise
}

// New makes a runner over a store whose clock is given.
func New(store Store, clk clock.Clock, cfg Config) *Runner {
	if cfg.Hint == nil {
		cfg.Hint = func([]job.Ready) {}
	}
	if cfg.Settled == nil {
		cfg.Settled = func([]job.Lease) {}
	}
	if cfg.Graphs == (workflow.Limits{}) {
		cfg.Graphs = workflow.DefaultLimits()
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Runner{store: store, clock: clk, cfg: cfg, graphs: newGraphs(), waiting: map[job.ExecutionID]bool{}, wake: make(chan struct{}, 1), left: make(chan struct{}, 1)}
}

// Advance says that runs have marks. It never blocks.
func (r *Runner) Advance(runs ...job.ExecutionID) {
	if len(runs) == 0 {
		return
	}
	r.mu.Lock()
	for _, id := range runs {
		r.waiting[id] = true
	}
	r.mu.Unlock()
	r.nudge()
}

// Look says that runs may have been asked to stop or to pause. It never blocks.
func (r *Runner) Look() {
	r.mu.Lock()
	r.look = true
	r.mu.Unlock()
	r.nudge()
}

// nudge wakes Run.
func (r *Runner) nudge() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// looks reports whether a sweep was asked for since the last call.
func (r *Runner) looks() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	look := r.look
	r.look = false
	return look
}

const (
	runsAtOnce = 64  // in one commit
	sweepLimit = 500 // runs that a sweep finds
	sweepEvery = time.Second
	sweepLeast = 10 * time.Millisecond // between two sweeps, however many waits are due one after the other
	spread     = 25 * time.Millisecond // within which the servers that know of a wait look for it, so that most find that it is over
)

// take removes up to runsAtOnce runs from those that wait.
func (r *Runner) take() []job.ExecutionID {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []job.ExecutionID
	for id := range r.waiting {
		if len(out) == runsAtOnce {
			break
		}
		delete(r.waiting, id)
		out = append(out, id)
	}
	return out
}

// expect has Run look for waits at an instant, by the store's clock.
func (r *Runner) expect(at time.Time) {
	if at.IsZero() {
		return
	}
	r.mu.Lock()
	sooner := r.due.IsZero() || at.Before(r.due)
	if sooner {
		r.due = at
	}
	r.mu.Unlock()
	if sooner {
		r.nudge()
	}
}

// pause is how long Run has nothing to look for, so long after the last sweep.
func (r *Runner) pause(since time.Duration) time.Duration {
	r.mu.Lock()
	due := r.due
	r.mu.Unlock()
	left := sweepEvery - since
	if !due.IsZero() {
		left = min(left, max(due.Sub(r.clock.Now()), sweepLeast-since))
	}
	return left
}

// sweep finds runs that nobody has told of: because a wait is due, or a hint was lost.
func (r *Runner) sweep(ctx context.Context) error {
	r.mu.Lock()
	r.due = time.Time{}
	r.mu.Unlock()
	ids, next, err := r.store.WakeRuns(ctx, sweepLimit)
	r.Advance(ids...) // whatever else failed
	if err != nil {
		return err
	}
	if !next.IsZero() {
		next = next.Add(rand.N(spread))
	}
	r.expect(next)
	return nil
}

// Run advances runs until ctx ends: those it is told of and those whose waits are due at once, and what a sweep finds each second.
func (r *Runner) Run(ctx context.Context) {
	var swept time.Time
	loop.Run(ctx, r.cfg.Log, "workflows", r.wake, func(ctx context.Context) (time.Duration, error) {
		for {
			if r.looks() || r.pause(time.Since(swept)) <= 0 {
				swept = time.Now()
				if err := r.sweep(ctx); err != nil {
					return 0, err
				}
			}
			ids := r.take()
			if len(ids) == 0 {
				return max(time.Millisecond, r.pause(time.Since(swept))), nil
			}
			if err := r.advance(ctx, ids); err != nil {
				r.Advance(ids...)
				return 0, err
			}
		}
	})
}

// Finish ends nodes, and commits with their ends what follows in their runs. The verdicts name the runs of which something is left to
// decide: somebody else has them, or what follows is more than a commit should hold.
func (r *Runner) Finish(ctx context.Context, fs []job.Finish) ([]job.Verdict, error) {
	var all []job.Verdict
	for some := range slices.Chunk(fs, runsAtOnce) {
		then := map[job.ExecutionID]follow{}
		vs, outs, err := r.store.FinishNodes(ctx, some, r.decide(ctx, then))
		if err == nil {
			err = beforeHints(then)
		}
		if err != nil {
			return nil, err
		}
		decided := map[job.ExecutionID]bool{}
		for _, out := range outs {
			if out.Err != nil {
				r.cfg.Log.Error("a run cannot go on; trying again", "run", out.Run, "error", out.Err)
				continue
			}
			r.tell(out, then[out.Run])
			decided[out.Run] = true
		}
		for i := range vs {
			if decided[vs[i].Run] {
				vs[i].Run = job.ExecutionID{}
			}
		}
		all = append(all, vs...)
	}
	return all, nil
}

// decide makes the decisions of one commit, and notes when their runs are to be looked at again.
func (r *Runner) decide(ctx context.Context, then map[job.ExecutionID]follow) engine.Decide {
	budget := &workflow.Budget{} // all runs of the commit share it
	return func(v engine.RunView) (*engine.RunChange, error) {
		t, err := r.open(ctx, v)
		if err != nil || t == nil {
			return nil, err
		}
		t.share(budget)
		next, err := t.fold()
		if then[v.Run.ID] = (follow{}); err == nil {
			then[v.Run.ID] = t.follow()
		}
		return next, err
	}
}

// advance takes the marks of runs and commits what follows.
func (r *Runner) advance(ctx context.Context, ids []job.ExecutionID) error {
	then := map[job.ExecutionID]follow{}
	outs, err := r.store.ChangeRuns(ctx, ids, r.decide(ctx, then))
	if err == nil {
		err = beforeHints(then)
	}
	if err != nil && len(ids) > 1 { // one of them may be at fault
		for _, id := range ids {
			if one := r.advance(ctx, []job.ExecutionID{id}); one != nil {
				r.cfg.Log.Error("a run cannot go on; trying again", "run", id, "error", one)
			}
		}
		return nil
	}
	if err != nil {
		return err
	}
	for _, out := range outs {
		if out.Err != nil {
			r.cfg.Log.Error("a run cannot go on; trying again", "run", out.Run, "error", out.Err)
			continue
		}
		r.tell(out, then[out.Run])
	}
	return nil
}

// beforeHints lets a test interrupt a server that has committed decisions and has told nobody.
func beforeHints(then map[job.ExecutionID]follow) error {
	if err := failpoint.Hit("workflow.afterCommitBeforeHint"); err != nil {
		return err
	}
	for _, f := range then {
		if f.more {
			return failpoint.Hit("workflow.midExpand")
		}
	}
	return nil
}

// tell passes on what came of a change, and notes when the run is to be looked at again.
func (r *Runner) tell(out engine.RunChanged, then follow) {
	if len(out.Ready) > 0 {
		r.cfg.Hint(out.Ready)
	}
	if out.Released != (job.Lease{}) {
		r.cfg.Settled([]job.Lease{out.Released})
	}
	r.Advance(out.Runs...)
	if out.Asked {
		r.Look()
	}
	if out.Tokens {
		r.Tokens()
	}
	if out.More || then.more {
		r.Advance(out.Run)
	}
	r.expect(then.at)
}

func newID() [16]byte { return uuid.Must(uuid.NewV7()) }
