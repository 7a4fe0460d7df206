package api_test

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/storetest"
	"github.com/carillon-jobs/carillon/internal/service"
)

func TestRetentionOfAJob(t *testing.T) {
	f := newFace(t)
	is := func(j client.Job, days, failed int) {
		t.Helper()
		if k := j.Retention; k == nil && days != 0 || k != nil && (k.Days != days || *k.FailedDays != failed) {
			t.Errorf("got %+v, want %d and %d", k, days, failed)
		}
	}
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "n", "schedule": {"type": "MANUAL"}, "execution": {"target": "worker", "kind": "k"}, "retention": {"days": 7}}`)
	path := "/api/v1/jobs/" + j.JobID
	is(j, 7, 7)
	for _, c := range []struct {
		patch        string
		days, failed int
	}{
		{`{"retention": {"days": 9}}`, 9, 9},
		{`{"retention": {"failed_days": 90}}`, 9, 90},
		{`{"retention": {"days": 8}}`, 8, 90},
		{`{"name": "m"}`, 8, 90},
		{`{"retention": {"failed_days": null}}`, 8, 8},
		{`{"retention": null}`, 0, 0},
	} {
		is(want[client.Job](f, 200, "PATCH", path, c.patch), c.days, c.failed)
		is(want[client.Job](f, 200, "GET", path, ""), c.days, c.failed)
	}
	w := want[client.Workflow](f, 201, "POST", "/api/v1/workflows", `{"name": "w", "retention": {"days": 5, "failed_days": 6}, "nodes": [{"key": "a", "execution": {"target": "worker", "kind": "k"}}]}`)
	is(client.Job{Retention: w.Retention}, 5, 6)
	w = want[client.Workflow](f, 200, "PATCH", "/api/v1/workflows/"+w.WorkflowID, `{"retention": {"days": 4}}`)
	is(client.Job{Retention: w.Retention}, 4, 6)
}

// What a job no longer keeps is hidden at once, in every answer.
func TestWhatAJobNoLongerKeepsIsHidden(t *testing.T) {
	raw := storetest.SQLite(t)
	now := faceOver(t, raw)
	in := func(days int) face {
		return faceOver(t, raw, func(cfg *api.Config, store engine.Store) {
			cfg.Service = service.New(store, clock.NewManual(time.Now().AddDate(0, 0, days)), service.Config{LookAhead: 5 * time.Second, Hint: cfg.Dispatch.Offer, Secrets: cfg.Secrets})
		})
	}
	var ids []string
	for _, more := range []string{``, `, "retention": {"days": 1, "failed_days": 7}`} {
		j := want[client.Job](now, 201, "POST", "/api/v1/jobs", `{"name": "n", "execution": {"target": "worker", "kind": "k"}, "retry_policy": {"max_retries": 0}`+more+`}`)
		now.fails(j.ExecutionID)
		ids = append(ids, j.ExecutionID)
	}
	for _, c := range []struct{ days, seen int }{{2, 2}, {7, 2}, {8, 1}} {
		f := in(c.days)
		status := map[bool]int{true: 200, false: 404}[c.seen == 2]
		for _, call := range []string{"", "/attempts", "/events", "/report", "/logs"} {
			if got := f.ask("GET", "/api/v1/executions/"+ids[1]+call, "").Code; got != status {
				t.Errorf("after %d days %q answers %d, want %d", c.days, call, got, status)
			}
			if got := f.ask("GET", "/api/v1/executions/"+ids[0]+call, "").Code; got != 200 {
				t.Errorf("after %d days %q of another job answers %d", c.days, call, got)
			}
		}
		for path, most := range map[string]int{"/api/v1/executions": 2, "/api/v1/jobs/" + ids[1] + "/executions": 1} {
			if got := want[client.Executions](f, 200, "GET", path, ""); len(got.Executions) != most-2+c.seen || got.Pagination.Total != int64(most-2+c.seen) {
				t.Errorf("after %d days %s lists %d", c.days, path, len(got.Executions))
			}
		}
		if got := want[client.DeadLetters](f, 200, "GET", "/api/v1/dead-letters", ""); len(got.DeadLetters) != c.seen {
			t.Errorf("after %d days %d dead letters", c.days, len(got.DeadLetters))
		}
		if c.seen == 2 {
			continue
		}
		if got := f.ask("POST", "/api/v1/executions/"+ids[1]+"/retry", `{}`).Code; got != 404 {
			t.Errorf("after %d days a retry answers %d", c.days, got)
		}
	}
	want[client.Hold](now, 200, "PUT", "/api/v1/holds", `{"job_id": "`+ids[1]+`", "reason": "a case"}`)
	if got := in(8).ask("GET", "/api/v1/executions/"+ids[1], "").Code; got != 200 {
		t.Errorf("on hold it answers %d", got)
	}
}
