package api_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/telemetry"
)

// bare is a face without a service, as workers and listeners for scrapes have one.
func bare(change func(*api.Config)) http.Handler {
	cfg := api.Config{
		Version: "test", Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Metrics: telemetry.NewProcessMetrics("test"), Ready: func(context.Context) error { return nil },
		Authenticate: func(context.Context, string, string) (p tenant.Principal, err error) {
			return p, access.ErrNoCredential
		},
	}
	change(&cfg)
	return api.New(cfg)
}

func TestWhoKnowsNoCredentialServesWhatNeedsNone(t *testing.T) {
	worker, scrapes := bare(func(c *api.Config) { c.HealthOnly, c.Keyless = true, true }), bare(func(c *api.Config) { c.MetricsOnly, c.Keyless = true, true })
	for _, c := range []struct {
		face http.Handler
		path string
		code int
	}{
		{worker, "/healthz", 200}, {worker, "/readyz", 200}, {worker, "/metrics", 404}, {worker, "/api/v1/admin/log-level", 404}, {worker, "/api/v1/jobs", 404}, {worker, "/jobs", 404},
		{scrapes, "/healthz", 200}, {scrapes, "/metrics", 200}, {scrapes, "/api/v1/admin/log-level", 404}, {scrapes, "/", 404}, {scrapes, "/jobs", 404},
	} {
		r := httptest.NewRequest("GET", "http://host.example"+c.path, http.NoBody)
		r.Header.Set("Accept", "text/html,application/xhtml+xml")
		r.Header.Set("Sec-Fetch-Mode", "navigate")
		w := httptest.NewRecorder()
		c.face.ServeHTTP(w, r)
		if kind := w.Header().Get("Content-Type"); w.Code != c.code || strings.Contains(kind, "html") || c.code == 404 && strings.Contains(w.Body.String(), "/docs") {
			t.Errorf("%s: %d, %s: %.200s", c.path, w.Code, kind, w.Body)
		}
	}
}

// What our own deadline stops is answered; only who has gone is not.
func TestOurOwnDeadlineIsAnswered(t *testing.T) {
	face := bare(func(c *api.Config) {
		c.Authenticate = func(context.Context, string, string) (p tenant.Principal, err error) {
			return p, fmt.Errorf("ask the store: %w", context.Canceled)
		}
	})
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	gone, leave := context.WithCancel(t.Context())
	leave()
	for name, c := range map[string]struct {
		ctx  context.Context
		code int
		body bool
	}{"late": {late, 503, true}, "gone": {gone, 200, false}, "neither": {t.Context(), 500, true}} {
		w := httptest.NewRecorder()
		face.ServeHTTP(w, httptest.NewRequest("GET", "http://host.example/api/v1/jobs", http.NoBody).WithContext(c.ctx))
		if w.Code != c.code || (w.Body.Len() > 0) != c.body {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

func TestBrowsersStayWithTLS(t *testing.T) {
	face := bare(func(*api.Config) {})
	for url, told := range map[string]bool{
		"https://carillon.example/healthz": true, "https://carillon.example:443/healthz": true, "http://carillon.example/healthz": false,
		"https://carillon.example:8443/healthz": false, "https://localhost/healthz": false, "https://192.0.2.7/healthz": false, "https://[2001:db8::1]/healthz": false,
	} {
		w := httptest.NewRecorder()
		face.ServeHTTP(w, httptest.NewRequest("GET", url, http.NoBody))
		if got := w.Header().Get("Strict-Transport-Security"); w.Code != 200 || (got == "max-age=31536000") != told || !told && got != "" {
			t.Errorf("%s: %d, %q", url, w.Code, got)
		}
	}
}
