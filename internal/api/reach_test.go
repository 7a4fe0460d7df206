package api_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/allowlist"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Where a tenant's callbacks may go beyond what is public, the operator says, and workers are told with each of them.
func TestWhereCallbacksMayGo(t *testing.T) {
	s := newSigned(t, "enterprise", func(c *api.Config, store engine.Store) {
		c.Delivery = delivery.New(c.Dispatch, c.Logger, allowlist.New(store, clock.System{}).Step)
	})
	at := "/api/v1/tenants/" + s.tenant
	set := func(body string, ranges ...string) {
		t.Helper()
		got := want[client.Tenant](s.face, 200, "PATCH", at, body, s.system...)
		if !slices.Equal(got.CallbacksAllow, ranges) || got.CallbacksAllow == nil {
			t.Errorf("%s: %q, want %q", body, got.CallbacksAllow, ranges)
		}
		if read := want[client.Tenant](s.face, 200, "GET", at, "", s.system...); !slices.Equal(read.CallbacksAllow, ranges) {
			t.Errorf("read: %q", read.CallbacksAllow)
		}
	}
	set(`{}`)
	set(`{"callbacks_allow": ["10.1.2.3/16", "fd00::1", "10.1.0.0/16", "192.168.7.7"]}`, "10.1.0.0/16", "192.168.7.7/32", "fd00::1/128")
	set(`{"name": "still"}`, "10.1.0.0/16", "192.168.7.7/32", "fd00::1/128")
	want[client.Problem](s.face, 403, "PATCH", at, `{"callbacks_allow": ["10.0.0.0/8"]}`, s.admin...)
	for body, field := range map[string]string{
		`{"callbacks_allow": ["10.0.0.0/8", "x"]}`: "callbacks_allow[1]", `{"callbacks_allow": ["fe80::1%eth0"]}`: "callbacks_allow[0]", `{"callbacks_allow": [""]}`: "callbacks_allow[0]",
		`{"callbacks_allow": ["10.0.0.0/33"]}`: "callbacks_allow[0]",
	} {
		if p := want[client.Problem](s.face, 422, "PATCH", at, body, s.system...); len(p.Errors) != 1 || p.Errors[0].Field != field {
			t.Errorf("%s: %+v", body, p)
		}
	}
	worker := s.key("worker")
	w := want[client.Session](s.face, 201, "POST", "/api/v1/workers", `{"targets": ["http", "simulate"], "capacity": 9}`, worker...)
	for _, body := range []string{`{"name": "a", "execution": {"callback_url": "http://10.1.0.5/"}}`, noop} {
		want[client.Job](s.face, 201, "POST", "/api/v1/jobs", body, s.admin...)
		got := want[client.Claimed](s.face, 200, "POST", "/api/v1/workers/"+w.WorkerID+"/claim", `{"max": 5, "wait_seconds": 10}`, append(worker, "X-Worker-Session", w.Session)...)
		if len(got.Attempts) != 1 {
			t.Fatalf("%+v", got)
		}
		if a := got.Attempts[0]; (a.Execution.Target == "http") != slices.Equal(a.CallbackAllow, []string{"10.1.0.0/16", "192.168.7.7/32", "fd00::1/128"}) {
			t.Errorf("%s is given %q", a.Execution.Target, a.CallbackAllow)
		}
	}
	e := want[client.AuditEntries](s.face, 200, "GET", "/api/v1/audit?action=tenant.update", "", s.admin...).Audit
	if len(e) == 0 || !slices.ContainsFunc(e, func(x client.AuditEntry) bool {
		return x.After["callbacks_allow"] == "10.1.0.0/16,192.168.7.7/32,fd00::1/128"
	}) {
		t.Errorf("audit: %+v", e)
	}
	set(`{"callbacks_allow": []}`)
	set(`{"callbacks_allow": ["10.0.0.0/8"]}`, "10.0.0.0/8")
	set(`{"callbacks_allow": null}`)
}

// A tenant whose callbacks go over https only can make no job that calls over http, nor change one so, and workers are told of it for
// those that are there.
func TestHTTPSOnlyOfATenant(t *testing.T) {
	s := newSigned(t, "enterprise", func(c *api.Config, store engine.Store) {
		c.Delivery = delivery.New(c.Dispatch, c.Logger, allowlist.New(store, clock.System{}).Step)
	})
	at := "/api/v1/tenants/" + s.tenant
	const plain, secure = `{"name": "a", "execution": {"callback_url": "HTTP://example.com/"}}`, `{"name": "b", "schedule": {"type": "CRON", "cron_expression": "0 0 1 1 *"}, "execution": {"callback_url": "https://example.com/"}}`
	before := want[client.Job](s.face, 201, "POST", "/api/v1/jobs", plain, s.admin...)
	want[client.Problem](s.face, 403, "PATCH", at, `{"callbacks_https_only": true}`, s.admin...)
	if x := want[client.Tenant](s.face, 200, "PATCH", at, `{"callbacks_https_only": true}`, s.system...); !x.CallbacksHTTPSOnly {
		t.Error("it is not set")
	}
	if x := want[client.Tenant](s.face, 200, "PATCH", at, `{"name": "still"}`, s.system...); !x.CallbacksHTTPSOnly {
		t.Error("another change ends it")
	}
	refused := func(method, path, body string) {
		t.Helper()
		if p := want[client.Problem](s.face, 422, method, path, body, s.admin...); len(p.Errors) != 1 || p.Errors[0].Field != "execution.callback_url" || !strings.Contains(p.Errors[0].Want, "callbacks_https_only") {
			t.Errorf("%s %s: %+v", method, path, p)
		}
	}
	refused("POST", "/api/v1/jobs", plain)
	there := want[client.Job](s.face, 201, "POST", "/api/v1/jobs", secure, s.admin...)
	refused("PATCH", "/api/v1/jobs/"+there.JobID, `{"execution": {"callback_url": "http://example.com/"}}`)

	worker := s.key("worker")
	w := want[client.Session](s.face, 201, "POST", "/api/v1/workers", `{"targets": ["http"], "capacity": 9}`, worker...)
	got := want[client.Claimed](s.face, 200, "POST", "/api/v1/workers/"+w.WorkerID+"/claim", `{"max": 5, "wait_seconds": 10}`, append(worker, "X-Worker-Session", w.Session)...)
	if len(got.Attempts) != 1 || got.Attempts[0].ExecutionID != before.ExecutionID || !got.Attempts[0].CallbackHTTPSOnly || got.Attempts[0].CallbackAllow != nil {
		t.Errorf("a worker is given %+v", got.Attempts)
	}
	e := want[client.AuditEntries](s.face, 200, "GET", "/api/v1/audit?action=tenant.update", "", s.admin...).Audit
	if !slices.ContainsFunc(e, func(x client.AuditEntry) bool { return x.After["callbacks_https_only"] == "true" }) {
		t.Errorf("audit: %+v", e)
	}
	if x := want[client.Tenant](s.face, 200, "PATCH", at, `{"callbacks_https_only": false}`, s.system...); x.CallbacksHTTPSOnly {
		t.Error("it cannot be taken back")
	}
	want[client.Job](s.face, 201, "POST", "/api/v1/jobs", plain, s.admin...)
}
