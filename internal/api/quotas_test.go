package api_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	core "github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/pick"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// signed is a face with sign-in: who runs it, and an admin of a tenant.
type signed struct {
	face
	system, admin []string
	tenant        string
}

func newSigned(t *testing.T, tier string, change ...func(*api.Config, engine.Store)) signed {
	t.Helper()
	var key string
	f := newFace(t, append([]func(*api.Config, engine.Store){func(c *api.Config, store engine.Store) {
		var err error
		if key, err = access.Bootstrap(context.Background(), store, "", time.Now()); err != nil {
			t.Fatal(err)
		}
		c.Authenticate = access.New(store, clock.System{}, nil).Authenticate
	}}, change...)...)
	s := signed{face: f, system: []string{"Authorization", "Bearer " + key}}
	made := want[client.Tenant](f, 201, "POST", "/api/v1/tenants", fmt.Sprintf(`{"name": "acme", "tier": %q}`, tier), s.system...)
	s.tenant = made.TenantID
	s.admin = s.key("admin")
	return s
}

// key makes a key of the tenant, as headers.
func (s signed) key(role string) []string {
	s.Helper()
	k := want[client.APIKey](s.face, 201, "POST", "/api/v1/api-keys", fmt.Sprintf(`{"tenant_id": %q, "name": %q, "role": %q}`, s.tenant, "k-"+role, role), s.system...)
	return []string{"Authorization", "Bearer " + *k.Key}
}

func (s signed) quotas(change string) client.Tenant {
	s.Helper()
	return want[client.Tenant](s.face, 200, "PATCH", "/api/v1/tenants/"+s.tenant, change, s.system...)
}

// over wants a refusal that names a quota with its limit and what there is.
func (s signed) over(status int, name string, limit, current int64, method, path, body string) client.Problem {
	s.Helper()
	p := want[client.Problem](s.face, status, method, path, body, s.admin...)
	if p.Quota == nil || p.Quota.Name != name || p.Quota.Limit != limit || p.Quota.Current != current || p.Detail == "" {
		s.Errorf("%s %s: %+v, %+v; want the quota %s with %d, %d", method, path, p, p.Quota, name, limit, current)
	}
	return p
}

func cron(expression string) string {
	return fmt.Sprintf(`{"name": "n", "execution": {"target": "simulate", "work_kind": "noop"}, "schedule": {"type": "CRON", "cron_expression": %q}}`, expression)
}

func every(d string) string {
	return fmt.Sprintf(`{"name": "n", "execution": {"target": "simulate", "work_kind": "noop"}, "schedule": {"type": "INTERVAL", "every": %q}}`, d)
}

func payload(bytes int) string {
	return fmt.Sprintf(`{"name": "n", "execution": {"target": "simulate", "work_kind": "noop", "payload": %q}}`, strings.Repeat("x", bytes-2))
}

