package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	core "github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// policied is a job with all that limits it; keyed by its payload's n.
func policied(n int, more string) string {
	return fmt.Sprintf(`{"name": "limited", "execution": {"target": "simulate", "work_kind": "noop", "payload": {"n": %d}, "timeout_seconds": 60, "stall_timeout_seconds": 10, "total_timeout_seconds": 90},
		"concurrency_key": "payload.n"%s}`, n, more)
}

func (f face) stored(id string) core.Execution {
	f.Helper()
	x, err := core.ParseExecutionID(id)
	if err != nil {
		f.Fatal(err)
	}
	e, err := f.store.Execution(f.Context(), tenant.Default, x)
	if err != nil {
		f.Fatal(err)
	}
	return e
}

func TestLimitsOfAJob(t *testing.T) {
	f := newFace(t)
	all := `, "max_concurrent": 3, "rate_limit": {"count": 100, "per": "1m30s", "burst": 7}, "expires_after": "1h", "auto_redrive_after": "36h"`
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", policied(1, all))
	for _, j := range []client.Job{j, want[client.Job](f, 200, "GET", "/api/v1/jobs/"+j.JobID, "")} {
		if *j.MaxConcurrent != 3 || *j.ConcurrencyKey != "payload.n" || j.RateLimit.Count != 100 || j.RateLimit.Per != "1m30s" || *j.RateLimit.Burst != 7 || *j.ExpiresAfter != "1h" ||
			*j.AutoRedriveAfter != "36h" || *j.Execution.StallTimeout != 10 || *j.Execution.TotalTimeout != 90 {
			t.Errorf("answered: %+v, %+v", j, j.Execution)
		}
	}
	first := f.stored(j.ExecutionID)
	if first.Group.Key == 0 || first.Group.Max != 3 || first.Group.Rate.Burst != 7 || first.ExpiresAt.Sub(first.DueAt) != time.Hour || first.Stall != 10*time.Second {
		t.Errorf("stored: %+v", first)
	}
	alike := want[client.Job](f, 201, "POST", "/api/v1/jobs", policied(1, ""))
	if *alike.MaxConcurrent != 1 || alike.RateLimit != nil {
		t.Errorf("with a key alone: %v, %v", *alike.MaxConcurrent, alike.RateLimit)
	}
	if got := f.stored(alike.ExecutionID).Group; got.Key != first.Group.Key || got.Max != 1 {
		t.Errorf("another job with the same value is in %+v", got)
	}
	trigger := func(body string) core.Group {
		t.Helper()
		return f.stored(want[client.Triggered](f, 202, "POST", "/api/v1/jobs/"+j.JobID+"/trigger", body).ExecutionID).Group
	}
	if got := trigger(""); got != first.Group {
		t.Errorf("triggered: %+v", got)
	}
	other := trigger(`{"payload_override": {"n": 2}}`)
	if other.Key == first.Group.Key {
		t.Error("another value, the same group")
	}
	if null, none := trigger(`{"payload_override": {}}`), trigger(`{"payload_override": {"n": null}}`); null != none || null.Key == first.Group.Key {
		t.Errorf("without a value: %+v, %+v", null, none)
	}
	p := want[client.Problem](f, 422, "POST", "/api/v1/jobs/"+j.JobID+"/trigger", `{"payload_override": {"n": [1]}}`)
	if len(p.Errors) != 1 || p.Errors[0].Field != "payload_override" || !strings.Contains(p.Errors[0].Want, "list") {
		t.Errorf("got %+v", p)
	}
	f.fails(j.ExecutionID)
	again := want[client.Triggered](f, 202, "POST", "/api/v1/executions/"+j.ExecutionID+"/retry", `{"payload_override": {"n": 2}}`)
	if got := f.stored(again.ExecutionID).Group; got != other {
		t.Errorf("run again with another payload: %+v", got)
	}
	want[client.Problem](f, 422, "POST", "/api/v1/executions/"+j.ExecutionID+"/retry", `{"payload_override": {"n": {}}}`)
	rate := want[client.Job](f, 201, "POST", "/api/v1/jobs", job(`"rate_limit": {"count": 1000, "per": "1s"}`))
	if *rate.RateLimit.Burst != 100 || f.stored(rate.ExecutionID).Group.Key == 0 {
		t.Errorf("a rate alone: %+v", rate.RateLimit)
	}
	if plain := want[client.Job](f, 201, "POST", "/api/v1/jobs", noop); f.stored(plain.ExecutionID).Group != (core.Group{}) || plain.MaxConcurrent != nil || plain.ExpiresAfter != nil {
		t.Errorf("without limits: %+v", plain)
	}
}

