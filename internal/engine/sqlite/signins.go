package sqlite

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	addSignInSQL = `
		INSERT INTO sign_ins (hash, id, tenant, role, name, key_id, created_at, used_at, ends_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (hash) DO NOTHING`
	oldSignInsSQL = `
		DELETE FROM sign_ins WHERE hash IN (
			SELECT hash FROM sign_ins WHERE tenant = ? AND key_id = ? AND name = ? ORDER BY created_at DESC, hash LIMIT -1 OFFSET ?)`
	signInSQL = `
		SELECT s.hash, s.id, s.tenant, s.role, s.name, s.key_id, s.created_at, s.used_at, min(s.ends_at, coalesce(k.expires_at, s.ends_at))
		FROM sign_ins s LEFT JOIN api_keys k ON k.id = s.key_id
		WHERE s.hash = ? AND (s.key_id = '' OR k.id IS NOT NULL AND k.revoked_at IS NULL)`
	signInColumns = `hash, id, tenant, role, name, key_id, created_at, used_at,
		min(ends_at, coalesce((SELECT k.expires_at FROM api_keys k WHERE k.id = sign_ins.key_id), ends_at))`
	signedIn = `ends_at > ? AND used_at > ? AND (key_id = '' OR EXISTS (
		SELECT 1 FROM api_keys k WHERE k.id = sign_ins.key_id AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > ?)))`
)

// AddSignIn stores what a browser is signed in as.
func (s *Store) AddSignIn(ctx context.Context, x engine.SignIn, most int) error {
	return s.write(ctx, "store a sign-in", func(c *conn, now int64) error {
		if _, err := c.prepare("DELETE FROM sign_ins WHERE ends_at <= ?").int(now).exec(); err != nil {
			return err
		}
		n, err := c.prepare(addSignInSQL).bytes(x.Hash[:]).text(x.ID).text(string(x.Tenant)).text(string(x.Role)).text(x.Name).text(x.Key).
			at(x.CreatedAt).at(x.UsedAt).at(x.EndsAt).exec()
		if err != nil {
			return err
		}
		if n == 0 { // it was stored before
			engine.Unchanged(ctx)
			return nil
		}
		_, err = c.prepare(oldSignInsSQL).text(string(x.Tenant)).text(x.Key).text(x.Name).int(int64(most)).exec()
		return err
	})
}

// SignIn finds one by its hash.
func (s *Store) SignIn(ctx context.Context, hash [32]byte) (x engine.SignIn, err error) {
	err = s.look(ctx, "find a sign-in", func(c *conn) error {
		found, err := c.prepare(signInSQL).bytes(hash[:]).first(func(r *row) (err error) {
			x, err = readSignIn(r)
			return err
		})
		if err == nil && !found {
			return engine.ErrNotFound
		}
		return err
	})
	return x, err
}

func readSignIn(r *row) (x engine.SignIn, _ error) {
	copy(x.Hash[:], r.bytes())
	x.ID, x.Tenant, x.Role, x.Name, x.Key = r.text(), tenant.ID(r.text()), tenant.Role(r.text()), r.text(), r.text()
	x.CreatedAt, x.UsedAt, x.EndsAt = r.at(), r.at(), r.at()
	return x, nil
}

// FindSignIns lists those of a tenant that have not ended. There are few of one: they are sorted each time.
func (s *Store) FindSignIns(ctx context.Context, f engine.SignInFilter, p engine.Page) (out engine.Listed[engine.SignIn], err error) {
	index := &where{}
	index.and("tenant = ?", text(string(f.Tenant)))
	if f.ID != "" {
		index.and("id = ?", text(f.ID))
	}
	all, now := index.copy(), number(f.Now.UnixMicro())
	all.and(signedIn, now, number(f.UsedAfter.UnixMicro()), now)
	err = s.look(ctx, "list sign-ins", func(c *conn) (err error) {
		out, err = engine.List(p, listing[engine.SignIn]{
			c: c, table: "sign_ins", index: index, all: all, columns: signInColumns, key: []string{"created_at", "hash"}, at: "created_at", read: readSignIn,
			keys:  func(p engine.Place) []func(*stmt) { return []func(*stmt){number(p.At.UnixMicro()), id(p.ID)} },
			place: func(r *row) engine.Place { return engine.SignInPlace(r.at(), r.bytes()) },
		}, (*engine.SignIn).Place)
		return err
	})
	return out, err
}

// EndSignIn forgets one.
func (s *Store) EndSignIn(ctx context.Context, hash [32]byte) error {
	return s.write(ctx, "end a sign-in", func(c *conn, _ int64) error {
		n, err := c.prepare("DELETE FROM sign_ins WHERE hash = ?").bytes(hash[:]).exec()
		if err == nil && n == 0 {
			return engine.ErrNotFound
		}
		return err
	})
}

// UseSignIns notes when some were last of use.
func (s *Store) UseSignIns(ctx context.Context, used map[[32]byte]time.Time) error {
	return s.write(ctx, "note which sign-ins were used", func(c *conn, _ int64) error {
		for hash, at := range used {
			if _, err := c.prepare("UPDATE sign_ins SET used_at = max(used_at, ?2) WHERE hash = ?1").bytes(hash[:]).at(at).exec(); err != nil {
				return err
			}
		}
		return nil
	})
}
