package workflows

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/storetest"
)

// Of what one trigger begins, no more is live at once at any depth than the tier allows, and all of it ends.
func TestNestedMapsKeepToTheTier(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, store engine.Store) {
		const width, room = 4, 5
		p := newPlayer(t, store, workflow.Definition{Nodes: []workflow.Node{{Key: "leaf", Map: json.RawMessage("4"), Execution: json.RawMessage(`{"target":"worker","kind":"x"}`)}}})
		p.runner.cfg.Limits = func(context.Context, tenant.ID) (Limits, error) {
			return Limits{Payload: tenant.NoLimit, Live: room}, nil
		}
		for range 2 { // workflows of which each maps over the one before
			w := p.workflow
			w.ID = newID()
			p.create(engine.Creation{Tenant: tenant.Default, Jobs: []job.Job{w}})
			v := engine.WorkflowVersion{
				Tenant: tenant.Default, Workflow: w.ID, Version: 1, CreatedAt: p.now(), Jobs: []job.ID{p.workflow.ID},
				Definition: json.RawMessage(`{"nodes":[{"key":"m","map":4,"job_id":"key:below"}]}`),
			}
			if err := store.AddWorkflow(t.Context(), v); err != nil {
				t.Fatal(err)
			}
			p.workflow = w
		}
		p.begin(nil)
		runs, leaves, most := p.playTree()
		if runs != width+width*width || leaves != width*width*width {
			t.Errorf("%d runs and %d leaves ended; want %d and %d", runs, leaves, width+width*width, width*width*width)
		}
		if most > 3*room {
			t.Errorf("%d executions were live at once; want at most %d at each of 3 depths", most, room)
		}
		r, err := store.WorkflowRun(t.Context(), tenant.Default, p.run)
		if err != nil || workflow.Status(r.Status) != workflow.Succeeded {
			t.Errorf("the run is %v, %v", workflow.Status(r.Status), err)
		}
	})
}

// playTree ends all executions of a run and of those below it, one after the other, and says how many began, and how many were live at most.
func (p *player) playTree() (runs, leaves, most int) {
	p.Helper()
	var live []job.Attempt // leaves
	below := map[job.ExecutionID]bool{}
	for {
		for ids := p.runner.take(); len(ids) > 0; ids = p.runner.take() {
			if err := p.runner.advance(p.Context(), ids); err != nil {
				p.Fatal(err)
			}
		}
		for id := range below {
			if r, err := p.store.WorkflowRun(p.Context(), tenant.Default, id); err != nil {
				p.Fatal(err)
			} else if !r.EndedAt.IsZero() {
				delete(below, id)
				runs++
			}
		}
		ids := p.ready
		p.ready = nil
		most = max(most, len(ids)+len(live)+len(below))
		if len(ids) == 0 && len(live) == 0 {
			return runs, leaves, most
		}
		as, err := p.store.Lease(p.Context(), []engine.Grant{{Worker: p.worker, Executions: ids}}, engine.Fence{})
		if err != nil {
			p.Fatal(err)
		}
		for _, a := range as {
			if a.Target.Kind != job.Workflow {
				live = append(live, a)
				continue
			}
			os, err := p.runner.begin(p.Context(), []job.Attempt{a})
			if err != nil || os[0].Status != job.OutcomeParked {
				p.Fatalf("%+v, %v", os, err)
			}
			below[a.Execution] = true
		}
		if len(live) == 0 {
			continue
		}
		f := job.Finish{Outcome: job.Outcome{Lease: live[0].Lease, Status: job.OutcomeSucceeded}, Then: job.Transition{Status: job.Succeeded, Move: job.Done}, Worker: p.worker}
		live = live[1:]
		vs, err := p.runner.Finish(p.Context(), []job.Finish{f})
		if err != nil || !vs[0].Accepted {
			p.Fatalf("%+v, %v", vs, err)
		}
		leaves++
		if !vs[0].Run.IsZero() {
			p.runner.Advance(vs[0].Run)
		}
	}
}
