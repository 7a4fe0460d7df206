package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

// Executions that the schedule of a job fired before an instant are replaced: waiting ones end as CANCELLED, and
// running ones are asked to stop. The jobs are locked.
var (
	dropReplacedSQL = `
		WITH gone AS (
			DELETE FROM live v USING (` + replaced + ` AND s.lease <= 0 LIMIT $6) d ORDER BY d.id OFFSET 0) d
			WHERE v.id = ANY (ARRAY[d.id]) AND v.lease <= 0
			RETURNING 13::int2 AS status, ` + goneRow + `, v.attempt, v.tries, v.lost, -v.lease AS token, NULL::bytea AS result, d.ending
		), ` + endSQL + `
		` + ofGone
	// endReplacedSQL ends those that are parked: there is nobody to ask.
	endReplacedSQL = `
		WITH gone AS (
			DELETE FROM live v USING (` + replaced + ` AND s.lease > 0) d ORDER BY d.id OFFSET 0) d
			WHERE v.id = ANY (ARRAY[d.id]) AND v.lease > 0 AND coalesce(v.parked_until, '-infinity') > '-infinity' AND v.class <> 'workflow'
				AND $6::int8 > 0
			RETURNING 13::int2 AS status, ` + goneRow + `, v.attempt, v.tries, v.lost, v.lease AS token, NULL::bytea AS result, coalesce(v.cancel_ending, d.ending) AS ending
		), ` + endSQL + `
		` + ofGone
	askReplacedSQL = `
		WITH asked AS (
			UPDATE live v SET cancel_at = now(), cancel_ending = d.ending FROM (` + replaced + ` AND s.lease > 0) d ORDER BY d.id OFFSET 0) d
			WHERE v.id = ANY (ARRAY[d.id]) AND v.lease > 0 AND v.cancel_at IS NULL AND $6::int8 > 0
			RETURNING v.worker, v.id, v.lease, v.tenant, v.attempt, v.class, d.note
		), told AS (
			INSERT INTO events (execution, kind, token, tenant, attempt, worker, at, note) SELECT id, 'cancel_requested', lease, tenant, attempt, worker, now(), note FROM asked
			ON CONFLICT (execution, kind, token) DO NOTHING
		), ` + orderStopSQL

	replaced = `SELECT d.id, r.ending, r.note FROM unnest($1::text[], $2::uuid[], $3::timestamptz[], $4::bytea[], $5::text[]) r(tenant, job, before, ending, note)
			CROSS JOIN LATERAL (SELECT s.id FROM (` + scheduledRows("r.tenant", "r.job") + `) s WHERE s.trigger IN (1, 3) AND s.scheduled_at < r.before`
)

// replaces reports whether a firing replaces what its job fired before.
func replaces(f engine.Firing) bool { return f.Overlap == job.OverlapReplace && len(f.Executions) > 0 }

// One transaction drops at most this many waiting executions that are replaced, and a job with more has to wait for
// its turn: Fire uses as many transactions as replaceTime allows, and then leaves such jobs to its next call.
const (
	replacedAtOnce = engine.CancelsAtOnce
	replaceTime    = time.Second
)

// replace fires, and replaces what the jobs fired before. Waiting executions go first, with their unique keys;
// running ones are asked to stop only if their successor exists; and those released meanwhile go then. If some job
// has more waiting than fits into one transaction, nothing fires, and x.more names the jobs.
func (x *volley) replace(ctx context.Context, c *pgx.Conn, fire func() ([]job.Ready, error)) error {
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		locked, err := chosen(tx.Query(ctx, lockSQL, x.args...))
		if err != nil {
			return err
		}
		if err := x.send(ctx, tx, dropReplacedSQL, func(i int) bool { return locked[i] }); err != nil {
			return err
		}
		if x.left(); len(x.more) > 0 {
			return nil
		}
		ready, err := fire()
		if err != nil {
			return err
		}
		is := map[job.ExecutionID]bool{}
		for _, r := range ready {
			is[r.ID] = true
		}
		fired := func(i int) bool { return is[x.firings[i].Executions[0].ID] }
		for _, sql := range []string{endReplacedSQL, askReplacedSQL, dropReplacedSQL} {
			if err := x.send(ctx, tx, sql, fired); err != nil {
				return err
			}
		}
		return failpoint.Hit("sched.afterInsertBeforeCommit")
	})
}

// dropped is how many waiting executions of a job one statement drops.
func (x *volley) dropped() int {
	n := 0
	for i := range x.firings {
		if replaces(x.firings[i]) {
			n++
		}
	}
	return max(50, replacedAtOnce/max(n, 1))
}

// left finds the jobs that may have more waiting executions than were dropped.
func (x *volley) left() {
	of := map[job.ID]int{}
	for i := range x.ended {
		of[x.ended[i].Job]++
	}
	most := x.dropped()
	for id, n := range of {
		if n >= most {
			x.more = append(x.more, id)
		}
	}
}

// send runs a statement over what the chosen firings replace, and records what it ended.
func (x *volley) send(ctx context.Context, tx pgx.Tx, sql string, chosen func(i int) bool) error {
	n := len(x.firings)
	tenants, jobs, befores, endings, notes := texts(n), uuids(n), instants(n), byteas(n), texts(n)
	for i := range x.firings {
		f := &x.firings[i]
		if !replaces(*f) || !chosen(i) {
			continue
		}
		before := f.Executions[0].ScheduledAt
		note := engine.ReplacedBy(before)
		tenants.text(string(f.Tenant))
		jobs.uuid(f.Job)
		befores.time(before)
		endings.bytes(engine.EncodeEnd(&job.Error{Type: job.CancelledError, Message: note}, nil))
		notes.text(note)
	}
	if len(jobs.cells) == 0 {
		return nil
	}
	ended, err := collectEnded(tx.Query(ctx, sql, tenants, jobs, befores, endings, notes, x.dropped()))
	x.ended = append(x.ended, ended...)
	return err
}
