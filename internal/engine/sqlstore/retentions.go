package sqlstore

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	// AddRetention stores the retention of a new job.
	AddRetention = "INSERT INTO job_retentions (tenant, job, days, failed_days) VALUES ($1, $2, $3, $4) ON CONFLICT (tenant, job) DO NOTHING"
	// changeRetentionSQL notes when less is kept than before.
	changeRetentionSQL = `
		INSERT INTO job_retentions AS k (tenant, job, days, failed_days, cut_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (tenant, job) DO UPDATE SET days = excluded.days, failed_days = excluded.failed_days,
			cut_at = CASE WHEN excluded.days < k.days OR excluded.failed_days < k.failed_days THEN excluded.cut_at ELSE k.cut_at END`
	dropRetentionSQL = "DELETE FROM job_retentions WHERE tenant = $1 AND job = $2"
	retentionsSQL    = `
		SELECT k.job, k.days, k.failed_days FROM
		/*postgres: unnest($2::uuid[]) u(id) CROSS JOIN LATERAL (SELECT job, days, failed_days FROM job_retentions WHERE tenant = $1 AND job = u.id OFFSET 0) k*/
		/*sqlite: job_retentions k WHERE k.tenant = $1 AND k.job IN (SELECT unhex(value) FROM json_each($2))*/`

	ownKeptSQL = `
		SELECT k.job, k.days, k.failed_days, k.cut_at, j.state, j.kind, j.created_at, j.updated_at, j.key IS NOT NULL FROM
		/*postgres: (SELECT * FROM job_retentions WHERE tenant = $1 AND job >= $2 ORDER BY job LIMIT $3) k
			CROSS JOIN LATERAL (SELECT state, kind, created_at, updated_at, key FROM jobs WHERE tenant = k.tenant AND id = k.job OFFSET 0) j*/
		/*sqlite: job_retentions k CROSS JOIN jobs j WHERE k.tenant = $1 AND k.job >= $2 AND j.tenant = k.tenant AND j.id = k.job*/
		ORDER BY k.job LIMIT $3`
	ownRunsSQL = `
		SELECT id, begun_at, scheduled_at, ended_at, status FROM runs /*sqlite: INDEXED BY runs_workflow*/
		WHERE tenant = $1 AND workflow = $2 AND (scheduled_at, id)` + afterPlace + ` AND scheduled_at < $5 ORDER BY scheduled_at, id LIMIT $6`
	// ownExecutionsSQL finds those that finished before $6 and, of PostgreSQL's days, after the job was created.
	ownExecutionsSQL = `
		SELECT id, finished_at, scheduled_at, status FROM executions /*sqlite: INDEXED BY executions_job*/
		WHERE tenant = $1 AND job = $2 AND /*postgres: tally AND finished_at >= $5 AND finished_at < $6*//*sqlite: id <> job AND finished_at >= $5 AND scheduled_at < $6*/
			AND (scheduled_at, id)` + afterPlace + ` ORDER BY scheduled_at, id LIMIT $7`
	ownFireSQL = `
		SELECT id, finished_at, scheduled_at, status FROM executions /*sqlite: INDEXED BY executions_id*/
		WHERE tenant = $1 AND id = $2 /*postgres: AND NOT tally*//*sqlite: AND id = job*/ AND finished_at >= $3 AND finished_at < $4`
	anyShareSQL = "SELECT true FROM archive_shares WHERE tenant = $1 LIMIT 1"

	// ownAtOnce bounds the jobs that one call of ForgetOwn looks at, on PostgreSQL each in the tables of its days.
	ownAtOnce = 25
)

// RetentionRows returns the arguments of AddRetention for those jobs that have one.
func RetentionRows(t tenant.ID, jobs []job.Job) (out [][]any) {
	for i := range jobs {
		if r := jobs[i].Retention; !r.IsZero() {
			out = append(out, []any{string(t), [16]byte(jobs[i].ID), r.Days, r.FailedDays})
		}
	}
	return out
}

// AddRetentions stores the retentions of new jobs.
func AddRetentions(tx Tx, t tenant.ID, jobs []job.Job) error {
	rows := RetentionRows(t, jobs)
	if len(rows) == 0 {
		return nil
	}
	return tx.ExecEach(AddRetention, rows)
}

// ChangeRetention stores the retention of a job, or that it has none any more.
func ChangeRetention(tx Tx, t tenant.ID, j *job.Job, asOf time.Time) error {
	if j.Retention.IsZero() {
		_, err := tx.Exec(dropRetentionSQL, string(t), [16]byte(j.ID))
		return err
	}
	_, err := tx.Exec(changeRetentionSQL, string(t), [16]byte(j.ID), j.Retention.Days, j.Retention.FailedDays, asOf)
	return err
}

// Retentions returns those of the given jobs that have one of their own.
func (s Forgetting) Retentions(ctx context.Context, t tenant.ID, ids []job.ID) (out map[job.ID]job.Retention, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	raw := make([][16]byte, len(ids))
	for i, id := range ids {
		raw[i] = id
	}
	err = s.db.Read(ctx, "read retentions", func(tx Tx) error {
		out = map[job.ID]job.Retention{}
		return tx.Query(func(r Row) error {
			var id [16]byte
			var k job.Retention
			err := r.Scan(&id, &k.Days, &k.FailedDays)
			out[id] = k
			return err
		}, retentionsSQL, string(t), raw)
	})
	return out, err
}

// own is a job that has a retention of its own.
type own struct {
	aged
	job.Retention
	cut, created time.Time
}

func scanOwn(r Row) (k own, err error) {
	return k, r.Scan(&k.id, &k.Days, &k.FailedDays, &k.cut, &k.state, &k.kind, &k.created, &k.updated, &k.keyed)
}

