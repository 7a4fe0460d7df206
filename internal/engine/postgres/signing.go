package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	addSecretSQL = `
		INSERT INTO signing_secrets (tenant, id, created_at, expires_at, prefix, sealed)
		SELECT $1, $2, $3, $4, $5, $6 WHERE (SELECT count(*) FROM signing_secrets WHERE tenant = $1) < $7`
	endOthersSQL = `
		UPDATE signing_secrets SET expires_at = $1 WHERE tenant = $2 AND id <> $3 AND (expires_at IS NULL OR expires_at > $1)`
	seedSecretSQL = `
		INSERT INTO signing_secrets (tenant, id, created_at, expires_at, prefix, sealed)
		SELECT $1, $2, $3, NULL, '', $4 WHERE NOT EXISTS (SELECT 1 FROM signing_secrets WHERE tenant = $1 AND (expires_at IS NULL OR expires_at > now()))`
	showSecretSQL = `
		UPDATE signing_secrets SET prefix = $3 WHERE tenant = $1 AND id = $2 AND prefix = '' AND (expires_at IS NULL OR expires_at > now())`
	secretsSQL = `
		SELECT tenant, id, created_at, expires_at, prefix, sealed FROM signing_secrets
		WHERE $1 IN ('', tenant) AND (expires_at IS NULL OR expires_at > now()) ORDER BY created_at DESC, id DESC`

	// Rows are locked in the order of their ids, as wherever several are.
	parkSQL = `
		WITH parked AS (
			UPDATE live v SET parked_until = f.until FROM unnest($1::uuid[], $2::int8[], $3::timestamptz[], $4::uuid[]) f(id, token, until, worker)
			WHERE v.id = ANY (ARRAY[f.id]) AND v.lease = f.token AND v.lease > 0 AND (f.worker IS NULL OR v.worker = f.worker)
			RETURNING v.id, v.lease, v.tenant, v.attempt, v.worker, v.cancel_at
		), told AS (
			INSERT INTO events (execution, kind, token, tenant, attempt, worker, at) SELECT id, 'parked', lease, tenant, attempt, worker, now() FROM parked
			ON CONFLICT (execution, kind, token) DO NOTHING
		)
		SELECT id, lease, worker, cancel_at IS NOT NULL FROM parked`
)

// AddSigningSecret stores a secret, and has the tenant's others end at an instant. The lock on the tenant makes one of
// two at once see the other.
func (s *Store) AddSigningSecret(ctx context.Context, x engine.SigningSecret, othersUntil time.Time) error {
	return s.change(ctx, "store a signing secret", func(ctx context.Context, c writer) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			t := string(x.Tenant)
			if _, err := tx.Exec(ctx, "SELECT 1 FROM tenants WHERE id = $1 FOR NO KEY UPDATE", t); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "DELETE FROM signing_secrets WHERE tenant = $1 AND expires_at <= now()", t); err != nil {
				return err
			}
			var known bool
			if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM signing_secrets WHERE tenant = $1 AND id = $2)", t, x.ID).Scan(&known); err != nil || known {
				engine.Unchanged(ctx)
				return err
			}
			done, err := tx.Exec(ctx, addSecretSQL, t, x.ID, x.CreatedAt, orNever(x.ExpiresAt), x.Prefix, notNil(x.Sealed), engine.MaxSigningSecrets)
			switch {
			case err != nil:
				return err
			case done.RowsAffected() == 0:
				return engine.ErrConflict
			}
			if _, err := tx.Exec(ctx, "DELETE FROM signing_secrets WHERE tenant = $1 AND id <> $2 AND prefix = ''", t, x.ID); err != nil {
				return err
			}
			_, err = tx.Exec(ctx, endOthersSQL, othersUntil, t, x.ID)
			return err
		})
	})
}

// SeedSigningSecret stores a secret that nobody has been shown, if the tenant has none in use. The lock on the tenant makes one
// of two at once see the other.
func (s *Store) SeedSigningSecret(ctx context.Context, x engine.SigningSecret) (made bool, err error) {
	err = s.change(ctx, "seed a signing secret", func(ctx context.Context, c writer) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			t := string(x.Tenant)
			if _, err := tx.Exec(ctx, "SELECT 1 FROM tenants WHERE id = $1 FOR NO KEY UPDATE", t); err != nil {
				return err
			}
			done, err := tx.Exec(ctx, seedSecretSQL, t, x.ID, x.CreatedAt, notNil(x.Sealed))
			if made = err == nil && done.RowsAffected() > 0; !made {
				engine.Unchanged(ctx)
			}
			return err
		})
	})
	return made, err
}

// ShowSigningSecret notes that a secret is shown to its tenant.
func (s *Store) ShowSigningSecret(ctx context.Context, t tenant.ID, id, prefix string) error {
	return s.change(ctx, "show a signing secret", func(ctx context.Context, c writer) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			done, err := tx.Exec(ctx, showSecretSQL, string(t), id, prefix)
			if err != nil || done.RowsAffected() > 0 {
				return err
			}
			var there bool
			err = tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM signing_secrets WHERE tenant = $1 AND id = $2 AND (expires_at IS NULL OR expires_at > now()))", string(t), id).Scan(&there)
			if err == nil && !there {
				return engine.ErrNotFound
			}
			if err == nil {
				err = engine.ErrConflict
			}
			return err
		})
	})
}

