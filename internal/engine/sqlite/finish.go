package sqlite

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	// attemptSQL records the outcome of the attempt under a lease.
	attemptSQL = `
		INSERT OR ROLLBACK INTO attempts (execution, token, number, lost, started_at, ended_at, worker, tenant, ending)
		SELECT id, lease, attempt, ?, leased_at, ?, worker, tenant, ? FROM live` + held
	againSQL = "UPDATE live SET lease = -lease, due_at = coalesce(?, due_at), tries = max(tries, ?), attempt = attempt - ?, parked_until = NULL, hold = " + heldBack + held + " AND cancel_at IS NULL AND NOT " + deleted

	holdsSQL = "SELECT tenant, attempt, worker FROM live" + heldBy

	// oldSnoozesSQL drops all snoozes of an execution but the last.
	oldSnoozesSQL = `
		DELETE FROM events WHERE execution = ?1 AND kind = 'snoozed'
			AND token <= (SELECT token FROM events WHERE execution = ?1 AND kind = 'snoozed' ORDER BY token DESC LIMIT 1 OFFSET ?2)`

	// pastFinishSQL reads a job.Past.
	pastFinishSQL = `
		SELECT (SELECT status FROM executions WHERE id = ?1 AND token = ?2), (SELECT CASE WHEN lost THEN -1 ELSE 1 END FROM attempts WHERE execution = ?1 AND token = ?2),
			EXISTS (SELECT 1 FROM events WHERE execution = ?1 AND kind = 'snoozed' AND token = ?2),
			coalesce((SELECT tenant FROM live WHERE id = ?1), (SELECT tenant FROM executions WHERE id = ?1)),
			coalesce((SELECT worker FROM live WHERE id = ?1 AND lease = ?2), (SELECT worker FROM executions WHERE id = ?1 AND token = ?2),
				(SELECT worker FROM attempts WHERE execution = ?1 AND token = ?2), (SELECT worker FROM events WHERE execution = ?1 AND kind = 'snoozed' AND token = ?2)),
			(SELECT tenant FROM sessions WHERE id = ?3)`
)

