package sqlite

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	// liveStatus is job.Queued, or RUNNING or CANCELLING.
	liveStatus = "(CASE WHEN v.lease > 0 THEN CASE WHEN v.cancel_at IS NULL THEN 3 ELSE 5 END WHEN v.hold <> 0 THEN 1 WHEN v.tries > 0 THEN 4 ELSE 2 END)"

	commonColumns = `v.id, v.job, v.tenant, v.trigger, v.scheduled_at, v.due_at, v.started_at, v.attempt, v.tries, v.lost, v.max_attempts, v.priority, v.part,
		v.worker, v.retry_of, v.payload`
	// liveColumns and pastColumns list the columns that readExecution reads.
	liveColumns = commonColumns + ", " + liveStatus + `, abs(v.lease), v.cancel_at, v.class, NULL, NULL, NULL,
		CASE WHEN v.started_at IS NOT NULL THEN v.leased_at END, v.progress_at, v.progress, v.expires_at, v.unique_key, v.timeout_ms, v.stall_ms, ` + groupColumns
	pastColumns = commonColumns + `, v.status, v.token, NULL, NULL, v.finished_at, v.result, v.ending,
		coalesce(v.leased_at, v.started_at), NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL`
)

// readExecution reads an execution, except its job's name.
func readExecution(r *row) (job.Execution, error) {
	e := job.Execution{ID: r.id(), Job: r.id(), Tenant: tenant.ID(r.text()), Trigger: job.Trigger(r.int())}
	e.ScheduledAt, e.DueAt, e.StartedAt = r.at(), r.at(), r.at()
	e.Attempt, e.Tries, e.Lost, e.MaxAttempts, e.Priority, e.Partition = r.int(), r.int(), r.int(), r.int(), r.int(), job.Partition(r.int())
	e.Worker, e.RetryOf, e.Payload = r.id(), r.id(), r.bytes()
	e.Status, e.Token, e.CancelAt, e.Class = job.Status(r.int()), job.Token(r.int64()), r.at(), job.Class(r.text())
	e.FinishedAt, e.Result = r.at(), r.bytes()
	var err error
	ending := r.bytes()
	if e.Error, e.Response, err = engine.DecodeEnd(ending); err != nil {
		return e, err
	}
	if e.Status == job.Skipped {
		e.Metadata = engine.DecodeMetadata(ending)
	}
	e.LeasedAt = r.at()
	at := r.at()
	if e.Progress, err = engine.DecodeProgress(r.bytes(), at); err != nil {
		return e, err
	}
	e.ExpiresAt, e.UniqueKey = r.at(), r.text()
	e.Timeout, e.Stall = r.ms(), r.ms()
	e.Group = readGroup(r)
	return e, nil
}

// jobName returns the name of a job, or "" if there is none.
func jobName(c *conn, t tenant.ID, id job.ID) (name string, err error) {
	_, err = c.prepare("SELECT name FROM jobs WHERE tenant = ? AND id = ?").text(string(t)).id(id).first(func(r *row) error {
		name = r.text()
		return nil
	})
	return name, err
}

// Execution finds one execution, wherever it is.
func (s *reads) Execution(ctx context.Context, t tenant.ID, id job.ExecutionID) (job.Execution, error) {
	var out job.Execution
	err := s.look(ctx, "find an execution", func(c *conn) error {
		for _, sql := range []string{"SELECT " + liveColumns + " FROM live v", "SELECT " + pastColumns + " FROM executions v"} {
			found, err := c.prepare(sql + " WHERE v.tenant = ? AND v.id = ?").text(string(t)).id(id).first(func(r *row) (err error) {
				out, err = readExecution(r)
				return err
			})
			if err != nil {
				return err
			}
			if found {
				out.JobName, err = jobName(c, t, out.Job)
				return err
			}
		}
		return engine.ErrNotFound
	})
	return out, err
}

// Attempts lists the failed and lost attempts of an execution, oldest first.
func (s *reads) Attempts(ctx context.Context, t tenant.ID, id job.ExecutionID) ([]job.PastAttempt, error) {
	var out []job.PastAttempt
	err := s.look(ctx, "list attempts", func(c *conn) error {
		known, err := knows(c, t, id)
		if err != nil {
			return err
		}
		if !known {
			return engine.ErrNotFound
		}
		out, err = attempts(c, t, id)
		return err
	})
	return out, err
}

const attemptsSQL = "SELECT token, number, worker, started_at, ended_at, ending FROM attempts WHERE tenant = ? AND execution = ? ORDER BY token"

func attempts(c *conn, t tenant.ID, id job.ExecutionID) (out []job.PastAttempt, err error) {
	err = c.prepare(attemptsSQL).text(string(t)).id(id).each(func(r *row) error {
		a := job.PastAttempt{Execution: id, Token: job.Token(r.int64()), Number: r.int(), Worker: r.id(), StartedAt: r.at(), EndedAt: r.at()}
		why, _, err := engine.DecodeEnd(r.bytes())
		if why != nil {
			a.Error = *why
		}
		out = append(out, a)
		return err
	})
	return out, err
}
