package api_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/egress"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// going makes a server with rules for where callbacks may go.
func going(t *testing.T, r egress.Rules) signed {
	t.Helper()
	s, _ := goingBy(t, r)
	return s
}

func goingBy(t *testing.T, r egress.Rules) (s signed, svc *service.Service) {
	t.Helper()
	s = newSigned(t, "enterprise", func(c *api.Config, store engine.Store) {
		c.Service = service.New(store, clock.System{}, service.Config{LookAhead: 5 * time.Second, Hint: c.Dispatch.Offer, Secrets: c.Secrets, Egress: r})
		svc = c.Service
	})
	return s, svc
}

// barred wants each way to store a URL to be refused, with its field, as much of it as is no secret, and what would be right.
func (s signed) barred(url, shown, right string) {
	s.Helper()
	there := want[client.Job](s.face, 201, "POST", "/api/v1/jobs", `{"name": "j", "schedule": {"type": "CRON", "cron_expression": "0 0 1 1 *"}, "execution": {"callback_url": "https://example.com/"}}`, s.admin...)
	want[client.NotificationRule](s.face, 200, "PUT", "/api/v1/notification-rules/there", `{"events": ["failed"], "callback_url": "https://example.com/"}`, s.admin...)
	job := fmt.Sprintf(`{"name": "j", "execution": {"callback_url": %q}}`, url)
	rule := fmt.Sprintf(`{"events": ["failed"], "callback_url": %q}`, url)
	for _, c := range []struct{ method, path, body, field string }{
		{"POST", "/jobs", job, "execution.callback_url"},
		{"PATCH", "/jobs/" + there.JobID, fmt.Sprintf(`{"execution": {"callback_url": %q}}`, url), "execution.callback_url"},
		{"PUT", "/notification-rules/new", rule, "callback_url"},
		{"PUT", "/notification-rules/there", rule, "callback_url"},
	} {
		p := want[client.Problem](s.face, 422, c.method, "/api/v1"+c.path, c.body, s.admin...)
		if len(p.Errors) != 1 || p.Errors[0].Field != c.field || fmt.Sprint(p.Errors[0].Value) != shown || !strings.Contains(p.Errors[0].Want, right) {
			s.Errorf("%s %s: %+v, want %s with the value %s, and %s", c.method, c.path, p.Errors, c.field, shown, right)
		}
	}
}

// A URL over plain http is refused when it is stored, in a job or in a notification rule, where the tenant or the server calls over
// https only.
func TestPlainHTTPIsRefusedWhenItIsStored(t *testing.T) {
	const url = "http://hooks.example.com/T0/s3cret?token=s3cret"
	t.Run("of the server", func(t *testing.T) {
		going(t, egress.Rules{HTTPSOnly: true}).barred(url, "http://hooks.example.com", "(callbacks.https_only)")
	})
	t.Run("of a tenant", func(t *testing.T) {
		s := going(t, egress.Rules{})
		old := `{"events": ["failed"], "callback_url": "http://hooks.example.com/old"}`
		want[client.NotificationRule](s.face, 200, "PUT", "/api/v1/notification-rules/old", old, s.admin...)
		s.quotas(`{"callbacks_https_only": true}`)
		s.barred(url, "http://hooks.example.com", "(callbacks_https_only)")
		// A rule that was there before can still be silenced, though not be sent elsewhere over http.
		r := want[client.NotificationRule](s.face, 200, "PUT", "/api/v1/notification-rules/old", `{"events": ["failed"], "callback_url": "http://hooks.example.com/old", "silence_until": "2099-01-01T00:00:00Z"}`, s.admin...)
		if r.SilenceUntil == nil {
			t.Errorf("it is not silent: %+v", r)
		}
		s.quotas(`{"callbacks_https_only": false}`)
		want[client.NotificationRule](s.face, 200, "PUT", "/api/v1/notification-rules/new", fmt.Sprintf(`{"events": ["failed"], "callback_url": %q}`, url), s.admin...)
	})
}

// A rule whose URL may no longer be called loses no notice: its job is made, and the worker ends it as BLOCKED_ADDRESS. The rule says
// why, and is kept again only to silence it.
func TestARuleThatMayNoLongerCallItsURL(t *testing.T) {
	s, svc := goingBy(t, egress.Rules{})
	const at = "/api/v1/notification-rules/old"
	const old = `{"events": ["failed"], "callback_url": "http://hooks.example.com/old"}`
	if r := want[client.NotificationRule](s.face, 200, "PUT", at, old, s.admin...); r.Blocked != nil {
		t.Errorf("blocked: %s", *r.Blocked)
	}
	s.quotas(`{"callbacks_https_only": true}`)
	rule, err := s.store.Rule(t.Context(), tenant.ID(s.tenant), "old")
	if err != nil {
		t.Fatal(err)
	}
	if err := svc.Notify(t.Context(), rule, "a key", []byte(`{"event": "failed"}`)); err != nil {
		t.Errorf("the notice is lost: %v", err)
	}
	jobs := want[client.Jobs](s.face, 200, "GET", "/api/v1/jobs?tag=carillon-notification", "", s.admin...).Jobs
	if len(jobs) != 1 || jobs[0].Execution.CallbackURL != "http://hooks.example.com/old" {
		t.Errorf("notices: %+v", jobs)
	}
	want[client.Triggered](s.face, 202, "POST", at+"/test", "", s.admin...)
	for _, r := range append(want[client.NotificationRules](s.face, 200, "GET", "/api/v1/notification-rules", "", s.admin...).NotificationRules,
		want[client.NotificationRule](s.face, 200, "GET", at, "", s.admin...)) {
		if r.Blocked == nil || !strings.Contains(*r.Blocked, "callbacks_https_only") {
			t.Errorf("the rule does not say that its URL is refused: %+v", r)
		}
	}
	if p := want[client.Problem](s.face, 422, "PUT", at, old, s.admin...); len(p.Errors) != 1 || p.Errors[0].Field != "callback_url" {
		t.Errorf("kept again: %+v", p)
	}
	s.quotas(`{"callbacks_https_only": false}`)
	if r := want[client.NotificationRule](s.face, 200, "GET", at, "", s.admin...); r.Blocked != nil {
		t.Errorf("still blocked: %s", *r.Blocked)
	}
}

// A URL with a port that callbacks may not go to is refused when it is stored.
func TestAPortIsRefusedWhenItIsStored(t *testing.T) {
	t.Run("not in the list", func(t *testing.T) {
		going(t, egress.Rules{Ports: []int{443, 8443}}).barred("https://example.com:9443/s3cret", "https://example.com:9443", "443, 8443")
	})
	t.Run("of another service", func(t *testing.T) {
		s := going(t, egress.Rules{})
		s.barred("https://example.com:22/s3cret", "https://example.com:22", "port 22")
		s.quotas(`{"callbacks_allow": ["10.1.0.0/16"]}`) // such addresses are reached at every port
		want[client.NotificationRule](s.face, 200, "PUT", "/api/v1/notification-rules/new", `{"events": ["failed"], "callback_url": "http://10.1.2.3:25/"}`, s.admin...)
		s.barred("http://10.2.2.3:25/", "http://10.2.2.3:25", "port 25")
	})
	t.Run("in a range that is allowed", func(t *testing.T) {
		s := going(t, egress.Rules{Named: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}})
		want[client.Job](s.face, 201, "POST", "/api/v1/jobs", `{"name": "j", "execution": {"callback_url": "http://10.1.2.3:25/"}}`, s.admin...)
	})
}