func TestFreeTier(t *testing.T) {
	s := newSigned(t, "free")
	s.quotas(`{"quotas": {"requests_per_second": -1}}`)
	const jobs = "/api/v1/jobs"
	made := want[client.Job](s.face, 201, "POST", jobs, noop, s.admin...)
	if made.Priority != 8 {
		t.Errorf("the usual priority is %d, want the best that is allowed", made.Priority)
	}
	path := jobs + "/" + made.JobID
	s.over(413, "payload_bytes", 1024, 1025, "POST", jobs, payload(1025))
	want[client.Job](s.face, 201, "POST", jobs, payload(1024), s.admin...)
	s.over(413, "payload_bytes", 1024, 2000, "POST", path+"/trigger", fmt.Sprintf(`{"payload_override": %q}`, strings.Repeat("x", 1998)))
	s.over(413, "payload_bytes", 1024, 1102, "POST", "/api/v1/events:send", fmt.Sprintf(`{"event": "paid", "dry_run": true, "payload": %q}`, strings.Repeat("x", 1100)))
	p := s.over(403, "max_retries", 3, 4, "POST", jobs, job(`"retry_policy": {"max_retries": 4}`))
	if p.Code != "over_quota" || len(p.Errors) != 1 || p.Errors[0].Field != "retry_policy.max_retries" {
		t.Errorf("%+v", p)
	}
	p = s.over(403, "best_priority", 8, 7, "POST", jobs+":batch", "["+noop+","+job(`"priority": 7`)+"]")
	if len(p.Errors) != 1 || p.Errors[0].Field != "[1].priority" || p.Errors[0].Want != "at least 8" {
		t.Errorf("%+v", p.Errors)
	}
	s.over(403, "shortest_interval_ms", 60_000, 59_000, "POST", jobs, every("59s"))
	s.over(403, "shortest_interval_ms", 60_000, 30_000, "POST", jobs, cron("*/30 * * * * *"))
	s.over(403, "shortest_interval_ms", 60_000, 59_000, "POST", jobs, cron("59,0 0 0,23 * * *"))
	s.over(403, "shortest_interval_ms", 60_000, 5000, "POST", jobs, cron("@every 5s"))
	for _, ok := range []string{every("1m"), cron("* * * * *"), cron("@every 60s"), cron("0 0 29 2 *")} {
		want[client.Job](s.face, 201, "POST", jobs, ok, s.admin...)
	}
	s.over(403, "best_priority", 8, 1, "PATCH", path, `{"priority": 1}`)
	s.over(403, "dead_letters", 0, 0, "GET", "/api/v1/dead-letters", "")
	s.over(403, "dead_letters", 0, 0, "POST", "/api/v1/dead-letters:redrive", `{"filter": {}}`)
	s.over(403, "dead_letters", 0, 0, "POST", "/api/v1/dead-letters:redrive", `{"filter": {}, "dry_run": true}`)
	s.over(403, "dead_letters", 0, 0, "POST", "/api/v1/dead-letters:discard", `{"ids": ["`+made.ExecutionID+`"]}`)
	s.over(403, "dead_letters", 0, 0, "POST", "/api/v1/dead-letters/"+made.ExecutionID+"/redrive", "")
	s.over(403, "notification_rules", 0, 0, "PUT", "/api/v1/notification-rules/a", `{"events": ["failed"], "callback_url": "https://example.com/"}`)

	// A plan knows the usual priority, and what the quota does not allow.
	keyed := strings.Replace(every("1h"), `"n"`, `"n", "key": "k"`, 1)
	want[client.Job](s.face, 201, "POST", jobs, keyed, s.admin...)
	if p := want[client.JobPlans](s.face, 200, "POST", plans, declared(keyed), s.admin...).Jobs[0]; p.Action != client.ActionUnchanged {
		t.Errorf("as it is: %+v", p)
	}
	for body, field := range map[string]string{
		strings.Replace(keyed, `"n"`, `"n", "priority": 7`, 1): "priority", strings.Replace(keyed, "1h", "59s", 1): "schedule.every",
		strings.Replace(keyed, `"k"`, `"new", "retry_policy": {"max_retries": 4}`, 1): "retry_policy.max_retries",
	} {
		if p := want[client.JobPlans](s.face, 200, "POST", plans, declared(body), s.admin...).Jobs[0]; p.Action != client.ActionInvalid || len(p.Problems) != 1 || p.Problems[0].Field != field {
			t.Errorf("%s: %+v", body, p)
		}
	}

	// A higher tier has all that, and what is made there stays when the tier is lowered again.
	s.quotas(`{"tier": "enterprise"}`)
	rich := want[client.Job](s.face, 201, "POST", jobs, strings.Replace(cron("*/2 * * * * *"), `"n"`, `"n", "priority": 1, "retry_policy": {"max_retries": 10}`, 1), s.admin...)
	want[client.DeadLetters](s.face, 200, "GET", "/api/v1/dead-letters", "", s.admin...)
	s.quotas(`{"tier": "free"}`)
	kept := want[client.Job](s.face, 200, "PATCH", jobs+"/"+rich.JobID, `{"description": "still mine", "priority": 2}`, s.admin...)
	if kept.Priority != 2 || kept.RetryPolicy.MaxRetries != 10 || kept.Status != "ACTIVE" {
		t.Errorf("kept: %+v", kept)
	}
	s.over(403, "max_retries", 3, 11, "PATCH", jobs+"/"+rich.JobID, `{"retry_policy": {"max_retries": 11}}`)
	s.over(403, "shortest_interval_ms", 60_000, 3000, "PATCH", jobs+"/"+rich.JobID, `{"schedule": {"cron_expression": "*/3 * * * * *"}}`)

	// The tenant default, and who runs the installation there, is not limited.
	want[client.Job](s.face, 201, "POST", jobs, payload(5000), s.system...)
	want[client.Job](s.face, 201, "POST", jobs, every("1s"), s.system...)
}

