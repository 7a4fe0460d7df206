package executor

import (
	"container/heap"
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
	p := newPaces(Pace{PerSecond: 10, Concurrent: 17}, func(putOff) {})
	for i := range 10 { // a second's worth at once
		if wait, _ := p.enter("a:443", "t", now); wait != 0 {
			t.Fatalf("call %d waits %v", i, wait)
		}
	}
	var last time.Duration
	for range 20 {
		wait, why := p.enter("a:443", "t", now)
		if wait <= last || why == nil || why.Type != typeInternal || !strings.Contains(why.Message, "host_per_second") || !strings.Contains(why.Message, "calls to a:443 are put off") {
			t.Fatalf("put off for %v after %v: %+v", wait, last, why)
		}
		last = wait
	}
	if last != 2*time.Second {
		t.Errorf("twenty are spread over %v", last)
	}
	if wait, _ := p.enter("b:443", "t", now); wait != 0 {
		t.Errorf("another host waits %v", wait)
	}
	now = now.Add(time.Second)
	for i := range 5 {
		if wait, _ := p.enter("a:443", "t", now); wait != 0 {
			t.Fatalf("a second later call %d waits %v", i, wait)
		}
	}
	if wait, why := p.enter("a:443", "t", now); wait < minBusy || !strings.Contains(why.Message, "host_concurrent") {
		t.Errorf("one more at once: %v, %+v", wait, why)
	}
	p.leave("a:443", "t", now)
	if wait, _ := p.enter("a:443", "t", now); wait != 0 {
		t.Errorf("after one ended: %v", wait)
	}
	if newPaces(Pace{}, nil) != nil {
		t.Error("no bounds are kept")
	}
}

// crowd plays calls to one host, without waiting: those that are postponed come back when they were told to.
type crowd struct {
	p      *paces
	took   time.Duration // a call
	events eventHeap
	now    time.Time
	tries  map[int64]int          // by second
	began  map[string][]time.Time // by tenant
}

type event struct {
	at     time.Time
	order  int
	tenant string
	ends   bool
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].order < h[j].order
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func newCrowd(cfg Pace, took time.Duration) *crowd {
	return &crowd{p: newPaces(cfg, func(putOff) {}), took: took, now: time.Unix(1_800_000_000, 0), tries: map[int64]int{}, began: map[string][]time.Time{}}
}

func (c *crowd) call(tenant string, n int, at time.Time) {
	for range n {
		heap.Push(&c.events, event{at, len(c.events), tenant, false})
	}
}

// until plays on to an instant, or until nothing is left.
func (c *crowd) until(end time.Time) {
	for len(c.events) > 0 && !c.events[0].at.After(end) {
		e := heap.Pop(&c.events).(event)
		c.now = e.at
		if e.ends {
			c.p.leave("h", e.tenant, e.at)
			continue
		}
		c.tries[e.at.Unix()]++
		if wait, _ := c.p.enter("h", e.tenant, e.at); wait > 0 {
			e.at = e.at.Add(max(time.Millisecond, wait.Truncate(time.Millisecond)))
		} else {
			c.began[e.tenant] = append(c.began[e.tenant], e.at)
			e.at, e.ends = e.at.Add(c.took), true
		}
		heap.Push(&c.events, e)
	}
}

// A burst to a host that was idle does not take much longer than its slots need for it.
func TestABurstUsesTheSlots(t *testing.T) {
	for _, perSecond := range []int{1_000, 5_000} {
		c := newCrowd(Pace{Concurrent: 256}, 400*time.Millisecond)
		start := c.now
		const n = 5_000
		for i := range n {
			c.call("a", 1, start.Add(time.Duration(i)*time.Second/time.Duration(perSecond)))
		}
		c.until(start.Add(time.Hour))
		ideal := n * 400 * time.Millisecond / 224 // of 256 slots some are for other tenants
		if took := c.now.Sub(start); len(c.began["a"]) != n || took > ideal*3/2 {
			t.Errorf("%d a second: %d of %d ran, the last ended after %v; %v would do", perSecond, len(c.began["a"]), n, took, ideal)
		}
	}
}

// However many calls wait for a host that is busy, they come back at a bounded rate.
func TestWaitingCallsDoNotSpin(t *testing.T) {
	for _, n := range []int{1, 1_000, 50_000} {
		c := newCrowd(Pace{Concurrent: 4}, time.Hour) // nothing ends
		start := c.now
		c.call("a", 4, start)
		c.call("a", n, start.Add(time.Millisecond))
		c.until(start.Add(59 * time.Second))
		worst := 0
		for s, tries := range c.tries {
			if s > start.Unix() {
				worst = max(worst, tries)
			}
		}
		if want := min(4*n+4, 55); worst > want {
			t.Errorf("%d wait: %d tries in a second, want at most %d", n, worst, want)
		}
		if got := len(c.began["a"]); got != 3 {
			t.Errorf("%d run at once; one slot of 4 is for other tenants", got)
		}
	}
	c := newCrowd(Pace{Concurrent: 1}, time.Hour)
	start := c.now
	c.call("a", 2, start)
	c.until(start.Add(10 * time.Minute))
	if total := len(c.tries); total > 150 { // one that waits asks every 5 s in the end
		t.Errorf("one call that waits tried in %d of 600 seconds", total)
	}
}

