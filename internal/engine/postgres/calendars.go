package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// PutCalendar stores a calendar, in place of any of its name.
func (s *Store) PutCalendar(ctx context.Context, cal engine.Calendar) error {
	return s.change(ctx, "store a calendar", func(ctx context.Context, c writer) error {
		_, err := c.Exec(ctx, `
			INSERT INTO calendars (tenant, name, spec, updated_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (tenant, name) DO UPDATE SET spec = EXCLUDED.spec, updated_at = EXCLUDED.updated_at`,
			string(cal.Tenant), cal.Name, notNil(cal.Spec), cal.UpdatedAt)
		return err
	})
}

const calendarSQL = "SELECT tenant, name, spec, updated_at FROM calendars WHERE tenant = $1"

func scanCalendar(r pgx.CollectableRow) (cal engine.Calendar, err error) {
	err = r.Scan((*string)(&cal.Tenant), &cal.Name, &cal.Spec, at(&cal.UpdatedAt))
	return cal, err
}

// Calendar finds one; ErrNotFound if there is none.
func (s *Store) Calendar(ctx context.Context, t tenant.ID, name string) (engine.Calendar, error) {
	var out engine.Calendar
	err := s.look(ctx, "find a calendar", func(ctx context.Context, c *pgxpool.Conn) (err error) {
		out, err = findCalendar(ctx, c, t, name)
		return err
	})
	return out, err
}

func findCalendar(ctx context.Context, c querier, t tenant.ID, name string) (engine.Calendar, error) {
	rows, _ := c.Query(ctx, calendarSQL+" AND name = $2", string(t), name)
	out, err := pgx.CollectExactlyOneRow(rows, scanCalendar)
	return out, found(err)
}

// Calendars lists a tenant's in order of their names.
func (s *Store) Calendars(ctx context.Context, t tenant.ID) ([]engine.Calendar, error) {
	var out []engine.Calendar
	err := s.look(ctx, "list calendars", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, calendarSQL+" ORDER BY name", string(t))
		var err error
		out, err = pgx.CollectRows(rows, scanCalendar)
		return err
	})
	return out, err
}

// DeleteCalendar forgets one; ErrNotFound if there is none.
func (s *Store) DeleteCalendar(ctx context.Context, t tenant.ID, name string) error {
	return s.change(ctx, "delete a calendar", func(ctx context.Context, c writer) error {
		done, err := c.Exec(ctx, "DELETE FROM calendars WHERE tenant = $1 AND name = $2", string(t), name)
		if err == nil && done.RowsAffected() == 0 {
			return engine.ErrNotFound
		}
		return err
	})
}

const (
	usersSQL = `
		SELECT id, state <> 4 AND kind IN (3, 4) AND position($4::bytea IN spec) > 0 FROM jobs
		WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3`
	jobsByIDSQL = "SELECT " + jobColumns + " FROM " + listedJobs + waits + " WHERE j.tenant = $1 AND j.id = ANY ($2::uuid[]) ORDER BY j.id"
)

// CalendarUsers lists those of some jobs that name a calendar, and the last one it looked at.
func (s *Store) CalendarUsers(ctx context.Context, t tenant.ID, name string, after job.ID, look int) ([]job.Job, job.ID, error) {
	var out []job.Job
	var last job.ID
	err := s.look(ctx, "look for who uses a calendar", func(ctx context.Context, c *pgxpool.Conn) error {
		var ids [][16]byte
		var id [16]byte
		var uses bool
		out, last = nil, job.ID{}
		looked := 0
		rows, _ := c.Query(ctx, usersSQL, string(t), [16]byte(after), look, engine.CalendarMark(name))
		_, err := pgx.ForEachRow(rows, []any{&id, &uses}, func() error {
			looked, last = looked+1, id
			if uses {
				ids = append(ids, id)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if looked < look {
			last = job.ID{}
		}
		if len(ids) == 0 {
			return nil
		}
		rows, _ = c.Query(ctx, jobsByIDSQL, string(t), ids)
		out, err = pgx.CollectRows(rows, scanJob)
		return err
	})
	return out, last, err
}
