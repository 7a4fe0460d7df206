package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	liveRun = liveGlance + "live v"
	pastRun = "SELECT v.id, v.status, v.scheduled_at, v.started_at, v.finished_at FROM executions v"

	packedRun  = liveGlance + `(` + memberOf + `q.job` + inBundle + `) v WHERE v.tenant = $1 AND v.scheduled_at >= $4`
	liveGlance = "SELECT v.id, " + liveStatus + " AS status, v.scheduled_at, v.started_at, NULL::timestamptz AS finished_at FROM "
	ofJob      = " WHERE v.job = q.job AND v.tally AND v.tenant = $1 AND v.scheduled_at >= $4"
	ownRun     = " WHERE v.id = q.job AND NOT v.tally AND v.tenant = $1 AND v.scheduled_at >= $4"
	lastN      = " ORDER BY v.scheduled_at DESC, v.id DESC LIMIT $3"
	lately     = " AND v.finished_at >= $4" // so that no table of an earlier day is read

	recentSQL = `
		SELECT q.n::int, r.id, r.status, r.scheduled_at, r.started_at, r.finished_at
		FROM unnest($2::uuid[]) WITH ORDINALITY q(job, n)
		CROSS JOIN LATERAL (
			SELECT * FROM ((` + liveRun + ofJob + lastN + `) UNION ALL (` + liveRun + ownRun + `) UNION ALL (` + packedRun + `)
				UNION ALL (` + pastRun + ofJob + lately + lastN + `) UNION ALL (` + pastRun + ownRun + lately + `)) r
			ORDER BY r.scheduled_at DESC, r.id DESC LIMIT $3
		) r
		ORDER BY q.n, r.scheduled_at DESC, r.id DESC`

	// glancing makes a transaction read through indexes.
	glancing = "SET TRANSACTION READ ONLY; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL max_parallel_workers_per_gather = 0"

	// whoseSQL reads history only for executions that are not live.
	whoseSQL = `
		SELECT q.id, coalesce(v.tenant, x.tenant), coalesce(v.job, x.job), coalesce(v.trigger, x.trigger), coalesce(v.scheduled_at, x.scheduled_at)
		FROM unnest($1::uuid[]) q(id)
		LEFT JOIN LATERAL (SELECT tenant, job, trigger, scheduled_at FROM live WHERE id = q.id
			UNION ALL SELECT tenant, job, trigger, scheduled_at FROM (` + memberOf + `q.id` + inBundle + `) p LIMIT 1) v ON true
		LEFT JOIN LATERAL (SELECT tenant, job, trigger, scheduled_at FROM executions WHERE v.tenant IS NULL AND id = q.id AND finished_at >= $2 LIMIT 1) x ON true
		WHERE coalesce(v.tenant, x.tenant) IS NOT NULL`

	namesSQL = "SELECT q.id, j.name FROM unnest($2::uuid[]) q(id) CROSS JOIN LATERAL (SELECT name FROM jobs WHERE tenant = $1 AND id = q.id OFFSET 0) j"

	// lateSchedulesSQL also reads those of other tenants, but at most $2 of each partition, and returns whether there
	// may be more.
	lateSchedulesSQL = `
		SELECT count(*) FILTER (WHERE s.tenant = $3), coalesce(bool_or(s.n >= $2), false), (array_agg(s.job ORDER BY s.next_run_at, s.job) FILTER (WHERE s.tenant = $3))[1:$4]
		FROM generate_series(0, 63) p(part) CROSS JOIN LATERAL (
			SELECT s.*, count(*) OVER () AS n FROM (
				SELECT job, tenant, next_run_at FROM schedules s WHERE s.part = p.part AND s.active AND s.next_run_at IS NOT NULL AND s.next_run_at < $1
				ORDER BY s.next_run_at LIMIT $2) s
		) s`
	lateJobsSQL = `
		SELECT ` + definitionColumns + ` FROM unnest($2::uuid[], $3::int2[]) q(id, part)
		CROSS JOIN LATERAL (SELECT * FROM jobs WHERE tenant = $1 AND id = q.id OFFSET 0) d
		CROSS JOIN LATERAL (SELECT d.*, s.next_run_at, s.runs FROM schedules s WHERE s.part = q.part AND s.job = q.id AND s.next_run_at IS NOT NULL OFFSET 0) j
		ORDER BY j.next_run_at, j.id`
	lateEach = 1000
)

// glance runs f in a transaction that reads one snapshot through indexes.
func (s *reads) glance(ctx context.Context, doing string, f func(context.Context, pgx.Tx) error) error {
	return s.look(ctx, doing, func(ctx context.Context, c *pgxpool.Conn) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, glancing); err != nil {
				return err
			}
			return f(ctx, tx)
		})
	})
}

