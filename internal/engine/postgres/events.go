package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Events lists the recorded events of an execution, oldest first.
func (s *reads) Events(ctx context.Context, t tenant.ID, x job.ExecutionID) ([]job.Event, error) {
	var out []job.Event
	err := s.look(ctx, "list events", func(ctx context.Context, c *pgxpool.Conn) error {
		var err error
		out, err = eventsOf(ctx, c, t, x)
		if err != nil || len(out) > 0 {
			return err
		}
		return exists(ctx, c, t, x)
	})
	return out, err
}

func eventsOf(ctx context.Context, c *pgxpool.Conn, t tenant.ID, x job.ExecutionID) ([]job.Event, error) {
	rows, _ := c.Query(ctx, `
		SELECT at, kind, attempt, token, worker, note FROM events WHERE execution = $1 AND tenant = $2 ORDER BY at, token, kind`,
		[16]byte(x), string(t))
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (e job.Event, err error) {
		err = r.Scan(at(&e.At), (*string)(&e.Kind), &e.Attempt, (*int64)(&e.Token), (*id)(&e.Worker), &e.Note)
		return e, err
	})
}
