package postgres

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlstore"
)

const (
	deleteJobSQL = `
		UPDATE jobs SET state = 4, revision = revision + 1, updated_at = $3
		WHERE tenant = $1 AND id = $2 AND state <> 4`
	// unplanSQL waits for a fire of the job, or keeps the next one from finding it.
	unplanSQL = "UPDATE schedules SET next_run_at = NULL, active = false, revision = revision + 1 WHERE part = $1 AND job = $2 AND tenant = $3"
	// cancelSQL cancels up to $4 executions of a deleted job. A deleted job stays so, and needs no lock here.
	cancelSQL = `
		WITH gone AS (
			DELETE FROM live v USING (SELECT u.id FROM unnest(ARRAY(
				SELECT id FROM live WHERE id = $2 AND NOT tally AND tenant = $1 AND lease <= 0
				UNION ALL
				(SELECT id FROM live WHERE job = $2 AND tally AND tenant = $1 AND lease <= 0 ORDER BY scheduled_at, nonce LIMIT $4)
				LIMIT $4
			)) u(id) ORDER BY u.id) d
			WHERE v.id = ANY (ARRAY[d.id]) AND v.lease <= 0 AND EXISTS (SELECT 1 FROM jobs WHERE tenant = $1 AND id = $2 AND state = 4)
			RETURNING 13::int2 AS status, ` + goneRow + `, v.attempt, v.tries, v.lost, -v.lease AS token, NULL::bytea AS result, $3::bytea AS ending
		), ` + endSQL + `
		` + ofGone
	// leftSQL counts the waiting executions of a job: after cancelSQL its own fire is not among them.
	restSQL = "SELECT id FROM operations WHERE tenant = $1 AND kind = $2 AND spec = $3 AND finished_at IS NULL ORDER BY created_at LIMIT 1"
	leftSQL = "SELECT count(*) FROM (SELECT 1 FROM live WHERE job = $2 AND tally AND tenant = $1 AND lease <= 0 LIMIT $3) v"
)

// DeleteJob marks a job deleted, cancels as many of its waiting executions as one transaction may, and leaves running
// ones alone.
func (s *jobs) DeleteJob(ctx context.Context, t tenant.ID, d engine.Deletion) (engine.Deleted, error) {
	var out engine.Deleted
	err := s.change(ctx, "delete a job", d.Entry, func(ctx context.Context, c writer) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) (err error) {
			if out.Rest, out.Ended, err = s.deleteJob(ctx, tx, t, d); err != nil {
				return err
			}
			out.Job, err = findJob(ctx, tx, t, engine.Ref{ID: d.Job})
			return err
		})
	})
	if err != nil {
		return engine.Deleted{}, err
	}
	if len(out.Ended) >= cmp.Or(d.Most, engine.CancelsAtOnce) {
		s.awaitLeases(ctx)
	}
	return out, nil
}

func (s *jobs) deleteJob(ctx context.Context, tx pgx.Tx, t tenant.ID, d engine.Deletion) (rest job.OperationID, ended []engine.Ended, err error) {
	if err := unpack(ctx, s.database, tx, d.Job); err != nil {
		return rest, nil, err
	}
	most := cmp.Or(d.Most, engine.CancelsAtOnce)
	b := &pgx.Batch{}
	b.Queue(deleteJobSQL, string(t), [16]byte(d.Job), d.AsOf)
	b.Queue(unplanSQL, int16(job.PartitionOf(d.Job)), [16]byte(d.Job), string(t))
	b.Queue(cancelSQL, string(t), [16]byte(d.Job), jobDeleted, most).Query(func(rows pgx.Rows) (err error) {
		ended, err = collectEnded(rows, nil)
		return err
	})
	b.Queue(outliveJobSQL, string(t), [16]byte(d.Job), engine.PastLife.Seconds())
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return rest, nil, err
	}
	if err := sqlstore.Unheld(transaction{ctx: ctx, c: tx}, t, d.Job); err != nil {
		return rest, nil, err
	}
	if err := sqlstore.Unused(transaction{ctx: ctx, c: tx}, t, d.Job); err != nil { // now that no version can be stored that uses it
		return rest, nil, err
	}
	if d.Rest == nil || len(ended) < most {
		return rest, ended, nil
	}
	o := *d.Rest
	if err := tx.QueryRow(ctx, leftSQL, string(t), [16]byte(d.Job), engine.WaitingCounted).Scan(&o.Total); err != nil || o.Total == 0 {
		return rest, ended, err
	}
	err = tx.QueryRow(ctx, restSQL, string(t), string(o.Kind), notNil(o.Spec)).Scan((*[16]byte)(&rest))
	if !errors.Is(err, pgx.ErrNoRows) {
		return rest, ended, err // it runs already
	}
	return o.ID, ended, sqlstore.AddOperation(transaction{ctx: ctx, c: tx}, &o)
}

// CancelWaiting cancels waiting executions of a deleted job.
func (s *jobs) CancelWaiting(ctx context.Context, t tenant.ID, of job.ID, limit int) (ended []engine.Ended, err error) {
	err = s.write(ctx, "cancel what waits of a deleted job", func(ctx context.Context, c *pgxpool.Conn) error {
		return withDays(ctx, c, func() (err error) {
			ended, err = collectEnded(c.Query(ctx, cancelSQL, string(t), [16]byte(of), jobDeleted, max(limit, 0)))
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return ended, nil
}
