package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// scheduledRows are the executions in live that a job's schedule fired: tallied or
// not, each by an index.
func scheduledRows(tenant, job string) string {
	const columns = "SELECT id, lease, hold, due_at, scheduled_at FROM live WHERE nonce = 0 AND "
	return columns + fmt.Sprintf("job = %s AND tally AND tenant = %s", job, tenant) +
		" UNION ALL " + columns + fmt.Sprintf("id = %s AND NOT tally AND tenant = %s", job, tenant)
}

// The job is locked before its executions, as by whoever fires or deletes it. What
// was leased, even if it was handed back, has begun and is not taken back: a lease
// that is 0 is one that never was. Nor is what stands for an instant that has come
// and waits for its jitter: instants after it may have run, and would fire again.
var (
	lockJobSQL = "SELECT revision FROM jobs WHERE tenant = $1 AND id = $2 AND state <> 4 FOR UPDATE"

	takeBackSQL = `
		WITH back AS (
			DELETE FROM live v USING (SELECT u.id FROM unnest(ARRAY(
				SELECT s.id FROM (` + scheduledRows("$1", "$2") + `) s WHERE s.lease = 0 AND s.scheduled_at > now()
			)) u(id) ORDER BY u.id) d
			WHERE v.id = ANY (ARRAY[d.id]) AND v.lease = 0 AND v.scheduled_at > now() AND v.tries = 0 AND v.attempt = 0
			RETURNING v.scheduled_at
		)
		SELECT min(scheduled_at), count(*) FROM back`

	holdSQL = `
		UPDATE live v SET hold = $3 FROM (SELECT u.id FROM unnest(ARRAY(
			SELECT s.id FROM (` + scheduledRows("$1", "$2") + `) s WHERE s.lease <= 0 AND s.hold <> $3::int2
		)) u(id) ORDER BY u.id) d
		WHERE v.id = ANY (ARRAY[d.id]) AND v.lease <= 0`

	// An instant that was taken back has not fired.
	updateJobSQL = `
		UPDATE jobs SET next_run_at = CASE WHEN $3 THEN $4 ELSE least(next_run_at, $5) END, runs = greatest(0, runs - $6),
			revision = revision + 1, updated_at = $7, state = $8, kind = $9, priority = $10, max_attempts = $11, name = $12, description = $13, tags = $14,
			spec = $15, target = $16, payload = $17, paused_until = $18, pause_note = $19
		WHERE tenant = $1 AND id = $2`

	updatedSQL = "SELECT " + jobColumns + " FROM jobs j" + waits + " WHERE j.tenant = $1 AND j.id = $2"

	resumableSQL = "SELECT " + jobColumns + " FROM (SELECT " + definitionColumns + `, j.payload FROM jobs j
		WHERE j.state = 2 AND j.paused_until IS NOT NULL AND j.paused_until <= now() ORDER BY j.paused_until LIMIT $1) j` + waits + " ORDER BY j.paused_until"
)

// UpdateJob stores a job's definition, state and pause anew, and takes back what was staged.
func (s *Store) UpdateJob(ctx context.Context, t tenant.ID, u engine.Update) (job.Job, error) {
	var out job.Job
	err := s.write(ctx, "update a job", func(ctx context.Context, c *pgxpool.Conn) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) (err error) {
			out, err = update(ctx, tx, t, u)
			return err
		})
	})
	if err != nil {
		return job.Job{}, err
	}
	return out, nil
}

func update(ctx context.Context, tx pgx.Tx, t tenant.ID, u engine.Update) (job.Job, error) {
	of := []any{string(t), [16]byte(u.Job.ID)}
	var revision int
	if err := tx.QueryRow(ctx, lockJobSQL, of...).Scan(&revision); err != nil {
		return job.Job{}, found(err)
	}
	if u.Revision != 0 && u.Revision != revision {
		return job.Job{}, fmt.Errorf("%w: the job has revision %d, not %d", engine.ErrConflict, revision, u.Revision)
	}
	var first time.Time
	var staged int64
	if err := tx.QueryRow(ctx, takeBackSQL, of...).Scan(at(&first), &staged); err != nil {
		return job.Job{}, err
	}
	j := &u.Job
	state, hold := j.State, int16(0)
	switch state {
	case job.Paused:
		hold = 1
	case job.Completed:
		state = job.Active // it is over because nothing is left, and for no longer than that
	}
	b := &pgx.Batch{}
	b.Queue(holdSQL, append(of[:2:2], hold)...)
	b.Queue(updateJobSQL, append(of[:2:2], u.Replan, orNever(j.NextRunAt), orNever(first), staged, u.AsOf,
		int16(state), int16(j.Schedule.Type), int16(j.Priority), j.Retry.MaxRetries+1, j.Name, orNone(j.Description), listOrNil(j.Tags),
		engine.EncodeSpec(*j), engine.EncodeTarget(j.Target), j.Payload, orNever(j.PausedTill), orNone(j.PauseNote))...)
	queueManaged(b, u.Secrets)
	if len(u.Unused) > 0 {
		b.Queue(dropManagedSQL, append(of[:2:2], u.Unused)...)
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return job.Job{}, err
	}
	rows, _ := tx.Query(ctx, updatedSQL, of...)
	return pgx.CollectExactlyOneRow(rows, scanJob)
}

// Resumable lists up to limit paused jobs of any tenant whose pause ends by itself by now.
func (s *Store) Resumable(ctx context.Context, limit int) ([]job.Job, error) {
	var out []job.Job
	err := s.ask(ctx, "find what is to be resumed", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, resumableSQL, max(limit, 0))
		var err error
		out, err = pgx.CollectRows(rows, scanJob)
		return err
	})
	return out, err
}
