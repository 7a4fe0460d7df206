package sim

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// flowing is for seeds with workflows.
func flowing(s script) bool { return s.flowing }

// paging is for seeds in which a map begins in several commits.
func paging(s script) bool { return s.pages.FanOut > 0 }

// A decision that carries out a failure and what the failure then stops is written down with the failure first,
// whatever the order of the nodes.
func TestCausesAreWrittenDownFirst(t *testing.T) {
	def, err := workflow.Decode([]byte(`{"nodes": [
		{"key": "timer", "wait": {"timer": "10s"}},
		{"key": "stopped", "depends_on": ["timer"], "trigger": "one_done", "execution": {}},
		{"key": "below", "depends_on": ["stopped"], "trigger": "one_success", "execution": {}},
		{"key": "fails", "on_failure": "stop", "execution": {}},
		{"key": "other", "depends_on": ["fails"], "trigger": "all_done", "execution": {}},
		{"key": "last", "finally": true, "execution": {}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	g, err := workflow.Compile(def, workflow.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	s, _ := workflow.Begin(g)
	f := &flowRun{def: def, graph: g, state: s.Clone()}
	workflow.Advance(g, s, workflow.Event{Kind: workflow.NodeEnded, Node: 3, Status: workflow.Failed})
	workflow.Advance(g, s, workflow.Event{Kind: workflow.NodeEnded, Node: 0, Status: workflow.Succeeded})
	if status, why := s.Node(1); status != workflow.NotRun || why != workflow.ByStop {
		t.Fatalf("the node that waited for the timer is %v (%v)", status, why)
	}
	workflow.Advance(g, s, workflow.Event{Kind: workflow.NodeEnded, Node: 4, Status: workflow.Succeeded})
	if got := f.causesFirst(s); !slices.Equal(got, []int{0, 3, 4, 1, 2, 5}) {
		t.Errorf("written down in the order %v", got)
	}
}

// Mutants of runs of workflows.
func TestMutantsOfRunsAreFound(t *testing.T) {
	if raced {
		t.Skip("it takes some hundred seeds, and proves nothing about races")
	}
	for _, m := range []struct {
		name   string
		mutant func(engine.Store) engine.Store
		checks []string
		fits   func(script) bool
	}{
		{"a mark is taken, and what it says is not", func(s engine.Store) engine.Store { return &markDropper{Store: s} }, []string{"liveness"}, flowing},
		{"nobody looks for marks and waits", func(s engine.Store) engine.Store { return &sweepless{s} }, []string{"liveness"}, flowing},
		{"a decision is taken, and not stored", func(s engine.Store) engine.Store { return &forgetfulRuns{Store: s} }, []string{"runs", "liveness"}, flowing},
		{"what a map has yet to start is forgotten", func(s engine.Store) engine.Store { return &pageless{s} }, []string{"liveness"}, paging},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			hunt(t, Options{Mutant: m.mutant}, m.fits, m.checks...)
		})
	}
}

// markDropper drops every tenth mark.
type markDropper struct {
	engine.Store
	calls atomic.Int64
}

func (s *markDropper) ChangeRuns(ctx context.Context, ids []job.ExecutionID, decide engine.Decide) ([]engine.RunChanged, error) {
	return s.Store.ChangeRuns(ctx, ids, func(v engine.RunView) (*engine.RunChange, error) {
		if len(v.Marks) > 0 && s.calls.Add(1)%10 == 3 {
			v.Marks = nil
		}
		return decide(v)
	})
}

// sweepless finds nothing that somebody must look after.
type sweepless struct{ engine.Store }

func (s *sweepless) WakeRuns(context.Context, int) ([]job.ExecutionID, time.Time, error) {
	return nil, time.Time{}, nil
}

// pageless drops what a decision leaves to the next commit to start.
type pageless struct{ engine.Store }

func (s *pageless) ChangeRuns(ctx context.Context, ids []job.ExecutionID, decide engine.Decide) ([]engine.RunChanged, error) {
	return s.Store.ChangeRuns(ctx, ids, func(v engine.RunView) (*engine.RunChange, error) {
		next, err := decide(v)
		if next != nil {
			next.Waits = slices.DeleteFunc(next.Waits, func(w engine.RunWait) bool { return w.Kind == engine.WaitMore })
		}
		return next, err
	})
}

// forgetfulRuns acknowledges every fifth decision and does not store it.
type forgetfulRuns struct {
	engine.Store
	calls atomic.Int64
}

func (s *forgetfulRuns) ChangeRuns(ctx context.Context, ids []job.ExecutionID, decide engine.Decide) ([]engine.RunChanged, error) {
	if s.calls.Add(1)%5 > 0 {
		return s.Store.ChangeRuns(ctx, ids, decide)
	}
	return s.Store.ChangeRuns(ctx, ids, func(v engine.RunView) (*engine.RunChange, error) {
		_, err := decide(v)
		return nil, err
	})
}
