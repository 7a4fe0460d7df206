package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/notice"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	// The tenant's row is locked, so that two rules at once are counted one after the other.
	lockTenantSQL = "SELECT 1 FROM tenants WHERE id = $1 FOR NO KEY UPDATE"
	putRuleSQL    = `
		INSERT INTO notification_rules (tenant, name, created_at, updated_at, spec)
		SELECT $1, $2, $3, $4, $5 WHERE EXISTS (SELECT 1 FROM notification_rules WHERE tenant = $1 AND name = $2)
			OR (SELECT count(*) FROM notification_rules WHERE tenant = $1) < $6
		ON CONFLICT (tenant, name) DO UPDATE SET updated_at = excluded.updated_at, spec = excluded.spec`
	rulesSQL  = "SELECT tenant, name, created_at, updated_at, spec FROM notification_rules"
	unwellSQL = "SELECT " + executionColumns + " FROM (" + pastRow + ` WHERE v.status > 10 AND v.status <> 13
			AND (v.finished_at, v.id) > ($2, $3) AND v.tenant = ANY ($1) ORDER BY v.finished_at, v.id LIMIT $4) v
		LEFT JOIN jobs j ON j.tenant = v.tenant AND j.id = v.job ORDER BY v.finished_at, v.id`
	lateSQL = `SELECT * FROM (
			SELECT DISTINCT ON (v.job) v.id, v.job, v.scheduled_at, v.due_at FROM (
				SELECT id, job, scheduled_at, due_at FROM live WHERE tenant = $1 AND due_at < $2 AND started_at IS NULL AND lease <= 0 AND hold = 0
				UNION ALL
				SELECT u.id, u.id, b.scheduled_at, b.due_at FROM bundles b CROSS JOIN LATERAL unnest(b.ids) u(id) WHERE b.tenant = $1 AND b.due_at < $2 AND b.lease = 0
			) v ORDER BY v.job, v.due_at
		) v LIMIT $3`
)

// PutRule stores a rule, in place of any of its name.
func (s *Store) PutRule(ctx context.Context, r notice.Rule, most int) error {
	spec, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("store a rule: %w", err)
	}
	return s.change(ctx, "store a rule", func(ctx context.Context, c writer) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, lockTenantSQL, string(r.Tenant)); err != nil {
				return err
			}
			done, err := tx.Exec(ctx, putRuleSQL, string(r.Tenant), r.Name, r.CreatedAt, r.UpdatedAt, spec, most)
			if err == nil && done.RowsAffected() == 0 {
				return engine.ErrConflict
			}
			return err
		})
	})
}

func scanRule(row pgx.CollectableRow) (notice.Rule, error) {
	var out notice.Rule
	var t, name string
	var created, updated time.Time
	var spec []byte
	if err := row.Scan(&t, &name, at(&created), at(&updated), &spec); err != nil {
		return out, err
	}
	if err := json.Unmarshal(spec, &out); err != nil {
		return out, fmt.Errorf("read the rule %s: %w", name, err)
	}
	out.Tenant, out.Name, out.CreatedAt, out.UpdatedAt = tenant.ID(t), name, created, updated
	return out, nil
}

// Rule finds one rule.
func (s *Store) Rule(ctx context.Context, t tenant.ID, name string) (out notice.Rule, err error) {
	err = s.look(ctx, "find a rule", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, rulesSQL+" WHERE tenant = $1 AND name = $2", string(t), name)
		var err error
		out, err = pgx.CollectExactlyOneRow(rows, scanRule)
		return found(err)
	})
	return out, err
}

// Rules lists a tenant's rules, or those of all tenants.
func (s *Store) Rules(ctx context.Context, t tenant.ID) (out []notice.Rule, err error) {
	err = s.look(ctx, "list rules", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, rulesSQL+" WHERE $1 IN ('', tenant) ORDER BY tenant, created_at, name", string(t))
		var err error
		out, err = pgx.CollectRows(rows, scanRule)
		return err
	})
	return out, err
}

