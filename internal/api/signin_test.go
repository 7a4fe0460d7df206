package api_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// signInWith signs a browser in with a key, as an Authorization header has it, and answers its Cookie header.
func signInWith(f face, bearer string) string {
	f.Helper()
	w := f.ask("POST", "/api/v1/sign-in", fmt.Sprintf(`{"credential": %q}`, strings.TrimPrefix(bearer, "Bearer ")))
	if w.Code != 200 {
		f.Fatalf("sign in: %d %s", w.Code, w.Body)
	}
	return cookieOf(f, w)
}

// cookieOf returns the cookie that a browser sends after a response that set one.
func cookieOf(f face, w *httptest.ResponseRecorder) string {
	f.Helper()
	cookies := w.Result().Cookies()
	if len(cookies) != 1 {
		f.Fatalf("cookies: %v", cookies)
	}
	return cookies[0].Name + "=" + cookies[0].Value
}

// dial is a clock that tests set.
type dial struct{ ahead atomic.Int64 }

func (d *dial) Now() time.Time           { return time.Now().Add(time.Duration(d.ahead.Load())) }
func (d *dial) advance(by time.Duration) { d.ahead.Add(int64(by)) }
func (d *dial) config(c *api.Config, s engine.Store) {
	c.SignIns = access.New(s, d, nil)
	c.Authenticate = c.SignIns.Authenticate
}

// entrance is a face that browsers sign in to, the first key, and the clock that sign-ins go by.
func entrance(t *testing.T, more ...func(*api.Config, engine.Store)) (face, string, *dial) {
	t.Helper()
	var key string
	d := &dial{}
	f := newFace(t, append([]func(*api.Config, engine.Store){func(c *api.Config, store engine.Store) {
		var err error
		if key, err = access.Bootstrap(context.Background(), store, "", time.Now()); err != nil {
			t.Fatal(err)
		}
		d.config(c, store)
	}}, more...)...)
	return f, "Bearer " + key, d
}

