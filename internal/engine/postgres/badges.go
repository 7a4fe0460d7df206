package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const badgeColumns = "tenant, id, job, label, hash, created_at"

func scanBadge(r pgx.CollectableRow) (b engine.Badge, err error) {
	var hash []byte
	err = r.Scan((*string)(&b.Tenant), &b.ID, (*[16]byte)(&b.Job), &b.Label, &hash, at(&b.CreatedAt))
	copy(b.Hash[:], hash)
	return b, err
}

// AddBadge stores a badge. The lock on the tenant makes one of two at once see the other.
func (s *Store) AddBadge(ctx context.Context, b engine.Badge, most int, i engine.Idempotency) (engine.Created, error) {
	var out engine.Created
	err := s.change(ctx, "store a badge", func(ctx context.Context, c writer) error {
		out = engine.Created{}
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			keys := batch{all: []engine.Creation{{Tenant: b.Tenant, Idempotency: i}}, chosen: []int{0}}
			known, err := keys.claimKeys(ctx, tx)
			if err != nil {
				return err
			}
			if prior, ok := known[scoped{b.Tenant, i.Key}]; ok {
				if out.Reused = prior.hash != i.Hash; !out.Reused {
					out.Replay = prior.answer
				}
				engine.Unchanged(ctx)
				return nil
			}
			if _, err := tx.Exec(ctx, "SELECT 1 FROM tenants WHERE id = $1 FOR NO KEY UPDATE", string(b.Tenant)); err != nil {
				return err
			}
			done, err := tx.Exec(ctx, "INSERT INTO badges ("+badgeColumns+") SELECT $1, $2, $3, $4, $5, $6 WHERE (SELECT count(*) FROM badges WHERE tenant = $1) < $7",
				string(b.Tenant), b.ID, [16]byte(b.Job), b.Label, b.Hash[:], b.CreatedAt, most)
			if err == nil && done.RowsAffected() == 0 {
				return engine.ErrConflict
			}
			return err
		})
	})
	return out, err
}

// Badge finds one by its hash.
func (s *Store) Badge(ctx context.Context, hash [32]byte) (out engine.Badge, err error) {
	err = s.look(ctx, "find a badge", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, "SELECT "+badgeColumns+" FROM badges WHERE hash = $1", hash[:])
		var err error
		out, err = pgx.CollectExactlyOneRow(rows, scanBadge)
		return found(err)
	})
	return out, err
}

// Badges lists a tenant's, the newest first.
func (s *Store) Badges(ctx context.Context, t tenant.ID) (out []engine.Badge, err error) {
	err = s.look(ctx, "list badges", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, "SELECT "+badgeColumns+" FROM badges WHERE tenant = $1 ORDER BY id DESC", string(t))
		var err error
		out, err = pgx.CollectRows(rows, scanBadge)
		return err
	})
	return out, err
}

// DeleteBadge revokes one of a tenant's.
func (s *Store) DeleteBadge(ctx context.Context, t tenant.ID, id string) (out engine.Badge, err error) {
	err = s.change(ctx, "revoke a badge", func(ctx context.Context, c writer) error {
		rows, _ := c.Query(ctx, "DELETE FROM badges WHERE tenant = $1 AND id = $2 RETURNING "+badgeColumns, string(t), id)
		var err error
		out, err = pgx.CollectExactlyOneRow(rows, scanBadge)
		return found(err)
	})
	return out, err
}
