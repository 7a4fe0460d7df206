package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/internal/dispatch"
)

// worker registers one that runs the handler h.
func (f face) worker() (path string, mine []string) {
	f.Helper()
	s := want[client.Session](f, 201, "POST", "/api/v1/workers", `{"kinds": ["h"], "capacity": 1000}`)
	return "/api/v1/workers/" + s.WorkerID, []string{"X-Worker-Session", s.Session}
}

func handled(payload string) string {
	return fmt.Sprintf(`{"name": "large", "execution": {"target": "worker", "kind": "h", "payload": %s}}`, payload)
}

func TestAClaimIsBoundedByBytes(t *testing.T) {
	f := newFace(t)
	path, mine := f.worker()
	const jobs = 11
	large := `"` + strings.Repeat("<", 1_000_000) + `"` // six times as long, were it escaped
	for range jobs {
		want[client.Job](f, 201, "POST", "/api/v1/jobs", handled(large))
	}
	seen := map[string]bool{}
	for range jobs {
		w := f.ask("POST", path+"/claim", `{"max": 1000, "wait_seconds": 5}`, mine...)
		if n := w.Body.Len(); n > 9<<20 {
			t.Errorf("an answer has %d bytes", n)
		}
		var got client.Claimed
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Attempts) == 0 || len(got.Attempts) > 8 {
			t.Fatalf("%d attempts: %v", len(got.Attempts), err)
		}
		for _, a := range got.Attempts {
			if seen[a.ExecutionID] || a.AttemptNumber != 1 || string(a.Payload) != large {
				t.Errorf("attempt %d of %s, seen before: %v", a.AttemptNumber, a.ExecutionID, seen[a.ExecutionID])
			}
			seen[a.ExecutionID] = true
		}
		if len(seen) == jobs {
			break
		}
	}
	if len(seen) != jobs {
		t.Errorf("%d were given out, want %d", len(seen), jobs)
	}
}

func TestOutcomesAreBounded(t *testing.T) {
	f := newFace(t)
	path, mine := f.worker()
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", strings.Replace(handled("{}"), `"name"`, `"retry_policy": {"max_retries": 0}, "name"`, 1))
	a := want[client.Claimed](f, 200, "POST", path+"/claim", `{"wait_seconds": 5}`, mine...).Attempts[0]
	report := func(rest string) string {
		return fmt.Sprintf(`{"outcomes": [{"execution_id": %q, "fencing_token": %d, %s}]}`, a.ExecutionID, a.FencingToken, rest)
	}
	for rest, field := range map[string]string{
		`"status": "SUCCEEDED", "result": "` + strings.Repeat("x", client.MaxResult) + `"`:         "outcomes[0].result",
		`"status": "FAILED", "error": {"type": "` + strings.Repeat("X", 200) + `", "message": ""}`: "outcomes[0].error.type",
	} {
		if p := want[client.Problem](f, 422, "POST", path+"/complete", report(rest), mine...); len(p.Errors) != 1 || p.Errors[0].Field != field {
			t.Errorf("%.40s: %+v", rest, p)
		}
	}
	failure := `"status": "FAILED", "error": {"type": "HANDLER_ERROR", "message": "a\u0000b` + strings.Repeat("é", 10_000) + `"}`
	if v := want[client.Verdicts](f, 200, "POST", path+"/complete", report(failure), mine...).Verdicts[0]; v.Verdict != client.Accepted {
		t.Errorf("verdict: %+v", v)
	}
	e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+j.ExecutionID, "")
	if e.Error == nil || !strings.HasPrefix(e.Error.Message, "abéé") || len(e.Error.Message) > client.MaxMessage || strings.Trim(e.Error.Message, "abé") != "" {
		t.Errorf("error: %.100v", e.Error)
	}
}

// A worker in this process is refused in the same way as one elsewhere.
func TestTheDoorRefusesOutcomes(t *testing.T) {
	f := newFace(t)
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	disp := dispatch.New(f.store, clock.System{}, log, dispatch.Config{})
	d := api.NewDoor(disp, delivery.New(disp, log), clock.System{})
	s, err := d.Register(t.Context(), client.Registration{Targets: []string{"simulate"}, Capacity: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []client.Outcome{{Status: client.Succeeded, Result: json.RawMessage("{")}, {Status: "DONE"}, {Status: client.Snoozed}} {
		o.ExecutionID = uuid.NewString()
		var r *client.Problem
		if _, err := d.Report(t.Context(), s, []client.Outcome{o}); !errors.As(err, &r) || r.Status != 422 || len(r.Errors) != 1 {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestShortListsArePaged(t *testing.T) {
	f := newFace(t)
	for _, list := range []string{"workers", "limits", "tenants"} {
		for _, query := range []string{"limit=0", "limit=1001", "limit=99999999999999999999", "limit=x", "cursor=x", "cursor=-1", "colour=red"} {
			if p := want[client.Problem](f, 400, "GET", "/api/v1/"+list+"?"+query, ""); p.Code != "invalid_parameter" {
				t.Errorf("%s?%s: %+v", list, query, p)
			}
		}
	}
	if got := want[client.Limits](f, 200, "GET", "/api/v1/limits", "").Pagination; got != (client.Pagination{Limit: 50}) {
		t.Errorf("pagination of none: %+v", got)
	}
	for _, queue := range []string{"a", "b", "c"} {
		want[client.Limit](f, 200, "PUT", "/api/v1/limits/queues/"+queue, `{"max_concurrent": 1}`)
	}
	first := want[client.Limits](f, 200, "GET", "/api/v1/limits?limit=2", "")
	if len(first.Limits) != 2 || first.Pagination.Limit != 2 || first.Pagination.Total != 3 || first.Pagination.NextCursor == nil {
		t.Fatalf("first page: %+v", first)
	}
	rest := want[client.Limits](f, 200, "GET", "/api/v1/limits?limit=2&cursor="+*first.Pagination.NextCursor, "")
	if len(rest.Limits) != 1 || *rest.Limits[0].Queue != "c" || rest.Pagination.NextCursor != nil {
		t.Errorf("the rest: %+v", rest)
	}
	if past := want[client.Limits](f, 200, "GET", "/api/v1/limits?cursor=9223372036854775807", ""); len(past.Limits) != 0 {
		t.Errorf("past the end: %+v", past)
	}
}
