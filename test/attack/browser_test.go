package attack

import (
	"fmt"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/test/harness"
)

// TestBrowsers tries what a hostile page may try with the browser of someone who is signed in.
func TestBrowsers(t *testing.T) {
	t.Parallel()
	s := stage(t)
	out := &stranger{base: s.server.Base}
	in, err := out.Do("POST", "/api/v1/sign-in", fmt.Sprintf(`{"credential": %q}`, s.people["victim/admin"].Key), "Content-Type", "application/json")
	if err != nil || in.Code >= 300 {
		t.Fatalf("signing in: %d, %v: %s", in.Code, err, in.Body)
	}
	set := in.Header.Get("Set-Cookie")
	s.row(strings.Contains(set, "HttpOnly") && strings.Contains(set, "SameSite=") && !strings.Contains(set, "SameSite=None"), "the cookie is out of reach of scripts and other sites", set[:strings.Index(set, "=")+1]+"…")
	cookie, _, _ := strings.Cut(set, ";")
	job := `{"name": "x", "execution": {"target": "simulate", "work_kind": "noop"}}`
	for what, headers := range map[string][]string{
		"another origin":        {"Origin", "https://evil.example"},
		"an opaque origin":      {"Origin", "null"},
		"cross-site by its tag": {"Sec-Fetch-Site", "cross-site"},
		"a sibling site":        {"Sec-Fetch-Site", "same-site", "Origin", "http://evil.localhost"},
		"a form":                {"Origin", "https://evil.example", "Content-Type", "text/plain"},
	} {
		s.answers(out, []int{403, 415, 400}, "a signed-in browser's POST from "+what, "POST", "/api/v1/jobs", job, append([]string{"Cookie", cookie, "Content-Type", "application/json"}, headers...)...)
		s.answers(out, []int{403, 415, 400}, "a signed-in browser's DELETE from "+what, "DELETE", "/api/v1/jobs/"+nobody, "", append([]string{"Cookie", cookie}, headers...)...)
	}
	for _, path := range []string{"/", "/docs", "/jobs", "/executions", "/x/" + nobody, "/api/v1/nothing", "/nothing"} {
		a, err := out.Do("GET", path, "", "Accept", "text/html")
		if err != nil {
			t.Fatal(err)
		}
		csp := a.Header.Get("Content-Security-Policy")
		ok := strings.Contains(csp, "frame-ancestors 'none'") && !strings.Contains(csp, "unsafe-inline") && !strings.Contains(csp, "unsafe-eval") && a.Header.Get("X-Content-Type-Options") == "nosniff"
		if !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") { // a browser shows it as text
			ok = a.Header.Get("X-Content-Type-Options") == "nosniff"
		}
		s.row(ok || a.Code >= 300 && a.Code < 400, "policy of the page "+path, fmt.Sprint(a.Code, " ", csp))
		s.row(a.Header.Get("Access-Control-Allow-Origin") == "", "no other origin may read "+path, "")
	}
	a := s.answers(out, []int{200, 204, 400, 403, 404, 405}, "a preflight of another origin", "OPTIONS", "/api/v1/jobs", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST")
	s.row(a.Header.Get("Access-Control-Allow-Origin") == "", "it is allowed nothing", "")
	for _, next := range []string{"//evil.example", "https://evil.example", "/\\evil.example", "/%0d%0aSet-Cookie:x=y", "javascript:alert(1)"} {
		a, err := out.Do("GET", "/sign-in?next="+next, "", "Cookie", cookie)
		s.row(err == nil && !strings.Contains(a.Header.Get("Location"), "evil.example") && !strings.HasPrefix(a.Header.Get("Location"), "javascript:"), "an open redirect to "+next, fmt.Sprint(a.Code, " ", a.Header.Get("Location")))
	}
	for _, x := range []string{`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `javascript:alert(1)`, `{{7*7}}`, `${7*7}`, `'--`} {
		for _, path := range []string{"/jobs?q=", "/executions?status=", "/badges/", "/x/", "/jobs/", "/docs?q="} {
			a, err := out.Do("GET", path+strings.NewReplacer("<", "%3C", ">", "%3E", `"`, "%22", " ", "%20", "{", "%7B", "}", "%7D").Replace(x), "", "Accept", "text/html", "Cookie", cookie)
			s.row(err == nil && a.Code < 500 && !strings.Contains(a.Body, x) || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html"), "reflected "+x+" in "+path, fmt.Sprint(a.Code))
		}
	}
	for _, path := range []string{"/debug/pprof/", "/debug/vars", "/metrics", "/.git/config", "/.env", "/assets/../../../../etc/passwd", "/assets/%2e%2e/%2e%2e/etc/passwd", "/web/package.json", "/api/v1/../../etc/passwd", "/server-status"} {
		a, err := out.Do("GET", path, "", "Accept", "*/*")
		s.row(err == nil && (a.Code != 200 || strings.HasPrefix(a.Header.Get("Content-Type"), "text/html")) && !strings.Contains(a.Body, "root:") && !strings.Contains(a.Body, "carillon_"), "a file or page that is none of their business: "+path, fmt.Sprint(a.Code))
	}
	s.answers(out, []int{200, 204, 303}, "signing out", "POST", "/api/v1/sign-out", "", "Cookie", cookie, "Origin", s.server.Base)
	s.answers(out, denied(), "the cookie after signing out", "GET", "/api/v1/jobs", "", "Cookie", cookie)
	s.alive()
}

// TestDevelopersMachine attacks `carillon dev` from a page in the developer's browser.
func TestDevelopersMachine(t *testing.T) {
	t.Parallel()
	r := newReport(t)
	p := harness.Start(t, nil, "dev", "--data", t.TempDir())
	me := &stranger{base: p.Base}
	job := `{"name": "x", "execution": {"target": "command", "command": ["id"]}}`
	r.answers(me, []int{201}, "the developer needs no credential", "POST", "/api/v1/jobs", `{"name": "x", "execution": {"target": "simulate", "work_kind": "noop"}}`, "Content-Type", "application/json")
	for what, headers := range map[string][]string{
		"another origin": {"Origin", "https://evil.example"}, "an opaque origin": {"Origin", "null"}, "a cross-site request": {"Sec-Fetch-Site", "cross-site"}, "another port of this machine": {"Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site"},
		"a rebound name": {"Host", "evil.example"}, "a rebound name with a port": {"Host", "evil.example:8080"}, "a name that looks local": {"Host", "localhost.evil.example"},
	} {
		r.answers(me, []int{400, 401, 403, 421}, what+": POST", "POST", "/api/v1/jobs", job, append([]string{"Content-Type", "application/json"}, headers...)...)
		r.answers(me, []int{400, 401, 403, 421}, what+": POST as a form", "POST", "/api/v1/jobs", job, append([]string{"Content-Type", "text/plain"}, headers...)...)
		r.answers(me, []int{400, 401, 403, 421}, what+": GET", "GET", "/api/v1/jobs", "", headers...)
		r.answers(me, []int{400, 401, 403, 421}, what+": stream", "GET", "/api/v1/events/stream", "", headers...)
	}
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		bad := harness.Launch(t, nil, "dev", "--listen", address, "--data", t.TempDir())
		r.row(bad.Exit() == 2, "dev at "+address, "it does not start")
	}
	open := harness.Launch(t, nil, "serve", "--database", "sqlite:"+t.TempDir()+"/c.db", "--listen", "0.0.0.0:0", "--no-auth")
	r.row(open.Exit() != 0, "serve without sign-in", "there is no such thing")
}
