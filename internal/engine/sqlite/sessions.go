package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

// grant is a row of the directory: what a session was given under a token.
type grant struct {
	token  job.Token
	worker job.WorkerID
	host   string
	ids    []byte
}

// each calls f for every lease of the grant.
func (g *grant) each(f func(job.Lease) error) error {
	for id := range slices.Chunk(g.ids, 16) {
		if err := f(job.Lease{Execution: job.ExecutionID(id), Token: g.token}); err != nil {
			return err
		}
	}
	return nil
}

func (g *grant) forget(c *conn) error {
	_, err := c.prepare("DELETE FROM leases WHERE lease = ?").int(int64(g.token)).exec()
	return err
}

// handBack removes a session's grants from before an instant (zero: all), except those to keep, from the directory
// and returns what still carries their tokens to the queue, uncharged; ended are those that must not run again.
func handBack(c *conn, now int64, w job.WorkerID, keep []job.Token, before time.Time) (out []job.Ready, ended []engine.Ended, err error) {
	var gs []grant
	err = c.prepare(grantsSQL).id(w).at(before).each(func(r *row) error {
		if g := (grant{token: job.Token(r.int64()), ids: r.bytes()}); !slices.Contains(keep, g.token) {
			gs = append(gs, g)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	h := telling(c, now)
	for _, g := range gs {
		err := g.each(func(l job.Lease) (err error) {
			out, err = release(h, out, w, l)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		if err := g.forget(c); err != nil {
			return nil, nil, err
		}
	}
	return out, h.told, h.tally()
}

// Leave ends a session at once and returns its executions to the queue, uncharged.
func (s *sessions) Leave(ctx context.Context, w job.WorkerID) (engine.Requeued, error) {
	var out engine.Requeued
	err := s.write(ctx, "end a session", func(c *conn, now int64) error {
		_, err := c.prepare("UPDATE sessions SET deposed = 1, expires_at = min(expires_at, ?) WHERE id = ? AND deposed = 0").int(now).id(w).exec()
		if err != nil {
			return err
		}
		out.Ready, out.Ended, err = handBack(c, now, w, nil, time.Time{})
		return err
	})
	if err != nil {
		return engine.Requeued{}, err
	}
	return out, nil
}

// Disown returns to the queue, uncharged, executions that a session was given before an instant and holds under
// tokens other than those to keep.
func (s *sessions) Disown(ctx context.Context, w job.WorkerID, keep []job.Token, before time.Time) (engine.Requeued, error) {
	var out engine.Requeued
	err := s.write(ctx, "disown leases", func(c *conn, now int64) (err error) {
		out.Ready, out.Ended, err = handBack(c, now, w, keep, before)
		return err
	})
	if err != nil {
		return engine.Requeued{}, err
	}
	return out, nil
}

const (
	grantsSQL  = "SELECT lease, ids FROM leases WHERE worker = ?1 AND (?2 IS NULL OR at < ?2)"
	expiredSQL = "UPDATE sessions SET deposed = 1 WHERE expires_at < ? AND deposed = 0"
	deadSQL    = `
		SELECT l.lease, l.worker, s.host, l.ids FROM sessions s CROSS JOIN leases l INDEXED BY leases_worker
		WHERE s.deposed <> 0 AND l.worker = s.id ORDER BY s.id, l.lease DESC` // the latest of a session first: of the others most have finished
	loseSQL   = "UPDATE live SET lease = -lease, lost = lost + 1, hold = " + heldBack + held + unparked + takenBack
	lossesSQL = "SELECT count(*) FROM attempts WHERE execution = ? AND lost <> 0 AND ended_at >= ?"
)

// reaped is approximately how many executions of dead workers one pass examines.
const reaped = 20_000

// Reap ends expired sessions and returns their executions to the queue as lost attempts: of up to limit leases, each
// of many executions. An execution lost for the poison-th time within an hour ends as FAILED.
func (s *sessions) Reap(ctx context.Context, limit, poison int) (out engine.Reaped, err error) {
	if limit <= 0 {
		return out, nil
	}
	var dead []grant
	err = s.write(ctx, "reap", func(c *conn, now int64) error {
		out, dead = engine.Reaped{}, nil
		deposed, err := c.prepare(expiredSQL).int(now).exec()
		if err != nil {
			return err
		}
		out.Sessions = deposed
		sum := 0
		_, err = c.prepare(deadSQL).until(func(r *row) (bool, error) {
			g := grant{token: job.Token(r.int64()), worker: r.id(), host: r.text(), ids: r.bytes()}
			dead, sum = append(dead, g), sum+len(g.ids)/16
			return len(dead) >= limit || sum >= reaped, nil
		})
		if err != nil {
			return err
		}
		if out.Leases = len(dead); len(dead) == 0 {
			return nil
		}
		if err := failpoint.Hit("reap.afterSelectBeforeUpdate"); err != nil {
			return err
		}
		h := telling(c, now)
		for _, g := range dead {
			if err := lose(h, &out, &g, poison); err != nil {
				return err
			}
		}
		out.Ended = h.told
		return h.tally()
	})
	if err != nil {
		return engine.Reaped{}, err
	}
	return out, nil
}

// lose records what a dead session still held under a token as lost attempts, and returns it to the queue, except
// executions that were asked to stop, are of a deleted job, or are poison.
func lose(h *history, out *engine.Reaped, g *grant, poison int) error {
	ending := engine.EncodeEnd(&job.Error{
		Type: job.LeaseLost, Message: fmt.Sprintf("worker %s on %s stopped answering, and its lease ended", g.worker, g.host),
	}, nil)
	attempt := h.prepare(attemptSQL + unparked)
	err := g.each(func(l job.Lease) error {
		n, err := attempt.int(1).int(h.now).bytes(ending).id(l.Execution).int(int64(l.Token)).exec()
		if err != nil || n == 0 {
			return err
		}
		back, err := takeBack(h.prepare(loseSQL).id(l.Execution).int(int64(l.Token)))
		if err != nil || back == nil {
			return err
		}
		if back.over {
			out.Cancelled++
			return h.endFreed(l, job.Cancelled, back.ending)
		}
		if losses, err := lostLately(h, l.Execution); err != nil {
			return err
		} else if poison > 0 && losses >= poison {
			out.Poisoned++
			why := &job.Error{Type: job.Poison, Message: fmt.Sprintf("lost %d workers within an hour", losses)}
			if err := h.endFreed(l, job.Failed, engine.EncodeEnd(why, nil)); err != nil {
				return err
			}
			h.told[len(h.told)-1].Error = why
			return h.bury(l.Execution, job.Failed, why, time.Time{})
		}
		out.Ready = append(out.Ready, back.Ready)
		return nil
	})
	if err != nil {
		return err
	}
	return g.forget(h.conn)
}

// lostLately counts the attempts of an execution that were lost within an hour.
func lostLately(h *history, id job.ExecutionID) (n int, err error) {
	_, err = h.prepare(lossesSQL).id(id).int(h.now - time.Hour.Microseconds()).first(func(r *row) error {
		n = r.int()
		return nil
	})
	return n, err
}
