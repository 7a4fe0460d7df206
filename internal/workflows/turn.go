package workflows

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Turn is one decision about one run, from what the store knows of it to what it is to write.
type Turn struct {
	View    engine.RunView
	Graph   *workflow.Graph
	State   *workflow.State
	Reason  string       // of cancels
	Entry   *audit.Entry // of a person's act
	runner  *Runner
	ctx     context.Context
	version *version
	values  *values
	solve   *workflow.Resolver
	budget  *workflow.Budget
	limits  Limits
	next    engine.RunChange
	err     error
	cancels map[int]engine.NodePlace // nodes to cancel, and how far that has come
	paused  bool                     // it was, when the turn began
	kept    map[int]listKey          // by node: under which keys the lists of maps that ran by then may be kept
	jobs    map[job.ID]*job.Job      // of nodes that started in this turn
}

// open makes a turn of what the store found.
func (r *Runner) open(ctx context.Context, v engine.RunView) (*Turn, error) {
	ver, err := r.version(ctx, v.Run.Tenant, v.Run.Workflow, v.Run.Version)
	if err != nil {
		return nil, err
	}
	state, err := workflow.DecodeState(ver.graph, v.Run.State)
	if err != nil {
		return nil, err
	}
	t := r.turn(ctx, v, ver, state)
	return t, t.err
}

func (r *Runner) turn(ctx context.Context, v engine.RunView, ver *version, state *workflow.State) *Turn {
	t := &Turn{View: v, Graph: ver.graph, State: state, runner: r, ctx: ctx, version: ver, cancels: map[int]engine.NodePlace{}, paused: state.Paused(), budget: &workflow.Budget{}, kept: map[int]listKey{}, jobs: map[job.ID]*job.Job{}}
	for _, n := range state.RunningMaps() {
		if k, ok := keyOf(v.Run.ID, ver.graph, state, n); ok {
			t.kept[n] = k
		}
	}
	t.next = engine.RunChange{Version: v.Run.Version, Attempt: v.Run.Attempt, Input: v.Run.Input, Output: v.Run.Output, Error: v.Run.Error}
	t.values = &values{turn: t, results: map[int]map[int]engine.RunResult{}}
	t.limits = Limits{Payload: tenant.NoLimit}
	if r.cfg.Limits != nil {
		t.limits, t.err = r.cfg.Limits(ctx, v.Run.Tenant)
	}
	t.solver()
	return t
}

// solver makes the resolver anew, for the state and graph of now.
func (t *Turn) solver() {
	v := t.View.Run
	t.solve = &workflow.Resolver{
		Graph: t.Graph, State: t.State, Values: t.values, Budget: t.budget, Lists: t,
		Run: workflow.Run{ID: v.ID.String(), Key: t.version.key, Input: t.next.Input, Scheduled: v.ScheduledAt, Width: t.limits.Width},
	}
}

// listKey says under which key the list of a map is kept. It is, if nothing that its templates read has changed in this turn, whose
// transaction may be undone.
func (t *Turn) listKey(n int) (k listKey, ok bool) {
	was, ok := t.kept[n]
	if !ok {
		return k, false
	}
	k, ok = keyOf(t.View.Run.ID, t.Graph, t.State, n)
	return k, ok && k == was
}

// List finds the list of a map that was made in an earlier turn; nil: none is kept.
func (t *Turn) List(n int) *workflow.ItemList {
	if k, ok := t.listKey(n); ok {
		return t.runner.begun.get(k)
	}
	return nil
}

// KeepList keeps the list of a map for later turns.
func (t *Turn) KeepList(n int, l *workflow.ItemList) {
	if k, ok := t.listKey(n); ok && t.err == nil {
		t.runner.begun.put(k, l)
	}
}

// job finds the job of a node, and keeps it for the turn: a wide map starts it very often.
func (t *Turn) job(id job.ID) (*job.Job, error) {
	if j := t.jobs[id]; j != nil {
		return j, nil
	}
	j, err := t.runner.job(t.ctx, t.View.Run.Tenant, id)
	if err == nil {
		t.jobs[id] = j
	}
	return j, err
}

// share has a turn start no more than a commit of several turns has room for.
func (t *Turn) share(b *workflow.Budget) {
	b.Next()
	t.budget, t.solve.Budget = b, b
}

