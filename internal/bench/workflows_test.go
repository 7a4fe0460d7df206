package bench_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/internal/bench"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func TestWorkflows(t *testing.T) {
	t.Parallel()
	places(t, func(t *testing.T, url string) {
		r, err := bench.Workflows(t.Context(), bench.WorkflowsOptions{Options: small(url, nil), Chains: 3, Length: 4, Star: 20, Map: 30, Turns: 1})
		if err != nil {
			t.Fatal(err)
		}
		// The map and five more; chains and as many plain executions, and one of each before; the star; two chains of 20; the run with 1 000 nodes.
		if want := 6*32 + 2*(12+4) + 22 + 2*20 + 1000; r.Accepted != want || r.Lost+r.Doubled > 0 {
			t.Errorf("%d accepted, want %d; %d lost, %d doubled", r.Accepted, want, r.Lost, r.Doubled)
		}
		var b strings.Builder
		if err := r.WriteTable(&b, false); err != nil {
			t.Fatal(err)
		}
		for _, say := range []string{"goal ≥ 0.", "aim ≥ 0.80", "goal ≤ 300", "map of 30", "each of the 1 286 nodes and plain executions"} {
			if !strings.Contains(b.String(), say) {
				t.Errorf("the table lacks %q:\n%s", say, b.String())
			}
		}
	})
}

// A store that says of a run that it failed, or of a node that it ended otherwise, is not believed to have lost nothing.
func TestWorkflowsThatLoseNodes(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(engine.Store) engine.Store{
		"a run":  func(s engine.Store) engine.Store { return failedRuns{s} },
		"a node": func(s engine.Store) engine.Store { return failedNodes{s} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := bench.WorkflowsOptions{Options: small(folder(t), spoil), Chains: 3, Length: 4, Star: 20, Map: 30, Turns: 1}
			o.Only = []string{"star"}
			r, err := bench.Workflows(t.Context(), o)
			var wrong bench.Wrong
			if !errors.As(err, &wrong) || r.Lost != 1 {
				t.Errorf("got %v, %d lost; want 1", err, r.Lost)
			}
		})
	}
}

type failedRuns struct{ engine.Store }

func (s failedRuns) WorkflowRun(ctx context.Context, t tenant.ID, id job.ExecutionID) (engine.WorkflowRun, error) {
	r, err := s.Store.WorkflowRun(ctx, t, id)
	r.Status = int(job.Failed)
	return r, err
}

type failedNodes struct{ engine.Store }

func (s failedNodes) Members(ctx context.Context, t tenant.ID, run job.ExecutionID, from, until engine.NodePlace, limit int) ([]engine.Member, error) {
	ms, err := s.Store.Members(ctx, t, run, from, until, limit)
	if len(ms) > 0 {
		ms[0].Status = job.Failed
	}
	return ms, err
}
