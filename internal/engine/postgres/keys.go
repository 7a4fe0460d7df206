package postgres

import (
	"context"
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

// Key finds a key by its hash.
func (s *Store) Key(ctx context.Context, hash [32]byte) (engine.Key, error) {
	k := engine.Key{Hash: hash}
	err := s.look(ctx, "find a key", func(ctx context.Context, c *pgxpool.Conn) error {
		err := c.QueryRow(ctx, "SELECT id, tenant, role, name, created_at, expires_at FROM api_keys WHERE hash = $1", hash[:]).
			Scan(&k.ID, (*string)(&k.Tenant), (*string)(&k.Role), &k.Name, at(&k.CreatedAt), at(&k.ExpiresAt))
		return found(err)
	})
	if err != nil {
		return engine.Key{}, err
	}
	return k, nil
}

// HasTenant reports whether a tenant exists.
func (s *Store) HasTenant(ctx context.Context, t tenant.ID) (bool, error) {
	var exists bool
	err := s.look(ctx, "find a tenant", func(ctx context.Context, c *pgxpool.Conn) error {
		return c.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM tenants WHERE id = $1)", string(t)).Scan(&exists)
	})
	return exists, err
}
