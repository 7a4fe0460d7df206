package postgres

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	addSignInSQL = `
		INSERT INTO sign_ins (hash, id, tenant, role, name, key_id, created_at, used_at, ends_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (hash) DO NOTHING`
	oldSignInsSQL = `
		DELETE FROM sign_ins WHERE hash IN (
			SELECT hash FROM sign_ins WHERE tenant = $1 AND key_id = $2 AND name = $3 ORDER BY created_at DESC, hash OFFSET $4 FOR UPDATE SKIP LOCKED)`
	signInSQL = `
		SELECT s.hash, s.id, s.tenant, s.role, s.name, s.key_id, s.created_at, s.used_at, least(s.ends_at, k.expires_at)
		FROM sign_ins s LEFT JOIN api_keys k ON k.id = s.key_id
		WHERE s.hash = $1 AND (s.key_id = '' OR k.id IS NOT NULL AND k.revoked_at IS NULL)`
	signInColumns = `hash, id, tenant, role, name, key_id, created_at, used_at, least(ends_at, (SELECT k.expires_at FROM api_keys k WHERE k.id = sign_ins.key_id))`
)

// AddSignIn stores what a browser is signed in as. What another is deleting already is passed over.
func (s *Store) AddSignIn(ctx context.Context, x engine.SignIn, most int) error {
	return s.change(ctx, "store a sign-in", func(ctx context.Context, c writer) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "DELETE FROM sign_ins WHERE hash IN (SELECT hash FROM sign_ins WHERE ends_at <= now() FOR UPDATE SKIP LOCKED)"); err != nil {
				return err
			}
			done, err := tx.Exec(ctx, addSignInSQL, x.Hash[:], x.ID, string(x.Tenant), string(x.Role), x.Name, x.Key, x.CreatedAt, x.UsedAt, x.EndsAt)
			if err != nil {
				return err
			}
			if done.RowsAffected() == 0 { // it was stored before
				engine.Unchanged(ctx)
				return nil
			}
			_, err = tx.Exec(ctx, oldSignInsSQL, string(x.Tenant), x.Key, x.Name, most)
			return err
		})
	})
}

// SignIn finds one by its hash.
func (s *Store) SignIn(ctx context.Context, hash [32]byte) (x engine.SignIn, err error) {
	err = s.look(ctx, "find a sign-in", func(ctx context.Context, c *pgxpool.Conn) error {
		x, err = readSignIn(c.QueryRow(ctx, signInSQL, hash[:]))
		return found(err)
	})
	return x, err
}

func readSignIn(r pgx.Row) (x engine.SignIn, err error) {
	err = r.Scan((*digest)(&x.Hash), &x.ID, (*string)(&x.Tenant), (*string)(&x.Role), &x.Name, &x.Key, at(&x.CreatedAt), at(&x.UsedAt), at(&x.EndsAt))
	return x, err
}

// FindSignIns lists those of a tenant that have not ended. There are few of one: they are sorted each time.
func (s *Store) FindSignIns(ctx context.Context, f engine.SignInFilter, p engine.Page) (engine.Listed[engine.SignIn], error) {
	l := listing[engine.SignIn]{table: "sign_ins", key: []string{"created_at", "hash"}, scan: func(r pgx.CollectableRow) (engine.SignIn, error) { return readSignIn(r) }}
	l.where = "tenant = " + l.params.add(string(f.Tenant))
	if f.ID != "" {
		l.where += " AND id = " + l.params.add(plain(f.ID))
	}
	l.found = len(l.params)
	now := l.params.add(f.Now)
	l.also = " AND ends_at > " + now + " AND used_at > " + l.params.add(f.UsedAfter) + ` AND (key_id = '' OR EXISTS (
		SELECT 1 FROM api_keys k WHERE k.id = sign_ins.key_id AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > ` + now + ")))"
	l.read = func(where, limit string) string {
		return "SELECT " + signInColumns + " FROM sign_ins WHERE " + where + " LIMIT " + limit
	}
	l.keys = func(at engine.Place, ps *params) string { return "(" + ps.add(at.At) + ", " + ps.add(at.ID[:]) + ")" }
	l.place = func(r pgx.Row) (engine.Place, error) {
		var instant time.Time
		var hash []byte
		err := r.Scan(at(&instant), &hash)
		return engine.SignInPlace(instant, hash), err
	}
	return listed(ctx, s, "list sign-ins", p, (*engine.SignIn).Place, l, nil)
}

// EndSignIn forgets one.
func (s *Store) EndSignIn(ctx context.Context, hash [32]byte) error {
	return s.change(ctx, "end a sign-in", func(ctx context.Context, c writer) error {
		done, err := c.Exec(ctx, "DELETE FROM sign_ins WHERE hash = $1", hash[:])
		if err == nil && done.RowsAffected() == 0 {
			return engine.ErrNotFound
		}
		return err
	})
}

// UseSignIns notes when some were last of use.
func (s *Store) UseSignIns(ctx context.Context, used map[[32]byte]time.Time) error {
	return s.write(ctx, "note which sign-ins were used", func(ctx context.Context, c *pgxpool.Conn) error {
		// In one order, so that two servers do not lock each other out.
		hashes := slices.SortedFunc(maps.Keys(used), func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) })
		sums, ats := make([][]byte, len(hashes)), make([]time.Time, len(hashes))
		for i, h := range hashes {
			sums[i], ats[i] = h[:], used[h]
		}
		_, err := c.Exec(ctx, `UPDATE sign_ins s SET used_at = greatest(s.used_at, u.at) FROM unnest($1::bytea[], $2::timestamptz[]) u(hash, at) WHERE s.hash = u.hash`, sums, ats)
		return err
	})
}
