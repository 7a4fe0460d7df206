package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// expireSQL skips executions that someone else is about to lease, release or cancel.
const expireSQL = `
	WITH late AS MATERIALIZED (
		SELECT id FROM live WHERE expires_at IS NOT NULL AND expires_at <= now() AND started_at IS NULL AND lease <= 0
		ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED
	), gone AS (
		DELETE FROM live v USING late l WHERE v.id = ANY (ARRAY[l.id]) AND v.lease <= 0 AND v.started_at IS NULL
		RETURNING 15::int2 AS status, ` + goneRow + `, v.attempt, v.tries, v.lost, -v.lease AS token, NULL::bytea AS result, $2::bytea AS ending
	), ` + endSQL + `
	` + ofGone

// Expire ends up to limit executions that never started and whose time to start has passed.
func (s *leases) Expire(ctx context.Context, limit int) (expired []engine.Ended, err error) {
	err = s.write(ctx, "expire executions", func(ctx context.Context, c *pgxpool.Conn) error {
		return withDays(ctx, c, func() (err error) {
			expired, err = collectEnded(c.Query(ctx, expireSQL, max(limit, 0), engine.EncodeEnd(engine.ExpiredInTime(), nil)))
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return expired, nil
}
