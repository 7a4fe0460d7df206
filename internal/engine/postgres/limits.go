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
		done, err := c.Exec(ctx, "INSERT INTO tenants (id, name, tier, quotas, created_at, reach, history_cut_at) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO NOTHING",
			string(t.ID), plain(t.Name), string(t.Tier), engine.EncodeOverrides(t.Overrides), t.CreatedAt, t.Reach, orNever(t.CutAt))
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
		rows, _ := c.Query(ctx, "SELECT id, name, tier, quotas, created_at, reach, history_cut_at FROM tenants ORDER BY id")
		var err error
		out, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (t tenant.Tenant, err error) {
			var quotas string
			if err = r.Scan((*string)(&t.ID), &t.Name, (*string)(&t.Tier), &quotas, at(&t.CreatedAt), &t.Reach, at(&t.CutAt)); err == nil {
				t.Overrides, err = engine.DecodeOverrides(quotas)
			}
			return t, err
		})
		return err
	})
	return out, err
}

// UpdateTenant changes a tenant's name, tier, overrides and reach, and when its history became shorter, unless that was later.
func (s *Store) UpdateTenant(ctx context.Context, t tenant.Tenant) error {
	return s.change(ctx, "change a tenant", func(ctx context.Context, c writer) error {
		done, err := c.Exec(ctx, `
			WITH uncounted AS (DELETE FROM job_counts WHERE tenant = $1)
			UPDATE tenants SET name = $2, tier = $3, quotas = $4, reach = $5, history_cut_at = greatest(history_cut_at, $6) WHERE id = $1`,
			string(t.ID), plain(t.Name), string(t.Tier), engine.EncodeOverrides(t.Overrides), t.Reach, orNever(t.CutAt))
		if err == nil && done.RowsAffected() == 0 {
			return engine.ErrNotFound
		}
		return err
	})
}

// SetLimit keeps a limit, in place of any before; one that is zero is removed.
func (s *Store) SetLimit(ctx context.Context, l job.Limit) error {
	return s.change(ctx, "set a limit", func(ctx context.Context, c writer) error {
		if l.IsZero() {
			_, err := c.Exec(ctx, "DELETE FROM limits WHERE tenant = $1 AND queue = $2", string(l.Tenant), l.Queue)
			return err
		}
		_, err := c.Exec(ctx, `
			INSERT INTO limits (tenant, queue, max_concurrent, rate_count, rate_us, rate_burst) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (tenant, queue) DO UPDATE SET max_concurrent = EXCLUDED.max_concurrent, rate_count = EXCLUDED.rate_count,
				rate_us = EXCLUDED.rate_us, rate_burst = EXCLUDED.rate_burst`,
			string(l.Tenant), l.Queue, l.Max, l.Rate.Count, l.Rate.Per.Microseconds(), l.Rate.Burst)
		return err
	})
}

// Limits lists the limits of a tenant, or of all where it is empty, its own before those of its queues.
func (s *Store) Limits(ctx context.Context, t tenant.ID) ([]job.Limit, error) {
	var out []job.Limit
	err := s.look(ctx, "list limits", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, "SELECT tenant, queue, max_concurrent, rate_count, rate_us, rate_burst FROM limits WHERE $1 = '' OR tenant = $1 ORDER BY tenant, queue", string(t))
		var err error
		out, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (l job.Limit, err error) {
			err = r.Scan((*string)(&l.Tenant), &l.Queue, &l.Max, &l.Rate.Count, span{&l.Rate.Per, time.Microsecond}, &l.Rate.Burst)
			return l, err
		})
		return err
	})
	return out, err
}
