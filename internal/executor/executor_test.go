package executor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/worker"
)

// TestMain also fails when a test leaves a connection's goroutines behind.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := leftovers(time.Minute); code == 0 && left != "" {
		fmt.Fprintln(os.Stderr, "goroutines left behind:\n"+left)
		code = 1
	}
	os.Exit(code)
}

func leftovers(patience time.Duration) string {
	over := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		buf := make([]byte, 1<<20)
		var left []string
		for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "net/http.") || strings.Contains(g, "internal/executor.") && !strings.Contains(g, "executor.TestMain") {
				left = append(left, g)
			}
		}
		if len(left) == 0 {
			return ""
		}
		select {
		case <-over:
			return strings.Join(left, "\n\n")
		case <-tick.C:
		}
	}
}

func newExecutor(t testing.TB, cfg Config) *Executor {
	t.Helper()
	e := New(cfg)
	t.Cleanup(e.Close)
	return e
}

// loopback is an executor that may reach the tests' servers.
func loopback(t testing.TB) *Executor {
	t.Helper()
	return newExecutor(t, Config{AllowLoopback: true, Version: "1.2.3"})
}

// server serves h and counts connections.
func server(t testing.TB, h http.HandlerFunc) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, l, h)
}

func serve(t testing.TB, l net.Listener, h http.HandlerFunc) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var conns atomic.Int64
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	s.Listener = l
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.Config.ConnState = func(_ net.Conn, to http.ConnState) {
		if to == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s, &conns
}

// raw accepts connections and hands each to f.
func raw(t testing.TB, f func(*net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			f(conn.(*net.TCPConn))
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-ended })
	return l.Addr().String()
}

// resolver asks a name server on loopback that answers with what f says.
func resolver(t testing.TB, f func(name string) (addrs []string, rcode byte)) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(reply(buf[:n], f), from)
		}
	}()
	t.Cleanup(func() { _ = conn.Close(); <-ended })
	address := conn.LocalAddr().String()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", address)
	}}
}

// reply answers a DNS query for A records, and any other with none.
func reply(query []byte, f func(string) ([]string, byte)) []byte {
	var labels []string
	i := 12
	for query[i] != 0 {
		labels = append(labels, string(query[i+1:i+1+int(query[i])]))
		i += 1 + int(query[i])
	}
	kind := binary.BigEndian.Uint16(query[i+1:])
	addrs, rcode := f(strings.Join(labels, "."))
	if kind != 1 {
		addrs = nil
	}
	out := append([]byte{}, query[:2]...)
	out = append(out, 0x81, 0x80|rcode, 0, 1, 0, byte(len(addrs)), 0, 0, 0, 0)
	out = append(out, query[12:i+5]...)
	for _, a := range addrs {
		out = append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		out = append(out, netip.MustParseAddr(a).AsSlice()...)
	}
	return out
}

func attempt(target client.Target) client.Attempt {
	return client.Attempt{
		ExecutionID: "exec-1", JobID: "job-1", JobName: "a job", Execution: target, AttemptNumber: 2, FencingToken: 77,
		ScheduledTime: time.Date(2030, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600)), IdempotencyKey: "0123456789abcdef",
	}
}

func get(url string) client.Attempt {
	return attempt(client.Target{Target: "http", Method: "GET", CallbackURL: url})
}

// check compares an outcome's status, error type and retryability with the
// wanted ones, and its message with the fragments.
func check(t testing.TB, o client.Outcome, kind string, retry bool, fragments ...string) {
	t.Helper()
	if kind == "" {
		if o.Status != client.Succeeded || o.Error != nil {
			t.Fatalf("got %s %+v, want SUCCEEDED", o.Status, o.Error)
		}
		return
	}
	want := client.Failed
	if kind == typeCancelled {
		want = client.Cancelled
	}
	if o.Status != want || o.Error == nil || o.Error.Type != kind || o.Retryable != retry {
		t.Fatalf("got %s %+v retryable %t, want %s %s retryable %t", o.Status, o.Error, o.Retryable, want, kind, retry)
	}
	for _, f := range fragments {
		if !strings.Contains(o.Error.Message, f) {
			t.Errorf("message %q does not contain %q", o.Error.Message, f)
		}
	}
	if strings.ContainsAny(o.Error.Message, "\n\r\x00") || strings.Contains(o.Error.Message, "s3cret") {
		t.Errorf("message %q is not one line without secrets", o.Error.Message)
	}
}

func TestUnknownTarget(t *testing.T) {
	t.Parallel()
	o := loopback(t).Execute(t.Context(), attempt(client.Target{Target: "teleport"}))
	check(t, o, typeInternal, false, `"teleport"`)
	if o.ExecutionID != "exec-1" || o.FencingToken != 77 {
		t.Errorf("got %q under token %d, want exec-1 under 77", o.ExecutionID, o.FencingToken)
	}
}

func TestPanicIsAnOutcome(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, Config{Log: slog.New(slog.DiscardHandler)})
	e.targets["boom"] = func(context.Context, client.Attempt) client.Outcome { panic("no\nway") }
	o := e.Execute(t.Context(), attempt(client.Target{Target: "boom"}))
	check(t, o, typePanic, true, "panicked", "way")
	if o.ExecutionID != "exec-1" || o.FencingToken != 77 {
		t.Errorf("got %q under token %d, want exec-1 under 77", o.ExecutionID, o.FencingToken)
	}
}

func TestContextThatEndedBefore(t *testing.T) {
	t.Parallel()
	e := loopback(t)
	ends := map[string]struct {
		ctx   func() (context.Context, context.CancelFunc)
		kind  string
		retry bool
		says  string
	}{
		"deadline": {func() (context.Context, context.CancelFunc) {
			return context.WithDeadline(t.Context(), time.Unix(0, 0))
		}, typeTimeout, true, "within its 7 s"},
		"deadline with a cause": {func() (context.Context, context.CancelFunc) {
			return context.WithDeadlineCause(t.Context(), time.Unix(0, 0), errors.New("late"))
		}, typeTimeout, true, "within its 7 s"},
		"asked to": {func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(fmt.Errorf("by ann: %w", worker.ErrCancelled))
			return ctx, func() { cancel(nil) }
		}, typeCancelled, false, "on request"},
		"lost": {func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errors.New("the lease is lost"))
			return ctx, func() { cancel(nil) }
		}, typeLeaseLost, true, "the lease is lost"},
		"stopped": {func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx, cancel
		}, typeLeaseLost, true, "gave the attempt up"},
	}
	for name, tt := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := tt.ctx()
			defer cancel()
			seven := int64(7)
			a := attempt(client.Target{Target: "simulate", WorkKind: "noop", TimeoutSeconds: &seven})
			check(t, e.Execute(ctx, a), tt.kind, tt.retry, tt.says)
		})
	}
}
