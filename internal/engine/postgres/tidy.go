package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// How much one pass of Tidy does, well within a statement's time limit.
const (
	tidiedKeys     = 5_000
	tidiedSessions = 1_000
	tidiedOrders   = 5_000
	tidiedLeases   = 100 // each of up to a thousand executions or so
	tidiedLive     = 2_000
	tidiedBuckets  = 2_000
	tidiedOps      = 1_000
)

const (
	tidyKeysSQL = `
		DELETE FROM idempotency WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM idempotency WHERE expires_at <= now() ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED))`
	// An hour, so that no lease that began before the end of its session can still commit.
	tidySessionsSQL = `
		DELETE FROM sessions WHERE id = ANY (ARRAY(
			SELECT s.id FROM sessions s WHERE s.deposed AND s.expires_at < now() - interval '1 hour'
				AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.worker = s.id)
			ORDER BY s.id LIMIT $1 FOR UPDATE OF s SKIP LOCKED))`
	// A cancel whose lease is over has no purpose left, and a lost order is repeated for an hour.
	tidyOrdersSQL = `
		DELETE FROM orders WHERE ctid = ANY (ARRAY(
			SELECT o.ctid FROM orders o LEFT JOIN LATERAL (SELECT true AS held FROM live WHERE id = o.execution AND lease = o.token OFFSET 0) v ON true
			WHERE o.kind = 1 AND v.held IS NULL LIMIT $1 FOR UPDATE OF o SKIP LOCKED
		) || ARRAY(
			SELECT ctid FROM orders WHERE kind = 2 AND at <= now() - interval '1 hour' LIMIT $1 FOR UPDATE SKIP LOCKED))`
	// A token is issued once, so executions that no longer carry it never will again. A row that is mostly done
	// shrinks to the rest.
	tidyLeasesSQL = `
		WITH old AS MATERIALIZED (
			SELECT l.lease, l.ids, l.keys FROM leases l WHERE l.lease > $1 AND l.at < now() - interval '1 minute'
			ORDER BY l.lease LIMIT $2 FOR UPDATE SKIP LOCKED
		), left_over AS MATERIALIZED (
			SELECT old.lease, cardinality(old.ids) AS size, r.ids || p.ids AS ids, p.keys
			FROM old CROSS JOIN LATERAL (
				SELECT coalesce(array_agg(v.id), '{}') AS ids
				FROM unnest(old.ids) u(id) CROSS JOIN LATERAL (SELECT id FROM live WHERE id = u.id AND lease = old.lease OFFSET 0) v
			) r CROSS JOIN LATERAL (
				SELECT coalesce(array_agg(u.id), '{}') AS ids, array_agg(DISTINCT b.key) AS keys
				FROM unnest(old.keys) k(key) CROSS JOIN LATERAL (SELECT key, ids, open FROM bundles WHERE key = k.key AND lease = old.lease OFFSET 0) b
				CROSS JOIN LATERAL unnest(b.ids) u(id) WHERE ` + isOpen + `
			) p
		), done AS (
			DELETE FROM leases l USING left_over o WHERE l.lease = ANY (ARRAY[o.lease]) AND o.ids = '{}'
		), shrunk AS (
			UPDATE leases l SET ids = o.ids, keys = o.keys FROM left_over o
			WHERE l.lease = ANY (ARRAY[o.lease]) AND o.ids <> '{}' AND cardinality(o.ids) * 4 < o.size
		)
		SELECT count(*), coalesce(max(lease), 0) FROM left_over`
	// No waiting execution of a deleted job should be left behind; if one were, nobody would lease or end it.
	tidyLiveSQL = `
		WITH seen AS MATERIALIZED (
			SELECT id, tenant, job, lease FROM live WHERE id > $1 ORDER BY id LIMIT $2
		), stray AS MATERIALIZED (
			SELECT s.id FROM seen s CROSS JOIN LATERAL (SELECT state FROM jobs WHERE tenant = s.tenant AND id = s.job OFFSET 0) j
			WHERE s.lease <= 0 AND j.state = 4
		), gone AS (
			DELETE FROM live v USING stray s WHERE v.id = ANY (ARRAY[s.id]) AND v.lease <= 0
			RETURNING 13::int2 AS status, ` + goneRow + `, v.attempt, v.tries, v.lost, -v.lease AS token, NULL::bytea AS result, $3::bytea AS ending
		), ` + endSQL + `
		SELECT count(*), (SELECT id FROM seen ORDER BY id DESC LIMIT 1) FROM seen`
	// A full bucket is equivalent to no bucket. The extra minute makes it full by an earlier clock, too.
	tidyBucketsSQL = `
		WITH seen AS MATERIALIZED (
			SELECT bucket, full_us FROM buckets WHERE bucket > $1 ORDER BY bucket LIMIT $2
		), full_again AS (
			DELETE FROM buckets b USING seen s WHERE b.bucket = ANY (ARRAY[s.bucket]) AND s.full_us < ` + longAgo + ` AND b.full_us < ` + longAgo + `
		)
		SELECT count(*), max(bucket) FROM seen`
	longAgo           = `(extract(epoch FROM now() - interval '1 minute') * 1000000)::int8`
	tidyOperationsSQL = `
		DELETE FROM operations WHERE id = ANY (ARRAY(
			SELECT id FROM operations WHERE finished_at IS NOT NULL AND finished_at < now() - interval '30 days' ORDER BY finished_at LIMIT $1 FOR UPDATE SKIP LOCKED))`
)