func TestActiveJobsOverHTTP(t *testing.T) {
	s := newSigned(t, "pro")
	const jobs = "/api/v1/jobs"
	got := s.quotas(`{"quotas": {"active_jobs": 3, "weight": 7}}`)
	if got.Quotas.ActiveJobs != 3 || got.Quotas.Weight != 7 || got.Quotas.MaxRetries != 5 || strings.Join(got.Overridden, " ") != "active_jobs weight" {
		t.Errorf("%+v", got)
	}
	first := want[client.Job](s.face, 201, "POST", jobs, every("1h"), s.admin...)
	s.over(403, "active_jobs", 3, 1, "POST", jobs+":batch", "["+every("1h")+","+noop+","+noop+"]") // all or nothing
	want[client.CreatedJobs](s.face, 201, "POST", jobs+":batch", "["+every("1h")+","+noop+"]", s.admin...)
	for _, key := range []string{"", "k"} {
		p := want[client.Problem](s.face, 403, "POST", jobs, noop, append(s.admin, "X-Idempotency-Key", key)...)
		if p.Code != "over_quota" || p.Quota == nil || p.Quota.Current != 3 {
			t.Errorf("%+v", p)
		}
	}
	if a := want[client.Allowance](s.face, 200, "GET", "/api/v1/quotas", "", s.key("viewer")...); *a.Usage.ActiveJobs != 3 || a.Quotas.ActiveJobs != 3 || a.Tier != "pro" || a.TenantID != s.tenant {
		t.Errorf("%+v", a)
	}
	want[client.Job](s.face, 200, "DELETE", jobs+"/"+first.JobID, "", s.admin...)
	again := want[client.Job](s.face, 201, "POST", jobs, noop, append(s.admin, "X-Idempotency-Key", "k")...)
	// The same request again is answered, although there is no room.
	if same := want[client.Job](s.face, 201, "POST", jobs, noop, append(s.admin, "X-Idempotency-Key", "k")...); same.JobID != again.JobID {
		t.Errorf("%s, then %s", again.JobID, same.JobID)
	}
	one := want[client.Tenant](s.face, 200, "GET", "/api/v1/tenants/"+s.tenant, "", s.system...)
	if one.Usage == nil || *one.Usage.ActiveJobs != 3 {
		t.Errorf("%+v", one.Usage)
	}
	// Lowered below what there is: that stays, and nothing is added.
	s.quotas(`{"quotas": {"active_jobs": 0}}`)
	s.over(403, "active_jobs", 0, 3, "POST", jobs, noop)
	want[client.Job](s.face, 200, "GET", jobs+"/"+again.JobID, "", s.admin...)
	if back := s.quotas(`{"quotas": {"active_jobs": null}}`); back.Quotas.ActiveJobs != 100_000 || len(back.Overridden) != 1 {
		t.Errorf("%+v", back)
	}
	want[client.Job](s.face, 201, "POST", jobs, noop, s.admin...)
	d := want[client.Tenant](s.face, 200, "GET", "/api/v1/tenants/default", "", s.system...)
	if d.Quotas.ActiveJobs != -1 || d.Usage.ActiveJobs != nil || d.Quotas.BestPriority != 1 {
		t.Errorf("default: %+v", d)
	}
}

// A job that is over takes no room, and so cannot be planned again if there is none.
func TestAnOverJobTakesRoomAgain(t *testing.T) {
	s := newSigned(t, "pro")
	const jobs, hourly = "/api/v1/jobs", `{"schedule": {"type": "INTERVAL", "every": "1h"}}`
	s.quotas(`{"quotas": {"active_jobs": 1}}`)
	done := want[client.Job](s.face, 201, "POST", jobs, noop, s.admin...)
	want[client.Execution](s.face, 202, "POST", "/api/v1/executions/"+done.ExecutionID+"/cancel", "", s.admin...)
	want[client.Job](s.face, 201, "POST", jobs, every("1h"), s.admin...)
	s.over(403, "active_jobs", 1, 1, "PATCH", jobs+"/"+done.JobID, hourly)
	want[client.Job](s.face, 200, "PATCH", jobs+"/"+done.JobID, `{"description": "still over"}`, s.admin...)
	s.quotas(`{"quotas": {"active_jobs": 0}}`)
	s.over(403, "active_jobs", 0, 1, "PATCH", jobs+"/"+done.JobID, hourly)
	s.quotas(`{"quotas": {"active_jobs": 2}}`)
	if j := want[client.Job](s.face, 200, "PATCH", jobs+"/"+done.JobID, hourly, s.admin...); j.Status != "ACTIVE" {
		t.Errorf("%+v", j)
	}
	s.over(403, "active_jobs", 2, 2, "POST", jobs, noop)
}

