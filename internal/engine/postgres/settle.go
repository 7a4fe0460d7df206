package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

const (
	holdOwnSQL = "UPDATE live SET hold = $3 WHERE id = $2 AND NOT tally AND tenant = $1 AND nonce = 0 AND lease <= 0 AND hold = 1 - $3::int2"
	// holdSQL goes through up to $5 executions behind an instant. What is leased has its turn when it comes back, see heldBack.
	holdSQL = `
		WITH piece AS MATERIALIZED (
			SELECT id, scheduled_at FROM live WHERE job = $2 AND tally AND tenant = $1 AND nonce = 0 AND scheduled_at > $4 ORDER BY scheduled_at, nonce LIMIT $5
		), moved AS (
			UPDATE live v SET hold = $3 FROM (SELECT u.id FROM unnest(ARRAY(SELECT id FROM piece)) u(id) ORDER BY u.id) d
			WHERE v.id = ANY (ARRAY[d.id]) AND v.lease <= 0 AND v.hold = 1 - $3::int2
		)
		SELECT count(*), max(scheduled_at) FROM piece`
	settlingSQL = `
		INSERT INTO settling AS s (tenant, job, behind, at) VALUES ($1, $2, $3, clock_timestamp())
		ON CONFLICT (tenant, job) DO UPDATE SET behind = EXCLUDED.behind, at = EXCLUDED.at`
	settledSQL    = "DELETE FROM settling WHERE tenant = $1 AND job = $2"
	unsettledSQL  = "SELECT tenant, job FROM settling ORDER BY at LIMIT 1"
	jobStateSQL   = "SELECT state FROM jobs WHERE tenant = $1 AND id = $2 FOR SHARE"
	settleFromSQL = "SELECT behind FROM settling WHERE tenant = $1 AND job = $2 FOR UPDATE SKIP LOCKED"

	// unreached is true for waiting executions of a paused job that Settle has not reached: no lease takes them.
	unreached = `j.state = 2 AND v.nonce = 0 AND EXISTS (SELECT 1 FROM settling s WHERE s.tenant = v.tenant AND s.job = v.job AND s.behind < v.scheduled_at)`
)

// holdWaiting holds or frees the waiting executions of a job, according to the given state: at once as many as one
// statement handles. It reports whether there may be more.
func holdWaiting(ctx context.Context, tx pgx.Tx, t tenant.ID, of job.ID, s job.State, limit int) (more bool, err error) {
	if _, err := tx.Exec(ctx, holdOwnSQL, string(t), [16]byte(of), holding(s)); err != nil {
		return false, err
	}
	n, err := holdPiece(ctx, tx, t, of, s, time.Time{}, limit)
	return n >= limit, err
}

func holding(s job.State) int16 {
	if s == job.Paused {
		return 1
	}
	return 0
}

// holdPiece handles one piece, and records where it ended, or that it reached the end.
func holdPiece(ctx context.Context, tx pgx.Tx, t tenant.ID, of job.ID, s job.State, behind time.Time, limit int) (n int, err error) {
	var last *time.Time
	if err := tx.QueryRow(ctx, holdSQL, string(t), [16]byte(of), holding(s), behind, limit).Scan(&n, &last); err != nil {
		return 0, err
	}
	if n < limit {
		_, err = tx.Exec(ctx, settledSQL, string(t), [16]byte(of))
	} else {
		_, err = tx.Exec(ctx, settlingSQL, string(t), [16]byte(of), last)
	}
	return n, err
}

// Settle continues to hold or free the waiting executions of a job whose pause began or ended. It locks the job
// before the note, and that before its executions, like an update.
func (s *jobs) Settle(ctx context.Context, limit int) (n int, err error) {
	if limit <= 0 {
		return 0, nil
	}
	err = s.write(ctx, "settle a pause", func(ctx context.Context, c *pgxpool.Conn) error {
		n = 0
		var t tenant.ID
		var of job.ID
		if err := c.QueryRow(ctx, unsettledSQL).Scan((*string)(&t), (*[16]byte)(&of)); err != nil {
			return unless(err)
		}
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			var state job.State
			err := tx.QueryRow(ctx, jobStateSQL, string(t), [16]byte(of)).Scan((*uint8)(&state))
			if errors.Is(err, pgx.ErrNoRows) || err == nil && state == job.Deleted { // what waits of it is cancelled
				n = 1
				_, err = tx.Exec(ctx, settledSQL, string(t), [16]byte(of))
			}
			if err != nil || n > 0 {
				return err
			}
			var behind time.Time
			if err := tx.QueryRow(ctx, settleFromSQL, string(t), [16]byte(of)).Scan(&behind); err != nil {
				return unless(err)
			}
			n, err = holdPiece(ctx, tx, t, of, state, behind, limit)
			n = max(n, 1) // that nothing was left is progress, too
			return err
		})
	})
	return n, err
}

// unless returns err, or nil for a row that does not exist.
func unless(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return err
}
