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

// Anybody may ask for a badge, so the store is asked for one once in a while, however many look at it, and for few at once.
const (
	shownFor   = 5 * time.Second // what a badge shows is not asked for again
	staleFor   = time.Minute     // it is shown all the same while the store does not answer
	failingFor = 2 * time.Second // a badge that the store did not answer for is not asked for again
	goneFor    = time.Minute     // nor one that does not exist
	maxShown   = 10_000          // badges that are remembered, of each kind

	maxLooks    = 2               // badges that the store is asked for at once
	lookTime    = 5 * time.Second // for which it may be asked for one
	turnTime    = time.Second     // for which one waits for its turn
	maxAwaiting = 100             // badges that wait for theirs
)

// shown is the content of a badge.
type shown struct {
	label string
	is    service.Condition
	at    time.Time // when the store was asked, so that a badge which was revoked since is not shown for longer
}

// look is a question to the store about a badge, for all who ask meanwhile.
type look struct {
	done chan struct{} // closed when x and err hold
	x    shown
	err  error
}

// failing records why the store did not answer for a badge.
type failing struct {
	err   error
	until time.Time
}

// showing remembers what badges show. It is bounded: where it is full, something is forgotten.
type showing struct {
	wrong *failures // whoever asks for badges that do not exist
	turns chan struct{}

	mu      sync.Mutex
	was     map[[32]byte]shown     // guarded by mu, as the others
	gone    map[[32]byte]time.Time // hashes of no badge, and until when that is believed
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

// known returns what is remembered of a badge; ok is false if the store must be asked. The caller holds mu.
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

// recall returns what is remembered of a badge; ok is false if the store must be asked.
func (b *showing) recall(hash [32]byte, now time.Time) (x shown, ok bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known(hash, now)
}

// find returns the content of a badge. If many want it, one asks for all; asked reports whether this was the one.
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
	// Who asked may go: others wait for the answer, too.
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

// keep remembers what the store said of a badge, and says what is to be shown.
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

// makeRoom drops what is over where there is too much, and anything where nothing is.
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

// shown returns the content of the badge with a hash. Whoever asks for too many that do not exist has to wait; one that is known not to
// be is paid for but once a minute, as pages have a revoked one for years.
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
