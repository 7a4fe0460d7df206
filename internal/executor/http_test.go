package executor

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/carillon-jobs/carillon/client"
)

// seen is a request as a target saw it.
type seen struct {
	method, path, query, body string
	header                    http.Header
}

// recorder hands every request to the test and answers it with h, or with 200.
func recorder(h http.HandlerFunc) (http.HandlerFunc, chan seen) {
	got := make(chan seen, 16)
	return func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- seen{r.Method, r.URL.Path, r.URL.RawQuery, string(b), r.Header}
		if h != nil {
			h(w, r)
		}
	}, got
}

func TestRequest(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		method  string
		payload string
		headers map[string]string
		body    string
		header  map[string]string // an empty value: the header is absent
	}{
		{"post", "POST", `{"a": 1}`, nil, `{"a": 1}`, map[string]string{"Content-Type": "application/json", "Content-Length": "8"}},
		{"post is the default", "", `[1]`, nil, `[1]`, nil},
		{"no payload", "POST", "", nil, "", map[string]string{"Content-Type": "", "Content-Length": "0"}},
		{"put", "PUT", `"x"`, map[string]string{"content-type": "text/plain"}, `"x"`, map[string]string{"Content-Type": "text/plain"}},
		{"patch", "PATCH", `null`, nil, `null`, nil},
		{"delete", "DELETE", `{}`, nil, `{}`, nil},
		{"get", "GET", `{"a": 1}`, nil, "", map[string]string{"Content-Type": "", "Content-Length": ""}},
		{"head", "HEAD", `{"a": 1}`, nil, "", map[string]string{"Content-Type": ""}},
		{"headers", "POST", "", map[string]string{"X-Env": "prod", "User-Agent": "mine", "Authorization": "Bearer s3cret"}, "", map[string]string{
			"X-Env": "prod", "User-Agent": "mine", "Authorization": "Bearer s3cret",
		}},
		{"ours win", "POST", "", map[string]string{"x-job-id": "forged", "X-Fencing-Token": "0"}, "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h, got := recorder(nil)
			s, _ := server(t, h)
			a := attempt(client.Target{Target: "http", Method: tt.method, CallbackURL: s.URL + "/hook?key=s3cret", Headers: tt.headers})
			if tt.payload != "" {
				a.Payload = json.RawMessage(tt.payload)
			}
			check(t, loopback(t).Execute(t.Context(), a), "", false)
			r := <-got
			method := tt.method
			if method == "" {
				method = "POST"
			}
			if r.method != method || r.path != "/hook" || r.query != "key=s3cret" || r.body != tt.body {
				t.Errorf("got %s %s?%s with body %q", r.method, r.path, r.query, r.body)
			}
			want := map[string]string{
				"X-Job-Id": "job-1", "X-Execution-Id": "exec-1", "X-Attempt-Number": "2", "X-Idempotency-Key": "0123456789abcdef",
				"X-Scheduled-Time": "2030-01-02T02:04:05Z", "X-Fencing-Token": "77", "Accept-Encoding": "",
			}
			if tt.headers["User-Agent"] == "" {
				want["User-Agent"] = "Carillon/1.2.3"
			}
			for name, value := range tt.header {
				want[name] = value
			}
			for name, value := range want {
				if all := r.header.Values(name); value == "" && len(all) > 0 || value != "" && !slices.Equal(all, []string{value}) {
					t.Errorf("header %s: got %q, want %q", name, all, value)
				}
			}
		})
	}
}

func TestUncallable(t *testing.T) {
	t.Parallel()
	e := loopback(t)
	for _, raw := range []string{"", "/hook", "ftp://example.com/", "file:///etc/passwd", "http://", "http:example.com", "gopher://x", "http://a b/?s3cret", "http://[::1"} {
		check(t, e.Execute(t.Context(), get(raw)), typeInternal, false, "not an absolute http or https URL")
	}
	for _, method := range []string{"CONNECT", "get", "TRACE", "A B"} {
		a := attempt(client.Target{Target: "http", Method: method, CallbackURL: "http://127.0.0.1:1/"})
		check(t, e.Execute(t.Context(), a), typeInternal, false, "no method")
	}
	a := get("http://127.0.0.1:1/")
	a.Execution.Headers = map[string]string{"X-Bad": "s3cret\r\nX-Forged: 1"}
	check(t, e.Execute(t.Context(), a), typeInternal, true, "X-Bad")
}

