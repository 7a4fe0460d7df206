package api_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/dashboard"
)

// Each screen is a page for browsers, and for programs what the API says at its place.
func TestScreensArePagesAndData(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "a job", "tags": ["t"], "execution": {"target": "simulate", "work_kind": "noop"}}`)
	for _, s := range dashboard.Screens {
		at := strings.NewReplacer("{$}", "", "{id}", j.JobID, "{part}", "edit", "{part...}", "keys/x").Replace(s.Path)
		w := f.ask("GET", at, "", "Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
		if h := w.Header(); w.Code != 200 || !strings.HasPrefix(h.Get("Content-Type"), "text/html") || h.Get("Content-Security-Policy") != dashboard.Policy || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %d, %v", at, w.Code, h)
		}
		if s.API == "" && s.Parts == nil {
			want[client.Problem](f, 406, "GET", at, "", "Accept", "application/json")
		}
	}
	later := want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "later", "schedule": {"type": "INTERVAL", "every": "1h"}, "execution": {"target": "simulate", "work_kind": "noop"}}`)
	for _, at := range []string{"/jobs/" + later.JobID, "/jobs/" + later.JobID + "/edit?tab=versions&tz=utc", "/x/" + later.JobID} {
		if got := want[client.Job](f, 200, "GET", at, "", "Accept", "application/json"); got.JobID != later.JobID {
			t.Errorf("%s: %s", at, got.JobID)
		}
	}
	if got := want[client.Execution](f, 200, "GET", "/x/"+j.ExecutionID, "", "Accept", "application/json"); got.ExecutionID != j.ExecutionID {
		t.Errorf("a short link leads to %s", got.ExecutionID)
	}
	for q, n := range map[string]int{
		"": 2, "tag:t": 1, "tag:t status:": 1, "tag:u": 0, `name:"a job" tag:t`: 1, "type:cron": 0, "TYPE:immediate job": 1, `"a job"`: 1, "other": 0, "https://x": 0, `name:"a \"job\""`: 0,
	} {
		if got := want[client.Jobs](f, 200, "GET", "/jobs?tz=utc&limit=10&q="+url.QueryEscape(q), "", "Accept", "application/json"); len(got.Jobs) != n {
			t.Errorf("%s: %d jobs, want %d", q, len(got.Jobs), n)
		}
	}
	for q, n := range map[string]int{
		`job:"a job"`: 1, "job:" + j.JobID: 1, "job:later": 0, "from:-24h": 1, "to:-24h": 0, "from:-2w to:-1min": 0, "job:": 1, "whose:mine": 0,
	} {
		if got := want[client.Executions](f, 200, "GET", "/executions?q="+url.QueryEscape(q), "", "Accept", "application/json"); len(got.Executions) != n {
			t.Errorf("%s: %d executions, want %d", q, len(got.Executions), n)
		}
	}
	for _, q := range []string{"from:-999999w", "from:yesterday", "to:-1y"} {
		want[client.Problem](f, 400, "GET", "/executions?q="+url.QueryEscape(q), "", "Accept", "application/json")
	}
	if got := want[client.AuditEntries](f, 200, "GET", "/admin/audit?q=action:job.create+from:-1h", "", "Accept", "application/json"); len(got.Audit) != 2 {
		t.Errorf("%d entries", len(got.Audit))
	}
	want[client.Problem](f, 400, "GET", "/admin/audit?q=whatever", "", "Accept", "application/json")
	for _, s := range dashboard.Screens {
		for part := range s.Parts {
			if w := f.ask("GET", "/admin/"+part+"?tz=utc", "", "Accept", "application/json"); w.Code != 200 {
				t.Errorf("%s: %d %s", part, w.Code, w.Body)
			}
		}
	}
	for at, status := range map[string]int{"/admin/settings": 406, "/admin/nothing": 406, "/admin/secrets/x": 406, "/admin/tenants/nobody": 404, "/admin/operations/" + j.JobID: 404} {
		want[client.Problem](f, status, "GET", at, "", "Accept", "application/json")
	}
	if got := want[client.Tenant](f, 200, "GET", "/admin/tenants/default", "", "Accept", "application/json"); got.TenantID != "default" {
		t.Errorf("a tenant: %+v", got)
	}
	if got := want[client.QueueDepth](f, 200, "GET", "/queues/default", "", "Accept", "application/json"); got.Queue != "default" {
		t.Errorf("a queue: %+v", got)
	}
	want[client.Problem](f, 404, "GET", "/queues/nothing", "", "Accept", "application/json")
	want[client.Problem](f, 404, "GET", "/x/nothing", "", "Accept", "application/json")
	want[client.Problem](f, 404, "GET", "/assets/nothing-00000000.js", "")
	want[client.Problem](f, 404, "GET", "/no-such-screen", "")
	if w := f.ask("GET", "/no-such-screen", "", "Accept", "text/html"); w.Code != 404 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
		t.Errorf("a browser that goes nowhere: %d, %v", w.Code, w.Header())
	}
}

// Paths of the API at the root lead to it, unless a screen is there; the method and the query are kept.
func TestPathsOfTheAPIAtTheRoot(t *testing.T) {
	f := newFace(t)
	for _, c := range []struct{ method, path, want string }{
		{"GET", "/admin/queue/status", "/api/v1/admin/queue/status"},
		{"GET", "/admin/scaling?queue=a&b=%2F", "/api/v1/admin/scaling?queue=a&b=%2F"},
		{"GET", "/series/queues?step=60", "/api/v1/series/queues?step=60"},
		{"POST", "/jobs", "/api/v1/jobs"},
		{"POST", "/jobs:batch", "/api/v1/jobs:batch"},
		{"DELETE", "/jobs/a%2Fb?running=cancel", "/api/v1/jobs/a%2Fb?running=cancel"},
		{"POST", "/executions/x/cancel", "/api/v1/executions/x/cancel"},
	} {
		if w := f.ask(c.method, c.path, "", "Accept", "text/html"); w.Code != 308 || w.Header().Get("Location") != c.want {
			t.Errorf("%s %s: %d, to %q; want %q", c.method, c.path, w.Code, w.Header().Get("Location"), c.want)
		}
	}
	for path, code := range map[string]int{"/jobs": 200, "/admin/keys": 200, "/admin/operations/x": 200, "/admin/settings": 200, "/admin": 200, "/nowhere": 404, "/api/v1/api/v1/jobs": 404} {
		if w := f.ask("GET", path, "", "Accept", "text/html"); w.Code != code || w.Header().Get("Location") != "" {
			t.Errorf("GET %s: %d, to %q", path, w.Code, w.Header().Get("Location"))
		}
	}
	a, b := f.ask("GET", "/healthz", ""), f.ask("GET", "/health", "")
	if a.Code != 200 || b.Code != 200 || a.Body.String() != b.Body.String() {
		t.Errorf("health: %d %s, %d %s", a.Code, a.Body, b.Code, b.Body)
	}
}
