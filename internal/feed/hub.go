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
	ringSize  = 4096             // changes of a tenant that are held for those who watch it
	ringStays = 30 * time.Second // after the last of them has left, so that whoever comes back continues
)

// Change is something that happened.
type Change struct {
	At        time.Time `json:"a"`
	Type      string    `json:"y"`
	Execution string    `json:"e,omitempty"`
	Job       string    `json:"j,omitempty"`
	Worker    string    `json:"w,omitempty"`
	Status    string    `json:"s,omitempty"`
}

// Hub tells those who watch a tenant what changes. It holds the last changes of each tenant that is watched, once for all
// who watch it; who is too slow for that is told so.
type Hub struct {
	epoch string

	heard atomic.Bool // somebody watches, here or elsewhere
	mu    sync.Mutex
	rings map[tenant.ID]*ring     // guarded by mu: of the tenants that are watched here
	used  int64                   // guarded by mu: no ring that was forgotten had a number above it
	far   map[tenant.ID]time.Time // guarded by mu: until when tenants are watched elsewhere
	out   map[tenant.ID]*bundle   // guarded by mu: what is to be told there
	begun chan struct{}           // somebody began to watch
}

// ring is the last changes of a tenant.
type ring struct {
	changes  []Change // the last ones, up to twice as many as count
	next     int64    // the number of the next one, above all of an earlier ring
	floor    int64    // what comes before it was lost
	watchers map[*Watch]bool
	empty    time.Time // since when nobody watches
	called   time.Time // when other servers were told that it is watched; zero: they were not
	known    bool      // they have heard it by now
}

// NewHub makes a hub that nobody watches.
func NewHub() *Hub {
	return &Hub{
		epoch: uuid.NewString()[:8], rings: map[tenant.ID]*ring{}, far: map[tenant.ID]time.Time{}, out: map[tenant.ID]*bundle{}, begun: make(chan struct{}, 1),
	}
}

// Heard reports whether anybody watches. What changes is of no interest while nobody does.
func (h *Hub) Heard() bool { return h.heard.Load() }

// Tell tells those who watch a tenant of changes.
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
		h.bundle(t).add(cs)
	}
}

// TellAll tells those who watch any tenant of changes.
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

// Lose tells those who watch a tenant, or any where it is empty, that something changed that cannot be told one by one.
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
			h.bundle(id).lost = true
		}
	}
}

// near takes in what was told elsewhere.
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

// lose makes all that was told before stale.
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

// Watch is someone who watches a tenant. One goroutine reads it.
type Watch struct {
	hub  *Hub
	of   tenant.ID
	wake chan struct{}
	at   int64 // the number of the next change it is told
}

// Watch begins to watch a tenant, behind the change of an id that was told before; from now on, if it is empty. Resumed says
// that nothing was missed in between.
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

// number is the number of the change that an id names, if it is one of this hub's.
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

// Wake is told that there may be something to read.
func (w *Watch) Wake() <-chan struct{} { return w.wake }

// Read takes the next changes, up to most, and answers with the id of the last. Missed says that some were lost before
// these: what was read so far no longer holds.
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

// prune forgets tenants that nobody watches any more.
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
