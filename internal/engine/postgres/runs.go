package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlstore"
)

// runTransaction is a transaction that may start and end executions.
type runTransaction struct {
	transaction
	conn *pgxpool.Conn
	tx   pgx.Tx
}

// WriteRuns runs f in one transaction. It is not confined to a tenant: what one person changes in a run ends executions and draws
// tokens, which the role of tenants may not. Every statement names the tenant.
func (d settings) WriteRuns(ctx context.Context, doing string, f func(sqlstore.RunTx) error) error {
	ctx = engine.Unconfined(ctx)
	return d.s.write(ctx, doing, func(ctx context.Context, c *pgxpool.Conn) error {
		return withDays(ctx, c, func() error {
			return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
				return f(runTransaction{transaction{ctx: ctx, c: tx, s: d.s}, c, tx})
			})
		})
	})
}

func (t runTransaction) ReadAll(qs ...sqlstore.Query) (now time.Time, err error) {
	var b pgx.Batch
	for _, q := range qs {
		ids := uuids(len(q.Runs))
		for _, run := range q.Runs {
			ids.uuid(run)
		}
		b.Queue(sqlstore.PostgreSQL.Text(q.SQL), append([]any{ids}, arguments(q.Args)...)...).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				if err := q.Row(scanner{rows}); err != nil {
					return err
				}
			}
			return rows.Err()
		})
	}
	b.Queue("SELECT clock_timestamp()").QueryRow(func(r pgx.Row) error { return r.Scan(at(&now)) })
	return now, t.tx.SendBatch(t.ctx, &b).Close()
}

func (t runTransaction) WriteAll(statements []sqlstore.Bulk, executions []sqlstore.Waiting) error {
	var b pgx.Batch
	for _, s := range statements {
		b.Queue(sqlstore.PostgreSQL.Text(s.SQL), columns(s.Rows)...).Exec(func(done pgconn.CommandTag) error {
			if s.Each != nil && done.RowsAffected() != int64(len(s.Rows)) {
				return s.Each
			}
			return nil
		})
	}
	if len(executions) > 0 {
		rows := liveTable.arrays()
		for _, e := range executions {
			rows.execution(e.Tenant, e.Execution, true)
		}
		rows.queue(&b)
	}
	return t.tx.SendBatch(t.ctx, &b).Close()
}

// columns makes an array of each column of rows.
func columns(rows [][]any) []any {
	out := make([]any, len(rows[0]))
	for i, first := range rows[0] {
		var of *array
		switch first.(type) {
		case [16]byte:
			of = uuids(len(rows))
		case string:
			of = texts(len(rows))
		case []byte:
			of = byteas(len(rows))
		case time.Time:
			of = instants(len(rows))
		case int64:
			of = bigints(len(rows))
		default:
			out[i] = numbers(rows, i)
			continue
		}
		for _, row := range rows {
			switch v := row[i].(type) {
			case [16]byte:
				of.uuid(v)
			case string:
				of.text(plain(v))
			case []byte:
				of.bytes(notNil(v))
			case time.Time:
				of.time(v)
			case int64:
				of.int8(v)
			}
		}
		out[i] = of
	}
	return out
}

// numbers makes an array of a column of small numbers, in whichever size the statement takes them.
func numbers(rows [][]any, column int) []int32 {
	out := make([]int32, len(rows))
	for i, row := range rows {
		out[i] = int32(row[column].(int))
	}
	return out
}

const parkNewSQL = `
	UPDATE live SET lease = nextval('tokens'), leased_at = now(), started_at = now(), attempt = 1, parked_until = $2
	WHERE id = $1 RETURNING lease`

func (t runTransaction) AddParked(e *job.Execution) (token job.Token, err error) {
	if err := t.WriteAll(nil, []sqlstore.Waiting{{Tenant: e.Tenant, Execution: e}}); err != nil {
		return 0, err
	}
	err = t.c.QueryRow(t.ctx, parkNewSQL, [16]byte(e.ID), job.Forever).Scan((*int64)(&token))
	return token, err
}

func (t runTransaction) Conclude(fs []job.Finish) ([]job.Verdict, error) {
	first, rest := rounds(fs)
	out := make([]job.Verdict, len(fs))
	for i, f := range fs {
		out[i] = job.Verdict{Execution: f.Outcome.Execution}
	}
	if err := concludeOn(t.ctx, t.conn, fs, first, out); err != nil {
		return nil, err
	}
	for _, i := range rest {
		if err := concludeOn(t.ctx, t.conn, fs, []int{i}, out); err != nil {
			return nil, err
		}
	}
	if err := forgetSnoozes(t.ctx, t.conn, fs); err != nil {
		return nil, err
	}
	return out, judge(t.ctx, t.conn, fs, out)
}

const endedSQL = "SELECT id, tenant, job, trigger, scheduled_at, status FROM executions WHERE id = ANY ($1::uuid[])"

