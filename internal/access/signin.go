package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// ErrSignedOut means that a browser is not, or no longer, signed in.
var ErrSignedOut = errors.New("the sign-in has ended")

// Store is the part of the store that the package needs.
type Store interface {
	engine.Keys
	engine.SignIns
}

// Lives sets how long people stay signed in.
type Lives struct {
	Idle  time.Duration // without a request
	Whole time.Duration // in any case
}

// UsualLives holds the default times that people stay signed in.
var UsualLives = Lives{Idle: time.Hour, Whole: 12 * time.Hour}

// Stay sets how long people stay signed in. Call it before the first request.
func (a *Authenticator) Stay(l Lives) { a.lives = l }

// NewSignIn generates a browser's cookie, and its hash in the store.
func NewSignIn() (value string, hash [32]byte, id string) {
	value = signInPrefix + random(32)
	return value, HashSignIn(value), random(10)
}

// signInPrefix distinguishes a cookie's value from an API key, also for scanners of leaked ones.
const signInPrefix = "cas_"

// HashSignIn returns the hash that represents a cookie's value in the store.
func HashSignIn(value string) [32]byte { return sha256.Sum256([]byte("sign-in " + value)) }

// Begin checks a credential that someone types in, and returns the sign-in that begins with it.
func (a *Authenticator) Begin(ctx context.Context, text string) (engine.SignIn, error) {
	p, until, err := a.credential(ctx, text)
	if err != nil {
		return engine.SignIn{}, err
	}
	now := a.clock.Now().UTC().Truncate(time.Microsecond)
	s := engine.SignIn{Tenant: p.Tenant, Role: p.Role, Name: p.Name, Key: p.Key, CreatedAt: now, UsedAt: now, EndsAt: now.Add(a.lives.Whole)}
	if !until.IsZero() && until.Before(s.EndsAt) {
		s.EndsAt = until.UTC().Truncate(time.Microsecond)
	}
	if !now.Before(s.EndsAt) { // a token that only the leeway between clocks accepts
		return engine.SignIn{}, ErrToken
	}
	return s, nil
}

// credential returns whom a key or a token stands for, and until when; zero: always.
func (a *Authenticator) credential(ctx context.Context, text string) (tenant.Principal, time.Time, error) {
	if text == "" || len(text) > maxToken {
		return tenant.Principal{}, time.Time{}, ErrNoCredential
	}
	if a.tokens != nil && looksLike(text) {
		return a.byToken(ctx, text)
	}
	if !plausible(text) {
		return tenant.Principal{}, time.Time{}, ErrUnknownKey
	}
	key, err := a.find(ctx, sha256.Sum256([]byte(text)))
	if err != nil {
		return tenant.Principal{}, time.Time{}, err
	}
	return tenant.Principal{Tenant: key.Tenant, Role: key.Role, Name: key.Name, Key: key.ID}, key.ExpiresAt, nil
}

// ByCookie returns the principal of a browser's cookie. named is the requested tenant ("" for its own).
func (a *Authenticator) ByCookie(ctx context.Context, value, named string) (tenant.Principal, error) {
	s, err := a.SignedIn(ctx, value)
	if err != nil {
		return tenant.Principal{}, err
	}
	return a.within(ctx, tenant.Principal{Tenant: s.Tenant, Role: s.Role, Name: s.Name, Key: s.Key}, named)
}

// SignedIn returns the sign-in of a cookie's value, unless it has ended.
func (a *Authenticator) SignedIn(ctx context.Context, value string) (engine.SignIn, error) {
	if len(value) != len(signInPrefix)+52 || value[:len(signInPrefix)] != signInPrefix {
		return engine.SignIn{}, ErrSignedOut
	}
	now, hash := a.clock.Now(), HashSignIn(value)
	a.mu.Lock()
	hit, ok := a.signIns[hash]
	seen := a.seen[hash]
	a.mu.Unlock()
	if !ok || !clock.Fresh(now, hit.until, remember) {
		s, err := a.store.SignIn(ctx, hash)
		if errors.Is(err, engine.ErrNotFound) {
			a.Forget(hash)
			return engine.SignIn{}, ErrSignedOut
		}
		if err != nil {
			return engine.SignIn{}, err
		}
		hit = knownSignIn{s, now.Add(remember)}
		a.mu.Lock()
		if len(a.signIns) >= cacheMax {
			clear(a.signIns)
		}
		a.signIns[hash] = hit
		a.mu.Unlock()
	}
	s := hit.signIn
	if seen.After(s.UsedAt) {
		s.UsedAt = seen
	}
	if !now.Before(s.EndsAt) || now.Sub(s.UsedAt) >= a.lives.Idle {
		return engine.SignIn{}, ErrSignedOut
	}
	s.UsedAt = now
	a.mu.Lock()
	a.seen[hash] = now
	if s.Key != "" {
		a.used[s.Key] = now
	}
	a.mu.Unlock()
	return s, nil
}

// IdleUntil returns when a sign-in ends if it is not used again.
func (a *Authenticator) IdleUntil(s engine.SignIn) time.Time {
	t := s.UsedAt.Add(a.lives.Idle)
	if t.After(s.EndsAt) {
		return s.EndsAt
	}
	return t
}

// Living returns a filter for active sign-ins. The store may be a minute behind about their last use, so it includes
// those that may still be active.
func (a *Authenticator) Living() engine.SignInFilter {
	now := a.clock.Now()
	return engine.SignInFilter{Now: now, UsedAfter: now.Add(-a.lives.Idle - tellUse)}
}

// Forget makes the next request ask the store, because the sign-in was ended here.
func (a *Authenticator) Forget(hash [32]byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.signIns, hash)
	delete(a.seen, hash)
}

type knownSignIn struct {
	signIn engine.SignIn
	until  time.Time
}

// Until returns when the credential of an Authorization header expires; zero if never.
func (a *Authenticator) Until(ctx context.Context, header string) (time.Time, error) {
	_, text, _ := strings.Cut(header, " ")
	_, until, err := a.credential(ctx, strings.TrimSpace(text))
	return until, err
}

// KeyID returns the public part of an API key's text; "" for any other credential.
func KeyID(text string) string {
	rest, ours := strings.CutPrefix(text, prefix)
	id, _, ok := strings.Cut(rest, "_")
	if !ours || !ok || len(id) != 8 || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return ""
	}
	return id
}