func TestUniqueKeysOverHTTP(t *testing.T) {
	f := newFace(t)
	body := func(key string) string { return job(fmt.Sprintf(`"unique_key": %q`, key)) }
	ask := func(status int, method, path, b string, headers ...string) *httptest.ResponseRecorder {
		t.Helper()
		w := f.ask(method, path, b, headers...)
		if w.Code != status {
			t.Fatalf("%s %s: got %d %s", method, path, w.Code, w.Body)
		}
		return w
	}
	first := want[client.Job](f, 201, "POST", "/api/v1/jobs", body("a"))
	w := ask(201, "POST", "/api/v1/jobs", body("a"), "X-Idempotency-Key", "k")
	var second client.Job
	if err := json.Unmarshal(w.Body.Bytes(), &second); err != nil {
		t.Fatal(err)
	}
	if second.JobID != first.JobID || second.ExecutionID != first.ExecutionID || *second.UniqueKey != "a" || w.Header().Get("Carillon-Deduplicated") != "true" {
		t.Errorf("got %s, %v", w.Body, w.Header())
	}
	if again := ask(201, "POST", "/api/v1/jobs", body("a"), "X-Idempotency-Key", "k"); again.Body.String() != w.Body.String() || again.Header().Get("Idempotent-Replay") != "true" {
		t.Errorf("again: %s", again.Body)
	}
	ask(422, "POST", "/api/v1/jobs", body("b"), "X-Idempotency-Key", "k")

	// Within a batch: one that is held, one named three times, one without.
	batch := "[" + body("a") + "," + body("c") + "," + noop + "," + body("c") + "," + body("c") + "]"
	w = ask(201, "POST", "/api/v1/jobs:batch", batch)
	var made client.CreatedJobs
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil {
		t.Fatal(err)
	}
	m := made.Jobs
	if len(m) != 5 || m[0].JobID != first.JobID || m[0].ExecutionID != first.ExecutionID || m[3] != m[1] || m[4] != m[1] || m[2].JobID == m[1].JobID || w.Header().Get("Carillon-Deduplicated") != "true" {
		t.Errorf("got %+v", m)
	}
	if jobs := want[client.Jobs](f, 200, "GET", "/api/v1/jobs", ""); jobs.Pagination.Total != 3 {
		t.Errorf("%d jobs", jobs.Pagination.Total)
	}
	all := ask(201, "POST", "/api/v1/jobs:batch", "["+body("a")+","+body("c")+"]", "X-Idempotency-Key", "all held")
	if again := ask(201, "POST", "/api/v1/jobs:batch", "["+body("a")+","+body("c")+"]", "X-Idempotency-Key", "all held"); again.Body.String() != all.Body.String() {
		t.Errorf("again: %s", again.Body)
	}

	w = ask(202, "POST", "/api/v1/jobs/"+first.JobID+"/trigger", "", "X-Idempotency-Key", "t")
	if !strings.Contains(w.Body.String(), first.ExecutionID) || w.Header().Get("Carillon-Deduplicated") != "true" {
		t.Errorf("triggered: %s", w.Body)
	}
	f.fails(first.ExecutionID)
	if again := ask(202, "POST", "/api/v1/jobs/"+first.JobID+"/trigger", "", "X-Idempotency-Key", "t"); again.Body.String() != w.Body.String() {
		t.Errorf("again: %s", again.Body)
	}
	taken := want[client.Triggered](f, 202, "POST", "/api/v1/jobs/"+first.JobID+"/trigger", "")
	if taken.ExecutionID == first.ExecutionID {
		t.Error("the key is not free after the end")
	}
	for path, code := range map[string]string{"/api/v1/executions/" + first.ExecutionID + "/retry": "cannot_retry", "/api/v1/dead-letters/" + first.ExecutionID + "/redrive": "cannot_redrive"} {
		if p := want[client.Problem](f, 409, "POST", path, ""); p.Code != code || !strings.Contains(p.Detail, `unique key "a"`) {
			t.Errorf("%s: %+v", path, p)
		}
	}
	f.fails(taken.ExecutionID)
	want[client.Triggered](f, 202, "POST", "/api/v1/dead-letters/"+first.ExecutionID+"/redrive", "")
}