// FinishExecutions applies finishes. It reads how the executions ended, so that it can be told.
func (t runTransaction) FinishExecutions(fs []job.Finish) ([]sqlstore.Finished, error) {
	verdicts, which := make([]job.Verdict, len(fs)), make([]int, len(fs))
	for i := range which {
		which[i] = i
	}
	if err := concludeOn(t.ctx, t.conn, fs, which, verdicts); err != nil {
		return nil, err
	}
	ids, at := uuids(len(fs)), map[job.ExecutionID]int{}
	for i, v := range verdicts {
		if v.Accepted {
			at[fs[i].Outcome.Execution] = i
			ids.uuid(fs[i].Outcome.Execution)
		}
	}
	out := make([]sqlstore.Finished, len(fs))
	if len(at) == 0 {
		return out, nil
	}
	ended, err := collectEnded(t.c.Query(t.ctx, endedSQL, ids))
	for _, e := range ended {
		i := at[e.Execution]
		e.Error = fs[i].Ending()
		out[i].Ended = append(out[i].Ended, e)
		out[i].Tokens = verdicts[i].Tokens
		if run := verdicts[i].Run; !run.IsZero() {
			out[i].Runs = append(out[i].Runs, run)
		}
	}
	return out, err
}

const (
	lockMembersSQL = `
		SELECT v.id, v.leased, v.asked FROM unnest($1::uuid[]) c(id)
		CROSS JOIN LATERAL (SELECT id, lease > 0 AND (parked_until IS NULL OR class = 'workflow') AS leased, cancel_at IS NOT NULL AS asked
			FROM live WHERE id = c.id AND tenant = $2 OFFSET 0 FOR UPDATE) v`
	cancelMembersSQL = `
		WITH gone AS (
			DELETE FROM live v USING (SELECT c.id FROM unnest($1::uuid[]) c(id) OFFSET 0) d
			WHERE v.id = ANY (ARRAY[d.id]) AND (v.lease <= 0 OR v.parked_until IS NOT NULL AND v.class <> 'workflow')
			RETURNING 13::int2 AS status, ` + goneRow + `, v.attempt, v.tries, v.lost, abs(v.lease) AS token, NULL::bytea AS result, coalesce(v.cancel_ending, $2::bytea) AS ending
		), ` + endSQL + `
		` + ofGone
	askMembersSQL = `
		WITH asked AS (
			UPDATE live v SET cancel_at = now(), cancel_ending = $2 FROM (SELECT c.id FROM unnest($1::uuid[]) c(id) OFFSET 0) d
			WHERE v.id = ANY (ARRAY[d.id]) AND v.lease > 0 AND v.cancel_at IS NULL
			RETURNING v.worker, v.id, v.lease, v.tenant, v.attempt, v.class
		), told AS (
			INSERT INTO events (execution, kind, token, tenant, attempt, worker, at, note) SELECT id, 'cancel_requested', lease, tenant, attempt, worker, now(), $3 FROM asked
			ON CONFLICT (execution, kind, token) DO NOTHING
		), ` + orderStopSQL
)

// CancelExecutions locks all of them first, in order: nothing that is chosen then changes before it is cancelled.
func (t runTransaction) CancelExecutions(of tenant.ID, all []job.ExecutionID, reason string) (ended []engine.Ended, err error) {
	free, held := uuids(len(all)), uuids(len(all))
	var x id
	var leased, asked bool
	rows, _ := t.tx.Query(t.ctx, lockMembersSQL, sortedIDs(all), string(of))
	if _, err := pgx.ForEachRow(rows, []any{&x, &leased, &asked}, func() error {
		switch {
		case !leased:
			free.uuid(x)
		case !asked:
			held.uuid(x)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	ending := engine.EncodeEnd(&job.Error{Type: job.CancelledError, Message: reason}, nil)
	if len(free.cells) > 0 {
		if ended, err = collectEnded(t.tx.Query(t.ctx, cancelMembersSQL, free, ending)); err != nil {
			return nil, err
		}
	}
	if len(held.cells) > 0 {
		_, err = t.tx.Exec(t.ctx, askMembersSQL, held, ending, plain(reason))
	}
	return ended, err
}

const releaseDependentSQL = "UPDATE live v SET hold = 0 WHERE v.id = $1 AND v.tenant = $2 AND v.hold = 2 AND v.lease <= 0 RETURNING " + readyColumns

func (t runTransaction) ReleaseExecution(of tenant.ID, id job.ExecutionID) (job.Ready, bool, error) {
	rs, err := collectReady(t.c.Query(t.ctx, releaseDependentSQL, [16]byte(id), string(of)))
	if err != nil || len(rs) == 0 {
		return job.Ready{}, false, err
	}
	return rs[0], true, nil
}

const memberTargetsSQL = "SELECT execution, run, target FROM run_members WHERE execution = ANY ($1::uuid[])"

// memberTargets gives nodes of workflows their runs, and what they run where templates changed it. Other batches cost nothing.
func (s *leases) memberTargets(ctx context.Context, as []job.Attempt) error {
	of := map[job.ExecutionID]int{}
	ids := uuids(0)
	for i := range as {
		if as[i].Trigger == job.ByWorkflow {
			of[as[i].Execution] = i
			ids.uuid(as[i].Execution)
		}
	}
	if len(of) == 0 {
		return nil
	}
	return s.ask(ctx, "read what nodes run", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, memberTargetsSQL, ids)
		var x, run id
		var target []byte
		_, err := pgx.ForEachRow(rows, []any{&x, &run, &target}, func() (err error) {
			a := &as[of[job.ExecutionID(x)]]
			a.Run = job.ExecutionID(run)
			if len(target) > 0 {
				a.Target, err = engine.DecodeTarget(target)
			}
			return err
		})
		return err
	})
}