// Tidy drops expired idempotency keys, ended sessions, obsolete orders, finished leases, old operations, full
// buckets, expired pauses, old values of secrets and logs of executions that are gone, ends remains of deletions, and
// drops the empty tables of past days, and prepares those of the coming days.
func (s *upkeep) Tidy(ctx context.Context) (more bool, err error) {
	err = s.write(ctx, "tidy", func(ctx context.Context, c *pgxpool.Conn) error {
		more = false
		if _, err := prepareDays(ctx, c.Conn()); err != nil {
			return err
		}
		keys, err := c.Exec(ctx, tidyKeysSQL, tidiedKeys)
		if err != nil {
			return err
		}
		sessions, err := c.Exec(ctx, tidySessionsSQL, tidiedSessions)
		if err != nil {
			return err
		}
		orders, err := c.Exec(ctx, tidyOrdersSQL, tidiedOrders)
		if err != nil {
			return err
		}
		var leases int
		var last int64
		if err := c.QueryRow(ctx, tidyLeasesSQL, s.swept.Load(), tidiedLeases).Scan(&leases, &last); err != nil {
			return err
		}
		if leases < tidiedLeases {
			last = 0 // from the start, next time
		}
		s.swept.Store(last)
		if err := s.tidyLive(ctx, c); err != nil {
			return err
		}
		if err := s.tidyBuckets(ctx, c); err != nil {
			return err
		}
		if err := s.tidyLogs(ctx, c); err != nil {
			return err
		}
		if _, err := c.Exec(ctx, tidyOperationsSQL, tidiedOps); err != nil {
			return err
		}
		if _, err := c.Exec(ctx, tidyPausesSQL, tidiedOps); err != nil {
			return err
		}
		secrets, err := c.Exec(ctx, tidySecretsSQL, tidiedOps)
		if err != nil {
			return err
		}
		past, err := c.Exec(ctx, tidyPastSQL, engine.PastLife.Seconds(), tidiedOps)
		if err != nil {
			return err
		}
		if _, err := c.Exec(ctx, tidyMinutesSQL); err != nil {
			return err
		}
		if err := tidyTallies(ctx, c); err != nil {
			return err
		}
		if err := s.tidyRevisions(ctx, c); err != nil {
			return err
		}
		traces, err := c.Exec(ctx, tidyTracesSQL, tidiedTraces)
		if err != nil {
			return err
		}
		seals, err := c.Exec(ctx, tidyAuditSQL, engine.AuditLife.Seconds(), engine.TidiedSeals)
		if err != nil {
			return err
		}
		more = seals.RowsAffected() == engine.TidiedSeals || keys.RowsAffected() == tidiedKeys || sessions.RowsAffected() == tidiedSessions || orders.RowsAffected() >= tidiedOrders || leases == tidiedLeases || traces.RowsAffected() == tidiedTraces ||
			secrets.RowsAffected() == tidiedOps || past.RowsAffected() == tidiedOps
		return s.dropDays(ctx, c.Conn()) // last: it may fail, for as long as somebody holds an old table
	})
	return more, err
}

// tidyLive examines a part of live, and the next one in the next call.
func (s *upkeep) tidyLive(ctx context.Context, c *pgxpool.Conn) error {
	var from, last [16]byte
	if p := s.walked.Load(); p != nil {
		from = *p
	}
	var seen int
	if err := c.QueryRow(ctx, tidyLiveSQL, from, tidiedLive, jobDeleted).Scan(&seen, (*id)(&last)); err != nil {
		return err
	}
	if seen < tidiedLive {
		last = [16]byte{} // from the start, next time
	}
	s.walked.Store(&last)
	return nil
}

// tidyBuckets examines a part of the buckets, and the next one in the next call.
func (s *upkeep) tidyBuckets(ctx context.Context, c *pgxpool.Conn) error {
	var from string
	if p := s.drawn.Load(); p != nil {
		from = *p
	}
	var seen int
	var last text
	if err := c.QueryRow(ctx, tidyBucketsSQL, from, tidiedBuckets).Scan(&seen, &last); err != nil {
		return err
	}
	if seen < tidiedBuckets {
		last = "" // from the start, next time
	}
	s.drawn.Store((*string)(&last))
	return nil
}

const (
	tidyTracesSQL = `
		DELETE FROM traces WHERE of = ANY (ARRAY(
			SELECT of FROM traces WHERE at < now() - interval '7 days' ORDER BY at LIMIT $1 FOR UPDATE SKIP LOCKED))`
	tidiedTraces = 5_000
)

const (
	// tidyPausesSQL drops the rows of expired pauses that have no limit.
	tidyPausesSQL = `
		DELETE FROM limits WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM limits WHERE paused_until <= now() AND max_concurrent = 0 AND rate_count = 0 LIMIT $1 FOR UPDATE SKIP LOCKED))`
)
