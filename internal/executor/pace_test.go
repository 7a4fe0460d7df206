package executor

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

func TestPaceOfAHost(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := newPaces(Pace{PerSecond: 10, Concurrent: 15})
	for i := range 10 { // a second's worth at once
		if wait, _ := p.enter("a:443", now); wait != 0 {
			t.Fatalf("call %d waits %v", i, wait)
		}
	}
	var last time.Duration
	for range 20 {
		wait, why := p.enter("a:443", now)
		if wait <= last || why == nil || why.Type != typeInternal || !strings.Contains(why.Message, "host_per_second") {
			t.Fatalf("put off for %v after %v: %+v", wait, last, why)
		}
		last = wait
	}
	if last != 2*time.Second {
		t.Errorf("twenty are spread over %v", last)
	}
	if wait, _ := p.enter("b:443", now); wait != 0 {
		t.Errorf("another host waits %v", wait)
	}
	now = now.Add(time.Second)
	for i := range 5 {
		if wait, _ := p.enter("a:443", now); wait != 0 {
			t.Fatalf("a second later call %d waits %v", i, wait)
		}
	}
	if wait, why := p.enter("a:443", now); wait < busyPause || !strings.Contains(why.Message, "host_concurrent") {
		t.Errorf("one more at once: %v, %+v", wait, why)
	}
	p.leave("a:443")
	if wait, _ := p.enter("a:443", now); wait != 0 {
		t.Errorf("after one ended: %v", wait)
	}
	if newPaces(Pace{}) != nil {
		t.Error("no bounds are kept")
	}
}

func TestPacedCallsArePutOff(t *testing.T) {
	t.Parallel()
	h, got := recorder(nil)
	s, _ := server(t, h)
	e := New(Config{AllowCIDRs: nil, Pace: Pace{PerSecond: 1}, Resolver: nil})
	defer e.Close()
	e.guard.AllowLoopback = false // so that the host is none of the operator's
	e.transport = newTransport(newDialer(Config{AllowLoopback: true}), 0)
	check(t, e.Execute(t.Context(), get(s.URL)), "", false)
	<-got
	if o := e.Execute(t.Context(), get(s.URL)); o.Status != client.Snoozed || o.RetryAfterMS < 1 || o.Error == nil || !strings.Contains(o.Error.Message, "put off") {
		t.Errorf("the second call: %+v, %+v", o, o.Error)
	}
	if len(got) > 0 {
		t.Error("what was put off was sent")
	}
	own := New(Config{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Pace: Pace{PerSecond: 1}})
	defer own.Close()
	for range 3 { // an operator's own host is not paced
		check(t, own.Execute(t.Context(), get(s.URL)), "", false)
	}
}

func TestHTTPSOnly(t *testing.T) {
	t.Parallel()
	h, got := recorder(nil)
	s, _ := server(t, h)
	e := New(Config{AllowLoopback: true, HTTPSOnly: true})
	defer e.Close()
	check(t, e.Execute(t.Context(), get(s.URL)), typeBlocked, false, "https", "callbacks.https_only")
	if len(got) > 0 {
		t.Error("it was called all the same")
	}
}

func TestPorts(t *testing.T) {
	t.Parallel()
	for port, ok := range map[uint16]bool{80: true, 443: true, 8080: true, 8443: true, 50123: true, 22: false, 25: false, 6667: false, 465: false} {
		err := checkPort(nil, port)
		if (err == nil) != ok {
			t.Errorf("%d: %v", port, err)
		}
		if b := new(BlockedPortError); err != nil && !errors.As(err, &b) {
			t.Errorf("%d: %T", port, err)
		}
	}
	if checkPort([]int{443}, 8080) == nil || checkPort([]int{443, 25}, 25) != nil {
		t.Error("a list does not rule")
	}
	h, got := recorder(func(w http.ResponseWriter, r *http.Request) {})
	s, _ := server(t, h)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	e := New(Config{AllowLoopback: true, Ports: []int{443}})
	defer e.Close()
	check(t, e.Execute(t.Context(), get(s.URL)), typeBlocked, false, "port "+port, "callbacks.ports")
	if len(got) > 0 {
		t.Error("it was called all the same")
	}
	var n int
	fmt.Sscan(port, &n)
	open := New(Config{AllowLoopback: true, Ports: []int{443, n}})
	defer open.Close()
	check(t, open.Execute(t.Context(), get(s.URL)), "", false)
}