// Each call gets its turn, and slots do not stand idle for it: 2 000 calls of 100 ms, 8 at a time, need at least 25 s.
func TestWaitingCallsGetTheirTurn(t *testing.T) {
	c := newCrowd(Pace{Concurrent: 9}, 100*time.Millisecond)
	start := c.now
	c.call("a", 2_000, start)
	c.until(start.Add(time.Hour))
	if got := len(c.began["a"]); got != 2_000 {
		t.Fatalf("%d of 2000 ran", got)
	}
	if took := c.now.Sub(start); took > 45*time.Second { // at first it is not known how fast calls end
		t.Errorf("they took %v, want 25 s to 45 s", took)
	}
	total := 0
	for _, n := range c.tries {
		total += n
	}
	if total > 3*2_000 {
		t.Errorf("%d tries for 2000 calls", total)
	}
}

// A tenant that floods a host keeps no other from calling it.
func TestTenantsShareAHost(t *testing.T) {
	c := newCrowd(Pace{Concurrent: 8}, 10*time.Second)
	start := c.now
	c.call("flood", 5_000, start)
	c.until(start.Add(5 * time.Second))
	c.call("b", 1, c.now)
	c.until(c.now)
	if len(c.began["b"]) != 1 {
		t.Error("the first call of another tenant waits")
	}
	c.call("b", 500, c.now)
	from := len(c.began["flood"])
	c.until(start.Add(5 * time.Minute))
	flood, b := len(c.began["flood"])-from, len(c.began["b"])
	if b < flood*3/4 || flood < b*3/4 || flood+b < 8*29*3/4 {
		t.Errorf("in five minutes %d calls of the flood ran and %d of the other's, of %d that could", flood, b, 8*29)
	}

	rate := newCrowd(Pace{PerSecond: 10}, time.Millisecond)
	start = rate.now
	for s := range 60 { // 100 new ones each second, ten times what may start
		for i := range 100 {
			rate.call("flood", 1, start.Add(time.Duration(s)*time.Second+time.Duration(i)*10*time.Millisecond))
		}
	}
	rate.until(start.Add(30 * time.Second))
	asked := rate.now
	rate.call("b", 20, asked)
	rate.until(start.Add(time.Minute))
	if got := rate.began["b"]; len(got) != 20 || got[0].Sub(asked) > 2*time.Second || got[19].Sub(asked) > 12*time.Second {
		t.Errorf("beside a flood %d of 20 calls started: %v", len(got), got)
	}
	if n := len(rate.began["flood"]); n > 600 {
		t.Errorf("%d calls in a minute", n)
	}
}

// A redirect takes a turn at the host it leads to, and gives back the one it had.
func TestRedirectsArePaced(t *testing.T) {
	t.Parallel()
	h, got := recorder(nil)
	to, _ := server(t, h)
	from, _ := server(t, http.RedirectHandler(to.URL+"/there", http.StatusTemporaryRedirect).ServeHTTP)
	e := New(Config{Pace: Pace{Concurrent: 1}})
	defer e.Close()
	e.transport = newTransport(newDialer(Config{AllowLoopback: true}), 0)
	a := get(from.URL)
	a.Execution.FollowRedirects = true
	target := strings.TrimPrefix(to.URL, "http://")
	if wait, _ := e.paces.enter(target, "another", time.Now()); wait != 0 {
		t.Fatal(wait)
	}
	o := e.Execute(t.Context(), a)
	if o.Status != client.Snoozed || o.RetryAfterMS < 1 || o.Error == nil || !strings.Contains(o.Error.Message, "answered with a redirect, and calls to "+target+" are put off") {
		t.Errorf("to a host that is busy: %+v, %+v", o, o.Error)
	}
	if len(got) > 0 {
		t.Error("what was put off was sent")
	}
	e.paces.leave(target, "another", time.Now())
	check(t, e.Execute(t.Context(), a), "", false)
	<-got
	for host, p := range e.paces.hosts {
		if p.running != 0 {
			t.Errorf("%s: %d slots are held", host, p.running)
		}
	}
	if n := e.PutOff(); n["concurrency"] != 1 || n["rate"] != 0 || len(n) != int(reasons) {
		t.Errorf("counted: %v", n)
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

// A tenant's own rule holds for its calls and their redirects.
func TestHTTPSOnlyOfATenant(t *testing.T) {
	t.Parallel()
	h, got := recorder(nil)
	s, _ := server(t, h)
	e := New(Config{AllowLoopback: true})
	defer e.Close()
	a := get(s.URL)
	check(t, e.Execute(t.Context(), a), "", false)
	<-got
	a.CallbackHTTPSOnly = true
	check(t, e.Execute(t.Context(), a), typeBlocked, false, "https", "callbacks_https_only")
	trusts, to := secure(t, http.RedirectHandler(s.URL, http.StatusFound).ServeHTTP)
	a.Execution.CallbackURL, a.Execution.FollowRedirects = to.URL, true
	check(t, trusts.Execute(t.Context(), a), typeHTTP, false, "a redirect from https to http is not followed")
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
