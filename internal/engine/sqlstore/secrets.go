package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	secretColumns = "tenant, name, job, version, created_at, updated_at, key_id"
	// namedSecrets are those that a person named; the others are managed with their jobs.
	namedSecrets = " FROM secrets /*sqlite: INDEXED BY secrets_named*/ WHERE tenant = $1 AND job IS NULL"

	putSecretSQL = `
		INSERT INTO secrets (tenant, name, version, created_at, updated_at, key_id, sealed)
		SELECT $1, $2, 1, $3, $4, $5, $6
		WHERE (SELECT count(*)` + namedSecrets + ` AND name <> $2) < $7
		ON CONFLICT (tenant, name) DO UPDATE SET version = secrets.version + 1, updated_at = excluded.updated_at, key_id = excluded.key_id,
			sealed = excluded.sealed, expires_at = NULL
		RETURNING ` + secretColumns
	// A secret that was added and removed is known by what it left behind.
	secretStampSQL = `SELECT count(*), CAST(coalesce(sum(version), 0) AS bigint), max(updated_at),
		(SELECT /*postgres: count(*)*//*sqlite: coalesce(max(rowid), 0)*/ FROM past_secrets /*sqlite: INDEXED BY past_secrets_whose*/ WHERE tenant = $1 AND job IS NULL),
		(SELECT max(dropped_at) FROM past_secrets WHERE tenant = $1 AND job IS NULL)` + namedSecrets
	foundSecretsSQL = `SELECT u.name FROM /*postgres: unnest($2::text[]) u(name)*//*sqlite: (SELECT value AS name FROM json_each($2)) u*/
		WHERE EXISTS (SELECT 1 FROM secrets s WHERE s.tenant = $1 AND s.name = u.name AND s.job IS NULL /*postgres: OFFSET 0*/)`
	pastSecretsSQL = `SELECT tenant, name, job, 0, dropped_at, dropped_at, key_id, sealed FROM past_secrets WHERE tenant = $1 AND job IS NULL
		ORDER BY dropped_at DESC/*sqlite: , rowid DESC*/ LIMIT $2`
	// It goes from key to key by their index: there are few keys and very many secrets.
	secretKeysSQL = `WITH RECURSIVE k(id) AS (
			SELECT min(key_id) FROM secrets UNION ALL SELECT (SELECT min(s.key_id) FROM secrets s WHERE s.key_id > k.id) FROM k WHERE k.id IS NOT NULL)
		SELECT ` + secretColumns + `, sealed FROM k /*postgres: CROSS JOIN LATERAL (SELECT * FROM secrets WHERE key_id = k.id LIMIT 1) s*/
		/*sqlite: JOIN secrets s ON s.rowid = (SELECT rowid FROM secrets WHERE key_id = k.id LIMIT 1)*/ WHERE k.id IS NOT NULL ORDER BY k.id`
	secretsNotUnderSQL = "SELECT " + secretColumns + ", sealed FROM secrets WHERE (tenant, name) > ($1, $2) AND key_id <> $3 ORDER BY tenant, name LIMIT $4"
	resealSecretSQL    = "UPDATE secrets SET key_id = $3, sealed = $4 WHERE tenant = $1 AND name = $2 AND sealed = $5"
)

func secretTargets(x *engine.Secret) []any {
	return []any{(*string)(&x.Tenant), &x.Name, (*[16]byte)(&x.Job), &x.Version, &x.CreatedAt, &x.UpdatedAt, &x.Key}
}

func scanSecret(r Row) (x engine.Secret, err error) {
	err = r.Scan(secretTargets(&x)...)
	return x, err
}

func scanSealed(r Row) (x engine.Secret, err error) {
	err = r.Scan(append(secretTargets(&x), &x.Sealed)...)
	return x, err
}

// PutSecret stores a secret that a person named, as version 1 or the next one. It locks the tenant to count its secrets.
func (s secrets) PutSecret(ctx context.Context, x engine.Secret, most int, e *audit.Entry) (out engine.Secret, err error) {
	err = write(ctx, s.db, "store a secret", e, func(tx Tx) error {
		if err := tx.LockTenant(x.Tenant); err != nil {
			return err
		}
		rows, err := all(tx, scanSecret, putSecretSQL, string(x.Tenant), x.Name, x.CreatedAt, x.UpdatedAt, x.Key, x.Sealed, most)
		if err == nil && len(rows) == 0 {
			return engine.ErrFull
		}
		if err == nil {
			out = rows[0]
		}
		return err
	})
	return out, err
}

