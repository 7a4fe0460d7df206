package engine

import (
	"context"
	"errors"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// ErrFull says that there are as many of something as there may be.
var ErrFull = errors.New("there are as many as there may be")

// Secrets stores values that jobs use without showing them. Values come sealed; a store never looks inside. One that has a job is
// managed: it is a credential out of that job's headers, stored and replaced with the job (Creation, Update), and kept
// for PastLife after the job was deleted, for what still runs of it.
type Secrets interface {
	// PutSecret stores a secret that a person named: as version 1, or in place of the one of its name as the next version.
	// It answers with what is stored now, without the value; ErrFull if the tenant would have more than most.
	PutSecret(ctx context.Context, s Secret, most int, e *audit.Entry) (Secret, error)
	// Secret finds one, also a managed one; ErrNotFound if there is none.
	Secret(ctx context.Context, t tenant.ID, name string) (Secret, error)
	// Secrets lists those of a tenant that a person named, in order of their names, without their values.
	Secrets(ctx context.Context, t tenant.ID) ([]Secret, error)
	// SealedSecrets lists the same with their values, and the stamp that they have.
	SealedSecrets(ctx context.Context, t tenant.ID) ([]Secret, string, error)
	// SecretStamp changes with every change of what SealedSecrets and PastSecrets list, and does not come back.
	SecretStamp(ctx context.Context, t tenant.ID) (string, error)
	// LackSecrets says which of the names are none that a person gave, in the order asked for.
	LackSecrets(ctx context.Context, t tenant.ID, names []string) ([]string, error)
	// DeleteSecret forgets one that a person named; ErrNotFound if there is none.
	DeleteSecret(ctx context.Context, t tenant.ID, name string, e *audit.Entry) error
	// PastSecrets lists up to limit values that secrets which a person named had before they were changed or deleted, the
	// latest first. They are kept for PastLife, but only 20 of a name, and 1000 and 1 MiB of a tenant.
	PastSecrets(ctx context.Context, t tenant.ID, limit int) ([]Secret, error)

	// SecretKeys lists one secret of each key that any is sealed under.
	SecretKeys(ctx context.Context) ([]Secret, error)
	// SecretsNotUnder lists up to limit secrets, also managed ones, that are sealed under another key, of all tenants,
	// behind one in order of tenant and name; the zero value begins at the first.
	SecretsNotUnder(ctx context.Context, key string, after Secret, limit int) ([]Secret, error)
	// ResealSecret replaces what a secret is sealed as, unless it is no longer as it was; its version stays.
	ResealSecret(ctx context.Context, s Secret, was []byte) error
}

// PastLife sets how long the previous value of a secret is known: no attempt that was given it lasts longer.
const PastLife = 8 * 24 * time.Hour

// Secret is a sealed value.
type Secret struct {
	Tenant    tenant.ID
	Name      string
	Job       job.ID // that manages it; zero: a person named it
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
