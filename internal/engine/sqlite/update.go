package sqlite

import (
	"cmp"
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlstore"
)

const (
	planSQL = "SELECT j.revision, j.state, s.job IS NOT NULL, s.next_run_at, s.runs FROM " + plannedJobs + " WHERE j.tenant = ? AND j.id = ? AND j.state <> 4"
	// takeBackSQL drops staged executions for future instants, but none after one that has run, so that none fires
	// twice. Executions whose instant has come and that only wait for their jitter stay, and so do those that had
	// come before the clock was set back: they are still due.
	takeBackSQL = `DELETE FROM live WHERE (id = ?1 AND scheduled_at > ?3 OR job = ?1 AND id <> job AND scheduled_at > ?3) AND job = ?1 AND tenant = ?2 AND nonce = 0
		AND due_at > ?3 AND lease <= 0 AND tries = 0 AND started_at IS NULL RETURNING scheduled_at`
	relimitSQL = `UPDATE live SET group_limits = ?3 WHERE id IN (
		SELECT id FROM live WHERE (id = ?1 OR job = ?1 AND id <> job) AND job = ?1 AND tenant = ?2 AND lease <= 0 AND group_key <> 0 AND group_limits = ?4 ORDER BY due_at LIMIT ?5)`

	updateJobSQL = `
		UPDATE jobs SET name = ?, description = ?, state = ?, kind = ?, priority = ?, updated_at = ?, tags = ?, spec = ?, target = ?,
			payload = ?, paused_until = ?, pause_note = ?, revision = revision + 1
		WHERE tenant = ? AND id = ? AND state <> 4`
	replanSQL = intoSchedules + scheduleValues + `
		ON CONFLICT (job) DO UPDATE SET next_run_at = excluded.next_run_at, runs = excluded.runs, revision = excluded.revision, active = excluded.active`
	resumableSQL = "SELECT " + jobColumns + ` FROM jobs j INDEXED BY jobs_paused LEFT JOIN schedules s ON s.job = j.id
		WHERE j.paused_until IS NOT NULL AND j.paused_until <= ? AND j.state = 2 ORDER BY j.paused_until`
)

// UpdateJob stores a job's definition, state and pause again, takes back staged executions, and holds or frees
// waiting ones.
func (s *jobs) UpdateJob(ctx context.Context, t tenant.ID, u engine.Update) (job.Job, error) {
	if u.Job.State == job.Completed { // which is derived, and not stored
		u.Job.State = job.Active
	}
	form, nodes := encode(&u.Job), encodeAll(u.Nodes)
	var out job.Job
	err := s.write(ctx, "update a job", func(c *conn, now int64) error {
		p, err := readPlan(c, t, &u)
		if err != nil {
			return err
		}
		if u.Most > 0 {
			room, err := c.prepare(addCountSQL).int(1).text(string(t)).int(1).int(u.Most).exec()
			if err != nil {
				return err
			}
			if room == 0 {
				return engine.ErrFull
			}
		}
		if u.Overtaken(p.next, now) {
			return engine.ErrConflict
		}
		if err := p.takeBack(c, t, u.Job.ID, now); err != nil {
			return err
		}
		if u.Job.State != p.state {
			if err := holdWaiting(c, now, t, u.Job.ID, u.Job.State, cmp.Or(u.Holds, engine.HoldsAtOnce)); err != nil {
				return err
			}
		}
		if u.Was != nil {
			is := job.Group{Max: u.Job.MaxConcurrent, Rate: u.Job.Rate}
			q := c.prepare(relimitSQL).id(u.Job.ID).text(string(t)).bytes(groupLimits(&is)).bytes(groupLimits(u.Was)).int(engine.MostRelimited)
			if _, err := q.exec(); err != nil {
				return err
			}
		}
		if m := u.Job.Schedule.MaxRuns; u.Replan && m > 0 && m <= p.runs {
			return &engine.Spent{Runs: p.runs}
		}
		if err := keepRevision(c, t, &u, p.revision); err != nil {
			return err
		}
		if err := updateJob(c, t, &form, &u); err != nil {
			return err
		}
		if u.Workflow != nil {
			if err := addVersion(c, now, t, u.Workflow, nodes); err != nil {
				return err
			}
		}
		if err := p.store(c, t, &u); err != nil {
			return err
		}
		if err := changeParents(c, now, t, &u); err != nil {
			return err
		}
		if u.Retained {
			if err := sqlstore.ChangeRetention(transaction{c, now}, t, &u.Job, u.AsOf); err != nil {
				return err
			}
		}
		if err := keepManaged(c, t, u.Job.ID, u.Secrets, u.Unused); err != nil {
			return err
		}
		if out, err = findJob(c, t, engine.Ref{ID: u.Job.ID}); err != nil {
			return err
		}
		return record(c, u.Entry)
	})
	if err != nil {
		return job.Job{}, err
	}
	return out, nil
}

