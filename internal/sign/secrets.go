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

// Sealer encrypts what must not be readable at rest.
type Sealer interface {
	Seal(aad string, plain []byte) ([]byte, error)
	Open(aad string, sealed []byte) ([]byte, error)
}

// Place returns what a tenant's secret is sealed for.
func Place(t tenant.ID, id string) string { return "signing\x00" + string(t) + "\x00" + id }

// Store is the part of a store that signing asks.
type Store interface {
	SigningSecrets(ctx context.Context, t tenant.ID) ([]engine.SigningSecret, error)
}

const (
	fresh      = 3 * time.Second // for which what was read is taken for what is there
	maxTenants = 10_000          // that are remembered
)

// Secrets knows what tenants' callbacks are signed with. It reads a tenant's at most every few seconds.
type Secrets struct {
	store Store
	seal  Sealer
	clock clock.Clock // the store's

	seed func(context.Context, tenant.ID) error // makes a tenant's first; nil: nobody does

	mu    sync.Mutex
	known map[tenant.ID]*secrets // guarded by mu
}

// secrets holds what is known of a tenant's secrets.
type secrets struct {
	keys   []key
	err    error // they cannot be opened
	readAt time.Time
	busy   bool // someone reads them again; until then these hold
}

type key struct {
	Key
	until time.Time // zero: for good
}

// NewSecrets makes a memory of secrets over a store whose clock is given.
func NewSecrets(store Store, seal Sealer, clk clock.Clock) *Secrets {
	return &Secrets{store: store, seal: seal, clock: clk, known: map[tenant.ID]*secrets{}}
}

// Seed has a tenant that has no secret get one when its first callback is made. It is for before the first.
func (s *Secrets) Seed(make func(context.Context, tenant.ID) error) { s.seed = make }

// Forget has a tenant's secrets read again: they have changed.
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

// Open reads a secret as its tenant was given it.
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

// unreadable says that a secret is there, but cannot be used.
type unreadable struct {
	id  string
	err error
}

func (u *unreadable) Error() string {
	return fmt.Sprintf("the signing secret %s cannot be opened: %v", u.id, u.err)
}
func (u *unreadable) Unwrap() error { return u.err }
