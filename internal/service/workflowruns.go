package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Run is a run of a workflow.
type Run struct {
	engine.WorkflowRun
	Name   string // of the workflow
	Stands workflow.Status
	Nodes  []RunNode // in the order of the definition; nil in lists
	Path   []string  // the keys of the nodes that decided how long it took

	graph *workflow.Graph
	state *workflow.State // nil: it has not begun
}

// RunNode is where a node of a run stands.
type RunNode struct {
	Key       string
	Status    workflow.Status
	Reason    string
	Execution job.ExecutionID // the latest; zero: it has none of its own
	Started   time.Time
	Finished  time.Time
	Map       *workflow.MapCounts
	Wait      *NodeWait
	Error     *job.Error // why it failed
}

// NodeWait tells what a node waits for, or waited for.
type NodeWait struct {
	*workflow.Wait
	Until time.Time // when it ends by itself; zero: never, or it has ended
	Votes []workflow.Vote
}

// NoNode says that a run has no such node.
type NoNode struct{ Key string }

func (n *NoNode) Error() string {
	return fmt.Sprintf("this run has no node %q", job.Show(n.Key))
}

// RunQuery chooses runs; a zero field chooses all.
type RunQuery struct {
	Workflow engine.Ref
	Statuses []workflow.Status
}

// FindRuns lists runs, latest scheduled time first, without their nodes.
func (s *WorkflowRuns) FindRuns(ctx context.Context, p tenant.Principal, q RunQuery, page engine.Page) (out engine.Listed[Run], err error) {
	if err := allow(p, tenant.Read); err != nil {
		return out, err
	}
	f := engine.RunFilter{Tenant: p.Tenant}
	if q.Workflow != (engine.Ref{}) {
		j, err := s.find(ctx, p.Tenant, q.Workflow)
		if err != nil {
			return out, err
		}
		if j.Target.Kind != job.Workflow {
			return out, engine.ErrNotFound
		}
		f.Workflow = j.ID
	}
	if f.Kept, err = s.executions.sinceOf(ctx, p, f.Workflow); err != nil {
		return out, err
	}
	for _, status := range q.Statuses {
		f.Statuses = append(f.Statuses, int(status))
	}
	found, err := s.store.WorkflowRuns(ctx, f, page)
	if err != nil {
		return out, err
	}
	out = engine.Listed[Run]{Rows: make([]Run, len(found.Rows)), Next: found.Next, Partial: found.Partial, Total: found.Total}
	for i, r := range found.Rows {
		out.Rows[i] = Run{WorkflowRun: r, Stands: workflow.Status(r.Status)}
	}
	if err := s.versions(ctx, p.Tenant, out.Rows); err != nil {
		return out, err
	}
	return out, s.named(ctx, p.Tenant, out.Rows)
}

// versions gives runs that have not begun the version that they would have.
func (s *WorkflowRuns) versions(ctx context.Context, t tenant.ID, runs []Run) error {
	known := map[job.ID]int{}
	for i := range runs {
		r := &runs[i]
		if r.Version != 0 {
			continue
		}
		if _, ok := known[r.Workflow]; !ok {
			j, err := s.store.Job(ctx, t, engine.Ref{ID: r.Workflow})
			if err != nil && !errors.Is(err, engine.ErrNotFound) {
				return err
			}
			known[r.Workflow] = j.Target.Version
		}
		r.Version = known[r.Workflow]
	}
	return nil
}

// named gives runs the names of their workflows.
func (s *WorkflowRuns) named(ctx context.Context, t tenant.ID, runs []Run) error {
	ids := make([]job.ID, len(runs))
	for i := range runs {
		ids[i] = runs[i].Workflow
	}
	slices.SortFunc(ids, func(a, b job.ID) int { return slices.Compare(a[:], b[:]) })
	names, err := s.store.Names(ctx, t, slices.Compact(ids))
	for i := range runs {
		runs[i].Name = names[runs[i].Workflow]
	}
	return err
}

