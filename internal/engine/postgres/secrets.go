package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

var secretsTable = newTable("secrets",
	field{"tenant", pgtype.TextOID}, field{"name", pgtype.TextOID}, field{"job", pgtype.UUIDOID}, field{"version", pgtype.Int4OID},
	field{"created_at", pgtype.TimestamptzOID}, field{"updated_at", pgtype.TimestamptzOID}, field{"key_id", pgtype.TextOID}, field{"sealed", pgtype.ByteaOID})

const (
	secretColumns = "s.tenant, s.name, s.job, s.version, s.created_at, s.updated_at, s.key_id"
	ofPeople      = " FROM secrets s WHERE s.tenant = $1 AND s.job IS NULL"
	replaceSecret = `
		ON CONFLICT (tenant, name) DO UPDATE SET version = secrets.version + 1, updated_at = EXCLUDED.updated_at, key_id = EXCLUDED.key_id,
			sealed = EXCLUDED.sealed, expires_at = NULL`

	// Those of a tenant are counted under the lock of its row.
	lockOwnerSQL = "SELECT 1 FROM tenants WHERE id = $1 FOR NO KEY UPDATE"
	putSecretSQL = `
		INSERT INTO secrets (tenant, name, version, created_at, updated_at, key_id, sealed)
		SELECT $1, $2, 1, $3, $4, $5, $6
		WHERE (SELECT count(*)` + ofPeople + ` AND s.name <> $2) < $7` + replaceSecret + `
		RETURNING tenant, name, job, version, created_at, updated_at, key_id`
	// What came and went is known by what it left behind.
	secretStampSQL = "SELECT count(*), coalesce(sum(s.version), 0)::int8, coalesce(extract(epoch FROM max(s.updated_at)) * 1000000, 0)::int8," +
		" (SELECT count(*) FROM past_secrets WHERE tenant = $1 AND job IS NULL)," +
		" (SELECT coalesce(extract(epoch FROM max(dropped_at)) * 1000000, 0)::int8 FROM past_secrets WHERE tenant = $1 AND job IS NULL)" + ofPeople
	lackSecretsSQL = `
		SELECT u.name FROM unnest($2::text[]) WITH ORDINALITY u(name, n)
		WHERE NOT EXISTS (SELECT 1` + ofPeople + ` AND s.name = u.name) ORDER BY u.n`
	secretsOfSQL = `
		SELECT v.id, v.tenant, s.name, s.job, s.version, s.created_at, s.updated_at, s.key_id, s.sealed
		FROM unnest($1::uuid[]) u(id) CROSS JOIN LATERAL (SELECT id, tenant, job FROM live WHERE id = u.id UNION ALL SELECT id, tenant, job FROM (` + memberOf + `u.id` + inBundle + `) p) v
		LEFT JOIN LATERAL (
			SELECT tenant, name, job, version, created_at, updated_at, key_id, sealed FROM secrets WHERE tenant = v.tenant AND job = v.job AND job IS NOT NULL
			UNION ALL
			(SELECT ` + pastSecretColumns + ` FROM past_secrets WHERE tenant = v.tenant AND job = v.job AND job IS NOT NULL ORDER BY dropped_at + '0'::interval DESC LIMIT ` + pastOfJob + `)
		) s ON true
		ORDER BY v.id, s.name, s.version DESC` // the interval keeps it from going through all by their age
	pastOfJob         = "20"
	pastSecretColumns = "tenant, name, job, 0, dropped_at, dropped_at, key_id, sealed"
	pastSecretsSQL    = "SELECT " + pastSecretColumns + " FROM past_secrets WHERE tenant = $1 AND job IS NULL ORDER BY dropped_at DESC LIMIT $2"
	tidyPastSQL       = `
		DELETE FROM past_secrets WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM past_secrets WHERE dropped_at <= now() - make_interval(secs => $1) ORDER BY dropped_at LIMIT $2 FOR UPDATE SKIP LOCKED))`
	secretKeysSQL = "SELECT DISTINCT ON (s.key_id) " + secretColumns + ", s.sealed FROM secrets s ORDER BY s.key_id, s.tenant, s.name"
	notUnderSQL   = "SELECT " + secretColumns + `, s.sealed FROM secrets s
		WHERE (s.tenant, s.name) > ($1, $2) AND s.key_id <> $3 ORDER BY s.tenant, s.name LIMIT $4`
	resealSQL      = "UPDATE secrets SET key_id = $3, sealed = $4 WHERE tenant = $1 AND name = $2 AND sealed = $5"
	outliveJobSQL  = "UPDATE secrets SET expires_at = now() + make_interval(secs => $3) WHERE tenant = $1 AND job = $2 AND job IS NOT NULL AND expires_at IS NULL"
	dropManagedSQL = "DELETE FROM secrets WHERE tenant = $1 AND job = $2 AND name = ANY ($3::text[]) AND job IS NOT NULL"
	tidySecretsSQL = `
		DELETE FROM secrets WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM secrets WHERE expires_at IS NOT NULL AND expires_at <= now() ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED))`
)

