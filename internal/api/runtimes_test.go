package api_test

import (
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Maps and waits have no execution of their own, and still say when they began and ended.
func TestTimesOfMapsAndWaits(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t))
		c := newCrew(f)
		_, run := f.flow(x("a")+","+x("m", after("a"), `, "map": 2, "max_parallel": 1`)+`,{"key": "ok", "depends_on": ["m"], "wait": {"approval": {}}},`+x("b", after("ok")), "")
		c.take(1)
		if r := f.stands(run, "RUNNING", "a", "RUNNING"); nodeOf(r, "m").StartedAt != nil || nodeOf(r, "ok").StartedAt != nil {
			t.Errorf("what waits for a has started: %s", encoded(r))
		}
		c.end("a", "SUCCEEDED")
		c.take(1)
		first := f.stands(run, "RUNNING", "m", "RUNNING")
		if m := nodeOf(first, "m"); m.StartedAt == nil || m.FinishedAt != nil || m.StartedAt.Before(*nodeOf(first, "a").FinishedAt) {
			t.Errorf("while it runs: %s", encoded(m))
		}
		c.end("m", "SUCCEEDED")
		c.take(1)
		c.end("m", "SUCCEEDED")
		waits := f.stands(run, "RUNNING", "ok", "RUNNING")
		r := want[client.WorkflowRunChanged](f, 200, "POST", "/api/v1/workflow-runs/"+run+"/nodes/ok/approve", `{}`).WorkflowRun
		m, ok := nodeOf(r, "m"), nodeOf(r, "ok")
		if m.FinishedAt == nil || !m.StartedAt.Equal(*nodeOf(first, "m").StartedAt) || !m.FinishedAt.After(*m.StartedAt) || m.FinishedAt.After(*nodeOf(waits, "ok").StartedAt) {
			t.Errorf("the map: %s", encoded(m))
		}
		if ok.StartedAt == nil || !ok.StartedAt.Equal(*m.FinishedAt) || ok.FinishedAt == nil || !ok.FinishedAt.Equal(ok.Wait.Votes[0].At) {
			t.Errorf("the wait: %s, after %s", encoded(ok), encoded(m))
		}
		c.take(1)
		c.end("b", "SUCCEEDED")
		if r = f.stands(run, "SUCCEEDED"); encoded(r.CriticalPath) != `["a","m","ok","b"]` {
			t.Errorf("the critical path: %v", r.CriticalPath)
		}
	})
}
