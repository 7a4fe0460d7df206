package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/carillon-jobs/carillon/internal/check"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// flowRun is a run in its last known state.
type flowRun struct {
	id     job.ExecutionID
	name   string
	tenant tenant.ID
	def    workflow.Definition
	graph  *workflow.Graph
	state  *workflow.State
	status workflow.Status
}

func (r *recorder) BeginRuns(ctx context.Context, all []engine.NewRun) ([]engine.Begun, error) {
	return commit(ctx, r, func(ctx context.Context) ([]engine.Begun, error) { return r.Store.BeginRuns(ctx, all) }, func(ctx context.Context, out []engine.Begun) {
		for i := range out {
			x := all[i].Run
			if !out[i].New || !r.began(ctx, x) {
				continue
			}
			r.known[x.ID].parked = true
			r.add(check.Event{Proc: "store", Kind: check.Commit, Op: check.Parked, Tenant: string(x.Tenant), Job: r.jobName(x.Workflow), Execution: r.known[x.ID].name, Token: int64(x.Token)})
			r.changed(ctx, r.flows[x.ID], x.Attempt, &all[i].First, out[i].Changed)
		}
	})
}

// began records a new run. The caller holds mu.
func (r *recorder) began(ctx context.Context, x engine.WorkflowRun) bool {
	v, err := r.Store.WorkflowVersion(ctx, x.Tenant, x.Workflow, x.Version)
	f := &flowRun{id: x.ID, tenant: x.Tenant, status: workflow.Running}
	if err == nil {
		f.def, err = workflow.Decode(v.Definition)
	}
	if err == nil {
		f.graph, err = workflow.Compile(f.def, workflow.DefaultLimits())
	}
	s := r.known[x.ID]
	if err != nil || s == nil {
		r.wrong("runs", "a run of %v began, version %d: %v", x.Workflow, x.Version, err)
		return false
	}
	f.name = s.name
	r.flows[x.ID] = f
	r.add(check.Event{Proc: "store", Kind: check.Commit, Op: check.RunBegan, Tenant: string(x.Tenant), Run: f.name, Tag: f.def.Timeout, Graph: graphOf(f.def)})
	return true
}

// decisions are what was decided about runs.
type decisions map[job.ExecutionID]struct {
	attempt int
	next    *engine.RunChange
}

// noting is a decide that notes what was decided.
func (d decisions) noting(decide engine.Decide) engine.Decide {
	return func(v engine.RunView) (*engine.RunChange, error) {
		next, err := decide(v)
		made := d[v.Run.ID]
		made.attempt, made.next = v.Run.Attempt, next
		d[v.Run.ID] = made
		return next, err
	}
}

func (r *recorder) ChangeRuns(ctx context.Context, ids []job.ExecutionID, decide engine.Decide) ([]engine.RunChanged, error) {
	made := decisions{}
	return commit(ctx, r, func(ctx context.Context) ([]engine.RunChanged, error) {
		return r.Store.ChangeRuns(ctx, ids, made.noting(decide))
	}, func(ctx context.Context, outs []engine.RunChanged) { r.decided(ctx, made, outs) })
}

func (r *recorder) FinishNodes(ctx context.Context, fs []job.Finish, decide engine.Decide) (_ []job.Verdict, outs []engine.RunChanged, err error) {
	made := decisions{}
	vs, err := commit(ctx, r, func(ctx context.Context) (vs []job.Verdict, err error) {
		vs, outs, err = r.Store.FinishNodes(ctx, fs, made.noting(decide))
		return vs, err
	}, func(ctx context.Context, vs []job.Verdict) {
		r.finished(ctx, fs, vs)
		r.decided(ctx, made, outs)
	})
	return vs, outs, err
}

// decided writes down what decisions changed. The caller holds mu.
func (r *recorder) decided(ctx context.Context, made decisions, outs []engine.RunChanged) {
	for _, out := range outs {
		if d := made[out.Run]; out.Err == nil && d.next != nil && r.flows[out.Run] != nil {
			r.changed(ctx, r.flows[out.Run], d.attempt, d.next, out)
		}
	}
}

// changed records what a decision changed in a run. The caller holds mu.
func (r *recorder) changed(ctx context.Context, f *flowRun, attempt int, next *engine.RunChange, out engine.RunChanged) {
	add := func(e check.Event) {
		e.Proc, e.Kind, e.Tenant, e.Run = "store", check.Commit, string(f.tenant), f.name
		r.add(e)
	}
	state, err := workflow.DecodeState(f.graph, next.State)
	if err != nil {
		r.wrong("runs", "the state of %s: %v", f.name, err)
		return
	}
	if next.Attempt > attempt {
		add(check.Event{Op: check.RunAgain, Attempt: next.Attempt})
		f.status = workflow.Running
	}
	was := f.status
	become := func() {
		if f.status != state.Status {
			f.status = state.Status
			add(check.Event{Op: check.RunBecame, Result: f.status.String(), Attempt: next.Attempt})
		}
	}
	if was == workflow.Paused && !state.Status.Final() {
		become()
	}
	for _, n := range f.causesFirst(state) {
		r.node(f, state, n, add)
	}
	f.state = state
	for _, m := range next.Members {
		r.addedOf(m.Execution, f.name)
		add(check.Event{Op: check.NodeStarted, Node: f.graph.Node(m.Place.Node()).Key, Item: m.Place.Item() + 1, Execution: r.known[m.Execution.ID].name, Attempt: next.Attempt})
	}
	if next.Next != nil {
		r.addedOf(*next.Next, f.name)
		s := r.known[next.Next.ID]
		s.parked, s.status = true, job.Running
		if e, err := r.Store.Execution(ctx, s.tenant, s.id); err == nil {
			s.token = e.Token
		}
		add(check.Event{Op: check.Became, Job: r.jobName(s.job), Execution: s.name, Result: s.status.String()})
		r.look(ctx, s, "finished")
	}
	for _, e := range out.Ended {
		if s := r.known[e.Execution]; s != nil && !s.status.Final() {
			r.look(ctx, s, "finished")
		}
	}
	if len(next.Cancel) > 0 { // some were asked to stop
		r.lookAt(ctx, "cancelled", func(s *seen) bool { return s.run == f.name })
	}
	become()
}

