package sqlite

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	// attemptSQL records what the attempt under a lease came to.
	attemptSQL = `
		INSERT OR ROLLBACK INTO attempts (execution, token, number, lost, started_at, ended_at, worker, tenant, ending)
		SELECT id, lease, attempt, ?, leased_at, ?, worker, tenant, ? FROM live` + held
	againSQL = "UPDATE live SET lease = -lease, due_at = coalesce(?, due_at), tries = max(tries, ?)" + held + " AND cancel_at IS NULL AND NOT " + deleted

	// pastFinishSQL is what an execution's end, and its attempt under a token, came to.
	pastFinishSQL = `
		SELECT (SELECT status FROM executions WHERE id = ?1 AND token = ?2), (SELECT CASE WHEN lost THEN -1 ELSE 1 END FROM attempts WHERE execution = ?1 AND token = ?2),
			EXISTS (SELECT 1 FROM live WHERE id = ?1) OR EXISTS (SELECT 1 FROM executions WHERE id = ?1)`
)

// Finish applies each transition under its lease's token, and answers in order.
func (s *Store) Finish(ctx context.Context, fs []job.Finish) ([]job.Verdict, error) {
	if len(fs) == 0 {
		return nil, nil
	}
	endings := make([][]byte, len(fs))
	for i := range fs {
		endings[i] = engine.EncodeEnd(fs[i].Outcome.Error, fs[i].Outcome.Response)
	}
	out := make([]job.Verdict, len(fs))
	err := s.write(ctx, "finish", func(c *conn, now int64) error {
		h := newHistory(c, now)
		for i := range fs {
			f := &fs[i]
			out[i] = job.Verdict{Execution: f.Outcome.Execution, Accepted: true}
			applied, err := finish(h, f, endings[i])
			if err != nil {
				return err
			}
			if applied {
				continue
			}
			if out[i], err = judge(c, &f.Outcome); err != nil {
				return err
			}
		}
		return h.tally()
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// finish applies a transition, if its lease holds. Nothing that was asked to stop, or is of a deleted job, is tried again,
// and what stops because it was asked to says what the cancel said.
func finish(h *history, f *job.Finish, ending []byte) (applied bool, err error) {
	o, status := &f.Outcome, f.Then.Status
	if f.Then.Move == job.Again || status == job.Failed || status == job.TimedOut {
		n, err := h.prepare(attemptSQL).int(0).int(h.now).bytes(ending).id(o.Execution).int(int64(o.Token)).exec()
		if err != nil || n == 0 {
			return false, err
		}
	}
	if !status.Final() {
		n, err := h.prepare(againSQL).at(f.Then.DueAt).int(int64(f.Then.Tries)).id(o.Execution).int(int64(o.Token)).exec()
		if err != nil || n > 0 {
			return n > 0, err
		}
	}
	if !status.Final() || status == job.Cancelled {
		if applied, err := cancelled(h, o.Lease, f.Then.Tries, o.Result); err != nil || applied {
			return applied, err
		}
	}
	if !status.Final() {
		status = job.Failed
		if o.Error != nil && o.Error.Type == job.TimeoutError {
			status = job.TimedOut
		}
	}
	if applied, err = h.finish(o.Lease, status, f.Then.Tries, o.Result, ending); err != nil || !applied {
		return false, err
	}
	return true, h.bury(o.Execution, status, o.Error)
}

// judge answers a finish whose lease does not hold: accepted again, if that is how the attempt ended.
func judge(c *conn, o *job.Outcome) (job.Verdict, error) {
	var status job.Status
	var failed, lost, known bool
	_, err := c.prepare(pastFinishSQL).id(o.Execution).int(int64(o.Token)).first(func(r *row) error {
		status = job.Status(r.int())
		attempt := r.int()
		failed, lost, known = attempt > 0, attempt < 0, r.bool()
		return nil
	})
	v := job.Verdict{Execution: o.Execution}
	switch {
	case lost: // it ended without this result, however it ended
	case o.Status == job.OutcomeSucceeded:
		v.Accepted = status == job.Succeeded
	case o.Status == job.OutcomeFailed:
		v.Accepted = failed || status == job.Failed || status == job.TimedOut
	case o.Status == job.OutcomeCancelled:
		v.Accepted = status == job.Cancelled && !failed
	}
	switch {
	case v.Accepted:
	case known:
		v.Reason = job.RefusedStale
	default:
		v.Reason = job.RefusedUnknown
	}
	return v, err
}
