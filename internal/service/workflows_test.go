package service

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// A workflow, its nodes and its version are one creation, so that one that is refused or repeated leaves nothing. (The store of the test has
// no other way to write.)
func TestAWorkflowIsOneCreation(t *testing.T) {
	for _, c := range []struct {
		name   string
		out    engine.Created
		err    error
		replay string
	}{
		{name: "stored"}, {name: "a taken key", out: engine.Created{Taken: "w"}}, {name: "repeated", out: engine.Created{Replay: []byte("first")}, replay: "first"}, {name: "a used job is gone", err: engine.ErrNotFound},
	} {
		calls := 0
		s := New(fakeStore{create: func(_ context.Context, cs []engine.Creation) ([]engine.Created, error) {
			calls++
			x := cs[0]
			if len(cs) != 1 || len(x.Jobs) != 1 || len(x.Nodes) != 1 || x.Workflow == nil || x.Workflow.Workflow != x.Jobs[0].ID || x.Workflow.Jobs[0] != x.Nodes[0].ID {
				t.Errorf("%s: created %+v", c.name, cs)
			}
			return []engine.Created{c.out}, c.err
		}}, clock.System{}, Config{})
		node := workflow.Node{Key: "a", Execution: json.RawMessage(`{"target":"simulate","work_kind":"noop"}`)}
		target := job.Target{Kind: job.Simulate, WorkKind: "noop", Timeout: time.Second}
		w := Workflow{Definition: job.Definition{Name: "w", Key: "w", Priority: 5, Queue: job.DefaultQueue, Retry: job.DefaultRetry, Schedule: job.Schedule{Type: job.Manual}}, Graph: workflow.Definition{Nodes: []workflow.Node{node}}}
		w.Inline = []*Inline{{Target: target, Sample: target, Retry: job.DefaultRetry}}
		_, replay, err := s.CreateWorkflow(t.Context(), tenant.Local(), w, Once[Flow]{Key: "k", Encode: func(Flow) []byte { return nil }})
		if calls != 1 || string(replay) != c.replay || c.err != nil && !errors.Is(err, engine.ErrConflict) || c.name == "stored" && err != nil {
			t.Errorf("%s: %d creations, %q, %v", c.name, calls, replay, err)
		}
	}
}
