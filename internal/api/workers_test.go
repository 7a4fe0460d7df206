package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const emailJob = `{"name": "mail", "execution": {"target": "worker", "kind": "send-email", "payload": {"to": "ann"}}, "retry_policy": {"max_retries": 1, "initial_delay_ms": 0, "max_delay_ms": 0}}`

// The worker protocol as any language speaks it.
func TestWorkerProtocol(t *testing.T) {
	f := newFace(t)
	s := want[client.Session](f, 201, "POST", "/api/v1/workers", `{"host": "box", "version": "1", "kinds": ["send-email"], "capacity": 5}`)
	if s.WorkerID == "" || s.Session == "" || s.LeaseSeconds != 30 || s.BeatSeconds != 10 {
		t.Fatalf("session: %+v", s)
	}
	path := "/api/v1/workers/" + s.WorkerID
	mine := []string{"X-Worker-Session", s.Session}
	if got := want[client.Claimed](f, 200, "POST", path+"/claim", `{"max": 5, "wait_seconds": 0}`, mine...); len(got.Attempts) != 0 {
		t.Errorf("claimed %+v", got)
	}
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", emailJob)
	want[client.Job](f, 201, "POST", "/api/v1/jobs", noop) // not for this worker
	claim := func() client.Attempt {
		t.Helper()
		got := want[client.Claimed](f, 200, "POST", path+"/claim", `{"max": 5, "wait_seconds": 5}`, mine...)
		if len(got.Attempts) != 1 {
			t.Fatalf("claimed %+v", got)
		}
		return got.Attempts[0]
	}
	a := claim()
	if a.ExecutionID != j.ExecutionID || a.JobID != j.JobID || a.JobName != "mail" || a.Kind != "send-email" || string(a.Payload) != `{"to":"ann"}` || a.AttemptNumber != 1 || a.FencingToken <= 0 ||
		a.Execution.Target != "worker" || len(a.IdempotencyKey) != 32 || a.Deadline.Before(time.Now()) {
		t.Errorf("attempt: %+v", a)
	}
	held := fmt.Sprintf(`{"executions": [{"execution_id": %q, "fencing_token": %d, "progress": {"percent": 40, "message": "half"}}]}`, a.ExecutionID, a.FencingToken)
	if o := want[client.Orders](f, 200, "POST", path+"/beat", held, mine...); len(o.Cancel)+len(o.Lost) != 0 || o.Drain {
		t.Errorf("orders: %+v", o)
	}
	want[struct{}](f, 200, "POST", path+"/release", held, mine...)
	a = claim()
	if a.AttemptNumber != 1 {
		t.Errorf("after a release it is attempt %d", a.AttemptNumber)
	}
	report := func(token int64, rest string) client.Verdict {
		t.Helper()
		return want[client.Verdicts](f, 200, "POST", path+"/complete", fmt.Sprintf(`{"outcomes": [{"execution_id": %q, "fencing_token": %d, %s}]}`, a.ExecutionID, token, rest), mine...).Verdicts[0]
	}
	failure := `"status": "FAILED", "retryable": true, "error": {"type": "HANDLER_ERROR", "message": "smtp is away"}`
	if v := report(a.FencingToken, failure); v.Verdict != "accepted" {
		t.Errorf("verdict: %+v", v)
	}
	if v := report(a.FencingToken, failure); v.Verdict != "accepted" {
		t.Errorf("again: %+v", v)
	}
	first := a.FencingToken
	a = claim()
	if a.AttemptNumber != 2 || a.FencingToken <= first {
		t.Errorf("second attempt: %+v", a)
	}
	if v := report(first, `"status": "SUCCEEDED"`); v.Verdict != "refused" || v.Reason != "stale_token" {
		t.Errorf("stale: %+v", v)
	}
	want[client.Execution](f, 202, "POST", "/api/v1/executions/"+a.ExecutionID+"/cancel", "")
	if o := want[client.Orders](f, 200, "POST", path+"/beat", `{"executions": []}`, mine...); len(o.Cancel) != 1 || o.Cancel[0] != a.ExecutionID {
		t.Errorf("orders: %+v", o)
	}
	if v := report(a.FencingToken, `"status": "SUCCEEDED", "result": {"id": 12345678901234567890}`); v.Verdict != "accepted" {
		t.Errorf("verdict: %+v", v)
	}
	if e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+a.ExecutionID, ""); e.Status != "SUCCEEDED" || string(e.Result) != `{"id":12345678901234567890}` {
		t.Errorf("execution: %s %s", e.Status, e.Result)
	}
	got := want[client.Workers](f, 200, "GET", "/api/v1/workers", "").Workers[0]
	if got.Status != "IDLE" || got.Host != "box" || got.Capacity != 5 || strings.Join(got.Kinds, "") != "send-email" || strings.Join(got.Targets, "") != "worker" {
		t.Errorf("worker: %+v", got)
	}
	want[struct{}](f, 200, "DELETE", path, "", mine...)
	if p := want[client.Problem](f, 409, "POST", path+"/beat", "{}", mine...); p.Code != "session_ended" {
		t.Errorf("after leaving: %+v", p)
	}
}

