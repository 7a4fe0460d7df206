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

// A firing's executions are elements $first to $last of the arrays behind it, one
// a column of live: reading those by their number needs no join between what moved
// and what is new.
var (
	fireSQL = fireHead + `
		INSERT INTO live AS v (` + fireColumns + `) SELECT ` + fireValues + ` FROM moved m CROSS JOIN LATERAL generate_series(m.first, m.last) n
		ON CONFLICT (job, scheduled_at, nonce) WHERE tally DO NOTHING
		RETURNING ` + readyColumns

	// fireUniqueSQL is for firings of which some have unique keys: an execution whose
	// key is held, or taken by one before it, is skipped. What fired before is in
	// nobody's way.
	fireUniqueSQL = fireHead + `, new AS MATERIALIZED (
			SELECT ` + fireNamed + `, n, (` + fireArg("ending") + `)[n] AS ending FROM moved m CROSS JOIN LATERAL generate_series(m.first, m.last) n
		), judged AS MATERIALIZED (
			SELECT w.*, w.unique_key IS NOT NULL AND (h.id IS NOT NULL OR row_number() OVER (PARTITION BY w.tenant, w.unique_key ORDER BY w.n) > 1) AS skipped
			FROM new w LEFT JOIN LATERAL (
				SELECT id FROM live WHERE tenant = w.tenant AND unique_key = w.unique_key AND unique_key IS NOT NULL
					AND (job, scheduled_at, nonce) IS DISTINCT FROM (w.job, w.scheduled_at, w.nonce) OFFSET 0
			) h ON true
		), gone AS MATERIALIZED (
			SELECT 14::int2 AS status, ` + strings.ReplaceAll(goneUnheld, "v.", "w.") + `, NULL::uuid AS worker, NULL::timestamptz AS started_at, NULL::timestamptz AS leased_at,
				0 AS attempt, 0 AS tries, 0 AS lost, 0::int8 AS token, NULL::bytea AS result, w.ending
			FROM judged w WHERE w.skipped
		), ` + endSQL + `
		INSERT INTO live AS v (` + fireColumns + `) SELECT ` + fireColumns + ` FROM judged WHERE NOT skipped ORDER BY tenant, unique_key NULLS FIRST
		ON CONFLICT (job, scheduled_at, nonce) WHERE tally DO NOTHING
		RETURNING ` + readyColumns

	fireColumns, fireValues, fireNamed = firing()
)

const fireHead = `
	WITH moved AS (
		UPDATE jobs j SET next_run_at = f.next
		FROM unnest($1::text[], $2::uuid[], $3::timestamptz[], $4::int[], $5::timestamptz[], $6::int[], $7::int[]) f(tenant, id, was, revision, next, first, last)
		WHERE j.tenant = ANY (ARRAY[f.tenant]) AND j.id BETWEEN f.id AND f.id
			AND j.next_run_at IS NOT DISTINCT FROM f.was AND j.revision = f.revision AND j.state = 1
		RETURNING j.tenant, j.id, f.first, f.last
	)`

// firedBy are the columns of live that what moved says, not the arrays.
var firedBy = map[string]string{"tenant": "m.tenant", "job": "m.id", "tally": "true"}

// fireArg is the parameter of a column.
func fireArg(name string) string {
	n := 7
	for _, f := range liveTable.fields {
		if f.name == "tenant" || f.name == "job" || f.name == "tally" {
			continue
		}
		n++
		if f.name == name {
			return fmt.Sprintf("$%d::%s[]", n, f.sqlType())
		}
	}
	return fmt.Sprintf("$%d::bytea[]", n+1)
}

// firing lists the columns, and where each comes from.
func firing() (columns, values, named string) {
	var cs, vs, ns []string
	for _, f := range liveTable.fields {
		v, ok := firedBy[f.name]
		if !ok {
			v = "(" + fireArg(f.name) + ")[n]"
		}
		cs, vs, ns = append(cs, f.name), append(vs, v), append(ns, v+" AS "+f.name)
	}
	return strings.Join(cs, ", "), strings.Join(vs, ", "), strings.Join(ns, ", ")
}

// Fire moves each job's next instant by compare-and-set and stores the executions of those that moved.
func (s *Store) Fire(ctx context.Context, fs []engine.Firing) ([]job.Ready, error) {
	if len(fs) == 0 {
		return nil, nil
	}
	sql, args := fireArgs(fs)
	var out []job.Ready
	err := s.write(ctx, "fire", func(ctx context.Context, c *pgxpool.Conn) error {
		return hitting(ctx, c.Conn(), "sched.afterInsertBeforeCommit", func() error {
			return withDays(ctx, c, func() (err error) {
				for range races {
					if out, err = collectReady(c.Query(ctx, sql, args...)); !isHeld(err) {
						return err
					}
				}
				return fmt.Errorf("%w: %w", engine.ErrConflict, err)
			})
		})
	})
	return out, err
}

// fireArgs chooses the statement and makes its parameters.
func fireArgs(fs []engine.Firing) (sql string, args []any) {
	fs = slices.Clone(fs)
	slices.SortStableFunc(fs, func(a, b engine.Firing) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), bytes.Compare(a.Job[:], b.Job[:]))
	})
	n := len(fs)
	tenants, jobs, was, revisions, nexts, firsts, lasts := texts(n), uuids(n), instants(n), ints(n), instants(n), ints(n), ints(n)
	es := liveTable.arrays()
	var endings *array
	for _, f := range fs {
		tenants.text(string(f.Tenant))
		jobs.uuid(f.Job)
		was.time(f.Was)
		revisions.int4(f.Revision)
		nexts.time(f.Next)
		firsts.int4(es.rows + 1)
		for i := range f.Executions {
			e := &f.Executions[i]
			if endings = sparse(endings, byteas, es.rows, e.UniqueKey != ""); endings != nil {
				endings.bytes(heldUnique(e))
			}
			es.execution(f.Tenant, e, true)
		}
		lasts.int4(es.rows)
	}
	args = []any{tenants, jobs, was, revisions, nexts, firsts, lasts}
	for i, a := range es.sparse() {
		if _, ok := firedBy[liveTable.fields[i].name]; !ok {
			args = append(args, a)
		}
	}
	if endings == nil {
		return fireSQL, args
	}
	return fireUniqueSQL, append(args, endings)
}

// heldUnique is the ending of the execution, should another hold its unique key.
func heldUnique(e *job.Execution) []byte {
	if e.UniqueKey == "" {
		return nil
	}
	return engine.EncodeEnd(engine.HeldUnique(e.UniqueKey), nil)
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
