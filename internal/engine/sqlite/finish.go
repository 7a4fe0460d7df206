package sqlite

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	held = " WHERE id = ? AND lease = ? AND lease > 0"

	// Any error ends the whole transaction. OR ROLLBACK, and no function that could
	// fail, tell SQLite so: it then keeps no copy of each page to undo one statement.

	// endSQL copies rows of live into history, with their status, end, tries, result and ending.
	endSQL = `
		INSERT OR ROLLBACK INTO executions (id, job, status, token, finished_at, scheduled_at, due_at, started_at, attempt, tries, lost, max_attempts,
			part, priority, trigger, worker, retry_of, tenant, payload, result, ending)
		SELECT id, job, ?1, CASE WHEN lease < 0 THEN -lease ELSE lease END, ?2, scheduled_at, due_at, started_at, attempt,
			CASE WHEN tries < ?3 THEN ?3 ELSE tries END, lost, max_attempts,
			part, priority, trigger, worker, retry_of, tenant, payload, ?4, ?5 FROM live`
	// attemptSQL records what the attempt under a lease came to.
	attemptSQL = `
		INSERT OR ROLLBACK INTO attempts (execution, token, number, lost, started_at, ended_at, worker, tenant, ending)
		SELECT id, lease, attempt, ?, leased_at, ?, worker, tenant, ? FROM live` + held
	againSQL = "UPDATE live SET lease = -lease, due_at = coalesce(?, due_at), tries = max(tries, ?)" + held

	// pastFinishSQL is what an execution's end, and its attempt under a token, came to.
	pastFinishSQL = `
		SELECT (SELECT status FROM executions WHERE id = ?1 AND token = ?2), (SELECT 1 - lost FROM attempts WHERE execution = ?1 AND token = ?2),
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
		for i := range fs {
			f := &fs[i]
			out[i] = job.Verdict{Execution: f.Outcome.Execution, Accepted: true}
			applied, err := finish(c, f, endings[i], now)
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
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// finish applies a transition, if its lease holds.
func finish(c *conn, f *job.Finish, ending []byte, now int64) (applied bool, err error) {
	o := &f.Outcome
	if f.Then.Move == job.Again || f.Then.Status == job.Failed || f.Then.Status == job.TimedOut {
		n, err := c.prepare(attemptSQL).int(0).int(now).bytes(ending).id(o.Execution).int(int64(o.Token)).exec()
		if err != nil || n == 0 {
			return false, err
		}
	}
	var n int
	if f.Then.Status.Final() {
		n, err = c.prepare(endSQL + held).int(int64(f.Then.Status)).int(now).int(int64(f.Then.Tries)).bytes(o.Result).bytes(ending).
			id(o.Execution).int(int64(o.Token)).exec()
		if err != nil || n == 0 {
			return false, err
		}
		n, err = c.prepare("DELETE FROM live" + held).id(o.Execution).int(int64(o.Token)).exec()
	} else {
		n, err = c.prepare(againSQL).at(f.Then.DueAt).int(int64(f.Then.Tries)).id(o.Execution).int(int64(o.Token)).exec()
	}
	return n > 0, err
}

// judge answers a finish whose lease does not hold: accepted again, if that is how the attempt ended.
func judge(c *conn, o *job.Outcome) (job.Verdict, error) {
	var status job.Status
	var failed, known bool
	_, err := c.prepare(pastFinishSQL).id(o.Execution).int(int64(o.Token)).first(func(r *row) error {
		status, failed, known = job.Status(r.int()), r.bool(), r.bool()
		return nil
	})
	v := job.Verdict{Execution: o.Execution}
	switch o.Status {
	case job.OutcomeSucceeded:
		v.Accepted = status == job.Succeeded
	case job.OutcomeFailed:
		v.Accepted = failed || status == job.Failed || status == job.TimedOut
	case job.OutcomeCancelled:
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
