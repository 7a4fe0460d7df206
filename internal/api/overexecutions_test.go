package api_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	core "github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// dying is a store that stops to note how far operations have come, as a server that is killed does.
type dying struct {
	engine.Store
	saves int // that still go through
}

var errKilled = errors.New("killed")

func (d *dying) SaveOperation(ctx context.Context, o core.Operation, ttl time.Duration) (core.Operation, error) {
	if d.saves--; d.saves < 0 {
		return o, errKilled
	}
	return d.Store.SaveOperation(ctx, o, ttl)
}

// theService is the one that a face is over.
func theService(s **service.Service) func(*api.Config, engine.Store) {
	return func(c *api.Config, _ engine.Store) { *s = c.Service }
}

// backfilled adds executions to a job, a second apart, and answers with their ids, latest first.
func (f face) backfilled(jobID string, n int) (ids []string) {
	f.Helper()
	id, _ := core.ParseID(jobID)
	now := time.Now().Truncate(time.Second)
	var many []core.Execution
	for i := range n {
		e := core.Job{ID: id, Tenant: "default", Definition: core.Definition{Name: "hello", Target: core.Target{Kind: core.Simulate}, Priority: 5}}.
			Fire(core.ExecutionID(uuid.Must(uuid.NewV7())), now.Add(-time.Duration(i+1)*time.Second), now)
		e.Trigger = core.ByBackfill
		many = append(many, e)
		ids = append(ids, e.ID.String())
	}
	if _, err := f.store.Backfill(f.Context(), "default", id, many); err != nil {
		f.Fatal(err)
	}
	return ids
}

// operated steps a runner until an operation has ended.
func (f face) operated(r *service.Runner, id string) client.Operation {
	f.Helper()
	for range 1000 {
		if _, err := r.Tick(f.Context()); err != nil {
			f.Fatal(err)
		}
		if o := want[client.Operation](f, 200, "GET", "/api/v1/operations/"+id, ""); o.State != "RUNNING" {
			return o
		}
	}
	f.Fatalf("operation %s does not end", id)
	return client.Operation{}
}