// Recent lists the last executions of each job.
func (s *reads) Recent(ctx context.Context, t tenant.ID, ids []job.ID, n int, since time.Time) ([][]engine.Run, error) {
	jobs := uuids(len(ids))
	for _, of := range ids {
		jobs.uuid(of)
	}
	var out [][]engine.Run
	err := s.glance(ctx, "list the last executions", func(ctx context.Context, tx pgx.Tx) error {
		out = make([][]engine.Run, len(ids))
		rows, _ := tx.Query(ctx, recentSQL, string(t), jobs, n, since)
		var place int
		var r engine.Run
		_, err := pgx.ForEachRow(rows, []any{&place, (*[16]byte)(&r.ID), num(&r.Status), at(&r.ScheduledAt), at(&r.StartedAt), at(&r.FinishedAt)}, func() error {
			out[place-1] = append(out[place-1], r)
			return nil
		})
		return err
	})
	return out, err
}

// Whose returns the tenants and jobs of executions.
func (s *reads) Whose(ctx context.Context, ids []job.ExecutionID, since time.Time) ([]engine.Owned, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	all := uuids(len(ids))
	for _, id := range ids {
		all.uuid(id)
	}
	var out []engine.Owned
	err := s.glance(ctx, "find whose executions are", func(ctx context.Context, tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, whoseSQL, all, since)
		var err error
		out, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (o engine.Owned, err error) {
			err = r.Scan((*[16]byte)(&o.Execution), (*string)(&o.Tenant), (*[16]byte)(&o.Job), num(&o.Trigger), at(&o.ScheduledAt))
			return o, err
		})
		return err
	})
	return out, err
}

// Names returns the names of jobs.
func (s *reads) Names(ctx context.Context, t tenant.ID, ids []job.ID) (map[job.ID]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	all := uuids(len(ids))
	for _, id := range ids {
		all.uuid(id)
	}
	var out map[job.ID]string
	err := s.look(ctx, "read names", func(ctx context.Context, c *pgxpool.Conn) error {
		out = make(map[job.ID]string, len(ids))
		rows, _ := c.Query(ctx, namesSQL, string(t), all)
		var of job.ID
		var name string
		_, err := pgx.ForEachRow(rows, []any{(*[16]byte)(&of), &name}, func() error {
			out[of] = name
			return nil
		})
		return err
	})
	return out, err
}

// LateJobs lists the tenant's jobs that are due but have not fired.
func (s *reads) LateJobs(ctx context.Context, t tenant.ID, before time.Time, limit int) (engine.JobPage, error) {
	var out engine.JobPage
	err := s.glance(ctx, "list jobs that are late", func(ctx context.Context, tx pgx.Tx) error {
		out = engine.JobPage{}
		var ids [][16]byte
		if err := tx.QueryRow(ctx, lateSchedulesSQL, before, lateEach, string(t), limit).Scan(&out.Total.Count, &out.Total.Estimate, &ids); err != nil || len(ids) == 0 {
			return err
		}
		jobs, parts := uuids(len(ids)), smallints(len(ids))
		for _, id := range ids {
			jobs.uuid(id)
			parts.int2(int(job.PartitionOf(id)))
		}
		rows, _ := tx.Query(ctx, lateJobsSQL, string(t), jobs, parts)
		var err error
		out.Jobs, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (job.Job, error) {
			var d definition
			if err := r.Scan(d.targets()...); err != nil {
				return job.Job{}, err
			}
			return d.decode()
		})
		return err
	})
	return out, err
}

// DeadErrors lists the errors of the latest dead letters.
func (s *reads) DeadErrors(ctx context.Context, f engine.DeadLetterFilter, p engine.Page) (engine.Listed[engine.DeadError], error) {
	l := deadListing[engine.DeadError](f)
	l.read = func(where, limit string) string {
		return fmt.Sprintf(`
			SELECT d.execution, d.job, d.reason, d.at, d.message, v.ending FROM (SELECT * FROM dead_letters d WHERE %s LIMIT %s) d
			LEFT JOIN LATERAL (SELECT ending FROM executions v WHERE v.id = d.execution AND v.finished_at = d.at LIMIT 1) v ON true
			ORDER BY d.at DESC, d.execution DESC`, where, limit)
	}
	l.scan = func(r pgx.CollectableRow) (d engine.DeadError, err error) {
		var message text
		var ending []byte
		if err := r.Scan((*[16]byte)(&d.Execution), (*[16]byte)(&d.Job), (*string)(&d.Reason), at(&d.At), &message, &ending); err != nil {
			return d, err
		}
		if d.Error, _, err = engine.DecodeEnd(ending); d.Error == nil && message != "" {
			d.Error = &job.Error{Message: string(message)}
		}
		return d, err
	}
	place := func(d *engine.DeadError) engine.Place { return engine.Place{At: d.At, ID: d.Execution} }
	p.Uncounted = true
	return listed(ctx, s.database, "list what died of what", p, place, l, nil)
}
