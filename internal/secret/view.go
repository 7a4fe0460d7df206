package secret

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"
)

// given holds the secrets of attempts that were handed out, until there are too many: then the store's record of the
// past replaces it.
type given struct {
	index atomic.Pointer[index]
	size  int
}

// view is a tenant's secrets.
type view struct {
	mu   sync.Mutex   // held while they are read
	at   atomic.Int64 // when they were last read
	snap atomic.Pointer[snapshot]
	used atomic.Int64
	none atomic.Int64 // attempts leased before it, in microseconds, find none

	past struct {
		mu   sync.Mutex
		all  []*given // guarded by mu: of earlier snapshots, oldest first
		size int      // guarded by mu
	}
}

// replaced keeps what was handed out before, as far as there is room.
func (w *view) replaced(g *given) {
	w.past.mu.Lock()
	defer w.past.mu.Unlock()
	w.past.all, w.past.size = append(w.past.all, g), w.past.size+g.size
	for len(w.past.all) > maxGiven || w.past.size > maxGivenBytes {
		w.past.size -= w.past.all[0].size
		w.past.all[0].index.Store(nil)
		w.past.all = w.past.all[1:]
	}
}

// forget drops everything that was handed out.
func (w *view) forget() {
	w.past.mu.Lock()
	defer w.past.mu.Unlock()
	for _, g := range w.past.all {
		g.index.Store(nil)
	}
	w.past.all, w.past.size = nil, 0
	if s := w.snap.Load(); s != nil {
		s.given.index.Store(nil)
	}
}

// bytes returns the approximate size of a view.
func (w *view) bytes() int {
	w.past.mu.Lock()
	defer w.past.mu.Unlock()
	size := w.past.size
	if s := w.snap.Load(); s != nil {
		size += s.size
	}
	return size
}

// snapshot is a tenant's secrets at an instant. It is immutable.
type snapshot struct {
	stamp string
	open  map[string]opened
	index *index
	given *given // the same
	size  int
}

// has reports whether there is anything to hide.
func (s *snapshot) has() bool { return s != nil && s.index != nil }

// unsealed caches opened managed secrets, by their sealed form, for a minute or two.
type unsealed struct {
	mu          sync.Mutex
	now, before map[unsealedKey]kept // guarded by mu
	began       time.Time            // guarded by mu: when now did
	size        int                  // guarded by mu: bytes of now
}

type unsealedKey struct {
	managedKey
	sealed [sha256.Size]byte
}

func (u *unsealed) find(key unsealedKey) (kept, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	k, ok := u.now[key]
	if !ok {
		k, ok = u.before[key]
	}
	return k, ok
}

func (u *unsealed) keep(key unsealedKey, k kept, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.now == nil || u.size >= maxUnsealed || len(u.now) >= maxManaged || now.Sub(u.began) >= unsealedTime {
		u.now, u.before, u.size, u.began = map[unsealedKey]kept{}, u.now, 0, now
	}
	u.now[key] = k
	u.size += k.bytes()
}
