package executor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/worker"
)

// secure serves h over TLS, to an executor that trusts the server.
func secure(t testing.TB, h http.HandlerFunc) (*Executor, *httptest.Server) {
	t.Helper()
	s := tlsServer(t, h, nil)
	return trusting(t, s, nil), s
}

func tlsServer(t testing.TB, h http.HandlerFunc, cfg *tls.Config) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.TLS = cfg
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// trusting is an executor that accepts the server's certificate, with a TLS
// configuration that the test may change.
func trusting(t testing.TB, s *httptest.Server, change func(*tls.Config)) *Executor {
	t.Helper()
	cfg := Config{AllowLoopback: true, Resolver: resolver(t, func(string) ([]string, byte) { return []string{"127.0.0.1"}, 0 })}
	d := newDialer(cfg)
	d.tls.RootCAs = x509.NewCertPool()
	d.tls.RootCAs.AddCert(s.Certificate())
	if change != nil {
		change(d.tls)
	}
	e := New(cfg)
	e.transport = newTransport(d, 0)
	e.targets["http"] = e.callback
	t.Cleanup(e.Close)
	return e
}

func TestConnectionRefused(t *testing.T) {
	t.Parallel()
	// The near end of a connection is a port that is taken, but not listened on.
	conn, err := net.Dial("tcp", raw(t, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) }))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	address := conn.LocalAddr().String()
	o := loopback(t).Execute(t.Context(), get("http://"+address+"/?s3cret"))
	check(t, o, typeRefused, true)
	if want := "could not connect to " + address + ": connection refused"; o.Error.Message != want {
		t.Errorf("got %q, want %q", o.Error.Message, want)
	}
	if o.Response != nil {
		t.Errorf("got response %+v", o.Response)
	}
	e := newExecutor(t, Config{AllowLoopback: true, Resolver: resolver(t, func(string) ([]string, byte) { return []string{"127.0.0.1"}, 0 })})
	_, port, _ := net.SplitHostPort(address)
	check(t, e.Execute(t.Context(), get("http://named.test:"+port)), typeRefused, true, "named.test:"+port+" ("+address+")")
}

func TestConnectionReset(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		serve func(*net.TCPConn)
		says  string
	}{
		"reset": {func(c *net.TCPConn) {
			_, _ = c.Read(make([]byte, 1))
			_ = c.SetLinger(0)
		}, "got no answer: connection reset by peer"},
		"closed": {func(c *net.TCPConn) {
			_, _ = c.Read(make([]byte, 4096))
		}, "the connection was closed before the answer was complete"},
		"closed in the header": {func(c *net.TCPConn) {
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX-Half: y")
		}, "the connection was closed before the answer was complete"},
		"closed in the body": {func(c *net.TCPConn) {
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
		}, "answered 200 OK, but the body broke off"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := raw(t, tt.serve)
			check(t, loopback(t).Execute(t.Context(), get("http://"+address+"/?s3cret")), typeReset, true, tt.says)
		})
	}
}

func TestNotHTTP(t *testing.T) {
	t.Parallel()
	address := raw(t, func(c *net.TCPConn) {
		_, _ = c.Read(make([]byte, 4096))
		_, _ = io.WriteString(c, "220 mail\x1b[2J.example ESMTP\r\n")
	})
	check(t, loopback(t).Execute(t.Context(), get("http://"+address+"/?s3cret")), typeInternal, true, "got no answer: ")
}

func TestNamesThatDoNotResolve(t *testing.T) {
	t.Parallel()
	for rcode, says := range map[byte]string{2: "server misbehaving", 3: "no such host"} {
		e := newExecutor(t, Config{Resolver: resolver(t, func(string) ([]string, byte) { return nil, rcode })})
		check(t, e.Execute(t.Context(), get("http://gone.test/?s3cret")), typeDNS, true, "could not resolve gone.test: "+says)
		check(t, e.Execute(t.Context(), get("https://2130706433/")), typeDNS, true, "could not resolve 2130706433")
	}
}

