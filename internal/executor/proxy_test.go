package executor

import (
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/carillon-jobs/carillon/client"
)

// tunnels is a CONNECT proxy. It reaches a public address at the target that stands in for it.
type tunnels struct {
	*httptest.Server
	places map[string]string // what is connected to, by what is asked for

	mu     sync.Mutex
	asked  []string // guarded by mu
	signed []string // guarded by mu
	status int      // guarded by mu: the answer; 0: as it comes
}

func newTunnels(t *testing.T, secure bool) *tunnels {
	t.Helper()
	p := &tunnels{places: map[string]string{}}
	p.Server = httptest.NewUnstartedServer(p)
	if secure {
		p.StartTLS()
	} else {
		p.Start()
	}
	t.Cleanup(p.Close)
	return p
}

func (p *tunnels) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked = append(p.asked, r.Method+" "+r.Host)
	p.signed = append(p.signed, r.Header.Get("Proxy-Authorization"))
	status, to := p.status, p.places[r.Host]
	p.mu.Unlock()
	if status != 0 {
		w.WriteHeader(status)
		return
	}
	there, err := net.Dial("tcp", to)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer there.Close()
	w.WriteHeader(http.StatusOK)
	here, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer here.Close()
	go func() { _, _ = io.Copy(there, here); _ = there.(*net.TCPConn).CloseWrite() }()
	_, _ = io.Copy(here, there)
}

func (p *tunnels) seen() (asked, signed []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked, signed = p.asked, p.signed
	p.asked, p.signed = nil, nil
	return asked, signed
}

func (p *tunnels) answer(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = status
}

func (p *tunnels) at(t *testing.T) *url.URL {
	t.Helper()
	u, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// names resolve to public addresses, which nothing but the proxy of a test can reach, and to private ones.
func names(t *testing.T) *net.Resolver {
	return resolver(t, func(name string) ([]string, byte) {
		switch strings.TrimSuffix(name, ".") {
		case "public.example", "example.com":
			return []string{"93.184.215.14"}, 0
		case "two.example":
			return []string{"10.0.0.7", "93.184.215.14"}, 0
		case "inside.example":
			return []string{"10.0.0.7"}, 0
		case "metadata.example":
			return []string{"169.254.169.254"}, 0
		case "own.example":
			return []string{"127.0.0.1"}, 0
		}
		return nil, 3
	})
}

func TestCallbacksGoThroughTheProxy(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		h, got := recorder(nil)
		s, _ := server(t, h)
		p := newTunnels(t, secure)
		p.places["93.184.215.14:80"] = strings.TrimPrefix(s.URL, "http://")
		cfg := Config{Resolver: names(t), Proxy: Proxy{URL: p.at(t), Credentials: "carillon:pass:word"}}
		e := newExecutor(t, cfg)
		d := newDialer(cfg)
		if secure {
			d.tls.RootCAs = x509.NewCertPool()
			d.tls.RootCAs.AddCert(p.Certificate())
		}
		e.transport = newTransport(d, 0)
		for _, host := range []string{"public.example", "two.example"} {
			check(t, e.Execute(t.Context(), get("http://"+host+"/x")), "", false)
			if r := <-got; r.header.Get("Proxy-Authorization") != "" {
				t.Errorf("the target got %v", r.header)
			}
			asked, signed := p.seen()
			if !slices.Equal(asked, []string{"CONNECT 93.184.215.14:80"}) || signed[0] != "Basic "+base64.StdEncoding.EncodeToString([]byte("carillon:pass:word")) {
				t.Errorf("the proxy was asked %q as %q", asked, signed)
			}
		}
		p.Close()
		e.Close()
	}
}

// Over TLS the target is the one that the URL names, whoever carries it.
func TestTLSThroughTheProxy(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.TLS.ServerName) }))
	defer s.Close()
	p := newTunnels(t, false)
	p.places["93.184.215.14:443"] = strings.TrimPrefix(s.URL, "https://")
	cfg := Config{Resolver: names(t), HTTPSOnly: true, Proxy: Proxy{URL: p.at(t)}}
	e, d := newExecutor(t, cfg), newDialer(cfg)
	d.tls.RootCAs = x509.NewCertPool()
	d.tls.RootCAs.AddCert(s.Certificate())
	e.transport = newTransport(d, 0)
	o := e.Execute(t.Context(), get("https://example.com/")) // the test server's certificate is for it
	check(t, o, "", false)
	if o.Response == nil || o.Response.BodyPreview != "example.com" {
		t.Errorf("%+v", o.Response)
	}
	check(t, e.Execute(t.Context(), get("https://public.example/")), typeTLS, false, "it is for another host")
	check(t, e.Execute(t.Context(), get("http://public.example/")), typeBlocked, false, "https_only")
	if asked, signed := p.seen(); len(asked) != 2 || signed[0] != "" {
		t.Errorf("asked %q as %q", asked, signed)
	}
}