func TestABrowserSignsIn(t *testing.T) {
	f, system, _ := entrance(t)
	w := f.ask("POST", "/api/v1/sign-in", fmt.Sprintf(`{"credential": "  %s\n", "next": "/jobs?tag=x#y"}`, strings.TrimPrefix(system, "Bearer ")))
	if w.Code != 200 || strings.Contains(w.Body.String(), strings.TrimPrefix(system, "Bearer ")) {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	cookie := cookieOf(f, w)
	who := want[client.SignedIn](f, 200, "GET", "/api/v1/session", "", "Cookie", cookie)
	if who.Kind != "cookie" || who.Role != "system" || who.TenantID != "default" || who.Name != "bootstrap" || who.KeyID == nil || who.SignedInAt == nil ||
		who.ExpiresAt.Sub(*who.SignedInAt) != 12*time.Hour || time.Until(*who.IdleExpiresAt) > time.Hour || time.Until(*who.IdleExpiresAt) < 50*time.Minute {
		t.Errorf("%+v", who)
	}
	if !strings.Contains(w.Body.String(), `"next":"/jobs?tag=x#y"`) {
		t.Error(w.Body)
	}
	made := want[client.Job](f, 201, "POST", "/api/v1/jobs", noop, "Cookie", cookie, "Origin", "http://localhost:8080", "Sec-Fetch-Site", "same-origin")
	want[client.Job](f, 200, "GET", "/api/v1/jobs/"+made.JobID, "", "Cookie", "other=1; "+cookie+"; more=2")

	// The header goes before the cookie, and says who asks as well.
	if by := want[client.SignedIn](f, 200, "GET", "/api/v1/session", "", "Cookie", cookie, "Authorization", system); by.Kind != "key" || by.SignedInAt != nil || by.ExpiresAt != nil {
		t.Errorf("%+v", by)
	}
	// What a proxy in front wants is not for us.
	if by := want[client.SignedIn](f, 200, "GET", "/api/v1/session", "", "Cookie", cookie, "Authorization", "Basic eDp5"); by.Kind != "cookie" {
		t.Errorf("%+v", by)
	}
	viewer := want[client.APIKey](f, 201, "POST", "/api/v1/api-keys", `{"name": "v", "role": "viewer", "expires_at": "2090-01-01T00:00:00Z"}`, "Cookie", cookie)
	if by := want[client.SignedIn](f, 200, "GET", "/api/v1/session", "", "Authorization", "Bearer "+*viewer.Key); by.Role != "viewer" || by.ExpiresAt.Year() != 2090 {
		t.Errorf("%+v", by)
	}

	// Who signs in again gets another cookie, and the one before ends.
	again := f.ask("POST", "/api/v1/sign-in", fmt.Sprintf(`{"credential": %q}`, *viewer.Key), "Cookie", cookie)
	fresh := cookieOf(f, again)
	if fresh == cookie {
		t.Error("the cookie is the same")
	}
	gone := f.ask("GET", "/api/v1/session", "", "Cookie", cookie)
	if set := gone.Result().Cookies(); gone.Code != 401 || len(set) != 1 || set[0].MaxAge >= 0 || set[0].Value != "" {
		t.Errorf("%d %v", gone.Code, set)
	}
	want[client.Problem](f, 403, "POST", "/api/v1/jobs", noop, "Cookie", fresh)

	// Signing out ends it, here and in the browser.
	want[client.Problem](f, 409, "POST", "/api/v1/sign-out", "", "Authorization", system)
	want[client.Problem](f, 409, "POST", "/api/v1/sign-out", "", "Authorization", system, "Cookie", fresh)
	out := f.ask("POST", "/api/v1/sign-out", "", "Cookie", fresh)
	if set := out.Result().Cookies(); out.Code != 200 || len(set) != 1 || set[0].MaxAge >= 0 {
		t.Errorf("%d %v", out.Code, set)
	}
	for range 2 {
		want[client.Problem](f, 401, "POST", "/api/v1/sign-out", "", "Cookie", fresh)
	}

	var actions []string
	for _, e := range want[client.AuditEntries](f, 200, "GET", "/api/v1/audit?action=sign_in.", "", "Authorization", system).Audit {
		actions = append(actions, e.Action+" "+e.Principal)
		if strings.Contains(fmt.Sprintf("%+v", e), strings.TrimPrefix(fresh, "carillon=")) || e.KeyID == nil || e.IP == "" || e.Object == "" {
			t.Errorf("%+v", e)
		}
	}
	if got := strings.Join(actions, ", "); got != "sign_in.end v, sign_in.end bootstrap, sign_in.begin v, sign_in.begin bootstrap" {
		t.Errorf("audit: %s", got)
	}
}

// What the browser gets depends on how it came: Secure and bound to the host, but for plain HTTP to loopback.
func TestCookies(t *testing.T) {
	f, system, _ := entrance(t)
	body := fmt.Sprintf(`{"credential": %q}`, strings.TrimPrefix(system, "Bearer "))
	for _, c := range []struct {
		host, origin string
		name         string // "": it is refused
	}{
		{"localhost:8080", "", "carillon"},
		{"127.0.0.1:8080", "http://127.0.0.1:8080", "carillon"},
		{"[::1]:8080", "http://[::1]:8080", "carillon"},
		{"carillon.example", "", "__Host-carillon"},
		{"carillon.example", "https://carillon.example", "__Host-carillon"},
		{"localhost:8080", "https://carillon.example", "__Host-carillon"}, // a proxy that does not pass the name on
		{"carillon.example", "http://carillon.example", ""},
		{"10.0.0.7:8080", "http://10.0.0.7:8080", ""},
	} {
		r := httptest.NewRequest("POST", "http://"+c.host+"/api/v1/sign-in", strings.NewReader(body))
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		}
		w := httptest.NewRecorder()
		f.http.ServeHTTP(w, r)
		if c.name == "" {
			if w.Code != 403 || !strings.Contains(w.Body.String(), `"code":"insecure"`) || len(w.Result().Cookies()) > 0 {
				t.Errorf("%s from %s: %d %s", c.host, c.origin, w.Code, w.Body)
			}
			continue
		}
		set := w.Result().Cookies()
		if w.Code != 200 || len(set) != 1 {
			t.Fatalf("%s from %s: %d %s", c.host, c.origin, w.Code, w.Body)
		}
		got := set[0]
		if got.Name != c.name || !got.HttpOnly || got.Secure != (c.name == "__Host-carillon") || got.SameSite != http.SameSiteLaxMode || got.Path != "/" || got.Domain != "" || got.MaxAge != 12*3600 {
			t.Errorf("%s from %s: %v", c.host, c.origin, got)
		}
		for host, code := range map[string]int{c.host: 200, "carillon.example": 200} {
			if c.name == "carillon" && host == "carillon.example" {
				code = 401 // where a neighbour could have set it
			}
			r := httptest.NewRequest("GET", "http://"+host+"/api/v1/session", http.NoBody)
			r.Header.Set("Cookie", got.Name+"="+got.Value)
			w := httptest.NewRecorder()
			if f.http.ServeHTTP(w, r); w.Code != code {
				t.Errorf("%s at %s: %d %s", got.Name, host, w.Code, w.Body)
			}
		}
	}
}

