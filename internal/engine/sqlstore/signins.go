package sqlstore

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	addSignInSQL = `
		INSERT INTO sign_ins (hash, id, tenant, role, name, key_id, created_at, used_at, ends_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (hash) DO NOTHING`
	// Rows that another transaction is deleting are skipped.
	endedSignInsSQL = "DELETE FROM sign_ins WHERE hash IN (SELECT hash FROM sign_ins WHERE ends_at <= $1 /*postgres: FOR UPDATE SKIP LOCKED*/)"
	oldSignInsSQL   = `
		DELETE FROM sign_ins WHERE hash IN (
			SELECT hash FROM sign_ins WHERE tenant = $1 AND key_id = $2 AND name = $3 ORDER BY created_at DESC, hash
			/*sqlite: LIMIT -1*/ OFFSET $4 /*postgres: FOR UPDATE SKIP LOCKED*/)`
	// A sign-in ends with the key that it was made with.
	signInColumns = `hash, id, tenant, role, name, key_id, created_at, used_at, ends_at,
		(SELECT k.expires_at FROM api_keys k WHERE k.id = sign_ins.key_id)`
	signInSQL = "SELECT " + signInColumns + ` FROM sign_ins
		WHERE hash = $1 AND (key_id = '' OR EXISTS (SELECT 1 FROM api_keys k WHERE k.id = sign_ins.key_id AND k.revoked_at IS NULL))`
	useSignInSQL = "UPDATE sign_ins SET used_at = $2 WHERE hash = $1 AND used_at < $2"
)

func scanSignIn(r Row) (x engine.SignIn, err error) {
	var keyExpires time.Time
	err = r.Scan(&x.Hash, &x.ID, (*string)(&x.Tenant), (*string)(&x.Role), &x.Name, &x.Key, &x.CreatedAt, &x.UsedAt, &x.EndsAt, &keyExpires)
	if !keyExpires.IsZero() && keyExpires.Before(x.EndsAt) {
		x.EndsAt = keyExpires
	}
	return x, err
}

// AddSignIn stores a browser's sign-in, and drops ended ones and the oldest beyond the maximum.
func (s signIns) AddSignIn(ctx context.Context, x engine.SignIn, most int, e *audit.Entry) error {
	return s.db.Write(ctx, "store a sign-in", func(tx Tx) error {
		now, err := tx.Now()
		if err != nil {
			return err
		}
		if _, err := tx.Exec(endedSignInsSQL, now); err != nil {
			return err
		}
		n, err := tx.Exec(addSignInSQL, x.Hash[:], x.ID, string(x.Tenant), string(x.Role), x.Name, x.Key, x.CreatedAt, x.UsedAt, x.EndsAt)
		if err != nil || n == 0 { // it was stored before
			return err
		}
		if _, err = tx.Exec(oldSignInsSQL, string(x.Tenant), x.Key, x.Name, most); err != nil {
			return err
		}
		return record(tx, e)
	})
}

// SignIn finds a sign-in by its hash.
func (s signIns) SignIn(ctx context.Context, hash [32]byte) (engine.SignIn, error) {
	return readOne(ctx, s.db, "find a sign-in", scanSignIn, signInSQL, hash[:])
}

// FindSignIns lists a tenant's sign-ins that have not ended. A tenant has few: they are sorted each time.
func (s signIns) FindSignIns(ctx context.Context, f engine.SignInFilter, p engine.Page) (out engine.Listed[engine.SignIn], err error) {
	l := listing[engine.SignIn]{
		table: "sign_ins", columns: signInColumns, key: []string{"created_at", "hash"}, at: "created_at", scan: scanSignIn,
		keys: func(p engine.Place) []any { return []any{p.At, p.ID[:]} },
		place: func(r Row) (engine.Place, error) {
			var at time.Time
			var hash []byte
			err := r.Scan(&at, &hash)
			return engine.SignInPlace(at, hash), err
		},
	}
	l.where = "tenant = " + l.params.add(string(f.Tenant))
	if f.ID != "" {
		l.where += " AND id = " + l.params.add(f.ID)
	}
	l.indexed = len(l.params)
	now := l.params.add(f.Now)
	l.also = " AND ends_at > " + now + " AND used_at > " + l.params.add(since(f.UsedAfter)) + ` AND (key_id = '' OR EXISTS (
		SELECT 1 FROM api_keys k WHERE k.id = sign_ins.key_id AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > ` + now + ")))"
	err = s.db.List(ctx, "list sign-ins", func(tx Tx) (err error) {
		l.tx = tx
		out, err = engine.List(p, l, (*engine.SignIn).Place)
		return err
	})
	return out, err
}

// EndSignIn deletes a sign-in.
func (s signIns) EndSignIn(ctx context.Context, hash [32]byte, e *audit.Entry) error {
	return execOne(ctx, s.db, "end a sign-in", e, engine.ErrNotFound, "DELETE FROM sign_ins WHERE hash = $1", hash[:])
}

// UseSignIns records when sign-ins were last used. Rows are locked in the order of their hashes, so that two servers never
// wait for each other.
func (s signIns) UseSignIns(ctx context.Context, used map[[32]byte]time.Time) error {
	var rows [][]any
	for _, hash := range slices.SortedFunc(maps.Keys(used), func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) }) {
		rows = append(rows, []any{bytes.Clone(hash[:]), used[hash]})
	}
	return s.db.Write(ctx, "note which sign-ins were used", func(tx Tx) error { return tx.ExecEach(useSignInSQL, rows) })
}
