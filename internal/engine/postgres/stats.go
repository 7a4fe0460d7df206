package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// statsSQL adds to the tallies of each job what is not tallied: its own fire, which has the job's id, and executions
// that have started and not ended.
const statsSQL = `
	SELECT coalesce(s.total, 0), coalesce(s.succeeded, 0), coalesce(s.average, 0), s.last_status, s.last_run_at, d.buckets, d.counts
	FROM unnest($2::uuid[]) WITH ORDINALITY q(job, n)
	CROSS JOIN LATERAL (
		SELECT sum(total)::int8 AS total, sum(succeeded)::int8 AS succeeded, (sum(sum_us) / nullif(sum(timed), 0))::int8 AS average,
			(array_agg(last_status ORDER BY last_finished_at DESC NULLS LAST))[1] AS last_status, max(last_run_at) AS last_run_at
		FROM (
			SELECT total, succeeded, timed, sum_us, last_status, last_finished_at, last_run_at FROM job_stats WHERE tenant = $1 AND job = q.job
			UNION ALL
			SELECT 1, (x.status = 10)::int, (x.started_at IS NOT NULL)::int, coalesce(` + micros + `, 0), x.status, x.finished_at, x.started_at
			FROM executions x WHERE x.id = q.job AND NOT x.tally AND x.tenant = $1
			UNION ALL
			SELECT 0, 0, 0, 0, NULL, NULL, started_at FROM live WHERE id = q.job AND NOT tally AND tenant = $1
			UNION ALL
			SELECT 0, 0, 0, 0, NULL, NULL, v.started_at FROM (` + memberOf + `q.job` + inBundle + `) v WHERE v.tenant = $1
			UNION ALL
			SELECT 0, 0, 0, 0, NULL, NULL, max(started_at) FROM (` + liveOfJob + `) v
			UNION ALL
			SELECT 0, 0, 0, 0, NULL, NULL, max(started_at) FROM (` + liveOfJobLast + `) v
		) a
	) s
	CROSS JOIN LATERAL (
		SELECT array_agg(bucket::int4) AS buckets, array_agg(n) AS counts
		FROM (
			SELECT bucket, n FROM job_durations WHERE tenant = $1 AND job = q.job
			UNION ALL
			SELECT ` + bucket + `, 1 FROM executions x WHERE x.id = q.job AND NOT x.tally AND x.tenant = $1 AND x.started_at IS NOT NULL
		) a
	) d
	ORDER BY q.n`

// A job may have very many waiting or running executions, so they are examined from either end. Running ones are at
// the beginning, where their turn came, or at the end, where they went before backfills of past instants.
const (
	liveOfJob     = "SELECT started_at FROM live WHERE job = q.job AND tally AND tenant = $1 ORDER BY scheduled_at LIMIT $3"
	liveOfJobLast = "SELECT started_at FROM live WHERE job = q.job AND tally AND tenant = $1 ORDER BY scheduled_at DESC LIMIT $3"
)

// lastStatusSQL looks up by key the last status in the statistics.
const lastStatusSQL = `
	SELECT coalesce(a.status, 0)
	FROM unnest($2::uuid[]) WITH ORDINALITY q(job, n)
	LEFT JOIN LATERAL (
		SELECT status FROM (
			SELECT last_status AS status, last_finished_at AS finished_at FROM job_stats WHERE tenant = $1 AND job = q.job
			UNION ALL
			SELECT x.status, x.finished_at FROM executions x WHERE x.id = q.job AND NOT x.tally AND x.tenant = $1 AND x.finished_at >= $3
		) u ORDER BY finished_at DESC NULLS LAST LIMIT 1
	) a ON true
	ORDER BY q.n`

// LastStatus returns how the latest finished execution of each job ended.
func (s *jobs) LastStatus(ctx context.Context, t tenant.ID, ids []job.ID, since time.Time) (out []job.Status, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	jobs := uuids(len(ids))
	for _, id := range ids {
		jobs.uuid(id)
	}
	err = s.look(ctx, "read how jobs did last", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, lastStatusSQL, string(t), jobs, since)
		var err error
		out, err = pgx.CollectRows(rows, pgx.RowTo[job.Status])
		return err
	})
	return out, err
}

// Stats reads the statistics of jobs of one tenant, in the requested order.
func (s *jobs) Stats(ctx context.Context, t tenant.ID, ids []job.ID) ([]job.Stats, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	jobs := uuids(len(ids))
	for _, id := range ids {
		jobs.uuid(id)
	}
	var out []job.Stats
	err := s.look(ctx, "read statistics", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, statsSQL, string(t), jobs, engine.StatsLook)
		var err error
		out, err = pgx.CollectRows(rows, scanStats)
		return err
	})
	return out, err
}

func scanStats(row pgx.CollectableRow) (job.Stats, error) {
	var s job.Stats
	var average int64
	var buckets []int
	var counts []int64
	err := row.Scan(&s.Total, &s.Succeeded, &average, num(&s.LastStatus), at(&s.LastRunAt), &buckets, &counts)
	if err != nil {
		return job.Stats{}, err
	}
	by := make(map[int]int64, len(buckets))
	for i, b := range buckets {
		by[b] += counts[i]
	}
	s.AvgDuration, s.P95Duration = time.Duration(average)*time.Microsecond, job.P95(by)
	return s, nil
}
