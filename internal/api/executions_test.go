package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/client"
	core "github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// fails runs an execution to a failure for good, as a worker would.
func (f face) fails(id string) {
	f.Helper()
	x, err := core.ParseExecutionID(id)
	if err != nil {
		f.Fatal(err)
	}
	a := f.leases(x)
	_, err = f.store.Finish(f.Context(), []core.Finish{{
		Outcome: core.Outcome{Lease: a.Lease, Status: core.OutcomeFailed, Error: &core.Error{Type: core.HTTPError, Message: "answered 500", HTTPStatus: 500}},
		Then:    core.Transition{Move: core.Died, Status: core.Failed, Tries: 1},
	}})
	if err != nil {
		f.Fatal(err)
	}
}

func (f face) leases(id core.ExecutionID) core.Attempt {
	f.Helper()
	w := core.Worker{ID: core.WorkerID(uuid.Must(uuid.NewV7())), Host: "h", Version: "v", Capacity: 4, StartedAt: time.Now()}
	if err := f.store.Register(f.Context(), w, time.Hour); err != nil {
		f.Fatal(err)
	}
	as, err := f.store.Lease(f.Context(), []engine.Grant{{Worker: w.ID, Executions: []core.ExecutionID{id}}}, engine.Fence{})
	if err != nil || len(as) != 1 {
		f.Fatalf("lease: %v, %v", as, err)
	}
	return as[0]
}

func TestCancelOverHTTP(t *testing.T) {
	f := newFace(t)
	waits := want[client.Job](f, 201, "POST", "/api/v1/jobs", noop)
	path := "/api/v1/executions/" + waits.ExecutionID
	for range 2 {
		e := want[client.Execution](f, 202, "POST", path+"/cancel", `{"reason": "not needed"}`)
		if e.Status != "CANCELLED" || e.Error == nil || e.Error.Type != "CANCELLED" || e.Error.Message != "not needed" {
			t.Errorf("got %+v, %+v", e, e.Error)
		}
	}
	runs := want[client.Job](f, 201, "POST", "/api/v1/jobs", noop)
	id, _ := core.ParseExecutionID(runs.ExecutionID)
	f.leases(id)
	if e := want[client.Execution](f, 202, "POST", "/api/v1/executions/"+runs.ExecutionID+"/cancel", ""); e.Status != "CANCELLING" {
		t.Errorf("it is %s", e.Status)
	}
	done := want[client.Job](f, 201, "POST", "/api/v1/jobs", noop)
	f.fails(done.ExecutionID)
	if p := want[client.Problem](f, 409, "POST", "/api/v1/executions/"+done.ExecutionID+"/cancel", ""); p.Code != "cannot_cancel" {
		t.Errorf("got %+v", p)
	}
	want[client.Problem](f, 404, "POST", "/api/v1/executions/"+uuid.NewString()+"/cancel", "not JSON")
	want[client.Problem](f, 422, "POST", path+"/cancel", `{"reason": "a\u0000"}`)
	want[client.Problem](f, 400, "POST", path+"/cancel", `{"because": "x"}`)
}

