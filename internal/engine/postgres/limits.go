package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// CreateTenant stores a tenant; ErrConflict if its id exists.
func (s *Store) CreateTenant(ctx context.Context, t tenant.Tenant) error {
	return s.change(ctx, "create a tenant", func(ctx context.Context, c writer) error {
		done, err := c.Exec(ctx, "INSERT INTO tenants (id, name, tier, quotas, created_at, reach, history_cut_at, https_only) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO NOTHING",
			string(t.ID), plain(t.Name), string(t.Tier), engine.EncodeOverrides(t.Overrides), t.CreatedAt, t.Reach, orNever(t.CutAt), t.HTTPSOnly)
		if err == nil && done.RowsAffected() == 0 {
			return engine.ErrConflict
		}
		return err
	})
}

// Tenants lists all tenants in order of their ids.
func (s *Store) Tenants(ctx context.Context) ([]tenant.Tenant, error) {
	var out []tenant.Tenant
	err := s.look(ctx, "list tenants", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, "SELECT id, name, tier, quotas, created_at, reach, history_cut_at, https_only FROM tenants ORDER BY id")
		var err error
		out, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (t tenant.Tenant, err error) {
			var quotas string
			if err = r.Scan((*string)(&t.ID), &t.Name, (*string)(&t.Tier), &quotas, at(&t.CreatedAt), &t.Reach, at(&t.CutAt), &t.HTTPSOnly); err == nil {
				t.Overrides, err = engine.DecodeOverrides(quotas)
			}
			return t, err
		})
		return err
	})
	return out, err
}

// Reaches finds where callbacks of tenants may go that is not the same for all.
func (s *Store) Reaches(ctx context.Context) (map[tenant.ID]engine.Reach, error) {
	var out map[tenant.ID]engine.Reach
	err := s.look(ctx, "read what callbacks may reach", func(ctx context.Context, c *pgxpool.Conn) error {
		out = map[tenant.ID]engine.Reach{}
		rows, _ := c.Query(ctx, "SELECT id, reach, https_only FROM tenants WHERE reach <> '' OR https_only")
		var id string
		var reach engine.Reach
		_, err := pgx.ForEachRow(rows, []any{&id, &reach.Allow, &reach.HTTPSOnly}, func() error {
			out[tenant.ID(id)] = reach
			return nil
		})
		return err
	})
	return out, err
}

// UpdateTenant changes a tenant's name, tier, overrides and reach, whether its callbacks need https, and when its history became shorter, unless that was later.
func (s *Store) UpdateTenant(ctx context.Context, t tenant.Tenant) error {
	return s.change(ctx, "change a tenant", func(ctx context.Context, c writer) error {
		done, err := c.Exec(ctx, `
			WITH uncounted AS (DELETE FROM job_counts WHERE tenant = $1)
			UPDATE tenants SET name = $2, tier = $3, quotas = $4, reach = $5, history_cut_at = greatest(history_cut_at, $6), https_only = $7 WHERE id = $1`,
			string(t.ID), plain(t.Name), string(t.Tier), engine.EncodeOverrides(t.Overrides), t.Reach, orNever(t.CutAt), t.HTTPSOnly)
		if err == nil && done.RowsAffected() == 0 {
			return engine.ErrNotFound
		}
		return err
	})
}