// WorkflowRun finds a run by the id of any of its attempts.
func (s *WorkflowRuns) WorkflowRun(ctx context.Context, p tenant.Principal, id job.ExecutionID) (Run, error) {
	if err := allow(p, tenant.Read); err != nil {
		return Run{}, err
	}
	r, err := s.run(ctx, p, id)
	if err != nil {
		return r, err
	}
	return r, s.look(ctx, &r)
}

// run finds a run, without its nodes. One whose execution has not begun is made of that.
func (s *WorkflowRuns) run(ctx context.Context, p tenant.Principal, id job.ExecutionID) (Run, error) {
	r, has, err := s.begun(ctx, p, id)
	if err == nil && !has {
		r, err = s.unbegun(ctx, p, id)
	}
	if err == nil && !has && r.Stands.Final() { // it may have begun and ended between the two looks
		var late Run
		if late, has, err = s.begun(ctx, p, id); has {
			r = late
		}
	}
	if err != nil {
		return r, err
	}
	if r.graph, err = s.runner.Graph(ctx, r.Tenant, r.Workflow, r.Version); err != nil {
		return r, err
	}
	if r.State != nil {
		if r.state, err = workflow.DecodeState(r.graph, r.State); err != nil {
			return r, err
		}
	}
	one := []Run{r}
	err = s.named(ctx, p.Tenant, one)
	return one[0], err
}

// begun finds a run that has begun; ErrNotFound if it is no longer kept.
func (s *WorkflowRuns) begun(ctx context.Context, p tenant.Principal, id job.ExecutionID) (r Run, has bool, err error) {
	stored, err := s.store.WorkflowRun(ctx, p.Tenant, id)
	if errors.Is(err, engine.ErrNotFound) {
		return r, false, nil
	}
	if err != nil {
		return r, false, err
	}
	r = Run{WorkflowRun: stored, Stands: workflow.Status(stored.Status)}
	if stored.EndedAt.IsZero() {
		return r, true, nil
	}
	since, err := s.executions.sinceOf(ctx, p, stored.Workflow)
	if err != nil || stored.EndedAt.Before(since) {
		return r, true, cmp.Or(err, engine.ErrNotFound)
	}
	own, now, err := s.executions.ownRetention(ctx, p, stored.Workflow)
	if err == nil && own.Hides(now, 0, job.Status(stored.Status), stored.EndedAt) {
		err = engine.ErrNotFound
	}
	return r, true, err
}

// unbegun makes a run of an execution that waits to begin, or has ended without.
func (s *WorkflowRuns) unbegun(ctx context.Context, p tenant.Principal, id job.ExecutionID) (r Run, err error) {
	e, err := s.executions.execution(ctx, p, id)
	if err != nil {
		return r, err
	}
	j, err := s.store.Job(ctx, p.Tenant, engine.Ref{ID: e.Job})
	if err != nil {
		return r, err
	}
	if j.Target.Kind != job.Workflow {
		return r, engine.ErrNotFound
	}
	r = Run{WorkflowRun: engine.WorkflowRun{
		ID: e.ID, Execution: e.ID, Tenant: e.Tenant, Workflow: e.Job, Version: j.Target.Version, Attempt: 1, Status: int(e.Status), Input: e.Payload, Error: e.Error,
		ScheduledAt: e.ScheduledAt, EndedAt: e.FinishedAt,
	}}
	if r.Input == nil {
		r.Input = j.Payload
	}
	if r.Stands = workflow.Status(e.Status); e.Status == job.Running {
		r.Stands = workflow.Pending // it begins just now
	}
	if waits, err := s.overlaps(ctx, &e); err != nil {
		return r, err
	} else if waits {
		r.Stands = workflow.Waiting
	}
	return r, nil
}

// earlierRuns bounds the runs in flight that overlaps looks at.
const earlierRuns = 20