// What a bulk trigger begins waits for the tenant's rate when it starts; the operation neither stops at it nor uses it up.
func TestBulkTriggerOverTheRate(t *testing.T) {
	var svc *service.Service
	s := newSigned(t, "free", func(c *api.Config, _ engine.Store) { svc = c.Service })
	s.quotas(`{"quotas": {"executions_per_minute": 1, "executions_burst": 3, "requests_per_second": -1}}`)
	const jobs, bulk = "/api/v1/jobs", "/api/v1/jobs:bulk"
	const n = 5
	var last string
	for range n {
		last = want[client.Job](s.face, 201, "POST", jobs, every("1h"), s.admin...).JobID
	}
	s.over(413, "payload_bytes", 1024, 2000, "POST", bulk, fmt.Sprintf(`{"filter": {}, "action": "trigger", "payload_override": %q}`, strings.Repeat("x", 1998)))
	begun := want[client.BulkBegun](s.face, 202, "POST", bulk, `{"filter": {}, "action": "trigger"}`, s.admin...)
	r := svc.Runner(slog.New(slog.DiscardHandler))
	for range 5 {
		if _, err := r.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if o := want[client.Operation](s.face, 200, "GET", "/api/v1/operations/"+begun.OperationID, "", s.admin...); o.State != "SUCCEEDED" || o.Done != n {
		t.Errorf("%+v", o)
	}
	want[client.Triggered](s.face, 202, "POST", jobs+"/"+last+"/trigger", "", s.admin...)
}

func TestExecutionRateOverHTTP(t *testing.T) {
	s := newSigned(t, "free")
	const jobs = "/api/v1/jobs"
	s.quotas(`{"quotas": {"executions_per_minute": 1, "executions_burst": 3}}`)
	first := want[client.Job](s.face, 201, "POST", jobs, noop, s.admin...)
	s.over(403, "executions_burst", 3, 4, "POST", jobs+":batch", "["+strings.Repeat(noop+",", 3)+noop+"]")
	want[client.Triggered](s.face, 202, "POST", jobs+"/"+first.JobID+"/trigger", "", s.admin...)
	want[client.Job](s.face, 201, "POST", jobs, every("1h"), s.admin...) // what fires later waits then
	want[client.Job](s.face, 201, "POST", jobs, noop, s.admin...)
	w := s.ask("POST", jobs, noop, s.admin...)
	p := s.over(429, "executions_per_minute", 1, 4, "POST", jobs, noop)
	if w.Code != 429 || p.Code != "rate_limited" || p.Quota.RetryAfterMS < 50_000 || p.Quota.RetryAfterMS > 60_000 || w.Header().Get("Retry-After") != "60" {
		t.Errorf("%d %+v, Retry-After %s", w.Code, p.Quota, w.Header().Get("Retry-After"))
	}
	s.over(429, "executions_per_minute", 1, 4, "POST", jobs+"/"+first.JobID+"/trigger", "")
	want[client.Job](s.face, 201, "POST", jobs, every("1h"), s.admin...)
}

// An execution that its tenant's quota keeps from starting is explained by that.
func TestExplainKnowsTheQuota(t *testing.T) {
	var store engine.Store
	s := newSigned(t, "free", func(_ *api.Config, of engine.Store) { store = of })
	s.quotas(`{"quotas": {"executions_per_minute": 1, "executions_burst": 3}}`)
	want[client.Session](s.face, 201, "POST", "/api/v1/workers", `{"kinds": ["send-email"], "capacity": 5}`, s.key("worker")...)
	j := want[client.Job](s.face, 201, "POST", "/api/v1/jobs", emailJob, s.admin...)
	explain := func() client.Explanation {
		return want[client.Explanation](s.face, 200, "GET", "/api/v1/executions/"+j.ExecutionID+"/explain", "", s.admin...)
	}
	if x := explain(); x.Code != "READY" {
		t.Errorf("got %+v", x)
	}
	draw := engine.Draw{Bucket: pick.ScopeBucket(tenant.ID(s.tenant), ""), Rate: core.Rate{Count: 1, Per: time.Minute, Burst: 3}, N: 3}
	if got, err := store.Draw(t.Context(), []engine.Draw{draw}); err != nil || got[0].N != 3 {
		t.Fatalf("drew %+v, %v", got, err)
	}
	if x := explain(); x.Code != "RATE_LIMIT" || x.Details.Limit == nil || x.Details.Limit.Scope != "tenant" || x.EstimatedStart == nil {
		t.Errorf("got %+v", x)
	}
}

func TestBadQuotas(t *testing.T) {
	s := newSigned(t, "free")
	for _, c := range []struct {
		body  string
		code  int
		field string
	}{
		{`{"quotas": {"active_jobs": -2}}`, 422, "quotas.active_jobs"},
		{`{"quotas": {"active_jobs": 1.5}}`, 400, "quotas.active_jobs"},
		{`{"quotas": {"active_jobs": "many"}}`, 400, "quotas.active_jobs"},
		{`{"quotas": {"executions_per_minute": 0}}`, 422, "quotas.executions_per_minute"},
		{`{"quotas": {"executions_burst": -1}}`, 422, "quotas.executions_burst"},
		{`{"quotas": {"payload_bytes": 99999999999}}`, 422, "quotas.payload_bytes"},
		{`{"quotas": {"history_days": 0}}`, 422, "quotas.history_days"},
		{`{"quotas": {"max_retries": 5000}}`, 422, "quotas.max_retries"},
		{`{"quotas": {"shortest_interval_ms": -1}}`, 422, "quotas.shortest_interval_ms"},
		{`{"quotas": {"best_priority": 0}}`, 422, "quotas.best_priority"},
		{`{"quotas": {"best_priority": 11}}`, 422, "quotas.best_priority"},
		{`{"quotas": {"dead_letters": 1}}`, 400, "quotas.dead_letters"},
		{`{"quotas": {"requests_per_second": 0}}`, 422, "quotas.requests_per_second"},
		{`{"quotas": {"weight": 0}}`, 422, "quotas.weight"},
		{`{"quotas": {"activejobs": 1}}`, 400, "quotas.activejobs"},
		{`{"quotas": []}`, 400, "quotas"},
	} {
		p := want[client.Problem](s.face, c.code, "PATCH", "/api/v1/tenants/"+s.tenant, c.body, s.system...)
		if len(p.Errors) == 0 || p.Errors[0].Field != c.field || p.Errors[0].Want == "" {
			t.Errorf("%s: %+v", c.body, p.Errors)
		}
	}
	want[client.Problem](s.face, 422, "PATCH", "/api/v1/tenants/default", `{"quotas": {"active_jobs": 1}}`, s.system...)
	want[client.Problem](s.face, 403, "PATCH", "/api/v1/tenants/"+s.tenant, `{"quotas": {"active_jobs": 1}}`, s.admin...)
	if got := s.quotas(`{"quotas": null}`); len(got.Overridden) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestGoldenQuotas(t *testing.T) {
	s := newSigned(t, "free")
	s.quotas(`{"quotas": {"active_jobs": 1}}`)
	s.ask("POST", "/api/v1/jobs", every("1h"), s.admin...)
	id := func(headers []string) []string { return append(headers, "X-Request-ID", "r1") }
	goldens(t, map[string]string{
		"quotas.json":          s.ask("GET", "/api/v1/quotas", "", s.admin...).Body.String(),
		"tenant_read.json":     s.ask("GET", "/api/v1/tenants/"+s.tenant, "", s.system...).Body.String(),
		"problem_quota.json":   s.ask("POST", "/api/v1/jobs", noop, id(s.admin)...).Body.String(),
		"problem_payload.json": s.ask("POST", "/api/v1/jobs", payload(2000), id(s.admin)...).Body.String(),
	})
}