func TestTLSErrors(t *testing.T) {
	t.Parallel()
	ok := func(http.ResponseWriter, *http.Request) {}
	s := tlsServer(t, ok, nil)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	check(t, loopback(t).Execute(t.Context(), get(s.URL)), typeTLS, false, "unknown authority", "127.0.0.1:"+port)

	expired := trusting(t, s, func(c *tls.Config) { c.Time = func() time.Time { return time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC) } })
	check(t, expired.Execute(t.Context(), get(s.URL)), typeTLS, false, "expired")

	check(t, trusting(t, s, nil).Execute(t.Context(), get("https://wrong.test:"+port)), typeTLS, false, "wrong.test:"+port, "another host")

	old := tlsServer(t, ok, &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10})
	check(t, trusting(t, old, nil).Execute(t.Context(), get(old.URL)), typeTLS, true, "handshake", "failed")

	shut := raw(t, func(c *net.TCPConn) { _, _ = c.Read(make([]byte, 1)); _ = c.SetLinger(0) })
	check(t, loopback(t).Execute(t.Context(), get("https://"+shut)), typeTLS, true, "handshake")

	plain, _ := server(t, ok)
	check(t, loopback(t).Execute(t.Context(), get("https://"+plain.Listener.Addr().String())), typeTLS, false, "may have to begin with http://")
	only := get("https://" + plain.Listener.Addr().String())
	only.CallbackHTTPSOnly = true
	check(t, loopback(t).Execute(t.Context(), only), typeTLS, false, "the target must speak TLS at this port")
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	e, s := secure(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/half":
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = fmt.Fprint(w, r.Proto)
	})
	o := e.Execute(t.Context(), get(s.URL))
	check(t, o, "", false)
	if o.Response.BodyPreview != "HTTP/2.0" {
		t.Errorf("got %s, want HTTP/2.0", o.Response.BodyPreview)
	}
	check(t, e.Execute(t.Context(), get(s.URL+"/abort")), typeReset, true, "got no answer", "stream reset")
	check(t, e.Execute(t.Context(), get(s.URL+"/half")), typeReset, true, "answered 200 OK, but the body broke off", "stream reset")
}