func (s *sheet) secret(x *engine.Secret) {
	s.row()
	s.next().text(string(x.Tenant))
	s.next().text(x.Name)
	s.next().uuidOrNull(x.Job)
	s.next().int4(1)
	s.next().time(x.CreatedAt)
	s.next().time(x.UpdatedAt)
	s.next().text(x.Key)
	s.next().bytes(notNil(x.Sealed))
}

// queueManaged stores managed secrets with their jobs.
func queueManaged(q *pgx.Batch, xs ...[]engine.Secret) {
	rows := secretsTable.arrays()
	for _, list := range xs {
		for i := range list {
			rows.secret(&list[i])
		}
	}
	if rows.rows > 0 {
		q.Queue(secretsTable.insert+replaceSecret, rows.args()...)
	}
}

// managed are the managed secrets of the chosen creations.
func (b batch) managed(q *pgx.Batch) {
	for _, i := range b.chosen {
		queueManaged(q, b.all[i].Secrets)
	}
}

// hasManaged reports whether secrets are stored with the jobs.
func (b batch) hasManaged() bool {
	return slices.ContainsFunc(b.chosen, func(i int) bool { return len(b.all[i].Secrets) > 0 })
}

func secretTargets(x *engine.Secret) []any {
	return []any{(*string)(&x.Tenant), &x.Name, (*id)(&x.Job), &x.Version, at(&x.CreatedAt), at(&x.UpdatedAt), &x.Key}
}

func scanSecret(r pgx.CollectableRow) (x engine.Secret, err error) {
	err = r.Scan(secretTargets(&x)...)
	return x, err
}

func scanSealed(r pgx.CollectableRow) (x engine.Secret, err error) {
	err = r.Scan(append(secretTargets(&x), &x.Sealed)...)
	return x, err
}

// PutSecret stores a secret that a person named, as version 1 or the next one.
func (s *Store) PutSecret(ctx context.Context, x engine.Secret, most int) (engine.Secret, error) {
	var out []engine.Secret
	err := s.change(ctx, "store a secret", func(ctx context.Context, c writer) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) (err error) {
			if _, err := tx.Exec(ctx, lockOwnerSQL, string(x.Tenant)); err != nil {
				return err
			}
			rows, _ := tx.Query(ctx, putSecretSQL, string(x.Tenant), x.Name, x.CreatedAt, x.UpdatedAt, x.Key, notNil(x.Sealed), most)
			out, err = pgx.CollectRows(rows, scanSecret)
			return err
		})
	})
	if err != nil {
		return engine.Secret{}, err
	}
	if len(out) == 0 {
		return engine.Secret{}, engine.ErrFull
	}
	return out[0], nil
}

// Secret finds one, also a managed one.
func (s *Store) Secret(ctx context.Context, t tenant.ID, name string) (engine.Secret, error) {
	var out engine.Secret
	err := s.ask(ctx, "find a secret", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, "SELECT "+secretColumns+", s.sealed FROM secrets s WHERE s.tenant = $1 AND s.name = $2", string(t), name)
		var err error
		out, err = pgx.CollectExactlyOneRow(rows, scanSealed)
		return found(err)
	})
	return out, err
}

// Secrets lists those of a tenant that a person named, without their values.
func (s *Store) Secrets(ctx context.Context, t tenant.ID) ([]engine.Secret, error) {
	var out []engine.Secret
	err := s.look(ctx, "list secrets", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, "SELECT "+secretColumns+ofPeople+" ORDER BY s.name", string(t))
		var err error
		out, err = pgx.CollectRows(rows, scanSecret)
		return err
	})
	return out, err
}

// SealedSecrets lists the same with their values, and the stamp that they have.
func (s *Store) SealedSecrets(ctx context.Context, t tenant.ID) (out []engine.Secret, stamp string, err error) {
	err = s.ask(ctx, "read secrets", func(ctx context.Context, c *pgxpool.Conn) (err error) {
		if stamp, err = secretStamp(ctx, c, t); err != nil { // before the values: one that is too old is read again
			return err
		}
		rows, _ := c.Query(ctx, "SELECT "+secretColumns+", s.sealed"+ofPeople+" ORDER BY s.name", string(t))
		out, err = pgx.CollectRows(rows, scanSealed)
		return err
	})
	return out, stamp, err
}

