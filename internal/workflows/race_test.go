package workflows

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/storetest"
)

// A retry may come before anybody has taken the mark by which the run ends. The attempt that ends is finished all the same.
func TestARetryOfARunThatHasJustEnded(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, store engine.Store) {
		p := newPlayer(t, store, workflow.Definition{Nodes: []workflow.Node{{Key: "a", Execution: json.RawMessage(`{"target":"worker","kind":"x"}`)}}})
		p.outcomes = map[string]json.RawMessage{"a": json.RawMessage(`"F"`)}
		p.begin(nil)
		p.lease()
		p.finish("a")
		if _, err := p.runner.Do(t.Context(), Act{Tenant: tenant.Default, Run: p.run, Do: Again{}.Do}); err != nil {
			t.Fatal(err)
		}
		if e, err := store.Execution(t.Context(), tenant.Default, p.run); err != nil || e.Status != job.Failed {
			t.Errorf("the first attempt is %v, want FAILED; %v", e.Status, err)
		}
		r, err := store.WorkflowRun(t.Context(), tenant.Default, p.run)
		if err != nil || r.Attempt != 2 || r.Execution == p.run {
			t.Errorf("the run: %+v, %v", r, err)
		}
		p.outcomes = nil
		p.lease()
		p.finish("a")
		s := p.state()
		p.over(s)
		if s.Status != workflow.Succeeded {
			t.Errorf("the run is %v", s.Status)
		}
	})
}

// A node may end while somebody else decides about its run. Its result is stored all the same, and what follows is decided later.
func TestANodeEndsWhileItsRunIsHeld(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, store engine.Store) {
		if strings.HasPrefix(store.Describe(), "SQLite") {
			t.Skip("it has one writer")
		}
		p := newPlayer(t, store, workflow.Definition{Nodes: []workflow.Node{
			{Key: "a", Execution: json.RawMessage(`{"target":"worker","kind":"x"}`)}, {Key: "b", DependsOn: []string{"a"}, Execution: json.RawMessage(`{"target":"worker","kind":"x"}`)},
		}})
		p.begin(nil)
		p.lease()
		f := job.Finish{Outcome: job.Outcome{Lease: p.live[0].Lease, Status: job.OutcomeSucceeded}, Then: job.Transition{Status: job.Succeeded, Move: job.Done}, Worker: p.worker}
		_, err := store.ChangeRuns(t.Context(), []job.ExecutionID{p.run}, func(engine.RunView) (*engine.RunChange, error) {
			vs, err := p.runner.Finish(t.Context(), []job.Finish{f})
			if err != nil || !vs[0].Accepted || vs[0].Run != p.run {
				t.Errorf("%+v, %v", vs, err)
			}
			return nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		p.live = nil
		p.lease()
		if p.find("b") < 0 {
			t.Errorf("b is not live; live are %v", p.live)
		}
	})
}

// An approval that comes when its time is over, and nobody has noticed yet, is refused: it would be acknowledged and not count.
func TestAnApprovalThatComesTooLate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, store engine.Store) {
		p := newPlayer(t, store, workflow.Definition{Nodes: []workflow.Node{
			{Key: "a", Wait: &workflow.Wait{Approval: &workflow.Approval{}}, Timeout: "1s"},
			{Key: "b", Wait: &workflow.Wait{Approval: &workflow.Approval{}}}, // so that the run goes on
		}})
		p.begin(nil)
		for {
			due, _, err := store.WakeRuns(t.Context(), 10)
			if err != nil {
				t.Fatal(err)
			}
			if slices.Contains(due, p.run) {
				break
			}
		}
		_, err := p.runner.Do(t.Context(), Act{Tenant: tenant.Default, Run: p.run, Do: Vote("a", workflow.Vote{Approved: true, By: "ann"})})
		var conflict *workflow.Conflict
		if !errors.As(err, &conflict) {
			t.Errorf("the vote was answered with %v, want a conflict", err)
		}
		if s, _ := p.state().Node(0); s != workflow.TimedOut {
			t.Errorf("the approval is %v, want TIMED_OUT", s)
		}
	})
}