// causesFirst lists the nodes that a decision changed, each after what it follows from: after its parents, a finally
// node after all others, and what a failure stopped after everything that could be that failure. One decision may carry
// out several events.
func (f *flowRun) causesFirst(state *workflow.State) []int {
	var rest, out []int
	for n := range f.graph.Len() {
		if f.differs(state, n) {
			rest = append(rest, n)
		}
	}
	waits := func(n int) bool {
		return slices.ContainsFunc(rest, func(o int) bool {
			return slices.Contains(f.def.Nodes[n].DependsOn, f.def.Nodes[o].Key) || f.def.Nodes[n].Finally && !f.def.Nodes[o].Finally
		})
	}
	for len(rest) > 0 {
		k := slices.IndexFunc(rest, func(n int) bool { _, why := state.Node(n); return why != workflow.ByStop && !waits(n) })
		if k < 0 {
			k = slices.IndexFunc(rest, func(n int) bool { return !waits(n) })
		}
		out, rest = append(out, rest[k]), slices.Delete(rest, k, k+1)
	}
	return out
}

// differs reports whether a state says something new of a node.
func (f *flowRun) differs(state *workflow.State, n int) bool {
	status, reason := state.Node(n)
	if f.state == nil {
		return status != workflow.Waiting
	}
	was, why := f.state.Node(n)
	return was != status || why != reason && status.Final()
}

// node records a new status of a node. The caller holds mu.
func (r *recorder) node(f *flowRun, state *workflow.State, n int, add func(check.Event)) {
	status, reason := state.Node(n)
	e := check.Event{Op: check.NodeBecame, Node: f.graph.Node(n).Key, Result: status.String(), Tag: reason.String()}
	if m, ok := state.Map(n); ok {
		e.Many, e.Counts = true, [4]int{m.Total, m.Succeeded, m.Failed, m.Skipped}
	}
	add(e)
}

// flowWait is something a run waits for that only people provide: to be unpaused, an approval, or an event that
// nobody has sent.
type flowWait struct {
	run    job.ExecutionID
	tenant tenant.ID
	node   string
	event  string
}

// waiting lists what runs wait for.
func (r *recorder) waiting() []flowWait {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []flowWait
	for _, f := range r.flows {
		if f.status == workflow.Paused {
			out = append(out, flowWait{run: f.id, tenant: f.tenant})
		}
		for n, d := range f.def.Nodes {
			if d.Wait == nil || f.state == nil {
				continue
			}
			if status, _ := f.state.Node(n); status != workflow.Running {
				continue
			}
			switch w := (flowWait{run: f.id, tenant: f.tenant, node: d.Key, event: d.Wait.Event}); {
			case d.Wait.Approval != nil, w.event != "" && !r.events[eventKey{f.tenant, w.event}]:
				out = append(out, w)
			}
		}
	}
	slices.SortFunc(out, func(a, b flowWait) int {
		return cmp.Or(slices.Compare(a.run[:], b.run[:]), cmp.Compare(a.node, b.node))
	})
	return out
}

// eventKey names an event of a tenant.
type eventKey struct {
	tenant tenant.ID
	name   string
}

// sent records that an event was acknowledged.
func (r *recorder) sent(t tenant.ID, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events[eventKey{t, name}] = true
}

// readRuns records the final state of runs, and what is left of finished ones.
func (w *world) readRuns(ctx context.Context, s engine.Store) error {
	left, _, err := s.WakeRuns(ctx, everything.Limit)
	if err != nil {
		return err
	}
	for _, f := range w.store.flows {
		x, err := s.WorkflowRun(ctx, f.tenant, f.id)
		if err != nil {
			return fmt.Errorf("the run %s: %w", f.name, err)
		}
		e := check.Event{Tenant: string(f.tenant), Run: f.name, Op: check.RunBecame, Result: workflow.Status(x.Status).String()}
		w.final(e)
		if x.EndedAt.IsZero() {
			continue
		}
		e.Op = check.RunLeft
		waits, err := s.RunWaits(ctx, f.tenant, f.id)
		if err != nil {
			return err
		}
		for _, wait := range waits {
			e.Tag = fmt.Sprintf("a wait of node %d, kind %d", wait.Node, wait.Kind)
			w.final(e)
		}
		members, err := s.Members(ctx, f.tenant, f.id, 0, engine.PlaceOf(len(f.def.Nodes), -1), everything.Limit)
		if err != nil {
			return err
		}
		for _, m := range members {
			if !m.Status.Final() {
				e.Tag = fmt.Sprintf("an execution of node %d, item %d, %s", m.Place.Node(), m.Place.Item(), m.Status)
				w.final(e)
			}
		}
		if slices.Contains(left, f.id) {
			e.Tag = "a mark, or a wait that is due"
			w.final(e)
		}
		if own, err := s.Execution(ctx, f.tenant, x.Execution); err != nil || own.Status.String() != workflow.Status(x.Status).String() {
			e.Tag = fmt.Sprintf("its execution, which is %s, while the run is %s (%v)", own.Status, workflow.Status(x.Status), err)
			w.final(e)
		}
	}
	return nil
}
