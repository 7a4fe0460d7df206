// Package access turns a credential into the principal it stands for.
//
// A key is looked up by the SHA-256 of its text, so the store never holds one
// that could be used, and a lookup takes no longer for a near miss than for a
// wild guess. Answers are kept for a few seconds to spare the store; a key that
// is revoked is refused after that at the latest. The package decides who asks,
// never what they may do: tenant.Role does.
package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Why a credential is refused.
var (
	ErrNoCredential = errors.New("no credential was given")
	ErrUnknownKey   = errors.New("the key is unknown, expired or revoked")
	ErrTenant       = errors.New("the credential is not for the tenant named by X-Tenant-ID")
	ErrNoTenant     = errors.New("there is no tenant of the name given in X-Tenant-ID")
)

// MinKey is the least length of a key that an operator may choose.
const MinKey = 32

const (
	remember = 3 * time.Second
	cacheMax = 10_000
)

// Authenticator knows the API keys of an installation.
type Authenticator struct {
	store engine.Keys
	clock clock.Clock

	mu    sync.Mutex
	cache map[[32]byte]known // guarded by mu
}

type known struct {
	key   engine.Key
	until time.Time
}

// New makes an authenticator over the keys of a store.
func New(store engine.Keys, clk clock.Clock) *Authenticator {
	return &Authenticator{store: store, clock: clk, cache: map[[32]byte]known{}}
}

// Authenticate says who asks. header is the Authorization header, named the tenant asked for ("" for the credential's own).
func (a *Authenticator) Authenticate(ctx context.Context, header, named string) (tenant.Principal, error) {
	scheme, secret, _ := strings.Cut(header, " ")
	secret = strings.TrimSpace(secret)
	if header == "" || !strings.EqualFold(scheme, "Bearer") || secret == "" || len(secret) > 8192 {
		return tenant.Principal{}, ErrNoCredential
	}
	key, err := a.find(ctx, sha256.Sum256([]byte(secret)))
	if err != nil {
		return tenant.Principal{}, err
	}
	p := tenant.Principal{Tenant: key.Tenant, Role: key.Role, Name: key.Name}
	if named == "" || tenant.ID(named) == p.Tenant {
		return p, nil
	}
	if p.Role != tenant.System {
		return tenant.Principal{}, ErrTenant
	}
	ok, err := a.store.HasTenant(ctx, tenant.ID(named))
	if err != nil {
		return tenant.Principal{}, err
	}
	if !ok {
		return tenant.Principal{}, ErrNoTenant
	}
	p.Tenant = tenant.ID(named)
	return p, nil
}

func (a *Authenticator) find(ctx context.Context, hash [32]byte) (engine.Key, error) {
	now := a.clock.Now()
	a.mu.Lock()
	hit, ok := a.cache[hash]
	a.mu.Unlock()
	if !ok || !now.Before(hit.until) {
		k, err := a.store.Key(ctx, hash)
		if errors.Is(err, engine.ErrNotFound) {
			return engine.Key{}, ErrUnknownKey
		}
		if err != nil {
			return engine.Key{}, err
		}
		hit = known{key: k, until: now.Add(remember)}
		a.mu.Lock()
		if len(a.cache) >= cacheMax {
			clear(a.cache)
		}
		a.cache[hash] = hit
		a.mu.Unlock()
	}
	if e := hit.key.ExpiresAt; !e.IsZero() && !now.Before(e) {
		return engine.Key{}, ErrUnknownKey
	}
	return hit.key, nil
}

// Bootstrap makes the first key of an installation, of role system, unless there is one already. chosen is
// the operator's own, or "" to make one up. It returns the key's text if it was made up and stored.
func Bootstrap(ctx context.Context, store engine.Keys, chosen string, now time.Time) (made string, err error) {
	if chosen != "" && len(chosen) < MinKey {
		return "", fmt.Errorf("a bootstrap key needs %d characters or more; this one has %d", MinKey, len(chosen))
	}
	id := random(5)
	secret := chosen
	if secret == "" {
		secret = "car_live_" + id + "_" + random(32)
	}
	stored, err := store.Bootstrap(ctx, engine.Key{
		ID: id, Tenant: tenant.Default, Role: tenant.System, Name: "bootstrap", Hash: sha256.Sum256([]byte(secret)), CreatedAt: now,
	})
	if err != nil {
		return "", fmt.Errorf("store the bootstrap key: %w", err)
	}
	if !stored || chosen != "" {
		return "", nil
	}
	return secret, nil
}

func random(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails: package crypto/rand ends the program instead
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}