// overlaps reports whether a run waits for another of its workflow to end, as the overlap policy says.
func (s *WorkflowRuns) overlaps(ctx context.Context, e *job.Execution) (bool, error) {
	if e.Status != job.Pending || e.Group.Max != 1 {
		return false, nil
	}
	f := engine.RunFilter{Tenant: e.Tenant, Workflow: e.Job, Statuses: []int{int(workflow.Running), int(workflow.Paused), int(workflow.Cancelling)}}
	found, err := s.store.WorkflowRuns(ctx, f, engine.Page{Limit: earlierRuns})
	for _, r := range found.Rows {
		other, err := s.store.Execution(ctx, e.Tenant, r.Execution)
		if err != nil && !errors.Is(err, engine.ErrNotFound) {
			return false, err
		}
		if err == nil && other.Group.Key == e.Group.Key {
			return true, nil
		}
	}
	return false, err
}

// look adds the nodes to a run.
func (s *WorkflowRuns) look(ctx context.Context, r *Run) error {
	r.Nodes = make([]RunNode, r.graph.Len())
	if r.state == nil {
		for n := range r.Nodes {
			r.Nodes[n] = RunNode{Key: r.graph.Node(n).Key, Status: workflow.Waiting}
			if r.Stands.Final() {
				r.Nodes[n].Status, r.Nodes[n].Reason = workflow.NotRun, "not run: the run never began"
			}
		}
		return nil
	}
	var ran, decided []int
	for n := range r.Nodes {
		d, x := r.graph.Node(n), &r.Nodes[n]
		x.Key = d.Key
		status, why := r.state.Node(n)
		x.Status = status
		x.Reason = workflow.Explain(r.graph, r.state, n)
		if counts, ok := r.state.Map(n); ok {
			x.Map = &counts
		}
		switch {
		case d.Wait != nil:
			x.Wait = &NodeWait{Wait: d.Wait}
			if d.Wait.Approval != nil && why != workflow.ByHand && (x.Status == workflow.Succeeded || x.Status == workflow.Failed) {
				decided = append(decided, n)
			}
		case !r.graph.Mapped(n) && x.Status != workflow.Waiting && x.Status != workflow.NotRun:
			ran = append(ran, n)
		}
	}
	for _, add := range []func(context.Context, *Run, []int) error{s.lookExecutions, s.lookSpans, s.lookWaits} {
		if err := add(ctx, r, ran); err != nil {
			return err
		}
	}
	if err := s.lookVotes(ctx, r, decided); err != nil {
		return err
	}
	if err := s.lookErrors(ctx, r); err != nil {
		return err
	}
	spans := make([]workflow.Span, len(r.Nodes))
	for n := range r.Nodes {
		spans[n] = workflow.Span{Start: r.Nodes[n].Started, End: r.Nodes[n].Finished}
	}
	for _, n := range workflow.CriticalPath(r.graph, spans) {
		r.Path = append(r.Path, r.Nodes[n].Key)
	}
	return nil
}

// lookExecutions adds what the executions of nodes say.
func (s *WorkflowRuns) lookExecutions(ctx context.Context, r *Run, ran []int) error {
	members, err := s.store.NodeMembers(ctx, r.Tenant, r.ID, ran)
	for _, m := range members {
		x := &r.Nodes[m.Place.Node()]
		x.Execution, x.Started, x.Finished = m.Execution, m.StartedAt, m.FinishedAt
		if x.Status == workflow.Pending {
			x.Status = workflow.Status(m.Status)
		}
	}
	return err
}

// lookSpans adds when maps and waits began and ended.
func (s *WorkflowRuns) lookSpans(ctx context.Context, r *Run, _ []int) error {
	spans, err := s.store.NodeSpans(ctx, r.Tenant, r.ID)
	for _, span := range spans {
		if span.Node >= len(r.Nodes) {
			continue
		}
		x := &r.Nodes[span.Node]
		switch x.Status {
		case workflow.Waiting, workflow.Pending, workflow.NotRun, workflow.Skipped: // it was of an earlier attempt
		default:
			x.Started, x.Finished = span.StartedAt, span.FinishedAt
		}
	}
	return err
}

