package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
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

// Unwell lists finished executions that neither succeeded nor were cancelled.
func (s *reads) Unwell(ctx context.Context, ts []tenant.ID, after engine.Mark, limit int) (out []job.Execution, err error) {
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
func (s *reads) Late(ctx context.Context, t tenant.ID, before time.Time, limit int) (out []engine.Late, err error) {
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