func TestASignInGoesNowhereElse(t *testing.T) {
	f, system, _ := entrance(t)
	for next, goes := range map[string]string{
		`/`: "/", `/jobs`: "/jobs", `/jobs?q=a%20b&x=//y#z`: "/jobs?q=a%20b&x=//y#z", `/a//b`: "/a//b",
		``: "/", `jobs`: "/", `//evil.example`: "/", `///evil.example`: "/", `/\\evil.example`: "/", `\\evil.example`: "/", `/\t/evil.example`: "/", `\n//evil.example`: "/", `https://evil.example`: "/",
		`javascript:alert(1)`: "/", `/%zz`: "/", `/` + strings.Repeat("a", 3000): "/", `http:/evil`: "/", ` //evil.example`: "/", `/\u0000`: "/",
	} {
		s := want[client.SignedIn](f, 200, "POST", "/api/v1/sign-in", fmt.Sprintf(`{"credential": %q, "next": "%s"}`, strings.TrimPrefix(system, "Bearer "), next))
		if *s.Next != goes {
			t.Errorf("%q goes to %q, want %q", next, *s.Next, goes)
		}
	}
}

func TestASignInEnds(t *testing.T) {
	f, system, d := entrance(t)
	key := want[client.APIKey](f, 201, "POST", "/api/v1/api-keys", `{"name": "v", "role": "viewer"}`, "Authorization", system)
	open := func(cookie string, code int, when string) {
		t.Helper()
		if w := f.ask("GET", "/api/v1/jobs", "", "Cookie", cookie); w.Code != code {
			t.Errorf("%s: %d, want %d", when, w.Code, code)
		}
	}
	idle, busy := signInWith(f, system), signInWith(f, *key.Key)
	for n := range 11 {
		d.advance(59 * time.Minute)
		open(busy, 200, fmt.Sprintf("used every hour, %d", n))
	}
	open(idle, 401, "idle for an hour")
	d.advance(59 * time.Minute)
	open(busy, 200, "shortly before 12 hours")
	d.advance(13 * time.Minute)
	open(busy, 401, "after 12 hours")

	// A key that is revoked, or that expires, takes its sign-ins along within 5 s, also those that are remembered.
	revoked := signInWith(f, *key.Key)
	open(revoked, 200, "before the key is revoked")
	want[client.APIKey](f, 200, "DELETE", "/api/v1/api-keys/"+key.KeyID, "", "Authorization", system)
	d.advance(5 * time.Second)
	open(revoked, 401, "after the key was revoked")
	short := want[client.APIKey](f, 201, "POST", "/api/v1/api-keys", fmt.Sprintf(`{"name": "s", "role": "viewer", "expires_at": %q}`, d.Now().Add(10*time.Minute).Format(time.RFC3339)), "Authorization", system)
	expired := signInWith(f, *short.Key)
	if s := want[client.SignedIn](f, 200, "GET", "/api/v1/session", "", "Cookie", expired); !s.ExpiresAt.Equal(*short.ExpiresAt) || !s.IdleExpiresAt.Equal(*short.ExpiresAt) {
		t.Errorf("%+v", s)
	}
	d.advance(11 * time.Minute)
	open(expired, 401, "after the key expired")
}

