package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlstore"
)

// WriteRuns runs f in one transaction that may start and end executions.
func (d settings) WriteRuns(ctx context.Context, doing string, f func(sqlstore.RunTx) error) error {
	return d.s.write(ctx, doing, func(c *conn, now int64) error { return f(transaction{c, now}) })
}

func (t transaction) ReadAll(qs ...sqlstore.Query) (time.Time, error) {
	for _, q := range qs {
		sql := sqlstore.SQLite.Text(q.SQL)
		for _, run := range q.Runs {
			if err := t.c.prepare(sql).id(run).args(q.Args).each(func(r *row) error { return q.Row(r) }); err != nil {
				return time.Time{}, err
			}
		}
	}
	return t.Now()
}

func (t transaction) WriteAll(statements []sqlstore.Bulk, executions []sqlstore.Waiting) error {
	for _, s := range statements {
		sql := sqlstore.SQLite.Text(s.SQL)
		for _, values := range s.Rows {
			n, err := t.c.prepare(sql).args(values).exec()
			if err == nil && n == 0 && s.Each != nil {
				err = s.Each
			}
			if err != nil {
				return err
			}
		}
	}
	for len(executions) > 0 {
		of := executions[0].Tenant
		var es []job.Execution
		for len(executions) > 0 && executions[0].Tenant == of {
			es, executions = append(es, *executions[0].Execution), executions[1:]
		}
		if err := insertExecutions(t.c, of, es); err != nil {
			return err
		}
	}
	return nil
}

const parkNewSQL = "UPDATE live SET lease = ?2, leased_at = ?3, started_at = ?3, attempt = 1, parked_until = ?4 WHERE id = ?1"

func (t transaction) AddParked(e *job.Execution) (job.Token, error) {
	if err := insertExecutions(t.c, e.Tenant, []job.Execution{*e}); err != nil {
		return 0, err
	}
	var token job.Token
	if _, err := t.c.prepare(tokenSQL).first(func(r *row) error { token = job.Token(r.int64()); return nil }); err != nil {
		return 0, err
	}
	_, err := t.c.prepare(parkNewSQL).id(e.ID).int(int64(token)).int(t.now).int(job.Forever.UnixMicro()).exec()
	return token, err
}

// WriteLast is WriteAll: nothing travels here.
func (t transaction) WriteLast(statements []sqlstore.Bulk, executions []sqlstore.Waiting) error {
	return t.WriteAll(statements, executions)
}

// Conclude applies finishes, and runs queries about the runs that got marks.
func (t transaction) Conclude(fs []job.Finish, qs ...sqlstore.Query) ([]job.Verdict, time.Time, error) {
	vs, err := concludeAll(t.c, t.now, fs, encodeEnds(fs))
	if err != nil {
		return nil, time.Time{}, err
	}
	var runs []job.ExecutionID
	for i := range vs {
		if !vs[i].Run.IsZero() {
			runs = append(runs, vs[i].Run)
		}
	}
	for i := range qs {
		qs[i].Runs = sqlstore.Distinct(runs)
	}
	now, err := t.ReadAll(qs...)
	return vs, now, err
}

func (t transaction) FinishExecutions(fs []job.Finish) ([]sqlstore.Finished, error) {
	out := make([]sqlstore.Finished, len(fs))
	for i := range fs {
		h := telling(t.c, t.now)
		applied, _, err := conclude(h, &fs[i], engine.EncodeEnd(fs[i].Ending(), fs[i].Outcome.Response))
		if err != nil {
			return nil, err
		}
		if !applied {
			continue
		}
		out[i].Ended, out[i].Tokens = h.told, len(h.left) > 0
		for _, r := range h.runs {
			out[i].Runs = append(out[i].Runs, r)
		}
		if err := h.tally(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (t transaction) CancelExecutions(of tenant.ID, ids []job.ExecutionID, reason string) ([]engine.Ended, error) {
	h, ending := telling(t.c, t.now), askedToStop(reason)
	for _, id := range ids {
		ended, err := h.endAlone(of, id, job.Cancelled, ending)
		if err == nil && !ended {
			_, err = ask(h, of, id, reason)
			if errors.Is(err, engine.ErrConflict) || errors.Is(err, engine.ErrNotFound) {
				err = nil // it has ended
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return h.told, h.tally()
}

const releaseDependentSQL = "UPDATE live SET hold = 0 WHERE id = ? AND tenant = ? AND hold = 2 AND lease <= 0 RETURNING " + readyColumns

func (t transaction) ReleaseExecution(of tenant.ID, id job.ExecutionID) (out job.Ready, ok bool, err error) {
	ok, err = t.c.prepare(releaseDependentSQL).id(id).text(string(of)).first(func(r *row) error { out = readReady(r); return nil })
	return out, ok, err
}

const memberTargetSQL = "SELECT run, target FROM run_members WHERE execution = ?"

// memberTargets gives nodes of workflows their runs, and what they run where templates changed it.
func memberTargets(c *conn, as []job.Attempt) error {
	for i := range as {
		if as[i].Trigger != job.ByWorkflow {
			continue
		}
		_, err := c.prepare(memberTargetSQL).id(as[i].Execution).first(func(r *row) (err error) {
			as[i].Run = job.ExecutionID(r.id())
			if target := r.bytes(); len(target) > 0 {
				as[i].Target, err = engine.DecodeTarget(target)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