func TestWorkerCallsAreRefused(t *testing.T) {
	f := newFace(t)
	s := want[client.Session](f, 201, "POST", "/api/v1/workers", `{}`)
	path := "/api/v1/workers/" + s.WorkerID
	for _, c := range []struct {
		method, path, body string
		code               int
		session            string
	}{
		{"POST", "/api/v1/workers", `{"capacity": -1}`, 422, ""},
		{"POST", "/api/v1/workers", `{"capacity": 10001}`, 422, ""},
		{"POST", "/api/v1/workers", `{"labels": ["a,b"]}`, 422, ""},
		{"POST", "/api/v1/workers", `{"queues": ["A"]}`, 422, ""},
		{"POST", "/api/v1/workers", `{"targets": ["ftp"]}`, 422, ""},
		{"POST", "/api/v1/workers", `{"kinds": [""]}`, 422, ""},
		{"POST", "/api/v1/workers", `{"host": "a\u0000"}`, 422, ""},
		{"POST", "/api/v1/workers", `{"name": "x"}`, 400, ""},
		{"POST", path + "/claim", `{}`, 404, ""},
		{"POST", path + "/claim", `{}`, 404, "wrong"},
		{"POST", path + "/claim", `{"max": 1001}`, 422, s.Session},
		{"POST", path + "/claim", `{"wait_seconds": 61}`, 422, s.Session},
		{"POST", path + "/claim", `{"wait_seconds": -1}`, 422, s.Session},
		{"POST", path + "/claim", `[]`, 400, s.Session},
		{"POST", path + "/beat", `{"executions": [{"execution_id": "x", "fencing_token": 1}]}`, 422, s.Session},
		{"POST", path + "/complete", `{"outcomes": [{"execution_id": "x", "fencing_token": 1, "status": "SUCCEEDED"}]}`, 422, s.Session},
		{"POST", path + "/complete", fmt.Sprintf(`{"outcomes": [{"execution_id": %q, "fencing_token": 1, "status": "DONE"}]}`, uuid.NewString()), 422, s.Session},
		{"POST", path + "/release", `{"executions": [{"execution_id": "x", "fencing_token": 1}]}`, 422, s.Session},
		{"DELETE", path, ``, 404, "wrong"},
		{"POST", "/api/v1/workers/nope/beat", `{}`, 404, s.Session},
		{"POST", "/api/v1/workers/" + uuid.NewString() + "/beat", `{}`, 404, s.Session},
	} {
		w := f.ask(c.method, c.path, c.body, "X-Worker-Session", c.session)
		if w.Code != c.code {
			t.Errorf("%s %s %s: got %d %s, want %d", c.method, c.path, c.body, w.Code, w.Body, c.code)
		}
	}
}

