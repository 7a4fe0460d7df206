package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	// liveStatus is job.Queued, or RUNNING or CANCELLING.
	liveStatus = "(CASE WHEN v.lease > 0 THEN CASE WHEN v.cancel_at IS NULL THEN 3 ELSE 5 END WHEN v.hold <> 0 THEN 1 WHEN v.tries > 0 THEN 4 ELSE 2 END)"

	commonColumns = `v.id, v.job, v.tenant, v.trigger, v.scheduled_at, v.due_at, v.started_at, v.attempt, v.tries, v.lost, v.max_attempts, v.priority, v.part,
		v.worker, v.retry_of, v.payload`
	// liveColumns and pastColumns are what readExecution reads.
	liveColumns = commonColumns + ", " + liveStatus + `, abs(v.lease), v.cancel_at, v.class, NULL, NULL, NULL,
		CASE WHEN v.started_at IS NOT NULL THEN v.leased_at END, v.progress_at, v.progress, v.expires_at, v.unique_key, v.timeout_ms, v.stall_ms, ` + groupColumns
	pastColumns = commonColumns + `, v.status, v.token, NULL, NULL, v.finished_at, v.result, v.ending,
		coalesce(v.leased_at, v.started_at), NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL`
)

// readExecution reads all of an execution but its job's name.
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

// jobName is the name of a job, or "" if there is none.
func jobName(c *conn, t tenant.ID, id job.ID) (name string, err error) {
	_, err = c.prepare("SELECT name FROM jobs WHERE tenant = ? AND id = ?").text(string(t)).id(id).first(func(r *row) error {
		name = r.text()
		return nil
	})
	return name, err
}

// Execution finds one execution, wherever it is.
func (s *Store) Execution(ctx context.Context, t tenant.ID, id job.ExecutionID) (job.Execution, error) {
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

// FindExecutions lists executions of a job, those with the latest scheduled time first.
func (s *Store) FindExecutions(ctx context.Context, f engine.ExecutionFilter, p engine.Page) (engine.ExecutionPage, error) {
	w := &where{}
	w.and("v.job = ?1", id(f.Job)) // by number, as ownFire names it, too
	w.and("v.tenant = ?", text(string(f.Tenant)))
	if !f.From.IsZero() {
		w.and("v.scheduled_at >= ?", number(f.From.UnixMicro()))
	}
	if !f.Until.IsZero() {
		w.and("v.scheduled_at < ?", number(f.Until.UnixMicro()))
	}
	all := *w
	if p.Cursor != "" {
		at, after, err := engine.DecodeCursor(p.Cursor)
		if err != nil {
			return engine.ExecutionPage{}, err
		}
		w.and("(v.scheduled_at, v.id) < (?, ?)", number(at.UnixMicro()), id(after))
	}
	limit := max(p.Limit, 1)
	var out engine.ExecutionPage
	err := s.look(ctx, "list executions", func(c *conn) error {
		for _, b := range branches(f.Statuses) {
			if err := b.add(c, &out, w, limit); err != nil {
				return err
			}
			if p.Uncounted {
				continue
			}
			n, err := b.count(c, &all)
			if err != nil {
				return err
			}
			out.Total.Count += n.Count
			out.Total.Estimate = out.Total.Estimate || n.Estimate
		}
		slices.SortFunc(out.Executions, func(a, b job.Execution) int {
			return cmp.Or(b.ScheduledAt.Compare(a.ScheduledAt), bytes.Compare(b.ID[:], a.ID[:]))
		})
		if len(out.Executions) > limit {
			out.Executions = out.Executions[:limit]
			last := out.Executions[limit-1]
			out.Next = engine.EncodeCursor(last.ScheduledAt, last.ID)
		}
		name, err := jobName(c, f.Tenant, f.Job)
		for i := range out.Executions {
			out.Executions[i].JobName = name
		}
		return err
	})
	if err != nil {
		return engine.ExecutionPage{}, err
	}
	return out, nil
}

// branch is one of the two tables of executions, and which statuses of it are asked for.
type branch struct {
	from, columns, status string
	own                   bool  // what the job fired as it was created, which has its id, or all else
	mask                  int64 // a bit each
}

// branches are the tables in which executions of these statuses lie.
func branches(statuses []job.Status) []branch {
	var live, past int64
	for _, x := range statuses {
		if x.Final() {
			past |= 1 << x
		} else {
			live |= 1 << x
		}
	}
	var out []branch
	if live != 0 || len(statuses) == 0 {
		b := branch{from: "live v INDEXED BY live_fire", columns: liveColumns, status: liveStatus, mask: live}
		out = append(out, b)
		b.from, b.own = "live v", true
		out = append(out, b)
	}
	if past != 0 || len(statuses) == 0 {
		b := branch{from: "executions v INDEXED BY executions_job", columns: pastColumns, status: "v.status", mask: past}
		out = append(out, b)
		b.from, b.own = "executions v INDEXED BY executions_id", true
		out = append(out, b)
	}
	return out
}

func (b branch) where(w *where) (string, func(*stmt) *stmt) {
	condition := w.String() + " AND v.id <> v.job"
	if b.own {
		condition = w.String() + " AND v.id = ?1 AND v.id = v.job"
	}
	if b.mask == 0 {
		return condition, w.bind
	}
	return condition + " AND (1 << " + b.status + ") & ? <> 0", func(q *stmt) *stmt { return w.bind(q).int(b.mask) }
}

// add appends the first of the branch, one more than a page holds.
func (b branch) add(c *conn, out *engine.ExecutionPage, w *where, limit int) error {
	condition, bind := b.where(w)
	q := c.prepare("SELECT " + b.columns + " FROM " + b.from + " WHERE " + condition + " ORDER BY v.scheduled_at DESC, v.id DESC LIMIT ?")
	return bind(q).int(int64(limit) + 1).each(func(r *row) error {
		e, err := readExecution(r)
		out.Executions = append(out.Executions, e)
		return err
	})
}

func (b branch) count(c *conn, w *where) (engine.Total, error) {
	condition, bind := b.where(w)
	list := c.prepare("SELECT v.scheduled_at FROM " + b.from + " WHERE " + condition + " ORDER BY v.scheduled_at DESC")
	oldest := c.prepare("SELECT v.scheduled_at FROM " + b.from + " WHERE " + condition + " ORDER BY v.scheduled_at LIMIT 1")
	return tally(bind(list), bind(oldest))
}

// Attempts lists the failed and lost attempts of an execution, the first one first.
func (s *Store) Attempts(ctx context.Context, t tenant.ID, id job.ExecutionID) ([]job.PastAttempt, error) {
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