// lookWaits adds what nodes wait for.
func (s *WorkflowRuns) lookWaits(ctx context.Context, r *Run, _ []int) error {
	waits, err := s.store.RunWaits(ctx, r.Tenant, r.ID)
	if err != nil {
		return err
	}
	for _, w := range waits {
		if w.Node < 0 || w.Kind == engine.WaitDeadline || w.Kind == engine.WaitMore || w.Kind == engine.WaitStop || w.Node >= len(r.Nodes) {
			continue
		}
		x := &r.Nodes[w.Node]
		if x.Wait == nil || x.Status != workflow.Running {
			continue
		}
		x.Started, x.Wait.Until = w.BegunAt, w.Until
		if w.Kind == engine.WaitTimer {
			x.Wait.Until = w.WakeAt
		}
		if len(w.Votes) > 0 {
			if err := json.Unmarshal(w.Votes, &x.Wait.Votes); err != nil {
				return fmt.Errorf("read the votes of a run: %w", err)
			}
		}
	}
	return nil
}

// lookVotes adds how approvals were decided.
func (s *WorkflowRuns) lookVotes(ctx context.Context, r *Run, decided []int) error {
	for _, n := range decided {
		results, err := s.store.RunResults(ctx, r.Tenant, r.ID, engine.PlaceOf(n, -1), engine.PlaceOf(n, 0))
		if err != nil {
			return err
		}
		for _, result := range results {
			var v workflow.Vote
			if json.Unmarshal(result.Result, &v) == nil && v.By != "" {
				r.Nodes[n].Wait.Votes = append(r.Nodes[n].Wait.Votes, v)
			}
		}
	}
	return nil
}

// lookErrors adds why nodes failed.
func (s *WorkflowRuns) lookErrors(ctx context.Context, r *Run) error {
	q := engine.ErrorQuery{Tenant: r.Tenant, Run: r.ID, Attempt: r.Attempt, Since: r.BegunAt}
	for n := range r.Nodes {
		if r.Nodes[n].Status.Failed() {
			q.Places = append(q.Places, engine.PlaceOf(n, -1))
		}
	}
	kept, err := s.store.RunErrors(ctx, q)
	if err != nil {
		return err
	}
	for _, k := range kept {
		r.Nodes[k.Place.Node()].Error = k.Error
	}
	for _, p := range q.Places {
		x := &r.Nodes[p.Node()]
		if known, _ := r.state.Node(p.Node()); known.Final() { // else it has just ended, and its execution says how
			x.Error = workflow.ErrorOf(r.graph, r.state, p.Node(), x.Error)
			x.rejected()
		}
		if x.Error != nil {
			x.Reason = workflow.Failing(x.Error)
		}
	}
	return nil
}

// rejected has the error of an approval name who rejected it.
func (n *RunNode) rejected() {
	if n.Error == nil || n.Error.Type != workflow.RejectedError || n.Wait == nil || len(n.Wait.Votes) == 0 {
		return
	}
	v := n.Wait.Votes[len(n.Wait.Votes)-1]
	n.Error = &job.Error{Type: n.Error.Type, Message: "rejected by " + v.By}
	if v.Comment != "" {
		n.Error.Message += ": " + v.Comment
	}
}

// node finds a node of a run by its key.
func (r *Run) node(key string) (int, error) {
	n, ok := r.graph.Number(key)
	if !ok {
		return 0, &NoNode{key}
	}
	return n, nil
}

// HasRun says with engine.ErrNotFound that there is no such run, and with *NoNode that it has no node with this key; "" is none.
func (s *WorkflowRuns) HasRun(ctx context.Context, p tenant.Principal, id job.ExecutionID, key string) error {
	if err := allow(p, tenant.Read); err != nil {
		return err
	}
	r, err := s.run(ctx, p, id)
	if err == nil && key != "" {
		_, err = r.node(key)
	}
	return err
}
