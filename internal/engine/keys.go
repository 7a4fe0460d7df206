package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Keys are the API keys, known only by a hash.
type Keys interface {
	// Bootstrap stores the key if there is none at all, and reports whether it did; concurrent calls store one.
	Bootstrap(ctx context.Context, k Key) (bool, error)
	// Key finds a key that is not revoked by its hash, or fails with ErrNotFound.
	Key(ctx context.Context, hash [32]byte) (Key, error)
	// AddKey stores a key; ErrConflict if its tenant would have more than most keys that are not revoked. The
	// idempotency key belongs to the calling tenant.
	AddKey(ctx context.Context, asks tenant.ID, k Key, most int, i Idempotency, e *audit.Entry) (Created, error)
	// RotateKey stores a key as AddKey does and, in the same commit, sets an expiry on the key that it replaces, with
	// its own audit entry; ErrNotFound if there is no such key.
	RotateKey(ctx context.Context, asks tenant.ID, k Key, most int, old Replaced, i Idempotency, e *audit.Entry) (Created, error)
	// Keys lists the keys of a tenant, newest first, including revoked and expired ones.
	Keys(ctx context.Context, t tenant.ID) ([]Key, error)
	// KeyOf finds a tenant's key by its id; ErrNotFound if there is none.
	KeyOf(ctx context.Context, t tenant.ID, id string) (Key, error)
	// RevokeKey revokes a tenant's key; a revoked one stays unchanged. ErrNotFound if there is none, ErrConflict if
	// it is the last valid key of role system.
	RevokeKey(ctx context.Context, t tenant.ID, id string, now time.Time, e *audit.Entry) error
	// ExpireKey makes a tenant's key expire at an instant, unless it expires sooner anyway; ErrNotFound if there is
	// none.
	ExpireKey(ctx context.Context, t tenant.ID, id string, at time.Time) error
	// UseKeys records when keys were last used.
	UseKeys(ctx context.Context, used map[string]time.Time) error
	// HasTenant reports whether a tenant exists.
	HasTenant(ctx context.Context, t tenant.ID) (bool, error)
}

// Key is an API key without its secret.
type Key struct {
	ID        string // recognisable and public
	Tenant    tenant.ID
	Role      tenant.Role
	Name      string
	Hash      [32]byte
	CreatedAt time.Time
	ExpiresAt time.Time // zero: never
	RevokedAt time.Time // zero: it is not
	UsedAt    time.Time // accurate to about a minute; zero: never
}

// Works reports whether the key is valid at an instant.
func (k Key) Works(now time.Time) bool {
	return k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

// Replaced names a key that is being replaced.
type Replaced struct {
	Tenant tenant.ID
	ID     string
	Until  time.Time   // when it expires, unless it does so before
	Entry  audit.Entry // of that
}
