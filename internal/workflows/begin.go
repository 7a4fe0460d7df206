package workflows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/failpoint"
	"github.com/carillon-jobs/carillon/internal/loop"
)

// Dispatcher hands out the executions of workflow jobs.
type Dispatcher interface {
	RegisterLocal(ctx context.Context, w job.Worker) error
	Claim(ctx context.Context, id job.WorkerID, limit int) ([]job.Attempt, error)
	Keep(ctx context.Context, w job.WorkerID, held []job.Lease) error
	Report(ctx context.Context, w job.WorkerID, outcomes []job.Outcome) ([]job.Verdict, error)
	Leave(ctx context.Context, w job.WorkerID) error
	LeaseTTL() time.Duration
}

// beginsAtOnce bounds the runs that one claim begins.
const beginsAtOnce = 32

// Begin takes executions of workflow jobs and begins their runs until ctx ends.
func (r *Runner) Begin(ctx context.Context, d Dispatcher, host, release string) {
	b := &beginner{runner: r, dispatcher: d, host: host, release: release}
	loop.Run(ctx, r.cfg.Log, "workflow runs", nil, b.session)
}

// beginner is a worker that begins runs.
type beginner struct {
	runner        *Runner
	dispatcher    Dispatcher
	host, release string

	mu   sync.Mutex
	held []job.Lease // guarded by mu
}

// session registers, and begins runs until the session or ctx ends.
func (b *beginner) session(ctx context.Context) (time.Duration, error) {
	id := job.WorkerID(newID())
	w := job.Worker{
		ID: id, Host: b.host, Version: b.release, Capacity: beginsAtOnce, StartedAt: b.runner.clock.Now().Truncate(time.Microsecond), Targets: []string{string(job.Workflow)},
	}
	if err := b.dispatcher.RegisterLocal(ctx, w); err != nil {
		return 0, err
	}
	alive, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { defer end(); b.beat(alive, id) })
	err := b.claim(alive, id)
	end()
	wg.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if left := b.dispatcher.Leave(last, id); left != nil && ctx.Err() == nil {
		err = errors.Join(err, left)
	}
	return 0, err
}

// beat keeps the session alive until it has ended.
func (b *beginner) beat(ctx context.Context, id job.WorkerID) {
	every := max(b.dispatcher.LeaseTTL()/3, 10*time.Millisecond)
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		b.mu.Lock()
		held := slices.Clone(b.held)
		b.mu.Unlock()
		if err := b.dispatcher.Keep(ctx, id, held); errors.Is(err, engine.ErrSession) {
			return
		}
	}
}

