package sqlstore

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	putCalendarSQL = `
		INSERT INTO calendars (tenant, name, updated_at, spec) VALUES ($1, $2, $3, $4)
		ON CONFLICT (tenant, name) DO UPDATE SET updated_at = excluded.updated_at, spec = excluded.spec`
	calendarsSQL = "SELECT tenant, name, updated_at, spec FROM calendars WHERE tenant = $1"
)

func scanCalendar(r Row) (c engine.Calendar, err error) {
	err = r.Scan((*string)(&c.Tenant), &c.Name, &c.UpdatedAt, &c.Spec)
	return c, err
}

// PutCalendar creates or replaces a calendar.
func (s calendars) PutCalendar(ctx context.Context, c engine.Calendar, e *audit.Entry) error {
	return exec(ctx, s.db, "store a calendar", e, putCalendarSQL, string(c.Tenant), c.Name, c.UpdatedAt, c.Spec)
}

// Calendar finds one calendar.
func (s calendars) Calendar(ctx context.Context, t tenant.ID, name string) (out engine.Calendar, err error) {
	err = s.db.Read(ctx, "find a calendar", func(tx Tx) (err error) {
		out, err = Calendar(tx, t, name)
		return err
	})
	return out, err
}

// Calendar finds one calendar.
func Calendar(tx Tx, t tenant.ID, name string) (engine.Calendar, error) {
	return one(tx, scanCalendar, calendarsSQL+" AND name = $2", string(t), name)
}

// Calendars lists a tenant's calendars in order of their names.
func (s calendars) Calendars(ctx context.Context, t tenant.ID) ([]engine.Calendar, error) {
	return readAll(ctx, s.db, "list calendars", scanCalendar, calendarsSQL+" ORDER BY name", string(t))
}

// DeleteCalendar deletes a calendar.
func (s calendars) DeleteCalendar(ctx context.Context, t tenant.ID, name string, e *audit.Entry) error {
	return execOne(ctx, s.db, "delete a calendar", e, engine.ErrNotFound, "DELETE FROM calendars WHERE tenant = $1 AND name = $2", string(t), name)
}
