package executor

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// Pace limits what this process sends to one host. The zero value sets no limit.
//
// Tenants share both limits. One tenant never holds all of a host's slots: an eighth of them, and at least one, is
// reserved for tenants without a running call there. While several tenants want more than there is, each gets an
// equal part.
type Pace struct {
	PerSecond  int // calls that start per second; 0: unlimited
	Concurrent int // calls at once; 0: any number
}

// Calls over the concurrency limit return one after the other, about as fast as calls end: this limits the work that
// waiting calls cause, however many there are.
const (
	maxPaced = 10_000                 // hosts that are remembered
	minGap   = time.Millisecond       // between two returns, where calls end quickly
	maxGap   = 20 * time.Millisecond  // if they do not: at most 50 a second return to be told to wait again
	usual    = 500 * time.Millisecond // assumed duration of a call, while it is unknown
	minBusy  = 250 * time.Millisecond // before the first return
	maxBusy  = 5 * time.Second        // the same, if no call has ended for a long time
	recount  = 100 * time.Millisecond // how often a host's tenants are counted
	grace    = time.Second            // how long a tenant whose turn has come counts as waiting: its call is on its way
)

// paces counts calls by host and port. A call over a limit is postponed at no charge.
type paces struct {
	cfg   Pace
	count func(putOff)

	mu    sync.Mutex
	hosts map[string]*pace // guarded by mu
}

// pace is the traffic of one host.
type pace struct {
	running int
	next    time.Time     // when a call would meet the rate limit exactly
	ended   time.Time     // the last end of a call
	since   time.Time     // from when ends are counted
	ends    int           // how many there were
	spent   time.Duration // spent on calls since then, all of them together
	noted   time.Time     // until when it is counted
	takes   time.Duration // duration of a call, as last measured; 0: unknown
	tenants map[string]*share
	counted time.Time // when waiting was counted
	waiting int       // tenants whose calls are postponed
}

// share is one tenant's part of it.
type share struct {
	running int
	next    time.Time // like the host's, for this tenant's part of the rate
	off     time.Time // when the last postponed call returns
}

// putOff is the reason why a call is postponed.
type putOff uint8

const (
	byRate putOff = iota
	byConcurrency
	byTenant
	byBreaker
	reasons
)

var reasonNames = [reasons]string{"rate", "concurrency", "tenant", "breaker"}

// PutOff returns how many calls were postponed, by reason.
func (e *Executor) PutOff() map[string]int64 {
	all := make(map[string]int64, reasons)
	for i, name := range reasonNames {
		all[name] = e.putOff[i].Load()
	}
	return all
}

func newPaces(cfg Pace, count func(putOff)) *paces {
	if cfg.PerSecond <= 0 && cfg.Concurrent <= 0 {
		return nil
	}
	return &paces{cfg: cfg, count: count, hosts: map[string]*pace{}}
}

// enter lets a tenant's call to a host start, with 0, or returns how long to postpone it, and why.
func (p *paces) enter(host, tenant string, now time.Time) (time.Duration, *client.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.host(host, now)
	h.count(now)
	s := h.share(tenant)
	if wait, why := p.slots(h, s, host, now); wait > 0 {
		return wait, why
	}
	if wait, why := p.rate(h, s, host, now); wait > 0 {
		return wait, why
	}
	if h.running == 0 { // nothing could end meanwhile
		h.since, h.ends, h.spent = now, 0, 0
	}
	h.note(now)
	h.running++
	s.running++
	return 0, nil
}

// slots postpones a call for which there is no slot. The caller holds mu.
func (p *paces) slots(h *pace, s *share, host string, now time.Time) (time.Duration, *client.Error) {
	n := p.cfg.Concurrent
	if n <= 0 {
		return 0, nil
	}
	reserve := 0
	if n > 1 {
		reserve = max(1, n/8)
	}
	free := n - h.running
	reason, why := byTenant, fmt.Sprintf("this tenant has %d calls to it running in this process; %d may run at once, and one tenant leaves room for others (callbacks.host_concurrent)", s.running, n)
	switch {
	case free <= 0:
		reason, why = byConcurrency, fmt.Sprintf("%d are running in this process, the most it makes at once (callbacks.host_concurrent)", n)
	case s.running == 0 || free > reserve && (s.running < (n+len(h.tenants)-1)/len(h.tenants) || !h.contended(s, now)):
		return 0, nil
	}
	h.note(now)
	first := now.Add(min(max(now.Sub(h.ended)/2, minBusy), maxBusy))
	return p.delay(h, s, now, first, h.gap(n-reserve), reason), paced(host, why)
}