// follow says when a run is to be looked at after a turn.
type follow struct {
	more bool      // at once: more is to start in the next commit, or an event may have come before its wait
	at   time.Time // when the first of its new waits is due; zero: none will be
}

func (t *Turn) follow() (f follow) {
	for _, w := range t.next.Waits {
		switch {
		case w.WakeAt.IsZero():
		case !w.WakeAt.After(t.View.Now):
			f.more = true
		case f.at.IsZero() || w.WakeAt.Before(f.at):
			f.at = w.WakeAt
		}
	}
	return f
}

// fold applies what happened since the last turn and returns what is to be written; nil: nothing changed.
func (t *Turn) fold() (*engine.RunChange, error) {
	changed := t.happened()
	if t.err != nil {
		return nil, t.err
	}
	if !changed && len(t.next.Waits)+len(t.next.Closed) == 0 {
		return nil, nil
	}
	return t.done()
}

// happened applies marks and waits that are due, and says whether anything changed.
func (t *Turn) happened() bool {
	var events []workflow.Event
	var asked []engine.RunMark
	for _, m := range t.View.Marks {
		switch {
		case m.Place >= 0:
			events = append(events, t.ended(m))
		case m.Execution == t.View.Run.Execution: // else it was asked of an earlier attempt
			asked = append(asked, m)
		}
	}
	for _, w := range t.View.Waits {
		if w.WakeAt.IsZero() || w.WakeAt.After(t.View.Now) {
			continue
		}
		if e := t.woken(w); e != nil {
			events = append(events, *e)
		}
	}
	changed := t.advance(events...)
	return t.heed(asked) || changed
}

// heed does what was asked of the run by its cancel, or by the run above it. What does not fit where the run stands is passed over.
func (t *Turn) heed(asked []engine.RunMark) (changed bool) {
	do := func(d workflow.Decisions, err error) {
		if err == nil && !d.Ignored {
			t.Apply(d)
			changed = true
		}
	}
	stop, force := false, false
	var pause *engine.RunMark
	for i, m := range asked {
		switch {
		case m.Place == engine.AskedToStop:
			stop = true
		case m.Place == engine.AskedToForce:
			stop, force = true, true
		case pause == nil || m.Place < pause.Place:
			pause = &asked[i]
		}
	}
	if stop {
		t.Reason = "the run was cancelled"
		do(workflow.Cancel(t.Graph, t.State, false))
	}
	if force {
		do(workflow.Cancel(t.Graph, t.State, true))
	}
	if pause != nil {
		if pause.Status == job.Waiting {
			do(workflow.Pause(t.Graph, t.State))
		} else {
			do(workflow.Unpause(t.Graph, t.State))
		}
	}
	return changed
}

// ended turns a mark into an event, and keeps what the node left behind.
func (t *Turn) ended(m engine.RunMark) workflow.Event {
	n, item := m.Place.Node(), m.Place.Item()
	e := workflow.Event{Kind: workflow.NodeEnded, Node: n, Status: workflow.Status(m.Status)}
	if item >= 0 {
		e.Kind, e.Item = workflow.ItemEnded, item
	}
	if m.Status == job.Succeeded {
		if f := workflow.CheckResult(m.Result); f != nil {
			e.Status, e.Reason = workflow.Failed, f.Reason
			m.Result, m.Error = nil, &job.Error{Type: job.ErrorType(f.Reason.String()), Message: f.Text}
		}
	}
	if t.Graph.ResultRead(n) || m.Error != nil && item < 0 {
		t.keep(engine.RunResult{Place: m.Place, Result: m.Result, Error: m.Error})
	}
	return e
}