// Secret finds a secret, whether a person named it or it is managed.
func (s secrets) Secret(ctx context.Context, t tenant.ID, name string) (out engine.Secret, err error) {
	err = s.db.Ask(ctx, "find a secret", func(tx Tx) (err error) {
		out, err = one(tx, scanSealed, "SELECT "+secretColumns+", sealed FROM secrets WHERE tenant = $1 AND name = $2", string(t), name)
		return err
	})
	return out, err
}

// Secrets lists a tenant's secrets that a person named, without their values.
func (s secrets) Secrets(ctx context.Context, t tenant.ID) ([]engine.Secret, error) {
	return readAll(ctx, s.db, "list secrets", scanSecret, "SELECT "+secretColumns+namedSecrets+" ORDER BY name", string(t))
}

// SealedSecrets lists the same with their values, and their stamp.
func (s secrets) SealedSecrets(ctx context.Context, t tenant.ID) (out []engine.Secret, stamp string, err error) {
	err = s.db.Ask(ctx, "read secrets", func(tx Tx) (err error) {
		if stamp, err = secretStamp(tx, t); err != nil { // before the values: a stamp that is too old makes the caller read again
			return err
		}
		out, err = all(tx, scanSealed, "SELECT "+secretColumns+", sealed"+namedSecrets+" ORDER BY name", string(t))
		return err
	})
	return out, stamp, err
}

// SecretStamp changes with every change of what SealedSecrets lists.
func (s secrets) SecretStamp(ctx context.Context, t tenant.ID) (stamp string, err error) {
	err = s.db.Ask(ctx, "look whether secrets have changed", func(tx Tx) (err error) {
		stamp, err = secretStamp(tx, t)
		return err
	})
	return stamp, err
}

func secretStamp(tx Tx, t tenant.ID) (string, error) {
	return one(tx, func(r Row) (string, error) {
		var n, versions, past int64
		var updated, dropped time.Time
		err := r.Scan(&n, &versions, &updated, &past, &dropped)
		return fmt.Sprintf("%d.%d.%d.%d.%d", n, versions, updated.UnixMicro(), past, dropped.UnixMicro()), err
	}, secretStampSQL, string(t))
}

// PastSecrets lists earlier values of secrets from before they were changed or deleted.
func (s secrets) PastSecrets(ctx context.Context, t tenant.ID, limit int) (out []engine.Secret, err error) {
	err = s.db.Ask(ctx, "read what secrets were", func(tx Tx) (err error) {
		out, err = all(tx, scanSealed, pastSecretsSQL, string(t), limit)
		return err
	})
	return out, err
}

// LackSecrets returns the names that no person gave to a secret.
func (s secrets) LackSecrets(ctx context.Context, t tenant.ID, names []string) (out []string, err error) {
	err = s.db.Ask(ctx, "find secrets", func(tx Tx) (err error) {
		out, err = LackSecrets(tx, t, names)
		return err
	})
	return out, err
}

// LackSecrets returns the names that no person gave to a secret.
func LackSecrets(tx Tx, t tenant.ID, names []string) (out []string, err error) {
	found, err := all(tx, func(r Row) (name string, err error) { return name, r.Scan(&name) }, foundSecretsSQL, string(t), names)
	for _, name := range names {
		if !slices.Contains(found, name) {
			out = append(out, name)
		}
	}
	return out, err
}

// DeleteSecret deletes a secret that a person named.
func (s secrets) DeleteSecret(ctx context.Context, t tenant.ID, name string, e *audit.Entry) error {
	return execOne(ctx, s.db, "delete a secret", e, engine.ErrNotFound, "DELETE"+namedSecrets+" AND name = $2", string(t), name)
}

// SecretKeys returns one secret of each key that secrets are sealed under.
func (s secrets) SecretKeys(ctx context.Context) ([]engine.Secret, error) {
	return readAll(ctx, s.db, "find the keys of secrets", scanSealed, secretKeysSQL)
}

// SecretsNotUnder lists up to limit secrets, behind a given one, that are sealed under another key.
func (s secrets) SecretsNotUnder(ctx context.Context, key string, after engine.Secret, limit int) ([]engine.Secret, error) {
	return readAll(ctx, s.db, "find secrets under other keys", scanSealed, secretsNotUnderSQL, string(after.Tenant), after.Name, key, max(limit, 0))
}

// ResealSecret replaces the sealed form of a secret, unless it has changed.
func (s secrets) ResealSecret(ctx context.Context, x engine.Secret, was []byte) error {
	return exec(ctx, s.db, "seal a secret again", nil, resealSecretSQL, string(x.Tenant), x.Name, x.Key, x.Sealed, was)
}
