package postgres

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	badgeColumns = "tenant, id, job, label, hash, created_at"

	// ofLivingJob holds of a badge whose job is not deleted. OFFSET 0: each is looked up, and the jobs are not walked.
	ofLivingJob = "EXISTS (SELECT 1 FROM jobs j WHERE j.tenant = b.tenant AND j.id = b.job AND j.state <> 4 OFFSET 0)"

	dropBadgesSQL  = "DELETE FROM badges b WHERE b.tenant = $1 AND NOT " + ofLivingJob
	findBadgesSQL  = "SELECT " + badgeColumns + " FROM badges b WHERE b.tenant = $1 AND b.id < $2 AND " + ofLivingJob + " ORDER BY b.id DESC LIMIT $3"
	countBadgesSQL = "SELECT count(*) FROM badges b WHERE b.tenant = $1 AND " + ofLivingJob
)

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
			if _, err := tx.Exec(ctx, dropBadgesSQL, string(b.Tenant)); err != nil {
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

// FindBadges lists a tenant's, the newest first.
func (s *Store) FindBadges(ctx context.Context, t tenant.ID, p engine.Page) (out engine.Listed[engine.Badge], err error) {
	err = s.look(ctx, "list badges", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, findBadgesSQL, string(t), cmp.Or(p.Cursor, engine.AllBadges), max(p.Limit, 1)+1)
		found, err := pgx.CollectRows(rows, scanBadge)
		if err != nil {
			return err
		}
		out = engine.BadgePage(p, found)
		if out.Total.Count >= 0 {
			return nil
		}
		return c.QueryRow(ctx, countBadgesSQL, string(t)).Scan(&out.Total.Count)
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
