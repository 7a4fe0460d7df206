package sqlite

import (
	"context"

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

// Key finds a key by its hash.
func (s *Store) Key(ctx context.Context, hash [32]byte) (engine.Key, error) {
	k := engine.Key{Hash: hash}
	err := s.look(ctx, "find a key", func(c *conn) error {
		found, err := c.prepare("SELECT id, tenant, role, name, created_at, expires_at FROM api_keys WHERE hash = ?").bytes(hash[:]).first(func(r *row) error {
			k.ID, k.Tenant, k.Role, k.Name, k.CreatedAt, k.ExpiresAt = r.text(), tenant.ID(r.text()), tenant.Role(r.text()), r.text(), r.at(), r.at()
			return nil
		})
		if err == nil && !found {
			return engine.ErrNotFound
		}
		return err
	})
	if err != nil {
		return engine.Key{}, err
	}
	return k, nil
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