// changeParents stores on which jobs one depends that was updated, where that is another than before.
func changeParents(c *conn, now int64, t tenant.ID, u *engine.Update) error {
	j := u.Job
	j.Tenant = t
	if u.Parents != nil {
		c.edges = new(true)
		if err := sqlstore.ChangeParents(transaction{c, now}, &j, *u.Parents); err != nil {
			return err
		}
	}
	return sqlstore.LookAtChild(transaction{c, now}, &j, u.Parents)
}

// plan holds the state of a job's schedule.
type plan struct {
	revision int       // the job's
	state    job.State // likewise, as it is stored
	found    bool      // it has a row
	next     int64
	runs     int64
}

// readPlan finds the plan of a job that is to be updated, under its expected revision.
func readPlan(c *conn, t tenant.ID, u *engine.Update) (p plan, err error) {
	found, err := c.prepare(planSQL).text(string(t)).id(u.Job.ID).first(func(r *row) error {
		p = plan{r.int(), job.State(r.int()), r.bool(), r.int64(), r.int64()}
		return nil
	})
	switch {
	case err != nil:
		return p, err
	case !found:
		return p, engine.ErrNotFound
	case u.Revision != 0 && u.Revision != p.revision:
		return p, engine.ErrConflict
	}
	return p, nil
}

// takeBack drops staged executions that are not due, and plans the first of them again. It has not run, so it is not
// a run.
func (p *plan) takeBack(c *conn, t tenant.ID, of job.ID, now int64) error {
	err := c.prepare(takeBackSQL).id(of).text(string(t)).int(now).each(func(r *row) error {
		at := r.int64()
		if p.next == 0 || at < p.next {
			p.next = at
		}
		p.runs--
		return nil
	})
	p.runs = max(0, p.runs)
	return err
}

// store keeps the plan of an updated job, or the one that the update makes.
func (p *plan) store(c *conn, t tenant.ID, u *engine.Update) error {
	j := u.Job
	j.Runs = p.runs
	if !u.Replan {
		j.NextRunAt = time.Time{}
		if p.next != 0 {
			j.NextRunAt = time.UnixMicro(p.next)
		}
	}
	if !p.found && !hasSchedule(&j) {
		return nil
	}
	_, err := c.prepare(replanSQL).text(string(t)).schedule(&j, p.revision+1).exec()
	return err
}

func updateJob(c *conn, t tenant.ID, j *encoded, u *engine.Update) error {
	_, err := c.prepare(updateJobSQL).text(j.Name).textOrNull(j.Description).int(int64(j.State)).int(int64(j.Schedule.Type)).int(int64(j.Priority)).
		at(u.AsOf).textOrNull(j.tags).bytes(j.spec).bytes(j.target).bytes(j.Payload).at(j.PausedTill).textOrNull(j.PauseNote).
		text(string(t)).id(j.ID).exec()
	return err
}

// Resumable lists up to limit paused jobs of any tenant whose pause has expired.
func (s *jobs) Resumable(ctx context.Context, limit int) ([]job.Job, error) {
	if limit <= 0 {
		return nil, nil
	}
	var out []job.Job
	err := s.look(ctx, "find what is to be resumed", func(c *conn) error {
		_, err := c.prepare(resumableSQL).int(s.now()).until(func(r *row) (bool, error) {
			j, err := readJob(r)
			out = append(out, j)
			return len(out) >= limit, err
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
