package sqlstore

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	keysSQL     = "SELECT id, tenant, role, name, hash, created_at, expires_at, revoked_at, used_at FROM api_keys"
	firstKeySQL = `
		INSERT INTO api_keys (id, tenant, role, name, hash, created_at, expires_at)
		SELECT $1, $2, $3, $4, $5, $6, $7 WHERE NOT EXISTS (SELECT 1 FROM api_keys)`
	// A key that is stored again under its own hash is the same key.
	addKeySQL = `
		INSERT INTO api_keys (id, tenant, role, name, hash, created_at, expires_at) SELECT $1, $2, $3, $4, $5, $6, $7
		WHERE (SELECT count(*) FROM api_keys WHERE tenant = $2 AND revoked_at IS NULL AND id <> $1) < $8
		ON CONFLICT (id) DO UPDATE SET name = api_keys.name WHERE api_keys.hash = excluded.hash`
	// The last valid key of role system cannot be revoked.
	revokeKeySQL = `
		UPDATE api_keys AS k SET revoked_at = coalesce(revoked_at, $3) WHERE tenant = $1 AND id = $2
		AND (role <> 'system' OR revoked_at IS NOT NULL OR EXISTS (
			SELECT 1 FROM api_keys o WHERE o.role = 'system' AND o.id <> k.id AND o.revoked_at IS NULL AND (o.expires_at IS NULL OR o.expires_at > $4)))`
	expireKeySQL = "UPDATE api_keys SET expires_at = CASE WHEN expires_at < $3 THEN expires_at ELSE $3 END WHERE tenant = $1 AND id = $2"
	useKeySQL    = "UPDATE api_keys SET used_at = $2 WHERE id = $1 AND (used_at IS NULL OR used_at < $2)"
)

func scanKey(r Row) (k engine.Key, err error) {
	err = r.Scan(&k.ID, (*string)(&k.Tenant), (*string)(&k.Role), &k.Name, &k.Hash, &k.CreatedAt, &k.ExpiresAt, &k.RevokedAt, &k.UsedAt)
	return k, err
}

// Bootstrap stores the key if there is none at all, and reports whether it did.
func (s keys) Bootstrap(ctx context.Context, k engine.Key) (stored bool, err error) {
	err = s.db.Write(ctx, "store the first key", func(tx Tx) error {
		if err := tx.LockTable("api_keys"); err != nil {
			return err
		}
		n, err := tx.Exec(firstKeySQL, k.ID, string(k.Tenant), string(k.Role), k.Name, k.Hash[:], k.CreatedAt, k.ExpiresAt)
		stored = n > 0
		return err
	})
	return stored && err == nil, err
}

// Key finds a key by its hash that is not revoked.
func (s keys) Key(ctx context.Context, hash [32]byte) (engine.Key, error) {
	return readOne(ctx, s.db, "find a key", scanKey, keysSQL+" WHERE hash = $1 AND revoked_at IS NULL", hash[:])
}

// KeyOf finds one of a tenant's keys by its id.
func (s keys) KeyOf(ctx context.Context, t tenant.ID, id string) (engine.Key, error) {
	return readOne(ctx, s.db, "find a key", scanKey, keysSQL+" WHERE tenant = $1 AND id = $2", string(t), id)
}

// Keys lists the keys of a tenant, newest first.
func (s keys) Keys(ctx context.Context, t tenant.ID) ([]engine.Key, error) {
	return readAll(ctx, s.db, "list keys", scanKey, keysSQL+" WHERE tenant = $1 ORDER BY created_at DESC, id DESC", string(t))
}

// AddKey stores a key, unless the tenant has the maximum number.
func (s keys) AddKey(ctx context.Context, asks tenant.ID, k engine.Key, most int, i engine.Idempotency, e *audit.Entry) (engine.Created, error) {
	return create(ctx, s.db, "store a key", e, asks, i, func(tx Tx) error { return addKey(tx, &k, most) })
}

func addKey(tx Tx, k *engine.Key, most int) error {
	if err := tx.LockTable("api_keys"); err != nil {
		return err
	}
	return changeOne(tx, engine.ErrConflict, addKeySQL, k.ID, string(k.Tenant), string(k.Role), k.Name, k.Hash[:], k.CreatedAt, k.ExpiresAt, most)
}

// RotateKey stores a key and makes the one that it replaces expire.
func (s keys) RotateKey(ctx context.Context, asks tenant.ID, k engine.Key, most int, old engine.Replaced, i engine.Idempotency, e *audit.Entry) (engine.Created, error) {
	return create(ctx, s.db, "rotate a key", e, asks, i, func(tx Tx) error {
		if err := addKey(tx, &k, most); err != nil {
			return err
		}
		if err := changeOne(tx, engine.ErrNotFound, expireKeySQL, string(old.Tenant), old.ID, old.Until); err != nil {
			return err
		}
		return tx.Record(&old.Entry)
	})
}

// RevokeKey revokes one of a tenant's keys, unless it is the last valid one of role system.
func (s keys) RevokeKey(ctx context.Context, t tenant.ID, id string, at time.Time, e *audit.Entry) error {
	return write(ctx, s.db, "revoke a key", e, func(tx Tx) error {
		if err := tx.LockTable("api_keys"); err != nil {
			return err
		}
		now, err := tx.Now()
		if err != nil {
			return err
		}
		n, err := tx.Exec(revokeKeySQL, string(t), id, at, now)
		if err != nil || n > 0 {
			return err
		}
		if _, err := one(tx, scanKey, keysSQL+" WHERE tenant = $1 AND id = $2", string(t), id); err != nil {
			return err
		}
		return engine.ErrConflict
	})
}

// ExpireKey makes one of a tenant's keys expire at an instant, or sooner.
func (s keys) ExpireKey(ctx context.Context, t tenant.ID, id string, at time.Time) error {
	return execOne(ctx, s.db, "let a key expire", nil, engine.ErrNotFound, expireKeySQL, string(t), id, at)
}

// UseKeys records when keys were last used. Rows are locked in the order of their ids, so that two servers never wait for
// each other.
func (s keys) UseKeys(ctx context.Context, used map[string]time.Time) error {
	var rows [][]any
	for _, id := range slices.Sorted(maps.Keys(used)) {
		rows = append(rows, []any{id, used[id]})
	}
	return s.db.Write(ctx, "note which keys were used", func(tx Tx) error { return tx.ExecEach(useKeySQL, rows) })
}

// HasTenant reports whether a tenant exists.
func (s keys) HasTenant(ctx context.Context, t tenant.ID) (has bool, err error) {
	err = s.db.Read(ctx, "find a tenant", func(tx Tx) (err error) {
		has, err = HasTenant(tx, t)
		return err
	})
	return has, err
}

// HasTenant reports whether a tenant exists.
func HasTenant(tx Tx, t tenant.ID) (bool, error) {
	return value[bool](tx, "SELECT true FROM tenants WHERE id = $1", string(t))
}
