package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// A success may have been decided without reading the execution, so that its
// count of failures is the row's. What was applied comes back only where something was not.
const (
	endSQL = `
		WITH gone AS (
			DELETE FROM live v USING unnest($1::uuid[], $2::int8[], $3::int2[], $4::int[], $5::bytea[], $6::bytea[]) f(id, token, status, tries, result, ending)
			WHERE v.id = ANY (ARRAY[f.id]) AND v.lease = f.token AND v.lease > 0
			RETURNING v.id, v.tenant, v.job, f.status, v.trigger, v.scheduled_at, v.due_at, v.started_at, v.leased_at, v.attempt, greatest(v.tries, f.tries) AS tries, v.lost,
				v.max_attempts, v.priority, v.part, v.worker, f.token, v.retry_of, v.payload, f.result, f.ending
		), past AS (
			INSERT INTO executions (id, tenant, job, status, trigger, scheduled_at, due_at, started_at, finished_at, attempt, tries, lost,
				max_attempts, priority, part, worker, token, retry_of, payload, result, ending)
			SELECT id, tenant, job, status, trigger, scheduled_at, due_at, started_at, now(), attempt, tries, lost,
				max_attempts, priority, part, worker, token, retry_of, payload, result, ending
			FROM gone
		), failed AS (
			INSERT INTO attempts (execution, token, tenant, number, worker, started_at, ended_at, lost, ending)
			SELECT id, token, tenant, attempt, worker, leased_at, now(), false, ending FROM gone WHERE status IN (11, 12)
			ON CONFLICT (execution, token) DO NOTHING
		)
		SELECT count(*), CASE WHEN count(*) < $7 THEN array_agg(id) END, CASE WHEN count(*) < $7 THEN array_agg(token) END FROM gone`
	againSQL = `
		WITH back AS (
			UPDATE live v SET lease = -v.lease, tries = f.tries, due_at = coalesce(f.due_at, v.due_at)
			FROM unnest($1::uuid[], $2::int8[], $3::int[], $4::timestamptz[], $5::bool[], $6::bytea[]) f(id, token, tries, due_at, failed, ending)
			WHERE v.id = ANY (ARRAY[f.id]) AND v.lease = f.token AND v.lease > 0
			RETURNING v.id, f.token, v.tenant, v.attempt, v.worker, v.leased_at, f.failed, f.ending
		), failed AS (
			INSERT INTO attempts (execution, token, tenant, number, worker, started_at, ended_at, lost, ending)
			SELECT id, token, tenant, attempt, worker, leased_at, now(), false, ending FROM back WHERE failed
			ON CONFLICT (execution, token) DO NOTHING
		)
		SELECT count(*), CASE WHEN count(*) < $7 THEN array_agg(id) END, CASE WHEN count(*) < $7 THEN array_agg(token) END FROM back`
	// What became of executions whose lease is not the one named.
	judgeSQL = `
		SELECT f.n, coalesce(x.token, 0), coalesce(x.status, 0), x.id IS NOT NULL OR v.id IS NOT NULL, a.execution IS NOT NULL
		FROM unnest($1::uuid[], $2::int8[], $3::int[]) f(id, token, n)
		LEFT JOIN LATERAL (SELECT id, token, status FROM executions WHERE id = f.id LIMIT 1) x ON true
		LEFT JOIN LATERAL (SELECT id FROM live WHERE id = f.id OFFSET 0) v ON true
		LEFT JOIN LATERAL (SELECT execution FROM attempts WHERE execution = f.id AND token = f.token AND NOT lost OFFSET 0) a ON true`
)

