package workflows

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/storetest"
)

// reading counts what decisions read.
type reading struct {
	engine.Store
	results, jobs int
}

func (c *reading) ChangeRuns(ctx context.Context, ids []job.ExecutionID, decide engine.Decide) ([]engine.RunChanged, error) {
	return c.Store.ChangeRuns(ctx, ids, func(v engine.RunView) (*engine.RunChange, error) {
		v.Reader = countingReader{v.Reader, &c.results}
		return decide(v)
	})
}

// Job gives jobs that may change, which a runner does not keep.
func (c *reading) Job(ctx context.Context, t tenant.ID, r engine.Ref) (job.Job, error) {
	c.jobs++
	j, err := c.Store.Job(ctx, t, r)
	j.State = job.Active
	return j, err
}

type countingReader struct {
	engine.RunReader
	n *int
}

func (c countingReader) Results(run job.ExecutionID, node int) ([]engine.RunResult, error) {
	*c.n++
	return c.RunReader.Results(run, node)
}

// The list of a map is not read again for each of the items that start one after the other.
func TestTheListOfAMapIsReadOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, store engine.Store) {
		const width = 60
		x := json.RawMessage(`{"target":"worker","kind":"x"}`)
		p := newPlayer(t, store, workflow.Definition{Nodes: []workflow.Node{
			{Key: "list", Execution: x},
			{Key: "m", DependsOn: []string{"list"}, Map: json.RawMessage(`"nodes.list.result"`), MaxParallel: 2, Execution: json.RawMessage(`{"target":"worker","kind":"x","payload":"{{ item }}"}`)},
		}})
		c := &reading{Store: store}
		hint := p.runner.cfg.Hint
		p.runner = New(c, testClock{store}, Config{Hint: hint})
		p.outcomes = map[string]json.RawMessage{"list.result": json.RawMessage("[1" + strings.Repeat(",1", width-1) + "]")}
		p.begin(nil)
		for range width + 1 {
			p.lease()
			if len(p.live) == 0 {
				t.Fatal("nothing is live")
			}
			a := p.live[0]
			p.live = p.live[1:]
			p.end(a)
		}
		if s := p.state(); s.Status != workflow.Succeeded {
			t.Errorf("the run is %v", s.Status)
		}
		if c.results > 4 {
			t.Errorf("results were read %d times for %d items; want once or twice", c.results, width)
		}
	})
}

// The job of a node is read once for the items that start together.
func TestTheJobOfAMapIsReadOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, store engine.Store) {
		p := newPlayer(t, store, workflow.Definition{Nodes: []workflow.Node{
			{Key: "m", Map: json.RawMessage("50"), Execution: json.RawMessage(`{"target":"worker","kind":"x"}`)},
		}})
		c := &reading{Store: store}
		p.runner = New(c, testClock{store}, Config{Hint: p.runner.cfg.Hint})
		p.begin(nil)
		if len(p.ready) != 50 || c.jobs > 3 {
			t.Errorf("%d items began, and jobs were read %d times; want 50, and one or two", len(p.ready), c.jobs)
		}
	})
}
