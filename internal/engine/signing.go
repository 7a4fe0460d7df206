package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// SigningSecrets stores the secrets that sign callbacks. They are sealed; the store never sees a secret.
type SigningSecrets interface {
	// AddSigningSecret stores a secret, makes the tenant's others expire at an instant, unless they expire before,
	// and deletes those that nobody was shown. If its id exists already, nothing changes. ErrConflict if the tenant
	// has MaxSigningSecrets unexpired ones; its idempotency key is free then.
	AddSigningSecret(ctx context.Context, s SigningSecret, othersUntil time.Time, i Idempotency, e *audit.Entry) (Created, error)
	// SeedSigningSecret stores a secret that nobody has been shown, if the tenant has none in use, and reports whether it did.
	SeedSigningSecret(ctx context.Context, s SigningSecret, e *audit.Entry) (bool, error)
	// ShowSigningSecret records that a secret is shown to its tenant, with its prefix. ErrConflict if it was shown
	// before, ErrNotFound if there is none: of two concurrent callers only one may show it.
	ShowSigningSecret(ctx context.Context, t tenant.ID, id, prefix string, e *audit.Entry) error
	// SigningSecrets lists the unexpired secrets of a tenant, or of all tenants, by the store's clock, newest first.
	SigningSecrets(ctx context.Context, t tenant.ID) ([]SigningSecret, error)
	// DeleteSigningSecret deletes one; ErrNotFound if there is none.
	DeleteSigningSecret(ctx context.Context, t tenant.ID, id string, e *audit.Entry) error
	// ResealSigningSecret replaces the sealed form of one, unless it has changed.
	ResealSigningSecret(ctx context.Context, s SigningSecret, was []byte) error
	// Share stores a value for all servers of this store under a name, unless there is one, and returns the stored
	// one.
	Share(ctx context.Context, name string, value []byte) ([]byte, error)
	// Reshare replaces a shared value, unless it has changed.
	Reshare(ctx context.Context, name string, was, value []byte) error
}

// MaxSigningSecrets limits how many of a tenant's may be in use at once.
const MaxSigningSecrets = 10

// SigningSecret is a secret that signs a tenant's callbacks.
type SigningSecret struct {
	Tenant    tenant.ID
	ID        string
	Prefix    string // of the secret, for people; the whole public key of a pair; empty: nobody was shown it yet
	Sealed    []byte
	CreatedAt time.Time
	ExpiresAt time.Time // zero: never
}
