package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	// duePiece limits how many rows one statement counts: some 50 ms, or a second if it must read the table, too.
	duePiece = 25_000

	// countDueSQL counts a limited number of rows after a position in the index of lanes, by the lane's number and
	// priority. Its last row is the position where it ended; there is none at the end. It reads from the table only
	// one row for each lane, for its tenant and class: two of these may share a number, and are then counted as the
	// first.
	countDueSQL = `
		WITH p AS MATERIALIZED (
			SELECT lane, group_key, priority, due_at, id FROM live
			WHERE lane >= 0 AND (lane, group_key, priority, due_at, id) > ($1::int8, $2::int8, $3::int2, $4::timestamptz, $5::uuid)
			ORDER BY lane, group_key, priority, due_at, id LIMIT $6::int8
		), g AS (SELECT lane, priority, count(*) AS n FROM p WHERE due_at <= now() GROUP BY lane, priority)
		SELECT g.lane, g.priority, g.n, k.tenant, k.class, 0::int8, NULL::timestamptz, NULL::uuid
		FROM g CROSS JOIN LATERAL (SELECT tenant, class FROM live v WHERE v.lane >= 0 AND v.lane = g.lane ORDER BY v.lane LIMIT 1) k
		UNION ALL
		(SELECT lane, priority, 0, '', '', group_key, due_at, id FROM p OFFSET $6::int8 - 1)`

	// countDueBundlesSQL counts executions in bundles: all of a waiting bundle, and the unfinished ones of a leased
	// bundle.
	countDueBundlesSQL = `
		SELECT tenant, class, priority, sum(CASE WHEN lease = 0 THEN cardinality(ids) ELSE length(replace(open::bit(64)::text, '0', '')) END)::int8
		FROM bundles WHERE due_at <= now() GROUP BY tenant, class, priority`

	// countDependentSQL counts what waits for the jobs that its own depends on: of each job one at most.
	countDependentSQL = "SELECT tenant, class, priority, count(*) FROM live WHERE hold = 2 AND lease <= 0 AND due_at <= now() GROUP BY tenant, class, priority"
)

// duePlace is a position in the index of lanes.
type duePlace struct {
	lane, group int64
	priority    int16
	due         time.Time
	id          [16]byte
}

// CountDue counts all executions that are due, not held back, and unfinished.
func (s *leases) CountDue(ctx context.Context) (map[engine.DueKey]int, error) {
	out, err := s.countBy(ctx, "count what is due in bundles", countDueBundlesSQL) // first: executions unpacked meanwhile are counted twice, rather than missed
	if err != nil {
		return nil, err
	}
	at := &duePlace{lane: -1}
	for at != nil {
		if at, err = s.countDuePiece(ctx, *at, duePiece, out); err != nil {
			return nil, err
		}
	}
	held, err := s.countHeld(ctx, heldSteps)
	if err != nil {
		return out, err
	}
	dependent, err := s.countBy(ctx, "count what waits for other jobs", countDependentSQL)
	for _, counts := range []map[engine.DueKey]int{held, dependent} {
		for k, n := range counts {
			out[k] = max(0, out[k]-n)
		}
	}
	return out, err
}

// countBy returns a statement's counts by tenant, class and priority.
func (s *leases) countBy(ctx context.Context, doing, sql string) (map[engine.DueKey]int, error) {
	var out map[engine.DueKey]int
	err := s.look(ctx, doing, func(ctx context.Context, c *pgxpool.Conn) error {
		out = map[engine.DueKey]int{} // a repeated query starts over
		rows, _ := c.Query(ctx, sql)
		var k engine.DueKey
		var n int
		_, err := pgx.ForEachRow(rows, []any{(*string)(&k.Tenant), (*string)(&k.Class), &k.Priority, &n}, func() error {
			out[k] += n
			return nil
		})
		return err
	})
	return out, err
}

// countDuePiece adds a limited number of rows after a position, and returns where they end; nil: there are no more.
func (s *leases) countDuePiece(ctx context.Context, from duePlace, most int64, out map[engine.DueKey]int) (end *duePlace, err error) {
	type part struct {
		engine.DueKey
		n int
	}
	var parts []part
	err = s.ask(ctx, "count what is due", func(ctx context.Context, c *pgxpool.Conn) error {
		parts, end = nil, nil // a repeated query starts over
		var due any = "-infinity"
		if !from.due.IsZero() {
			due = from.due
		}
		rows, err := c.Query(ctx, countDueSQL, from.lane, from.group, from.priority, due, from.id, most)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			r := reader{values: rows.RawValues()}
			lane, priority, n := r.int8(), r.int2(), r.int8()
			t, class, group := string(r.bytes()), string(r.bytes()), r.int8()
			if r.null() {
				parts = append(parts, part{engine.DueKey{Tenant: tenant.ID(t), Class: job.Class(class), Priority: priority}, int(n)})
				continue
			}
			end = &duePlace{lane: lane, group: group, priority: int16(priority), due: r.time(), id: r.uuid()}
			if r.bad {
				return errUnexpected
			}
		}
		return rows.Err()
	})
	for _, p := range parts {
		out[p.DueKey] += p.n
	}
	return end, err
}