// Finish applies each transition under its lease's token, and answers in order.
func (s *leases) Finish(ctx context.Context, fs []job.Finish) ([]job.Verdict, error) {
	if len(fs) == 0 {
		return nil, nil
	}
	endings := encodeEnds(fs)
	var out []job.Verdict
	err := s.write(ctx, "finish", func(c *conn, now int64) (err error) {
		out, err = concludeAll(c, now, fs, endings)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// concludeAll applies transitions, and answers in order.
func concludeAll(c *conn, now int64, fs []job.Finish, endings [][]byte) ([]job.Verdict, error) {
	out := make([]job.Verdict, len(fs))
	h := newHistory(c, now)
	for i := 0; i < len(fs); {
		applied, ended, err := concludeSome(h, fs[i:], endings[i:])
		if err != nil {
			return nil, err
		}
		for _, ok := range applied {
			out[i] = job.Verdict{Execution: fs[i].Outcome.Execution, Accepted: true, Ended: ended}
			if !ok {
				if out[i], err = judge(h, &fs[i]); err != nil {
					return nil, err
				}
			}
			out[i].Run, out[i].Tokens = h.runs[out[i].Execution], h.left[out[i].Execution]
			i++
		}
	}
	return out, h.tally()
}

// encodeEnds makes the stored form of how executions end.
func encodeEnds(fs []job.Finish) [][]byte {
	endings := make([][]byte, len(fs))
	for i := range fs {
		endings[i] = engine.EncodeEnd(fs[i].Ending(), fs[i].Outcome.Response)
	}
	return endings
}

// concludeSome applies the first transition or, if several succeed (the usual case), all those, and reports for each
// whether its lease held; ended is as in finish.
func concludeSome(h *history, fs []job.Finish, endings [][]byte) (applied []bool, ended job.Status, err error) {
	n := 0
	for n < min(len(fs), bulk) && fs[n].Then.Status == job.Succeeded && !fs[n].Expel && fs[n].Outcome.Status == job.OutcomeSucceeded && !twice(fs[:n+1]) {
		n++
	}
	if n < 2 {
		ok, ended, err := conclude(h, &fs[0], endings[0])
		return []bool{ok}, ended, err
	}
	es := make([]ending, n)
	for i := range es {
		es[i] = ending{Lease: fs[i].Outcome.Lease, worker: fs[i].Worker, tries: fs[i].Then.Tries, result: fs[i].Outcome.Result, end: endings[i]}
	}
	applied, err = h.finishAll(es, job.Succeeded)
	return applied, 0, err
}

// twice reports whether the last is of the same execution as an earlier one.
func twice(fs []job.Finish) bool {
	last := len(fs) - 1
	for i := range fs[:last] {
		if fs[i].Outcome.Execution == fs[last].Outcome.Execution {
			return true
		}
	}
	return false
}

// conclude applies a transition, if its lease holds, and records what comes with it: a snooze, and an order to its
// worker to drop the lease. ended is as in finish.
func conclude(h *history, f *job.Finish, ending []byte) (applied bool, ended job.Status, err error) {
	o := &f.Outcome
	var t tenant.ID
	e := job.Event{Kind: job.EventSnoozed, Token: o.Token}
	if o.Error != nil {
		e.Note = o.Error.Message
	}
	holds, err := h.prepare(holdsSQL).id(o.Execution).int(int64(o.Token)).idOrNull(f.Worker).first(func(r *row) error {
		t, e.Attempt, e.Worker = tenant.ID(r.text()), r.int(), r.id()
		return nil
	})
	if err != nil || !holds {
		return false, 0, err
	}
	if applied, ended, err = finish(h, f, ending); err != nil || !applied {
		return false, 0, err
	}
	if o.Status == job.OutcomeSnoozed {
		if err := tell(h.conn, h.now, t, o.Execution, e); err != nil {
			return false, 0, err
		}
		if _, err := h.prepare(oldSnoozesSQL).id(o.Execution).int(job.MaxSnoozed).exec(); err != nil {
			return false, 0, err
		}
	}
	if f.Expel {
		err = order(h.conn, h.now, job.Order{Worker: e.Worker, Lease: o.Lease, Kind: job.OrderLost})
	}
	return true, ended, err
}

// finish applies a transition, if its lease holds. An execution that was asked to stop, or whose job is deleted, is
// not retried, and one that was asked to stop ends with the reason of the cancel; ended is how an execution that was
// to be retried ended instead.
func finish(h *history, f *job.Finish, ending []byte) (applied bool, ended job.Status, err error) {
	o, status := &f.Outcome, f.Then.Status
	if f.FailedAttempt() {
		n, err := h.prepare(attemptSQL).int(0).int(h.now).bytes(ending).id(o.Execution).int(int64(o.Token)).exec()
		if err != nil || n == 0 {
			return false, 0, err
		}
	}
	if !status.Final() {
		uncounted := int64(0)
		if o.Status == job.OutcomeSnoozed {
			uncounted = 1
		}
		n, err := h.prepare(againSQL).at(h.back.due(f.Then.DueAt, h.now)).int(int64(f.Then.Tries)).int(uncounted).id(o.Execution).int(int64(o.Token)).exec()
		if err != nil || n > 0 {
			return n > 0, 0, err
		}
		ended = job.Cancelled
	}
	if !status.Final() || status == job.Cancelled {
		if applied, err := cancelled(h, o.Lease, f.Then.Tries, o.Result); err != nil || applied {
			return applied, ended, err
		}
	}
	if !status.Final() {
		ended = f.IfDeleted()
		status = ended
	}
	if applied, err = h.finish(o.Lease, status, f.Then.Tries, o.Result, ending); err != nil || !applied {
		return false, 0, err
	}
	return true, ended, h.bury(o.Execution, status, o.Error, f.Then.RedriveAt)
}

// judge answers a finish whose lease does not hold. A stale one is recorded as refused.
func judge(h *history, f *job.Finish) (job.Verdict, error) {
	o := &f.Outcome
	var past job.Past
	_, err := h.prepare(pastFinishSQL).id(o.Execution).int(int64(o.Token)).idOrNull(f.Worker).first(func(r *row) error {
		past.Status = job.Status(r.int())
		attempt := r.int()
		past.Failed, past.Lost, past.Snoozed, past.Tenant = attempt > 0, attempt < 0, r.bool(), tenant.ID(r.text())
		past.Holder, past.Serves = r.id(), tenant.ID(r.text())
		return nil
	})
	if err != nil {
		return job.Verdict{}, err
	}
	v := job.Judge(past, f)
	if v.Reason != job.RefusedStale {
		return v, nil
	}
	return v, tell(h.conn, h.now, past.Tenant, o.Execution, job.Event{Kind: job.EventRefused, Token: o.Token, Worker: f.Worker, Note: o.Status.String()})
}
