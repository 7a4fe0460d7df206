package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	usersSQL = `
		SELECT id, state <> 4 AND kind IN (3, 4) AND position($4::bytea IN spec) > 0 FROM jobs
		WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3`
	jobsByIDSQL = "SELECT " + jobColumns + " FROM " + listedJobs + waits + " WHERE j.tenant = $1 AND j.id = ANY ($2::uuid[]) ORDER BY j.id"
)

// CalendarUsers lists those of some jobs that use a calendar, and the last one it examined.
func (s *reads) CalendarUsers(ctx context.Context, t tenant.ID, name string, after job.ID, look int) ([]job.Job, job.ID, error) {
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
