package api

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// Anybody may request a badge, so the store is queried only now and then, however many requests come, and for few
// badges at once.
const (
	shownFor   = 5 * time.Second // how long the content of a badge is cached
	staleFor   = time.Minute     // how long cached content is shown while the store is down
	failingFor = 2 * time.Second // how long a badge is not queried again after the store failed
	goneFor    = time.Minute     // nor one that does not exist
	maxShown   = 10_000          // cached badges, of each kind

	maxLooks    = 2               // badges queried at once
	lookTime    = 5 * time.Second // time limit of one query
	turnTime    = time.Second     // how long a request waits for its turn
	maxAwaiting = 100             // badges that wait for theirs
)

// shown is the content of a badge.
type shown struct {
	label string
	is    service.Condition
	at    time.Time // when the store was queried, so that a revoked badge is not shown for longer
}

// look is one query for a badge, shared by all who ask meanwhile.
type look struct {
	done chan struct{} // closed when x and err hold
	x    shown
	err  error
}

// failing records why the store failed to return a badge.
type failing struct {
	err   error
	until time.Time
}

// showing caches the content of badges. It is bounded: when full, it drops entries.
type showing struct {
	wrong *failures // charges callers that ask for badges that do not exist
	turns chan struct{}

	mu      sync.Mutex
	was     map[[32]byte]shown     // guarded by mu, as the others
	gone    map[[32]byte]time.Time // hashes of unknown badges, and until when that is cached
	failing map[[32]byte]failing
	looks   map[[32]byte]*look // under way
}

func newShowing(atOnce int) *showing {
	return &showing{
		wrong: newFailures(atOnce), turns: make(chan struct{}, maxLooks), was: map[[32]byte]shown{}, gone: map[[32]byte]time.Time{}, failing: map[[32]byte]failing{}, looks: map[[32]byte]*look{},
	}
}

// errNoBadge is the error for a badge that does not exist: the same as for any other unknown path.
var errNoBadge = nowhere

var errManyBadges = refuse(http.StatusServiceUnavailable, "unavailable", "Too many badge requests at once. Try again.")

// known returns the cached content of a badge; ok is false if the store must be queried. The caller holds mu.
func (b *showing) known(hash [32]byte, now time.Time) (x shown, ok bool, err error) {
	if now.Before(b.gone[hash]) {
		return x, true, errNoBadge
	}
	x, was := b.was[hash]
	if was && now.Sub(x.at) < shownFor {
		return x, true, nil
	}
	if f := b.failing[hash]; now.Before(f.until) {
		if was && now.Sub(x.at) < staleFor {
			return x, true, nil
		}
		return x, true, f.err
	}
	return x, false, nil
}

// recall returns the cached content of a badge; ok is false if the store must be queried.
func (b *showing) recall(hash [32]byte, now time.Time) (x shown, ok bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known(hash, now)
}

// find returns the content of a badge. If several callers want it, one queries the store for all; asked reports
// whether this one did.
func (b *showing) find(ctx context.Context, hash [32]byte, ask func(context.Context, [32]byte) (string, service.Condition, error)) (x shown, asked bool, err error) {
	b.mu.Lock()
	if x, ok, err := b.known(hash, time.Now()); ok {
		b.mu.Unlock()
		return x, false, err
	}
	l := b.looks[hash]
	switch {
	case l != nil:
		b.mu.Unlock()
		select {
		case <-l.done:
			return l.x, false, l.err
		case <-ctx.Done():
			return shown{}, false, ctx.Err()
		}
	case len(b.looks) >= maxLooks+maxAwaiting:
		x, err := b.old(hash, errManyBadges)
		b.mu.Unlock()
		return x, false, err
	}
	l = &look{done: make(chan struct{}), err: errors.New("the question about a badge was broken off")}
	b.looks[hash] = l
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.looks, hash)
		close(l.done)
	}()
	wait := time.NewTimer(turnTime)
	defer wait.Stop()
	select {
	case b.turns <- struct{}{}:
	case <-wait.C:
		b.mu.Lock()
		defer b.mu.Unlock()
		l.x, l.err = b.old(hash, errManyBadges)
		return l.x, false, l.err
	}
	defer func() { <-b.turns }()
	// The caller may leave: others wait for the answer, too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTime)
	defer cancel()
	at := time.Now()
	label, is, err := ask(ctx, hash)
	l.x, l.err = b.keep(hash, shown{label: label, is: is, at: at}, err)
	return l.x, true, l.err
}

// old returns what a badge showed within the last minute, or err if that is not known. The caller holds mu.
func (b *showing) old(hash [32]byte, err error) (shown, error) {
	if x, was := b.was[hash]; was && time.Since(x.at) < staleFor {
		return x, nil
	}
	return shown{}, err
}

// keep caches the store's answer for a badge, and returns what to show.
func (b *showing) keep(hash [32]byte, x shown, err error) (shown, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	switch {
	case errors.Is(err, engine.ErrNotFound):
		delete(b.was, hash)
		if len(b.gone) >= maxShown {
			forget(b.gone, now)
		}
		b.gone[hash] = now.Add(goneFor)
		return shown{}, errNoBadge
	case err != nil:
		makeRoom(b.failing, func(f failing) bool { return !now.Before(f.until) })
		b.failing[hash] = failing{err, now.Add(failingFor)}
		return b.old(hash, err)
	}
	delete(b.failing, hash)
	makeRoom(b.was, func(x shown) bool { return now.Sub(x.at) >= staleFor })
	b.was[hash] = x
	return x, nil
}

// makeRoom drops expired entries if the cache is full, and arbitrary ones if none has expired.
func makeRoom[V any](m map[[32]byte]V, over func(V) bool) {
	if len(m) < maxShown {
		return
	}
	for k, v := range m {
		if over(v) {
			delete(m, k)
		}
	}
	for k := range m {
		if len(m) < maxShown {
			return
		}
		delete(m, k)
	}
}

// shown returns the content of the badge with a hash. A caller that asks for too many unknown badges has to wait; a
// known-unknown one is charged only once a minute, because pages may link to a revoked badge for years.
func (s settingsAPI) shown(r *http.Request, hash [32]byte) (shown, error) {
	now, from, b, credential := time.Now(), s.caller(r), s.badges, string(hash[:])
	x, ok, err := b.recall(hash, now)
	if !ok {
		if wait := b.wrong.wait(from, credential, now); wait > 0 {
			return shown{}, &tooMany{wait: wait, badges: true}
		}
		var asked bool
		if x, asked, err = b.find(r.Context(), hash, s.service.Shown); asked && errors.Is(err, errNoBadge) {
			b.wrong.failed(from, credential, now)
		}
	}
	if err == nil {
		b.wrong.worked(from, credential, now)
	}
	return x, err
}
