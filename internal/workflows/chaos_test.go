package workflows

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/enginetest"
	"github.com/carillon-jobs/carillon/internal/engine/storetest"
)

var (
	chaosSeed  = flag.Uint64("chaos.seed", 0, "play this seed only")
	chaosSeeds = flag.Uint64("chaos.seeds", 40, "play so many seeds")
)

// Several servers share the runs of random workflows, over a store whose calls fail before and after they commit; hints are lost, results
// are reported twice and by those who lost their lease. Every run ends as it must, and no node starts twice.
func TestRunsUnderFaults(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, store engine.Store) {
		seeds := *chaosSeeds
		if testing.Short() {
			seeds = min(seeds, 12)
		}
		for seed := uint64(1); seed <= seeds; seed++ {
			if *chaosSeed == 0 || *chaosSeed == seed {
				t.Run(fmt.Sprint(seed), func(t *testing.T) { newChaos(t, store, seed).play() })
			}
		}
	})
}

// chaos plays one seed.
type chaos struct {
	*player
	rand   *rand.Rand
	faulty *enginetest.Faulty
	others []*Runner
	starts map[engine.NodePlace]int
	fates  map[string]job.Status
	lost   []attempt
}

func newChaos(t *testing.T, store engine.Store, seed uint64) *chaos {
	r := rand.New(rand.NewPCG(seed, 7))
	c := &chaos{rand: r, starts: map[engine.NodePlace]int{}, fates: map[string]job.Status{}}
	c.player = newPlayer(t, store, c.graphOf())
	c.player.rand = r
	c.faulty = enginetest.NewFaulty(store, enginetest.Faults{Seed: seed})
	for range 3 {
		c.others = append(c.others, New(c.faulty, testClock{store}, Config{Log: slog.New(slog.DiscardHandler)}))
	}
	return c
}

// graphOf makes up a workflow whose end does not depend on the order in which its nodes end.
func (c *chaos) graphOf() workflow.Definition {
	d := workflow.Definition{OnFailure: workflow.Continue}
	triggers := []string{"", "", "", "none_failed", "all_done", "any_success", "all_failed"}
	for i := range 2 + c.rand.IntN(8) {
		n := workflow.Node{Key: fmt.Sprintf("n%d", i), Execution: json.RawMessage(`{"target":"worker","kind":"x"}`)}
		for k := range i {
			if c.rand.IntN(3) == 0 && len(n.DependsOn) < 3 {
				n.DependsOn = append(n.DependsOn, fmt.Sprintf("n%d", k))
			}
		}
		if len(n.DependsOn) > 0 {
			n.Trigger = triggers[c.rand.IntN(len(triggers))]
		}
		if c.rand.IntN(4) == 0 {
			n.Map = json.RawMessage(fmt.Sprint(c.rand.IntN(6)))
			if n.MaxParallel = c.rand.IntN(3); n.MaxParallel > 0 { // else which items start would depend on the order in which others end
				n.Tolerate = json.RawMessage(`"100%"`)
			}
		}
		if c.rand.IntN(5) == 0 {
			n.OnFailure = []workflow.OnFailure{workflow.Handle, workflow.Ignore}[c.rand.IntN(2)]
		}
		d.Nodes = append(d.Nodes, n)
	}
	if c.rand.IntN(2) == 0 {
		d.Nodes = append(d.Nodes, workflow.Node{Key: "last", Finally: true, Execution: json.RawMessage(`{"target":"worker","kind":"x"}`)})
	}
	return d
}

// fate says how an execution ends, the same whenever it is asked.
func (c *chaos) fate(a attempt) job.Status {
	name := fmt.Sprintf("%s[%d]", a.key, a.item)
	if c.fates[name] == 0 {
		c.fates[name] = job.Succeeded
		if c.rand.IntN(4) == 0 {
			c.fates[name] = job.Failed
		}
	}
	return c.fates[name]
}

func (c *chaos) play() {
	c.begin(nil)
	bad := enginetest.Faults{Seed: c.rand.Uint64(), Before: 0.15, After: 0.15}
	for round := 0; ; round++ {
		if round > 2000 {
			c.Fatal("the run does not end")
		}
		if bad.Before > 0 && round == 300 {
			bad.Before, bad.After = 0, 0 // it must end now
		}
		c.faulty.Set(bad)
		var all sync.WaitGroup
		for _, r := range c.others {
			if c.rand.IntN(3) > 0 { // else the hint is lost
				all.Go(func() { _ = r.advance(c.Context(), []job.ExecutionID{c.run}) }) // what fails is tried again
			}
		}
		c.endSome()
		all.Wait()
		c.take()
		run, err := c.store.WorkflowRun(c.Context(), tenant.Default, c.run)
		if err != nil {
			c.Fatal(err)
		}
		if !run.EndedAt.IsZero() {
			break
		}
	}
	c.over(c.state())
	c.judge()
}

