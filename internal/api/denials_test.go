package api_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/telemetry"
)

// from sends a request as if from an address.
func (f face) from(address, method, path, credential string) *httptest.ResponseRecorder {
	f.Helper()
	r := httptest.NewRequest(method, "http://localhost:8080"+path, strings.NewReader(""))
	r.RemoteAddr = address + ":1234"
	if credential != "" {
		r.Header.Set("Authorization", credential)
	}
	w := httptest.NewRecorder()
	f.http.ServeHTTP(w, r)
	return w
}

func (s signed) tick() {
	s.Helper()
	if _, err := s.http.(*api.Server).Tick(s.Context()); err != nil {
		s.Fatal(err)
	}
}

// metricOf is the value of a metric.
func metricOf(t testing.TB, m *telemetry.Metrics, name string) int {
	t.Helper()
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(rest))
			return n
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

func TestFailedAuthenticationIsLoggedCountedAndAudited(t *testing.T) {
	var log bytes.Buffer
	m := telemetry.NewMetrics("test")
	s := newSigned(t, "free", func(c *api.Config, _ engine.Store) {
		c.Logger, c.Metrics = slog.New(slog.NewTextHandler(&log, nil)), m
	})
	id, wrong := access.NewKey()
	for i := range 40 { // guesses, of which 30 are looked at
		s.from("203.0.113.7", "GET", "/api/v1/jobs", fmt.Sprintf("Bearer %s%02d", wrong[:len(wrong)-2], i))
	}
	s.from("203.0.113.8", "GET", "/api/v1/jobs", "")
	if w := s.ask("GET", "/api/v1/jobs", "", append([]string{"X-Tenant-ID", "default"}, s.admin...)...); w.Code != 403 {
		t.Errorf("another tenant: %d", w.Code)
	}
	for reason, want := range map[string]int{"unknown_key": 30, "throttled": 10, "no_credential": 1, "tenant": 1, "token": 0, "signed_out": 0} {
		if got := metricOf(t, m, fmt.Sprintf(`carillon_auth_failures_total{reason=%q}`, reason)); got != want {
			t.Errorf("%s: counted %d, want %d", reason, got, want)
		}
	}
	if n := strings.Count(log.String(), "authentication failed"); n != 2 || !strings.Contains(log.String(), "ip=203.0.113.7 key_id="+id) || strings.Contains(log.String(), wrong[:len(wrong)-2]) {
		t.Errorf("%d lines: %s", n, &log)
	}
	s.tick()
	got := want[client.AuditEntries](s.face, 200, "GET", "/api/v1/audit?action=auth.fail", "", s.system...).Audit
	if len(got) != 2 {
		t.Fatalf("audited %+v", got)
	}
	e := got[1] // the one with the most is written first
	if e.Object != "203.0.113.7" || e.IP != "203.0.113.7" || e.Count != 40 || e.After["unknown_key"] != "30" || e.After["throttled"] != "10" || e.After["key_id"] != id || e.Principal != "unknown" {
		t.Errorf("audited %+v", e)
	}
	if v := want[client.AuditVerification](s.face, 200, "GET", "/api/v1/audit/verify", "", s.system...); !v.OK {
		t.Errorf("the chain: %+v", v)
	}
	s.tick()
	if n := len(want[client.AuditEntries](s.face, 200, "GET", "/api/v1/audit?action=auth.fail", "", s.system...).Audit); n != 2 {
		t.Errorf("%d entries after nothing more has failed", n)
	}
}

// However many fail, from however many addresses: the log and the audit log grow by a few lines.
func TestFailedAuthenticationFillsNoDisk(t *testing.T) {
	var log bytes.Buffer
	s := newSigned(t, "free", func(c *api.Config, _ engine.Store) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	_, wrong := access.NewKey()
	for range 5 {
		for i := range 1500 {
			s.from(fmt.Sprintf("198.18.%d.%d", i/250, i%250), "GET", "/api/v1/jobs", "Bearer "+wrong)
		}
		s.tick()
	}
	if n := strings.Count(log.String(), "\n"); n > 5*21 {
		t.Errorf("%d lines were logged", n)
	}
	got := want[client.AuditEntries](s.face, 200, "GET", "/api/v1/audit?action=auth.fail&limit=500", "", s.system...).Audit
	if len(got) == 0 || len(got) > 20 {
		t.Errorf("%d entries were written", len(got))
	}
	all := 0
	for _, e := range got {
		all += e.Count
	}
	if all != 1500 || got[0].Object != "more than 981 other addresses" {
		t.Errorf("%d failures are told of, the last entry is of %q", all, got[0].Object)
	}
}

// Who shows no credential that has worked is held to a rate; who does, from the same address, is not.
func TestRequestsWithoutAProvenCredentialAreHeldToARate(t *testing.T) {
	m := telemetry.NewMetrics("test")
	s := newSigned(t, "pro", func(c *api.Config, _ engine.Store) { c.Unproven, c.Metrics = 5, m })
	at := func(address, path, credential string) int { return s.from(address, "GET", path, credential).Code }
	const nat, other = "203.0.113.7", "203.0.113.8"
	if code := at(nat, "/api/v1/jobs", s.system[1]); code != 200 {
		t.Fatalf("a good key: %d", code)
	}
	held := 0
	for range 60 {
		if code := at(nat, "/api/v1/jobs", ""); code == http.StatusTooManyRequests {
			held++
		} else if code != 401 {
			t.Fatalf("no credential: %d", code)
		}
	}
	if held < 5 || held > 12 {
		t.Errorf("%d of 60 were held up; want about 11: 50 at once, and 5 a second", held)
	}
	w := s.from(nat, "GET", "/docs", "")
	if w.Code != 429 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "unproven_requests") {
		t.Errorf("a page: %d, %v, %s", w.Code, w.Header(), w.Body)
	}
	for range 100 {
		if code := at(nat, "/api/v1/jobs", s.system[1]); code != 200 {
			t.Fatalf("a good key, from the same address: %d", code)
		}
	}
	if a, b := at(nat, "/healthz", ""), at(other, "/api/v1/jobs", ""); a != 200 || b != 401 {
		t.Errorf("health: %d; another address: %d", a, b)
	}
	if n := metricOf(t, m, `carillon_limited_total{limit="unproven_requests"}`); n != held+1 {
		t.Errorf("counted %d of %d", n, held+1)
	}
}

func TestWorkerRegistrationIsRationed(t *testing.T) {
	s := newSigned(t, "free", func(c *api.Config, _ engine.Store) { c.Sessions = 3 })
	key := s.key("worker")
	var paths [3]string
	var headers []string
	for i := range paths {
		headers, paths[i] = s.worker(key)
	}
	w := s.ask("POST", "/api/v1/workers", `{"kinds": ["x"]}`, key...)
	if after, _ := strconv.Atoi(w.Header().Get("Retry-After")); w.Code != 429 || after < 1 || after > 30 || !strings.Contains(w.Body.String(), "3 worker sessions") {
		t.Fatalf("a fourth: %d, %v, %s", w.Code, w.Header(), w.Body)
	}
	s.worker(s.system) // another tenant's, or all tenants', are counted by themselves
	want[struct{}](s.face, 200, "DELETE", paths[2], "", headers...)
	s.worker(key)
}
