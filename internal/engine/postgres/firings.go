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
// reads hardly more rows than it returns. $3 has a bit for each partition to look at.
var dueSQL = func() string {
	parts := make([]string, job.Partitions)
	for p := range parts {
		parts[p] = fmt.Sprintf("(SELECT %[1]s FROM jobs j WHERE j.part = %[2]d AND ($3::int8 >> %[2]d) & 1 = 1 AND j.next_run_at IS NOT NULL AND j.next_run_at <= $1 AND j.state = 1 ORDER BY j.next_run_at LIMIT $2)",
			definitionColumns, p)
	}
	return "SELECT " + definitionColumns + " FROM (" + strings.Join(parts, " UNION ALL ") + ") j ORDER BY j.next_run_at LIMIT $2"
}()

// partitionBits is the set of the partitions; of all, if none is named.
func partitionBits(ps []job.Partition) int64 {
	if len(ps) == 0 {
		return -1
	}
	var bits int64
	for _, p := range ps {
		bits |= 1 << p
	}
	return bits
}

var _ [64 - job.Partitions]struct{} // a bit for each

// Due lists jobs of the partitions whose next instant is at or before until, the earliest first.
func (s *Store) Due(ctx context.Context, ps []job.Partition, until time.Time, limit int) ([]engine.Due, error) {
	var out []engine.Due
	err := s.ask(ctx, "find what is due", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, dueSQL, until, limit, partitionBits(ps))
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
		ON CONFLICT (job, scheduled_at, nonce) DO NOTHING
		RETURNING ` + readyColumns

	// fireJudgedSQL is for firings that may come to nothing. Skipped is what overlaps:
	// an earlier fire of its job is in the way, or one before it in its firing; and what
	// wants a unique key that is held, or taken by one before it. What fired before is
	// neither in anybody's way nor skipped. Elements $last + 1 to $until are records of
	// what does not fire at all.
	fireJudgedSQL = fireHead + `, new AS MATERIALIZED (
			SELECT ` + fireNamed + `, n, m.overlap, n > m.last AS recorded, (` + fireArg("ending") + `)[n] AS ending
			FROM moved m CROSS JOIN LATERAL generate_series(m.first, m.until) n
		), seen AS MATERIALIZED (
			SELECT w.*, h.id IS NOT NULL AS held, w.overlap > 0 AND (
				o.busy IS NOT NULL OR count(*) FILTER (WHERE h.id IS NULL) OVER (PARTITION BY w.tenant, w.job ORDER BY w.n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) > 0
			) AS clashes
			FROM new w LEFT JOIN LATERAL (
				SELECT id FROM live WHERE tenant = w.tenant AND unique_key = w.unique_key AND unique_key IS NOT NULL
					AND (job, scheduled_at, nonce) IS DISTINCT FROM (w.job, w.scheduled_at, w.nonce) OFFSET 0
			) h ON true LEFT JOIN LATERAL (
				SELECT true AS busy FROM (` + scheduledRows("w.tenant", "w.job") + `) v
				WHERE w.overlap > 0 AND (w.overlap = 1 OR v.lease <= 0) AND v.scheduled_at <> w.scheduled_at LIMIT 1
			) o ON true
			WHERE NOT w.recorded
		), judged AS MATERIALIZED (
			SELECT w.*, p.present IS NULL AND (w.clashes
				OR w.unique_key IS NOT NULL AND (w.held OR row_number() OVER (PARTITION BY w.tenant, w.unique_key, w.clashes ORDER BY w.n) > 1)) AS skipped
			FROM seen w LEFT JOIN LATERAL (
				SELECT true AS present FROM live WHERE job = w.job AND scheduled_at = w.scheduled_at AND nonce = w.nonce AND tally LIMIT 1
			) p ON true
		), gone AS MATERIALIZED (
			SELECT 14::int2 AS status, ` + strings.ReplaceAll(goneUnheld, "v.", "w.") + `, NULL::uuid AS worker, NULL::timestamptz AS started_at, NULL::timestamptz AS leased_at,
				0 AS attempt, 0 AS tries, 0 AS lost, 0::int8 AS token, NULL::bytea AS result, w.ending
			FROM (
				SELECT ` + fireColumns + `, CASE WHEN clashes THEN ` + fireArg("overlapped") + ` ELSE ending END AS ending FROM judged WHERE skipped
				UNION ALL
				SELECT ` + fireColumns + `, ending FROM new WHERE recorded
			) w
		), ` + endSQL + `
		INSERT INTO live AS v (` + fireColumns + `) SELECT ` + fireColumns + ` FROM judged WHERE NOT skipped ORDER BY tenant, unique_key NULLS FIRST
		ON CONFLICT (job, scheduled_at, nonce) DO NOTHING
		RETURNING ` + readyColumns

	fireColumns, fireValues, fireNamed = firing()
)

// A fence locks the partitions it names before any job, as a lease's does. What is
// read after a job has moved has seen every earlier fire of it: the statement began
// after that had committed, or the job's instant would not be as given.
const fireHead = `
	WITH fence AS MATERIALIZED (
		SELECT coalesce(array_agg(p.part), '{}') AS held FROM unnest($11::int2[], $12::int8[]) f(part, epoch)
		CROSS JOIN LATERAL (SELECT part FROM partitions WHERE duty = 2 AND part = f.part AND owner IS NOT DISTINCT FROM $13::uuid AND epoch = f.epoch OFFSET 0 FOR SHARE) p
	), moved AS (
		UPDATE jobs j SET next_run_at = f.next, runs = j.runs + f.runs
		FROM (
			SELECT f.*, (SELECT held FROM fence) AS held
			FROM unnest($1::text[], $2::uuid[], $3::timestamptz[], $4::int[], $5::timestamptz[], $6::int8[], $7::int2[], $8::int[], $9::int[], $10::int[])
				f(tenant, id, was, revision, next, runs, overlap, first, last, until) OFFSET 0
		) f
		WHERE j.tenant = ANY (ARRAY[f.tenant]) AND j.id BETWEEN f.id AND f.id
			AND j.next_run_at IS NOT DISTINCT FROM f.was AND j.revision = f.revision AND j.state = 1
			AND (j.part = ANY (f.held) OR j.part <> ALL ($11::int2[]))
		RETURNING j.tenant, j.id, j.kind, f.overlap, f.first, f.last, f.until
	)`

// firedBy are the columns of live that what moved says, not the arrays: the own fire of a one-off job is not tallied.
var firedBy = map[string]string{"tenant": "m.tenant", "job": "m.id", "tally": "m.kind NOT IN (1, 2) OR (" + fireArg("trigger") + ")[n] <> 1"}

// fireArg is the parameter of a column, or of what fireJudgedSQL has beside them: the ending of each, and that of one that overlaps.
func fireArg(name string) string {
	n := 13
	for _, f := range liveTable.fields {
		if f.name == "tenant" || f.name == "job" || f.name == "tally" {
			continue
		}
		n++
		if f.name == name {
			return fmt.Sprintf("$%d::%s[]", n, f.sqlType())
		}
	}
	if name == "overlapped" {
		return fmt.Sprintf("$%d::bytea", n+2)
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
func (s *Store) Fire(ctx context.Context, fs []engine.Firing, f engine.Fence) ([]job.Ready, error) {
	if len(fs) == 0 {
		return nil, nil
	}
	sql, args := fireArgs(fs, f)
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

// overlapCode is how fireJudgedSQL knows a policy; 0 for one that skips nothing.
func overlapCode(o job.Overlap) int {
	switch o {
	case job.OverlapSkip:
		return 1
	case job.OverlapQueue:
		return 2
	}
	return 0
}

// fireArgs chooses the statement and makes its parameters.
func fireArgs(fs []engine.Firing, x engine.Fence) (sql string, args []any) {
	fs = slices.Clone(fs)
	slices.SortStableFunc(fs, func(a, b engine.Firing) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), bytes.Compare(a.Job[:], b.Job[:]))
	})
	n := len(fs)
	tenants, jobs, was, revisions, nexts := texts(n), uuids(n), instants(n), ints(n), instants(n)
	runs, overlaps, firsts, lasts, untils := bigints(n), smallints(n), ints(n), ints(n), ints(n)
	es := liveTable.arrays()
	var endings *array
	add := func(f *engine.Firing, e *job.Execution, ending []byte) {
		if endings = sparse(endings, byteas, es.rows, ending != nil); endings != nil {
			endings.bytes(ending)
		}
		es.execution(f.Tenant, e, true)
	}
	judged := false
	for i := range fs {
		f := &fs[i]
		tenants.text(string(f.Tenant))
		jobs.uuid(f.Job)
		was.time(f.Was)
		revisions.int4(f.Revision)
		nexts.time(f.Next)
		runs.int8(f.Runs)
		overlaps.int2(overlapCode(f.Overlap))
		firsts.int4(es.rows + 1)
		for i := range f.Executions {
			add(f, &f.Executions[i], heldUnique(&f.Executions[i]))
		}
		lasts.int4(es.rows)
		for i := range f.Skips {
			add(f, &f.Skips[i], engine.EncodeSkip(f.Skips[i].Metadata))
		}
		untils.int4(es.rows)
		judged = judged || overlapCode(f.Overlap) > 0
	}
	args = append([]any{tenants, jobs, was, revisions, nexts, runs, overlaps, firsts, lasts, untils}, fenceArgs(x)...)
	for i, a := range es.sparse() {
		if _, ok := firedBy[liveTable.fields[i].name]; !ok {
			args = append(args, a)
		}
	}
	if endings == nil && !judged {
		return fireSQL, args
	}
	return fireJudgedSQL, append(args, endings, engine.Overlapped())
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
