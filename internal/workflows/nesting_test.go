package workflows

import (
	"encoding/json"
	"testing"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/storetest"
)

// A workflow that contains itself, which the API refuses, ends at the depth that workflows may have.
func TestAWorkflowInItselfEnds(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, store engine.Store) {
		p := newPlayer(t, store, workflow.Definition{Nodes: []workflow.Node{{Key: "a", Execution: json.RawMessage(`{"target":"worker","kind":"x"}`)}}})
		w := p.workflow
		w.ID = newID()
		v := engine.WorkflowVersion{Tenant: tenant.Default, Workflow: w.ID, Version: 1, CreatedAt: p.now(), Jobs: []job.ID{w.ID}, Definition: json.RawMessage(`{"nodes":[{"key":"a","job_id":"key:w"}]}`)}
		p.create(engine.Creation{Tenant: tenant.Default, Jobs: []job.Job{w}})
		if err := store.AddWorkflow(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		p.workflow = w
		p.begin(nil)
		for depth := 2; ; depth++ {
			ids := p.ready
			p.ready = nil
			as, err := store.Lease(t.Context(), []engine.Grant{{Worker: p.worker, Executions: ids}}, engine.Fence{})
			if err != nil || len(as) != 1 {
				t.Fatalf("%d leased, %v", len(as), err)
			}
			os, err := p.runner.begin(t.Context(), as)
			if err != nil {
				t.Fatal(err)
			}
			o := os[0]
			if want := depth <= workflow.MaxNesting; (o.Status == job.OutcomeParked) != want {
				t.Fatalf("the run at depth %d: %+v", depth, o)
			}
			if o.Status != job.OutcomeParked {
				if o.Status != job.OutcomeFailed || o.Error == nil || o.Error.Type != job.NodeFailed {
					t.Errorf("%+v", o)
				}
				return
			}
		}
	})
}
