package sqlite

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	// plannedJobs is jobs joined with what their schedules change.
	plannedJobs = "jobs j LEFT JOIN schedules s ON s.job = j.id"

	// definitionColumns lists the columns that readDefinition reads, of planned jobs.
	definitionColumns = "j.id, j.tenant, j.key, j.name, j.state, j.kind, j.priority, s.next_run_at, j.created_at, j.updated_at, j.revision, s.runs, j.paused_until, j.pause_note, j.tags, j.spec"

	// completed makes an ACTIVE job COMPLETED. A job that is only triggered (5) never is.
	completed = `(j.kind <> 5 AND s.next_run_at IS NULL
		AND NOT EXISTS (SELECT 1 FROM live v WHERE v.id = j.id AND v.job = v.id AND v.tenant = j.tenant)
		AND NOT EXISTS (SELECT 1 FROM live v INDEXED BY live_fire WHERE v.job = j.id AND v.id <> v.job AND v.tenant = j.tenant))`

	// jobColumns lists the columns that readJob reads.
	jobColumns = definitionColumns + ", j.state = 1 AND " + completed + ", j.target, j.payload"
)

func readDefinition(r *row) (job.Job, error) {
	j, err := readColumns(r)
	if err != nil {
		return j, err
	}
	return j, engine.DecodeSpec(r.bytes(), &j)
}

// readColumns reads a definition up to its spec.
func readColumns(r *row) (job.Job, error) {
	j := job.Job{ID: r.id(), Tenant: tenant.ID(r.text())}
	j.Key, j.Name, j.State, j.Schedule.Type, j.Priority = r.text(), r.text(), job.State(r.int()), job.ScheduleType(r.int()), r.int()
	j.NextRunAt, j.CreatedAt, j.UpdatedAt, j.Revision = r.at(), r.at(), r.at(), r.int()
	j.Runs, j.PausedTill, j.PauseNote = r.int64(), r.at(), r.text()
	return j, r.texts(&j.Tags)
}

func readJob(r *row) (job.Job, error) {
	j, err := readDefinition(r)
	if err != nil {
		return j, err
	}
	if over := r.bool(); over {
		j.State = job.Completed
	}
	j.Target, err = engine.DecodeTarget(r.bytes())
	j.Payload = r.bytes()
	return j, err
}

// Job finds one job by its id or, unless it is deleted, by its key.
func (s *jobs) Job(ctx context.Context, t tenant.ID, ref engine.Ref) (job.Job, error) {
	var out job.Job
	err := s.look(ctx, "find a job", func(c *conn) (err error) {
		out, err = findJob(c, t, ref)
		return err
	})
	return out, err
}

func findJob(c *conn, t tenant.ID, ref engine.Ref) (job.Job, error) {
	const head = "SELECT " + jobColumns + " FROM " + plannedJobs + " WHERE j.tenant = ? AND "
	var q *stmt
	if ref.ID.IsZero() {
		q = c.prepare(head + "j.key = ? AND j.key IS NOT NULL AND j.state <> 4").text(string(t)).text(ref.Key)
	} else {
		q = c.prepare(head + "j.id = ?").text(string(t)).id(ref.ID)
	}
	var j job.Job
	found, err := q.first(func(r *row) (err error) {
		j, err = readJob(r)
		return err
	})
	if err != nil {
		return job.Job{}, err
	}
	if !found {
		return job.Job{}, engine.ErrNotFound
	}
	return j, nil
}