func TestEventsAndReport(t *testing.T) {
	f := newFace(t)
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", noop)
	path := "/api/v1/executions/" + j.ExecutionID
	x, _ := core.ParseExecutionID(j.ExecutionID)
	a := f.leases(x)
	if _, err := f.store.Renew(f.Context(), []engine.Renewal{{Worker: f.stored(j.ExecutionID).Worker, Advances: []core.Advance{{Lease: a.Lease, Percent: 40, Message: "half"}}}}, time.Hour); err != nil {
		t.Fatal(err)
	}
	if e := want[client.Execution](f, 200, "GET", path, ""); e.Progress == nil || e.Progress.Percent != 40 || e.Progress.Message != "half" || e.Error != nil {
		t.Errorf("running: %+v", e)
	}
	if _, err := f.store.Finish(f.Context(), []core.Finish{{
		Outcome: core.Outcome{Lease: a.Lease, Status: core.OutcomeFailed, Error: &core.Error{Type: core.HTTPError, Message: "answered 503", HTTPStatus: 503}},
		Then:    core.Transition{Move: core.Again, Status: core.Retrying, Tries: 1, DueAt: time.Now().UTC().Truncate(time.Microsecond)},
	}}); err != nil {
		t.Fatal(err)
	}
	if e := want[client.Execution](f, 200, "GET", path, ""); e.Status != "RETRYING" || e.Error == nil || e.Error.HTTPStatus != 503 {
		t.Errorf("after a failure: %+v", e)
	}
	b := f.leases(x)
	if e := want[client.Execution](f, 200, "GET", path, ""); e.Status != "RUNNING" || e.Error == nil {
		t.Errorf("running after a failure: %+v", e)
	}
	if r := want[client.Report](f, 200, "GET", path+"/report", ""); len(r.Attempts) != 2 || r.Attempts[0].Status != "FAILED" || r.Attempts[1].Status != "RUNNING" || r.Attempts[1].FinishedAt != nil || len(r.Errors) != 1 {
		t.Errorf("report while it runs: %+v", r)
	}
	if _, err := f.store.Finish(f.Context(), []core.Finish{{
		Outcome: core.Outcome{Lease: b.Lease, Status: core.OutcomeSucceeded, Result: []byte(`{"ok":true}`), Response: &core.Response{HTTPStatus: 200, BodyPreview: "fine"}},
		Then:    core.Transition{Move: core.Done, Status: core.Succeeded},
	}}); err != nil {
		t.Fatal(err)
	}
	events := want[client.Events](f, 200, "GET", path+"/events", "")
	var kinds []string
	for _, e := range events.Events {
		kinds = append(kinds, e.Type)
	}
	if got := strings.Join(kinds, " "); got != "created started attempt_failed started finished" || int(events.Pagination.Total) != len(kinds) {
		t.Errorf("events: %s", got)
	}
	if e := events.Events[2]; *e.Attempt != 1 || *e.FencingToken != int64(a.Token) || e.WorkerID == nil || !strings.Contains(e.Detail, "503") || e.At.IsZero() {
		t.Errorf("event: %+v", e)
	}
	r := want[client.Report](f, 200, "GET", path+"/report", "")
	if r.Status != "SUCCEEDED" || len(r.Attempts) != 2 || r.Attempts[1].Status != "SUCCEEDED" || r.Attempts[1].AttemptNumber != 2 || len(r.Errors) != 1 || string(r.Result) != `{"ok":true}` || r.CallbackResponse.HTTPStatus != 200 ||
		r.RunningMS+r.BetweenAttemptsMS > r.TotalMS+1 || r.QueueWaitMS < 0 || r.FinishedAt == nil {
		t.Errorf("report: %+v", r)
	}
	for _, part := range []string{"/events", "/report"} {
		want[client.Problem](f, 404, "GET", "/api/v1/executions/0190a6c8-7b3e-7cc0-8a1b-0123456789ab"+part, "")
		want[client.Problem](f, 404, "GET", "/api/v1/executions/x"+part, "")
	}
}