func TestBulkOverExecutions(t *testing.T) {
	onBoth(t, func(t *testing.T, open newFaces) {
		var s *service.Service
		f := open(theService(&s))
		runner := func() *service.Runner { return s.Runner(slog.New(slog.DiscardHandler)) }
		const n = 230
		j := want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "many", "key": "m", "tags": ["x"], "schedule": {"type": "CRON", "cron_expression": "0 6 1 1 *"}, "execution": {"target": "simulate", "work_kind": "noop"}}`)
		ids := f.backfilled(j.JobID, n)
		other := want[client.Job](f, 201, "POST", "/api/v1/jobs", noop)
		const these = `"filter": {"job_id": "key:m"}`
		got := want[client.ExecutionBulkBegun](f, 200, "POST", "/api/v1/executions:bulk", `{`+these+`, "action": "cancel", "dry_run": true}`)
		if got.Count != n || got.OperationID != "" || len(got.Sample) != 10 || got.Sample[0].ExecutionID != ids[0] || got.Sample[0].JobName != "many" || got.Sample[0].Status != "PENDING" {
			t.Fatalf("dry run: %+v", got)
		}
		f.fails(ids[5])
		begun := want[client.ExecutionBulkBegun](f, 202, "POST", "/api/v1/executions:bulk", `{`+these+`, "action": "cancel", "reason": "not needed"}`)
		later := f.triggers(j.JobID)
		if o := f.operated(runner(), begun.OperationID); o.Kind != "cancel_executions" || o.State != "SUCCEEDED" || o.Done != n-1 || o.Passed != 0 || begun.Count != n-1 {
			t.Errorf("cancel: %+v of %+v", o, begun)
		}
		if e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+later, ""); e.Status != "PENDING" {
			t.Errorf("what came later is %s", e.Status)
		}
		if e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+other.ExecutionID, ""); e.Status != "PENDING" {
			t.Errorf("another job's is %s", e.Status)
		}
		if e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+ids[7], ""); e.Status != "CANCELLED" || e.Error == nil || e.Error.Message != "not needed" {
			t.Errorf("one of them: %+v", e)
		}
		for _, a := range want[client.AuditEntries](f, 200, "GET", "/api/v1/audit?action=execution.cancel&limit=5", "").Audit {
			if a.Principal != "local" || a.Role != "system" {
				t.Errorf("entry: %+v", a)
			}
		}

		// A server that dies in the middle leaves the rest to another, which repeats nothing.
		begun = want[client.ExecutionBulkBegun](f, 202, "POST", "/api/v1/executions:bulk", `{"filter": {"tag": "x", "status": "CANCELLED"}, "action": "retry", "payload_override": {"again": true}}`)
		d := &dying{Store: f.store, saves: 1}
		victim := service.New(d, clockSystem{}, service.Config{LookAhead: 5 * time.Second}).Runner(slog.New(slog.DiscardHandler))
		for range 5 {
			if _, err := victim.Tick(t.Context()); errors.Is(err, errKilled) {
				break
			}
		}
		if d.saves >= 0 {
			t.Fatal("the first server was not killed")
		}
		id, _ := core.ParseOperationID(begun.OperationID)
		op, err := f.store.Operation(t.Context(), "default", id)
		if err != nil || op.Done != 100 {
			t.Fatalf("after the kill: %+v, %v", op, err)
		}
		if _, err := f.store.SaveOperation(t.Context(), op, 0); err != nil { // as when its time is over
			t.Fatal(err)
		}
		if o := f.operated(runner(), begun.OperationID); o.State != "SUCCEEDED" || o.Done != n-1 || o.Passed != 0 {
			t.Errorf("retry: %+v", o)
		}
		retried := map[string]int{}
		cursor := ""
		for {
			page := want[client.Executions](f, 200, "GET", "/api/v1/executions?trigger=retry&limit=100&cursor="+cursor, "")
			for _, e := range page.Executions {
				retried[*e.RetryOf]++
			}
			if page.Pagination.NextCursor == nil {
				break
			}
			cursor = *page.Pagination.NextCursor
		}
		if len(retried) != n-1 {
			t.Errorf("%d are retried, want %d", len(retried), n-1)
		}
		for _, id := range ids {
			if want := min(1, len(ids)); id != ids[5] && retried[id] != want {
				t.Fatalf("%s is retried %d times", id, retried[id])
			}
		}

		// By ids, of which one is twice, one has not ended, and one is unknown.
		body := fmt.Sprintf(`{"ids": [%q, %q, %q, %q], "action": "retry"}`, ids[5], ids[5], later, uuid.NewString())
		if got := want[client.ExecutionBulkBegun](f, 200, "POST", "/api/v1/executions:bulk", strings.Replace(body, `"action"`, `"dry_run": true, "action"`, 1)); got.Count != 1 {
			t.Errorf("dry run by ids: %+v", got)
		}
		begun = want[client.ExecutionBulkBegun](f, 202, "POST", "/api/v1/executions:bulk", body, "Idempotency-Key", "k")
		if again := want[client.ExecutionBulkBegun](f, 202, "POST", "/api/v1/executions:bulk", body, "Idempotency-Key", "k"); again.OperationID != begun.OperationID {
			t.Errorf("sent again: %+v", again)
		}
		if o := f.operated(runner(), begun.OperationID); o.Done != 1 || o.Passed != 2 || !strings.HasPrefix(*o.Error, "2 passed over: ") {
			t.Errorf("by ids: %+v", o)
		}
		// By an id in q, and cancelled before it begins.
		if got := want[client.ExecutionBulkBegun](f, 200, "POST", "/api/v1/executions:bulk", fmt.Sprintf(`{"filter": {"q": %q}, "action": "cancel", "dry_run": true}`, later)); got.Count < 1 {
			t.Errorf("by an id: %+v", got)
		}
		begun = want[client.ExecutionBulkBegun](f, 202, "POST", "/api/v1/executions:bulk", `{"filter": {}, "action": "cancel", "rate_per_s": 0.001}`)
		want[client.Operation](f, 202, "POST", "/api/v1/operations/"+begun.OperationID+"/cancel", "")
		if o := f.operated(runner(), begun.OperationID); o.State != "CANCELLED" || o.Done != 0 {
			t.Errorf("cancelled: %+v", o)
		}

		for body, field := range map[string]string{
			`{"action": "cancel"}`: "ids", `{"action": "stop", "filter": {}}`: "action", `{"action": "cancel", "filter": {}, "ids": ["x"]}`: "filter", `{"action": "cancel", "ids": ["x"]}`: "ids[0]",
			`{"action": "cancel", "filter": {"status": "FAILED"}}`: "filter.status", `{"action": "retry", "filter": {"status": "PENDING"}}`: "filter.status", `{"action": "retry", "filter": {"status": "x"}}`: "filter.status",
			`{"action": "retry", "filter": {}, "reason": "x"}`: "reason", `{"action": "cancel", "filter": {}, "payload_override": 1}`: "payload_override", `{"action": "cancel", "filter": {}, "rate_per_s": 0}`: "rate_per_s",
			`{"action": "cancel", "filter": {"worker_id": "x"}}`: "filter.worker_id", `{"action": "cancel", "filter": {"start_date": "x"}}`: "filter.start_date",
		} {
			if p := want[client.Problem](f, 422, "POST", "/api/v1/executions:bulk", body); len(p.Errors) != 1 || p.Errors[0].Field != field {
				t.Errorf("%s: %+v", body, p)
			}
		}
		want[client.Problem](f, 404, "POST", "/api/v1/executions:bulk", `{"action": "cancel", "filter": {"job_id": "key:nobody"}}`)
		want[client.Problem](f, 400, "POST", "/api/v1/executions:bulk", `{"action": "cancel", "filter": {"staus": "x"}}`)
	})
}

type clockSystem struct{}

func (clockSystem) Now() time.Time { return time.Now() }
