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

// A rendered payload, and the width of a map that begins, are held to the quota of the tenant as it is then.
func TestRunsAreHeldToTheQuota(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, store engine.Store) {
		p := newPlayer(t, store, workflow.Definition{Nodes: []workflow.Node{
			{Key: "large", OnFailure: workflow.Ignore, Execution: json.RawMessage(`{"target":"worker","kind":"x","payload":"{{ run.input }}{{ run.input }}"}`)},
			{Key: "small", Execution: json.RawMessage(`{"target":"worker","kind":"x","payload":"{{ run.input }}"}`)},
			{Key: "wide", OnFailure: workflow.Ignore, Map: json.RawMessage(`4`), Execution: json.RawMessage(`{"target":"worker","kind":"x"}`)},
			{Key: "narrow", Map: json.RawMessage(`3`), Execution: json.RawMessage(`{"target":"worker","kind":"x"}`)},
		}})
		p.runner.cfg.Limits = func(_ context.Context, id tenant.ID) (Limits, error) {
			if id != tenant.Default {
				t.Errorf("the limits of %s", id)
			}
			return Limits{Width: 3, Payload: 12}, nil
		}
		p.begin(json.RawMessage(`"12345678"`))
		s := p.state()
		for n, want := range map[int]workflow.Status{0: workflow.Failed, 1: workflow.Pending, 2: workflow.Failed, 3: workflow.Running} {
			if got, _ := s.Node(n); got != want {
				t.Errorf("%s is %v; want %v", p.graph.Node(n).Key, got, want)
			}
		}
		rs, err := store.RunResults(t.Context(), tenant.Default, p.run, engine.PlaceOf(0, -1), engine.PlaceOf(3, -1))
		if err != nil || len(rs) != 2 {
			t.Fatalf("%+v, %v", rs, err)
		}
		for i, want := range []job.ErrorType{"PAYLOAD_TOO_LARGE", "MAP_TOO_WIDE"} {
			if e := rs[i].Error; e == nil || e.Type != want {
				t.Errorf("the error is %+v; want %s", e, want)
			}
		}
	})
}