// finishes steps the runner until the operation has ended.
func (f face) finishes(cfg api.Config, id string) client.Operation {
	f.Helper()
	runner := cfg.Service.Runner(cfg.Logger)
	for range 100 {
		if _, err := runner.Tick(f.Context()); err != nil {
			f.Fatal(err)
		}
		if o := want[client.Operation](f, 200, "GET", "/api/v1/operations/"+id, ""); o.State != "RUNNING" {
			return o
		}
	}
	f.Fatalf("operation %s does not end", id)
	return client.Operation{}
}

func TestOperationsOverHTTP(t *testing.T) {
	var cfg api.Config
	f := newFace(t, func(c *api.Config, _ engine.Store) { cfg = *c })
	var ids []string
	var jobs []client.Job
	for range 5 {
		j := want[client.Job](f, 201, "POST", "/api/v1/jobs", noop)
		f.fails(j.ExecutionID)
		jobs, ids = append(jobs, j), append(ids, j.ExecutionID)
	}
	if got := want[client.Begun](f, 200, "POST", "/api/v1/dead-letters:redrive", `{"filter": {"reason": "not_retryable"}, "dry_run": true}`); got.Count != 5 || got.OperationID != "" {
		t.Errorf("dry run: %+v", got)
	}
	if got := want[client.Begun](f, 200, "POST", "/api/v1/dead-letters:redrive", `{"filter": {"reason": "poison"}, "dry_run": true}`); got.Count != 0 {
		t.Errorf("dry run over none: %+v", got)
	}
	if got := want[client.Begun](f, 200, "POST", "/api/v1/dead-letters:discard", fmt.Sprintf(`{"ids": [%q, %q, %q], "dry_run": true}`, ids[0], ids[0], "0190a6c8-7b3e-7cc0-8a1b-0123456789ab")); got.Count != 1 {
		t.Errorf("dry run over ids: %+v", got)
	}
	// By ids, of which one is no dead letter.
	body := fmt.Sprintf(`{"ids": [%q, %q, "0190a6c8-7b3e-7cc0-8a1b-0123456789ab"]}`, ids[0], ids[1])
	first := f.ask("POST", "/api/v1/dead-letters:redrive", body, "X-Idempotency-Key", "r")
	if again := f.ask("POST", "/api/v1/dead-letters:redrive", body, "X-Idempotency-Key", "r"); first.Code != 202 || again.Body.String() != first.Body.String() {
		t.Fatalf("got %d %s, then %s", first.Code, first.Body, again.Body)
	}
	list := want[client.Operations](f, 200, "GET", "/api/v1/operations", "")
	if len(list.Operations) != 1 || list.Operations[0].State != "RUNNING" || list.Operations[0].CreatedBy != "local" || list.Operations[0].Kind != "redrive" {
		t.Fatalf("operations: %+v", list)
	}
	o := f.finishes(cfg, list.Operations[0].OperationID)
	if o.State != "SUCCEEDED" || o.Total != 2 || o.Done != 2 || o.Passed != 1 || o.FinishedAt == nil || o.Error == nil || !strings.HasPrefix(*o.Error, "1 passed over: ") {
		t.Errorf("ended: %+v", o)
	}
	redriven := want[client.Executions](f, 200, "GET", "/api/v1/jobs/"+jobs[0].JobID+"/executions", "").Executions
	if len(redriven) != 2 || redriven[0].Trigger != "redrive" || *redriven[0].RetryOf != ids[0] {
		t.Errorf("redriven: %+v", redriven)
	}
	if p := want[client.Problem](f, 409, "POST", "/api/v1/operations/"+o.OperationID+"/cancel", ""); p.Code != "cannot_cancel" || !strings.Contains(p.Detail, "SUCCEEDED") {
		t.Errorf("cancel of a finished one: %+v", p)
	}
	// By a filter: what dies after it began is not part of it.
	begun := want[client.Begun](f, 202, "POST", "/api/v1/dead-letters:redrive", fmt.Sprintf(`{"filter": {"job_id": %q}}`, jobs[2].JobID))
	f.fails(redriven[0].ExecutionID)
	if o := f.finishes(cfg, begun.OperationID); begun.Count != 1 || o.Done != 1 || o.Passed != 0 || o.Total != 1 {
		t.Errorf("ended: %+v", o)
	}
	begun = want[client.Begun](f, 202, "POST", "/api/v1/dead-letters:discard", `{"filter": {}, "rate_per_s": 1000}`)
	if begun.Count != 3 {
		t.Errorf("discard: %+v", begun)
	}
	cancelled := want[client.Begun](f, 202, "POST", "/api/v1/dead-letters:redrive", `{"filter": {}, "rate_per_s": 0.5}`)
	for range 2 {
		if o := want[client.Operation](f, 202, "POST", "/api/v1/operations/"+cancelled.OperationID+"/cancel", ""); o.State != "CANCELLED" || *o.RatePerS != 0.5 {
			t.Errorf("cancelled: %+v", o)
		}
	}
	runner := cfg.Service.Runner(cfg.Logger)
	late := time.After(2 * time.Minute)
	for want[client.Operation](f, 200, "GET", "/api/v1/operations/"+begun.OperationID, "").State == "RUNNING" {
		next, err := runner.Tick(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-time.After(next):
		case <-late:
			t.Fatal("it does not end")
		}
	}
	if dead := want[client.DeadLetters](f, 200, "GET", "/api/v1/dead-letters", ""); len(dead.DeadLetters) != 0 {
		t.Errorf("%d are left", len(dead.DeadLetters))
	}
	for body, code := range map[string]int{
		`{}`: 422, `{"ids": []}`: 422, `{"ids": ["x"]}`: 422, `{"ids": "x"}`: 400, ``: 400, `{"filter": {"colour": "red"}}`: 400, `{"filter": {"job_id": "x"}}`: 422, `{"filter": {"reason": "sad"}}`: 422,
		`{"filter": {"start_date": "soon"}}`: 422, `{"filter": {}, "rate_per_s": 0}`: 422, `{"filter": {}, "rate_per_s": -1}`: 422, `{"filter": {}, "rate_per_s": 10001}`: 422,
		`{"filter": {}, "rate_per_s": 1e-300}`: 422, `{"filter": {}, "rate_per_s": 0.00099}`: 422,
		fmt.Sprintf(`{"filter": {}, "ids": [%q]}`, ids[0]): 422,
	} {
		for _, verb := range []string{"redrive", "discard"} {
			if p := want[client.Problem](f, code, "POST", "/api/v1/dead-letters:"+verb, body); len(p.Errors) == 0 && body != "" {
				t.Errorf("%s %s names no field: %+v", verb, body, p)
			}
		}
	}
	want[client.Problem](f, 404, "GET", "/api/v1/operations/0190a6c8-7b3e-7cc0-8a1b-0123456789ab", "")
	want[client.Problem](f, 404, "GET", "/api/v1/operations/x", "")
	want[client.Problem](f, 404, "POST", "/api/v1/operations/x/cancel", "")
	want[client.Problem](f, 400, "GET", "/api/v1/operations?limit=0", "")
}

