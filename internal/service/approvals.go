package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/workflows"
)

// overruling makes the act of skipping or marking a node, unless that decides an approval whose decision is not this caller's alone, or lets
// others pass one in a sub-workflow.
func (s *WorkflowRuns) overruling(ctx context.Context, p tenant.Principal, a act, do func(*workflows.Turn) error) act {
	a.needs, a.do = tenant.Write, do
	if p.Role == tenant.Admin || p.Role == tenant.System {
		return a
	}
	var looked []int // nodes of which the approvals were found
	version := 0
	refuse := func(x demand) error { return x.refuse(p, fmt.Sprintf("to %s node %s overrules", a.name, a.node)) }
	a.before = func(r *Run) error {
		n, _ := r.graph.Number(a.node)
		looked, version = workflow.Overruled(r.graph, r.state, n), r.Version
		l := &looker{s: s, ctx: ctx, tenant: p.Tenant, seen: map[job.ID]bool{}, doubt: refuse}
		return l.look(r.WorkflowRun, r.graph, looked, "", true)
	}
	a.do = func(t *workflows.Turn) error {
		n, ok := t.Graph.Number(a.node)
		if !ok {
			return do(t)
		}
		for _, i := range workflow.Overruled(t.Graph, t.State, n) {
			x := t.Graph.Node(i)
			if x.Wait == nil && (version != t.View.Run.Version || !slices.Contains(looked, i)) {
				return fmt.Errorf("the run has changed meanwhile; try again: %w", engine.ErrConflict)
			}
			if x.Wait != nil {
				if err := refuse(demand{x.Key, x.Wait.Approval}); err != nil {
					return err
				}
			}
		}
		return do(t)
	}
	return a
}

// notWeaker refuses to go on with another version of a workflow where an approval of the run's own is missing or easier to get, unless the
// caller could decide that one alone.
func (s *WorkflowRuns) notWeaker(ctx context.Context, p tenant.Principal, r *Run, version int) error {
	if p.Role == tenant.Admin || p.Role == tenant.System || version == r.Version || r.Version == 0 {
		return nil
	}
	to, err := s.runner.Graph(ctx, p.Tenant, r.Workflow, version)
	if err != nil {
		return err
	}
	for _, i := range workflow.Weakened(r.graph, to) {
		x := r.graph.Node(i)
		if err := (demand{x.Key, x.Wait.Approval}).refuse(p, fmt.Sprintf("to retry with version %d, which weakens it, overrules", version)); err != nil {
			return err
		}
	}
	return nil
}

// demand is an approval, and where it is.
type demand struct {
	key string // with the nodes above it, as in gate/ok
	*workflow.Approval
}

// refuse says why what overrules the approval is not for the caller to do; nil: it is.
func (a demand) refuse(p tenant.Principal, what string) error {
	switch {
	case !a.MayVote(p.Role):
		return fmt.Errorf("%w: %s the approval %s, which asks for a decision of %s; yours is the role %q", ErrForbidden, what, a.key, deciders(a.Approval), p.Role)
	case a.Min > 1:
		return fmt.Errorf("%w: %s the approval %s, which asks for %d votes; only an admin may", ErrForbidden, what, a.key, a.Min)
	}
	return nil
}

// deciders names the roles that may decide.
func deciders(a *workflow.Approval) string {
	roles := a.Roles
	if len(roles) == 0 {
		roles = []string{string(tenant.Operator)}
	}
	return "the role " + strings.Join(roles, " or ") + ", or an admin"
}

// looker looks for approvals among nodes, and in the sub-workflows that they run.
type looker struct {
	s      *WorkflowRuns
	ctx    context.Context
	tenant tenant.ID
	seen   map[job.ID]bool // workflows of which all approvals were found
	looks  int
	doubt  func(demand) error // is told of each; an error ends the search
}

// mostLooks bounds the sub-workflows that are looked at.
const mostLooks = 1000

// look looks at nodes of a run, or, where it has not begun, of the version that it names.
func (l *looker) look(r engine.WorkflowRun, g *workflow.Graph, nodes []int, under string, begun bool) error {
	var jobs []job.ID
	for _, i := range nodes {
		x := g.Node(i)
		if x.Wait != nil {
			if err := l.doubt(demand{under + x.Key, x.Wait.Approval}); err != nil {
				return err
			}
			continue
		}
		if jobs == nil {
			v, err := l.s.store.WorkflowVersion(l.ctx, l.tenant, r.Workflow, r.Version)
			if err != nil {
				return err
			}
			jobs = v.Jobs
		}
		if err := l.below(r, g, i, jobs[i], under+x.Key+"/", begun); err != nil {
			return err
		}
	}
	return nil
}

// below looks into what a node runs, if that is a workflow: at what its run has not passed or, of one that has not begun and of the items of
// a map, at all approvals.
func (l *looker) below(r engine.WorkflowRun, g *workflow.Graph, n int, of job.ID, under string, begun bool) error {
	j, err := l.s.store.Job(l.ctx, l.tenant, engine.Ref{ID: of})
	if errors.Is(err, engine.ErrNotFound) || err == nil && j.Target.Kind != job.Workflow {
		return nil
	}
	if err != nil {
		return err
	}
	if l.looks++; l.looks > mostLooks {
		return fmt.Errorf("%w: more than %d sub-workflows may have approvals that this overrules; only an admin may", ErrForbidden, mostLooks)
	}
	if begun && !g.Mapped(n) {
		switch sub, err := l.run(r, n); {
		case err == nil:
			sg, err := l.s.runner.Graph(l.ctx, l.tenant, sub.Workflow, sub.Version)
			if err != nil {
				return err
			}
			state, err := workflow.DecodeState(sg, sub.State)
			if err != nil {
				return err
			}
			return l.look(sub, sg, workflow.Unpassed(sg, state), under, true)
		case !errors.Is(err, engine.ErrNotFound):
			return err
		}
	}
	if l.seen[of] {
		return nil
	}
	l.seen[of] = true
	sub := engine.WorkflowRun{Workflow: of, Version: j.Target.Version}
	sg, err := l.s.runner.Graph(l.ctx, l.tenant, of, sub.Version)
	if err != nil {
		return err
	}
	return l.look(sub, sg, workflow.Unpassed(sg, nil), under, false)
}

// run finds the latest run of a node; engine.ErrNotFound if none has begun.
func (l *looker) run(above engine.WorkflowRun, n int) (engine.WorkflowRun, error) {
	ms, err := l.s.store.NodeMembers(l.ctx, l.tenant, above.ID, []int{n})
	if err != nil || len(ms) == 0 {
		return engine.WorkflowRun{}, cmp.Or(err, engine.ErrNotFound)
	}
	return l.s.store.WorkflowRun(l.ctx, l.tenant, ms[0].Execution)
}