// SecretStamp changes with every change of what SealedSecrets lists.
func (s *Store) SecretStamp(ctx context.Context, t tenant.ID) (stamp string, err error) {
	err = s.ask(ctx, "look whether secrets have changed", func(ctx context.Context, c *pgxpool.Conn) (err error) {
		stamp, err = secretStamp(ctx, c, t)
		return err
	})
	return stamp, err
}

func secretStamp(ctx context.Context, c *pgxpool.Conn, t tenant.ID) (string, error) {
	var n, versions, last, past, dropped int64
	err := c.QueryRow(ctx, secretStampSQL, string(t)).Scan(&n, &versions, &last, &past, &dropped)
	return fmt.Sprintf("%d.%d.%d.%d.%d", n, versions, last, past, dropped), err
}

// PastSecrets lists values that secrets had before they were changed or deleted.
func (s *Store) PastSecrets(ctx context.Context, t tenant.ID, limit int) ([]engine.Secret, error) {
	var out []engine.Secret
	err := s.ask(ctx, "read what secrets were", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, pastSecretsSQL, string(t), limit)
		var err error
		out, err = pgx.CollectRows(rows, scanSealed)
		return err
	})
	return out, err
}

// LackSecrets says which of the names are none that a person gave.
func (s *Store) LackSecrets(ctx context.Context, t tenant.ID, names []string) ([]string, error) {
	var out []string
	err := s.ask(ctx, "find secrets", func(ctx context.Context, c *pgxpool.Conn) (err error) {
		out, err = lackSecrets(ctx, c, t, names)
		return err
	})
	return out, err
}

func lackSecrets(ctx context.Context, c querier, t tenant.ID, names []string) ([]string, error) {
	rows, _ := c.Query(ctx, lackSecretsSQL, string(t), names)
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// querier is what asks: a connection, or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// DeleteSecret forgets one that a person named.
func (s *Store) DeleteSecret(ctx context.Context, t tenant.ID, name string) error {
	return s.change(ctx, "delete a secret", func(ctx context.Context, c writer) error {
		done, err := c.Exec(ctx, "DELETE"+ofPeople+" AND s.name = $2", string(t), name)
		if err == nil && done.RowsAffected() == 0 {
			return engine.ErrNotFound
		}
		return err
	})
}

// SecretsOf says whose executions are, and which managed secrets their jobs have.
func (s *Store) SecretsOf(ctx context.Context, ids []job.ExecutionID) ([]engine.SecretUse, error) {
	var out []engine.SecretUse
	list := uuids(len(ids))
	for _, x := range ids {
		list.uuid(x)
	}
	err := s.ask(ctx, "find the secrets of executions", func(ctx context.Context, c *pgxpool.Conn) error {
		out = nil
		rows, err := c.Query(ctx, secretsOfSQL, list)
		if err != nil {
			return err
		}
		for rows.Next() {
			var of job.ExecutionID
			var x engine.Secret
			var version *int
			into := []any{(*[16]byte)(&of), (*string)(&x.Tenant), (*text)(&x.Name), (*id)(&x.Job), &version, at(&x.CreatedAt), at(&x.UpdatedAt), (*text)(&x.Key), &x.Sealed}
			if err := rows.Scan(into...); err != nil {
				return err
			}
			if n := len(out); n == 0 || out[n-1].Execution != of {
				out = append(out, engine.SecretUse{Execution: of, Tenant: x.Tenant})
			}
			if version != nil {
				x.Version = *version
				last := &out[len(out)-1]
				last.Managed = append(last.Managed, x)
			}
		}
		return rows.Err()
	})
	return out, err
}

// SecretKeys lists one secret of each key that any is sealed under.
func (s *Store) SecretKeys(ctx context.Context) ([]engine.Secret, error) {
	var out []engine.Secret
	err := s.look(ctx, "find the keys of secrets", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, secretKeysSQL)
		var err error
		out, err = pgx.CollectRows(rows, scanSealed)
		return err
	})
	return out, err
}

// SecretsNotUnder lists up to limit secrets that are sealed under another key.
func (s *Store) SecretsNotUnder(ctx context.Context, key string, after engine.Secret, limit int) ([]engine.Secret, error) {
	var out []engine.Secret
	err := s.look(ctx, "find secrets under other keys", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, notUnderSQL, string(after.Tenant), after.Name, key, max(limit, 0))
		var err error
		out, err = pgx.CollectRows(rows, scanSealed)
		return err
	})
	return out, err
}

// ResealSecret replaces what a secret is sealed as, unless it is no longer as it was.
func (s *Store) ResealSecret(ctx context.Context, x engine.Secret, was []byte) error {
	return s.write(ctx, "seal a secret again", func(ctx context.Context, c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, resealSQL, string(x.Tenant), x.Name, x.Key, notNil(x.Sealed), was)
		return err
	})
}
