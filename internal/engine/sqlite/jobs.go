package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	// definitionColumns are what readDefinition reads.
	definitionColumns = "j.id, j.tenant, j.key, j.name, j.state, j.kind, j.priority, j.next_run_at, j.created_at, j.updated_at, j.revision, j.tags, j.spec"

	// completed is what makes a one-off job COMPLETED, where it is ACTIVE.
	completed = "(j.kind IN (1, 2) AND j.next_run_at IS NULL AND NOT EXISTS (SELECT 1 FROM live v WHERE v.job = j.id AND v.tenant = j.tenant))"

	// jobColumns are what readJob reads.
	jobColumns = definitionColumns + ", j.state = 1 AND " + completed + `, j.target, j.payload,
		(SELECT max(v.started_at) FROM live v WHERE v.job = j.id AND v.tenant = j.tenant)`

	pastSQL = "SELECT id, status, started_at, finished_at FROM executions INDEXED BY executions_job WHERE job = ? AND tenant = ?"
)

func readDefinition(r *row) (job.Job, error) {
	j := job.Job{ID: r.id(), Tenant: tenant.ID(r.text())}
	j.Key, j.Name, j.State, j.Schedule.Type, j.Priority = r.text(), r.text(), job.State(r.int()), job.ScheduleType(r.int()), r.int()
	j.NextRunAt, j.CreatedAt, j.UpdatedAt, j.Revision = r.at(), r.at(), r.at(), r.int()
	if tags := r.text(); tags != "" {
		if err := json.Unmarshal([]byte(tags), &j.Tags); err != nil {
			return j, fmt.Errorf("read stored tags: %w", err)
		}
	}
	return j, engine.DecodeSpec(r.bytes(), &j.Definition)
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
	j.Payload, j.LastRunAt = r.bytes(), r.at()
	return j, err
}

// addStats sums up the job's finished executions.
func addStats(c *conn, j *job.Job) error {
	var last struct {
		at int64
		id job.ExecutionID
	}
	var durations []int64
	var sum int64
	err := c.prepare(pastSQL).id(j.ID).text(string(j.Tenant)).each(func(r *row) error {
		id, status, started, finished := job.ExecutionID(r.id()), job.Status(r.int()), r.at(), r.int64()
		j.Stats.Total++
		if status == job.Succeeded {
			j.Stats.Succeeded++
		}
		if started.After(j.LastRunAt) {
			j.LastRunAt = started
		}
		if !started.IsZero() {
			d := finished - started.UnixMicro()
			durations = append(durations, d)
			sum += d
		}
		if finished > last.at || finished == last.at && string(id[:]) > string(last.id[:]) {
			last.at, last.id, j.Stats.LastStatus = finished, id, status
		}
		return nil
	})
	if err != nil || len(durations) == 0 {
		return err
	}
	j.Stats.AvgDuration = micros(math.Round(float64(sum) / float64(len(durations))))
	j.Stats.P95Duration = micros(percentile(durations, 0.95))
	return nil
}

func micros(n float64) time.Duration { return time.Duration(n) * time.Microsecond }

// percentile is PostgreSQL's percentile_cont: between two values, a value between them.
func percentile(list []int64, p float64) float64 {
	slices.Sort(list)
	place := p * float64(len(list)-1)
	low, high := float64(list[int(math.Floor(place))]), float64(list[int(math.Ceil(place))])
	return math.RoundToEven(low + (high-low)*(place-math.Floor(place)))
}

// Job finds one job by its id, or, unless it is deleted, by its key.
func (s *Store) Job(ctx context.Context, t tenant.ID, ref engine.Ref) (job.Job, error) {
	var out job.Job
	err := s.look(ctx, "find a job", func(c *conn) (err error) {
		out, err = findJob(c, t, ref)
		return err
	})
	return out, err
}

func findJob(c *conn, t tenant.ID, ref engine.Ref) (job.Job, error) {
	const head = "SELECT " + jobColumns + " FROM jobs j WHERE j.tenant = ? AND "
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
	return j, addStats(c, &j)
}

const deleteJobSQL = `
	UPDATE jobs SET state = 4, next_run_at = NULL, revision = revision + 1, updated_at = ?
	WHERE tenant = ? AND id = ? AND state <> 4`

// DeleteJob marks a job deleted, cancels its executions that wait, and leaves those that run.
func (s *Store) DeleteJob(ctx context.Context, t tenant.ID, id job.ID, asOf time.Time) (job.Job, error) {
	var out job.Job
	err := s.write(ctx, "delete a job", func(c *conn, now int64) error {
		if _, err := c.prepare(deleteJobSQL).at(asOf).text(string(t)).id(id).exec(); err != nil {
			return err
		}
		const waiting = " WHERE job = ? AND tenant = ? AND lease <= 0"
		if _, err := c.prepare(endSQL + waiting).int(int64(job.Cancelled)).int(now).int(0).null().null().id(id).text(string(t)).exec(); err != nil {
			return err
		}
		if _, err := c.prepare("DELETE FROM live" + waiting).id(id).text(string(t)).exec(); err != nil {
			return err
		}
		var err error
		out, err = findJob(c, t, engine.Ref{ID: id})
		return err
	})
	return out, err
}