// The Go client speaks the protocol, turns to another server when one is away, and knows an ended session.
func TestClientSpeaksTheProtocol(t *testing.T) {
	var key string
	f := newFace(t, func(c *api.Config, store engine.Store) {
		var err error
		if key, err = access.Bootstrap(context.Background(), store, "", time.Now()); err != nil {
			t.Fatal(err)
		}
		c.Authenticate = access.New(store, clock.System{}, nil).Authenticate
	})
	server := httptest.NewServer(f.http)
	defer server.Close()
	away := httptest.NewServer(nil)
	away.Close()
	c := client.New([]string{away.URL, server.URL}, key)
	s, err := c.Register(t.Context(), client.Registration{Kinds: []string{"send-email"}, Capacity: 2})
	if err != nil {
		t.Fatal(err)
	}
	if w := f.ask("POST", "/api/v1/jobs", emailJob, "Authorization", "Bearer "+key); w.Code != 201 {
		t.Fatalf("create: %d", w.Code)
	}
	as, err := c.Claim(t.Context(), s, 5000)
	if err != nil || len(as) != 1 {
		t.Fatalf("claim: %v, %v", as, err)
	}
	held := []client.Held{{ExecutionID: as[0].ExecutionID, FencingToken: as[0].FencingToken}}
	if _, err := c.Beat(t.Context(), s, client.Beat{Executions: held}); err != nil {
		t.Errorf("beat: %v", err)
	}
	if err := c.Release(t.Context(), s, held); err != nil {
		t.Errorf("release: %v", err)
	}
	if as, err = c.Claim(t.Context(), s, 1); err != nil || len(as) != 1 {
		t.Fatalf("claim: %v, %v", as, err)
	}
	vs, err := c.Report(t.Context(), s, []client.Outcome{{ExecutionID: as[0].ExecutionID, FencingToken: as[0].FencingToken, Status: client.Succeeded}})
	if err != nil || vs[0].Verdict != client.Accepted {
		t.Errorf("report: %v, %v", vs, err)
	}
	if err := c.Leave(t.Context(), s); err != nil {
		t.Errorf("leave: %v", err)
	}
	if _, err := c.Beat(t.Context(), s, client.Beat{}); !errors.Is(err, client.ErrSession) {
		t.Errorf("after leaving: got %v, want ErrSession", err)
	}
	var refused *client.Problem
	if _, err := client.New([]string{server.URL}, "wrong").Register(t.Context(), client.Registration{}); !errors.As(err, &refused) || refused.Status != 401 {
		t.Errorf("with a wrong key: %v", err)
	}
}

// Workers may report their memory; those that do not are as before, and what is unknown is left out, never 0.
func TestWorkersReportMemory(t *testing.T) {
	f := newFace(t)
	s := want[client.Session](f, 201, "POST", "/api/v1/workers", `{"host": "box", "kinds": ["x"], "memory_used_bytes": 1000, "memory_limit_bytes": 70368744177663}`)
	silent := want[client.Session](f, 201, "POST", "/api/v1/workers", `{"host": "old", "kinds": ["x"]}`)
	shown := func(s client.Session) string {
		t.Helper()
		w := want[client.Worker](f, 200, "GET", "/api/v1/workers/"+s.WorkerID, "")
		if w.MemoryUsed == nil || w.MemoryLimit == nil {
			return fmt.Sprint(w.MemoryUsed, w.MemoryLimit)
		}
		return fmt.Sprintf("%d of %d", *w.MemoryUsed, *w.MemoryLimit)
	}
	beat := func(s client.Session, body string, status int) {
		t.Helper()
		if r := f.ask("POST", "/api/v1/workers/"+s.WorkerID+"/beat", body, "X-Worker-Session", s.Session); r.Code != status {
			t.Errorf("a beat of %s: %d %s", body, r.Code, r.Body)
		} else if status == 422 && !strings.Contains(r.Body.String(), "memory_used_bytes") {
			t.Errorf("names no field: %s", r.Body)
		}
	}
	if got := shown(s); got != "1000 of 70368744177663" {
		t.Error("registered:", got)
	}
	beat(s, `{"executions": [], "memory_used_bytes": 2000}`, 200)
	beat(silent, `{"executions": []}`, 200)
	beat(s, `{"executions": []}`, 200)
	if got := shown(s); got != "2000 of 70368744177663" {
		t.Error("after beats:", got)
	}
	if got := shown(silent); got != "<nil> <nil>" {
		t.Error("of one that does not tell:", got)
	}
	beat(s, `{"executions": [], "memory_used_bytes": -1}`, 422)
	beat(s, `{"executions": [], "memory_used_bytes": 0}`, 422)
	beat(s, `{"executions": [], "memory_used_bytes": 9223372036854775807}`, 422)
}
