package bench_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/bench"
)

// offScreen are the routes that no screen reads: one that is neither here nor asked for is one that the benchmark forgot.
var offScreen = []string{
	"/admin/archive", "/admin/log-level", "/admin/scaling", "/admin/support", "/api-keys/{id}", "/artifacts/{id}", "/calendars/{name}", "/events/stream", "/executions:export", "/holds",
	"/jobs/{id}/dependencies",
	"/notification-rules/{name}", "/secrets/{name}",
}

// readable lists the routes of the API that are read.
func readable(t *testing.T) (all []string) {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "http://localhost/openapi.json", nil)
	api.New(api.Config{Logger: slog.New(slog.DiscardHandler)}).ServeHTTP(w, r)
	var doc struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || w.Code != http.StatusOK {
		t.Fatalf("the API's document: %d, %v", w.Code, err)
	}
	for path, methods := range doc.Paths {
		if route, ok := strings.CutPrefix(path, "/api/v1"); ok && methods["get"] != nil {
			all = append(all, route)
		}
	}
	slices.Sort(all)
	return all
}

// Over a few hundred executions every page is answered, and no route that a screen reads is left out.
func TestPages(t *testing.T) {
	places(t, func(t *testing.T, url string) {
		o := numbered(url, nil)
		o.Jobs, o.Samples, o.Callers, o.Slots = 120, 2, 4, 16
		r, err := bench.Pages(t.Context(), bench.PagesOptions{Options: o, Executions: 600})
		if err != nil {
			t.Fatal(err)
		}
		if r.Accepted < 590 || r.Accepted > 600 || r.Lost+r.Doubled+r.Early > 0 {
			t.Errorf("stored %d, want 600", r.Accepted)
		}
		asked := map[string]bool{}
		for _, p := range r.Pages {
			asked[p.Route] = true
			if p.Asked == 0 || p.Refused > 0 || p.P50 <= 0 || p.P50 > p.P99 || p.P99 > p.Max || p.Goal <= 0 {
				t.Errorf("%+v", p)
			}
		}
		routes := readable(t)
		for _, route := range routes {
			if asked[route] == slices.Contains(offScreen, route) {
				t.Errorf("%s: asked for is %v, want otherwise", route, asked[route])
			}
		}
		for route := range asked {
			if route != "" && !slices.Contains(routes, route) {
				t.Errorf("%s is no route of the API", route)
			}
		}
	})
}

func TestAReportOfPages(t *testing.T) {
	r := bench.GoalReport{Benchmark: "pages", Engine: "X 1", Platform: "p", Cores: 2, Accepted: 1200, Pages: []bench.PageMeasure{
		{Name: "alpha", Route: "/jobs", Callers: 1, Asked: 10, P50: 1.5, P99: 3, Max: 4, Goal: 100, Met: true},
	}}
	table := func() string {
		var b strings.Builder
		if err := r.WriteTable(&b, false); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	says := func(wants ...string) {
		t.Helper()
		for _, want := range wants {
			if got := table(); !strings.Contains(got, want) {
				t.Errorf("the table lacks %q:\n%s", want, got)
			}
		}
	}
	says("p99 < 100  met", "10 pages and screens asked for over 1 200 executions; 1 of 1 within their goal; all answered")
	if got := table(); strings.Contains(got, "early") {
		t.Errorf("pages do not fire:\n%s", got)
	}
	if err := r.Check(); err != nil {
		t.Error(err)
	}
	r.Pages = append(r.Pages, bench.PageMeasure{Name: "  beta", Route: "/audit", Callers: 8, Asked: 5, P50: 90, P99: 120, Max: 130, Goal: 100})
	says("MISSED", "1 of 2 within")
	var missed bench.Missed
	if err := r.Check(); !errors.As(err, &missed) || err.Error() != "goals were missed: beta, 8 callers, p99 is 120 ms, at most 100 wanted" {
		t.Errorf("got %v", err)
	}
	r.Pages[1].Refused, r.Pages[1].Problem = 2, "GET /api/v1/audit: 500"
	says("2 of 5 NOT ANSWERED", "2 NOT ANSWERED as they should be")
}
