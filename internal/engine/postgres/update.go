package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlstore"
)

// scheduledRows are the executions in live that a job's schedule fired: tallied or
// not, each by an index.
func scheduledRows(tenant, job string) string {
	const columns = "SELECT id, lease, hold, due_at, scheduled_at, trigger, tries, attempt, started_at FROM live WHERE nonce = 0 AND "
	return columns + fmt.Sprintf("job = %s AND tally AND tenant = %s", job, tenant) +
		" UNION ALL " + columns + fmt.Sprintf("id = %s AND NOT tally AND tenant = %s", job, tenant)
}

// The job is locked before its executions, as in firing and deleting. An execution that was ever leased, even if
// released, has begun and is not taken back: a lease of 0 means never. Nor is one whose instant has come and that
// waits for its jitter: later instants may have run, and would fire again.
var (
	lockJobSQL = "SELECT revision, state, now() FROM jobs WHERE tenant = $1 AND id = $2 AND state <> 4 FOR UPDATE"

	takeBackSQL = `
		WITH back AS (
			DELETE FROM live v USING (SELECT u.id FROM unnest(ARRAY(
				SELECT s.id FROM (` + scheduledRows("$1", "$2") + `) s WHERE s.lease = 0 AND s.scheduled_at > now()
			)) u(id) ORDER BY u.id) d
			WHERE v.id = ANY (ARRAY[d.id]) AND v.lease = 0 AND v.scheduled_at > now() AND v.tries = 0 AND v.started_at IS NULL
			RETURNING v.scheduled_at
		)
		SELECT min(scheduled_at), count(*) FROM back`

	relimitSQL = `
		UPDATE live v SET group_max = nullif($3::int4, 0), rate_count = nullif($4::int4, 0), rate_us = nullif($5::int8, 0), rate_burst = nullif($6::int4, 0) FROM (SELECT u.id FROM unnest(ARRAY(
			SELECT s.id FROM (` + waitingRows + `) s WHERE s.lease <= 0 AND s.group_key <> 0 AND (s.group_max, s.rate_count, s.rate_us, s.rate_burst)
				IS NOT DISTINCT FROM (nullif($7::int4, 0), nullif($8::int4, 0), nullif($9::int8, 0), nullif($10::int4, 0))
			ORDER BY s.due_at LIMIT $11
		)) u(id) ORDER BY u.id) d
		WHERE v.id = ANY (ARRAY[d.id]) AND v.lease <= 0`
	waitingRows = "SELECT id, lease, due_at, group_key, group_max, rate_count, rate_us, rate_burst FROM live WHERE job = $2 AND tally AND tenant = $1" +
		" UNION ALL SELECT id, lease, due_at, group_key, group_max, rate_count, rate_us, rate_burst FROM live WHERE id = $2 AND NOT tally AND tenant = $1"

	lockPlanSQL = "SELECT next_run_at, runs FROM schedules WHERE part = $1 AND job = $2 AND tenant = $3 FOR UPDATE"
	replanSQL   = `
		INSERT INTO schedules AS s (part, job, tenant, next_run_at, runs, revision, active) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (part, job) DO UPDATE SET next_run_at = EXCLUDED.next_run_at, runs = EXCLUDED.runs, revision = EXCLUDED.revision, active = EXCLUDED.active`

	updateJobSQL = `
		UPDATE jobs SET revision = revision + 1, updated_at = $3, state = $4, kind = $5, priority = $6, max_attempts = $7, name = $8, description = $9, tags = $10,
			spec = $11, target = $12, payload = $13, paused_until = $14, pause_note = $15
		WHERE tenant = $1 AND id = $2`

	updatedSQL = "SELECT " + jobColumns + " FROM " + plannedJobs + waits + " WHERE j.tenant = $1 AND j.id = $2"

	resumableSQL = "SELECT " + jobColumns + " FROM (SELECT " + definitionColumns + `, j.payload FROM ` + plannedJobs + `
		WHERE j.state = 2 AND j.paused_until IS NOT NULL AND j.paused_until <= now() ORDER BY j.paused_until LIMIT $1) j` + waits + " ORDER BY j.paused_until"
)

// UpdateJob stores a job's definition, state and pause again, and takes back staged executions.
func (s *jobs) UpdateJob(ctx context.Context, t tenant.ID, u engine.Update) (job.Job, error) {
	var out job.Job
	var rest bool // of the waiting executions, which are not held yet
	err := s.change(ctx, "update a job", u.Entry, func(ctx context.Context, c writer) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) (err error) {
			ids := []job.ID{u.Job.ID}
			if u.Parents != nil { // in a bundle no execution leaves a mark
				ids = append(ids, u.Job.DependsOn...)
			}
			if err := unpack(ctx, s.database, tx, ids...); err != nil {
				return err
			}
			out, rest, err = update(ctx, tx, t, u)
			return err
		})
	})
	if err != nil {
		return job.Job{}, err
	}
	if rest && out.State == job.Paused {
		s.awaitLeases(ctx)
	}
	return out, nil
}