func TestLimitsAndTenants(t *testing.T) {
	f := newFace(t)
	if got := want[client.Limits](f, 200, "GET", "/api/v1/limits", ""); len(got.Limits) != 0 {
		t.Errorf("at first: %+v", got)
	}
	want[client.Limit](f, 200, "PUT", "/api/v1/limits/queues/slow", `{"max_concurrent": 2}`)
	if l := want[client.Limit](f, 200, "PUT", "/api/v1/limits/tenant", `{"max_concurrent": 100, "rate_limit": {"count": 50, "per": "1s"}}`); *l.MaxConcurrent != 100 || *l.RateLimit.Burst != 5 || l.Queue != nil {
		t.Errorf("set: %+v", l)
	}
	got := want[client.Limits](f, 200, "GET", "/api/v1/limits", "").Limits
	if len(got) != 2 || got[0].Queue != nil || got[0].RateLimit.Per != "1s" || *got[1].Queue != "slow" || *got[1].MaxConcurrent != 2 || got[1].RateLimit != nil {
		t.Errorf("limits: %+v", got)
	}
	want[client.Limit](f, 200, "PUT", "/api/v1/limits/tenant", `{"max_concurrent": null, "rate_limit": null}`)
	if got := want[client.Limits](f, 200, "GET", "/api/v1/limits", "").Limits; len(got) != 1 {
		t.Errorf("after one was removed: %+v", got)
	}
	for _, c := range []struct {
		path, body string
		code       int
		field      string
	}{
		{"tenant", `{"max_concurrent": 0}`, 422, "max_concurrent"},
		{"tenant", `{"max_concurrent": 1000001}`, 422, "max_concurrent"},
		{"tenant", `{"rate_limit": {"count": 1, "per": "1y"}}`, 422, "rate_limit.per"},
		{"tenant", `{"rate_limit": {"count": -1, "per": "1s"}}`, 422, "rate_limit.count"},
		{"queues/Slow%20One", `{"max_concurrent": 1}`, 422, "queue"},
		{"queues/slow", `{"max": 1}`, 400, "max"},
		{"queues/slow", `[]`, 400, ""},
	} {
		p := want[client.Problem](f, c.code, "PUT", "/api/v1/limits/"+c.path, c.body)
		if c.field != "" && (len(p.Errors) == 0 || p.Errors[0].Field != c.field) {
			t.Errorf("%s %s: %+v", c.path, c.body, p.Errors)
		}
	}

	acme := want[client.Tenant](f, 201, "POST", "/api/v1/tenants", `{"name": "Acme & Söhne GmbH"}`)
	if acme.TenantID != "acme-s-hne-gmbh" || acme.Tier != "free" {
		t.Errorf("made: %+v", acme)
	}
	if second := want[client.Tenant](f, 201, "POST", "/api/v1/tenants", `{"name": "acme & söhne gmbh", "tier": "PRO"}`); second.TenantID != "acme-s-hne-gmbh-2" || second.Tier != "pro" {
		t.Errorf("a second of the name: %+v", second)
	}
	a := f.ask("POST", "/api/v1/tenants", `{"name": "☃"}`, "X-Idempotency-Key", "t")
	b := f.ask("POST", "/api/v1/tenants", `{"name": "☃"}`, "X-Idempotency-Key", "t")
	if a.Code != 201 || a.Body.String() != b.Body.String() || !strings.Contains(a.Body.String(), `"tenant_id":"tenant-`) {
		t.Errorf("got %d %s, then %s", a.Code, a.Body, b.Body)
	}
	want[client.Problem](f, 422, "POST", "/api/v1/tenants", `{"name": "other"}`, "X-Idempotency-Key", "t")
	if changed := want[client.Tenant](f, 200, "PATCH", "/api/v1/tenants/"+acme.TenantID, `{"tier": "enterprise"}`); changed.Tier != "enterprise" || changed.Name != acme.Name {
		t.Errorf("changed: %+v", changed)
	}
	if got := want[client.Tenant](f, 200, "GET", "/api/v1/tenants/"+acme.TenantID, ""); got.Tier != "enterprise" {
		t.Errorf("read: %+v", got)
	}
	if all := want[client.Tenants](f, 200, "GET", "/api/v1/tenants", ""); len(all.Tenants) != 4 || all.Pagination.Total != 4 {
		t.Errorf("all: %+v", all)
	}
	for body, code := range map[string]int{`{}`: 422, `{"name": " "}`: 422, `{"name": "a\u0000"}`: 422, `{"name": "x", "tier": "gold"}`: 422, `{"name": "x", "plan": "pro"}`: 400} {
		want[client.Problem](f, code, "POST", "/api/v1/tenants", body)
	}
	want[client.Problem](f, 422, "PATCH", "/api/v1/tenants/"+acme.TenantID, `{"tier": "gold"}`)
	want[client.Problem](f, 404, "PATCH", "/api/v1/tenants/nobody", "not JSON")
	want[client.Problem](f, 404, "GET", "/api/v1/tenants/nobody", "")
}