// SigningSecrets lists a tenant's that have not ended, the newest first.
func (s *Store) SigningSecrets(ctx context.Context, t tenant.ID) ([]engine.SigningSecret, error) {
	var out []engine.SigningSecret
	err := s.look(ctx, "list signing secrets", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, secretsSQL, string(t))
		var err error
		out, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (x engine.SigningSecret, err error) {
			err = r.Scan((*string)(&x.Tenant), &x.ID, at(&x.CreatedAt), at(&x.ExpiresAt), &x.Prefix, &x.Sealed)
			return x, err
		})
		return err
	})
	return out, err
}

// DeleteSigningSecret forgets one; ErrNotFound if there is none.
func (s *Store) DeleteSigningSecret(ctx context.Context, t tenant.ID, id string) error {
	return s.change(ctx, "delete a signing secret", func(ctx context.Context, c writer) error {
		done, err := c.Exec(ctx, "DELETE FROM signing_secrets WHERE tenant = $1 AND id = $2", string(t), id)
		if err == nil && done.RowsAffected() == 0 {
			return engine.ErrNotFound
		}
		return err
	})
}

// Share keeps a value under a name, unless there is one, and answers with the one that is kept.
func (s *Store) Share(ctx context.Context, name string, value []byte) (kept []byte, err error) {
	err = s.write(ctx, "share a value", func(ctx context.Context, c *pgxpool.Conn) error {
		if _, err := c.Exec(ctx, "INSERT INTO installation (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", name, notNil(value)); err != nil {
			return err
		}
		return c.QueryRow(ctx, "SELECT value FROM installation WHERE name = $1", name).Scan(&kept)
	})
	return kept, err
}

// ResealSigningSecret replaces what one is sealed as, unless it is no longer as it was.
func (s *Store) ResealSigningSecret(ctx context.Context, x engine.SigningSecret, was []byte) error {
	return s.write(ctx, "seal a signing secret anew", func(ctx context.Context, c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, "UPDATE signing_secrets SET sealed = $3 WHERE tenant = $1 AND id = $2 AND sealed = $4", string(x.Tenant), x.ID, notNil(x.Sealed), notNil(was))
		return err
	})
}

// Reshare replaces a shared value, unless it is no longer as it was.
func (s *Store) Reshare(ctx context.Context, name string, was, value []byte) error {
	return s.write(ctx, "share another value", func(ctx context.Context, c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, "UPDATE installation SET value = $3 WHERE name = $1 AND value = $2", name, notNil(was), notNil(value))
		return err
	})
}

// Park leaves executions to their targets, under their leases.
func (s *Store) Park(ctx context.Context, ps []engine.Parking) ([]job.Verdict, error) {
	if len(ps) == 0 {
		return nil, nil
	}
	ids, tokens, untils, workers := uuids(len(ps)), bigints(len(ps)), instants(len(ps)), uuids(len(ps))
	parking := make([]job.ExecutionID, 0, len(ps))
	for _, p := range sortedBy(ps, func(p engine.Parking) [16]byte { return p.Execution }) {
		parking = append(parking, p.Execution)
		ids.uuid(p.Execution)
		tokens.int8(int64(p.Token))
		untils.time(p.Until)
		workers.uuidOrNull(p.Worker)
	}
	out := make([]job.Verdict, len(ps))
	fs := make([]job.Finish, len(ps)) // as judge takes them
	err := s.write(ctx, "park", func(ctx context.Context, c *pgxpool.Conn) error {
		if err := unpack(ctx, s, c, parking...); err != nil {
			return err
		}
		rows, _ := c.Query(ctx, parkSQL, ids, tokens, untils, workers)
		parked := map[job.Lease]job.WorkerID{}
		var l job.Lease
		var w job.WorkerID
		var asked bool
		var over []job.ExecutionID // asked to stop before, and now there is nobody to ask
		if _, err := pgx.ForEachRow(rows, []any{(*[16]byte)(&l.Execution), (*int64)(&l.Token), (*id)(&w), &asked}, func() error {
			if parked[l] = w; asked {
				over = append(over, l.Execution)
			}
			return nil
		}); err != nil {
			return err
		}
		for _, x := range over {
			if err := withDays(ctx, c, func() error { _, err := c.Exec(ctx, cancelOneSQL, [16]byte(x), nil); return err }); err != nil {
				return err
			}
		}
		for i, p := range ps {
			fs[i] = job.Finish{Outcome: p.Outcome, Worker: p.Worker}
			w, ok := parked[p.Lease]
			out[i] = job.Verdict{Execution: p.Execution, Accepted: ok && (p.Worker == w || p.Worker == job.WorkerID{})}
		}
		return judge(ctx, c, fs, out)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