// update changes a job, and reports whether its pause has more to hold or to free than it handled.
func update(ctx context.Context, tx pgx.Tx, t tenant.ID, u engine.Update) (out job.Job, rest bool, err error) {
	j := &u.Job
	if u.Most > 0 { // first, as creations lock it
		room, err := tx.Exec(ctx, addCountSQL, string(t), u.Most)
		if err != nil {
			return job.Job{}, false, err
		}
		if room.RowsAffected() == 0 {
			return job.Job{}, false, engine.ErrFull
		}
	}
	p, err := lockPlan(ctx, tx, t, &u)
	if err != nil {
		return job.Job{}, false, err
	}
	if u.Overtaken(microseconds(p.next), p.now.UnixMicro()) {
		return job.Job{}, false, fmt.Errorf("%w: the instant it is planned for has come meanwhile", engine.ErrConflict)
	}
	of := []any{string(t), [16]byte(j.ID)}
	var first time.Time
	var staged int64
	if err := tx.QueryRow(ctx, takeBackSQL, of...).Scan(at(&first), &staged); err != nil {
		return job.Job{}, false, err
	}
	if p.change(&u, first, staged); u.Replan && j.Schedule.MaxRuns > 0 && j.Schedule.MaxRuns <= p.runs {
		return job.Job{}, false, &engine.Spent{Runs: p.runs}
	}
	state := j.State
	if state == job.Completed {
		state = job.Active // it is over only because nothing is left
	}
	if int16(state) != p.state {
		if rest, err = holdWaiting(ctx, tx, t, j.ID, state, cmp.Or(u.Holds, engine.HoldsAtOnce)); err != nil {
			return job.Job{}, false, err
		}
	}
	if err := addNodes(ctx, tx, t, u.Nodes); err != nil {
		return job.Job{}, false, err
	}
	b := &pgx.Batch{}
	if was := u.Was; was != nil {
		b.Queue(relimitSQL, append(of[:2:2], j.MaxConcurrent, j.Rate.Count, j.Rate.Per.Microseconds(), j.Rate.Burst,
			was.Max, was.Rate.Count, was.Rate.Per.Microseconds(), was.Rate.Burst, engine.MostRelimited)...)
	}
	keepRevision(b, t, &u, p.revision)
	b.Queue(updateJobSQL, append(of[:2:2], u.AsOf,
		int16(state), int16(j.Schedule.Type), int16(j.Priority), j.Retry.MaxRetries+1, j.Name, orNone(j.Description), listOrNil(j.Tags),
		engine.EncodeSpec(j), engine.EncodeTarget(&j.Target), j.Payload, orNever(j.PausedTill), orNone(j.PauseNote))...)
	if p.found || j.Schedule.Type.Recurs() || !p.next.IsZero() {
		b.Queue(replanSQL, int16(job.PartitionOf(j.ID)), [16]byte(j.ID), string(t), orNever(p.next), p.runs, p.revision+1, state == job.Active)
	}
	queueManaged(b, u.Secrets)
	if len(u.Unused) > 0 {
		b.Queue(dropManagedSQL, append(of[:2:2], u.Unused)...)
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return job.Job{}, false, err
	}
	if u.Workflow != nil {
		if err := sqlstore.AddVersion(transaction{ctx: ctx, c: tx}, u.Workflow); err != nil {
			return job.Job{}, false, err
		}
	}
	on, now := transaction{ctx: ctx, c: tx}, *j
	now.Tenant, now.State = t, state
	if u.Parents != nil {
		if err := sqlstore.ChangeParents(on, &now, *u.Parents); err != nil {
			return job.Job{}, false, err
		}
	}
	if u.Retained {
		if err := sqlstore.ChangeRetention(on, t, &now, u.AsOf); err != nil {
			return job.Job{}, false, err
		}
	}
	if err := sqlstore.LookAtChild(on, &now, u.Parents); err != nil {
		return job.Job{}, false, err
	}
	rows, _ := tx.Query(ctx, updatedSQL, of...)
	out, err = pgx.CollectExactlyOneRow(rows, scanJob)
	return out, rest, err
}

// microseconds returns an instant in microseconds; 0 for none.
func microseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// plan holds the state of a job's schedule.
type plan struct {
	found    bool // it has a row
	next     time.Time
	runs     int64
	revision int   // the job's
	state    int16 // likewise, as it is stored
	now      time.Time
}

// lockPlan locks a job that is to be updated and the state of its schedule, under its expected revision.
func lockPlan(ctx context.Context, tx pgx.Tx, t tenant.ID, u *engine.Update) (p plan, err error) {
	b := &pgx.Batch{}
	b.Queue(lockJobSQL, string(t), [16]byte(u.Job.ID)).QueryRow(func(r pgx.Row) error { return r.Scan(&p.revision, &p.state, at(&p.now)) })
	b.Queue(lockPlanSQL, int16(job.PartitionOf(u.Job.ID)), [16]byte(u.Job.ID), string(t)).QueryRow(func(r pgx.Row) error {
		err := r.Scan(at(&p.next), &p.runs)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		p.found = err == nil
		return err
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return p, found(err)
	}
	if u.Revision != 0 && u.Revision != p.revision {
		return p, fmt.Errorf("%w: the job has revision %d, not %d", engine.ErrConflict, p.revision, u.Revision)
	}
	return p, nil
}

// change plans again, or plans the first taken-back instant again, since it has not fired.
func (p *plan) change(u *engine.Update, first time.Time, staged int64) {
	p.runs = max(0, p.runs-staged)
	switch {
	case u.Replan:
		p.next = u.Job.NextRunAt
	case !first.IsZero() && (p.next.IsZero() || first.Before(p.next)):
		p.next = first
	}
}

// Resumable lists up to limit paused jobs of any tenant whose pause has expired.
func (s *jobs) Resumable(ctx context.Context, limit int) ([]job.Job, error) {
	var out []job.Job
	err := s.ask(ctx, "find what is to be resumed", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, resumableSQL, max(limit, 0))
		var err error
		out, err = pgx.CollectRows(rows, scanJob)
		return err
	})
	return out, err
}
