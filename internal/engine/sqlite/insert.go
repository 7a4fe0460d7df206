package sqlite

import (
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	intoJobs = `
		INSERT OR ROLLBACK INTO jobs (tenant, id, key, name, description, state, kind, priority, revision, created_at, updated_at, tags, spec, target, payload)
		VALUES `
	jobValues    = "(?1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	ifMissing    = " ON CONFLICT (tenant, id) DO NOTHING"
	insertJobSQL = intoJobs + jobValues + ifMissing

	intoSchedules     = "INSERT OR ROLLBACK INTO schedules (tenant, job, next_run_at, runs, revision, active) VALUES "
	scheduleValues    = "(?1, ?, ?, ?, ?, ?)"
	insertScheduleSQL = intoSchedules + scheduleValues

	intoLive = `
		INSERT OR ROLLBACK INTO live (tenant, job, id, part, class, priority, due_at, scheduled_at, nonce, trigger, max_attempts, hold, retry_of, payload, timeout_ms)
		VALUES `
	liveValues    = "(?1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	insertLiveSQL = intoLive + liveValues
	// intoRich has what few executions have, too.
	intoRich = `
		INSERT OR ROLLBACK INTO live (tenant, job, id, part, class, priority, due_at, scheduled_at, nonce, trigger, max_attempts, hold, retry_of, payload, timeout_ms,
			stall_ms, expires_at, unique_key, group_key, group_limits)
		VALUES `
	richValues           = "(?1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	insertRichSQL        = intoRich + richValues
	insertIdempotencySQL = `
		INSERT INTO idempotency (tenant, key, hash, answer, expires_at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (tenant, key) DO UPDATE SET hash = excluded.hash, answer = excluded.answer, expires_at = excluded.expires_at`
	findIdempotencySQL = "SELECT hash, answer FROM idempotency WHERE tenant = ? AND key = ? AND expires_at > ?"
)

var (
	insertJobsSQL      = inSizes(intoJobs, jobValues, ifMissing)
	insertSchedulesSQL = inSizes(intoSchedules, scheduleValues, "")
	insertLivesSQL     = inSizes(intoLive, liveValues, "")
	insertRichsSQL     = inSizes(intoRich, richValues, "")
	fireLivesSQL       = inSizes(intoLive, liveValues, oneFire)
)

// encoded is a job with its stored forms.
type encoded struct {
	*job.Job
	spec, target []byte
	tags         string
}

func encode(j *job.Job) encoded {
	return encoded{Job: j, spec: engine.EncodeSpec(j), target: engine.EncodeTarget(&j.Target), tags: array(j.Tags)}
}

// insertJob stores a job and reports whether it was new.
func insertJob(c *conn, t tenant.ID, j *encoded) (bool, error) {
	n, err := c.prepare(insertJobSQL).text(string(t)).job(j).exec()
	return n > 0, err
}

// insertJobs stores jobs of a tenant, and reports whether all of them were new.
func insertJobs(c *conn, t tenant.ID, js []encoded) (bool, error) {
	for len(js) > 0 {
		sql, n := insertJobsSQL.upTo(len(js), insertJobSQL)
		q := c.prepare(sql).text(string(t))
		for i := range js[:n] {
			q.job(&js[i])
		}
		if stored, err := q.exec(); err != nil || stored != n {
			return false, err
		}
		js = js[n:]
	}
	return true, nil
}

// insertSchedules stores what the schedules of a tenant's jobs change, for those that have one.
func insertSchedules(c *conn, t tenant.ID, js []encoded) error {
	var with []*job.Job
	for i := range js {
		if j := js[i].Job; hasSchedule(j) {
			with = append(with, j)
		}
	}
	for len(with) > 0 {
		sql, n := insertSchedulesSQL.upTo(len(with), insertScheduleSQL)
		q := c.prepare(sql).text(string(t))
		for _, j := range with[:n] {
			q.schedule(j, j.Revision)
		}
		if _, err := q.exec(); err != nil {
			return err
		}
		with = with[n:]
	}
	return nil
}

