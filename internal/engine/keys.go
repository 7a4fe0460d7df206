package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Keys are the API keys, known by a hash only.
type Keys interface {
	// Bootstrap stores the key if there is none at all, and reports whether it did; two at once store one.
	Bootstrap(ctx context.Context, k Key) (bool, error)
	// Key finds a key by its hash that is not revoked, or ErrNotFound.
	Key(ctx context.Context, hash [32]byte) (Key, error)
	// AddKey stores a key; ErrConflict where its tenant would have more than most that are not revoked. The idempotency
	// key is of the tenant that asks.
	AddKey(ctx context.Context, asks tenant.ID, k Key, most int, i Idempotency, e *audit.Entry) (Created, error)
	// RotateKey stores a key as AddKey does and, in the same commit, makes the key that it replaces expire, with an audit entry of its own;
	// ErrNotFound if there is no such key.
	RotateKey(ctx context.Context, asks tenant.ID, k Key, most int, old Replaced, i Idempotency, e *audit.Entry) (Created, error)
	// Keys lists the keys of a tenant, newest first, also those that are revoked or have expired.
	Keys(ctx context.Context, t tenant.ID) ([]Key, error)
	// KeyOf finds one of a tenant's keys by its id; ErrNotFound if there is none.
	KeyOf(ctx context.Context, t tenant.ID, id string) (Key, error)
	// RevokeKey revokes one of a tenant's keys; one that is revoked stays as it is. ErrNotFound if there is none,
	// ErrConflict where it is the last of role system that works.
	RevokeKey(ctx context.Context, t tenant.ID, id string, now time.Time, e *audit.Entry) error
	// ExpireKey lets one of a tenant's keys expire at an instant, or when it would have anyway, if that is sooner;
	// ErrNotFound if there is none.
	ExpireKey(ctx context.Context, t tenant.ID, id string, at time.Time) error
	// UseKeys notes when keys were last of use.
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
	UsedAt    time.Time // to about a minute; zero: never
}

// Works reports whether the key is of use at an instant.
func (k Key) Works(now time.Time) bool {
	return k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

// Replaced names a key that another takes the place of.
type Replaced struct {
	Tenant tenant.ID
	ID     string
	Until  time.Time   // when it expires, unless it does so before
	Entry  audit.Entry // of that
}