// claim begins runs, one claim after the other.
func (b *beginner) claim(ctx context.Context, id job.WorkerID) error {
	for ctx.Err() == nil {
		as, err := b.dispatcher.Claim(ctx, id, beginsAtOnce)
		if err != nil || len(as) == 0 {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		b.hold(as)
		outcomes, err := b.runner.begin(ctx, as)
		if err != nil { // their leases end with the session, and another begins them
			b.runner.cfg.Log.Error("runs could not begin; trying again", "runs", len(as), "error", err)
			return err
		}
		if _, err := b.dispatcher.Report(ctx, id, outcomes); err != nil {
			return err
		}
		b.hold(nil)
	}
	return nil
}

func (b *beginner) hold(as []job.Attempt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = nil
	for i := range as {
		b.held = append(b.held, as[i].Lease)
	}
}

// begin begins the runs of executions and says what is reported of each: that it is parked or, if its run has ended before under
// another lease, how.
func (r *Runner) begin(ctx context.Context, as []job.Attempt) ([]job.Outcome, error) {
	outcomes := make([]job.Outcome, len(as))
	var begin []engine.NewRun
	var then []follow
	budget := &workflow.Budget{} // all runs of the commit share it
	var of []int
	for i := range as {
		outcomes[i] = job.Outcome{Lease: as[i].Lease, Status: job.OutcomeParked}
		run, f, no, err := r.first(ctx, &as[i], budget)
		if err != nil {
			return nil, fmt.Errorf("run %v: %w", as[i].Execution, err)
		}
		if no != nil {
			outcomes[i] = *no
			continue
		}
		begin, then, of = append(begin, *run), append(then, f), append(of, i)
	}
	if len(begin) == 0 {
		return outcomes, nil
	}
	got, err := r.store.BeginRuns(ctx, begin)
	if err == nil {
		err = failpoint.Hit("workflow.afterBeginBeforeHint")
	}
	if err != nil {
		return nil, err
	}
	for k, b := range got {
		if b.New {
			r.tell(b.Changed, then[k])
		}
		if b.New && as[of[k]].Trigger == job.ByWorkflow {
			r.Advance(b.Run.ID) // the run above may have asked something of it meanwhile
		}
		if b.New || b.Lost { // whoever holds the execution now begins the run; what is reported here is refused
			continue
		}
		r.Advance(b.Run.ID)
		if !b.Run.EndedAt.IsZero() {
			outcomes[of[k]] = over(&as[of[k]], b.Run)
		}
	}
	return outcomes, nil
}

// first makes the run of an execution, and decides what it starts; or it says why the run cannot begin.
func (r *Runner) first(ctx context.Context, a *job.Attempt, budget *workflow.Budget) (*engine.NewRun, follow, *job.Outcome, error) {
	v, err := r.version(ctx, a.Tenant, a.Job, a.Target.Version)
	if errors.Is(err, engine.ErrNotFound) {
		return nil, follow{}, failed(a, "WORKFLOW_VERSION", fmt.Sprintf("version %d of the workflow is not stored", a.Target.Version)), nil
	}
	if err != nil {
		return nil, follow{}, nil, err
	}
	if err := v.graph.CheckInput(a.Payload); err != nil {
		return nil, follow{}, failed(a, "INPUT", "the input does not fit the workflow's input_schema: "+err.Error()), nil
	}
	above, deep, err := r.above(ctx, a.Tenant, a.Execution)
	if err != nil {
		return nil, follow{}, nil, err
	}
	if deep {
		return nil, follow{}, failed(a, job.NodeFailed, fmt.Sprintf("workflows are nested more than %d deep", workflow.MaxNesting)), nil
	}
	paused, room, err := r.within(ctx, a.Tenant, above)
	if err != nil {
		return nil, follow{}, nil, err
	}
	state, first := workflow.BeginWith(v.graph, paused, room)
	run := engine.WorkflowRun{
		ID: a.Execution, Execution: a.Execution, Token: a.Token, Tenant: a.Tenant, Workflow: a.Job, Version: a.Target.Version, Attempt: 1,
		Input: a.Payload, ScheduledAt: a.ScheduledAt, BegunAt: a.LeasedAt,
	}
	t := r.turn(ctx, engine.RunView{Run: run, Now: a.LeasedAt}, v, state)
	t.share(budget)
	if d := v.graph.Timeout(); d > 0 {
		t.next.Waits = append(t.next.Waits, engine.RunWait{Node: engine.RunDeadline, Kind: engine.WaitDeadline, BegunAt: a.LeasedAt, WakeAt: a.LeasedAt.Add(d)})
	}
	t.Apply(first)
	change, err := t.done()
	if err != nil {
		return nil, follow{}, nil, err
	}
	run.Status, run.State = change.Status, change.State
	return &engine.NewRun{Run: run, First: *change}, t.follow(), nil, nil
}

// Restart begins a run whose execution has ended without, as the second attempt of the run, and says what becomes of its nodes. In a dry
// run it changes nothing. once is as in Act.
func (r *Runner) Restart(ctx context.Context, run engine.WorkflowRun, dry bool, e *audit.Entry, once Once) ([]workflow.Change, error) {
	v, err := r.version(ctx, run.Tenant, run.Workflow, run.Version)
	if err != nil {
		return nil, err
	}
	if err := v.graph.CheckInput(run.Input); err != nil {
		return nil, err
	}
	above, _, err := r.above(ctx, run.Tenant, run.ID)
	if err != nil {
		return nil, err
	}
	_, room, err := r.within(ctx, run.Tenant, above)
	if err != nil {
		return nil, err
	}
	state, first := workflow.BeginWith(v.graph, false, room)
	now := r.clock.Now().Truncate(time.Microsecond)
	state.Attempt, run.Attempt, run.BegunAt = 2, 2, now
	t := r.turn(ctx, engine.RunView{Run: run, Now: now}, v, state)
	if err := t.attempt(first); err != nil {
		return nil, err
	}
	t.Entry = e
	var changes []workflow.Change
	for n := range v.graph.Len() {
		if s, _ := state.Node(n); s != workflow.NotRun {
			changes = append(changes, workflow.Change{Node: v.graph.Node(n).Key, From: workflow.NotRun, To: s})
		}
	}
	change, err := t.once(once, changes)
	if err != nil {
		return nil, err
	}
	if dry {
		return changes, nil
	}
	run.Status, run.State = change.Status, change.State
	got, err := r.store.BeginRuns(ctx, []engine.NewRun{{Run: run, First: *change}})
	if err != nil {
		return nil, err
	}
	if !got[0].New {
		return nil, &workflow.Conflict{Act: "retry", Status: workflow.Status(got[0].Run.Status), Want: "a run that has ended: cancel it first, or wait"}
	}
	r.tell(got[0].Changed, t.follow())
	r.Advance(run.ID)
	return changes, nil
}

// above finds the run that a run is a node of; zero: it is none. It also reports whether the run would be nested deeper than workflows may
// use each other. That is checked when they are stored, too, but two that are changed at once can come to use each other.
func (r *Runner) above(ctx context.Context, id tenant.ID, run job.ExecutionID) (above job.ExecutionID, deep bool, err error) {
	for range workflow.MaxNesting {
		m, err := r.store.MemberOf(ctx, id, run)
		if errors.Is(err, engine.ErrNotFound) {
			return above, false, nil
		}
		if err != nil {
			return above, false, err
		}
		if run = m.Run; above.IsZero() {
			above = run
		}
	}
	return above, true, nil
}

// within returns the terms on which a run begins: paused or not, and its room. The room of a run that a trigger began is the tier's, and that
// of a run below another one is a part of that one's.
func (r *Runner) within(ctx context.Context, id tenant.ID, above job.ExecutionID) (paused bool, room int, err error) {
	var limits Limits
	if r.cfg.Limits != nil {
		if limits, err = r.cfg.Limits(ctx, id); err != nil {
			return false, 0, err
		}
	}
	if above.IsZero() {
		return false, limits.Live, nil
	}
	p, err := r.store.WorkflowRun(ctx, id, above)
	if err != nil {
		return false, 0, err
	}
	if paused = workflow.Status(p.Status) == workflow.Paused; limits.Live == 0 {
		return paused, 0, nil
	}
	v, err := r.version(ctx, id, p.Workflow, p.Version)
	if err != nil {
		return false, 0, err
	}
	state, err := workflow.DecodeState(v.graph, p.State)
	if err != nil {
		return false, 0, err
	}
	return paused, workflow.RoomBelow(v.graph, state), nil
}

// failed is the outcome of an execution whose run cannot begin.
func failed(a *job.Attempt, why job.ErrorType, text string) *job.Outcome {
	return &job.Outcome{Lease: a.Lease, Status: job.OutcomeFailed, Error: &job.Error{Type: why, Message: text}}
}

// over is the outcome of an execution whose run has ended.
func over(a *job.Attempt, run engine.WorkflowRun) job.Outcome {
	o := job.Outcome{Lease: a.Lease, Status: job.OutcomeFailed, Result: run.Output, Error: run.Error}
	switch workflow.Status(run.Status) {
	case workflow.Succeeded:
		o.Status = job.OutcomeSucceeded
	case workflow.Cancelled:
		o.Status = job.OutcomeCancelled
	}
	return o
}