// brief is a context whose deadline passes soon, but not before a slow machine has got the first byte.
func brief(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	hung := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	trickle := func(conn net.Conn, first string) {
		_, _ = conn.Read(make([]byte, 4096))
		_, err := io.WriteString(conn, first)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for err == nil {
			<-tick.C
			_, err = io.WriteString(conn, "a")
		}
	}
	silent, _ := server(t, hung)
	mute := raw(t, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) })
	slowHeader := raw(t, func(c *net.TCPConn) { trickle(c, "HTTP/1.1 200 OK\r\nX-Slow: ") })
	slowBody := raw(t, func(c *net.TCPConn) { trickle(c, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nbegin") })
	slowError := raw(t, func(c *net.TCPConn) { trickle(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 100000\r\n\r\nbegin") })
	slowRedirect := raw(t, func(c *net.TCPConn) {
		trickle(c, "HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 100000\r\n\r\n")
	})
	e := loopback(t)
	tests := map[string]struct {
		url, kind string
		retry     bool
		says      string
		status    int
	}{
		"silent":        {silent.URL, typeTimeout, true, "did not answer within its 5 s", 0},
		"TLS":           {"https://" + mute, typeTimeout, true, "did not answer within its 5 s", 0},
		"slow header":   {"http://" + slowHeader, typeTimeout, true, "did not answer within its 5 s", 0},
		"slow body":     {"http://" + slowBody, typeTimeout, true, "answered 200 OK, but the body did not end within its 5 s", 200},
		"slow error":    {"http://" + slowError, typeHTTP, false, "answered 404 Not Found", 404},
		"slow redirect": {"http://" + slowRedirect, typeTimeout, true, "did not answer within its 5 s", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := int64(5)
			a := get(tt.url)
			a.Execution.TimeoutSeconds = &limit
			a.Execution.FollowRedirects = true
			o := e.Execute(brief(t), a)
			check(t, o, tt.kind, tt.retry, tt.says)
			if tt.status == 0 && o.Response != nil || tt.status != 0 && (o.Response == nil || o.Response.HTTPStatus != tt.status || !strings.HasPrefix(o.Response.BodyPreview, "begin")) {
				t.Errorf("got response %+v, want status %d", o.Response, tt.status)
			}
		})
	}
}

func TestEndlessBodyIsCutOff(t *testing.T) {
	t.Parallel()
	stopped := make(chan struct{})
	s, _ := server(t, func(w http.ResponseWriter, _ *http.Request) {
		defer close(stopped)
		chunk := []byte(strings.Repeat("x", 8192))
		for {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	o := loopback(t).Execute(t.Context(), get(s.URL))
	check(t, o, "", false)
	if len(o.Response.BodyPreview) != previewSize {
		t.Errorf("got a preview of %d bytes, want %d", len(o.Response.BodyPreview), previewSize)
	}
	<-stopped
}

func TestHeaderFloodIsCutOff(t *testing.T) {
	t.Parallel()
	s, _ := server(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 200 {
			w.Header().Set(fmt.Sprintf("X-Flood-%d", i), strings.Repeat("x", 1024))
		}
	})
	check(t, loopback(t).Execute(t.Context(), get(s.URL)), typeInternal, true, "headers exceeded")
}

func TestCancellation(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cause error
		kind  string
		retry bool
	}{
		"asked to": {worker.ErrCancelled, typeCancelled, false},
		"lost":     {errors.New("the lease is lost"), typeLeaseLost, true},
	}
	for name, tt := range tests {
		for _, path := range []string{"/header", "/body"} {
			t.Run(name+path, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancelCause(t.Context())
				s, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
					if path == "/body" {
						_, _ = io.WriteString(w, "begin")
						_ = http.NewResponseController(w).Flush()
					}
					cancel(tt.cause)
					<-r.Context().Done()
				})
				check(t, loopback(t).Execute(ctx, get(s.URL+path)), tt.kind, tt.retry)
			})
		}
	}
}

// Some failures are not worth the waiting, or need a broken network.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	u, _ := url.Parse("https://x.example/hook?s3cret")
	c := &call{method: "POST", url: u, attempt: attempt(client.Target{})}
	at := &net.TCPAddr{IP: net.IPv4(9, 9, 9, 9), Port: 443}
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Addr: at, Err: err} }
	tests := []struct {
		err  error
		kind string
		says string
	}{
		{dial(os.ErrDeadlineExceeded), typeTimeout, "could not connect to x.example:443 (9.9.9.9:443): timed out"},
		{dial(os.NewSyscallError("connect", syscall.ETIMEDOUT)), typeTimeout, "timed out"},
		{dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), typeInternal, "could not connect to x.example:443 (9.9.9.9:443): no route to host"},
		{dial(&net.DNSError{Name: "x.example", IsTimeout: true}), typeDNS, "could not resolve x.example: the name server did not answer in time"},
		{&handshakeError{context.DeadlineExceeded}, typeTimeout, "the TLS handshake with x.example:443 timed out"},
		{&net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)}, typeReset, "POST https://x.example/hook got no answer: broken pipe"},
		{&net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}, typeTLS, "got no answer: remote error: tls: certificate required"},
		{errors.New("net/http: odd\nthing"), typeInternal, "POST https://x.example/hook got no answer: odd"},
	}
	for _, tt := range tests {
		check(t, c.unanswered(t.Context(), tt.err), tt.kind, true, tt.says)
	}
	if got := excerpt(strings.Repeat("é", 1000)); len(got) > 310 || !strings.HasSuffix(got, "é…") {
		t.Errorf("got %d bytes ending in %q", len(got), got[len(got)-6:])
	}
}

func BenchmarkCallback(b *testing.B) {
	s, _ := server(b, func(http.ResponseWriter, *http.Request) {})
	e := loopback(b)
	a := attempt(client.Target{Target: "http", Method: "POST", CallbackURL: s.URL})
	a.Payload = []byte(`{"n": 1}`)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			check(b, e.Execute(b.Context(), a), "", false)
		}
	})
}

// A target that is slow to begin is told from one that is slow to end.
func TestFirstByte(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/begins" {
			w.WriteHeader(200)
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	e := newExecutor(t, Config{AllowLoopback: true, FirstByte: 2 * time.Second})
	check(t, e.Execute(t.Context(), get(s.URL+"/never")), typeTimeout, true, "did not begin to answer in time")
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // the attempt's own
	defer cancel()
	check(t, e.Execute(ctx, get(s.URL+"/begins")), typeTimeout, true, "did not end before its deadline")
}
