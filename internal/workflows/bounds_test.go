package workflows

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/storetest"
)

// A run that renders more than one commit may hold starts some nodes and items at once, the rest in later commits, and each once.
func TestLargePayloadsStartInSeveralCommits(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, store engine.Store) {
		d := workflow.Definition{Nodes: []workflow.Node{
			{Key: "m", Map: json.RawMessage(`12`), Execution: json.RawMessage(`{"target":"worker","kind":"x","payload":"{{ run.input }}"}`)},
		}}
		for i := range 12 {
			d.Nodes = append(d.Nodes, workflow.Node{Key: fmt.Sprintf("n%d", i), Execution: json.RawMessage(`{"target":"worker","kind":"x"}`)})
		}
		p := newPlayer(t, store, d)
		p.begin(json.RawMessage(`"` + strings.Repeat("x", 1_000_000) + `"`))
		if got := len(p.ready); got == 0 || got > 18 {
			t.Errorf("%d executions began at once; want about 17", got)
		}
		p.lease()
		if len(p.live) != 24 {
			t.Errorf("%d executions began; want 24", len(p.live))
		}
		for _, a := range p.live {
			p.end(a)
		}
		if s := p.state(); s.Status != workflow.Succeeded {
			t.Errorf("the run is %v", s.Status)
		}
	})
}
