package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	keepMinutesSQL = `
		INSERT INTO minutes (at, server, started, completed, failed, again, waited, wait_us, max_wait_us, fired, delay_us, max_delay_us)
		SELECT m.at, $1, m.started, m.completed, m.failed, m.again, m.waited, m.wait_us, m.max_wait_us, m.fired, m.delay_us, m.max_delay_us
		FROM unnest($2::timestamptz[], $3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::int8[], $10::int8[], $11::int8[], $12::int8[])
			m(at, started, completed, failed, again, waited, wait_us, max_wait_us, fired, delay_us, max_delay_us)
		ON CONFLICT (at, server) DO UPDATE SET started = EXCLUDED.started, completed = EXCLUDED.completed, failed = EXCLUDED.failed, again = EXCLUDED.again,
			waited = EXCLUDED.waited, wait_us = EXCLUDED.wait_us, max_wait_us = EXCLUDED.max_wait_us,
			fired = EXCLUDED.fired, delay_us = EXCLUDED.delay_us, max_delay_us = EXCLUDED.max_delay_us`
	minutesSQL = `
		SELECT at, sum(started)::int8, sum(completed)::int8, sum(failed)::int8, sum(again)::int8, sum(waited)::int8, sum(wait_us)::int8, max(max_wait_us),
			sum(fired)::int8, sum(delay_us)::int8, max(max_delay_us)
		FROM minutes WHERE at >= $1 GROUP BY at ORDER BY at`
	tidyMinutesSQL = "DELETE FROM minutes WHERE at < now() - interval '48 hours'"

	// Dead letters past what is counted are taken from statistics.
	censusSQL = `
		SELECT w.live, w.draining, w.slots, w.dead, w.busy, w.draining_slots, w.memory, w.memory_share,
			(SELECT min(x.at) FROM tenants t CROSS JOIN LATERAL (SELECT at FROM dead_letters WHERE tenant = t.id ORDER BY at LIMIT 1) x),
			(SELECT count(*) FROM partitions p WHERE p.duty = 2 AND NOT EXISTS (SELECT 1 FROM servers s WHERE s.id = p.owner AND ` + serves + `)),
			(SELECT coalesce(sum(pg_total_relation_size(i.inhrelid)), 0) FROM pg_inherits i WHERE i.inhparent = 'executions'::regclass)::int8
				+ pg_total_relation_size('attempts') + pg_total_relation_size('events') + pg_total_relation_size('logs'),
			d.n, CASE WHEN d.n > $2 THEN (SELECT greatest(reltuples, d.n)::int8 FROM pg_class WHERE oid = 'dead_letters'::regclass) ELSE d.n END, o.n
		FROM (SELECT count(*) FILTER (WHERE NOT draining AND NOT drain AND NOT cordoned) AS live, count(*) FILTER (WHERE draining OR drain OR cordoned) AS draining,
				coalesce(sum(capacity) FILTER (WHERE NOT draining AND NOT drain AND NOT cordoned), 0)::int8 AS slots,
				coalesce(sum(least(running, capacity)) FILTER (WHERE NOT draining AND NOT drain AND NOT cordoned), 0)::int8 AS busy,
				coalesce(sum(capacity) FILTER (WHERE draining OR drain OR cordoned), 0)::int8 AS draining_slots,
				coalesce(sum(memory_used), 0)::int8 AS memory, coalesce(max(least(memory_used::float8 / memory_limit, 1)) FILTER (WHERE memory_limit > 0), 0) AS memory_share,
				(SELECT count(*) FROM sessions WHERE expires_at > now() - interval '1 hour' AND (deposed OR expires_at <= now())) AS dead
			FROM sessions WHERE NOT deposed AND expires_at > now()) w,
			(SELECT count(*) AS n FROM (SELECT 1 FROM dead_letters LIMIT $2 + 1) d) d,
			(SELECT count(*) AS n FROM (
				SELECT 1 FROM generate_series(0, 63) p(part) CROSS JOIN LATERAL (
					SELECT 1 FROM schedules s WHERE s.part = p.part AND s.active AND s.next_run_at IS NOT NULL AND s.next_run_at < $1 LIMIT $2 + 1) s
				LIMIT $2 + 1) s) o`
)

// KeepMinutes keeps what a server has counted in minutes.
func (s *Store) KeepMinutes(ctx context.Context, by engine.ServerID, ms []engine.Minute) error {
	ats := instants(len(ms))
	var ns [10]*array
	for i := range ns {
		ns[i] = bigints(len(ms))
	}
	for _, m := range ms {
		ats.time(m.At.Truncate(time.Minute))
		for i, n := range []int64{
			m.Started, m.Completed, m.Failed, m.Again, m.Waited, m.Wait.Microseconds(), m.MaxWait.Microseconds(), m.Fired, m.Delay.Microseconds(), m.MaxDelay.Microseconds(),
		} {
			ns[i].int8(n)
		}
	}
	args := []any{[16]byte(by), ats}
	for _, n := range ns {
		args = append(args, n)
	}
	return s.write(ctx, "keep counts", func(ctx context.Context, c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, keepMinutesSQL, args...)
		return err
	})
}

// Minutes sums up what was counted, minute by minute.
func (s *Store) Minutes(ctx context.Context, from time.Time) ([]engine.Minute, error) {
	var out []engine.Minute
	err := s.look(ctx, "read counts", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, minutesSQL, from.Truncate(time.Minute))
		var err error
		out, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (m engine.Minute, err error) {
			us := func(d *time.Duration) span { return span{d, time.Microsecond} }
			err = r.Scan(at(&m.At), &m.Started, &m.Completed, &m.Failed, &m.Again, &m.Waited, us(&m.Wait), us(&m.MaxWait), &m.Fired, us(&m.Delay), us(&m.MaxDelay))
			return m, err
		})
		return err
	})
	return out, err
}

// Census counts what there is now.
func (s *Store) Census(ctx context.Context, overdue time.Time) (engine.Census, error) {
	var out engine.Census
	err := s.look(ctx, "count what there is", func(ctx context.Context, c *pgxpool.Conn) error {
		var counted int64
		err := c.QueryRow(ctx, censusSQL, overdue, engine.TotalExact).Scan(&out.Workers, &out.Draining, &out.Slots, &out.Dead, &out.Busy, &out.DrainingSlots,
			&out.Memory, &out.MemoryShare, at(&out.OldestDead), &out.Unscheduled, &out.HistoryBytes, &counted, &out.DeadLetters.Count, &out.Overdue.Count)
		out.DeadLetters.Estimate, out.Overdue.Estimate = counted > engine.TotalExact, out.Overdue.Count > engine.TotalExact
		return err
	})
	return out, err
}
