package sqlstore

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	signingColumns      = "tenant, id, created_at, expires_at, prefix, sealed"
	addSigningSecretSQL = "INSERT INTO signing_secrets (" + signingColumns + `)
		SELECT $1, $2, $3, $4, $5, $6 WHERE (SELECT count(*) FROM signing_secrets WHERE tenant = $1) < $7`
	endOtherSecretsSQL   = "UPDATE signing_secrets SET expires_at = $1 WHERE tenant = $2 AND id <> $3 AND (expires_at IS NULL OR expires_at > $1)"
	seedSigningSecretSQL = "INSERT INTO signing_secrets (" + signingColumns + `)
		SELECT $1, $2, $3, NULL, '', $4 WHERE NOT EXISTS (SELECT 1 FROM signing_secrets WHERE tenant = $1 AND (expires_at IS NULL OR expires_at > $5))`
	showSigningSecretSQL = "UPDATE signing_secrets SET prefix = $3 WHERE tenant = $1 AND id = $2 AND prefix = '' AND (expires_at IS NULL OR expires_at > $4)"
	signingSecretsSQL    = "SELECT " + signingColumns + ` FROM signing_secrets
		WHERE $1 IN ('', tenant) AND (expires_at IS NULL OR expires_at > $2) ORDER BY created_at DESC, id DESC`
)

func scanSigningSecret(r Row) (x engine.SigningSecret, err error) {
	err = r.Scan((*string)(&x.Tenant), &x.ID, &x.CreatedAt, &x.ExpiresAt, &x.Prefix, &x.Sealed)
	return x, err
}

// AddSigningSecret stores a signing secret and makes the tenant's others end at an instant. It locks the tenant to count them.
func (s signing) AddSigningSecret(ctx context.Context, x engine.SigningSecret, othersUntil time.Time, i engine.Idempotency, e *audit.Entry) (engine.Created, error) {
	return create(ctx, s.db, "store a signing secret", nil, x.Tenant, i, func(tx Tx) error {
		t := string(x.Tenant)
		if err := tx.LockTenant(x.Tenant); err != nil {
			return err
		}
		now, err := tx.Now()
		if err != nil {
			return err
		}
		if _, err := tx.Exec("DELETE FROM signing_secrets WHERE tenant = $1 AND expires_at <= $2", t, now); err != nil {
			return err
		}
		known, err := value[bool](tx, "SELECT true FROM signing_secrets WHERE tenant = $1 AND id = $2", t, x.ID)
		if err != nil || known {
			return err
		}
		if err := changeOne(tx, engine.ErrConflict, addSigningSecretSQL, t, x.ID, x.CreatedAt, x.ExpiresAt, x.Prefix, x.Sealed, engine.MaxSigningSecrets); err != nil {
			return err
		}
		if _, err := tx.Exec("DELETE FROM signing_secrets WHERE tenant = $1 AND id <> $2 AND prefix = ''", t, x.ID); err != nil {
			return err
		}
		if _, err = tx.Exec(endOtherSecretsSQL, othersUntil, t, x.ID); err != nil {
			return err
		}
		return record(tx, e)
	})
}

// SeedSigningSecret stores a signing secret that nobody has been shown, if the tenant has none in use.
func (s signing) SeedSigningSecret(ctx context.Context, x engine.SigningSecret, e *audit.Entry) (made bool, err error) {
	err = s.db.Write(ctx, "seed a signing secret", func(tx Tx) error {
		if err := tx.LockTenant(x.Tenant); err != nil {
			return err
		}
		now, err := tx.Now()
		if err != nil {
			return err
		}
		n, err := tx.Exec(seedSigningSecretSQL, string(x.Tenant), x.ID, x.CreatedAt, x.Sealed, now)
		if made = n > 0; err != nil || !made {
			return err
		}
		return record(tx, e)
	})
	return made && err == nil, err
}

// ShowSigningSecret records that a signing secret is shown to its tenant, which happens once.
func (s signing) ShowSigningSecret(ctx context.Context, t tenant.ID, id, prefix string, e *audit.Entry) error {
	return write(ctx, s.db, "show a signing secret", e, func(tx Tx) error {
		now, err := tx.Now()
		if err != nil {
			return err
		}
		n, err := tx.Exec(showSigningSecretSQL, string(t), id, prefix, now)
		if err != nil || n > 0 {
			return err
		}
		there, err := value[bool](tx, "SELECT true FROM signing_secrets WHERE tenant = $1 AND id = $2 AND (expires_at IS NULL OR expires_at > $3)", string(t), id, now)
		switch {
		case err != nil:
			return err
		case there:
			return engine.ErrConflict
		}
		return engine.ErrNotFound
	})
}

// SigningSecrets lists a tenant's signing secrets that have not ended, or those of all tenants, newest first.
func (s signing) SigningSecrets(ctx context.Context, t tenant.ID) (out []engine.SigningSecret, err error) {
	err = s.db.Read(ctx, "list signing secrets", func(tx Tx) error {
		now, err := tx.Now()
		if err != nil {
			return err
		}
		out, err = all(tx, scanSigningSecret, signingSecretsSQL, string(t), now)
		return err
	})
	return out, err
}

// DeleteSigningSecret deletes a signing secret.
func (s signing) DeleteSigningSecret(ctx context.Context, t tenant.ID, id string, e *audit.Entry) error {
	return execOne(ctx, s.db, "delete a signing secret", e, engine.ErrNotFound, "DELETE FROM signing_secrets WHERE tenant = $1 AND id = $2", string(t), id)
}

// ResealSigningSecret replaces the sealed form of a signing secret, unless it has changed.
func (s signing) ResealSigningSecret(ctx context.Context, x engine.SigningSecret, was []byte) error {
	return exec(ctx, s.db, "seal a signing secret anew", nil, "UPDATE signing_secrets SET sealed = $3 WHERE tenant = $1 AND id = $2 AND sealed = $4",
		string(x.Tenant), x.ID, x.Sealed, was)
}

// Share stores a value under a name, unless there is one, and returns the stored one.
func (s signing) Share(ctx context.Context, name string, shared []byte) (kept []byte, err error) {
	err = s.db.Write(ctx, "share a value", func(tx Tx) error {
		if _, err := tx.Exec("INSERT INTO installation (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", name, shared); err != nil {
			return err
		}
		kept, err = value[[]byte](tx, "SELECT value FROM installation WHERE name = $1", name)
		return err
	})
	return kept, err
}

// Reshare replaces a shared value, unless it has changed.
func (s signing) Reshare(ctx context.Context, name string, was, shared []byte) error {
	return exec(ctx, s.db, "share another value", nil, "UPDATE installation SET value = $3 WHERE name = $1 AND value = $2", name, was, shared)
}
