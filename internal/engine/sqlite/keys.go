package sqlite

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Bootstrap stores the key if there is none at all, and reports whether it did.
func (s *Store) Bootstrap(ctx context.Context, k engine.Key) (bool, error) {
	stored := false
	err := s.write(ctx, "store the first key", func(c *conn, _ int64) error {
		n, err := c.prepare(`
			INSERT INTO api_keys (id, tenant, role, name, hash, created_at, expires_at)
			SELECT ?, ?, ?, ?, ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM api_keys)`).
			text(k.ID).text(string(k.Tenant)).text(string(k.Role)).text(k.Name).bytes(k.Hash[:]).at(k.CreatedAt).at(k.ExpiresAt).exec()
		stored = n > 0
		return err
	})
	return stored && err == nil, err
}

const keysSQL = "SELECT id, tenant, role, name, hash, created_at, expires_at, revoked_at, used_at FROM api_keys"

func readKey(r *row) engine.Key {
	k := engine.Key{ID: r.text(), Tenant: tenant.ID(r.text()), Role: tenant.Role(r.text()), Name: r.text()}
	copy(k.Hash[:], r.bytes())
	k.CreatedAt, k.ExpiresAt, k.RevokedAt, k.UsedAt = r.at(), r.at(), r.at(), r.at()
	return k
}

// one finds the key that a statement is about.
func (s *Store) one(ctx context.Context, find func(c *conn) *stmt) (k engine.Key, err error) {
	err = s.look(ctx, "find a key", func(c *conn) error {
		found, err := find(c).first(func(r *row) error {
			k = readKey(r)
			return nil
		})
		if err == nil && !found {
			return engine.ErrNotFound
		}
		return err
	})
	return k, err
}

// Key finds a key by its hash that is not revoked.
func (s *Store) Key(ctx context.Context, hash [32]byte) (engine.Key, error) {
	return s.one(ctx, func(c *conn) *stmt {
		return c.prepare(keysSQL + " WHERE hash = ? AND revoked_at IS NULL").bytes(hash[:])
	})
}

// KeyOf finds one of a tenant's keys by its id.
func (s *Store) KeyOf(ctx context.Context, t tenant.ID, id string) (engine.Key, error) {
	return s.one(ctx, func(c *conn) *stmt {
		return c.prepare(keysSQL + " WHERE tenant = ? AND id = ?").text(string(t)).text(id)
	})
}

// AddKey stores a key.
func (s *Store) AddKey(ctx context.Context, asks tenant.ID, k engine.Key, most int, i engine.Idempotency) (out engine.Created, err error) {
	err = s.write(ctx, "store a key", func(c *conn, now int64) error {
		var known bool
		var err error
		if out, known, err = recall(c, asks, &i, now); err != nil || known {
			engine.Unchanged(ctx)
			return err
		}
		n, err := c.prepare(`INSERT INTO api_keys (id, tenant, role, name, hash, created_at, expires_at) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7
			WHERE (SELECT count(*) FROM api_keys WHERE tenant = ?2 AND revoked_at IS NULL AND id <> ?1) < ?8
			ON CONFLICT (id) DO UPDATE SET name = name WHERE hash = excluded.hash`).
			text(k.ID).text(string(k.Tenant)).text(string(k.Role)).text(k.Name).bytes(k.Hash[:]).at(k.CreatedAt).at(k.ExpiresAt).int(int64(most)).exec()
		if err == nil && n == 0 {
			err = engine.ErrConflict
		}
		if err != nil {
			return err
		}
		return remember(c, asks, &i)
	})
	if err != nil {
		return engine.Created{}, err
	}
	return out, nil
}

// Keys lists the keys of a tenant, the newest first.
func (s *Store) Keys(ctx context.Context, t tenant.ID) ([]engine.Key, error) {
	var out []engine.Key
	err := s.look(ctx, "list keys", func(c *conn) error {
		return c.prepare(keysSQL + " WHERE tenant = ? ORDER BY created_at DESC, id DESC").text(string(t)).each(func(r *row) error {
			out = append(out, readKey(r))
			return nil
		})
	})
	return out, err
}

// RevokeKey revokes one of a tenant's keys, unless it is the last of role system that works.
func (s *Store) RevokeKey(ctx context.Context, t tenant.ID, id string, at time.Time) error {
	return s.write(ctx, "revoke a key", func(c *conn, now int64) error {
		n, err := c.prepare(`UPDATE api_keys AS k SET revoked_at = coalesce(revoked_at, ?3) WHERE tenant = ?1 AND id = ?2
			AND (role <> 'system' OR revoked_at IS NOT NULL OR EXISTS (
				SELECT 1 FROM api_keys o WHERE o.role = 'system' AND o.id <> k.id AND o.revoked_at IS NULL AND (o.expires_at IS NULL OR o.expires_at > ?4)))`).
			text(string(t)).text(id).at(at).int(now).exec()
		if err != nil || n > 0 {
			return err
		}
		found, err := c.prepare("SELECT 1 FROM api_keys WHERE tenant = ? AND id = ?").text(string(t)).text(id).first(nothing)
		switch {
		case err != nil:
			return err
		case found:
			return engine.ErrConflict
		}
		return engine.ErrNotFound
	})
}

// ExpireKey lets one of a tenant's keys expire at an instant, or sooner.
func (s *Store) ExpireKey(ctx context.Context, t tenant.ID, id string, at time.Time) error {
	return s.write(ctx, "let a key expire", func(c *conn, _ int64) error {
		n, err := c.prepare("UPDATE api_keys SET expires_at = min(coalesce(expires_at, ?3), ?3) WHERE tenant = ?1 AND id = ?2").text(string(t)).text(id).at(at).exec()
		if err == nil && n == 0 {
			return engine.ErrNotFound
		}
		return err
	})
}

// UseKeys notes when keys were last of use.
func (s *Store) UseKeys(ctx context.Context, used map[string]time.Time) error {
	return s.write(ctx, "note which keys were used", func(c *conn, _ int64) error {
		for id, at := range used {
			if _, err := c.prepare("UPDATE api_keys SET used_at = max(coalesce(used_at, 0), ?2) WHERE id = ?1").text(id).at(at).exec(); err != nil {
				return err
			}
		}
		return nil
	})
}

// HasTenant reports whether a tenant exists.
func (s *Store) HasTenant(ctx context.Context, t tenant.ID) (bool, error) {
	found := false
	err := s.look(ctx, "find a tenant", func(c *conn) (err error) {
		found, err = c.prepare("SELECT 1 FROM tenants WHERE id = ?").text(string(t)).first(nothing)
		return err
	})
	return found, err
}
