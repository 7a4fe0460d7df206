package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/notice"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	putRuleSQL = `
		INSERT INTO notification_rules (tenant, name, created_at, updated_at, spec)
		SELECT $1, $2, $3, $4, $5 WHERE EXISTS (SELECT 1 FROM notification_rules WHERE tenant = $1 AND name = $2)
			OR (SELECT count(*) FROM notification_rules WHERE tenant = $1) < $6
		ON CONFLICT (tenant, name) DO UPDATE SET updated_at = excluded.updated_at, spec = excluded.spec`
	rulesSQL    = "SELECT tenant, name, created_at, updated_at, spec FROM notification_rules"
	endAlarmSQL = "DELETE FROM alarms WHERE tenant = $1 AND rule = $2 AND job = $3 AND event = $4"
	// The lock keeps a rule from being deleted while an alarm of it is stored.
	beginAlarmSQL = `
		INSERT INTO alarms (tenant, rule, job, event, since, execution)
		SELECT tenant, name, $3, $4, $5, $6 FROM notification_rules WHERE tenant = $1 AND name = $2 /*postgres: FOR KEY SHARE*/
		ON CONFLICT DO NOTHING`
	setWatchedSQL = `
		INSERT INTO watched (at/*sqlite: , one*/) VALUES ($1/*sqlite: , 1*/)
		ON CONFLICT (one) DO UPDATE SET at = excluded.at WHERE watched.at < excluded.at`
)

func scanRule(r Row) (out notice.Rule, err error) {
	var t, name string
	var created, updated time.Time
	var spec []byte
	if err := r.Scan(&t, &name, &created, &updated, &spec); err != nil {
		return out, err
	}
	if err := json.Unmarshal(spec, &out); err != nil {
		return out, fmt.Errorf("read the rule %s: %w", name, err)
	}
	out.Tenant, out.Name, out.CreatedAt, out.UpdatedAt = tenant.ID(t), name, created, updated
	return out, nil
}

// PutRule creates or replaces a rule. It locks the tenant to count its rules.
func (s notices) PutRule(ctx context.Context, r notice.Rule, most int, e *audit.Entry) error {
	spec, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("store a rule: %w", err)
	}
	return write(ctx, s.db, "store a rule", e, func(tx Tx) error {
		if err := tx.LockTenant(r.Tenant); err != nil {
			return err
		}
		return changeOne(tx, engine.ErrConflict, putRuleSQL, string(r.Tenant), r.Name, r.CreatedAt, r.UpdatedAt, spec, most)
	})
}

// Rule finds one rule.
func (s notices) Rule(ctx context.Context, t tenant.ID, name string) (notice.Rule, error) {
	return readOne(ctx, s.db, "find a rule", scanRule, rulesSQL+" WHERE tenant = $1 AND name = $2", string(t), name)
}

// Rules lists a tenant's rules, or those of all tenants.
func (s notices) Rules(ctx context.Context, t tenant.ID) ([]notice.Rule, error) {
	return readAll(ctx, s.db, "list rules", scanRule, rulesSQL+" WHERE $1 IN ('', tenant) ORDER BY tenant, created_at, name", string(t))
}

// DeleteRule deletes a rule and its alarms.
func (s notices) DeleteRule(ctx context.Context, t tenant.ID, name string, e *audit.Entry) error {
	return write(ctx, s.db, "delete a rule", e, func(tx Tx) error {
		if err := changeOne(tx, engine.ErrNotFound, "DELETE FROM notification_rules WHERE tenant = $1 AND name = $2", string(t), name); err != nil {
			return err
		}
		_, err := tx.Exec("DELETE FROM alarms WHERE tenant = $1 AND rule = $2", string(t), name)
		return err
	})
}

// Alarms lists the alarms of all tenants.
func (s notices) Alarms(ctx context.Context) ([]notice.Alarm, error) {
	return readAll(ctx, s.db, "list alarms", func(r Row) (a notice.Alarm, err error) {
		err = r.Scan((*string)(&a.Tenant), &a.Rule, (*[16]byte)(&a.Job), (*string)(&a.Event), &a.Since, (*[16]byte)(&a.Execution))
		return a, err
	}, "SELECT tenant, rule, job, event, since, execution FROM alarms ORDER BY tenant, rule, job, event")
}

// SetAlarms stores alarms that began and deletes those that ended.
func (s notices) SetAlarms(ctx context.Context, began, ended []notice.Alarm) error {
	var starts, ends [][]any
	for _, a := range ended {
		ends = append(ends, []any{string(a.Tenant), a.Rule, [16]byte(a.Job), string(a.Event)})
	}
	for _, a := range began {
		starts = append(starts, []any{string(a.Tenant), a.Rule, [16]byte(a.Job), string(a.Event), a.Since, OptionalID(a.Execution)})
	}
	return s.db.Write(ctx, "keep alarms", func(tx Tx) error {
		if err := tx.ExecEach(endAlarmSQL, ends); err != nil {
			return err
		}
		return tx.ExecEach(beginAlarmSQL, starts)
	})
}

// Watched returns how far the search for events has come.
func (s notices) Watched(ctx context.Context) (at time.Time, err error) {
	err = s.db.Read(ctx, "read how far events were looked for", func(tx Tx) (err error) {
		at, err = value[time.Time](tx, "SELECT at FROM watched")
		return err
	})
	return at, err
}

// SetWatched records how far the search for events has come; it never goes back.
func (s notices) SetWatched(ctx context.Context, at time.Time) error {
	return exec(ctx, s.db, "keep how far events were looked for", nil, setWatchedSQL, at)
}