// DeleteRule forgets a rule and its alarms.
func (s *Store) DeleteRule(ctx context.Context, t tenant.ID, name string) error {
	return s.change(ctx, "delete a rule", func(ctx context.Context, c writer) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			done, err := tx.Exec(ctx, "DELETE FROM notification_rules WHERE tenant = $1 AND name = $2", string(t), name)
			if err == nil && done.RowsAffected() == 0 {
				return engine.ErrNotFound
			}
			if err == nil {
				_, err = tx.Exec(ctx, "DELETE FROM alarms WHERE tenant = $1 AND rule = $2", string(t), name)
			}
			return err
		})
	})
}

// Unwell lists finished executions that did not succeed and were not cancelled either.
func (s *Store) Unwell(ctx context.Context, ts []tenant.ID, after engine.Mark, limit int) (out []job.Execution, err error) {
	names := make([]string, len(ts))
	for i, t := range ts {
		names[i] = string(t)
	}
	err = s.look(ctx, "look for what did not go well", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, unwellSQL, names, after.At, [16]byte(after.ID), limit)
		var err error
		out, err = pgx.CollectRows(rows, scanExecution)
		return err
	})
	return out, err
}

// Late lists executions that were due before an instant and have not begun, one of each job.
func (s *Store) Late(ctx context.Context, t tenant.ID, before time.Time, limit int) (out []engine.Late, err error) {
	err = s.look(ctx, "look for what is late", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, lateSQL, string(t), before, limit)
		var err error
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (l engine.Late, err error) {
			err = row.Scan((*[16]byte)(&l.Execution), (*[16]byte)(&l.Job), at(&l.ScheduledAt), at(&l.DueAt))
			return l, err
		})
		return err
	})
	return out, err
}

// Alarms lists those of all tenants.
func (s *Store) Alarms(ctx context.Context) (out []notice.Alarm, err error) {
	err = s.look(ctx, "list alarms", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, "SELECT tenant, rule, job, event, since, execution FROM alarms ORDER BY tenant, rule, job, event")
		var err error
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (a notice.Alarm, err error) {
			var execution *[16]byte
			err = row.Scan((*string)(&a.Tenant), &a.Rule, (*[16]byte)(&a.Job), (*string)(&a.Event), at(&a.Since), &execution)
			if execution != nil {
				a.Execution = *execution
			}
			return a, err
		})
		return err
	})
	return out, err
}

// SetAlarms stores alarms that began and forgets those that ended.
func (s *Store) SetAlarms(ctx context.Context, began, ended []notice.Alarm) error {
	return s.write(ctx, "keep alarms", func(ctx context.Context, c *pgxpool.Conn) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			var b pgx.Batch
			for _, a := range ended {
				b.Queue("DELETE FROM alarms WHERE tenant = $1 AND rule = $2 AND job = $3 AND event = $4", string(a.Tenant), a.Rule, [16]byte(a.Job), string(a.Event))
			}
			for _, a := range began {
				var execution any
				if !a.Execution.IsZero() {
					execution = [16]byte(a.Execution)
				}
				b.Queue(`INSERT INTO alarms (tenant, rule, job, event, since, execution)
					SELECT tenant, name, $3, $4, $5, $6 FROM notification_rules WHERE tenant = $1 AND name = $2 FOR KEY SHARE
					ON CONFLICT DO NOTHING`, string(a.Tenant), a.Rule, [16]byte(a.Job), string(a.Event), a.Since, execution)
			}
			return tx.SendBatch(ctx, &b).Close()
		})
	})
}

// Watched is how far the search for events has come.
func (s *Store) Watched(ctx context.Context) (t time.Time, err error) {
	err = s.look(ctx, "read how far events were looked for", func(ctx context.Context, c *pgxpool.Conn) error {
		err := c.QueryRow(ctx, "SELECT at FROM watched").Scan(at(&t))
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return t, err
}

// SetWatched moves that on.
func (s *Store) SetWatched(ctx context.Context, t time.Time) error {
	return s.write(ctx, "keep how far events were looked for", func(ctx context.Context, c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, "INSERT INTO watched (at) VALUES ($1) ON CONFLICT (one) DO UPDATE SET at = greatest(watched.at, excluded.at)", t)
		return err
	})
}
