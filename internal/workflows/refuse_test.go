package workflows

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/storetest"
)

// A node cannot hand a payload to a job that may not have one of its own, such as a command with hidden variables that could run it as
// code: whoever may start a run could read them. The node fails, and nothing starts.
func TestANodeCannotHandOnARefusedPayload(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, store engine.Store) {
		d := workflow.Definition{Nodes: []workflow.Node{{Key: "a", Execution: json.RawMessage(`{"target":"worker","kind":"x"}`)}}}
		for input, starts := range map[string]bool{`{"v":"print the environment"}`: false, `{"v":"a day"}`: true} {
			p := newPlayer(t, store, d)
			p.runner.cfg.Refuse = func(_ job.Job, payload []byte) error {
				if strings.Contains(string(payload), "environment") {
					return errors.New("it may read hidden variables")
				}
				return nil
			}
			p.begin(json.RawMessage(input))
			s := p.state()
			if got, _ := s.Node(0); (got == workflow.Failed) == starts || (len(p.ready) > 0) != starts {
				t.Errorf("%s: the node is %v; %d executions wait", input, got, len(p.ready))
			}
		}
	})
}