const (
	unlimitSQL   = "UPDATE limits SET max_concurrent = 0, rate_count = 0, rate_us = 0, rate_burst = 0 WHERE tenant = $1 AND queue = $2"
	dropLimitSQL = "DELETE FROM limits WHERE tenant = $1 AND queue = $2 AND paused_at IS NULL AND max_concurrent = 0 AND rate_count = 0"
	pauseSQL     = `
		INSERT INTO limits (tenant, queue, max_concurrent, rate_count, rate_us, rate_burst, paused_at, paused_until, paused_by, pause_reason)
		VALUES ($1, $2, 0, 0, 0, 0, $3, $4, $5, $6)
		ON CONFLICT (tenant, queue) DO UPDATE SET paused_at = EXCLUDED.paused_at, paused_until = EXCLUDED.paused_until,
			paused_by = EXCLUDED.paused_by, pause_reason = EXCLUDED.pause_reason`
	resumeSQL = "UPDATE limits SET paused_at = NULL, paused_until = NULL, paused_by = '', pause_reason = '' WHERE tenant = $1 AND queue = $2"
	// tidyPausesSQL drops the rows of pauses that have ended and beside which there is no limit.
	tidyPausesSQL = `
		DELETE FROM limits WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM limits WHERE paused_until <= now() AND max_concurrent = 0 AND rate_count = 0 LIMIT $1 FOR UPDATE SKIP LOCKED))`
)

// overQueue runs statements over a queue one after the other.
func overQueue(ctx context.Context, c writer, t tenant.ID, queue string, statements ...string) error {
	for _, sql := range statements {
		if _, err := c.Exec(ctx, sql, string(t), queue); err != nil {
			return err
		}
	}
	return nil
}

// PauseQueue pauses a queue, in place of any pause before; the zero Pause ends it.
func (s *Store) PauseQueue(ctx context.Context, t tenant.ID, queue string, p job.Pause) error {
	return s.change(ctx, "pause a queue", func(ctx context.Context, c writer) error {
		if p.IsZero() {
			return overQueue(ctx, c, t, queue, resumeSQL, dropLimitSQL)
		}
		_, err := c.Exec(ctx, pauseSQL, string(t), queue, p.At, orNever(p.Until), plain(p.By), plain(p.Reason))
		return err
	})
}

// SetLimit keeps a limit, in place of any before; one that is zero is removed.
func (s *Store) SetLimit(ctx context.Context, l job.Limit) error {
	return s.change(ctx, "set a limit", func(ctx context.Context, c writer) error {
		if l.IsZero() {
			return overQueue(ctx, c, l.Tenant, l.Queue, unlimitSQL, dropLimitSQL)
		}
		_, err := c.Exec(ctx, `
			INSERT INTO limits (tenant, queue, max_concurrent, rate_count, rate_us, rate_burst) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (tenant, queue) DO UPDATE SET max_concurrent = EXCLUDED.max_concurrent, rate_count = EXCLUDED.rate_count,
				rate_us = EXCLUDED.rate_us, rate_burst = EXCLUDED.rate_burst`,
			string(l.Tenant), l.Queue, l.Max, l.Rate.Count, l.Rate.Per.Microseconds(), l.Rate.Burst)
		return err
	})
}

// Limits lists the limits of a tenant, or of all where it is empty, its own before those of its queues, and what is paused.
func (s *Store) Limits(ctx context.Context, t tenant.ID) ([]job.Limit, error) {
	var out []job.Limit
	err := s.look(ctx, "list limits", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, `
			SELECT tenant, queue, max_concurrent, rate_count, rate_us, rate_burst, paused_at, paused_until, paused_by, pause_reason FROM (
				SELECT tenant, queue, max_concurrent, rate_count, rate_us, rate_burst, paused_until, paused_by, pause_reason,
					CASE WHEN coalesce(paused_until > now(), true) THEN paused_at END AS paused_at
				FROM limits WHERE $1 = '' OR tenant = $1) l
			WHERE paused_at IS NOT NULL OR max_concurrent > 0 OR rate_count > 0 ORDER BY tenant, queue`, string(t))
		var err error
		out, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (l job.Limit, err error) {
			p := &l.Pause
			err = r.Scan((*string)(&l.Tenant), &l.Queue, &l.Max, &l.Rate.Count, span{&l.Rate.Per, time.Microsecond}, &l.Rate.Burst, at(&p.At), at(&p.Until), &p.By, &p.Reason)
			if p.IsZero() {
				l.Pause = job.Pause{}
			}
			return l, err
		})
		return err
	})
	return out, err
}