func TestDrainOverHTTP(t *testing.T) {
	f := newFace(t)
	s := want[client.Session](f, 201, "POST", "/api/v1/workers", `{"kinds": ["x"]}`)
	path := "/api/v1/workers/" + s.WorkerID
	mine := []string{"X-Worker-Session", s.Session}
	if o := want[client.Orders](f, 200, "POST", path+"/beat", `{}`, mine...); o.Drain {
		t.Error("unasked")
	}
	if got := want[client.Draining](f, 202, "POST", path+"/drain", ""); got.WorkerID != s.WorkerID || got.Status != "DRAINING" {
		t.Errorf("got %+v", got)
	}
	for range 2 {
		if o := want[client.Orders](f, 200, "POST", path+"/beat", `{"draining": true}`, mine...); !o.Drain {
			t.Errorf("asked: %+v", o)
		}
	}
	if got := want[client.Workers](f, 200, "GET", "/api/v1/workers", "").Workers[0]; got.Status != "DRAINING" {
		t.Errorf("it is %s", got.Status)
	}
	want[client.Problem](f, 404, "POST", "/api/v1/workers/0190a6c8-7b3e-7cc0-8a1b-0123456789ab/drain", "")
	want[client.Problem](f, 404, "POST", "/api/v1/workers/x/drain", "")
	want[struct{}](f, 200, "DELETE", path, "", mine...)
	want[client.Problem](f, 404, "POST", path+"/drain", "")
}

