package sqlite

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	oldMinutesSQL   = "DELETE FROM minutes WHERE (at, server) IN (SELECT at, server FROM minutes WHERE at < ? LIMIT ?)"
	countWorkersSQL = `
		SELECT draining <> 0 OR drain <> 0 OR cordoned <> 0, sum(memory_used), coalesce(max(CASE WHEN memory_limit > 0 THEN min(1.0 * memory_used / memory_limit, 1.0) END), 0.0),
			count(*), sum(capacity), sum(min(running, capacity))
		FROM sessions WHERE ` + people + ` AND deposed = 0 AND expires_at > ? GROUP BY 1`
	countGoneSQL     = "SELECT count(*) FROM sessions WHERE " + people + " AND expires_at > ?2 AND (deposed <> 0 OR expires_at <= ?1)"
	oldestDeadSQL    = "SELECT min((SELECT at FROM dead_letters WHERE tenant = t.id ORDER BY at LIMIT 1)) FROM tenants t"
	sizeSQL          = "SELECT (SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM pragma_page_size)"
	countDeadSQL     = "SELECT count(*) FROM (SELECT 1 FROM dead_letters LIMIT ?)"
	countOverdueSQL  = "SELECT count(*) FROM (SELECT 1 FROM schedules WHERE active = 1 AND next_run_at IS NOT NULL AND next_run_at < ? LIMIT ?)"
	countRunsSQL     = "SELECT count(*) FROM (SELECT 1 FROM runs INDEXED BY runs_open WHERE ended_at IS NULL LIMIT ?)"
	countAsksSQL     = "SELECT count(*), min(begun_at) FROM (SELECT begun_at FROM run_waits WHERE kind = 2 LIMIT ?)"
	undecidedSQL     = "SELECT min(at) FROM (SELECT min(finished_at) AS at FROM run_marks UNION ALL SELECT min(at) FROM edge_marks UNION ALL SELECT min(wake_at) FROM run_waits WHERE wake_at <= ?)"
	countedInCensus  = 1_000_000 // of each kind; a few tens of milliseconds
	microsecondsEach = int64(time.Microsecond)
)

// Census counts what exists now.
func (s *reads) Census(ctx context.Context, overdue time.Time) (engine.Census, error) {
	var out engine.Census
	err := s.look(ctx, "count what there is", func(c *conn) error {
		now := s.now()
		err := c.prepare(countWorkersSQL).int(now).each(func(r *row) error {
			draining := r.bool()
			out.Memory += r.int64()
			out.MemoryShare = max(out.MemoryShare, r.float())
			if draining {
				out.Draining, out.DrainingSlots = r.int(), r.int()
				return nil
			}
			out.Workers, out.Slots, out.Busy = r.int(), r.int(), r.int()
			return nil
		})
		if err != nil {
			return err
		}
		for _, one := range []struct {
			q  *stmt
			to func(*row)
		}{
			{c.prepare(countGoneSQL).int(now).int(now - afterlife.Microseconds()), func(r *row) { out.Dead = r.int() }},
			{c.prepare(oldestDeadSQL), func(r *row) { out.OldestDead = r.at() }},
			{c.prepare(undecidedSQL).int(now), func(r *row) { out.Undecided = r.at() }},
			{c.prepare(sizeSQL), func(r *row) { out.HistoryBytes = r.int64() }},
		} {
			if _, err := one.q.first(func(r *row) error { one.to(r); return nil }); err != nil {
				return err
			}
		}
		total := func(q *stmt, t *engine.Total, oldest ...*time.Time) error {
			_, err := q.int(countedInCensus).first(func(r *row) error {
				t.Count = r.int64()
				t.Estimate = t.Count == countedInCensus
				if len(oldest) > 0 {
					*oldest[0] = r.at()
				}
				return nil
			})
			return err
		}
		if err := total(c.prepare(countDeadSQL), &out.DeadLetters); err != nil {
			return err
		}
		if err := total(c.prepare(countRunsSQL), &out.Runs); err != nil {
			return err
		}
		if err := total(c.prepare(countAsksSQL), &out.Approvals, &out.OldestWaits); err != nil {
			return err
		}
		return total(c.prepare(countOverdueSQL).int(overdue.UnixMicro()), &out.Overdue)
	})
	return out, err
}
