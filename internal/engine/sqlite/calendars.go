package sqlite

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	usersSQL = "SELECT id, state <> 4 AND kind IN (3, 4) AND instr(spec, ?1) > 0 FROM jobs WHERE tenant = ?2 AND id > ?3 ORDER BY id LIMIT ?4"
)

// CalendarUsers lists those of some jobs that use a calendar, and the last one it examined.
func (s *reads) CalendarUsers(ctx context.Context, t tenant.ID, name string, after job.ID, look int) ([]job.Job, job.ID, error) {
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
