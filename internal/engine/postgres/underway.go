package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// A lease inserts into the table of leases, and holds its lock from before the statement's snapshot until the commit.
// Every login may read which transactions hold one; pg_stat_activity hides the statements of other logins.
const (
	leasingSQL = `
		SELECT coalesce(array_agg(DISTINCT virtualtransaction), '{}') FROM pg_locks
		WHERE locktype = 'relation' AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND relation = 'leases'::regclass AND mode = 'RowExclusiveLock'`
	stillLeasingSQL = "SELECT count(*) FROM pg_locks WHERE locktype = 'virtualxid' AND granted AND mode = 'ExclusiveLock' AND virtualxid = ANY ($1)"
)

// awaitLeases waits until the leases in progress have ended. One that began before a job was paused or deleted does
// not see that, and takes executions that no row of the change blocks: it must not commit after the change was
// answered. It waits no longer than a lease may take.
func (s *database) awaitLeases(ctx context.Context) {
	ctx, cancel := context.WithTimeout(engine.Unconfined(ctx), patience)
	defer cancel()
	var under []string
	err := s.look(ctx, "list leases that are under way", func(ctx context.Context, c *pgxpool.Conn) error {
		return c.QueryRow(ctx, leasingSQL).Scan(&under)
	})
	for pause := time.Millisecond; err == nil && len(under) > 0; pause = min(2*pause, 50*time.Millisecond) {
		var n int
		err = s.look(ctx, "look whether leases have ended", func(ctx context.Context, c *pgxpool.Conn) error {
			return c.QueryRow(ctx, stillLeasingSQL, under).Scan(&n)
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