// A worker that was given an execution again is not told that it lost the older lease of it.
func TestAnOlderLeaseIsNotSaidToBeLost(t *testing.T) {
	f := newFace(t)
	s := want[client.Session](f, 201, "POST", "/api/v1/workers", `{"kinds": ["send-email"]}`)
	path := "/api/v1/workers/" + s.WorkerID
	mine := []string{"X-Worker-Session", s.Session}
	want[client.Job](f, 201, "POST", "/api/v1/jobs", emailJob)
	claim := func() client.Attempt {
		return want[client.Claimed](f, 200, "POST", path+"/claim", `{"wait_seconds": 5}`, mine...).Attempts[0]
	}
	lost := func(a client.Attempt) int {
		t.Helper()
		return len(want[client.Orders](f, 200, "POST", path+"/beat", fmt.Sprintf(`{"executions": [{"execution_id": %q, "fencing_token": %d}]}`, a.ExecutionID, a.FencingToken), mine...).Lost)
	}
	first := claim()
	x, _ := core.ParseExecutionID(first.ExecutionID)
	if _, err := f.store.Finish(f.Context(), []core.Finish{{
		Outcome: core.Outcome{Lease: core.Lease{Execution: x, Token: core.Token(first.FencingToken)}, Status: core.OutcomeFailed, Error: &core.Error{Type: core.Stalled}},
		Then:    core.Transition{Move: core.Again, Status: core.Retrying, Tries: 1, DueAt: time.Now().UTC().Truncate(time.Microsecond)}, Expel: true,
	}}); err != nil {
		t.Fatal(err)
	}
	if n := lost(first); n != 1 {
		t.Errorf("%d lost", n)
	}
	if n := lost(claim()); n != 0 {
		t.Errorf("%d lost under the newer lease", n)
	}
}

func TestSnoozeAndProgressOverHTTP(t *testing.T) {
	f := newFace(t)
	s := want[client.Session](f, 201, "POST", "/api/v1/workers", `{"kinds": ["send-email"]}`)
	path := "/api/v1/workers/" + s.WorkerID
	mine := []string{"X-Worker-Session", s.Session}
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", strings.Replace(emailJob, `"payload"`, `"total_timeout_seconds": 5, "payload"`, 1))
	a := want[client.Claimed](f, 200, "POST", path+"/claim", `{"wait_seconds": 5}`, mine...).Attempts[0]
	if took := time.Until(a.Deadline); took > 5*time.Second || *a.Execution.TimeoutSeconds != 5 {
		t.Errorf("it has %v, %d s", took, *a.Execution.TimeoutSeconds)
	}
	beat := func(code int, progress string) {
		t.Helper()
		w := f.ask("POST", path+"/beat", fmt.Sprintf(`{"executions": [{"execution_id": %q, "fencing_token": %d, "progress": %s}]}`, a.ExecutionID, a.FencingToken, progress), mine...)
		if w.Code != code || code == 422 && !strings.Contains(w.Body.String(), "executions[0].progress.") {
			t.Errorf("progress %.60s: %d %s", progress, w.Code, w.Body)
		}
	}
	beat(200, `{"percent": 40, "message": "half\nway"}`)
	beat(422, `{"percent": 101, "message": ""}`)
	beat(422, `{"percent": -1, "message": ""}`)
	beat(422, `{"percent": 1, "message": "\u0000"}`)
	beat(422, `{"percent": 1, "message": "`+strings.Repeat("x", 1001)+`"}`)
	beat(400, `{"percent": "40"}`)
	if e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+j.ExecutionID, ""); e.Progress == nil || e.Progress.Message != "half\nway" {
		t.Errorf("progress: %+v", e.Progress)
	}
	report := func(code int, rest string) {
		t.Helper()
		if w := f.ask("POST", path+"/complete", fmt.Sprintf(`{"outcomes": [{"execution_id": %q, "fencing_token": %d, %s}]}`, a.ExecutionID, a.FencingToken, rest), mine...); w.Code != code {
			t.Errorf("%s: %d %s", rest, w.Code, w.Body)
		}
	}
	report(422, `"status": "SNOOZED"`)
	report(422, `"status": "SNOOZED", "retry_after_ms": -5`)
	report(422, `"status": "ASLEEP"`)
	report(200, `"status": "SNOOZED", "retry_after_ms": 1000`)
	e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+j.ExecutionID, "")
	if e.Status != "PENDING" || time.Until(e.DueAt) <= 0 || e.Error != nil {
		t.Errorf("after a snooze: %+v", e)
	}
}

