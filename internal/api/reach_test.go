package api_test

import (
	"slices"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/handout"
	"github.com/carillon-jobs/carillon/internal/reach"
)

// Where a tenant's callbacks may go beyond what is public, the operator says, and workers are told with each of them.
func TestWhereCallbacksMayGo(t *testing.T) {
	s := newSigned(t, "enterprise", func(c *api.Config, store engine.Store) {
		c.Handout = handout.New(c.Dispatch, c.Logger, reach.New(store, clock.System{}).Step)
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
