package sqlite

import (
	"cmp"
	"context"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	badgesSQL = "SELECT tenant, id, job, label, hash, created_at FROM badges b "

	// ofLivingJob holds of a badge whose job is not deleted.
	ofLivingJob = "EXISTS (SELECT 1 FROM jobs j WHERE j.tenant = b.tenant AND j.id = b.job AND j.state <> 4)"

	dropBadgesSQL  = "DELETE FROM badges AS b WHERE b.tenant = ? AND NOT " + ofLivingJob
	findBadgesSQL  = badgesSQL + "WHERE b.tenant = ? AND b.id < ? AND " + ofLivingJob + " ORDER BY b.id DESC LIMIT ?"
	countBadgesSQL = "SELECT count(*) FROM badges b WHERE b.tenant = ? AND " + ofLivingJob
)

func readBadge(r *row) engine.Badge {
	b := engine.Badge{Tenant: tenant.ID(r.text()), ID: r.text(), Job: r.id(), Label: r.text()}
	copy(b.Hash[:], r.bytes())
	b.CreatedAt = r.at()
	return b
}

// AddBadge stores a badge.
func (s *Store) AddBadge(ctx context.Context, b engine.Badge, most int, i engine.Idempotency) (out engine.Created, err error) {
	err = s.write(ctx, "store a badge", func(c *conn, now int64) error {
		var known bool
		var err error
		if out, known, err = recall(c, b.Tenant, &i, now); err != nil || known {
			engine.Unchanged(ctx)
			return err
		}
		if _, err := c.prepare(dropBadgesSQL).text(string(b.Tenant)).exec(); err != nil {
			return err
		}
		n, err := c.prepare(`INSERT INTO badges (tenant, id, job, label, hash, created_at) SELECT ?1, ?2, ?3, ?4, ?5, ?6
			WHERE (SELECT count(*) FROM badges WHERE tenant = ?1) < ?7`).
			text(string(b.Tenant)).text(b.ID).id(b.Job).text(b.Label).bytes(b.Hash[:]).at(b.CreatedAt).int(int64(most)).exec()
		if err == nil && n == 0 {
			err = engine.ErrConflict
		}
		if err != nil {
			return err
		}
		return remember(c, b.Tenant, &i)
	})
	if err != nil {
		return engine.Created{}, err
	}
	return out, nil
}

// Badge finds one by its hash.
func (s *Store) Badge(ctx context.Context, hash [32]byte) (out engine.Badge, err error) {
	err = s.look(ctx, "find a badge", func(c *conn) error {
		found, err := c.prepare(badgesSQL + "WHERE hash = ?").bytes(hash[:]).first(func(r *row) error { out = readBadge(r); return nil })
		if err == nil && !found {
			return engine.ErrNotFound
		}
		return err
	})
	return out, err
}

// FindBadges lists a tenant's, the newest first.
func (s *Store) FindBadges(ctx context.Context, t tenant.ID, p engine.Page) (out engine.Listed[engine.Badge], err error) {
	err = s.look(ctx, "list badges", func(c *conn) error {
		var found []engine.Badge
		err := c.prepare(findBadgesSQL).text(string(t)).text(cmp.Or(p.Cursor, engine.AllBadges)).int(int64(max(p.Limit, 1) + 1)).each(func(r *row) error {
			found = append(found, readBadge(r))
			return nil
		})
		if err != nil {
			return err
		}
		out = engine.BadgePage(p, found)
		if out.Total.Count >= 0 {
			return nil
		}
		_, err = c.prepare(countBadgesSQL).text(string(t)).first(func(r *row) error {
			out.Total.Count = r.int64()
			return nil
		})
		return err
	})
	return out, err
}

// DeleteBadge revokes one of a tenant's.
func (s *Store) DeleteBadge(ctx context.Context, t tenant.ID, id string) (out engine.Badge, err error) {
	err = s.write(ctx, "revoke a badge", func(c *conn, _ int64) error {
		found, err := c.prepare(badgesSQL + "WHERE tenant = ? AND id = ?").text(string(t)).text(id).first(func(r *row) error { out = readBadge(r); return nil })
		if err != nil {
			return err
		}
		if !found {
			return engine.ErrNotFound
		}
		_, err = c.prepare("DELETE FROM badges WHERE tenant = ? AND id = ?").text(string(t)).text(id).exec()
		return err
	})
	return out, err
}