// A stream ends with what it was opened by.
func TestAStreamEndsWithTheSignIn(t *testing.T) {
	f, system, d := entrance(t)
	key := want[client.APIKey](f, 201, "POST", "/api/v1/api-keys", `{"name": "v", "role": "viewer"}`, "Authorization", system)
	cookie := signInWith(f, *key.Key)
	server := httptest.NewServer(f.http)
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/api/v1/events/stream", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Cookie", cookie)
	resp, err := server.Client().Do(r)
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	defer resp.Body.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 1024)
		for {
			if _, err := resp.Body.Read(buf); err != nil {
				return
			}
		}
	}()
	want[client.APIKey](f, 200, "DELETE", "/api/v1/api-keys/"+key.KeyID, "", "Authorization", system)
	d.advance(4 * time.Second)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("it goes on")
	}
}

// Guesses cost the address that they come from, and nobody else: who knows the id of a key cannot keep its owner out.
func TestSignInBackOff(t *testing.T) {
	f, system, _ := entrance(t, func(c *api.Config, _ engine.Store) { c.Failures = 5 })
	key := want[client.APIKey](f, 201, "POST", "/api/v1/api-keys", `{"name": "v", "role": "viewer"}`, "Authorization", system)
	try := func(from, credential string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "http://localhost:8080/api/v1/sign-in", strings.NewReader(fmt.Sprintf(`{"credential": %q}`, credential)))
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		f.http.ServeHTTP(w, r)
		return w
	}
	for i := range 5 {
		if w := try("192.0.2.7:1", fmt.Sprint("guess ", i)); w.Code != 401 {
			t.Fatalf("%d: %d %s", i, w.Code, w.Body)
		}
	}
	if w := try("192.0.2.7:1", "guess"); w.Code != 429 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "too_many_failures") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := try("192.0.2.8:1", *key.Key); w.Code != 200 {
		t.Errorf("from elsewhere: %d %s", w.Code, w.Body)
	}
	guess := (*key.Key)[:len(*key.Key)-4] + "aaaa"
	for i := range 20 {
		if w := try(fmt.Sprintf("192.0.2.%d:1", 20+i), guess); w.Code != 401 {
			t.Fatalf("%d: %d %s", i, w.Code, w.Body)
		}
	}
	if w := try("192.0.2.99:1", *key.Key); w.Code != 200 {
		t.Errorf("its owner, from elsewhere: %d", w.Code)
	}
	if w := try("192.0.2.8:1", *key.Key); w.Code != 200 {
		t.Errorf("who signed in from there before: %d", w.Code)
	}
	if w := f.ask("GET", "/api/v1/jobs", "", "Authorization", "Bearer "+*key.Key); w.Code != 200 {
		t.Errorf("programs with the key: %d", w.Code)
	}
}

// A browser whose sign-in has ended sends its cookie with all that it asks for: that costs its address once, and it is told to
// drop the cookie each time.
func TestAnEndedCookieCostsOnce(t *testing.T) {
	f, system, _ := entrance(t, func(c *api.Config, _ engine.Store) { c.Failures = 5 })
	ask := func(headers ...string) *httptest.ResponseRecorder {
		t.Helper()
		return f.ask("GET", "/api/v1/jobs", "", headers...)
	}
	cookie := signInWith(f, system)
	want[struct{}](f, 200, "POST", "/api/v1/sign-out", "", "Cookie", cookie)
	refused := func(when string) {
		t.Helper()
		w := ask("Cookie", cookie)
		if set := w.Result().Cookies(); w.Code != 401 || len(set) != 1 || set[0].MaxAge >= 0 {
			t.Errorf("%s: %d %v", when, w.Code, set)
		}
	}
	for range 20 {
		refused("ended")
	}
	if w := ask("Authorization", "Bearer nonsense"); w.Code != 401 {
		t.Errorf("the address was charged for all of it: %d", w.Code)
	}
	for i := range 5 {
		ask("Cookie", fmt.Sprintf("carillon=cas_%052d", i)) // each of these is a guess
	}
	if w := ask("Cookie", "carillon=cas_"+strings.Repeat("a", 52)); w.Code != 429 {
		t.Errorf("guesses: %d", w.Code)
	}
	refused("where others failed too often")
}

