package sign

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Sealer encrypts data at rest.
type Sealer interface {
	Seal(aad string, plain []byte) ([]byte, error)
	Open(aad string, sealed []byte) ([]byte, error)
}

// Place returns the associated data for a tenant's secret.
func Place(t tenant.ID, id string) string { return "signing\x00" + string(t) + "\x00" + id }

// Store is the part of a store that signing uses.
type Store interface {
	SigningSecrets(ctx context.Context, t tenant.ID) ([]engine.SigningSecret, error)
}

const (
	fresh      = 3 * time.Second // how long read secrets are cached
	maxTenants = 10_000          // that are remembered
)

// Secrets provides the signing secrets of tenants. It reads a tenant's at most every few seconds.
type Secrets struct {
	store Store
	seal  Sealer
	clock clock.Clock // the store's

	seed func(context.Context, tenant.ID) error // creates a tenant's first; nil: never

	mu    sync.Mutex
	known map[tenant.ID]*secrets // guarded by mu
}

// secrets holds what is known of a tenant's secrets.
type secrets struct {
	keys   []key
	err    error // they cannot be opened
	readAt time.Time
	busy   bool // someone is rereading them; until then these are used
}

type key struct {
	Key
	until time.Time // zero: for good
}

// NewSecrets makes a cache of secrets over a store and its clock.
func NewSecrets(store Store, seal Sealer, clk clock.Clock) *Secrets {
	return &Secrets{store: store, seal: seal, clock: clk, known: map[tenant.ID]*secrets{}}
}

// Seed creates a secret for a tenant that has none when its first callback is made. Call it before the first.
func (s *Secrets) Seed(make func(context.Context, tenant.ID) error) { s.seed = make }

// Forget makes a tenant's secrets be read again: they have changed.
func (s *Secrets) Forget(t tenant.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, t)
}

// Keys returns the keys that sign the tenant's callbacks at an instant, newest first; none if they are not signed.
func (s *Secrets) Keys(ctx context.Context, t tenant.ID, at time.Time) ([]Key, error) {
	s.mu.Lock()
	known := s.known[t]
	if known != nil && (known.busy || at.Sub(known.readAt) < fresh) {
		s.mu.Unlock()
		return known.at(at)
	}
	if known != nil {
		known.busy = true
	}
	s.mu.Unlock()
	read, err := s.read(ctx, t, at)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if known != nil {
			known.busy = false
		}
		return nil, fmt.Errorf("read the signing secrets: %w", err)
	}
	if len(s.known) >= maxTenants {
		clear(s.known)
	}
	s.known[t] = read
	return read.at(at)
}

func (s *Secrets) read(ctx context.Context, t tenant.ID, at time.Time) (*secrets, error) {
	list, err := s.store.SigningSecrets(ctx, t)
	if err == nil && len(list) == 0 && s.seed != nil {
		if err = s.seed(ctx, t); err == nil {
			list, err = s.store.SigningSecrets(ctx, t)
		}
	}
	if err != nil {
		return nil, err
	}
	out := &secrets{readAt: at}
	for _, x := range list {
		k, err := Open(s.seal, x)
		if err != nil {
			return &secrets{readAt: at, err: &unreadable{x.ID, err}}, nil
		}
		parsed, err := ParseSecret(k)
		if err != nil {
			return &secrets{readAt: at, err: &unreadable{x.ID, err}}, nil
		}
		out.keys = append(out.keys, key{parsed, x.ExpiresAt})
	}
	return out, nil
}

// Open returns a secret in the form that its tenant was given.
func Open(seal Sealer, x engine.SigningSecret) (string, error) {
	text, err := seal.Open(Place(x.Tenant, x.ID), x.Sealed)
	return string(text), err
}

func (s *secrets) at(now time.Time) ([]Key, error) {
	var out []Key
	for _, k := range s.keys {
		if k.until.IsZero() || k.until.After(now) {
			out = append(out, k.Key)
		}
	}
	return out, s.err
}

// unreadable is the error that a secret exists but cannot be used.
type unreadable struct {
	id  string
	err error
}

func (u *unreadable) Error() string {
	return fmt.Sprintf("the signing secret %s cannot be opened: %v", u.id, u.err)
}
func (u *unreadable) Unwrap() error { return u.err }