func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", drainSize-1)
	s, conns := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/big" {
			_, _ = io.WriteString(w, big)
			return
		}
		_, _ = io.WriteString(w, "small")
	})
	e := loopback(t)
	for i := range 200 {
		a := attempt(client.Target{Target: "http", Method: "POST", CallbackURL: s.URL})
		a.Payload = json.RawMessage(`{"n": 1}`)
		if i%50 == 0 {
			a.Execution.CallbackURL += "/big"
		}
		check(t, e.Execute(t.Context(), a), "", false)
	}
	if got := conns.Load(); got != 1 {
		t.Errorf("200 calls in a row made %d connections, want 1", got)
	}
}

func TestRedirectIsNotFollowedUnlessAsked(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	s, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		http.Redirect(w, r, "https://u:s3cret@other.example/next?k=s3cret", http.StatusFound)
	})
	e := loopback(t)
	o := e.Execute(t.Context(), get(s.URL))
	check(t, o, typeHTTP, false, "answered 302 Found", "https://other.example/next", "follow_redirects")
	if calls.Load() != 1 || o.Response == nil || o.Response.HTTPStatus != 302 || o.Error.HTTPStatus != 302 {
		t.Errorf("got %d calls, response %+v", calls.Load(), o.Response)
	}
	a := get(s.URL)
	a.Execution.Expect = &client.Expect{Status: []int{302}}
	check(t, e.Execute(t.Context(), a), "", false)
}

func TestRedirectsAreFollowed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		method     string
		status     int
		wantMethod string
		wantBody   string
	}{
		{"POST", 301, "GET", ""},
		{"POST", 302, "GET", ""},
		{"PUT", 303, "GET", ""},
		{"POST", 307, "POST", `{"a":1}`},
		{"PATCH", 308, "PATCH", `{"a":1}`},
		{"HEAD", 302, "HEAD", ""},
		{"GET", 308, "GET", ""},
	}
	for _, tt := range tests {
		h, got := recorder(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/a/b" {
				w.Header().Set("Location", "../c?x=1#part")
				w.WriteHeader(tt.status)
			}
		})
		s, _ := server(t, h)
		a := attempt(client.Target{
			Target: "http", Method: tt.method, CallbackURL: s.URL + "/a/b", FollowRedirects: true,
			Headers: map[string]string{"Authorization": "Bearer s3cret"},
		})
		a.Payload = json.RawMessage(`{"a":1}`)
		check(t, loopback(t).Execute(t.Context(), a), "", false)
		<-got
		r := <-got
		if r.method != tt.wantMethod || r.path != "/c" || r.query != "x=1" || r.body != tt.wantBody {
			t.Errorf("%s %d: got %s %s?%s %q", tt.method, tt.status, r.method, r.path, r.query, r.body)
		}
		if r.header.Get("Authorization") != "Bearer s3cret" || r.header.Get("X-Execution-ID") != "exec-1" || r.header.Get("Referer") != "" {
			t.Errorf("%s %d: got headers %v", tt.method, tt.status, r.header)
		}
	}
}

func TestHeadersStayWithTheirOrigin(t *testing.T) {
	t.Parallel()
	var home string
	strange, gotStrange := recorder(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", home+"/back")
		w.WriteHeader(http.StatusPermanentRedirect)
	})
	other, _ := server(t, strange)
	h, gotHome := recorder(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/start" {
			w.Header().Set("Location", other.URL)
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
	})
	s, _ := server(t, h)
	home = s.URL
	a := attempt(client.Target{
		Target: "http", Method: "POST", CallbackURL: s.URL + "/start", FollowRedirects: true,
		Headers: map[string]string{"Authorization": "Bearer s3cret", "X-Mine": "s3cret", "Content-Type": "text/s3cret"},
	})
	a.Payload = json.RawMessage(`{}`)
	check(t, loopback(t).Execute(t.Context(), a), "", false)
	if r := <-gotHome; r.header.Get("X-Mine") != "s3cret" {
		t.Error("the first request lacks the user's header")
	}
	// Once abroad, the way home was chosen by a stranger.
	for _, r := range []seen{<-gotStrange, <-gotHome} {
		for name, values := range r.header {
			if strings.Contains(strings.Join(values, " "), "s3cret") {
				t.Errorf("%s got the user's header %s", r.path, name)
			}
		}
		if r.header.Get("X-Idempotency-Key") == "" || r.header.Get("Content-Type") != "application/json" || r.body != `{}` {
			t.Errorf("%s got headers %v and body %q", r.path, r.header, r.body)
		}
	}
}

