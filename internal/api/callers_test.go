package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func TestRequestsASecond(t *testing.T) {
	s := newSigned(t, "free")
	s.quotas(`{"quotas": {"requests_per_second": 3}}`)
	worker := s.key("worker")
	var codes []int
	var last *httptest.ResponseRecorder
	for range 5 {
		last = s.ask("GET", "/api/v1/jobs", "", s.admin...)
		codes = append(codes, last.Code)
	}
	if fmt.Sprint(codes[:4]) != "[200 200 200 429]" {
		t.Fatalf("got %v", codes)
	}
	if h := last.Header(); h.Get("Retry-After") != "1" || h.Get("RateLimit-Policy") != `"requests";q=3;w=1` || h.Get("RateLimit") != `"requests";r=0;t=1` {
		t.Errorf("headers: %v", h)
	}
	if !strings.Contains(last.Body.String(), `"code":"rate_limited"`) || !strings.Contains(last.Body.String(), `"name":"requests_per_second","limit":3,"current":4,"retry_after_ms":`) {
		t.Error(last.Body)
	}
	// Another key of the tenant's shares the rate; workers, health, and who runs the installation do not.
	if w := s.ask("GET", "/api/v1/jobs", "", s.key("viewer")...); w.Code != 429 {
		t.Errorf("another key: %d", w.Code)
	}
	for range 10 {
		want[client.Session](s.face, 201, "POST", "/api/v1/workers", `{}`, worker...)
		want[client.Jobs](s.face, 200, "GET", "/api/v1/jobs", "", append(s.system, "X-Tenant-ID", s.tenant)...)
		if w := s.ask("GET", "/healthz", ""); w.Code != 200 {
			t.Errorf("healthz: %d", w.Code)
		}
	}
	if w := s.ask("GET", "/api/v1/jobs", "", s.system...); w.Header().Get("RateLimit") != "" {
		t.Errorf("without a limit: %v", w.Header())
	}
}

func TestFailedSignIns(t *testing.T) {
	s := newSigned(t, "pro", func(c *api.Config, _ engine.Store) {
		c.Failures = 5
		c.Proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	})
	from := func(remote, forwarded string, credential []string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", "http://localhost:8080/api/v1/jobs", http.NoBody)
		r.RemoteAddr = remote
		if forwarded != "" {
			r.Header.Set("X-Forwarded-For", forwarded)
		}
		r.Header.Set(credential[0], credential[1])
		w := httptest.NewRecorder()
		s.http.ServeHTTP(w, r)
		return w
	}
	wrong := func(n int) []string { return []string{"Authorization", fmt.Sprintf("Bearer nonsense-%d", n)} }
	const home = "192.0.2.7:1000"
	if w := from(home, "", s.admin); w.Code != 200 {
		t.Fatal(w.Code)
	}
	for i := range 5 {
		if w := from(home, "", wrong(i)); w.Code != 401 {
			t.Fatalf("%d: %d", i, w.Code)
		}
	}
	w := from(home, "", wrong(5))
	if w.Code != 429 || w.Header().Get("Retry-After") != "2" || !strings.Contains(w.Body.String(), "too_many_failures") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if w := from(home, "", s.key("viewer")); w.Code != 429 { // not tried, whatever it is
		t.Errorf("an unknown credential: %d", w.Code)
	}
	if w := from(home, "", s.admin); w.Code != 200 {
		t.Errorf("one that worked from there before: %d", w.Code)
	}
	for remote, code := range map[string]int{"192.0.2.8:1": 401, "[2001:db8::1]:1": 401} {
		if w := from(remote, "", wrong(9)); w.Code != code {
			t.Errorf("%s: %d", remote, w.Code)
		}
	}
	if w := from("[2001:db8::1]:1", "", s.admin); w.Code != 200 {
		t.Fatal(w.Code)
	}
	for i := range 6 { // all addresses of a network are one
		from(fmt.Sprintf("[2001:db8::%d]:1", i+2), "", wrong(i))
	}
	if w := from("[2001:db8::ffff]:1", "", wrong(1)); w.Code != 429 {
		t.Errorf("IPv6: %d", w.Code)
	}
	if w := from("[2001:db8::fffe]:1", "", s.admin); w.Code != 200 { // a machine there changes its address every day
		t.Errorf("one that worked from another address of the network: %d", w.Code)
	}
	// A proxy that is believed is not who calls; what others say is not believed.
	for i := range 6 {
		from("10.1.2.3:1", "203.0.113.9, 198.51.100.1", wrong(i))
	}
	if w := from("10.9.9.9:1", "203.0.113.9, 198.51.100.1", wrong(1)); w.Code != 429 {
		t.Errorf("behind the proxy: %d", w.Code)
	}
	if w := from("10.9.9.9:1", "198.51.100.1, 203.0.113.9", wrong(1)); w.Code != 401 {
		t.Errorf("another behind the proxy: %d", w.Code)
	}
	if w := from(home, "203.0.113.77", wrong(1)); w.Code != 429 {
		t.Errorf("a made-up header: %d", w.Code)
	}
}

// A program that continues with a wrong key keeps nobody else behind its address from signing in, also where no key has worked from there yet.
func TestOneWrongKeyLocksOutNobody(t *testing.T) {
	s := newSigned(t, "pro", func(c *api.Config, _ engine.Store) { c.Failures = 5 })
	from := func(credential []string) int {
		r := httptest.NewRequest("GET", "http://localhost:8080/api/v1/jobs", http.NoBody)
		r.RemoteAddr = "192.0.2.7:1000"
		r.Header.Set(credential[0], credential[1])
		w := httptest.NewRecorder()
		s.http.ServeHTTP(w, r)
		return w.Code
	}
	for i := range 50 {
		if code := from([]string{"Authorization", "Bearer revoked"}); code != 401 {
			t.Fatalf("the wrong key, time %d: %d", i, code)
		}
	}
	if code := from(s.admin); code != 200 {
		t.Errorf("a valid key: %d", code)
	}
	for i := range 4 {
		from([]string{"Authorization", fmt.Sprintf("Bearer guess-%d", i)})
	}
	if code := from([]string{"Authorization", "Bearer guess-4"}); code != 429 {
		t.Errorf("guesses, each another one: %d", code)
	}
}
