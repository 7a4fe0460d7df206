package postgres

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlstore"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

// runTransaction is a transaction that may start and end executions.
type runTransaction struct {
	transaction
	tx *quickTx
}

// WriteRuns runs f in one transaction. It is not confined to a tenant: what one person changes in a run ends executions and draws
// tokens, which the role of tenants may not. Every statement names the tenant.
func (d settings) WriteRuns(ctx context.Context, doing string, f func(sqlstore.RunTx) error) error {
	ctx = engine.Unconfined(ctx)
	return d.s.write(ctx, doing, func(ctx context.Context, c *pgxpool.Conn) error {
		return withDays(ctx, c, func() error {
			return quickly(ctx, c, func(tx *quickTx) error {
				return f(runTransaction{transaction{ctx: ctx, c: tx, s: d.s}, tx})
			})
		})
	})
}

func (t runTransaction) ReadAll(qs ...sqlstore.Query) (now time.Time, err error) {
	var b pgx.Batch
	for _, q := range qs {
		queue(&b, sqlstore.PostgreSQL.Text(q.SQL), q.Runs, q)
	}
	b.Queue("SELECT clock_timestamp()").QueryRow(func(r pgx.Row) error { return r.Scan(at(&now)) })
	return now, t.tx.SendBatch(t.ctx, &b).Close()
}

// queue adds a query to a batch, with ids as its first argument.
func queue(b *pgx.Batch, sql string, list [][16]byte, q sqlstore.Query) {
	ids := uuids(len(list))
	for _, id := range list {
		ids.uuid(id)
	}
	b.Queue(sql, append([]any{ids}, arguments(q.Args)...)...).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			if err := q.Row(scanner{rows}); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

func (t runTransaction) WriteAll(statements []sqlstore.Bulk, executions []sqlstore.Waiting) error {
	return t.writeAll(statements, executions, false)
}

// WriteLast commits in the same round trip. The statements fail in the database where WriteAll would fail here.
func (t runTransaction) WriteLast(statements []sqlstore.Bulk, executions []sqlstore.Waiting) error {
	return t.writeAll(statements, executions, !failpoint.Set("workflow.beforeBegin", "workflow.beforeCommit")) // which lie before a commit of its own
}

func (t runTransaction) writeAll(statements []sqlstore.Bulk, executions []sqlstore.Waiting, commit bool) error {
	var b pgx.Batch
	for _, s := range statements {
		if sql := sqlstore.PostgreSQL.Text(s.SQL); s.Each != nil {
			insist(&b, s.Each, sql, columns(s.Rows))
		} else {
			b.Queue(sql, columns(s.Rows)...)
		}
	}
	if len(executions) > 0 {
		rows := liveTable.arrays()
		for _, e := range executions {
			rows.execution(e.Tenant, e.Execution, true)
		}
		rows.queue(&b)
	}
	if commit {
		b.Queue("commit")
	}
	err := t.tx.SendBatch(t.ctx, &b).Close()
	t.tx.ended = commit && err == nil
	return err
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
	err = t.tx.QueryRow(t.ctx, parkNewSQL, [16]byte(e.ID), job.Forever).Scan((*int64)(&token))
	return token, err
}

// runsOfMembers stands for the runs of members where a query takes runs.
const runsOfMembers = `ARRAY(SELECT DISTINCT m.run FROM unnest($1::uuid[]) f(id) CROSS JOIN LATERAL (SELECT run FROM run_members WHERE execution = f.id OFFSET 0) m)`

// Conclude applies finishes and, in the same round trip, runs queries about the runs whose members are finished.
func (t runTransaction) Conclude(fs []job.Finish, qs ...sqlstore.Query) (out []job.Verdict, now time.Time, err error) {
	first, rest := rounds(fs)
	out = make([]job.Verdict, len(fs))
	members := make([][16]byte, len(fs))
	for i, f := range fs {
		out[i] = job.Verdict{Execution: f.Outcome.Execution}
		members[i] = f.Outcome.Execution
	}
	var b pgx.Batch
	conclude := func(which []int) {
		sql, args := finishArgs(fs, which)
		b.Queue(sql, args...).QueryRow(func(row pgx.Row) error { return concluded(row, fs, which, out) })
	}
	conclude(first)
	for _, i := range rest {
		conclude([]int{i})
	}
	for _, q := range qs {
		queue(&b, strings.ReplaceAll(sqlstore.PostgreSQL.Text(q.SQL), "$1::uuid[]", runsOfMembers), members, q)
	}
	b.Queue("SELECT clock_timestamp()").QueryRow(func(r pgx.Row) error { return r.Scan(at(&now)) })
	if err := t.tx.SendBatch(t.ctx, &b).Close(); err != nil {
		return nil, now, err
	}
	if err := forgetSnoozes(t.ctx, t.tx, fs); err != nil {
		return nil, now, err
	}
	return out, now, judge(t.ctx, t.tx, fs, out)
}

const endedSQL = "SELECT id, tenant, job, trigger, scheduled_at, status FROM executions WHERE id = ANY ($1::uuid[])"

// FinishExecutions applies finishes. It reads how the executions ended, so that it can be told.
func (t runTransaction) FinishExecutions(fs []job.Finish) ([]sqlstore.Finished, error) {
	verdicts, which := make([]job.Verdict, len(fs)), make([]int, len(fs))
	for i := range which {
		which[i] = i
	}
	if err := concludeOn(t.ctx, t.tx, fs, which, verdicts); err != nil {
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

// memberTarget is the run that an execution belongs to, and what it runs, where templates changed that.
type memberTarget struct {
	run    job.ExecutionID
	target []byte
}

func collectTargets(rows pgx.Rows) (map[job.ExecutionID]memberTarget, error) {
	out := map[job.ExecutionID]memberTarget{}
	var x, run id
	var target []byte
	_, err := pgx.ForEachRow(rows, []any{&x, &run, &target}, func() error {
		out[job.ExecutionID(x)] = memberTarget{job.ExecutionID(run), target}
		target = nil
		return nil
	})
	return out, err
}

// nodesIn lists the executions of grants that are seen to be nodes of workflows; nil: none.
func nodesIn(gs []engine.Grant) (ids *array) {
	for _, g := range gs {
		for _, id := range g.Executions {
			if id.OfNode() {
				if ids == nil {
					ids = uuids(len(g.Executions))
				}
				ids.uuid(id)
			}
		}
	}
	return ids
}

// memberTargets gives executions of workflows their runs, and what they run where templates changed it. Those that were read with
// their lease are known. Other batches cost nothing.
func (s *leases) memberTargets(ctx context.Context, as []job.Attempt, known map[job.ExecutionID]memberTarget) error {
	ids := uuids(0)
	for i := range as {
		if _, ok := known[as[i].Execution]; !ok && as[i].Trigger == job.ByWorkflow {
			ids.uuid(as[i].Execution)
		}
	}
	if len(ids.cells) > 0 {
		err := s.ask(ctx, "read what nodes run", func(ctx context.Context, c *pgxpool.Conn) error {
			rows, _ := c.Query(ctx, memberTargetsSQL, ids)
			read, err := collectTargets(rows)
			maps.Copy(read, known)
			known = read
			return err
		})
		if err != nil {
			return err
		}
	}
	for i := range as {
		m, ok := known[as[i].Execution]
		if !ok {
			continue
		}
		if as[i].Run = m.run; len(m.target) > 0 {
			var err error
			if as[i].Target, err = engine.DecodeTarget(m.target); err != nil {
				return err
			}
		}
	}
	return nil
}
