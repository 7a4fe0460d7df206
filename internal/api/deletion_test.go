package api_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/client"
	core "github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// backlog gives a job n executions that wait.
func (c *clockwork) backlog(of string, n int) {
	c.Helper()
	id, err := core.ParseID(of)
	if err != nil {
		c.Fatal(err)
	}
	j, err := c.store.Job(c.Context(), tenant.Default, engine.Ref{ID: id})
	if err != nil {
		c.Fatal(err)
	}
	for from := 0; from < n; from += 500 {
		var es []core.Execution
		for i := from; i < min(n, from+500); i++ {
			e := j.Fire(core.ExecutionID(uuid.Must(uuid.NewV7())), c.clock.Now().Add(-time.Duration(i+1)*time.Minute), c.clock.Now())
			e.Trigger = core.ByBackfill
			es = append(es, e)
		}
		if added, err := c.store.Backfill(c.Context(), tenant.Default, id, es); err != nil || len(added) != len(es) {
			c.Fatalf("added %d: %v", len(added), err)
		}
	}
}

// A job with very many waiting executions is deleted at once; an operation cancels the rest, and another server
// continues with it where one dies in the middle.
func TestDeleteOfAJobWithABacklog(t *testing.T) {
	const n = 3*engine.CancelsAtOnce + 10
	c := newClockwork(t)
	j := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(`{"type": "CRON", "cron_expression": "0 6 * * *"}`, ""))
	c.backlog(j.JobID, n)
	path := "/api/v1/jobs/" + j.JobID
	gone := want[client.Job](c.face, 200, "DELETE", path, "")
	if gone.Status != "DELETED" || gone.OperationID == "" {
		t.Fatalf("got %s, operation %q", gone.Status, gone.OperationID)
	}
	if again := want[client.Job](c.face, 200, "DELETE", path, ""); again.Status != "DELETED" || again.OperationID != gone.OperationID {
		t.Errorf("again: %s, operation %q, want %q", again.Status, again.OperationID, gone.OperationID)
	}
	op := "/api/v1/operations/" + gone.OperationID
	is := want[client.Operation](c.face, 200, "GET", op, "")
	if is.Kind != "cancel_waiting" || is.State != "RUNNING" || is.Total != n-engine.CancelsAtOnce || is.Done != 0 {
		t.Errorf("it begins as %+v", is)
	}
	want[client.Problem](c.face, 409, "POST", op+"/cancel", "")

	dies := c.runner()
	if _, err := dies.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	if is = want[client.Operation](c.face, 200, "GET", op, ""); is.State != "RUNNING" || is.Done != engine.CancelsAtOnce {
		t.Errorf("after a piece: %+v", is)
	}
	c.clock.Advance(time.Minute)
	is = c.ends(c.runner(), gone.OperationID)
	// The second DELETE cancelled as much as a piece.
	if is.State != "SUCCEEDED" || is.Done != n-2*engine.CancelsAtOnce || is.Total != is.Done || is.Error != nil {
		t.Errorf("in the end: %+v", is)
	}
	for _, s := range []string{"PENDING", "CANCELLED"} {
		page := want[client.Executions](c.face, 200, "GET", path+"/executions?limit=1&status="+s, "")
		if some := len(page.Executions) > 0; some != (s == "CANCELLED") {
			t.Errorf("%s: %d", s, len(page.Executions))
		}
	}
	// A small one needs no operation.
	small := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(`{"type": "CRON", "cron_expression": "0 6 * * *"}`, ""))
	c.backlog(small.JobID, 100)
	if got := want[client.Job](c.face, 200, "DELETE", "/api/v1/jobs/"+small.JobID, ""); got.OperationID != "" {
		t.Errorf("a small one has the operation %q", got.OperationID)
	}
	if page := want[client.Executions](c.face, 200, "GET", "/api/v1/jobs/"+small.JobID+"/executions?limit=1&status=PENDING", ""); len(page.Executions) != 0 {
		t.Error("of a small one something waits")
	}
}
