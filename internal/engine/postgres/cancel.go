package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	// cancelOneSQL ends executions that no worker holds: waiting and parked ones. The run of a workflow is parked
	// too, but ends when its nodes have.
	cancelOneSQL = `
		WITH gone AS (
			DELETE FROM live v WHERE v.id = $1 AND (v.lease <= 0 OR v.parked_until IS NOT NULL AND v.class <> 'workflow')
			RETURNING 13::int2 AS status, ` + goneRow + `, v.attempt, v.tries, v.lost, abs(v.lease) AS token, NULL::bytea AS result, coalesce(v.cancel_ending, $2::bytea) AS ending
		), ` + endSQL + `
		` + ofGone
	askSQL = `
		WITH asked AS (
			UPDATE live v SET cancel_at = now(), cancel_ending = $2 WHERE v.id = $1 AND v.lease > 0 AND v.cancel_at IS NULL
			RETURNING v.worker, v.id, v.lease, v.tenant, v.attempt, v.class
		), told AS (
			INSERT INTO events (execution, kind, token, tenant, attempt, worker, at, note) SELECT id, 'cancel_requested', lease, tenant, attempt, worker, now(), $3 FROM asked
			ON CONFLICT (execution, kind, token) DO NOTHING
		), ` + orderStopSQL
	// orderStopSQL notifies the holder of an execution that was asked to stop: its worker by an order or, for the run
	// of a workflow, the run by a mark.
	orderStopSQL = `stopped AS (
			INSERT INTO run_marks (execution, run, place, tenant, status, finished_at)
			SELECT id, coalesce((SELECT r.id FROM runs r WHERE r.execution = asked.id), id), -1, tenant, 5, now() FROM asked WHERE class = 'workflow'
			ON CONFLICT (execution, place) DO NOTHING
		)
		INSERT INTO orders (worker, execution, token, kind, at) SELECT worker, id, lease, 1, now() FROM asked WHERE class <> 'workflow'`
	// Of two concurrent forces, one finds the row gone.
	forceSQL = `
		WITH late AS MATERIALIZED (
			SELECT o.execution, o.token FROM orders o
			CROSS JOIN LATERAL (SELECT id FROM live WHERE id = o.execution AND lease = o.token OFFSET 0) v
			WHERE o.kind = 1 AND o.at <= now() - $1::interval ORDER BY o.at LIMIT $2
		), gone AS (
			DELETE FROM live v USING (SELECT execution, token FROM late ORDER BY execution OFFSET 0) o
			WHERE v.id = ANY (ARRAY[o.execution]) AND v.lease = o.token AND v.lease > 0
			RETURNING 13::int2 AS status, ` + goneRow + `, v.attempt, v.tries, v.lost, o.token, NULL::bytea AS result, v.cancel_ending AS ending
		), ` + endSQL + `, told AS (
			UPDATE orders o SET kind = 2, at = now() FROM gone g
			WHERE o.worker = ANY (ARRAY[g.worker]) AND o.execution = ANY (ARRAY[g.id]) AND o.token = g.token
		), noted AS (
			INSERT INTO events (execution, kind, token, tenant, attempt, worker, at) SELECT id, 'forced', token, tenant, attempt, worker, now() FROM gone
			ON CONFLICT (execution, kind, token) DO NOTHING
		)
		` + ofGone
)

// Cancel ends a waiting execution as CANCELLED, and asks a running one to stop.
func (s *leases) Cancel(ctx context.Context, t tenant.ID, id job.ExecutionID, reason string, e *audit.Entry) (out engine.Cancelled, err error) {
	err = s.change(ctx, "cancel an execution", e, func(ctx context.Context, c writer) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) (err error) {
			if err := unpack(ctx, s.database, tx, id); err != nil {
				return err
			}
			for range races {
				if out.Status, out.Ended, err = cancel(ctx, tx, t, id, reason); err != nil || out.Status != 0 {
					return err
				}
			}
			return engine.ErrConflict
		})
	})
	if err != nil {
		return engine.Cancelled{}, err
	}
	return out, nil
}

// cancel cancels an execution where it finds it, and returns which it ended. It returns 0 if the execution was in
// neither table: it went back to the queue, which makes a new row, between the two lookups.
func cancel(ctx context.Context, tx pgx.Tx, t tenant.ID, id job.ExecutionID, reason string) (status job.Status, ended []engine.Ended, err error) {
	ending := engine.EncodeEnd(&job.Error{Type: job.CancelledError, Message: reason}, nil)
	var leased, asked bool
	err = tx.QueryRow(ctx, "SELECT lease > 0 AND (parked_until IS NULL OR class = 'workflow'), cancel_at IS NOT NULL FROM live WHERE id = $1 AND tenant = $2 FOR UPDATE", [16]byte(id), string(t)).Scan(&leased, &asked)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		status, err = cancelledBefore(ctx, tx, t, id)
		return status, nil, err
	case err != nil:
		return 0, nil, err
	case !leased:
		ended, err = collectEnded(tx.Query(ctx, cancelOneSQL, [16]byte(id), ending))
		return job.Cancelled, ended, err
	case !asked:
		_, err = tx.Exec(ctx, askSQL, [16]byte(id), ending, plain(reason))
	}
	return job.Cancelling, nil, err
}

// cancelledBefore answers for an execution that is no longer in the queue; 0 if it is again.
func cancelledBefore(ctx context.Context, tx pgx.Tx, t tenant.ID, id job.ExecutionID) (job.Status, error) {
	var status job.Status
	err := tx.QueryRow(ctx, `
		SELECT status FROM executions WHERE id = $1 AND tenant = $2 UNION ALL SELECT 0 FROM live WHERE id = $1 AND tenant = $2 LIMIT 1`,
		[16]byte(id), string(t)).Scan((*uint8)(&status))
	if err == nil && status != 0 && status != job.Cancelled {
		return 0, engine.ErrConflict
	}
	return status, found(err)
}

// Force ends executions that were asked to stop longer than grace ago and still run, and orders their workers to drop
// them.
func (s *leases) Force(ctx context.Context, grace time.Duration, limit int) (forced []engine.Ended, err error) {
	err = s.write(ctx, "force cancels", func(ctx context.Context, c *pgxpool.Conn) error {
		return withDays(ctx, c, func() (err error) {
			forced, err = collectEnded(c.Query(ctx, forceSQL, grace, max(limit, 0)))
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return forced, nil
}
