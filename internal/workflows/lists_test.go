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

var plain = json.RawMessage(`{"target":"worker","kind":"x"}`)

// take removes a node from those that are live, and expects its payload, unless that is empty.
func (p *player) take(key, payload string) attempt {
	p.Helper()
	p.lease()
	i := p.find(key)
	if i < 0 {
		p.Fatalf("%s is not live; live are %+v", key, p.live)
	}
	a := p.live[i]
	p.live = append(p.live[:i:i], p.live[i+1:]...)
	if payload != "" && string(a.Payload) != payload {
		p.Errorf("%s has the payload %s; want %s", key, a.Payload, payload)
	}
	return a
}

// undoing is a store in which the decisions on a node's end cannot be committed.
type undoing struct{ engine.Store }

func (u undoing) FinishNodes(ctx context.Context, fs []job.Finish, decide engine.Decide) ([]job.Verdict, []engine.RunChanged, error) {
	return u.Store.FinishNodes(ctx, fs, func(v engine.RunView) (*engine.RunChange, error) {
		next, err := decide(v)
		if err == nil && len(next.Members) > 0 {
			next.Members = append(next.Members, next.Members[0]) // it breaks a unique key
		}
		return next, err
	})
}

// Items never get a value from a turn whose transaction was undone.
func TestAListOfAnUndoneTurnIsNotKept(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, store engine.Store) {
		p := newPlayer(t, store, workflow.Definition{Nodes: []workflow.Node{
			{Key: "a", Execution: plain}, {Key: "r", Execution: plain},
			{Key: "m", DependsOn: []string{"a", "r"}, Trigger: "one_success", Map: json.RawMessage(`9`), Execution: json.RawMessage(`{"target":"worker","kind":"x","payload":"{{ nodes.r.result }}"}`)},
		}})
		limits := workflow.DefaultLimits()
		limits.FanOut = 2
		p.runner = New(undoing{store}, testClock{store}, Config{Hint: p.runner.cfg.Hint, Graphs: limits})
		p.begin(nil)
		p.end(p.take("a", ""))
		for range 2 { // items begin before r has ended, and some are left
			if err := p.runner.advance(t.Context(), []job.ExecutionID{p.run}); err != nil {
				t.Fatal(err)
			}
		}
		i := p.find("r")
		f := job.Finish{Outcome: job.Outcome{Lease: p.live[i].Lease, Status: job.OutcomeSucceeded, Result: json.RawMessage(`"lost"`)}, Then: job.Transition{Status: job.Succeeded, Move: job.Done}, Worker: p.worker}
		p.live = nil
		if _, err := p.runner.Finish(t.Context(), []job.Finish{f}); err == nil {
			t.Fatal("the turn was not undone")
		}
		f.Outcome.Result = json.RawMessage(`"stored"`)
		if vs, err := store.Finish(t.Context(), []job.Finish{f}); err != nil || !vs[0].Accepted {
			t.Fatalf("%+v, %v", vs, err)
		}
		p.take("m[8]", `"stored"`)
		for _, a := range p.live {
			if a.item >= 4 && string(a.Payload) != `"stored"` {
				t.Errorf("m[%d] has the payload %s", a.item, a.Payload)
			}
		}
	})
}

// Items that start after a node was marked or skipped see its new end, and so do items that ask for themselves.
func TestAListIsMadeAgainAfterAMark(t *testing.T) {
	t.Parallel()
	for act, status := range map[string]string{"mark": "SUCCEEDED", "skip": "SKIPPED"} {
		t.Run(act, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, store engine.Store) {
				p := newPlayer(t, store, workflow.Definition{OnFailure: "continue", Nodes: []workflow.Node{
					{Key: "r", Execution: plain, OnFailure: "ignore"},
					{Key: "m", DependsOn: []string{"r"}, Trigger: "all_done", Map: json.RawMessage(`"nodes.r.status == 'FAILED' ? run.input.first : run.input.then"`), MaxParallel: 1, Execution: json.RawMessage(`{"target":"worker","kind":"x","payload":"{{ nodes.r.status }} {{ item }}"}`)},
				}})
				p.outcomes = map[string]json.RawMessage{"r": json.RawMessage(`"F"`)}
				item := func(a attempt, want string) {
					t.Helper()
					got, err := p.runner.ItemOf(t.Context(), tenant.Default, a.Execution)
					if err != nil || string(got) != want {
						t.Errorf("the item of m[%d] is %s, %v; want %s", a.item, got, err, want)
					}
				}
				p.begin(json.RawMessage(`{"first":[1,2,3,4],"then":[5,6,7,8]}`))
				p.end(p.take("r", ""))
				p.end(p.take("m[0]", `"FAILED 1"`))
				a := p.take("m[1]", `"FAILED 2"`)
				item(a, "2")
				p.end(a)
				a = p.take("m[2]", `"FAILED 3"`)
				p.act(act, []string{"r"})
				item(a, "7")
				p.end(a)
				a = p.take("m[3]", `"`+status+` 8"`)
				item(a, "8")
				p.end(a)
				p.over(p.state())
			})
		})
	}
}

