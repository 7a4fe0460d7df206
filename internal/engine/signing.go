package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// SigningSecrets stores the secrets that sign callbacks. They are sealed; the store never sees a secret.
type SigningSecrets interface {
	// AddSigningSecret stores a secret, and has the tenant's others end at an instant, unless they end before; those that nobody
	// was shown are deleted. One whose id is
	// there already changes nothing. ErrConflict if the tenant has MaxSigningSecrets that have not ended; its idempotency key is free then.
	AddSigningSecret(ctx context.Context, s SigningSecret, othersUntil time.Time, i Idempotency, e *audit.Entry) (Created, error)
	// SeedSigningSecret stores a secret that nobody has been shown, if the tenant has none in use, and reports whether it did.
	SeedSigningSecret(ctx context.Context, s SigningSecret, e *audit.Entry) (bool, error)
	// ShowSigningSecret notes that a secret is shown to its tenant, by its prefix. ErrConflict if it was before, ErrNotFound if
	// there is none: of two who ask at once, one is shown it.
	ShowSigningSecret(ctx context.Context, t tenant.ID, id, prefix string, e *audit.Entry) error
	// SigningSecrets lists a tenant's, or those of all tenants, that have not ended by the store's clock, newest first.
	SigningSecrets(ctx context.Context, t tenant.ID) ([]SigningSecret, error)
	// DeleteSigningSecret forgets one; ErrNotFound if there is none.
	DeleteSigningSecret(ctx context.Context, t tenant.ID, id string, e *audit.Entry) error
	// ResealSigningSecret replaces what one is sealed as, unless it is no longer as it was.
	ResealSigningSecret(ctx context.Context, s SigningSecret, was []byte) error
	// Share keeps a value for all servers over this store under a name, unless there is one, and answers with the one that
	// is kept.
	Share(ctx context.Context, name string, value []byte) ([]byte, error)
	// Reshare replaces a shared value, unless it is no longer as it was.
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
