package postgres

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Bootstrap stores the key if there is none at all, and reports whether it did.
func (s *Store) Bootstrap(ctx context.Context, k engine.Key) (bool, error) {
	var stored bool
	err := s.write(ctx, "store the first key", func(ctx context.Context, c *pgxpool.Conn) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "LOCK TABLE api_keys IN SHARE ROW EXCLUSIVE MODE"); err != nil {
				return err
			}
			done, err := tx.Exec(ctx, `
				INSERT INTO api_keys (id, tenant, role, name, hash, created_at, expires_at)
				SELECT $1, $2, $3, $4, $5, $6, $7 WHERE NOT EXISTS (SELECT 1 FROM api_keys)`,
				k.ID, string(k.Tenant), string(k.Role), k.Name, k.Hash[:], k.CreatedAt, orNever(k.ExpiresAt))
			stored = done.RowsAffected() == 1
			return err
		})
	})
	return stored && err == nil, err
}

// orNever makes NULL of the zero instant.
func orNever(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

const keysSQL = "SELECT id, tenant, role, name, hash, created_at, expires_at, revoked_at, used_at FROM api_keys"

func scanKey(row pgx.CollectableRow) (k engine.Key, err error) {
	var hash []byte
	err = row.Scan(&k.ID, (*string)(&k.Tenant), (*string)(&k.Role), &k.Name, &hash, at(&k.CreatedAt), at(&k.ExpiresAt), at(&k.RevokedAt), at(&k.UsedAt))
	copy(k.Hash[:], hash)
	return k, err
}

// one finds the key that a statement is about.
func (s *Store) one(ctx context.Context, sql string, args ...any) (k engine.Key, err error) {
	err = s.look(ctx, "find a key", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, sql, args...)
		var err error
		k, err = pgx.CollectExactlyOneRow(rows, scanKey)
		return found(err)
	})
	return k, err
}

// Key finds a key by its hash that is not revoked.
func (s *Store) Key(ctx context.Context, hash [32]byte) (engine.Key, error) {
	return s.one(ctx, keysSQL+" WHERE hash = $1 AND revoked_at IS NULL", hash[:])
}

// KeyOf finds one of a tenant's keys by its id.
func (s *Store) KeyOf(ctx context.Context, t tenant.ID, id string) (engine.Key, error) {
	return s.one(ctx, keysSQL+" WHERE tenant = $1 AND id = $2", string(t), id)
}

// lockKeys makes what changes keys wait for each other, so that what they count is so.
func lockKeys(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "LOCK TABLE api_keys IN SHARE ROW EXCLUSIVE MODE")
	return err
}

// AddKey stores a key.
func (s *Store) AddKey(ctx context.Context, asks tenant.ID, k engine.Key, most int, i engine.Idempotency) (engine.Created, error) {
	var out engine.Created
	err := s.change(ctx, "store a key", func(ctx context.Context, c writer) error {
		out = engine.Created{}
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			keys := batch{all: []engine.Creation{{Tenant: asks, Idempotency: i}}, chosen: []int{0}}
			known, err := keys.claimKeys(ctx, tx)
			if err != nil {
				return err
			}
			if prior, ok := known[scoped{asks, i.Key}]; ok {
				if out.Reused = prior.hash != i.Hash; !out.Reused {
					out.Replay = prior.answer
				}
				engine.Unchanged(ctx)
				return nil
			}
			if err := lockKeys(ctx, tx); err != nil {
				return err
			}
			done, err := tx.Exec(ctx, `INSERT INTO api_keys (id, tenant, role, name, hash, created_at, expires_at) SELECT $1, $2, $3, $4, $5, $6, $7
				WHERE (SELECT count(*) FROM api_keys WHERE tenant = $2 AND revoked_at IS NULL AND id <> $1) < $8
				ON CONFLICT (id) DO UPDATE SET name = api_keys.name WHERE api_keys.hash = excluded.hash`,
				k.ID, string(k.Tenant), string(k.Role), k.Name, k.Hash[:], k.CreatedAt, orNever(k.ExpiresAt), most)
			if err == nil && done.RowsAffected() == 0 {
				return engine.ErrConflict
			}
			return err
		})
	})
	return out, err
}

// Keys lists the keys of a tenant, the newest first.
func (s *Store) Keys(ctx context.Context, t tenant.ID) (out []engine.Key, err error) {
	err = s.look(ctx, "list keys", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, keysSQL+" WHERE tenant = $1 ORDER BY created_at DESC, id DESC", string(t))
		var err error
		out, err = pgx.CollectRows(rows, scanKey)
		return err
	})
	return out, err
}

// RevokeKey revokes one of a tenant's keys, unless it is the last of role system that works.
func (s *Store) RevokeKey(ctx context.Context, t tenant.ID, id string, at time.Time) error {
	return s.change(ctx, "revoke a key", func(ctx context.Context, c writer) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			if err := lockKeys(ctx, tx); err != nil {
				return err
			}
			done, err := tx.Exec(ctx, `UPDATE api_keys k SET revoked_at = coalesce(revoked_at, $3) WHERE tenant = $1 AND id = $2
				AND (role <> 'system' OR revoked_at IS NOT NULL OR EXISTS (
					SELECT 1 FROM api_keys o WHERE o.role = 'system' AND o.id <> k.id AND o.revoked_at IS NULL AND (o.expires_at IS NULL OR o.expires_at > now())))`,
				string(t), id, at)
			if err != nil || done.RowsAffected() > 0 {
				return err
			}
			var exists bool
			if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM api_keys WHERE tenant = $1 AND id = $2)", string(t), id).Scan(&exists); err != nil {
				return err
			}
			if exists {
				return engine.ErrConflict
			}
			return engine.ErrNotFound
		})
	})
}

// ExpireKey lets one of a tenant's keys expire at an instant, or sooner.
func (s *Store) ExpireKey(ctx context.Context, t tenant.ID, id string, at time.Time) error {
	return s.change(ctx, "let a key expire", func(ctx context.Context, c writer) error {
		done, err := c.Exec(ctx, "UPDATE api_keys SET expires_at = least(expires_at, $3) WHERE tenant = $1 AND id = $2", string(t), id, at)
		if err == nil && done.RowsAffected() == 0 {
			return engine.ErrNotFound
		}
		return err
	})
}

// UseKeys notes when keys were last of use.
func (s *Store) UseKeys(ctx context.Context, used map[string]time.Time) error {
	return s.write(ctx, "note which keys were used", func(ctx context.Context, c *pgxpool.Conn) error {
		ids := slices.Sorted(maps.Keys(used)) // in one order, so that two servers do not lock each other out
		ats := make([]time.Time, len(ids))
		for i, id := range ids {
			ats[i] = used[id]
		}
		_, err := c.Exec(ctx, `UPDATE api_keys k SET used_at = greatest(k.used_at, u.at) FROM unnest($1::text[], $2::timestamptz[]) u(id, at) WHERE k.id = u.id`, ids, ats)
		return err
	})
}

// HasTenant reports whether a tenant exists.
func (s *Store) HasTenant(ctx context.Context, t tenant.ID) (bool, error) {
	var exists bool
	err := s.look(ctx, "find a tenant", func(ctx context.Context, c *pgxpool.Conn) error {
		return c.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM tenants WHERE id = $1)", string(t)).Scan(&exists)
	})
	return exists, err
}
