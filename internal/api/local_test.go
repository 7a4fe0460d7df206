package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// TestLocalToken is a server that cannot tell its user from others, as on systems that do not say.
func TestLocalToken(t *testing.T) {
	mine := false
	f := newFace(t, func(c *api.Config, _ engine.Store) {
		c.Local = &api.Local{Token: "the-token", File: "/data/dev-token", Port: 8080, Mine: func(*http.Request) (bool, string) { return mine, "someone" }}
	})
	p := want[client.Problem](f, 401, "GET", "/api/v1/jobs", "")
	if !strings.Contains(p.Detail, "/data/dev-token") || !strings.Contains(p.Detail, "someone") || strings.Contains(p.Detail, "the-token") {
		t.Errorf("refused with %q", p.Detail)
	}
	want[client.Jobs](f, 200, "GET", "/api/v1/jobs", "", "Authorization", "Bearer the-token")
	want[client.Problem](f, 401, "GET", "/api/v1/jobs", "", "Cookie", "carillon-dev-8080=the-token")
	want[client.Problem](f, 401, "GET", "/api/v1/jobs", "", "Authorization", "Basic the-token")
	want[client.Problem](f, 401, "POST", "/api/v1/sign-in", `{"credential": "another"}`)
	w := f.ask("POST", "/api/v1/sign-in", `{"credential": " the-token ", "next": "/jobs"}`)
	k := w.Header().Get("Set-Cookie")
	if w.Code != 200 || !strings.HasPrefix(k, "carillon-dev-8080=") || strings.Contains(k, "the-token") || !strings.Contains(k, "HttpOnly") || !strings.Contains(k, "SameSite=Strict") {
		t.Errorf("a pasted token: %d %s %s", w.Code, k, w.Body)
	}
	pass, _, _ := strings.Cut(k, ";")
	want[client.Jobs](f, 200, "GET", "/api/v1/jobs", "", "Cookie", pass)
	want[client.Problem](f, 401, "GET", "/api/v1/jobs", "", "Cookie", strings.Replace(pass, "8080", "8081", 1))
	want[client.Problem](f, 401, "GET", "/api/v1/jobs", "", "Authorization", "Bearer "+strings.TrimPrefix(pass, "carillon-dev-8080=")) // it is no token
	if k := f.ask("GET", "/?token=the-token", "").Header().Get("Set-Cookie"); !strings.HasPrefix(k, pass+";") {
		t.Errorf("the token in the address: %s", k)
	}
	if w := f.ask("GET", "/?token=another", ""); w.Code != 401 {
		t.Errorf("another token in the address: %d", w.Code)
	}
	if w := f.ask("GET", "/api/v1/jobs?token=the-token", ""); w.Code != 401 {
		t.Errorf("the token in the API's address: %d", w.Code)
	}
	mine = true
	want[client.Jobs](f, 200, "GET", "/api/v1/jobs", "")
	want[client.Jobs](f, 200, "GET", "/api/v1/jobs", "", "Authorization", "Bearer none")
	if p := want[client.Problem](f, 401, "GET", "/api/v1/jobs", "", "Authorization", "Bearer car_live_0123456789"); !strings.Contains(p.Detail, "takes no API keys") {
		t.Errorf("a key, which may be of another tenant, is refused with %q", p.Detail)
	}
	for _, w := range []*httptest.ResponseRecorder{f.ask("GET", "/?token=the-token", ""), f.ask("POST", "/api/v1/sign-in", `{"credential": "the-token"}`)} {
		if k := w.Header().Get("Set-Cookie"); w.Code >= 400 || k != "" {
			t.Errorf("its own user gets %d and the cookie %q, and needs none", w.Code, k)
		}
	}
}

// TestPagesOfOtherSites are refused without sign-in, also where they only read.
func TestPagesOfOtherSites(t *testing.T) {
	f := newFace(t)
	for _, x := range []struct {
		path, site, mode, dest, accept string
		status                         int
	}{
		{"/api/v1/jobs", "cross-site", "cors", "empty", "", 403},
		{"/api/v1/jobs", "same-site", "no-cors", "script", "", 403},
		{"/api/v1/jobs", "same-origin", "cors", "empty", "", 200},
		{"/api/v1/jobs", "none", "navigate", "document", "", 200},
		{"/api/v1/jobs", "", "", "", "", 200},
		{"/jobs", "cross-site", "navigate", "document", "application/json", 403},
		{"/docs", "cross-site", "navigate", "document", "text/html", 200},
		{"/docs", "cross-site", "navigate", "iframe", "text/html", 403},
		{"/docs", "cross-site", "no-cors", "image", "", 403},
		{"/healthz", "cross-site", "no-cors", "image", "", 200},
		{"/metrics", "same-site", "no-cors", "empty", "", 403},
	} {
		r := httptest.NewRequest("GET", "http://localhost:8080"+x.path, nil)
		for name, value := range map[string]string{"Sec-Fetch-Site": x.site, "Sec-Fetch-Mode": x.mode, "Sec-Fetch-Dest": x.dest, "Accept": x.accept} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		f.http.ServeHTTP(w, r)
		if w.Code != x.status {
			t.Errorf("%+v: %d %s", x, w.Code, w.Body)
		}
	}
}