// Every attempt is listed, also the one that runs and the one that succeeds; the report and the dead letters agree.
func TestAttemptsAreAllListed(t *testing.T) {
	f := newFace(t)
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", noop)
	path := "/api/v1/executions/" + j.ExecutionID
	x, _ := core.ParseExecutionID(j.ExecutionID)
	statuses := func() (out string) {
		t.Helper()
		got := want[client.ExecutionAttempts](f, 200, "GET", path+"/attempts", "")
		if rep := want[client.Report](f, 200, "GET", path+"/report", ""); len(rep.Attempts) != len(got.Attempts) || int(got.Pagination.Total) != len(got.Attempts) {
			t.Errorf("the report has %d attempts, the list %d of %d", len(rep.Attempts), len(got.Attempts), got.Pagination.Total)
		} else if n := len(rep.Attempts); n > 0 && rep.Attempts[n-1].Status != got.Attempts[n-1].Status {
			t.Errorf("the report says %+v", rep.Attempts[n-1])
		}
		for i, a := range got.Attempts {
			if a.AttemptNumber != i+1 || a.FencingToken == 0 || a.WorkerID == nil || a.StartedAt.IsZero() || (a.FinishedAt == nil) != (a.Status == "RUNNING") {
				t.Errorf("attempt %+v", a)
			}
			out += " " + a.Status
		}
		return out
	}
	if got := statuses(); got != "" {
		t.Errorf("before it started:%s", got)
	}
	a := f.leases(x)
	if got := statuses(); got != " RUNNING" {
		t.Errorf("while it runs:%s", got)
	}
	end := func(a core.Attempt, s core.OutcomeStatus, then core.Transition) {
		t.Helper()
		o := core.Outcome{Lease: a.Lease, Status: s}
		if s == core.OutcomeFailed {
			o.Error = &core.Error{Type: core.HTTPError, Message: "answered 503", HTTPStatus: 503}
		}
		if _, err := f.store.Finish(f.Context(), []core.Finish{{Outcome: o, Then: then}}); err != nil {
			t.Fatal(err)
		}
	}
	end(a, core.OutcomeFailed, core.Transition{Move: core.Again, Status: core.Retrying, Tries: 1, DueAt: time.Now().UTC().Truncate(time.Microsecond)})
	if got := statuses(); got != " FAILED" {
		t.Errorf("while it waits for its retry:%s", got)
	}
	end(f.leases(x), core.OutcomeSucceeded, core.Transition{Move: core.Done, Status: core.Succeeded})
	if got := statuses(); got != " FAILED SUCCEEDED" {
		t.Errorf("in the end:%s", got)
	}
	if page := want[client.ExecutionAttempts](f, 200, "GET", path+"/attempts?limit=1", ""); len(page.Attempts) != 1 || page.Pagination.NextCursor == nil {
		t.Errorf("a page of one: %+v", page)
	}
	dead := want[client.Job](f, 201, "POST", "/api/v1/jobs", noop)
	f.fails(dead.ExecutionID)
	path = "/api/v1/executions/" + dead.ExecutionID
	d := want[client.DeadLetters](f, 200, "GET", "/api/v1/dead-letters", "").DeadLetters[0]
	if got := statuses(); got != " FAILED" || d.TotalAttempts != 1 || len(d.Errors) != 1 || d.Errors[0].Status != "FAILED" || d.Errors[0].FinishedAt == nil {
		t.Errorf("a dead letter:%s, %+v", got, d)
	}
}

