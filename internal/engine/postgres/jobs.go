package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	// plannedJobs is jobs joined with what their schedules change: one index lookup each.
	plannedJobs = `(SELECT j.*, s.next_run_at, coalesce(s.runs, 0) AS runs FROM jobs j
		LEFT JOIN LATERAL (SELECT next_run_at, runs FROM schedules WHERE part = j.part AND job = j.id OFFSET 0) s ON true) j`
	// listedJobs is the same, but lets the planner choose the join, or drop it if nothing of it is used.
	listedJobs = `(SELECT j.*, s.next_run_at, coalesce(s.runs, 0) AS runs FROM jobs j LEFT JOIN schedules s ON s.part = j.part AND s.job = j.id) j`

	// definitionColumns lists the columns that definition reads: all but the payload.
	definitionColumns = `j.id, j.tenant, j.key, j.name, j.state, j.kind, j.priority, j.next_run_at, j.created_at, j.updated_at, j.revision, j.tags, j.spec, j.target,
		j.runs, j.paused_until, j.pause_note`

	// waits determines whether a job has an unfinished execution, with three index lookups per job: for its own fire,
	// in two places, and for all others.
	waits = ` LEFT JOIN LATERAL (
		SELECT true AS found FROM live v WHERE v.id = j.id AND NOT v.tally AND v.tenant = j.tenant
		UNION ALL
		SELECT true FROM live v WHERE v.job = j.id AND v.tally AND v.tenant = j.tenant
		UNION ALL
		SELECT true FROM (` + memberOf + `j.id` + inBundle + `) v WHERE v.tenant = j.tenant
		LIMIT 1) w ON true`
	// lives determines the same for a job, if nothing else tells whether it is COMPLETED.
	lives = `(EXISTS (SELECT 1 FROM live v WHERE v.id = j.id AND NOT v.tally AND v.tenant = j.tenant)
		OR EXISTS (SELECT 1 FROM live v WHERE v.job = j.id AND v.tally AND v.tenant = j.tenant)
		OR EXISTS (SELECT 1 FROM (` + memberOf + `j.id` + inBundle + `) v WHERE v.tenant = j.tenant))`
	// completed makes an ACTIVE job COMPLETED. A job that is only triggered (5) never is.
	completed = `(j.kind <> 5 AND j.next_run_at IS NULL AND w.found IS NULL)`

	// jobColumns lists the columns that scanJob reads, of a job with what waits joins.
	jobColumns = definitionColumns + `, j.state = 1 AND ` + completed + `, j.payload`
)

// definition receives the columns of a definition.
type definition struct {
	job    job.Job
	spec   []byte
	target []byte
}

func (d *definition) targets() []any {
	j := &d.job
	return []any{
		(*[16]byte)(&j.ID), (*string)(&j.Tenant), (*text)(&j.Key), &j.Name, num(&j.State), num(&j.Schedule.Type), &j.Priority,
		at(&j.NextRunAt), at(&j.CreatedAt), at(&j.UpdatedAt), &j.Revision, &j.Tags, &d.spec, &d.target,
		&j.Runs, at(&j.PausedTill), (*text)(&j.PauseNote),
	}
}

func (d *definition) decode() (job.Job, error) {
	var err error
	if d.job.Target, err = engine.DecodeTarget(d.target); err != nil {
		return job.Job{}, err
	}
	err = engine.DecodeSpec(d.spec, &d.job)
	return d.job, err
}

func scanJob(row pgx.CollectableRow) (job.Job, error) {
	var d definition
	var over bool
	if err := row.Scan(append(d.targets(), &over, &d.job.Payload)...); err != nil {
		return job.Job{}, err
	}
	if over {
		d.job.State = job.Completed
	}
	return d.decode()
}

// Job finds one job by its id or, unless it is deleted, by its key; without its statistics.
func (s *jobs) Job(ctx context.Context, t tenant.ID, ref engine.Ref) (job.Job, error) {
	var out job.Job
	err := s.look(ctx, "find a job", func(ctx context.Context, c *pgxpool.Conn) (err error) {
		out, err = findJob(ctx, c, t, ref)
		return err
	})
	return out, err
}

func findJob(ctx context.Context, c querier, t tenant.ID, ref engine.Ref) (job.Job, error) {
	const head = "SELECT " + jobColumns + " FROM " + plannedJobs + waits + " WHERE j.tenant = $1 AND "
	var rows pgx.Rows
	if ref.ID.IsZero() {
		rows, _ = c.Query(ctx, head+"j.key = $2 AND j.state <> 4", string(t), ref.Key)
	} else {
		rows, _ = c.Query(ctx, head+"j.id = $2", string(t), [16]byte(ref.ID))
	}
	out, err := pgx.CollectExactlyOneRow(rows, scanJob)
	return out, found(err)
}
