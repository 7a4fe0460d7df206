package sqlite

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	unwellSQL = "SELECT " + pastColumns + ` FROM executions v INDEXED BY executions_unwell
		WHERE v.status > 10 AND v.status <> 13 AND (v.finished_at, v.id) > (?, ?) AND v.tenant IN (SELECT value FROM json_each(?))
		ORDER BY v.finished_at, v.id LIMIT ?`
	lateNowSQL = `SELECT v.id, v.job, v.scheduled_at, min(v.due_at) FROM live v INDEXED BY live_lane
		WHERE v.part = ? AND v.tenant = ? AND v.due_at < ? AND v.started_at IS NULL AND v.lease <= 0 AND v.hold = 0 GROUP BY v.job LIMIT ?`
)

// Unwell lists finished executions that neither succeeded nor were cancelled.
func (s *reads) Unwell(ctx context.Context, ts []tenant.ID, after engine.Mark, limit int) ([]job.Execution, error) {
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

// micros returns an instant in its stored form; the zero one is before all others.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Late lists executions that were due before an instant and have not begun, one of each job. It reads one partition
// at a time; executions of one job may be in several.
func (s *reads) Late(ctx context.Context, t tenant.ID, before time.Time, limit int) ([]engine.Late, error) {
	var out []engine.Late
	at := map[job.ID]int{} // in out
	for p := range job.Partition(job.Partitions) {
		err := s.look(ctx, "look for what is late", func(c *conn) error {
			return c.prepare(lateNowSQL).int(int64(p)).text(string(t)).at(before).int(int64(limit)).each(func(r *row) error {
				l := engine.Late{Execution: r.id(), Job: r.id(), ScheduledAt: r.at(), DueAt: r.at()}
				if i, known := at[l.Job]; !known && len(out) < limit {
					at[l.Job] = len(out)
					out = append(out, l)
				} else if known && l.DueAt.Before(out[i].DueAt) {
					out[i] = l
				}
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