// rate postpones a call that would start too soon after others. The caller holds mu.
func (p *paces) rate(h *pace, s *share, host string, now time.Time) (time.Duration, *client.Error) {
	n := p.cfg.PerSecond
	if n <= 0 {
		return 0, nil
	}
	each := time.Second / time.Duration(n)
	part := each * time.Duration(len(h.tenants))
	h.next, s.next = later(h.next, now), later(s.next, now)
	reason := byRate
	switch {
	case h.next.Sub(now)+each > time.Second:
	case s.next.Sub(now)+part > time.Second && s.next.After(now) && h.contended(s, now):
		reason = byTenant
	default:
		h.next, s.next = h.next.Add(each), s.next.Add(part)
		return 0, nil
	}
	return p.delay(h, s, now, now.Add(each), each, reason), paced(host, fmt.Sprintf("this process starts at most %d a second, for all tenants together (callbacks.host_per_second)", n))
}

// delay gives a call the next turn among its tenant's postponed ones: the first at an instant, the others a gap
// apart, times the number of waiting tenants. The caller holds mu.
func (p *paces) delay(h *pace, s *share, now, first time.Time, gap time.Duration, reason putOff) time.Duration {
	p.count(reason)
	if !s.waits(now) {
		h.waiting++
	}
	s.off = later(first, s.off.Add(gap*time.Duration(max(1, h.waiting))))
	return s.off.Sub(now)
}

// again charges another request of a running call, as when a redirect leads to the same host.
func (p *paces) again(host string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.hosts[host]; h != nil && p.cfg.PerSecond > 0 {
		h.next = later(h.next, now).Add(time.Second / time.Duration(p.cfg.PerSecond))
	}
}

// leave records that a call has ended.
func (p *paces) leave(host, tenant string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hosts[host]
	if h == nil || h.running == 0 {
		return
	}
	h.note(now)
	h.running--
	h.ends++
	h.ended = now
	if s := h.tenants[tenant]; s != nil && s.running > 0 {
		s.running--
	}
}

// host returns the entry of a host. The caller holds mu.
func (p *paces) host(name string, now time.Time) *pace {
	h := p.hosts[name]
	if h == nil {
		if len(p.hosts) >= maxPaced {
			p.sweep(now)
		}
		h = &pace{tenants: map[string]*share{}, ended: now, since: now, noted: now}
		p.hosts[name] = h
	}
	return h
}

// sweep drops hosts without calls. The caller holds mu.
func (p *paces) sweep(now time.Time) {
	for name, h := range p.hosts {
		h.counted = time.Time{}
		if h.count(now); h.running == 0 && len(h.tenants) == 0 && h.next.Before(now) {
			delete(p.hosts, name)
		}
	}
}

func (h *pace) share(tenant string) *share {
	s := h.tenants[tenant]
	if s == nil {
		s = &share{}
		h.tenants[tenant] = s
	}
	return s
}

// contended reports whether calls of another tenant are postponed.
func (h *pace) contended(s *share, now time.Time) bool {
	if s.waits(now) {
		return h.waiting > 1
	}
	return h.waiting > 0
}

// count counts the waiting tenants, and drops those that neither wait nor call.
func (h *pace) count(now time.Time) {
	if now.Sub(h.counted) < recount {
		return
	}
	h.counted, h.waiting = now, 0
	for name, s := range h.tenants {
		switch {
		case s.waits(now):
			h.waiting++
		case s.running == 0 && !s.next.After(now):
			delete(h.tenants, name)
		}
	}
}

// gap returns the time between two returns: about how often a call ends while all slots are used. How often one
// actually ends is less useful, since that depends on how often calls return.
func (h *pace) gap(slots int) time.Duration {
	return min(max(cmp.Or(h.takes, usual)/time.Duration(max(1, slots)), minGap), maxGap)
}

// note adds up the durations of calls, and measures their average each second.
func (h *pace) note(now time.Time) {
	h.spent += time.Duration(h.running) * max(0, now.Sub(h.noted))
	h.noted = now
	if now.Sub(h.since) >= time.Second {
		h.takes = max(1, h.spent/time.Duration(max(1, h.ends)))
		h.since, h.ends, h.spent = now, 0, 0
	}
}

// waits reports whether calls of the tenant are postponed.
func (s *share) waits(now time.Time) bool { return s.off.Add(grace).After(now) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func paced(host, why string) *client.Error {
	return &client.Error{Type: typeInternal, Message: fmt.Sprintf("calls to %s are put off: %s", excerpt(host), why)}
}

// named reports whether an operator has listed the host of a call as one of their own: such hosts have no limits.
func (g Guard) named(host string) bool {
	if g.AllowLoopback && (strings.EqualFold(host, "localhost") || strings.HasSuffix(strings.ToLower(host), ".localhost")) {
		return true
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	a = a.Unmap().WithZone("")
	r := rangeOf(a)
	return r.why != "" && g.allows(a, r)
}
