package executor

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// maxReaches limits how many lists of ranges have their own connections at once.
const maxReaches = 64

// reaches holds the transports of callbacks that may reach more than others. Each list has its own, since connections
// are reused: one opened under one list must not serve another.
type reaches struct {
	cfg Config

	mu  sync.Mutex
	all map[string]*http.Transport // guarded by mu
	age []string                   // guarded by mu: their lists, the most recently used last
}

func newReaches(cfg Config) *reaches { return &reaches{cfg: cfg, all: map[string]*http.Transport{}} }

// of returns the transport for a list of ranges; invalid ranges allow nothing.
func (r *reaches) of(allow []string) *http.Transport {
	list := slices.Compact(slices.Sorted(slices.Values(allow)))
	key := strings.Join(list, ",")
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.age, key); i >= 0 {
		r.age = append(slices.Delete(r.age, i, i+1), key)
		return r.all[key]
	}
	if len(r.age) >= maxReaches {
		r.all[r.age[0]].CloseIdleConnections() // running calls continue
		delete(r.all, r.age[0])
		r.age = slices.Delete(r.age, 0, 1)
	}
	cfg := r.cfg
	cfg.AllowCIDRs = slices.Clone(cfg.AllowCIDRs)
	for _, text := range list {
		if p, err := netip.ParsePrefix(text); err == nil {
			cfg.AllowCIDRs = append(cfg.AllowCIDRs, p)
		}
	}
	t := newTransport(newDialer(cfg), cfg.FirstByte)
	r.all[key], r.age = t, append(r.age, key)
	return t
}

func (r *reaches) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.all {
		t.CloseIdleConnections()
	}
}