func TestWhatASignInRefuses(t *testing.T) {
	f, _, _ := entrance(t, func(c *api.Config, _ engine.Store) { c.Failures = 1000 })
	for body, code := range map[string]int{
		`{}`: 422, `{"credential": ""}`: 422, `{"credential": " "}`: 422, `{"credential": 5}`: 400, `{"credential": "x", "extra": 1}`: 400, ``: 400, `[]`: 400,
		`{"credential": "` + strings.Repeat("x", 9000) + `"}`: 422, `{"credential": "` + strings.Repeat("x", 20000) + `"}`: 413, `{"credential": "x"}`: 401,
	} {
		w := f.ask("POST", "/api/v1/sign-in", body)
		if w.Code != code || len(w.Result().Cookies()) > 0 {
			t.Errorf("%.40s: %d %s", body, w.Code, w.Body)
		}
	}
	want[client.Problem](f, 403, "POST", "/api/v1/sign-in", `{"credential": "x"}`, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
	want[client.Problem](f, 400, "GET", "/api/v1/session?x=1", "", "Authorization", signedInHeader(f))
}

// signedInHeader is a fresh system key's.
func signedInHeader(f face) string {
	f.Helper()
	id, text := access.NewKey()
	if _, err := f.store.AddKey(f.Context(), "default", engine.Key{ID: id, Tenant: "default", Role: "system", Name: "more", Hash: sha256.Sum256([]byte(text)), CreatedAt: time.Now()}, 10, engine.Idempotency{}, nil); err != nil {
		f.Fatal(err)
	}
	return "Bearer " + text
}

// Without sign-in, only this machine's own pages are answered.
func TestWithoutSignIn(t *testing.T) {
	f := newFace(t)
	who := want[client.SignedIn](f, 200, "GET", "/api/v1/session", "", "Cookie", "carillon=cas_x")
	if who.Kind != "none" || who.Role != "system" || who.TenantID != "default" || who.ExpiresAt != nil {
		t.Errorf("%+v", who)
	}
	for _, path := range []string{"/api/v1/sign-in", "/api/v1/sign-out"} {
		if p := want[client.Problem](f, 409, "POST", path, `{"credential": "x"}`); p.Code != "no_sign_in" {
			t.Errorf("%+v", p)
		}
	}
	if got := want[client.SignIns](f, 200, "GET", "/api/v1/sign-ins", ""); len(got.SignIns) != 0 {
		t.Errorf("%+v", got)
	}
	want[client.Problem](f, 404, "DELETE", "/api/v1/sign-ins/x", "")
	want[client.Jobs](f, 200, "GET", "/api/v1/jobs", "", "Origin", "http://localhost:8080")
	for _, origin := range []string{"https://evil.example", "null", "http://localhost:3000", "http://127.0.0.1:8080"} {
		if p := want[client.Problem](f, 403, "GET", "/api/v1/jobs", "", "Origin", origin); p.Code != "cross_origin" {
			t.Errorf("%s: %+v", origin, p)
		}
	}
	r := httptest.NewRequest("GET", "http://rebound.example:8080/api/v1/jobs", http.NoBody)
	w := httptest.NewRecorder()
	if f.http.ServeHTTP(w, r); w.Code != 403 {
		t.Errorf("another name: %d", w.Code)
	}
}
