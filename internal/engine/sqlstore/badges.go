package sqlstore

import (
	"cmp"
	"context"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	badgeColumns = "tenant, id, job, label, hash, created_at"
	// ofLivingJob holds for a badge whose job is not deleted. OFFSET 0 makes PostgreSQL look each job up instead of walking all jobs.
	ofLivingJob = "EXISTS (SELECT 1 FROM jobs j WHERE j.tenant = b.tenant AND j.id = b.job AND j.state <> 4 /*postgres: OFFSET 0*/)"

	addBadgeSQL    = "INSERT INTO badges (" + badgeColumns + ") SELECT $1, $2, $3, $4, $5, $6 WHERE (SELECT count(*) FROM badges WHERE tenant = $1) < $7"
	dropBadgesSQL  = "DELETE FROM badges AS b WHERE b.tenant = $1 AND NOT " + ofLivingJob
	findBadgesSQL  = "SELECT " + badgeColumns + " FROM badges b WHERE b.tenant = $1 AND b.id < $2 AND " + ofLivingJob + " ORDER BY b.id DESC LIMIT $3"
	countBadgesSQL = "SELECT count(*) FROM badges b WHERE b.tenant = $1 AND " + ofLivingJob
)

func scanBadge(r Row) (b engine.Badge, err error) {
	err = r.Scan((*string)(&b.Tenant), &b.ID, (*[16]byte)(&b.Job), &b.Label, &b.Hash, &b.CreatedAt)
	return b, err
}

// AddBadge stores a badge and drops those of deleted jobs. It locks the tenant to count its badges.
func (s badges) AddBadge(ctx context.Context, b engine.Badge, most int, i engine.Idempotency, e *audit.Entry) (engine.Created, error) {
	return create(ctx, s.db, "store a badge", e, b.Tenant, i, func(tx Tx) error {
		if err := tx.LockTenant(b.Tenant); err != nil {
			return err
		}
		if _, err := tx.Exec(dropBadgesSQL, string(b.Tenant)); err != nil {
			return err
		}
		return changeOne(tx, engine.ErrConflict, addBadgeSQL, string(b.Tenant), b.ID, [16]byte(b.Job), b.Label, b.Hash[:], b.CreatedAt, most)
	})
}

// Badge finds a badge by its hash.
func (s badges) Badge(ctx context.Context, hash [32]byte) (engine.Badge, error) {
	return readOne(ctx, s.db, "find a badge", scanBadge, "SELECT "+badgeColumns+" FROM badges WHERE hash = $1", hash[:])
}

// FindBadges lists a tenant's badges, newest first.
func (s badges) FindBadges(ctx context.Context, t tenant.ID, p engine.Page) (out engine.Listed[engine.Badge], err error) {
	err = s.db.Read(ctx, "list badges", func(tx Tx) error {
		found, err := all(tx, scanBadge, findBadgesSQL, string(t), cmp.Or(p.Cursor, engine.AllBadges), max(p.Limit, 1)+1)
		if err != nil {
			return err
		}
		if out = engine.BadgePage(p, found); out.Total.Count >= 0 {
			return nil
		}
		out.Total.Count, err = value[int64](tx, countBadgesSQL, string(t))
		return err
	})
	return out, err
}

// DeleteBadge revokes one of a tenant's badges.
func (s badges) DeleteBadge(ctx context.Context, t tenant.ID, id string, e *audit.Entry) (out engine.Badge, err error) {
	err = write(ctx, s.db, "revoke a badge", e, func(tx Tx) (err error) {
		out, err = one(tx, scanBadge, "DELETE FROM badges WHERE tenant = $1 AND id = $2 RETURNING "+badgeColumns, string(t), id)
		return err
	})
	return out, err
}