// An item may ask for itself while a node that its map reads has not ended. What it is told is not kept.
func TestAnItemAsksBeforeANodeThatItReadsEnds(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, store engine.Store) {
		p := newPlayer(t, store, workflow.Definition{Nodes: []workflow.Node{
			{Key: "a", Execution: plain}, {Key: "r", Execution: plain},
			{Key: "m", DependsOn: []string{"a", "r"}, Trigger: "one_success", Map: json.RawMessage(`"nodes.r.status == 'SUCCEEDED' ? run.input.then : run.input.first"`), Execution: plain},
		}})
		p.begin(json.RawMessage(`{"first":[1],"then":[2]}`))
		p.end(p.take("a", ""))
		a := p.take("m[0]", "")
		for _, want := range []string{"1", "2"} {
			if got, err := p.runner.ItemOf(t.Context(), tenant.Default, a.Execution); err != nil || string(got) != want {
				t.Errorf("the item is %s, %v; want %s", got, err, want)
			}
			if want == "1" {
				p.end(p.take("r", ""))
				p.advance()
			}
		}
	})
}

// A mark of a finally node runs no other finally node once more, if nothing else of the run can run.
func TestAMarkOfAFinallyNodeLeavesTheOthers(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, store engine.Store) {
		p := newPlayer(t, store, workflow.Definition{OnFailure: "continue", Nodes: []workflow.Node{
			{Key: "a", Execution: plain}, {Key: "b", DependsOn: []string{"a"}, Execution: plain},
			{Key: "f1", Finally: true, DependsOn: []string{"f2"}, Trigger: "all_done", Map: json.RawMessage(`3`), MaxParallel: 1, Execution: plain},
			{Key: "f2", Finally: true, Execution: plain}, {Key: "f3", Finally: true, Execution: plain},
		}})
		p.outcomes = map[string]json.RawMessage{"a": json.RawMessage(`"F"`), "f2": json.RawMessage(`"F"`), "f3": json.RawMessage(`"F"`)}
		p.begin(nil)
		for _, key := range []string{"a", "f2", "f1[0]", "f1[1]", "f1[2]"} {
			p.end(p.take(key, ""))
		}
		p.lease()
		p.act("mark", []string{"f2"})
		p.lease()
		if len(p.live) != 1 || p.live[0].key != "f3" {
			t.Fatalf("live are %+v; want only f3", p.live)
		}
		s := p.state()
		for n, want := range []workflow.Status{workflow.Failed, workflow.NotRun, workflow.Succeeded, workflow.Succeeded} {
			if got, _ := s.Node(n); got != want {
				t.Errorf("%s is %v; want %v", p.graph.Node(n).Key, got, want)
			}
		}
		p.end(p.take("f3", ""))
		for attempt := 1; attempt <= 2; attempt++ { // the second is that of a mark after the run's end
			if s = p.state(); s.Status != workflow.Failed || s.Attempt != attempt {
				t.Errorf("the run is %v in attempt %d; want FAILED in attempt %d", s.Status, s.Attempt, attempt)
			}
			p.over(s)
			if attempt == 1 {
				p.act("mark", []string{"f3"})
				if p.lease(); len(p.live) > 0 {
					t.Errorf("%+v began once more", p.live)
				}
			}
		}
	})
}
