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
	// pausedSQL lists up to $3 paused jobs after one.
	pausedSQL = `
		SELECT j.tenant, j.id FROM tenants t
		CROSS JOIN LATERAL (SELECT tenant, id FROM jobs WHERE tenant = t.id AND state = 2 AND (t.id > $1 OR id > $2) ORDER BY id LIMIT $3 OFFSET 0) j
		WHERE t.id >= $1 ORDER BY j.tenant, j.id LIMIT $3`

	// countHeldSQL counts the executions of jobs that pauses hold back, of each job up to $5 rows after a position in
	// the index of instants. A job's last row is the position where that ended; there is none at the end. The row of
	// a job that fires once is not in the index, and is counted at the beginning.
	countHeldSQL = `
		SELECT j.n, x.class, x.priority, x.held, x.scheduled_at, x.nonce
		FROM unnest($1::text[], $2::uuid[], $3::timestamptz[], $4::int8[]) WITH ORDINALITY j(tenant, id, behind, nonce, n)
		CROSS JOIN LATERAL (
			WITH p AS MATERIALIZED (
				SELECT tenant, class, priority, scheduled_at, nonce, hold, lease, due_at FROM live
				WHERE job = j.id AND tally AND (scheduled_at, nonce) > (coalesce(j.behind, '-infinity'), j.nonce) ORDER BY scheduled_at, nonce LIMIT $5::int8
			), own AS (
				SELECT tenant, class, priority, nonce, hold, lease, due_at FROM live WHERE id = j.id AND NOT tally AND j.behind IS NULL
			)
			SELECT class, priority, count(*) AS held, NULL::timestamptz AS scheduled_at, NULL::int8 AS nonce
			FROM (SELECT tenant, class, priority, nonce, hold, lease, due_at FROM p UNION ALL SELECT tenant, class, priority, nonce, hold, lease, due_at FROM own) r
			WHERE tenant = j.tenant AND nonce = 0 AND hold = 1 AND lease <= 0 AND due_at <= now() GROUP BY class, priority
			UNION ALL
			(SELECT '', 0, 0, scheduled_at, nonce FROM p OFFSET $5::int8 - 1)
		) x`
)

// heldPlace is a paused job, and a position among its instants up to which it was counted; no instant: it was not.
type heldPlace struct {
	tenant tenant.ID
	job    job.ID
	at     time.Time
	nonce  int64
}

// heldSteps lists how many jobs one statement examines, and how many rows of each: most have few, and one may have a
// million. None examines more than duePiece rows.
var heldSteps = []struct{ jobs, rows int }{{500, duePiece / 500}, {25, duePiece / 25}, {1, duePiece}}

// countHeld counts, in pieces, the executions that pauses of jobs hold back.
func (s *leases) countHeld(ctx context.Context, steps []struct{ jobs, rows int }) (map[engine.DueKey]int, error) {
	out := map[engine.DueKey]int{}
	page := steps[0].jobs
	for last, more := (heldPlace{}), true; more; {
		jobs, err := s.paused(ctx, last, page)
		if err != nil {
			return nil, err
		}
		if more = len(jobs) == page; more {
			last = jobs[page-1]
		}
		for i := 0; len(jobs) > 0; i = min(i+1, len(steps)-1) {
			var rest []heldPlace
			for len(jobs) > 0 {
				n := min(len(jobs), steps[i].jobs)
				unfinished, err := s.countHeldPiece(ctx, jobs[:n], steps[i].rows, out)
				if err != nil {
					return nil, err
				}
				rest, jobs = append(rest, unfinished...), jobs[n:]
			}
			jobs = rest
		}
	}
	return out, nil
}

// paused lists paused jobs after one.
func (s *leases) paused(ctx context.Context, behind heldPlace, limit int) (out []heldPlace, err error) {
	err = s.look(ctx, "list paused jobs", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, pausedSQL, string(behind.tenant), [16]byte(behind.job), limit)
		var err error
		out, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (p heldPlace, err error) {
			err = r.Scan((*string)(&p.tenant), (*[16]byte)(&p.job))
			return p, err
		})
		return err
	})
	return out, err
}

// countHeldPiece adds held-back executions of jobs, of each up to a number of rows, and returns the jobs that have
// more.
func (s *leases) countHeldPiece(ctx context.Context, jobs []heldPlace, most int, out map[engine.DueKey]int) (rest []heldPlace, err error) {
	tenants, ids, behind, nonces := make([]string, len(jobs)), make([][16]byte, len(jobs)), instants(len(jobs)), make([]int64, len(jobs))
	for i, j := range jobs {
		tenants[i], ids[i], nonces[i] = string(j.tenant), j.job, j.nonce
		if j.at.IsZero() {
			behind.null()
			continue
		}
		behind.time(j.at)
	}
	var counts map[engine.DueKey]int
	err = s.look(ctx, "count what is held back", func(ctx context.Context, c *pgxpool.Conn) error {
		counts, rest = map[engine.DueKey]int{}, nil // a repeated query starts over
		rows, _ := c.Query(ctx, countHeldSQL, tenants, ids, behind, nonces, most)
		var i, n int
		var k engine.DueKey
		var at *time.Time
		var nonce *int64
		_, err := pgx.ForEachRow(rows, []any{&i, (*string)(&k.Class), &k.Priority, &n, &at, &nonce}, func() error {
			j := jobs[i-1]
			if at != nil {
				j.at, j.nonce = *at, *nonce
				rest = append(rest, j)
				return nil
			}
			k.Tenant = j.tenant
			counts[k] += n
			return nil
		})
		return err
	})
	for k, n := range counts {
		out[k] += n
	}
	return rest, err
}
