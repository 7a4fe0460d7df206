package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

var secretsTable = newTable("secrets",
	field{"tenant", pgtype.TextOID}, field{"name", pgtype.TextOID}, field{"job", pgtype.UUIDOID}, field{"version", pgtype.Int4OID},
	field{"created_at", pgtype.TimestamptzOID}, field{"updated_at", pgtype.TimestamptzOID}, field{"key_id", pgtype.TextOID}, field{"sealed", pgtype.ByteaOID})

const (
	replaceSecret = `
		ON CONFLICT (tenant, name) DO UPDATE SET version = secrets.version + 1, updated_at = EXCLUDED.updated_at, key_id = EXCLUDED.key_id,
			sealed = EXCLUDED.sealed, expires_at = NULL`

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
	tidyPastSQL       = `
		DELETE FROM past_secrets WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM past_secrets WHERE dropped_at <= now() - make_interval(secs => $1) ORDER BY dropped_at LIMIT $2 FOR UPDATE SKIP LOCKED))`
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

// managed returns the managed secrets of the chosen creations.
func (b batch) managed(q *pgx.Batch) {
	for _, i := range b.chosen {
		queueManaged(q, b.all[i].Secrets)
	}
}

// hasManaged reports whether secrets are stored with the jobs.
func (b batch) hasManaged() bool {
	return slices.ContainsFunc(b.chosen, func(i int) bool { return len(b.all[i].Secrets) > 0 })
}

// querier runs queries: a connection, or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// SecretsOf returns the tenants and jobs of executions, and the managed secrets of their jobs.
func (s *reads) SecretsOf(ctx context.Context, ids []job.ExecutionID) ([]engine.SecretUse, error) {
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
