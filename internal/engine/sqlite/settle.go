package sqlite

import (
	"context"
	"math"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

const (
	holdOwnSQL = "UPDATE live SET hold = ?1 WHERE id = ?2 AND job = id AND tenant = ?3 AND nonce = 0 AND lease <= 0 AND hold = 1 - ?1"
	// pieceSQL finds up to which instant one piece goes, and how many executions are in it.
	pieceSQL = `SELECT count(*), max(scheduled_at) FROM
		(SELECT scheduled_at FROM live INDEXED BY live_fire WHERE job = ? AND id <> job AND tenant = ? AND nonce = 0 AND scheduled_at > ? ORDER BY scheduled_at LIMIT ?)`
	// holdSQL holds or frees a piece. Leased executions are handled when they return to the queue, see heldBack.
	holdSQL = `UPDATE live INDEXED BY live_fire SET hold = ?1
		WHERE job = ?2 AND id <> job AND tenant = ?3 AND nonce = 0 AND scheduled_at > ?4 AND scheduled_at <= ?5 AND lease <= 0 AND hold = 1 - ?1`
	settlingSQL = `INSERT INTO settling (tenant, job, behind, at) VALUES (?, ?, ?, ?)
		ON CONFLICT (tenant, job) DO UPDATE SET behind = excluded.behind, at = excluded.at`
	settledSQL   = "DELETE FROM settling WHERE tenant = ? AND job = ?"
	unsettledSQL = "SELECT s.tenant, s.job, s.behind, coalesce(j.state, 4) FROM settling s LEFT JOIN jobs j ON j.tenant = s.tenant AND j.id = s.job ORDER BY s.at LIMIT 1"

	// unreached is true for waiting executions of a paused job that Settle has not reached: no lease takes them.
	unreached = "j.state = 2 AND v.nonce = 0 AND EXISTS (SELECT 1 FROM settling s WHERE s.tenant = v.tenant AND s.job = v.job AND s.behind < v.scheduled_at)"
)

// holdWaiting holds or frees the waiting executions of a job, according to the given state: at once as many as one
// transaction handles.
func holdWaiting(c *conn, now int64, t tenant.ID, of job.ID, s job.State, limit int) error {
	if _, err := c.prepare(holdOwnSQL).bool(s == job.Paused).id(of).text(string(t)).exec(); err != nil {
		return err
	}
	_, err := holdPiece(c, now, t, of, s, math.MinInt64, limit)
	return err
}

// holdPiece handles one piece after an instant, and records where it ended, or that it reached the end.
func holdPiece(c *conn, now int64, t tenant.ID, of job.ID, s job.State, behind int64, limit int) (n int, err error) {
	var last int64
	_, err = c.prepare(pieceSQL).id(of).text(string(t)).int(behind).int(int64(limit)).first(func(r *row) error {
		n, last = r.int(), r.int64()
		return nil
	})
	if err != nil {
		return 0, err
	}
	if n > 0 {
		if _, err := c.prepare(holdSQL).bool(s == job.Paused).id(of).text(string(t)).int(behind).int(last).exec(); err != nil {
			return 0, err
		}
	}
	if n < limit {
		_, err = c.prepare(settledSQL).text(string(t)).id(of).exec()
	} else {
		_, err = c.prepare(settlingSQL).text(string(t)).id(of).int(last).int(now).exec()
	}
	return n, err
}

// Settle continues to hold or free the waiting executions of a job whose pause began or ended.
func (s *jobs) Settle(ctx context.Context, limit int) (n int, err error) {
	if limit <= 0 {
		return 0, nil
	}
	any := false
	err = s.look(ctx, "look for pauses to settle", func(c *conn) (err error) {
		any, err = c.prepare(unsettledSQL).first(nothing)
		return err
	})
	if err != nil || !any {
		return 0, err
	}
	err = s.write(ctx, "settle a pause", func(c *conn, now int64) error {
		n = 0
		var t tenant.ID
		var of job.ID
		var behind int64
		var state job.State
		found, err := c.prepare(unsettledSQL).first(func(r *row) error {
			t, of, behind, state = tenant.ID(r.text()), r.id(), r.int64(), job.State(r.int())
			return nil
		})
		switch {
		case err != nil || !found:
			return err
		case state == job.Deleted: // what waits of it is cancelled
			_, err = c.prepare(settledSQL).text(string(t)).id(of).exec()
		default:
			n, err = holdPiece(c, now, t, of, state, behind, limit)
		}
		n = max(n, 1) // that nothing was left is progress, too
		return err
	})
	return n, err
}