// Finish applies each transition under its lease's token, and answers in order.
func (s *Store) Finish(ctx context.Context, fs []job.Finish) ([]job.Verdict, error) {
	if len(fs) == 0 {
		return nil, nil
	}
	ends, agains := split(fs)
	out := make([]job.Verdict, len(fs))
	err := s.write(ctx, "finish", func(ctx context.Context, c *pgxpool.Conn) error {
		for i, f := range fs {
			out[i] = job.Verdict{Execution: f.Outcome.Execution}
		}
		err := withDays(ctx, c, func() error {
			b := &pgx.Batch{}
			ends.queue(b, endSQL)
			agains.queue(b, againSQL)
			r := c.SendBatch(ctx, b)
			defer r.Close()
			for _, g := range []*group{ends, agains} {
				if err := g.collect(r, out); err != nil {
					return err
				}
			}
			return r.Close()
		})
		if err != nil {
			return err
		}
		return judge(ctx, c, fs, out)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// group is the part of a batch that one statement applies.
type group struct {
	at   []int // where in the batch each stands
	args []any
	fs   []job.Finish
}

// split parts a batch into what ends and what comes again. Of two finishes
// under one lease only the first is applied; the other is judged by it.
func split(fs []job.Finish) (ends, agains *group) {
	order := make([]int, len(fs))
	for i := range order {
		order[i] = i
	}
	order = sortedBy(order, func(i int) [16]byte { return fs[i].Outcome.Execution })
	ends, agains = &group{fs: fs}, &group{fs: fs}
	for n, i := range order {
		repeat := false
		for _, before := range slices.Backward(order[:n]) {
			if fs[before].Outcome.Execution != fs[i].Outcome.Execution {
				break
			}
			repeat = repeat || fs[before].Outcome.Lease == fs[i].Outcome.Lease
		}
		switch {
		case repeat:
		case fs[i].Then.Status.Final():
			ends.at = append(ends.at, i)
		default:
			agains.at = append(agains.at, i)
		}
	}
	ends.args, agains.args = ends.ending(), agains.again()
	return ends, agains
}

func (g *group) ending() []any {
	n := len(g.at)
	ids, tokens, statuses, tries := uuids(n), bigints(n), smallints(n), ints(n)
	var results, endings *array
	for k, i := range g.at {
		f := &g.fs[i]
		ids.uuid(f.Outcome.Execution)
		tokens.int8(int64(f.Outcome.Token))
		statuses.int2(int(f.Then.Status))
		tries.int4(f.Then.Tries)
		results = appendSparse(results, k, f.Outcome.Result)
		endings = appendSparse(endings, k, engine.EncodeEnd(f.Outcome.Error, f.Outcome.Response))
	}
	return []any{ids, tokens, statuses, tries, results, endings, n}
}

func (g *group) again() []any {
	n := len(g.at)
	ids, tokens, tries, dues, failed := uuids(n), bigints(n), ints(n), instants(n), make([]bool, n)
	var endings *array
	for k, i := range g.at {
		f := &g.fs[i]
		ids.uuid(f.Outcome.Execution)
		tokens.int8(int64(f.Outcome.Token))
		tries.int4(f.Then.Tries)
		dues.time(f.Then.DueAt)
		failed[k] = f.Then.Move == job.Again
		endings = appendSparse(endings, k, engine.EncodeEnd(f.Outcome.Error, f.Outcome.Response))
	}
	return []any{ids, tokens, tries, dues, failed, endings, n}
}

// appendSparse adds the value to an array that is nil as long as all its values are.
func appendSparse(a *array, before int, value []byte) *array {
	if a = sparse(a, byteas, before, value != nil); a != nil {
		a.bytes(value)
	}
	return a
}

func (g *group) queue(b *pgx.Batch, sql string) {
	if len(g.at) > 0 {
		b.Queue(sql, g.args...)
	}
}

// collect marks what was applied.
func (g *group) collect(r pgx.BatchResults, out []job.Verdict) error {
	if len(g.at) == 0 {
		return nil
	}
	var count int
	var ids [][16]byte
	var tokens []int64
	if err := r.QueryRow().Scan(&count, &ids, &tokens); err != nil {
		return err
	}
	if count == len(g.at) {
		for _, i := range g.at {
			out[i].Accepted = true
		}
		return nil
	}
	applied := make(map[job.Lease]bool, len(ids))
	for i := range ids {
		applied[job.Lease{Execution: ids[i], Token: job.Token(tokens[i])}] = true
	}
	for _, i := range g.at {
		out[i].Accepted = applied[g.fs[i].Outcome.Lease]
	}
	return nil
}

// judge decides on what was not applied: the same outcome again is accepted, all else is refused.
func judge(ctx context.Context, c *pgxpool.Conn, fs []job.Finish, out []job.Verdict) error {
	ids, tokens, places := uuids(0), bigints(0), ints(0)
	for i, v := range out {
		if !v.Accepted {
			ids.uuid(fs[i].Outcome.Execution)
			tokens.int8(int64(fs[i].Outcome.Token))
			places.int4(i)
		}
	}
	if len(ids.cells) == 0 {
		return nil
	}
	rows, err := c.Query(ctx, judgeSQL, ids, tokens, places)
	if err != nil {
		return err
	}
	var i int
	var token job.Token
	var status job.Status
	var known, failed bool
	_, err = pgx.ForEachRow(rows, []any{&i, (*int64)(&token), (*uint8)(&status), &known, &failed}, func() error {
		o := fs[i].Outcome
		if token != o.Token {
			status = 0 // it ended under another lease
		}
		switch {
		case o.Status == job.OutcomeSucceeded && status == job.Succeeded,
			o.Status == job.OutcomeCancelled && status == job.Cancelled,
			o.Status == job.OutcomeFailed && (status == job.Failed || status == job.TimedOut || failed):
			out[i].Accepted = true
		case known:
			out[i].Reason = job.RefusedStale
		default:
			out[i].Reason = job.RefusedUnknown
		}
		return nil
	})
	return err
}
