package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// forgetSQL reads only the tables of days before the instant, which is the beginning of one.
const forgetSQL = `
	WITH old AS MATERIALIZED (
		SELECT id, finished_at FROM executions WHERE tenant = $1 AND finished_at < $2 AND status > 0 LIMIT $3
	), gone AS (
		DELETE FROM executions x USING old o WHERE x.id = o.id AND x.finished_at = o.finished_at AND x.tenant = $1 AND x.finished_at < $2
		RETURNING x.id
	), a AS (
		DELETE FROM attempts x USING gone g WHERE x.execution = ANY (ARRAY[g.id])
	), e AS (
		DELETE FROM events x USING gone g WHERE x.execution = ANY (ARRAY[g.id])
	), l AS (
		DELETE FROM logs x USING gone g WHERE x.execution = ANY (ARRAY[g.id])
	), d AS (
		DELETE FROM dead_letters x USING gone g WHERE x.execution = ANY (ARRAY[g.id])
	)
	SELECT count(*) FROM gone`

// ForgetHistory drops executions of a tenant that finished before an instant.
func (s *upkeep) ForgetHistory(ctx context.Context, t tenant.ID, before time.Time, limit int) (out engine.Forgot, err error) {
	err = s.write(ctx, "forget history", func(ctx context.Context, c *pgxpool.Conn) error {
		return c.QueryRow(ctx, forgetSQL, string(t), before, limit).Scan(&out.N)
	})
	out.More = out.N == limit && err == nil
	return out, err
}
