package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/storetest"
)

// A vote that comes too late says what it was.
func TestARejectionThatComesTooLate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, store engine.Store) {
		p := newPlayer(t, store, workflow.Definition{Nodes: []workflow.Node{
			{Key: "a", Wait: &workflow.Wait{Approval: &workflow.Approval{}}}, {Key: "b", Wait: &workflow.Wait{Approval: &workflow.Approval{}}},
		}})
		p.begin(nil)
		do := func(f func(*Turn) error) error {
			_, err := p.runner.Do(t.Context(), Act{Tenant: tenant.Default, Run: p.run, Do: f})
			return err
		}
		if err := do(Skip("a")); err != nil {
			t.Fatal(err)
		}
		var conflict *workflow.Conflict
		if err := do(Vote("a", workflow.Vote{By: "ann", Who: "key:1"})); !errors.As(err, &conflict) || conflict.Act != "reject" {
			t.Errorf("the vote was answered with %v, want that it cannot reject", err)
		}
	})
}

// A timer of a finally node ends with the node's timeout, which is ten minutes if the node names none.
func TestATimerOfAFinallyNode(t *testing.T) {
	t.Parallel()
	for timer, want := range map[string]struct {
		wake   time.Duration
		status workflow.Status
	}{"9m": {9 * time.Minute, workflow.Succeeded}, "10m": {10 * time.Minute, workflow.Succeeded}, "11m": {10 * time.Minute, workflow.TimedOut}, "48h": {10 * time.Minute, workflow.TimedOut}} {
		d := workflow.Definition{Nodes: []workflow.Node{
			{Key: "a", Execution: json.RawMessage(`{"target":"worker","kind":"x"}`)}, {Key: "z", Finally: true, Wait: &workflow.Wait{Timer: timer}},
		}}
		g, err := workflow.Compile(d, workflow.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		state, _ := workflow.Begin(g)
		r := New(nil, nil, Config{})
		turn := r.turn(t.Context(), engine.RunView{Run: engine.WorkflowRun{}, Now: begun}, &version{graph: g, jobs: make([]job.ID, 2)}, state)
		turn.Advance(workflow.Event{Kind: workflow.NodeEnded, Node: 0, Status: workflow.Succeeded})
		if len(turn.next.Waits) != 1 || !turn.next.Waits[0].WakeAt.Equal(begun.Add(want.wake)) {
			t.Fatalf("%s: waits %+v; want one that wakes after %v", timer, turn.next.Waits, want.wake)
		}
		w := turn.next.Waits[0]
		turn = r.turn(t.Context(), engine.RunView{Now: w.WakeAt, Waits: []engine.RunWait{w}}, &version{graph: g, jobs: make([]job.ID, 2)}, state)
		turn.happened()
		if s, _ := state.Node(1); s != want.status {
			t.Errorf("%s: the node is %v, want %v", timer, s, want.status)
		}
	}
}

// counted counts the transactions that change runs, and fails reads of jobs.
type counted struct {
	engine.Store
	changes int
	most    int // executions that one of them ended
	broken  bool
}

var errBroken = errors.New("the store is away")

func (c *counted) ChangeRuns(ctx context.Context, ids []job.ExecutionID, decide engine.Decide) ([]engine.RunChanged, error) {
	c.changes++
	outs, err := c.Store.ChangeRuns(ctx, ids, decide)
	for _, out := range outs {
		c.most = max(c.most, len(out.Ended))
	}
	return outs, err
}

func (c *counted) Job(ctx context.Context, t tenant.ID, r engine.Ref) (job.Job, error) {
	if c.broken {
		return job.Job{}, errBroken
	}
	return c.Store.Job(ctx, t, r)
}

// A version is not kept without the workflow's key because that could not be read.
func TestTheKeyOfAWorkflowIsRead(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, store engine.Store) {
		p := newPlayer(t, store, workflow.Definition{Nodes: []workflow.Node{{Key: "a", Execution: json.RawMessage(`{"target":"worker","kind":"x"}`)}}})
		c := &counted{Store: store, broken: true}
		r := New(c, testClock{store}, Config{})
		if _, err := r.version(t.Context(), tenant.Default, p.workflow.ID, 1); !errors.Is(err, errBroken) {
			t.Errorf("got %v; want that the store is away", err)
		}
		c.broken = false
		if v, err := r.version(t.Context(), tenant.Default, p.workflow.ID, 1); err != nil || v.key != p.workflow.Key {
			t.Errorf("got %+v, %v", v, err)
		}
	})
}

// A run with very many live items is cancelled in pieces, each of which is one transaction, and the rest is found again.
func TestManyItemsAreCancelledInPieces(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, store engine.Store) {
		const items = 3*engine.StopsAtOnce + 10
		p := newPlayer(t, store, workflow.Definition{Nodes: []workflow.Node{
			{Key: "m", Map: json.RawMessage("3010"), MaxParallel: items, Execution: json.RawMessage(`{"target":"worker","kind":"x"}`)},
		}})
		p.begin(nil)
		for {
			p.advance()
			if m, ok := p.state().Map(0); ok && m.Running == items {
				break
			}
		}
		c := &counted{Store: store}
		r := New(c, testClock{store}, Config{})
		if _, err := r.Do(t.Context(), Act{Tenant: tenant.Default, Run: p.run, Do: Cancel(false, "enough")}); err != nil {
			t.Fatal(err)
		}
		if most := 3*(items/engine.StopsAtOnce+1) + 1; c.changes > most {
			t.Errorf("%d transactions for %d items; want at most %d", c.changes, items, most)
		}
		if c.most > engine.StopsAtOnce+1 { // and the run's own
			t.Errorf("one transaction ended %d executions; want at most %d", c.most, engine.StopsAtOnce)
		}
		s := p.state()
		if m, _ := s.Map(0); s.Status != workflow.Cancelled || m.Running != 0 {
			t.Errorf("the run is %v, %+v", s.Status, m)
		}
	})
}