const systemKey = "a-key-for-tests-of-thirty-two-characters-or-more"

// What tenants share is for who runs the installation.
func TestRolesOfTenants(t *testing.T) {
	f := newFace(t, func(c *api.Config, store engine.Store) {
		if _, err := access.Bootstrap(context.Background(), store, systemKey, time.Now()); err != nil {
			t.Fatal(err)
		}
		c.Authenticate = access.New(store, clock.System{}, nil).Authenticate
	})
	auth := []string{"Authorization", "Bearer " + systemKey}
	want[client.Tenants](f, 200, "GET", "/api/v1/tenants", "", auth...)
	acme := want[client.Tenant](f, 201, "POST", "/api/v1/tenants", `{"name": "Acme"}`, auth...)
	in := append(auth, "X-Tenant-ID", acme.TenantID)
	want[client.Limit](f, 200, "PUT", "/api/v1/limits/tenant", `{"max_concurrent": 1}`, in...)
	if got := want[client.Limits](f, 200, "GET", "/api/v1/limits", "", auth...); len(got.Limits) != 0 {
		t.Errorf("the limit is another tenant's: %+v", got)
	}
	for _, path := range []string{"/api/v1/tenants", "/api/v1/limits", "/api/v1/operations"} {
		want[client.Problem](f, 401, "GET", path, "")
	}
}

func TestGoldenPolicies(t *testing.T) {
	f := newFace(t)
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", policied(1, `, "max_concurrent": 3, "rate_limit": {"count": 100, "per": "1m"}, "unique_key": "u", "expires_after": "1h30m", "auto_redrive_after": "36h"`))
	limited := f.ask("GET", "/api/v1/jobs/"+j.JobID, "").Body.String()
	f.fails(j.ExecutionID)
	path := "/api/v1/executions/" + j.ExecutionID
	begun := f.ask("POST", "/api/v1/dead-letters:redrive", `{"filter": {"reason": "NOT_RETRYABLE"}, "rate_per_s": 10}`).Body.String()
	id := strings.Split(begun, `"`)[3]
	goldens(t, map[string]string{
		"job_limited.json":       limited,
		"execution_failed.json":  f.ask("GET", path, "").Body.String(),
		"events.json":            f.ask("GET", path+"/events", "").Body.String(),
		"report.json":            f.ask("GET", path+"/report", "").Body.String(),
		"operation_begun.json":   begun,
		"operation.json":         f.ask("GET", "/api/v1/operations/"+id, "").Body.String(),
		"operations.json":        f.ask("GET", "/api/v1/operations", "").Body.String(),
		"operation_dry_run.json": f.ask("POST", "/api/v1/dead-letters:redrive", `{"filter": {}, "dry_run": true}`).Body.String(),
		"limit.json":             f.ask("PUT", "/api/v1/limits/queues/slow", `{"max_concurrent": 2, "rate_limit": {"count": 5, "per": "1s", "burst": 3}}`).Body.String(),
		"limits.json":            f.ask("GET", "/api/v1/limits", "").Body.String(),
		"tenant.json":            f.ask("POST", "/api/v1/tenants", `{"name": "Acme", "tier": "pro"}`).Body.String(),
		"tenants.json":           f.ask("GET", "/api/v1/tenants", "").Body.String(),
		"problem_key.json":       f.ask("POST", "/api/v1/jobs", job(`"concurrency_key": "payload.a +"`), "X-Request-ID", "r1").Body.String(),
		"problem_retry.json":     f.ask("POST", "/api/v1/dead-letters/"+want[client.Job](f, 201, "POST", "/api/v1/jobs", noop).ExecutionID+"/redrive", "", "X-Request-ID", "r1").Body.String(),
	})
}
