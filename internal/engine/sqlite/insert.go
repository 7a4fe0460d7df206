package sqlite

import (
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	insertJobSQL = `
		INSERT INTO jobs (tenant, id, key, name, description, state, kind, priority, revision, next_run_at, fires_at, created_at, updated_at, tags, spec, target,
			payload, runs, paused_until, pause_note)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (tenant, id) DO NOTHING`
	insertLiveSQL = `
		INSERT INTO live (tenant, job, id, part, class, priority, due_at, scheduled_at, nonce, trigger, tally, max_attempts, hold, retry_of, payload, timeout_ms,
			stall_ms, expires_at, unique_key, group_key, group_limits)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ` // and what few executions have
	limited              = "?, ?, ?, ?, ?)"
	unlimited            = "NULL, NULL, NULL, 0, NULL)"
	insertIdempotencySQL = `
		INSERT INTO idempotency (tenant, key, hash, answer, expires_at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (tenant, key) DO UPDATE SET hash = excluded.hash, answer = excluded.answer, expires_at = excluded.expires_at`
	findIdempotencySQL = "SELECT hash, answer FROM idempotency WHERE tenant = ? AND key = ? AND expires_at > ?"
)

// encoded is a job and the stored forms of it.
type encoded struct {
	*job.Job
	spec, target []byte
	tags         string
	fires        time.Time // a one-off job's own fire
}

func encode(j *job.Job, fires time.Time) encoded {
	return encoded{Job: j, spec: engine.EncodeSpec(*j), target: engine.EncodeTarget(j.Target), tags: array(j.Tags), fires: fires}
}

// ownFires are the instants at which the one-off jobs of a creation fire: now, or as planned.
func ownFires(c *engine.Creation) map[job.ID]time.Time {
	out := make(map[job.ID]time.Time, len(c.Jobs))
	for i := range c.Jobs {
		if j := &c.Jobs[i]; j.Schedule.Type.OneOff() {
			out[j.ID] = j.NextRunAt
		}
	}
	for i := range c.Executions {
		e := &c.Executions[i]
		if at, oneOff := out[e.Job]; oneOff && at.IsZero() && e.Trigger == job.BySchedule {
			out[e.Job] = e.ScheduledAt
		}
	}
	return out
}

// insertJob stores a job and reports whether it was not there.
func insertJob(q *stmt, t tenant.ID, j *encoded) (bool, error) {
	n, err := q.text(string(t)).id(j.ID).textOrNull(j.Key).text(j.Name).textOrNull(j.Description).
		int(int64(j.State)).int(int64(j.Schedule.Type)).int(int64(j.Priority)).int(int64(j.Revision)).
		at(j.NextRunAt).at(j.fires).at(j.CreatedAt).at(j.UpdatedAt).textOrNull(j.tags).bytes(j.spec).bytes(j.target).bytes(j.Payload).
		int(j.Runs).at(j.PausedTill).textOrNull(j.PauseNote).exec()
	return n > 0, err
}

// inserter stores executions.
type inserter struct{ plain, rich *stmt }

// inserting prepares to store executions, with a clause for conflicts.
func inserting(c *conn, conflict string) inserter {
	return inserter{plain: c.prepare(insertLiveSQL + unlimited + conflict), rich: c.prepare(insertLiveSQL + limited + conflict)}
}

// insert stores an execution of a job, whose own fire is at an instant if it
// is a one-off, and reports whether the clause for conflicts let it in.
func (i inserter) insert(t tenant.ID, of job.ID, e *job.Execution, fires time.Time) (bool, error) {
	tally := int64(1)
	if own(e, fires) {
		tally = 0
	}
	q := i.plain // as most are; what need not be bound is saved
	rich := e.Stall != 0 || !e.ExpiresAt.IsZero() || e.UniqueKey != "" || e.Group.Key != 0
	if rich {
		q = i.rich
	}
	q.text(string(t)).id(of).id(e.ID).int(int64(e.Partition)).text(string(e.Class)).int(int64(e.Priority)).at(e.DueAt).at(e.ScheduledAt).
		int(e.Nonce()).int(int64(e.Trigger)).int(tally).int(int64(e.MaxAttempts)).int(hold(e)).idOrNull(e.RetryOf).bytes(e.Payload).int(ms(e.Timeout))
	if rich {
		q.intOrNull(ms(e.Stall)).at(e.ExpiresAt).textOrNull(e.UniqueKey).group(&e.Group)
	}
	n, err := q.exec()
	return n > 0, err
}

// own reports whether an execution is the own fire, at an instant, of a one-off job.
func own(e *job.Execution, fires time.Time) bool {
	return e.Trigger == job.BySchedule && !fires.IsZero() && e.ScheduledAt.UnixMicro() == fires.UnixMicro()
}

func hold(e *job.Execution) int64 {
	if e.Status == job.Waiting {
		return 1
	}
	return 0
}

// recall looks an idempotency key up, and reports whether it is known and what its request is answered.
func recall(c *conn, t tenant.ID, i *engine.Idempotency, now int64) (out engine.Created, known bool, err error) {
	if i.Key == "" {
		return out, false, nil
	}
	known, err = c.prepare(findIdempotencySQL).text(string(t)).text(i.Key).int(now).first(func(r *row) error {
		hash, answer := r.bytes(), r.bytes()
		if [32]byte(hash) == i.Hash {
			out.Replay = answer
		} else {
			out.Reused = true
		}
		return nil
	})
	return out, known, err
}

// remember stores an idempotency key that is not known, or has expired.
func remember(c *conn, t tenant.ID, i *engine.Idempotency) error {
	if i.Key == "" {
		return nil
	}
	answer := i.Answer
	if answer == nil {
		answer = []byte{}
	}
	_, err := c.prepare(insertIdempotencySQL).text(string(t)).text(i.Key).bytes(i.Hash[:]).bytes(answer).int(i.Until.UnixMicro()).exec()
	return err
}
