package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	tidyMinutesSQL = "DELETE FROM minutes WHERE at < now() - interval '48 hours'"

	// countedInCensus is how many of a kind are counted: some 30 ms.
	countedInCensus = 100_000

	// Dead letters beyond that are estimated, as the planner does it: by the size of the table now, and by how dense it
	// was at its last vacuum.
	censusSQL = `
		SELECT w.live, w.draining, w.slots, w.dead, w.busy, w.draining_slots, w.memory, w.memory_share,
			(SELECT min(x.at) FROM tenants t CROSS JOIN LATERAL (SELECT at FROM dead_letters WHERE tenant = t.id ORDER BY at LIMIT 1) x),
			(SELECT count(*) FROM partitions p WHERE p.duty = 2 AND NOT EXISTS (SELECT 1 FROM servers s WHERE s.id = p.owner AND ` + serves + `)),
			(SELECT coalesce(sum(pg_total_relation_size(i.inhrelid)), 0) FROM pg_inherits i WHERE i.inhparent = 'executions'::regclass)::int8
				+ pg_total_relation_size('attempts') + pg_total_relation_size('events') + pg_total_relation_size('logs'),
			d.n, CASE WHEN d.n > $2 THEN (SELECT greatest(reltuples / greatest(relpages, 1) * (pg_relation_size(oid) / current_setting('block_size')::int), d.n)::int8 FROM pg_class WHERE oid = 'dead_letters'::regclass) ELSE d.n END, o.n, r.n, a.n, a.oldest,
			least((SELECT min(finished_at) FROM run_marks), (SELECT min(at) FROM edge_marks), (SELECT min(wake_at) FROM run_waits WHERE wake_at <= now()))
		FROM (SELECT count(*) FILTER (WHERE NOT draining AND NOT drain AND NOT cordoned) AS live, count(*) FILTER (WHERE draining OR drain OR cordoned) AS draining,
				coalesce(sum(capacity) FILTER (WHERE NOT draining AND NOT drain AND NOT cordoned), 0)::int8 AS slots,
				coalesce(sum(least(running, capacity)) FILTER (WHERE NOT draining AND NOT drain AND NOT cordoned), 0)::int8 AS busy,
				coalesce(sum(capacity) FILTER (WHERE draining OR drain OR cordoned), 0)::int8 AS draining_slots,
				coalesce(sum(memory_used), 0)::int8 AS memory, coalesce(max(least(memory_used::float8 / memory_limit, 1)) FILTER (WHERE memory_limit > 0), 0) AS memory_share,
				(SELECT count(*) FROM sessions WHERE ` + people + ` AND expires_at > now() - interval '1 hour' AND (deposed OR expires_at <= now())) AS dead
			FROM sessions WHERE ` + people + ` AND NOT deposed AND expires_at > now()) w,
			(SELECT count(*) AS n FROM (SELECT 1 FROM dead_letters LIMIT $2 + 1) d) d,
			(SELECT count(*) AS n FROM (
				SELECT 1 FROM generate_series(0, 63) p(part) CROSS JOIN LATERAL (
					SELECT 1 FROM schedules s WHERE s.part = p.part AND s.active AND s.next_run_at IS NOT NULL AND s.next_run_at < $1 LIMIT $2 + 1) s
				LIMIT $2 + 1) s) o,
			(SELECT count(*) AS n FROM (SELECT 1 FROM runs WHERE ended_at IS NULL LIMIT $2 + 1) r) r,
			(SELECT count(*) AS n, min(begun_at) AS oldest FROM (SELECT begun_at FROM run_waits WHERE kind = 2 LIMIT $2 + 1) a) a`
)

// Census counts what exists now.
func (s *reads) Census(ctx context.Context, overdue time.Time) (engine.Census, error) {
	var out engine.Census
	err := s.look(ctx, "count what there is", func(ctx context.Context, c *pgxpool.Conn) error {
		var counted int64
		err := c.QueryRow(ctx, censusSQL, overdue, countedInCensus).Scan(&out.Workers, &out.Draining, &out.Slots, &out.Dead, &out.Busy, &out.DrainingSlots,
			&out.Memory, &out.MemoryShare, at(&out.OldestDead), &out.Unscheduled, &out.HistoryBytes, &counted, &out.DeadLetters.Count, &out.Overdue.Count, &out.Runs.Count, &out.Approvals.Count,
			at(&out.OldestWaits), at(&out.Undecided))
		out.DeadLetters.Estimate, out.Overdue.Estimate = counted > countedInCensus, out.Overdue.Count > countedInCensus
		out.Runs.Estimate, out.Approvals.Estimate = out.Runs.Count > countedInCensus, out.Approvals.Count > countedInCensus
		return err
	})
	return out, err
}