// hasSchedule reports whether a job is to fire later.
func hasSchedule(j *job.Job) bool { return j.Schedule.Type.Recurs() || !j.NextRunAt.IsZero() }

// schedule binds what a job's schedule changes, except its tenant.
func (q *stmt) schedule(j *job.Job, revision int) *stmt {
	return q.id(j.ID).at(j.NextRunAt).int(j.Runs).int(int64(revision)).bool(j.State == job.Active)
}

// job binds a job, except its tenant.
func (q *stmt) job(j *encoded) *stmt {
	return q.id(j.ID).textOrNull(j.Key).text(j.Name).textOrNull(j.Description).
		int(int64(j.State)).int(int64(j.Schedule.Type)).int(int64(j.Priority)).int(int64(j.Revision)).
		at(j.CreatedAt).at(j.UpdatedAt).textOrNull(j.tags).bytes(j.spec).bytes(j.target).bytes(j.Payload)
}

// insertExecutions stores executions of a tenant.
func insertExecutions(c *conn, t tenant.ID, es []job.Execution) error {
	for len(es) > 0 {
		alike, rich := 1, isRich(&es[0])
		for alike < min(len(es), bulk) && isRich(&es[alike]) == rich {
			alike++
		}
		if alike < few {
			if _, err := inserting(c, "").insert(t, &es[0]); err != nil {
				return err
			}
			es = es[1:]
			continue
		}
		sql, n := insertLivesSQL.upTo(alike, insertLiveSQL)
		if rich {
			sql, n = insertRichsSQL.upTo(alike, insertRichSQL)
		}
		q := c.prepare(sql).text(string(t))
		for i := range es[:n] {
			q.execution(&es[i])
			if rich {
				q.riches(&es[i])
			}
		}
		if _, err := q.exec(); err != nil {
			return err
		}
		es = es[n:]
	}
	return nil
}

// inserter stores executions.
type inserter struct{ plain, rich *stmt }

// inserting prepares to store executions, with a clause for conflicts.
func inserting(c *conn, conflict string) inserter {
	return inserter{plain: c.prepare(insertLiveSQL + conflict), rich: c.prepare(insertRichSQL + conflict)}
}

// isRich reports whether an execution has rarely used fields.
func isRich(e *job.Execution) bool {
	return e.Stall != 0 || !e.ExpiresAt.IsZero() || e.UniqueKey != "" || e.Group.Key != 0
}

// insert stores an execution, and reports whether the clause for conflicts let it in.
func (i inserter) insert(t tenant.ID, e *job.Execution) (bool, error) {
	q := i.plain // the usual case; unneeded parameters are not bound
	if isRich(e) {
		q = i.rich
	}
	q.text(string(t)).execution(e)
	if isRich(e) {
		q.riches(e)
	}
	n, err := q.exec()
	return n > 0, err
}

// execution binds the fields of every execution, except its tenant.
func (q *stmt) execution(e *job.Execution) *stmt {
	return q.id(e.Job).id(e.ID).int(int64(e.Partition)).text(string(e.Class)).int(int64(e.Priority)).at(e.DueAt).at(e.ScheduledAt).
		int(e.Nonce()).int(int64(e.Trigger)).int(int64(e.MaxAttempts)).int(hold(e)).idOrNull(e.RetryOf).bytes(e.Payload).int(ms(e.Timeout))
}

// riches binds rarely used fields.
func (q *stmt) riches(e *job.Execution) *stmt {
	return q.intOrNull(ms(e.Stall)).at(e.ExpiresAt).textOrNull(e.UniqueKey).group(&e.Group)
}

// hold is 2 for what waits for the jobs that its job depends on; a pause holds with 1.
func hold(e *job.Execution) int64 {
	if e.Status == job.Waiting {
		return 2
	}
	return 0
}

// recall looks up an idempotency key, and returns whether it is known, with the answer to its request.
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

// remember stores an idempotency key that is unknown, or has expired.
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
