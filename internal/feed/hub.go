package feed

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

const (
	ringSize  = 4096             // changes of a tenant that are kept for its watchers
	ringStays = 30 * time.Second // after the last watcher has left, so that one that returns can continue
)

// Change is something that happened.
type Change struct {
	At        time.Time `json:"a"`
	Type      string    `json:"y"`
	Execution string    `json:"e,omitempty"`
	Job       string    `json:"j,omitempty"`
	Run       string    `json:"r,omitempty"` // of a workflow
	Worker    string    `json:"w,omitempty"`
	Status    string    `json:"s,omitempty"`
}

// Hub reports changes to the watchers of a tenant. It keeps the last changes of each watched tenant, once for all its
// watchers; one that is too slow is told so.
type Hub struct {
	epoch string

	heard atomic.Bool // somebody is watching, here or elsewhere
	mu    sync.Mutex
	rings map[tenant.ID]*ring     // guarded by mu: of the tenants watched here
	used  int64                   // guarded by mu: no dropped ring had a number above it
	far   map[tenant.ID]time.Time // guarded by mu: until when tenants are watched elsewhere
	out   map[tenant.ID]*outgoing // guarded by mu: what other servers are to be told
	begun chan struct{}           // somebody began to watch
}

// ring holds the last changes of a tenant.
type ring struct {
	changes  []Change // the last ones, up to twice as many as count
	next     int64    // the next number, above all numbers of earlier rings
	floor    int64    // what comes before it was lost
	watchers map[*Watch]bool
	empty    time.Time // since when it has no watcher
	called   time.Time // when other servers were told that it is watched; zero: never
	known    bool      // they have heard it by now
}

// NewHub makes a hub that nobody watches.
func NewHub() *Hub {
	return &Hub{
		epoch: uuid.NewString()[:8], rings: map[tenant.ID]*ring{}, far: map[tenant.ID]time.Time{}, out: map[tenant.ID]*outgoing{}, begun: make(chan struct{}, 1),
	}
}

// Heard reports whether anybody watches. While nobody does, changes are of no interest.
func (h *Hub) Heard() bool { return h.heard.Load() }

// Tell reports changes to the watchers of a tenant.
func (h *Hub) Tell(t tenant.ID, cs ...Change) {
	if !h.Heard() || len(cs) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.rings[t]; r != nil {
		r.add(cs)
	}
	if _, ok := h.far[t]; ok {
		h.outgoing(t).add(cs)
	}
}

// TellAll reports changes to the watchers of every tenant.
func (h *Hub) TellAll(cs ...Change) {
	h.mu.Lock()
	all := make([]tenant.ID, 0, len(h.rings)+len(h.far))
	for t := range h.rings {
		all = append(all, t)
	}
	for t := range h.far {
		if h.rings[t] == nil {
			all = append(all, t)
		}
	}
	h.mu.Unlock()
	for _, t := range all {
		h.Tell(t, cs...)
	}
}

// Lose tells the watchers of a tenant, or all if it is empty, that something changed that cannot be reported in
// detail.
func (h *Hub) Lose(t tenant.ID) {
	if !h.Heard() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, r := range h.rings {
		if t == "" || t == id {
			r.lose()
		}
	}
	for id := range h.far {
		if t == "" || t == id {
			h.outgoing(id).lost = true
		}
	}
}

// near adds changes from another server.
func (h *Hub) near(t tenant.ID, cs []Change, lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.rings[t]
	switch {
	case r == nil:
	case lost:
		r.lose()
	default:
		r.add(cs)
	}
}

func (r *ring) add(cs []Change) {
	if len(r.changes) >= 2*ringSize {
		r.changes = append([]Change(nil), r.changes[len(r.changes)-ringSize:]...)
	}
	r.changes = append(r.changes, cs...)
	r.next += int64(len(cs))
	r.floor = max(r.floor, r.next-ringSize)
	r.wake()
}

// lose makes everything reported before stale.
func (r *ring) lose() {
	r.changes = nil
	r.next++
	r.floor = r.next
	r.wake()
}

// from lists up to most changes from a number on, which is not below the floor.
func (r *ring) from(n int64, most int) []Change {
	behind := int(r.next - n) // how many there are
	first := r.changes[len(r.changes)-behind:]
	return append([]Change(nil), first[:min(behind, most)]...)
}

func (r *ring) wake() {
	for w := range r.watchers {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// Watch is a watcher of a tenant. It is not safe for concurrent use.
type Watch struct {
	hub  *Hub
	of   tenant.ID
	wake chan struct{}
	at   int64 // the number of its next change
}

// Watch begins to watch a tenant, after the change with an id that was reported before; from now on, if it is empty.
// Resumed reports that nothing was missed in between.
func (h *Hub) Watch(t tenant.ID, after string) (w *Watch, resumed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.rings[t]
	if r == nil {
		r = &ring{next: h.used + 1, floor: h.used + 1, watchers: map[*Watch]bool{}}
		h.rings[t] = r
	}
	w = &Watch{hub: h, of: t, wake: make(chan struct{}, 1), at: r.next}
	if n, ok := h.number(after); ok && n+1 >= r.floor && n < r.next {
		w.at, resumed = n+1, true
	}
	r.watchers[w] = true
	h.heard.Store(true)
	select {
	case h.begun <- struct{}{}:
	default:
	}
	return w, resumed
}

// number returns the number of the change with an id, if it is one of this hub's.
func (h *Hub) number(id string) (int64, bool) {
	epoch, text, ok := strings.Cut(id, "-")
	n, err := strconv.ParseInt(text, 10, 64)
	return n, ok && err == nil && epoch == h.epoch
}

// PlausibleID reports whether a text may be the id of a change, of this server or another.
func PlausibleID(id string) bool {
	epoch, text, ok := strings.Cut(id, "-")
	n, err := strconv.ParseInt(text, 10, 64)
	return ok && err == nil && n >= 0 && len(epoch) == 8
}

// Wake is signalled when there may be something to read.
func (w *Watch) Wake() <-chan struct{} { return w.wake }

// Read returns the next changes, up to most, and the id of the last. Missed reports that some were lost before these:
// everything read so far is outdated.
func (w *Watch) Read(most int) (cs []Change, id string, missed bool) {
	h := w.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.rings[w.of]
	if w.at < r.floor {
		w.at, missed = r.next, true
	}
	cs = r.from(w.at, most)
	w.at += int64(len(cs))
	if w.at < r.next { // for the next time
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
	return cs, fmt.Sprintf("%s-%d", h.epoch, w.at-1), missed
}

// Close ends watching.
func (w *Watch) Close() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	r := w.hub.rings[w.of]
	delete(r.watchers, w)
	if len(r.watchers) == 0 {
		r.empty = time.Now()
	}
}

// prune drops tenants that nobody watches any more.
func (h *Hub) prune(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t, r := range h.rings {
		if len(r.watchers) == 0 && now.Sub(r.empty) > ringStays {
			h.used = max(h.used, r.next)
			delete(h.rings, t)
		}
	}
	for t, until := range h.far {
		if now.After(until) {
			delete(h.far, t)
			delete(h.out, t)
		}
	}
	h.heard.Store(len(h.rings)+len(h.far) > 0)
}