// What may not be reached is not asked for; what an operator allows is reached without the proxy.
func TestTheGuardHoldsBeforeTheProxy(t *testing.T) {
	t.Parallel()
	h, got := recorder(nil)
	s, _ := server(t, h)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	for _, resolves := range []bool{false, true} {
		p := newTunnels(t, false)
		e := newExecutor(t, Config{Resolver: names(t), Proxy: Proxy{URL: p.at(t), Resolves: resolves}})
		for _, u := range []string{"http://169.254.169.254/", "http://127.0.0.1:" + port + "/", "http://[::1]/", "http://[::ffff:10.0.0.7]/", "http://0x7f.1/", "http://localhost:" + port + "/"} {
			if o := e.Execute(t.Context(), get(u)); o.Status != client.Failed || o.Error.Type != typeBlocked && o.Error.Type != typeDNS {
				t.Errorf("%s: %+v, %+v", u, o, o.Error)
			}
		}
		check(t, e.Execute(t.Context(), get("http://public.example:25/")), typeBlocked, false, "port 25")
		if asked, _ := p.seen(); len(asked) > 0 {
			t.Errorf("resolves %v: the proxy was asked %q", resolves, asked)
		}
		for _, host := range []string{"inside.example", "metadata.example", "own.example"} {
			o := e.Execute(t.Context(), get("http://"+host+"/"))
			asked, _ := p.seen()
			switch {
			case resolves: // it is the proxy's to say, which does not know it
				check(t, o, typeRefused, true, "the egress proxy", "could not connect to "+host+":80")
				if !slices.Equal(asked, []string{"CONNECT " + host + ":80"}) {
					t.Errorf("asked %q", asked)
				}
			default:
				check(t, o, typeBlocked, false, host, "which callbacks may not reach")
				if len(asked) > 0 {
					t.Errorf("asked %q", asked)
				}
			}
		}
	}

	p := newTunnels(t, false)
	own := newExecutor(t, Config{Resolver: names(t), AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Proxy: Proxy{URL: p.at(t)}})
	check(t, own.Execute(t.Context(), get("http://own.example:"+port+"/")), "", false)
	<-got
	if asked, _ := p.seen(); len(asked) > 0 {
		t.Errorf("the proxy was asked %q", asked)
	}
}

// A redirect is judged like the first call, and a tenant's own ranges do not widen what the proxy is asked for.
func TestRedirectsThroughTheProxy(t *testing.T) {
	t.Parallel()
	s, _ := server(t, http.RedirectHandler("http://inside.example/", http.StatusFound).ServeHTTP)
	p := newTunnels(t, false)
	p.places["93.184.215.14:80"] = strings.TrimPrefix(s.URL, "http://")
	e := newExecutor(t, Config{Resolver: names(t), Proxy: Proxy{URL: p.at(t)}})
	a := get("http://public.example/")
	a.Execution.FollowRedirects = true
	check(t, e.Execute(t.Context(), a), typeBlocked, false, "10.0.0.7 of inside.example")
	a.CallbackAllow = []string{"192.168.0.0/16"}
	check(t, e.Execute(t.Context(), a), typeBlocked, false, "10.0.0.7 of inside.example")
	if asked, _ := p.seen(); !slices.Equal(asked, []string{"CONNECT 93.184.215.14:80", "CONNECT 93.184.215.14:80"}) {
		t.Errorf("asked %q", asked)
	}
}

// What the proxy does not do is said to be the proxy's doing, and where it is nobody is told.
func TestProxyFailures(t *testing.T) {
	t.Parallel()
	p := newTunnels(t, false)
	e := newExecutor(t, Config{Resolver: names(t), Proxy: Proxy{URL: p.at(t)}})
	for status, want := range map[int]struct {
		kind  string
		retry bool
		says  string
	}{
		407: {typeInternal, true, "it wants other credentials, or does not allow this host"}, 403: {typeBlocked, false, "does not allow calls to public.example:80: 403 Forbidden"},
		502: {typeRefused, true, "could not connect to public.example:80: 502 Bad Gateway"}, 504: {typeTimeout, true, "504 Gateway Timeout"}, 400: {typeInternal, true, "answered 400 Bad Request"}, 301: {typeInternal, true, "answered 301"},
	} {
		p.answer(status)
		check(t, e.Execute(t.Context(), get("http://public.example/?token=s3cret")), want.kind, want.retry, "the egress proxy (callbacks.proxy)", want.says)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for c, err := silent.Accept(); err == nil; c, err = silent.Accept() {
			_ = c.Close()
		}
	}()
	reset := newExecutor(t, Config{Resolver: names(t), Proxy: Proxy{URL: &url.URL{Scheme: "http", Host: silent.Addr().String()}}})
	check(t, reset.Execute(t.Context(), get("http://public.example/")), typeReset, true, "the egress proxy (callbacks.proxy) did not connect to public.example:80")
	_ = silent.Close()
	for u, want := range map[string]string{p.URL: "connection refused", "http://proxy.nowhere.example:3128": "no such host"} {
		at, _ := url.Parse(u)
		p.Close()
		down := newExecutor(t, Config{Resolver: names(t), Proxy: Proxy{URL: at, Credentials: "user:hunter22"}})
		o := down.Execute(t.Context(), get("http://public.example/"))
		if o.Status != client.Failed || !o.Retryable || !strings.HasPrefix(o.Error.Message, "could not connect to the egress proxy (callbacks.proxy): "+want) || strings.Contains(o.Error.Message, at.Host) || strings.Contains(o.Error.Message, "hunter22") {
			t.Errorf("%s: %+v, %+v", u, o, o.Error)
		}
	}
}
