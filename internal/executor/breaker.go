package executor

import (
	"cmp"
	lru "container/list"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// Breaker configures when calls to a host are postponed. The zero value never postpones.
type Breaker struct {
	Failures int           // in a row, after which a host counts as down
	Pause    time.Duration // before the first probe; 0: a second
	MaxPause time.Duration // up to which it grows; 0: two minutes
	Hosts    int           // that are remembered; 0: 10 000
}

const (
	breakerPause    = time.Second
	breakerMaxPause = 2 * time.Minute
	breakerHosts    = 10_000
	lately          = 20 // calls, more than half of which must succeed
)

// breaker keeps a circuit for each host that is called: if closed, calls go through; if open, they are postponed,
// except one at a time, at growing intervals, that probes whether the host is up again.
type breaker struct {
	cfg Breaker

	mu    sync.Mutex
	hosts map[circuitKey]*lru.Element // guarded by mu
	used  *lru.List                   // guarded by mu: of *circuit, the one used last first
	open  int                         // guarded by mu
}

// circuitKey is a host as called by one tenant: one tenant's failures never postpone another's calls.
type circuitKey struct{ tenant, origin string }

type circuit struct {
	key     circuitKey
	row     int    // failures since the last success
	last    uint32 // whether each of the last calls failed, one bit each
	n       int    // how many of them there are
	open    bool
	probing bool
	next    time.Time // when it is open: the next probe
	pause   time.Duration
	why     client.Error // the last failure
}

func newBreaker(cfg Breaker) *breaker {
	if cfg.Failures <= 0 {
		return nil
	}
	cfg.Pause, cfg.MaxPause, cfg.Hosts = cmp.Or(cfg.Pause, breakerPause), cmp.Or(cfg.MaxPause, breakerMaxPause), cmp.Or(cfg.Hosts, breakerHosts)
	return &breaker{cfg: cfg, hosts: map[circuitKey]*lru.Element{}, used: lru.New()}
}

// OpenBreakers returns how many hosts count as down.
func (e *Executor) OpenBreakers() int {
	if e.breaker == nil {
		return 0
	}
	e.breaker.mu.Lock()
	defer e.breaker.mu.Unlock()
	return e.breaker.open
}

// enter lets a call through, with 0, or returns how long to postpone it, and why.
func (b *breaker) enter(k circuitKey, now time.Time) (time.Duration, *client.Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, ok := b.hosts[k]
	if !ok {
		return 0, nil
	}
	b.used.MoveToFront(at)
	c := at.Value.(*circuit)
	if !c.open || !c.probing && !now.Before(c.next) {
		c.probing = c.open
		return 0, nil
	}
	// Postponed calls must not all return at once, nor before the probe.
	wait := max(c.next.Sub(now), 0) + c.pause/4 + rand.N(c.pause)
	return wait, &client.Error{Type: c.why.Type, HTTPStatus: c.why.HTTPStatus, Message: fmt.Sprintf(
		"%s is taken to be down after %d failures in a row, and calls to it are put off; the last failure: %s", excerpt(k.origin), c.row, c.why.Message)}
}

// verdict is what a call shows about its host.
type verdict uint8

const (
	says    verdict = iota // nothing
	healthy                // it answered
	broken
)

// judged returns what an outcome shows about the host: one that answers is up, whatever it answers, unless it reports
// itself that it is not; calls that we ended or refused show nothing.
func judged(o client.Outcome) verdict {
	if o.Error == nil {
		if o.Status == "" {
			return says
		}
		return healthy
	}
	switch o.Error.Type {
	case typeTimeout, typeRefused, typeReset, typeDNS, typeTLS:
		return broken
	case typeHTTP:
		if o.Error.HTTPStatus >= http.StatusInternalServerError {
			return broken
		}
		return healthy
	}
	return says
}

// leave records how a call that was let through ended.
func (b *breaker) leave(k circuitKey, now time.Time, v verdict, why *client.Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, ok := b.hosts[k]
	if !ok {
		if v != broken {
			return // most hosts are healthy, and need no entry
		}
		at = b.remember(k)
	}
	c := at.Value.(*circuit)
	switch v {
	case says:
		c.probing = false
	case healthy:
		c.row, c.last, c.n = 0, c.last<<1, min(c.n+1, lately)
		if c.open { // even by a call that began before: the host answers
			b.open--
			c.open, c.probing, c.pause, c.last, c.n = false, false, 0, 0, 0
		}
	case broken:
		c.row, c.last, c.n, c.why = c.row+1, c.last<<1|1, min(c.n+1, lately), *why
		b.trip(c, now)
	}
}

// trip opens a circuit that has failed too often, or keeps one open whose probe failed. The caller holds mu.
func (b *breaker) trip(c *circuit, now time.Time) {
	switch {
	case c.open && c.probing:
		c.probing, c.pause = false, min(2*c.pause, b.cfg.MaxPause)
	case c.open: // a call that began before
		return
	case c.row >= b.cfg.Failures, c.n == lately && bits.OnesCount32(c.last&(1<<lately-1)) > lately/2:
		c.open, c.pause = true, b.cfg.Pause
		b.open++
	default:
		return
	}
	c.next = now.Add(c.pause)
}

// remember adds a circuit, replacing the least recently used one if there are too many. The caller holds mu.
func (b *breaker) remember(k circuitKey) *lru.Element {
	if b.used.Len() >= b.cfg.Hosts {
		old := b.used.Remove(b.used.Back()).(*circuit)
		delete(b.hosts, old.key)
		if old.open {
			b.open--
		}
	}
	at := b.used.PushFront(&circuit{key: k})
	b.hosts[k] = at
	return at
}
