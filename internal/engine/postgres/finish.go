package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Whatever follows, the row is removed, in one pass over the whole batch: two passes, one for what ends and one for
// what is retried, would lock rows in two orders. What is retried comes back as a new row, which costs no more than
// an update that moves it in the lane.
//
// Only what is to be retried asks whether its job was deleted meanwhile, or it was asked to stop; the attempt then
// failed all the same. What is to be retried because its worker asked for that ends as CANCELLED there, and leaves an
// event, by which the same outcome again is known. A success may have been decided without reading the execution, so
// that its count of failures is the row's. What was applied is listed only if something was not, and what ended
// though it was to be retried.
const (
	// succeedSQL is for the most common batch: nothing failed and nothing is retried.
	succeedSQL = `
		WITH gone AS (
			DELETE FROM live v USING unnest($1::uuid[], $2::int8[], $3::int2[], $4::int[], $5::bytea[], $6::bytea[], $8::uuid[]) f(id, token, status, tries, result, ending, worker)
			` + finishing + `
			RETURNING f.status, ` + finished + `, ` + ended + ` AS ending
		), ` + endSQL + appliedSQL + `, NULL::uuid[], NULL::int8[], NULL::int2[]` + marksSQL + ` FROM gone`
	finishSQL = `
		WITH asked AS MATERIALIZED (
			SELECT v.tenant, v.job FROM unnest($1::uuid[], $2::int8[], $3::int2[]) f(id, token, status)
			CROSS JOIN LATERAL (SELECT tenant, job FROM live WHERE id = f.id AND lease = f.token AND lease > 0 OFFSET 0) v
			WHERE f.status < 10
		), ` + doomedSQL + `, gone AS (
			DELETE FROM live v USING unnest($1::uuid[], $2::int8[], $3::int2[], $4::int[], $5::bytea[], $6::bytea[], $8::uuid[], $9::timestamptz[], $10::int2[], $11::int2[],
				$12::text[], $13::text[], $14::timestamptz[]) f(id, token, status, tries, result, ending, worker, due_at, marks, if_deleted, dead, message, redrive_at)
			` + finishing + `
			RETURNING CASE WHEN f.status >= 10 THEN f.status WHEN v.cancel_at IS NOT NULL THEN 13::int2
					WHEN v.job IN (SELECT job FROM doomed) THEN f.if_deleted ELSE f.status END AS status, f.status AS meant, ` + finished + `,
				` + ended + ` AS ending,
				v.nonce, v.lane, v.class, ` + heldBack + ` AS hold, v.timeout_ms, v.stall_ms, v.expires_at, v.unique_key, ` + groupColumns + `,
				coalesce(f.due_at, v.due_at) AS again_at, f.marks, f.ending AS reported, f.dead, f.message, f.redrive_at
		), ` + endSQL + `, ` + burySQL + `, again AS (
			INSERT INTO live (id, tenant, job, trigger, scheduled_at, nonce, due_at, started_at, leased_at, attempt, tries, lost,
				max_attempts, lane, class, priority, part, hold, worker, lease, retry_of, payload, tally,
				group_key, group_max, rate_count, rate_us, rate_burst, timeout_ms, stall_ms, expires_at, unique_key)
			SELECT id, tenant, job, trigger, scheduled_at, nonce, again_at, started_at, leased_at, attempt - CASE WHEN marks & 2 <> 0 THEN 1 ELSE 0 END, tries, lost,
				max_attempts, lane, class, priority, part, hold, worker, -token, retry_of, payload, tally,
				group_key, group_max, rate_count, rate_us, rate_burst, timeout_ms, stall_ms, expires_at, unique_key
			FROM gone WHERE status < 10
		), failed AS (
			INSERT INTO attempts (execution, token, tenant, number, worker, started_at, ended_at, lost, ending)
			SELECT id, token, tenant, attempt, worker, leased_at, now(), false, reported FROM gone WHERE marks & 1 <> 0
			ON CONFLICT (execution, token) DO NOTHING
		), snoozed AS (
			INSERT INTO events (execution, kind, token, tenant, attempt, worker, at, note) SELECT id, 'snoozed', token, tenant, attempt, worker, now(), coalesce(message, '') FROM gone WHERE marks & 2 <> 0
			ON CONFLICT (execution, kind, token) DO NOTHING
		), expelled AS (
			INSERT INTO orders (worker, execution, token, kind, at) SELECT worker, id, token, 2, now() FROM gone WHERE marks & 4 <> 0 AND worker IS NOT NULL
			ON CONFLICT (worker, execution, token) DO UPDATE SET kind = 2, at = now()
		)` + appliedSQL + `, array_agg(id) FILTER (WHERE status <> meant), array_agg(token) FILTER (WHERE status <> meant), array_agg(status) FILTER (WHERE status <> meant)` + marksSQL + ` FROM gone`
	finishing = `WHERE v.id = ANY (ARRAY[f.id]) AND v.lease = f.token AND v.lease > 0 AND (f.worker IS NULL OR v.worker = f.worker)`
	finished  = goneRow + `, v.attempt, greatest(v.tries, f.tries) AS tries, v.lost, f.token, f.result`
	// ended returns the reason: an execution that was asked to stop ends with the reason of the cancel.
	ended      = `CASE WHEN v.cancel_at IS NOT NULL AND (f.status < 10 OR f.status = 13) THEN v.cancel_ending ELSE f.ending END`
	appliedSQL = `
		SELECT count(*), CASE WHEN count(*) < $7 THEN array_agg(id) END, CASE WHEN count(*) < $7 THEN array_agg(token) END`
	// marksSQL lists the executions that left marks for runs, and these runs; and those that left marks for jobs that depend on theirs.
	marksSQL = `, (SELECT array_agg(execution) FROM marked), (SELECT array_agg(run) FROM marked), (SELECT array_agg(execution) FROM tokens)`
	// The outcome of executions whose lease is not the one named, and whether they are none of the worker's business.
	judgeSQL = `
		SELECT f.n, CASE WHEN x.token = f.token THEN x.status ELSE 0 END, coalesce(x.tenant, v.tenant), coalesce(NOT a.lost, false), coalesce(a.lost, false), s.execution IS NOT NULL,
			coalesce(CASE WHEN v.lease = f.token THEN v.worker END, CASE WHEN x.token = f.token THEN x.worker END, a.worker, s.worker), w.tenant
		FROM unnest($1::uuid[], $2::int8[], $3::int[], $4::uuid[]) f(id, token, n, worker)
		LEFT JOIN LATERAL (SELECT tenant FROM sessions WHERE id = f.worker OFFSET 0) w ON true
		LEFT JOIN LATERAL (SELECT tenant, token, status, worker FROM executions WHERE id = f.id LIMIT 1) x ON true
		LEFT JOIN LATERAL (SELECT tenant, lease, worker FROM live WHERE id = f.id OFFSET 0) v ON true
		LEFT JOIN LATERAL (SELECT lost, worker FROM attempts WHERE execution = f.id AND token = f.token OFFSET 0) a ON true
		LEFT JOIN LATERAL (SELECT execution, worker FROM events WHERE execution = f.id AND kind = 'snoozed' AND token = f.token OFFSET 0) s ON true`
	// oldSnoozesSQL drops all snoozes of executions but the last.
	oldSnoozesSQL = `
		DELETE FROM events e USING (
			SELECT u.id, s.token FROM unnest($1::uuid[]) u(id)
			CROSS JOIN LATERAL (SELECT token FROM events WHERE execution = u.id AND kind = 'snoozed' ORDER BY token DESC LIMIT 1 OFFSET $2) s
		) s
		WHERE e.execution = ANY (ARRAY[s.id]) AND e.kind = ANY (ARRAY['snoozed']) AND e.token <= s.token`
	refusedSQL = `
		INSERT INTO events (execution, kind, token, tenant, worker, at, note)
		SELECT id, 'result_refused', token, tenant, worker, now(), note
		FROM (SELECT *, row_number() OVER (PARTITION BY id) AS n FROM unnest($1::uuid[], $2::int8[], $3::text[], $4::uuid[], $5::text[]) u(id, token, tenant, worker, note)) r
		WHERE n + (SELECT count(*) FROM events e WHERE e.execution = r.id AND e.kind = 'result_refused') <= $6
		ON CONFLICT (execution, kind, token) DO NOTHING`
)