// woken turns a wait that is due into an event; nil: it goes on.
func (t *Turn) woken(w engine.RunWait) *workflow.Event {
	late := !w.Until.IsZero() && !w.Until.After(t.View.Now)
	switch w.Kind {
	case engine.WaitTimer:
		if late { // a finally node's timer would take longer than its timeout
			break
		}
		return &workflow.Event{Kind: workflow.NodeEnded, Node: w.Node, Status: workflow.Succeeded}
	case engine.WaitMore:
		t.next.Closed = append(t.next.Closed, w)
		return &workflow.Event{Kind: workflow.MoreItems, Node: w.Node}
	case engine.WaitStop:
		t.next.Closed = append(t.next.Closed, w)
		after, _ := strconv.ParseInt(w.Event, 10, 64)
		t.cancels[w.Node] = engine.NodePlace(after)
		return nil
	case engine.WaitDeadline:
		t.next.Closed = append(t.next.Closed, w)
		if w.Node == engine.RunDeadline {
			return &workflow.Event{Kind: workflow.RunTimedOut}
		}
		return &workflow.Event{Kind: workflow.NodeTimedOut, Node: w.Node}
	case engine.WaitEvent:
		ev, err := t.View.Reader.Event(w.Tenant, w.Event, w.Match, w.BegunAt.Add(-engine.EventAge))
		if err != nil {
			t.err = err
			return nil
		}
		if ev != nil {
			t.keep(engine.RunResult{Place: engine.PlaceOf(w.Node, -1), Result: ev.Payload})
			return &workflow.Event{Kind: workflow.NodeEnded, Node: w.Node, Status: workflow.Succeeded}
		}
	}
	if late {
		return &workflow.Event{Kind: workflow.NodeTimedOut, Node: w.Node}
	}
	w.WakeAt = w.Until
	t.next.Waits = append(t.next.Waits, w)
	return nil
}

// keep stores a result and makes it known to what is decided in this turn.
func (t *Turn) keep(r engine.RunResult) {
	t.next.Results = append(t.next.Results, r)
	t.values.put(r)
}

// Advance applies events.
func (t *Turn) Advance(events ...workflow.Event) { t.advance(events...) }

func (t *Turn) advance(events ...workflow.Event) bool {
	e, ignored := t.solve.Advance(events...)
	t.effects(e)
	return ignored < len(events)
}

// Apply resolves the decisions of an act.
func (t *Turn) Apply(d workflow.Decisions) { t.effects(t.solve.Resolve(d)) }

// effects turns effects into what is written. Nodes that cannot start after all end at once, which has effects again.
func (t *Turn) effects(e workflow.Effects) {
	for {
		var failed []workflow.Event
		for _, x := range e.Executions {
			if f := t.start(x); f != nil {
				failed = append(failed, *f)
			}
		}
		for _, w := range e.Waits {
			t.next.Waits = append(t.next.Waits, t.wait(w))
			t.next.Began = append(t.next.Began, w.Node)
		}
		t.next.Began = append(t.next.Began, e.Maps...)
		for _, f := range e.Failures {
			t.keep(engine.RunResult{Place: engine.PlaceOf(f.Node, f.Item), Error: &job.Error{Type: job.ErrorType(f.Failure.Reason.String()), Message: f.Failure.Text}})
		}
		slices.Sort(e.More)
		for _, n := range slices.Compact(e.More) {
			t.next.Waits = slices.DeleteFunc(t.next.Waits, func(w engine.RunWait) bool { return w.Node == n && w.Kind == engine.WaitMore })
			t.next.Waits = append(t.next.Waits, engine.RunWait{Node: n, Kind: engine.WaitMore, BegunAt: t.View.Now, WakeAt: t.View.Now})
		}
		for _, n := range e.Cancel {
			t.cancels[n] = 0
		}
		for _, n := range append(e.Closed, e.Ended...) {
			t.close(n)
		}
		if len(failed) == 0 {
			return
		}
		e, _ = t.solve.Advance(failed...)
	}
}

// close ends what a node waits for.
func (t *Turn) close(n int) {
	if t.Graph.Mapped(n) || t.Graph.Node(n).Wait != nil {
		t.next.Over = append(t.next.Over, n)
	}
	for _, w := range t.View.Waits {
		if w.Node == n {
			t.next.Closed = append(t.next.Closed, w)
		}
	}
	kept := t.next.Waits[:0]
	for _, w := range t.next.Waits {
		if w.Node != n {
			kept = append(kept, w)
		}
	}
	t.next.Waits = kept
}

// wait makes the stored form of a wait that begins.
func (t *Turn) wait(w workflow.NodeWait) engine.RunWait {
	out := engine.RunWait{Node: w.Node, BegunAt: t.View.Now}
	if w.Wait.Timeout > 0 {
		out.Until = t.View.Now.Add(w.Wait.Timeout)
		out.WakeAt = out.Until
	}
	switch {
	case w.Wait.Approval != nil:
		out.Kind, out.Schema = engine.WaitApproval, w.Wait.Approval.Schema
		out.Asks, _ = json.Marshal(workflow.Asked{Key: t.Graph.Node(w.Node).Key, Roles: w.Wait.Approval.Roles, Min: w.Wait.Approval.Min}) // texts always encode
	case w.Wait.Event != "":
		out.Kind, out.Event, out.Match = engine.WaitEvent, w.Wait.Event, w.Wait.Match
		out.WakeAt = t.View.Now // somebody may have sent it before
	default:
		out.Kind = engine.WaitTimer
		at := w.Wait.Until
		if w.Wait.For > 0 || at.IsZero() {
			at = t.View.Now.Add(w.Wait.For)
		}
		if out.Until.IsZero() || !at.After(out.Until) {
			out.Until, out.WakeAt = time.Time{}, at
		}
	}
	return out
}

