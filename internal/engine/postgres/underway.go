package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// leaseMark begins every statement that leases, so that pg_stat_activity shows which are under way.
const leaseMark = `/* lease */`

const (
	leasingSQL = `
		SELECT coalesce(array_agg(pid), '{}'), coalesce(array_agg(xact_start), '{}') FROM pg_stat_activity
		WHERE datname = current_database() AND xact_start IS NOT NULL AND query LIKE '` + leaseMark + `%'`
	stillLeasingSQL = `
		SELECT count(*) FROM unnest($1::int4[], $2::timestamptz[]) w(pid, at) JOIN pg_stat_activity a ON a.pid = w.pid AND a.xact_start = w.at`
)

// awaitLeases waits until the leases that are under way have ended. One that began before a job was paused or deleted does not see
// that, and takes what no row of the change stands in its way for: it must not commit after the change was answered. A statement shows
// in pg_stat_activity before it reads anything, so none is missed. What cannot be seen is not waited for, nor is any for longer than a
// lease may take.
func (s *Store) awaitLeases(ctx context.Context) {
	ctx, cancel := context.WithTimeout(engine.Unconfined(ctx), patience)
	defer cancel()
	var pids []int32
	var began []time.Time
	err := s.look(ctx, "list leases that are under way", func(ctx context.Context, c *pgxpool.Conn) error {
		return c.QueryRow(ctx, leasingSQL).Scan(&pids, &began)
	})
	for pause := time.Millisecond; err == nil && len(pids) > 0; pause = min(2*pause, 50*time.Millisecond) {
		var n int
		err = s.look(ctx, "look whether leases have ended", func(ctx context.Context, c *pgxpool.Conn) error {
			return c.QueryRow(ctx, stillLeasingSQL, pids, began).Scan(&n)
		})
		if n == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}