func TestDeletingAJobCanStopWhatRuns(t *testing.T) {
	onBoth(t, func(t *testing.T, open newFaces) {
		f := open()
		status := func(id string) string {
			return want[client.Execution](f, 200, "GET", "/api/v1/executions/"+id, "").Status
		}
		for query, left := range map[string]string{"": "RUNNING", "?running=leave": "RUNNING", "?running=cancel": "CANCELLING"} {
			j := want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "hourly", "schedule": {"type": "INTERVAL", "every": "1h"}, "execution": {"target": "simulate", "work_kind": "noop"}}`)
			runs, waits := f.triggers(j.JobID), f.triggers(j.JobID)
			x, _ := core.ParseExecutionID(runs)
			f.leases(x)
			path := "/api/v1/jobs/" + j.JobID
			if p := want[client.Problem](f, 400, "DELETE", path+"?running=stop", ""); len(p.Errors) != 1 || p.Errors[0].Field != "running" || !strings.Contains(p.Errors[0].Want, "cancel") {
				t.Errorf("a wrong choice: %+v", p)
			}
			for range 2 { // the second finds nothing more to do
				if got := want[client.Job](f, 200, "DELETE", path+query, ""); got.Status != "DELETED" {
					t.Errorf("%q: %+v", query, got)
				}
				if r, w := status(runs), status(waits); r != left || w != "CANCELLED" {
					t.Errorf("%q: what ran is %s, what waited %s", query, r, w)
				}
			}
			if left == "RUNNING" { // it can be asked for later, too
				want[client.Job](f, 200, "DELETE", path+"?running=cancel", "")
				if r := status(runs); r != "CANCELLING" {
					t.Errorf("%q, and then cancel: what ran is %s", query, r)
				}
			}
		}
	})
}

func TestRetryOverHTTP(t *testing.T) {
	f := newFace(t)
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", noop)
	path := "/api/v1/executions/" + j.ExecutionID
	if p := want[client.Problem](f, 409, "POST", path+"/retry", ""); !strings.Contains(p.Detail, "PENDING") {
		t.Errorf("got %+v", p)
	}
	f.fails(j.ExecutionID)
	dead := want[client.DeadLetters](f, 200, "GET", "/api/v1/dead-letters?job_id="+j.JobID+"&reason=not_retryable&q=500", "")
	if len(dead.DeadLetters) != 1 || dead.Pagination.Total != 1 {
		t.Fatalf("got %+v", dead)
	}
	d := dead.DeadLetters[0]
	if d.ExecutionID != j.ExecutionID || d.JobName != "hello" || d.Reason != "NOT_RETRYABLE" || d.TotalAttempts != 1 || len(d.Errors) != 1 || d.Errors[0].Error.HTTPStatus != 500 || d.DeadLetteredAt.IsZero() {
		t.Errorf("got %+v", d)
	}
	past := want[client.ExecutionAttempts](f, 200, "GET", path+"/attempts", "")
	if len(past.Attempts) != 1 || past.Attempts[0].AttemptNumber != 1 || past.Attempts[0].Error.Message != "answered 500" || past.Attempts[0].WorkerID == nil {
		t.Errorf("got %+v", past)
	}
	first := f.ask("POST", path+"/retry", `{"payload_override": {"a": 1}}`, "X-Idempotency-Key", "r")
	again := f.ask("POST", path+"/retry", `{"payload_override": {"a": 1}}`, "X-Idempotency-Key", "r")
	if first.Code != 202 || again.Code != 202 || first.Body.String() != again.Body.String() {
		t.Errorf("got %d %s, then %d %s", first.Code, first.Body, again.Code, again.Body)
	}
	list := want[client.Executions](f, 200, "GET", "/api/v1/jobs/"+j.JobID+"/executions", "")
	if len(list.Executions) != 2 || list.Executions[0].RetryOf == nil || *list.Executions[0].RetryOf != j.ExecutionID || list.Executions[0].Trigger != "retry" {
		t.Errorf("got %+v", list.Executions)
	}
	if one := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+list.Executions[0].ExecutionID, ""); string(one.PayloadOverride) != `{"a":1}` && string(one.PayloadOverride) != `{"a": 1}` {
		t.Errorf("it runs with %s", one.PayloadOverride)
	}
	if list.Executions[0].PayloadOverride != nil {
		t.Error("a list carries payloads")
	}
	if dead := want[client.DeadLetters](f, 200, "GET", "/api/v1/dead-letters", ""); len(dead.DeadLetters) != 0 {
		t.Error("it is still a dead letter")
	}
	if p := want[client.Problem](f, 409, "POST", "/api/v1/dead-letters/"+j.ExecutionID+"/redrive", ""); p.Code != "cannot_redrive" {
		t.Errorf("got %+v", p)
	}
	f.fails(list.Executions[0].ExecutionID)
	redriven := want[client.Triggered](f, 202, "POST", "/api/v1/dead-letters/"+list.Executions[0].ExecutionID+"/redrive", "")
	if e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+redriven.ExecutionID, ""); e.Trigger != "redrive" || e.RetryOf == nil {
		t.Errorf("got %+v", e)
	}
	f.fails(redriven.ExecutionID)
	for range 2 { // the second time under the same key
		if got := want[client.Discarded](f, 200, "POST", "/api/v1/dead-letters:discard", fmt.Sprintf(`{"ids": [%q, %q]}`, redriven.ExecutionID, j.ExecutionID), "X-Idempotency-Key", "d"); got.Discarded != 1 {
			t.Errorf("got %+v", got)
		}
	}
	for body, code := range map[string]int{`{"ids": []}`: 422, `{"ids": ["x"]}`: 422, `{}`: 422, `{"ids": "x"}`: 400, ``: 400} {
		want[client.Problem](f, code, "POST", "/api/v1/dead-letters:discard", body)
	}
	for _, query := range []string{"job_id=x", "reason=bad", "start_date=x", "limit=0", "cursor=x", "colour=red"} {
		want[client.Problem](f, 400, "GET", "/api/v1/dead-letters?"+query, "")
	}
}

func TestWorkersOverHTTP(t *testing.T) {
	f := newFace(t)
	if got := want[client.Workers](f, 200, "GET", "/api/v1/workers", ""); len(got.Workers) != 0 {
		t.Errorf("got %+v", got)
	}
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", noop)
	id, _ := core.ParseExecutionID(j.ExecutionID)
	f.leases(id)
	got := want[client.Workers](f, 200, "GET", "/api/v1/workers", "")
	if len(got.Workers) != 1 || got.Workers[0].Status != "IDLE" || got.Workers[0].Host != "h" || got.Workers[0].Capacity != 4 || got.Pagination.Total != 1 {
		t.Errorf("got %+v", got)
	}
}