// kept is something of such a job that has finished.
type kept struct {
	old
	ended  time.Time
	status job.Status
}

// purge is one call of ForgetOwn.
type purge struct {
	tx     Tx
	tenant tenant.ID
	now    time.Time
	left   int // that may be examined
	files  bool
	engine.ForgotOwn
}

// ForgetOwn drops what jobs no longer keep by a retention of their own.
func (s Forgetting) ForgetOwn(ctx context.Context, t tenant.ID, now time.Time, from engine.OwnPlace, limit int) (out engine.ForgotOwn, err error) {
	err = s.db.Write(ctx, "forget what jobs no longer keep", func(tx Tx) error {
		out = engine.ForgotOwn{}
		if held, err := purging(tx, t); held || err != nil {
			return err
		}
		p := purge{tx: tx, tenant: t, now: now, left: limit}
		if p.files, err = value[bool](tx, anyShareSQL, string(t)); err != nil {
			return err
		}
		err := p.jobs(from)
		out = p.ForgotOwn
		return err
	})
	if err != nil {
		return engine.ForgotOwn{}, err
	}
	return out, nil
}

func (p *purge) jobs(from engine.OwnPlace) error {
	found, err := all(p.tx, scanOwn, ownKeptSQL, string(p.tenant), [16]byte(from.Job), ownAtOnce)
	if err != nil {
		return err
	}
	for i := range found {
		k := &found[i]
		at := engine.OwnPlace{Job: k.id}
		if at.Job == from.Job {
			at = from
		}
		p.Next = at
		if done, err := p.job(k, at); err != nil || !done {
			p.More = true
			return err
		}
	}
	if len(found) == ownAtOnce {
		p.More, p.Next = true, engine.OwnPlace{Job: after(found[len(found)-1].id)}
	}
	return nil
}

// after returns the id that follows one.
func after(id [16]byte) job.ID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]++; id[i] != 0 {
			break
		}
	}
	return id
}

// job goes on with a job, and reports whether that is all for now.
func (p *purge) job(k *own, at engine.OwnPlace) (done bool, err error) {
	until := k.Until(p.now)
	// Not what the id says: a process whose clock was ahead once goes on with ids from there.
	made := k.created.Add(-24 * time.Hour) // clocks differ
	if !k.cut.IsZero() && p.now.Sub(k.cut) < tenant.CutGrace || !made.Before(until) {
		return true, nil
	}
	if !at.Executions {
		if done, err := p.runs(k, at, until); err != nil || !done {
			return false, err
		}
		at = engine.OwnPlace{Job: k.id, Executions: true}
		p.Next = at
	}
	if p.left <= 0 {
		return false, nil
	}
	asked := p.left
	found, err := all(p.tx, scanKept, ownExecutionsSQL, string(p.tenant), k.id, at.After.At, [16]byte(at.After.ID), made, until, asked)
	if err != nil {
		return false, err
	}
	p.left -= len(found)
	if done = len(found) < asked; !done {
		last := found[len(found)-1]
		p.Next = engine.OwnPlace{Job: k.id, Executions: true, After: engine.Place{At: last.scheduled, ID: last.id}}
	}
	if at.After.IsZero() { // the one that the job was created with
		fire, err := all(p.tx, scanKept, ownFireSQL, string(p.tenant), k.id, made, until)
		if err != nil {
			return false, err
		}
		found = append(found, fire...)
	}
	var past []old
	for _, x := range found {
		if x.finished.Before(k.KeptSince(p.now, x.status)) {
			past = append(past, x.old)
		}
	}
	gone, err := forget(p.tx, p.tenant, past, until)
	if p.N += len(gone); err != nil || !done {
		return false, err
	}
	return true, p.spent(k, gone, until)
}

// spent drops a job that has ended with its history. Files may still have some of it, which nothing would hide any
// more: a job goes before the tenant's retention ends only if its executions never moved to files.
func (p *purge) spent(k *own, gone []dropped, until time.Time) error {
	if !k.ends() || !k.updated.Before(until) || p.files && !k.cut.IsZero() {
		return nil
	}
	if len(gone) > 0 {
		return forgetJobsOf(p.tx, p.tenant, gone, until)
	}
	_, err := forgetJobs(p.tx, p.tenant, [][16]byte{k.id}, nil, until)
	return err
}

// runs drops runs of a workflow, and reports whether it has come to the last one.
func (p *purge) runs(k *own, at engine.OwnPlace, until time.Time) (done bool, err error) {
	asked := min(p.left, runsAtOnce)
	if asked <= 0 {
		return false, nil
	}
	found, err := all(p.tx, scanKeptRun, ownRunsSQL, string(p.tenant), k.id, at.After.At, [16]byte(at.After.ID), until, asked)
	if err != nil {
		return false, err
	}
	for _, x := range found {
		if !x.ended.IsZero() && x.ended.Before(k.KeptSince(p.now, x.status)) {
			n, whole, err := forgetRun(p.tx, p.tenant, old{x.id, x.finished, x.ended}, until, p.left)
			p.N += n
			p.left -= n
			if err != nil || !whole {
				return false, err
			}
		}
		p.left--
		p.Next = engine.OwnPlace{Job: k.id, After: engine.Place{At: x.scheduled, ID: x.id}}
		if p.left <= 0 {
			return false, nil
		}
	}
	return len(found) < asked, nil
}

func scanKept(r Row) (x kept, err error) {
	var status int
	err = r.Scan(&x.id, &x.finished, &x.scheduled, &status)
	x.status = job.Status(status)
	return x, err
}

func scanKeptRun(r Row) (x kept, err error) {
	var status int
	err = r.Scan(&x.id, &x.finished, &x.scheduled, &x.ended, &status) // finished is when it began
	x.status = job.Status(status)
	return x, err
}
