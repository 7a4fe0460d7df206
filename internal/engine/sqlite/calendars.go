package sqlite

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	putCalendarSQL = `
		INSERT INTO calendars (tenant, name, updated_at, spec) VALUES (?, ?, ?, ?)
		ON CONFLICT (tenant, name) DO UPDATE SET updated_at = excluded.updated_at, spec = excluded.spec`
	calendarsSQL   = "SELECT tenant, name, updated_at, spec FROM calendars WHERE tenant = ?"
	oneCalendarSQL = calendarsSQL + " AND name = ?"
	usersSQL       = "SELECT id, state <> 4 AND kind IN (3, 4) AND instr(spec, ?1) > 0 FROM jobs WHERE tenant = ?2 AND id > ?3 ORDER BY id LIMIT ?4"
)

// PutCalendar stores a calendar, in place of any of its name.
func (s *Store) PutCalendar(ctx context.Context, x engine.Calendar) error {
	spec := x.Spec
	if spec == nil {
		spec = []byte{}
	}
	return s.write(ctx, "store a calendar", func(c *conn, _ int64) error {
		_, err := c.prepare(putCalendarSQL).text(string(x.Tenant)).text(x.Name).int(x.UpdatedAt.UnixMicro()).bytes(spec).exec()
		return err
	})
}

func readCalendar(r *row) engine.Calendar {
	return engine.Calendar{Tenant: tenant.ID(r.text()), Name: r.text(), UpdatedAt: r.at(), Spec: r.bytes()}
}

// Calendar finds one calendar.
func (s *Store) Calendar(ctx context.Context, t tenant.ID, name string) (engine.Calendar, error) {
	var out engine.Calendar
	err := s.look(ctx, "find a calendar", func(c *conn) error {
		found, err := c.prepare(oneCalendarSQL).text(string(t)).text(name).first(func(r *row) error {
			out = readCalendar(r)
			return nil
		})
		if err == nil && !found {
			return engine.ErrNotFound
		}
		return err
	})
	return out, err
}

// Calendars lists a tenant's calendars in order of their names.
func (s *Store) Calendars(ctx context.Context, t tenant.ID) ([]engine.Calendar, error) {
	var out []engine.Calendar
	err := s.look(ctx, "list calendars", func(c *conn) error {
		return c.prepare(calendarsSQL + " ORDER BY name").text(string(t)).each(func(r *row) error {
			out = append(out, readCalendar(r))
			return nil
		})
	})
	return out, err
}

// DeleteCalendar forgets a calendar.
func (s *Store) DeleteCalendar(ctx context.Context, t tenant.ID, name string) error {
	return s.write(ctx, "delete a calendar", func(c *conn, _ int64) error {
		n, err := c.prepare("DELETE FROM calendars WHERE tenant = ? AND name = ?").text(string(t)).text(name).exec()
		if err == nil && n == 0 {
			return engine.ErrNotFound
		}
		return err
	})
}

// CalendarUsers lists those of some jobs that name a calendar, and the last one it looked at.
func (s *Store) CalendarUsers(ctx context.Context, t tenant.ID, name string, after job.ID, look int) ([]job.Job, job.ID, error) {
	var out []job.Job
	var last job.ID
	err := s.look(ctx, "look for who uses a calendar", func(c *conn) error {
		var ids []job.ID
		looked := 0
		err := c.prepare(usersSQL).bytes(engine.CalendarMark(name)).text(string(t)).id(after).int(int64(look)).each(func(r *row) error {
			looked, last = looked+1, r.id()
			if r.bool() {
				ids = append(ids, last)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if looked < look {
			last = job.ID{}
		}
		for _, id := range ids {
			j, err := findJob(c, t, engine.Ref{ID: id})
			if err != nil {
				return err
			}
			out = append(out, j)
		}
		return nil
	})
	return out, last, err
}
