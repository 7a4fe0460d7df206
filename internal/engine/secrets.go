package engine

import (
	"context"
	"errors"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// ErrFull means that the maximum number of something is reached.
var ErrFull = errors.New("there are as many as there may be")

// Secrets stores values that jobs use without showing them. Values are passed in sealed; a store never looks inside.
// A secret with a job is managed: it is a credential from that job's headers, stored and replaced with the job
// (Creation, Update), and kept for PastLife after the job was deleted, for executions that still run.
type Secrets interface {
	// PutSecret stores a person's secret: as version 1, or as the next version of the existing one. It returns what
	// is stored now, without the value; ErrFull if the tenant would have more than most.
	PutSecret(ctx context.Context, s Secret, most int, e *audit.Entry) (Secret, error)
	// Secret finds one, including managed ones; ErrNotFound if there is none.
	Secret(ctx context.Context, t tenant.ID, name string) (Secret, error)
	// Secrets lists the secrets that people of a tenant have named, in order of their names, without their values.
	Secrets(ctx context.Context, t tenant.ID) ([]Secret, error)
	// SealedSecrets lists the same with their values, and their stamp.
	SealedSecrets(ctx context.Context, t tenant.ID) ([]Secret, string, error)
	// SecretStamp changes with every change of what SealedSecrets and PastSecrets list, and does not come back.
	SecretStamp(ctx context.Context, t tenant.ID) (string, error)
	// LackSecrets returns the names that no person has defined, in the given order.
	LackSecrets(ctx context.Context, t tenant.ID, names []string) ([]string, error)
	// DeleteSecret deletes a person's secret; ErrNotFound if there is none.
	DeleteSecret(ctx context.Context, t tenant.ID, name string, e *audit.Entry) error
	// PastSecrets lists up to limit earlier values of people's secrets from before they were changed or deleted,
	// newest first. They are kept for PastLife, but only 20 per name, and 1000 and 1 MiB per tenant.
	PastSecrets(ctx context.Context, t tenant.ID, limit int) ([]Secret, error)

	// SecretKeys lists one secret for each key that seals any.
	SecretKeys(ctx context.Context) ([]Secret, error)
	// SecretsNotUnder lists up to limit secrets of all tenants, including managed ones, that are sealed under another
	// key, after one in order of tenant and name; the zero value begins at the first.
	SecretsNotUnder(ctx context.Context, key string, after Secret, limit int) ([]Secret, error)
	// ResealSecret replaces the sealed form of a secret, unless it has changed; its version stays.
	ResealSecret(ctx context.Context, s Secret, was []byte) error
}

// PastLife is how long the previous value of a secret is kept: no attempt that received it lasts longer.
const PastLife = 8 * 24 * time.Hour

// Secret is a sealed value.
type Secret struct {
	Tenant    tenant.ID
	Name      string
	Job       job.ID // the job that manages it; zero: a person named it
	Version   int
	CreatedAt time.Time
	UpdatedAt time.Time
	Key       string // names what it is sealed under
	Sealed    []byte
}

// SecretUse is an execution and the managed secrets of its job.
type SecretUse struct {
	Execution job.ExecutionID
	Tenant    tenant.ID
	Managed   []Secret
}