// take leases what waits of the run, and gives some of it back.
func (c *chaos) take() {
	ms, err := c.store.Members(c.Context(), tenant.Default, c.run, 0, engine.PlaceOf(c.graph.Len(), -1), 10_000)
	if err != nil {
		c.Fatal(err)
	}
	var ids []job.ExecutionID
	for _, m := range ms {
		if m.Status == job.Pending && c.rand.IntN(3) > 0 {
			ids = append(ids, m.Execution)
		}
	}
	if len(ids) == 0 {
		return
	}
	as, err := c.store.Lease(c.Context(), []engine.Grant{{Worker: c.worker, Executions: ids}}, engine.Fence{})
	if err != nil {
		c.Fatal(err)
	}
	for _, a := range as {
		m, err := c.store.MemberOf(c.Context(), tenant.Default, a.Execution)
		if err != nil {
			c.Fatal(err)
		}
		x := attempt{a, c.jobs[a.Job], m.Place.Item()}
		if c.rand.IntN(6) == 0 { // its worker loses it, and reports all the same
			if _, err := c.store.Release(c.Context(), c.worker, []job.Lease{a.Lease}); err != nil {
				c.Fatal(err)
			}
			c.lost = append(c.lost, x)
			continue
		}
		c.live = append(c.live, x)
	}
}

// endSome reports results: of what is held, of what was lost, and some twice.
func (c *chaos) endSome() {
	for _, a := range c.lost {
		if vs := c.result(a); vs.Accepted {
			c.Errorf("a result of %s under a lease that is over was accepted", a.key)
		}
	}
	c.lost = nil
	for len(c.live) > 0 && c.rand.IntN(3) > 0 {
		i := c.rand.IntN(len(c.live))
		a := c.live[i]
		c.live = slices.Delete(c.live, i, i+1)
		m, err := c.store.MemberOf(c.Context(), tenant.Default, a.Execution)
		if err != nil {
			c.Fatal(err)
		}
		if !c.result(a).Accepted {
			c.Errorf("the result of %s was refused", a.key)
		}
		c.starts[m.Place]++
		if c.rand.IntN(4) == 0 {
			c.result(a)
		}
	}
}

func (c *chaos) result(a attempt) job.Verdict {
	f := job.Finish{Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeSucceeded, Result: []byte("1")}, Then: job.Transition{Status: job.Succeeded, Move: job.Done}, Worker: c.worker}
	if c.fate(a) == job.Failed {
		f.Outcome = job.Outcome{Lease: a.Lease, Status: job.OutcomeFailed, Error: &job.Error{Type: job.HandlerError, Message: "chaos"}}
		f.Then = job.Transition{Status: job.Failed, Move: job.Died, Tries: 1}
	}
	if c.rand.IntN(2) == 0 { // what follows is decided at once, as far as nobody else decides about the run
		if vs, err := c.others[c.rand.IntN(len(c.others))].Finish(c.Context(), []job.Finish{f}); err == nil {
			return vs[0]
		} // else the worker reports again
	}
	vs, err := c.store.Finish(c.Context(), []job.Finish{f})
	if err != nil {
		c.Fatal(err)
	}
	return vs[0]
}

// judge compares the run with one that went without faults: the same graph, the same ends, in another order.
func (c *chaos) judge() {
	for place, n := range c.starts {
		if n != 1 {
			c.Errorf("node %d, item %d ran %d times", place.Node(), place.Item(), n)
		}
	}
	got := c.state()
	s, d := workflow.Begin(c.graph)
	p := &pure{c: c}
	r := &workflow.Resolver{Graph: c.graph, State: s, Values: p, Run: workflow.Run{ID: "r"}}
	e := r.Resolve(d)
	live := e.Executions
	for len(live) > 0 {
		x := live[0]
		live = live[1:]
		status := c.fates[fmt.Sprintf("%s[%d]", c.graph.Node(x.Node).Key, x.Item)]
		if status == 0 {
			c.Fatalf("%s, item %d never ran; without faults it does", c.graph.Node(x.Node).Key, x.Item)
		}
		ev := workflow.Event{Kind: workflow.NodeEnded, Node: x.Node, Status: workflow.Status(status)}
		if x.Item >= 0 {
			ev.Kind, ev.Item = workflow.ItemEnded, x.Item
		}
		e, _ := r.Advance(ev)
		live = append(live, e.Executions...)
	}
	if !s.Equal(got) {
		for _, ch := range workflow.Changes(c.graph, s, c.graph, got) {
			c.Errorf("without faults and with them: %s", ch)
		}
		c.Errorf("the run is %v; without faults it is %v", got.Status, s.Status)
	}
	if n := len(slices.Collect(maps.Keys(c.starts))); n == 0 {
		c.Error("nothing ran")
	}
}

// pure has no results.
type pure struct{ c *chaos }

func (p *pure) Result(int) json.RawMessage { return nil }
func (p *pure) Error(int) *job.Error       { return nil }