func TestPayloadsWithSecretsStayWithTheirOrigin(t *testing.T) {
	t.Parallel()
	for _, status := range []int{307, 308} {
		strange, gotStrange := recorder(nil)
		other, _ := server(t, strange)
		h, _ := recorder(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/start":
				http.Redirect(w, r, "/again", status)
			case "/again":
				http.Redirect(w, r, other.URL, status)
			case "/get":
				http.Redirect(w, r, other.URL, http.StatusSeeOther)
			}
		})
		s, _ := server(t, h)
		a := attempt(client.Target{Target: "http", Method: "POST", CallbackURL: s.URL + "/start", FollowRedirects: true})
		a.Payload, a.PayloadSecret = json.RawMessage(`{"a":"s3cret"}`), true
		check(t, loopback(t).Execute(t.Context(), a), typeHTTP, false, "another origin", "secrets")
		if len(gotStrange) > 0 {
			t.Errorf("%d: the other origin was called: %+v", status, <-gotStrange)
		}
		a.Execution.CallbackURL = s.URL + "/get" // without a body it may go
		check(t, loopback(t).Execute(t.Context(), a), "", false)
		if r := <-gotStrange; r.body != "" || r.method != "GET" {
			t.Errorf("%d: the other origin got %+v", status, r)
		}
	}
}

func TestRedirectsThatAreRefused(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	s, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		switch r.URL.Path {
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/metadata":
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/?s3cret", http.StatusFound)
		case "/private":
			http.Redirect(w, r, "http://10.0.0.1/", http.StatusTemporaryRedirect)
		case "/file":
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(http.StatusFound)
		case "/junk":
			w.Header().Set("Location", "http://[::1/s3cret")
			w.WriteHeader(http.StatusFound)
		case "/nowhere":
			w.WriteHeader(http.StatusFound)
		}
	})
	e := loopback(t)
	follow := func(path string) client.Attempt {
		a := get(s.URL + path)
		a.Execution.FollowRedirects = true
		return a
	}
	check(t, e.Execute(t.Context(), follow("/loop")), typeHTTP, false, "302 Found", "at most 3")
	if got := calls.Load(); got != 4 {
		t.Errorf("a loop was called %d times, want 4", got)
	}
	check(t, e.Execute(t.Context(), follow("/metadata")), typeBlocked, false, "169.254.169.254", "metadata")
	check(t, e.Execute(t.Context(), follow("/private")), typeBlocked, false, "10.0.0.1", "--allow-callback 10.0.0.1/32")
	check(t, e.Execute(t.Context(), follow("/file")), typeHTTP, false, "302 Found", "not an http or https URL")
	check(t, e.Execute(t.Context(), follow("/junk")), typeHTTP, false, "not an http or https URL")
	check(t, e.Execute(t.Context(), follow("/nowhere")), typeHTTP, false, "answered 302 Found")
}

func TestRedirectNeverLeavesHTTPS(t *testing.T) {
	t.Parallel()
	plain, got := recorder(nil)
	open, _ := server(t, plain)
	e, s := secure(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, open.URL, http.StatusFound) })
	a := get(s.URL)
	a.Execution.FollowRedirects = true
	check(t, e.Execute(t.Context(), a), typeHTTP, false, "from https to http")
	if len(got) != 0 {
		t.Error("the redirect was followed")
	}
}