// Finish applies each transition under its lease's token, and answers in order.
func (s *leases) Finish(ctx context.Context, fs []job.Finish) ([]job.Verdict, error) {
	if len(fs) == 0 {
		return nil, nil
	}
	first, rest := rounds(fs)
	out := make([]job.Verdict, len(fs))
	err := s.write(ctx, "finish", func(ctx context.Context, c *pgxpool.Conn) error {
		for i, f := range fs {
			out[i] = job.Verdict{Execution: f.Outcome.Execution}
		}
		others, err := s.concludeBundles(ctx, c, fs, first, out)
		if err != nil {
			return err
		}
		if err := unpackFinished(ctx, s.database, c, fs, others, rest); err != nil {
			return err
		}
		if len(others) > 0 {
			if err := conclude(ctx, c, fs, others, out); err != nil {
				return err
			}
		}
		for _, i := range rest {
			if err := conclude(ctx, c, fs, []int{i}, out); err != nil {
				return err
			}
		}
		if err := forgetSnoozes(ctx, c, fs); err != nil {
			return err
		}
		return judge(ctx, c, fs, out)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// forgetSnoozes limits the events of executions that are snoozed repeatedly.
func forgetSnoozes(ctx context.Context, c speaker, fs []job.Finish) error {
	ids := uuids(0)
	for i := range fs {
		if fs[i].Outcome.Status == job.OutcomeSnoozed {
			ids.uuid(fs[i].Outcome.Execution)
		}
	}
	if len(ids.cells) == 0 {
		return nil
	}
	_, err := c.Exec(ctx, oldSnoozesSQL, ids, job.MaxSnoozed)
	return err
}

// rounds returns which finishes of a batch are applied at once, and which after them, one by one. Of two finishes
// under one lease by one worker only the first is applied; the other is judged by it. If another worker reports under
// that lease, one of them does not hold it, or both do, and the first that does wins.
func rounds(fs []job.Finish) (first, rest []int) {
	first = make([]int, 0, len(fs))
	seen := make(map[job.Lease]int, len(fs))
	for i := range fs {
		before, ok := seen[fs[i].Outcome.Lease]
		switch {
		case !ok:
			seen[fs[i].Outcome.Lease] = i
			first = append(first, i)
		case fs[before].Worker != fs[i].Worker:
			rest = append(rest, i)
		}
	}
	return first, rest
}

// conclude applies the given finishes of a batch, and records which were applied, and how they ended if not as they
// say.
func conclude(ctx context.Context, c *pgxpool.Conn, fs []job.Finish, which []int, out []job.Verdict) error {
	return withDays(ctx, c, func() error { return concludeOn(ctx, c, fs, which, out) })
}

// concludeOn is conclude where a day's table may not be made: in a transaction, which is undone first.
func concludeOn(ctx context.Context, c speaker, fs []job.Finish, which []int, out []job.Verdict) error {
	sql, args := finishArgs(fs, which)
	return concluded(c.QueryRow(ctx, sql, args...), fs, which, out)
}

// concluded reads what a statement of finishArgs answers.
func concluded(row pgx.Row, fs []job.Finish, which []int, out []job.Verdict) error {
	var count int
	var ids, otherwise, marked, runs, left [][16]byte
	var tokens, theirs []int64
	var statuses []int16
	err := row.Scan(&count, &ids, &tokens, &otherwise, &theirs, &statuses, &marked, &runs, &left)
	if err != nil {
		return err
	}
	if len(marked) > 0 {
		of := make(map[job.ExecutionID]job.ExecutionID, len(marked))
		for i := range marked {
			of[marked[i]] = runs[i]
		}
		for _, i := range which {
			out[i].Run = of[fs[i].Outcome.Execution]
		}
	}
	if len(left) > 0 {
		is := make(map[job.ExecutionID]bool, len(left))
		for _, id := range left {
			is[id] = true
		}
		for _, i := range which {
			out[i].Tokens = is[fs[i].Outcome.Execution]
		}
	}
	if len(otherwise) > 0 {
		ended := make(map[job.Lease]job.Status, len(otherwise))
		for i := range otherwise {
			ended[job.Lease{Execution: otherwise[i], Token: job.Token(theirs[i])}] = job.Status(statuses[i])
		}
		for _, i := range which {
			out[i].Ended = ended[fs[i].Outcome.Lease]
		}
	}
	if count == len(which) {
		for _, i := range which {
			out[i].Accepted = true
		}
		return nil
	}
	took := make(map[job.Lease]bool, len(ids))
	for i := range ids {
		took[job.Lease{Execution: ids[i], Token: job.Token(tokens[i])}] = true
	}
	for _, i := range which {
		out[i].Accepted = took[fs[i].Outcome.Lease]
	}
	return nil
}

// finishArgs chooses the statement for the given finishes of a batch, and builds its parameters.
func finishArgs(fs []job.Finish, which []int) (sql string, args []any) {
	order := sortedBy(which, func(i int) [16]byte { return fs[i].Outcome.Execution })
	n := len(order)
	ids, tokens, statuses, tries := uuids(n), bigints(n), smallints(n), ints(n)
	var workers, dues, marks, otherwise, dead, messages, redrives, results, endings *array // usually there are none, and NULL stands for the whole array
	for k, i := range order {
		f := &fs[i]
		ids.uuid(f.Outcome.Execution)
		tokens.int8(int64(f.Outcome.Token))
		statuses.int2(int(f.Then.Status))
		tries.int4(f.Then.Tries)
		if workers = sparse(workers, uuids, k, f.Worker != job.WorkerID{}); workers != nil {
			workers.uuidOrNull(f.Worker)
		}
		if dues = sparse(dues, instants, k, !f.Then.Status.Final()); dues != nil {
			dues.time(f.Then.DueAt)
		}
		if otherwise = sparse(otherwise, smallints, k, !f.Then.Status.Final()); otherwise != nil {
			otherwise.int2(int(f.IfDeleted()))
		}
		mark := markOf(f)
		if marks = sparse(marks, smallints, k, mark != 0); marks != nil {
			marks.int2(mark)
		}
		reason, message := deadBy(f)
		if dead = sparse(dead, texts, k, reason != ""); dead != nil {
			dead.textOrNull(reason)
		}
		if messages = sparse(messages, texts, k, message != ""); messages != nil {
			messages.textOrNull(message)
		}
		if redrives = sparse(redrives, instants, k, !f.Then.RedriveAt.IsZero()); redrives != nil {
			redrives.time(f.Then.RedriveAt)
		}
		if results = sparse(results, byteas, k, f.Outcome.Result != nil); results != nil {
			results.bytes(f.Outcome.Result)
		}
		ending := engine.EncodeEnd(f.Ending(), f.Outcome.Response)
		if endings = sparse(endings, byteas, k, ending != nil); endings != nil {
			endings.bytes(ending)
		}
	}
	args = []any{ids, tokens, statuses, tries, results, endings, n, workers}
	if dues == nil && marks == nil {
		return succeedSQL, args
	}
	return finishSQL, append(args, dues, marks, otherwise, dead, messages, redrives)
}

// markOf returns what is recorded beside the outcome: 1 for a failed attempt, 2 for a snooze, 4 for an order to drop
// the lease.
func markOf(f *job.Finish) int {
	mark := 0
	if f.FailedAttempt() {
		mark |= 1
	}
	if f.Outcome.Status == job.OutcomeSnoozed {
		mark |= 2
	}
	if f.Expel {
		mark |= 4
	}
	return mark
}

// deadBy returns what a dead letter, if the finish makes one, says: the reason, if the error alone determines it, and
// the message.
func deadBy(f *job.Finish) (reason, message string) {
	e := f.Outcome.Error
	if e == nil {
		return "", ""
	}
	if r, _ := job.Dead(job.Failed, e, 0, 1); r == job.DeadPoison {
		reason = string(r)
	}
	return reason, plain(e.Message)
}

// judge decides on finishes that were not applied: a repeat of the same outcome is accepted, all others are refused,
// which is recorded as an event if the execution is known.
func judge(ctx context.Context, c speaker, fs []job.Finish, out []job.Verdict) error {
	ids, tokens, places, reporters := uuids(0), bigints(0), ints(0), uuids(0)
	for i, v := range out {
		if !v.Accepted {
			ids.uuid(fs[i].Outcome.Execution)
			tokens.int8(int64(fs[i].Outcome.Token))
			places.int4(i)
			reporters.uuidOrNull(fs[i].Worker)
		}
	}
	if len(ids.cells) == 0 {
		return nil
	}
	rows, err := c.Query(ctx, judgeSQL, ids, tokens, places, reporters)
	if err != nil {
		return err
	}
	var i int
	var past job.Past
	var of, serves text
	var holder *job.WorkerID
	n := ids.count()
	ids, tokens = uuids(n), bigints(n)
	tenants, workers, notes := texts(n), uuids(n), texts(n)
	_, err = pgx.ForEachRow(rows, []any{&i, (*uint8)(&past.Status), &of, &past.Failed, &past.Lost, &past.Snoozed, &holder, &serves}, func() error {
		past.Tenant, past.Serves, past.Holder = tenant.ID(of), tenant.ID(serves), job.WorkerID{}
		if holder != nil {
			past.Holder = *holder
		}
		if out[i] = job.Judge(past, &fs[i]); out[i].Reason == job.RefusedStale {
			o := &fs[i].Outcome
			ids.uuid(o.Execution)
			tokens.int8(int64(o.Token))
			tenants.text(string(of))
			workers.uuidOrNull(fs[i].Worker)
			notes.text(o.Status.String())
		}
		return nil
	})
	if err != nil || len(ids.cells) == 0 {
		return err
	}
	_, err = c.Exec(ctx, refusedSQL, ids, tokens, tenants, workers, notes, job.MaxRefused)
	return err
}
