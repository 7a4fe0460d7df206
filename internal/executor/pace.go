package executor

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// Pace bounds what this process sends to one host, whoever's jobs it is for. The zero value bounds nothing.
type Pace struct {
	PerSecond  int // calls that begin; 0: any number
	Concurrent int // calls at once; 0: any number
}

const (
	maxPaced  = 10_000                 // hosts that are remembered
	busyPause = 250 * time.Millisecond // before a call is tried again for which a host has no room
)

// paces counts calls by host and port. A call that is over a bound is put off, and nothing of it is charged.
type paces struct {
	cfg Pace

	mu    sync.Mutex
	hosts map[string]*pace // guarded by mu
}

// pace is what one host is sent.
type pace struct {
	running int
	next    time.Time // when the bound of the rate would be met exactly
	off     time.Time // until when calls that were put off are spread
}

func newPaces(cfg Pace) *paces {
	if cfg.PerSecond <= 0 && cfg.Concurrent <= 0 {
		return nil
	}
	return &paces{cfg: cfg, hosts: map[string]*pace{}}
}

// enter lets a call begin, with 0, or says for how long to put it off, and why.
func (p *paces) enter(host string, now time.Time) (time.Duration, *client.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hosts[host]
	if h == nil {
		if len(p.hosts) >= maxPaced {
			p.sweep(now)
		}
		h = &pace{}
		p.hosts[host] = h
	}
	if n := p.cfg.Concurrent; n > 0 && h.running >= n {
		return busyPause + rand.N(busyPause), paced(host, fmt.Sprintf("%d calls of it run in this process, as many as may (callbacks.host_concurrent)", n))
	}
	if n := p.cfg.PerSecond; n > 0 {
		each := time.Second / time.Duration(n)
		if h.next.Before(now) {
			h.next = now
		}
		if h.next.Sub(now)+each > time.Second {
			if h.off.Before(now) {
				h.off = now
			}
			h.off = h.off.Add(each) // so that they come back one after the other
			return max(h.off.Sub(now), each), paced(host, fmt.Sprintf("this process begins at most %d calls of it a second (callbacks.host_per_second)", n))
		}
		h.next = h.next.Add(each)
	}
	h.running++
	return 0, nil
}

// leave notes that a call has ended.
func (p *paces) leave(host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.hosts[host]; h != nil && h.running > 0 {
		h.running--
	}
}

// sweep forgets hosts that have no calls. mu is held.
func (p *paces) sweep(now time.Time) {
	for host, h := range p.hosts {
		if h.running == 0 && h.next.Before(now) && h.off.Before(now) {
			delete(p.hosts, host)
		}
	}
}

func paced(host, why string) *client.Error {
	return &client.Error{Type: typeInternal, Message: fmt.Sprintf("calls of %s are put off: %s", excerpt(host), why)}
}

// named reports whether an operator has named the host of a call as one of their own: such hosts are not paced.
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

// BlockedPortError says that callbacks may not go to a port.
type BlockedPortError struct {
	Port int
	Why  string
}

func (b *BlockedPortError) Error() string {
	return fmt.Sprintf("callbacks may not go to port %d: %s", b.Port, b.Why)
}

// otherServices are ports at which no web server is expected and at which an HTTP request could do harm: those that browsers
// refuse (WHATWG Fetch, "bad port"), without 0.
var otherServices = map[uint16]bool{
	1: true, 7: true, 9: true, 11: true, 13: true, 15: true, 17: true, 19: true, 20: true, 21: true, 22: true, 23: true, 25: true, 37: true, 42: true, 43: true, 53: true, 69: true, 77: true, 79: true, 87: true, 95: true,
	101: true, 102: true, 103: true, 104: true, 109: true, 110: true, 111: true, 113: true, 115: true, 117: true, 119: true, 123: true, 135: true, 137: true, 139: true, 143: true, 161: true, 179: true, 389: true, 427: true,
	465: true, 512: true, 513: true, 514: true, 515: true, 526: true, 530: true, 531: true, 532: true, 540: true, 548: true, 554: true, 556: true, 563: true, 587: true, 601: true, 636: true, 989: true, 990: true, 993: true, 995: true,
	1719: true, 1720: true, 1723: true, 2049: true, 3659: true, 4045: true, 4190: true, 5060: true, 5061: true, 6000: true, 6566: true, 6665: true, 6666: true, 6667: true, 6668: true, 6669: true, 6679: true, 6697: true, 10080: true,
}

// checkPort judges the port of a call: of a list it must be, without one it must not be another service's.
func checkPort(allowed []int, port uint16) error {
	for _, p := range allowed {
		if p == int(port) {
			return nil
		}
	}
	switch {
	case len(allowed) > 0:
		return &BlockedPortError{int(port), "it is not one of callbacks.ports"}
	case otherServices[port]:
		return &BlockedPortError{int(port), "it is of another service than HTTP; an operator can allow it with callbacks.ports"}
	}
	return nil
}