// done finishes the turn: the state, and how the run ends, if it does.
func (t *Turn) done() (*engine.RunChange, error) {
	if t.err != nil {
		return nil, t.err
	}
	t.next.Status, t.next.Attempt, t.next.State, t.next.Reason, t.next.Entry = int(t.State.Status), t.State.Attempt, t.State.Encode(), t.Reason, t.Entry
	for _, n := range slices.Sorted(maps.Keys(t.cancels)) {
		t.next.Cancel = append(t.next.Cancel, engine.NodeStop{Node: n, After: t.cancels[n]})
	}
	t.next.Force = t.State.Forced()
	if paused := t.State.Paused(); paused != t.paused {
		t.next.Pause = &paused
	}
	if t.next.Reason == "" {
		t.next.Reason = "the run of its workflow stopped it"
	}
	if t.State.Status.Final() {
		t.next.Ended = true
		if t.View.Run.EndedAt.IsZero() || t.next.Next != nil {
			t.finish()
		}
	}
	return &t.next, t.err
}

// once finishes the turn of an act whose request is safe to repeat.
func (t *Turn) once(of Once, changes []workflow.Change) (*engine.RunChange, error) {
	next, err := t.done()
	if err == nil && of != nil {
		next.Once = of(next, changes)
	}
	return next, err
}

// finish ends the run's execution.
func (t *Turn) finish() {
	status, run := t.State.Status, t.View.Run
	o := job.Outcome{Lease: job.Lease{Execution: run.Execution, Token: run.Token}, Status: job.OutcomeFailed}
	then := job.Transition{Status: job.Status(status)}
	switch status {
	case workflow.Succeeded:
		o.Status, then.Move = job.OutcomeSucceeded, job.Done
		out, f := workflow.Output(t.Graph, t.State, t.solve.Run, t.values)
		if f != nil {
			t.runner.cfg.Log.Warn("the output of a run has no value", "run", run.ID, "error", f)
			t.next.Error = &job.Error{Type: job.ErrorType(f.Reason.String()), Message: f.Text}
		}
		o.Result, t.next.Output = out, out
	case workflow.Cancelled:
		o.Status, then.Move = job.OutcomeCancelled, job.Stopped
		t.next.Error = &job.Error{Type: job.CancelledError, Message: "the run was cancelled"}
	case workflow.TimedOut:
		then.Move, then.Tries = job.Late, 1
		t.next.Error = &job.Error{Type: job.TimeoutError, Message: "the run took longer than its timeout of " + t.Graph.Timeout().String()}
	default:
		then.Move, then.Tries = job.Died, 1
		t.next.Error = t.failure()
	}
	o.Error = t.next.Error
	t.next.Finish = &job.Finish{Outcome: o, Then: then}
}

// failure says by which nodes a run failed.
func (t *Turn) failure() *job.Error {
	var names []string
	for n := range t.Graph.Len() {
		if s, _ := t.State.Node(n); workflow.Fails(t.Graph, n, s) {
			names = append(names, fmt.Sprintf("%s is %s", t.Graph.Node(n).Key, s))
		}
	}
	const most = 5
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("%d more did not succeed", more))
	}
	return &job.Error{Type: job.NodeFailed, Message: strings.Join(names, ", ")}
}

// deadline adds the deadline of a node that starts.
func (t *Turn) deadline(n int) {
	d := t.Graph.NodeTimeout(n)
	if d <= 0 {
		return
	}
	for _, w := range append(t.View.Waits, t.next.Waits...) {
		if w.Node == n && w.Kind == engine.WaitDeadline {
			return
		}
	}
	t.next.Waits = append(t.next.Waits, engine.RunWait{Node: n, Kind: engine.WaitDeadline, BegunAt: t.View.Now, WakeAt: t.View.Now.Add(d)})
}
