package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	// The jobs that have an unfinished execution, and those that are planned, or wait to be triggered (5): in pages
	// of rows. The last row is the position where the page ended; there is none at the end. They require priority >
	// 0, so that only the tenant's rows are read.
	liveJobsSQL = `
		WITH p AS MATERIALIZED (
			SELECT scheduled_at, id, job FROM live WHERE tenant = $1 AND priority > 0 AND (scheduled_at, id) > ($2::timestamptz, $3::uuid) ORDER BY scheduled_at, id LIMIT $4::int8
		)
		SELECT DISTINCT job, NULL::timestamptz, NULL::uuid FROM p
		UNION ALL (SELECT NULL, scheduled_at, id FROM p OFFSET $4::int8 - 1)`
	bundledJobsSQL = `
		WITH p AS MATERIALIZED (
			SELECT scheduled_at, key, ids, open FROM bundles WHERE tenant = $1 AND priority > 0 AND (scheduled_at, key) > ($2::timestamptz, $3::uuid) ORDER BY scheduled_at, key LIMIT $4::int8
		)
		SELECT u.id, NULL::timestamptz, NULL::uuid FROM p b CROSS JOIN LATERAL unnest(b.ids) u(id) WHERE ` + isOpen + `
		UNION ALL (SELECT NULL, scheduled_at, key FROM p OFFSET $4::int8 - 1)`
	plannedJobsSQL = `
		WITH p AS MATERIALIZED (
			SELECT part, id, kind FROM jobs WHERE tenant = $1 AND kind <> 1 AND state < 4 AND (part, id) > ($2::int2, $3::uuid) ORDER BY part, id LIMIT $4::int8
		)
		SELECT p.id, NULL::int2, NULL::uuid FROM p LEFT JOIN LATERAL (SELECT true AS found FROM schedules s WHERE s.part = p.part AND s.job = p.id AND s.next_run_at IS NOT NULL OFFSET 0) s ON true
		WHERE p.kind = 5 OR s.found
		UNION ALL (SELECT NULL, part, id FROM p OFFSET $4::int8 - 1)`
	// keepCountSQL stores a count, plus what was created since it began, unless another count came first.
	keepCountSQL = `
		UPDATE job_counts SET active = CASE WHEN counted_at = $2 THEN $3 + greatest(active - $4, 0) ELSE active END,
			counted_at = CASE WHEN counted_at = $2 THEN clock_timestamp() ELSE counted_at END
		WHERE tenant = $1 RETURNING active`

	jobsPiece = 25_000 // rows that one statement reads
)

// CountJobs recounts the active jobs of a tenant, unless that was just done. It counts in pieces while others create
// jobs: what they add meanwhile is added to the count, even if a piece has seen it.
func (s *leases) CountJobs(ctx context.Context, t tenant.ID) (n int64, err error) {
	var age int64
	var counted time.Time
	err = s.write(ctx, "count jobs", func(ctx context.Context, c *pgxpool.Conn) error {
		return c.QueryRow(ctx, oldCountSQL, string(t)).Scan(&n, &age, &counted)
	})
	if err != nil || time.Duration(age)*time.Microsecond < engine.CountAge(n) {
		return n, err
	}
	active := map[job.ID]struct{}{}
	for _, x := range []struct {
		sql  string
		from any
	}{{bundledJobsSQL, "-infinity"}, {liveJobsSQL, "-infinity"}, {plannedJobsSQL, int16(-1)}} { // in this order: executions unpacked meanwhile are not missed
		if err := s.activeJobs(ctx, x.sql, t, x.from, active); err != nil {
			return 0, err
		}
	}
	err = s.write(ctx, "count jobs", func(ctx context.Context, c *pgxpool.Conn) error {
		err := c.QueryRow(ctx, keepCountSQL, string(t), counted, len(active), n).Scan(&n)
		if errors.Is(err, pgx.ErrNoRows) { // the tenant was changed meanwhile, which drops its count
			n, err = int64(len(active)), nil
		}
		return err
	})
	return n, err
}

// activeJobs adds the jobs that a statement lists, page by page.
func (s *leases) activeJobs(ctx context.Context, sql string, t tenant.ID, from any, active map[job.ID]struct{}) error {
	var after [16]byte
	for more := true; more; {
		err := s.ask(ctx, "count jobs", func(ctx context.Context, c *pgxpool.Conn) error {
			rows, _ := c.Query(ctx, sql, string(t), from, after, jobsPiece)
			var of, last *[16]byte
			var at any
			more = false
			_, err := pgx.ForEachRow(rows, []any{&of, &at, &last}, func() error {
				if of != nil {
					if !job.ID(*of).OfNode() {
						active[*of] = struct{}{}
					}
				} else {
					from, after, more = at, *last, true
				}
				return nil
			})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
