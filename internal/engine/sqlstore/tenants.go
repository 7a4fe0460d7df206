package sqlstore

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	tenantColumns   = "id, name, tier, quotas, created_at, reach, history_cut_at, https_only"
	addTenantSQL    = "INSERT INTO tenants (" + tenantColumns + ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO NOTHING"
	updateTenantSQL = `
		UPDATE tenants SET name = $2, tier = $3, quotas = $4, reach = $5, history_cut_at = CASE WHEN history_cut_at > $6 THEN history_cut_at ELSE coalesce($6, history_cut_at) END,
			https_only = $7
		WHERE id = $1`

	tenantsSQL = "SELECT " + tenantColumns + ", EXISTS (SELECT 1 FROM job_retentions k WHERE k.tenant = t.id /*postgres: OFFSET 0*/) FROM tenants t ORDER BY id"

	limitColumns = "tenant, queue, max_concurrent, rate_count, rate_us, rate_burst, paused_at, paused_until, paused_by, pause_reason"
	setLimitSQL  = `
		INSERT INTO limits (tenant, queue, max_concurrent, rate_count, rate_us, rate_burst) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (tenant, queue) DO UPDATE SET max_concurrent = excluded.max_concurrent, rate_count = excluded.rate_count,
			rate_us = excluded.rate_us, rate_burst = excluded.rate_burst`
	unlimitSQL = "UPDATE limits SET max_concurrent = 0, rate_count = 0, rate_us = 0, rate_burst = 0 WHERE tenant = $1 AND queue = $2"
	pauseSQL   = "INSERT INTO limits (" + limitColumns + `) VALUES ($1, $2, 0, 0, 0, 0, $3, $4, $5, $6)
		ON CONFLICT (tenant, queue) DO UPDATE SET paused_at = excluded.paused_at, paused_until = excluded.paused_until,
			paused_by = excluded.paused_by, pause_reason = excluded.pause_reason`
	resumeSQL = "UPDATE limits SET paused_at = NULL, paused_until = NULL, paused_by = '', pause_reason = '' WHERE tenant = $1 AND queue = $2"
	// dropLimitSQL drops the row of a queue that has neither a limit nor a pause.
	dropLimitSQL = "DELETE FROM limits WHERE tenant = $1 AND queue = $2 AND paused_at IS NULL AND max_concurrent = 0 AND rate_count = 0"
)

// CreateTenant stores a tenant.
func (s tenants) CreateTenant(ctx context.Context, t tenant.Tenant, e *audit.Entry) error {
	return execOne(ctx, s.db, "create a tenant", e, engine.ErrConflict, addTenantSQL,
		string(t.ID), t.Name, string(t.Tier), engine.EncodeOverrides(t.Overrides), t.CreatedAt, t.Reach, t.CutAt, t.HTTPSOnly)
}

// Tenants lists all tenants in order of their ids.
func (s tenants) Tenants(ctx context.Context) ([]tenant.Tenant, error) {
	return readAll(ctx, s.db, "list tenants", func(r Row) (t tenant.Tenant, err error) {
		var quotas string
		if err = r.Scan((*string)(&t.ID), &t.Name, (*string)(&t.Tier), &quotas, &t.CreatedAt, &t.Reach, &t.CutAt, &t.HTTPSOnly, &t.OwnKept); err == nil {
			t.Overrides, err = engine.DecodeOverrides(quotas)
		}
		return t, err
	}, tenantsSQL)
}

// UpdateTenant changes a tenant. The instant at which its history was last shortened only moves forward.
func (s tenants) UpdateTenant(ctx context.Context, t tenant.Tenant, e *audit.Entry) error {
	return write(ctx, s.db, "change a tenant", e, func(tx Tx) error {
		if _, err := tx.Exec("DELETE FROM job_counts WHERE tenant = $1", string(t.ID)); err != nil {
			return err
		}
		return changeOne(tx, engine.ErrNotFound, updateTenantSQL,
			string(t.ID), t.Name, string(t.Tier), engine.EncodeOverrides(t.Overrides), t.Reach, t.CutAt, t.HTTPSOnly)
	})
}

// Reaches returns the tenants whose callbacks have other rules than most.
func (s tenants) Reaches(ctx context.Context) (map[tenant.ID]engine.Reach, error) {
	var out map[tenant.ID]engine.Reach
	err := s.db.Read(ctx, "read what callbacks may reach", func(tx Tx) error {
		out = map[tenant.ID]engine.Reach{}
		return tx.Query(func(r Row) error {
			var t string
			var reach engine.Reach
			err := r.Scan(&t, &reach.Allow, &reach.HTTPSOnly)
			out[tenant.ID(t)] = reach
			return err
		}, "SELECT id, reach, https_only FROM tenants WHERE reach <> '' OR https_only")
	})
	return out, err
}

// PauseQueue sets or replaces the pause of a queue; the zero Pause ends it.
func (s tenants) PauseQueue(ctx context.Context, t tenant.ID, queue string, p job.Pause, e *audit.Entry) error {
	if p.IsZero() {
		return s.overQueue(ctx, "resume a queue", e, t, queue, resumeSQL, dropLimitSQL)
	}
	return exec(ctx, s.db, "pause a queue", e, pauseSQL, string(t), queue, p.At, p.Until, p.By, p.Reason)
}

// SetLimit sets or replaces a limit; a zero one is removed.
func (s tenants) SetLimit(ctx context.Context, l job.Limit, e *audit.Entry) error {
	if l.IsZero() {
		return s.overQueue(ctx, "remove a limit", e, l.Tenant, l.Queue, unlimitSQL, dropLimitSQL)
	}
	return exec(ctx, s.db, "set a limit", e, setLimitSQL, string(l.Tenant), l.Queue, l.Max, l.Rate.Count, l.Rate.Per.Microseconds(), l.Rate.Burst)
}

// overQueue runs statements over the row of a queue.
func (s tenants) overQueue(ctx context.Context, doing string, e *audit.Entry, t tenant.ID, queue string, statements ...string) error {
	return write(ctx, s.db, doing, e, func(tx Tx) error {
		for _, sql := range statements {
			if _, err := tx.Exec(sql, string(t), queue); err != nil {
				return err
			}
		}
		return nil
	})
}

// Limits lists the limits and pauses of a tenant, or of all tenants, its own before those of its queues.
func (s tenants) Limits(ctx context.Context, t tenant.ID) (out []job.Limit, err error) {
	err = s.db.Read(ctx, "list limits", func(tx Tx) error {
		now, err := tx.Now()
		if err != nil {
			return err
		}
		out = nil
		return tx.Query(func(r Row) error {
			var l job.Limit
			var per int64
			p := &l.Pause
			err := r.Scan((*string)(&l.Tenant), &l.Queue, &l.Max, &l.Rate.Count, &per, &l.Rate.Burst, &p.At, &p.Until, &p.By, &p.Reason)
			l.Rate.Per = time.Duration(per) * time.Microsecond
			if !p.Holds(now) {
				*p = job.Pause{}
			}
			if !l.IsZero() || !p.IsZero() {
				out = append(out, l)
			}
			return err
		}, "SELECT "+limitColumns+" FROM limits WHERE $1 = '' OR tenant = $1 ORDER BY tenant, queue", string(t))
	})
	return out, err
}
