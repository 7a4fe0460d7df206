package postgres

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// dueSQL merges the partitions, each of which its index gives in order, and so
// reads hardly more rows than it returns.
var dueSQL = func() string {
	parts := make([]string, job.Partitions)
	for p := range parts {
		parts[p] = fmt.Sprintf("(SELECT %s FROM jobs j WHERE j.part = %d AND j.next_run_at IS NOT NULL AND j.next_run_at <= $1 AND j.state = 1 ORDER BY j.next_run_at LIMIT $2)",
			definitionColumns, p)
	}
	return "SELECT " + definitionColumns + " FROM (" + strings.Join(parts, " UNION ALL ") + ") j ORDER BY j.next_run_at LIMIT $2"
}()

// Due lists jobs whose next instant is at or before until, the earliest first.
func (s *Store) Due(ctx context.Context, until time.Time, limit int) ([]engine.Due, error) {
	var out []engine.Due
	err := s.ask(ctx, "find what is due", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, dueSQL, until, limit)
		var err error
		out, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (engine.Due, error) {
			var d definition
			if err := r.Scan(d.targets()...); err != nil {
				return engine.Due{}, err
			}
			j, err := d.decode()
			return engine.Due{Job: j, Revision: j.Revision}, err
		})
		return err
	})
	return out, err
}

// A firing's executions are elements $first to $last of the arrays behind it:
// reading those by their number needs no join between what moved and what is new.
const fireSQL = `
	WITH moved AS (
		UPDATE jobs j SET next_run_at = f.next
		FROM unnest($1::text[], $2::uuid[], $3::timestamptz[], $4::int[], $5::timestamptz[], $6::int[], $7::int[]) f(tenant, id, was, revision, next, first, last)
		WHERE j.tenant = ANY (ARRAY[f.tenant]) AND j.id BETWEEN f.id AND f.id
			AND j.next_run_at IS NOT DISTINCT FROM f.was AND j.revision = f.revision AND j.state = 1
		RETURNING j.tenant, j.id, j.kind, f.first, f.last
	)
	INSERT INTO live AS v (tenant, job, id, part, class, priority, due_at, scheduled_at, nonce, trigger, max_attempts, hold, retry_of, payload, tally)
	SELECT m.tenant, m.id, ($8::uuid[])[n], ($9::int2[])[n], ($10::text[])[n], ($11::int2[])[n], ($12::timestamptz[])[n], ($13::timestamptz[])[n], ($14::int8[])[n],
		($15::int2[])[n], ($16::int[])[n], ($17::int2[])[n], ($18::uuid[])[n], ($19::bytea[])[n],
		m.kind NOT IN (1, 2) OR ($15::int2[])[n] <> 1
	FROM moved m CROSS JOIN LATERAL generate_series(m.first, m.last) n
	ON CONFLICT (job, scheduled_at, nonce) DO NOTHING
	RETURNING ` + readyColumns

// Fire moves each job's next instant by compare-and-set and stores the executions of those that moved.
func (s *Store) Fire(ctx context.Context, fs []engine.Firing) ([]job.Ready, error) {
	if len(fs) == 0 {
		return nil, nil
	}
	args := fireArgs(fs)
	var out []job.Ready
	err := s.write(ctx, "fire", func(ctx context.Context, c *pgxpool.Conn) error {
		return hitting(ctx, c.Conn(), "sched.afterInsertBeforeCommit", func() (err error) {
			out, err = collectReady(c.Query(ctx, fireSQL, args...))
			return err
		})
	})
	return out, err
}

func fireArgs(fs []engine.Firing) []any {
	fs = slices.Clone(fs)
	slices.SortStableFunc(fs, func(a, b engine.Firing) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), bytes.Compare(a.Job[:], b.Job[:]))
	})
	n := len(fs)
	tenants, jobs, was, revisions, nexts, firsts, lasts := texts(n), uuids(n), instants(n), ints(n), instants(n), ints(n), ints(n)
	ids, parts, classes, priorities, dues, scheduled, nonces := uuids(n), smallints(n), texts(n), smallints(n), instants(n), instants(n), bigints(n)
	triggers, most, holds := smallints(n), ints(n), smallints(n)
	var retried, payloads *array // most often there are none, and NULL stands for a whole array of them
	count := 0
	for _, f := range fs {
		tenants.text(string(f.Tenant))
		jobs.uuid(f.Job)
		was.time(f.Was)
		revisions.int4(f.Revision)
		nexts.time(f.Next)
		firsts.int4(count + 1)
		for i := range f.Executions {
			e := &f.Executions[i]
			ids.uuid(e.ID)
			parts.int2(int(e.Partition))
			classes.text(string(e.Class))
			priorities.int2(e.Priority)
			dues.time(e.DueAt)
			scheduled.time(e.ScheduledAt)
			nonces.int8(e.Nonce())
			triggers.int2(int(e.Trigger))
			most.int4(e.MaxAttempts)
			holds.int2(hold(e))
			retried = sparse(retried, uuids, count, !e.RetryOf.IsZero())
			if retried != nil {
				retried.uuidOrNull(e.RetryOf)
			}
			payloads = sparse(payloads, byteas, count, e.Payload != nil)
			if payloads != nil {
				payloads.bytes(e.Payload)
			}
			count++
		}
		lasts.int4(count)
	}
	return []any{
		tenants, jobs, was, revisions, nexts, firsts, lasts,
		ids, parts, classes, priorities, dues, scheduled, nonces, triggers, most, holds, retried, payloads,
	}
}

// sparse begins an array at its first value that is not NULL.
func sparse(a *array, make func(int) *array, before int, value bool) *array {
	if a != nil || !value {
		return a
	}
	a = make(before + 1)
	for range before {
		a.null()
	}
	return a
}