func TestBlockedAddressesAreNotReached(t *testing.T) {
	t.Parallel()
	s, conns := server(t, func(http.ResponseWriter, *http.Request) {})
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	everyName := resolver(t, func(string) ([]string, byte) { return []string{"127.0.0.1"}, 0 })
	e := newExecutor(t, Config{Resolver: everyName, OwnAddrs: func() []netip.AddrPort { return nil }})
	hosts := map[string][]string{
		typeBlocked: {
			"127.0.0.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "[::]", "[::1]", "[::1%25lo]", "127.1.2.3",
			"0x7f000001", "0x7f.1", "rebound.test", "example.com@127.0.0.1",
			"10.0.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "[fe80::1%25lo]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "255.255.255.255",
		},
		typeDNS: {"2130706433", "0177.0.0.1", "127.1", "127.0.0.1."}, // no names to Go's resolver; libc's would read them as addresses
	}
	for kind, list := range hosts {
		for _, host := range list {
			o := e.Execute(t.Context(), get("http://"+host+":"+port+"/?s3cret"))
			switch {
			case o.Error != nil && o.Error.Type == typeInternal && strings.HasPrefix(host, "[") && !hasIPv6():
			case o.Error == nil || o.Error.Type != kind:
				t.Errorf("%s: got %s %+v, want %s", host, o.Status, o.Error, kind)
			case host == "0.0.0.0" || host == "[::]": // this host, to whoever dials it
				check(t, o, typeBlocked, false, "callbacks may not reach")
			case kind == typeBlocked:
				check(t, o, typeBlocked, false, "callbacks may not reach", "--allow-callback ")
			}
		}
	}
	if got := conns.Load(); got != 0 {
		t.Errorf("%d connections were made", got)
	}
	check(t, e.Execute(t.Context(), get("http://rebound.test:"+port)), typeBlocked, false, "the address 127.0.0.1 of rebound.test is a loopback address")
	own := newExecutor(t, Config{
		AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		OwnAddrs:   func() []netip.AddrPort { return []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:" + port)} },
	})
	check(t, own.Execute(t.Context(), get(s.URL)), typeBlocked, false, "127.0.0.1 is where Carillon itself listens")
}

func hasIPv6() bool {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}

// twins listens on one port of two addresses.
func twins(t testing.TB, one, two string) (net.Listener, net.Listener) {
	t.Helper()
	for range 20 { // the port may be taken on the other address
		a, err := net.Listen("tcp", one+":0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(a.Addr().String())
		b, err := net.Listen("tcp", two+":"+port)
		if err == nil {
			return a, b
		}
		_ = a.Close()
	}
	t.Fatal("no port is free on both addresses")
	return nil, nil
}

func TestRebindingNameIsCheckedOnEveryDial(t *testing.T) {
	t.Parallel()
	// 127.0.0.2 stands for the public address that the name shows first.
	outside, inside := twins(t, "127.0.0.2", "127.0.0.1")
	public, seenPublic := serve(t, outside, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })
	_, seenInside := serve(t, inside, func(http.ResponseWriter, *http.Request) {})
	_, port, _ := net.SplitHostPort(outside.Addr().String())
	var rebound atomic.Bool
	e := newExecutor(t, Config{
		AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")},
		Resolver: resolver(t, func(name string) ([]string, byte) {
			switch {
			case strings.HasPrefix(name, "both.test"):
				return []string{"127.0.0.1", "127.0.0.2"}, 0
			case strings.HasPrefix(name, "rebind.test") && rebound.Load():
				return []string{"127.0.0.1"}, 0
			}
			return []string{"127.0.0.2"}, 0
		}),
	})
	check(t, e.Execute(t.Context(), get("http://rebind.test:"+port)), "", false)
	rebound.Store(true)
	check(t, e.Execute(t.Context(), get("http://rebind.test:"+port)), typeBlocked, false, "127.0.0.1 of rebind.test")
	check(t, e.Execute(t.Context(), get("http://both.test:"+port)), "", false)
	if seenPublic.Load() != 2 || seenInside.Load() != 0 {
		t.Errorf("got %d connections outside and %d inside, want 2 and 0", seenPublic.Load(), seenInside.Load())
	}
	public.Close()
	check(t, e.Execute(t.Context(), get("http://both.test:"+port)), typeBlocked, true, "other addresses could not be reached")
}
