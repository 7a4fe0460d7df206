package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/notice"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	putRuleSQL = `
		INSERT INTO notification_rules (tenant, name, created_at, updated_at, spec)
		SELECT ?1, ?2, ?3, ?4, ?5 WHERE EXISTS (SELECT 1 FROM notification_rules WHERE tenant = ?1 AND name = ?2)
			OR (SELECT count(*) FROM notification_rules WHERE tenant = ?1) < ?6
		ON CONFLICT (tenant, name) DO UPDATE SET updated_at = excluded.updated_at, spec = excluded.spec`
	rulesSQL  = "SELECT tenant, name, created_at, updated_at, spec FROM notification_rules"
	unwellSQL = "SELECT " + pastColumns + ` FROM executions v INDEXED BY executions_unwell
		WHERE v.status > 10 AND v.status <> 13 AND (v.finished_at, v.id) > (?, ?) AND v.tenant IN (SELECT value FROM json_each(?))
		ORDER BY v.finished_at, v.id LIMIT ?`
	lateNowSQL = `SELECT v.id, v.job, v.scheduled_at, min(v.due_at) FROM live v
		WHERE v.tenant = ? AND v.due_at < ? AND v.started_at IS NULL AND v.lease <= 0 AND v.hold = 0 GROUP BY v.job LIMIT ?`
)

// PutRule stores a rule, in place of any of its name.
func (s *Store) PutRule(ctx context.Context, r notice.Rule, most int) error {
	spec, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("store a rule: %w", err)
	}
	return s.write(ctx, "store a rule", func(c *conn, _ int64) error {
		n, err := c.prepare(putRuleSQL).text(string(r.Tenant)).text(r.Name).at(r.CreatedAt).at(r.UpdatedAt).bytes(spec).int(int64(most)).exec()
		if err == nil && n == 0 {
			return engine.ErrConflict
		}
		return err
	})
}

func readRule(r *row) (notice.Rule, error) {
	out := notice.Rule{}
	t, name, created, updated := tenant.ID(r.text()), r.text(), r.at(), r.at()
	if err := json.Unmarshal(r.bytes(), &out); err != nil {
		return out, fmt.Errorf("read the rule %s: %w", name, err)
	}
	out.Tenant, out.Name, out.CreatedAt, out.UpdatedAt = t, name, created, updated
	return out, nil
}

// Rule finds one rule.
func (s *Store) Rule(ctx context.Context, t tenant.ID, name string) (out notice.Rule, err error) {
	err = s.look(ctx, "find a rule", func(c *conn) error {
		found, err := c.prepare(rulesSQL + " WHERE tenant = ? AND name = ?").text(string(t)).text(name).first(func(r *row) (err error) {
			out, err = readRule(r)
			return err
		})
		if err == nil && !found {
			return engine.ErrNotFound
		}
		return err
	})
	return out, err
}

// Rules lists a tenant's rules, or those of all tenants.
func (s *Store) Rules(ctx context.Context, t tenant.ID) ([]notice.Rule, error) {
	var out []notice.Rule
	err := s.look(ctx, "list rules", func(c *conn) error {
		return c.prepare(rulesSQL + " WHERE ?1 IN ('', tenant) ORDER BY tenant, created_at, name").text(string(t)).each(func(r *row) error {
			one, err := readRule(r)
			out = append(out, one)
			return err
		})
	})
	return out, err
}

// DeleteRule forgets a rule and its alarms.
func (s *Store) DeleteRule(ctx context.Context, t tenant.ID, name string) error {
	return s.write(ctx, "delete a rule", func(c *conn, _ int64) error {
		if _, err := c.prepare("DELETE FROM alarms WHERE tenant = ? AND rule = ?").text(string(t)).text(name).exec(); err != nil {
			return err
		}
		n, err := c.prepare("DELETE FROM notification_rules WHERE tenant = ? AND name = ?").text(string(t)).text(name).exec()
		if err == nil && n == 0 {
			return engine.ErrNotFound
		}
		return err
	})
}

// Unwell lists finished executions that did not succeed and were not cancelled either.
func (s *Store) Unwell(ctx context.Context, ts []tenant.ID, after engine.Mark, limit int) ([]job.Execution, error) {
	names := make([]string, len(ts))
	for i, t := range ts {
		names[i] = string(t)
	}
	var out []job.Execution
	if len(names) == 0 {
		return nil, nil
	}
	err := s.look(ctx, "look for what did not go well", func(c *conn) error {
		return c.prepare(unwellSQL).int(micros(after.At)).id(after.ID).text(array(names)).int(int64(limit)).each(func(r *row) error {
			e, err := readExecution(r)
			out = append(out, e)
			return err
		})
	})
	return out, err
}

// micros is an instant as it is stored; the zero one is before all others.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Late lists executions that were due before an instant and have not begun, one of each job.
func (s *Store) Late(ctx context.Context, t tenant.ID, before time.Time, limit int) ([]engine.Late, error) {
	var out []engine.Late
	err := s.look(ctx, "look for what is late", func(c *conn) error {
		return c.prepare(lateNowSQL).text(string(t)).at(before).int(int64(limit)).each(func(r *row) error {
			out = append(out, engine.Late{Execution: r.id(), Job: r.id(), ScheduledAt: r.at(), DueAt: r.at()})
			return nil
		})
	})
	return out, err
}

// Alarms lists those of all tenants.
func (s *Store) Alarms(ctx context.Context) ([]notice.Alarm, error) {
	var out []notice.Alarm
	err := s.look(ctx, "list alarms", func(c *conn) error {
		return c.prepare("SELECT tenant, rule, job, event, since, execution FROM alarms ORDER BY tenant, rule, job, event").each(func(r *row) error {
			out = append(out, notice.Alarm{
				Tenant: tenant.ID(r.text()), Rule: r.text(), Job: r.id(), Event: notice.Event(r.text()), Since: r.at(), Execution: r.id(),
			})
			return nil
		})
	})
	return out, err
}

// SetAlarms stores alarms that began and forgets those that ended.
func (s *Store) SetAlarms(ctx context.Context, began, ended []notice.Alarm) error {
	return s.write(ctx, "keep alarms", func(c *conn, _ int64) error {
		for _, a := range ended {
			_, err := c.prepare("DELETE FROM alarms WHERE tenant = ? AND rule = ? AND job = ? AND event = ?").
				text(string(a.Tenant)).text(a.Rule).id(a.Job).text(string(a.Event)).exec()
			if err != nil {
				return err
			}
		}
		for _, a := range began {
			_, err := c.prepare(`INSERT INTO alarms (tenant, rule, job, event, since, execution)
				SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE EXISTS (SELECT 1 FROM notification_rules WHERE tenant = ?1 AND name = ?2)
				ON CONFLICT DO NOTHING`).
				text(string(a.Tenant)).text(a.Rule).id(a.Job).text(string(a.Event)).at(a.Since).idOrNull(a.Execution).exec()
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Watched is how far the search for events has come.
func (s *Store) Watched(ctx context.Context) (at time.Time, err error) {
	err = s.look(ctx, "read how far events were looked for", func(c *conn) error {
		_, err := c.prepare("SELECT at FROM watched").first(func(r *row) error {
			at = r.at()
			return nil
		})
		return err
	})
	return at, err
}

// SetWatched moves that on.
func (s *Store) SetWatched(ctx context.Context, at time.Time) error {
	return s.write(ctx, "keep how far events were looked for", func(c *conn, _ int64) error {
		_, err := c.prepare("INSERT INTO watched (one, at) VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET at = max(at, excluded.at)").at(at).exec()
		return err
	})
}
