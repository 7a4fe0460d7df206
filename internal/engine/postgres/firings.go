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
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

// dueSQL merges the partitions, each of which its index returns in order, so it reads hardly more rows than it
// returns, skips or leaves out for their tenant. $3 has a bit for each partition to read.
var dueSQL = func() string {
	parts := make([]string, job.Partitions)
	for p := range parts {
		parts[p] = fmt.Sprintf("(SELECT next_run_at, runs, tenant, job FROM schedules WHERE part = %[1]d AND ($3::int8 >> %[1]d) & 1 = 1 AND active AND next_run_at IS NOT NULL AND next_run_at >= $4 AND next_run_at <= $1 AND tenant <> ALL ($6::text[]) ORDER BY next_run_at LIMIT $2 + $5::int)", p)
	}
	return "SELECT " + definitionColumns + " FROM (SELECT * FROM (" + strings.Join(parts, " UNION ALL ") + `) s ORDER BY s.next_run_at LIMIT $2 OFFSET $5::int) s
		CROSS JOIN LATERAL (SELECT *, s.next_run_at, s.runs FROM jobs WHERE tenant = s.tenant AND id = s.job OFFSET 0) j ORDER BY s.next_run_at`
}()

// aheadSQL counts in the index alone, where the pages are known to be visible to all.
var aheadSQL = func() string {
	parts := make([]string, job.Partitions)
	for p := range parts {
		parts[p] = fmt.Sprintf("(SELECT next_run_at FROM schedules WHERE part = %[1]d AND ($3::int8 >> %[1]d) & 1 = 1 AND active AND next_run_at IS NOT NULL AND next_run_at > $1 AND next_run_at < $2 ORDER BY next_run_at LIMIT $4)", p)
	}
	return "SELECT date_bin('1 second', s.next_run_at, $1), count(*) FROM (" + strings.Join(parts, " UNION ALL ") + ") s GROUP BY 1"
}()

// Ahead counts the next instants, second by second.
func (s *leases) Ahead(ctx context.Context, ps []job.Partition, from time.Time, seconds, limit int) ([]int, error) {
	parts := len(ps)
	if parts == 0 {
		parts = job.Partitions
	}
	out := make([]int, seconds)
	err := s.ask(ctx, "count what is next", func(ctx context.Context, c *pgxpool.Conn) error {
		clear(out)
		rows, _ := c.Query(ctx, aheadSQL, from, from.Add(time.Duration(seconds)*time.Second), partitionBits(ps), 2*limit/parts+1)
		var second time.Time
		var n int
		_, err := pgx.ForEachRow(rows, []any{&second, &n}, func() error {
			out[min(max(int(second.Sub(from)/time.Second), 0), seconds-1)] += n
			return nil
		})
		return err
	})
	return out, err
}

// partitionBits returns the set of the partitions; of all, if none is named.
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

// Due lists the jobs that a filter selects, earliest next instant first.
func (s *leases) Due(ctx context.Context, f engine.DueFilter) ([]engine.Due, error) {
	var out []engine.Due
	without := texts(len(f.Without))
	for _, t := range f.Without {
		without.text(string(t))
	}
	err := s.ask(ctx, "find what is due", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, dueSQL, f.Until, f.Limit, partitionBits(f.Partitions), f.From, f.Skip, without)
		defer rows.Close()
		out = make([]engine.Due, 0, min(f.Limit, int(s.dues.Load())+16)) // a job is large, and the number is probably that of the last time
		var d definition
		to := d.targets()
		for i := range to {
			if b, ok := to[i].(*[]byte); ok {
				to[i] = (*pgtype.DriverBytes)(b) // not copied: the next row overwrites it
			}
		}
		for rows.Next() {
			d = definition{}
			if err := rows.Scan(to...); err != nil {
				return err
			}
			if err := s.memo.Decode(d.spec, d.target, &d.job); err != nil {
				return err
			}
			out = append(out, engine.Due{Job: d.job, Revision: d.job.Revision})
		}
		return rows.Err()
	})
	s.dues.Store(int64(len(out)))
	return out, err
}

// If nothing conflicts with a firing, its job is moved, and its executions follow by COPY.
const moveSQL = fireHead + `
	UPDATE schedules s SET next_run_at = f.next, runs = s.runs + f.runs FROM (` + fireRows + ` OFFSET 0) f
	WHERE s.part = ANY (ARRAY[f.part]) AND s.job BETWEEN f.id AND f.id` + asGiven + `
	RETURNING f.n`

// A fence locks the partitions it names before any job, like a lease's fence.
const (
	fireHead = `
	WITH fence AS MATERIALIZED (
		SELECT coalesce(array_agg(p.part), '{}') AS held FROM unnest($1::int2[], $2::int8[]) f(part, epoch)
		CROSS JOIN LATERAL (SELECT part FROM partitions WHERE duty = 2 AND part = f.part AND owner IS NOT DISTINCT FROM $3::uuid AND epoch = f.epoch OFFSET 0 FOR SHARE) p
	)`
	fireRows = `SELECT f.*, (SELECT held FROM fence) AS held
			FROM unnest($4::text[], $5::int2[], $6::uuid[], $7::timestamptz[], $8::int[], $9::timestamptz[], $10::int8[]) WITH ORDINALITY f(tenant, part, id, was, revision, next, runs, n)`
	// asGiven is the condition that a job is as the firing has it, and the fence lets it through.
	asGiven = ` AND s.tenant = f.tenant
		AND s.next_run_at IS NOT DISTINCT FROM f.was AND s.revision = f.revision AND s.active AND (s.part = ANY (f.held) OR s.part <> ALL ($1::int2[]))`

	// lockSQL locks the unchanged jobs of firings, in the common order.
	lockSQL = fireHead + `
	SELECT f.n FROM (` + fireRows + ` OFFSET 0) f ` + lockFired

	lockFired = `
		CROSS JOIN LATERAL (SELECT s.part FROM schedules s WHERE s.part = f.part AND s.job = f.id` + asGiven + ` OFFSET 0 FOR UPDATE) s`
)

// fireJudgedSQL is for firings that may have no effect. A firing's executions are elements $first to $last of the
// arrays after it, one for each column of live: reading those by their number needs no join between locked and new
// rows.
//
// What is read after a job is locked includes every earlier fire of it: the statement began after that had committed,
// or the job's instant would have changed. Executions are skipped if they overlap with an earlier fire of their job,
// or with one before them in their firing, or if their unique key is held, or taken by one before them. Executions
// that fired before neither block others nor are skipped. Elements $last + 1 to $until record instants that do not
// fire at all. Only stored executions count as runs; if that is fewer than planned, the next instant is the spare
// one.
var (
	fireJudgedSQL = fireHead + `, locked AS MATERIALIZED (
			SELECT f.*, ($11::timestamptz[])[f.n] AS spare, ($12::int2[])[f.n] AS overlap, ($13::int[])[f.n] AS first, ($14::int[])[f.n] AS last, ($15::int[])[f.n] AS until
			FROM (` + fireRows + ` OFFSET 0) f` + lockFired + `
		), new AS MATERIALIZED (
			SELECT ` + fireNamed + `, g.n, m.overlap, g.n > m.last AS recorded, (` + fireArg("ending") + `)[g.n] AS ending
			FROM locked m CROSS JOIN LATERAL generate_series(m.first, m.until) g(n)
		), seen AS MATERIALIZED (
			SELECT w.*, h.id IS NOT NULL AS held, w.overlap > 0 AND (
				o.busy IS NOT NULL OR count(*) FILTER (WHERE h.id IS NULL) OVER (PARTITION BY w.tenant, w.job ORDER BY w.n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) > 0
			) AS clashes
			FROM new w LEFT JOIN LATERAL (
				SELECT id FROM live WHERE tenant = w.tenant AND unique_key = w.unique_key AND unique_key IS NOT NULL
					AND (job, scheduled_at, nonce) IS DISTINCT FROM (w.job, w.scheduled_at, w.nonce) OFFSET 0
			) h ON true LEFT JOIN LATERAL (
				SELECT true AS busy FROM (` + scheduledRows("w.tenant", "w.job") + `) v
				WHERE w.overlap > 0 AND (w.overlap = 1 OR v.lease <= 0 AND v.tries = 0 AND v.started_at IS NULL) AND v.scheduled_at <> w.scheduled_at LIMIT 1
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
		), ` + endSQL + `, fired AS (
			INSERT INTO live AS v (` + fireColumns + `) SELECT ` + fireColumns + ` FROM judged WHERE NOT skipped ORDER BY tenant, unique_key NULLS FIRST
			ON CONFLICT (job, scheduled_at, nonce) WHERE tally DO NOTHING
			RETURNING ` + readyColumns + `, v.job
		), counted AS MATERIALIZED (
			SELECT x.id, max(x.part) AS part, max(x.next) AS next, max(x.spare) AS spare, max(x.runs) AS runs, count(x.fired) AS n FROM (
				SELECT part, id, next, spare, runs, NULL::bool AS fired FROM locked
				UNION ALL
				SELECT NULL, job, NULL, NULL, NULL, true FROM fired
			) x GROUP BY x.id
		), moved AS (
			UPDATE schedules s SET next_run_at = CASE WHEN c.n < c.runs THEN coalesce(c.spare, c.next) ELSE c.next END, runs = s.runs + least(c.runs, c.n) FROM counted c
			WHERE s.part = ANY (ARRAY[c.part]) AND s.job BETWEEN c.id AND c.id
		)
		SELECT ` + readyColumns + ` FROM fired v
		UNION ALL ` + goneAsReady

	fireColumns, fireNamed = firing()
)

// firedBy lists the columns of live that come from moved, not from the arrays.
var firedBy = map[string]string{"tenant": "m.tenant", "job": "m.id", "tally": "true"}

// fireArg is the parameter of a column, or of the additional values of fireJudgedSQL: the end of each, and that of
// one that overlaps.
func fireArg(name string) string {
	n := 15
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
func firing() (columns, named string) {
	var cs, ns []string
	for _, f := range liveTable.fields {
		v, ok := firedBy[f.name]
		if !ok {
			v = "(" + fireArg(f.name) + ")[g.n]"
		}
		cs, ns = append(cs, f.name), append(ns, v+" AS "+f.name)
	}
	return strings.Join(cs, ", "), strings.Join(ns, ", ")
}

// Fire moves each job's next instant by compare-and-set and stores the executions of those that moved.
func (s *leases) Fire(ctx context.Context, fs []engine.Firing, f engine.Fence) (engine.Fired, error) {
	if len(fs) == 0 {
		return engine.Fired{}, nil
	}
	fs = slices.Clone(fs)
	slices.SortStableFunc(fs, func(a, b engine.Firing) int {
		return cmp.Or(cmp.Compare(job.PartitionOf(a.Job), job.PartitionOf(b.Job)), bytes.Compare(a.Job[:], b.Job[:]))
	})
	var out engine.Fired
	for begun := time.Now(); len(fs) > 0; {
		x := volley{firings: fs, args: moveArgs(fs, f)}
		ready, err := s.fire(ctx, &x)
		if err != nil && len(out.Ended) == 0 {
			return engine.Fired{}, err
		}
		if err != nil {
			return out, nil // what was replaced is committed; the next call meets the error
		}
		if out.Ended = append(out.Ended, x.ended...); len(x.more) == 0 {
			out.Ready = ready
			return out, nil
		}
		if time.Since(begun) > replaceTime {
			fs = slices.DeleteFunc(fs, func(f engine.Firing) bool { return slices.Contains(x.more, f.Job) })
		}
	}
	return out, nil
}

// fire stores a volley or, if it has too much to replace, replaces some of that.
func (s *leases) fire(ctx context.Context, x *volley) ([]job.Ready, error) {
	fs := x.firings
	var rows page // built before the transaction begins, like those of a creation
	plain := len(fs) >= copyFrom && !s.noCopy.Load() && x.plain()
	if plain {
		rows = x.rows()
	}
	var out []job.Ready
	err := s.write(ctx, "fire", func(ctx context.Context, c *pgxpool.Conn) error {
		if plain {
			var err error
			if out, err = x.copy(ctx, c.Conn(), &rows); !isCode(err, uniqueViolation) {
				return err
			}
		}
		return withDays(ctx, c, func() (err error) {
			for range races {
				if out, err = x.judge(ctx, c.Conn()); !isHeld(err) {
					return err
				}
			}
			return fmt.Errorf("%w: %w", engine.ErrConflict, err)
		})
	})
	return out, err
}

// volley is firings that are stored together, in the common order of locking jobs.
type volley struct {
	firings []engine.Firing
	args    []any          // of moveSQL
	ended   []engine.Ended // what was skipped or replaced
	more    []job.ID       // jobs with more executions to replace; nothing was fired
}

// plain reports whether nothing needs judging.
func (x *volley) plain() bool {
	for i := range x.firings {
		f := &x.firings[i]
		if len(f.Skips) > 0 || f.Overlap != job.OverlapAllow && f.Overlap != "" {
			return false
		}
		for n := range f.Executions {
			if f.Executions[n].UniqueKey != "" {
				return false
			}
		}
	}
	return true
}

// rows returns the executions in the form of COPY.
func (x *volley) rows() page {
	p := page{sheet: liveTable.copies(make([]byte, 0, len(x.firings)*220), 0)}
	for i := range x.firings {
		f := &x.firings[i]
		for n := range f.Executions {
			p.execution(f.Tenant, &f.Executions[n], true)
			p.mark(i)
		}
	}
	return p
}

// copy stores executions when nothing conflicts: one that fired before does, by its unique index.
func (x *volley) copy(ctx context.Context, c *pgx.Conn, p *page) (out []job.Ready, err error) {
	err = pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		moved, err := chosen(tx.Query(ctx, moveSQL, x.args...))
		if err != nil {
			return err
		}
		if err := p.send(ctx, c, func(i int) bool { return moved[i] }); err != nil {
			return err
		}
		out = make([]job.Ready, 0, len(p.of))
		for i := range x.firings {
			f := &x.firings[i]
			for n := range f.Executions {
				if moved[i] {
					r := f.Executions[n].Ready()
					r.Tenant, r.DueAt = f.Tenant, r.DueAt.UTC().Truncate(time.Microsecond)
					out = append(out, r)
				}
			}
		}
		return failpoint.Hit("sched.afterInsertBeforeCommit")
	})
	return out, err
}

// chosen reads which firings, counted from 1, a statement chose.
func chosen(rows pgx.Rows, err error) (map[int]bool, error) {
	if err != nil {
		return nil, err
	}
	out, n := map[int]bool{}, 0
	_, err = pgx.ForEachRow(rows, []any{&n}, func() error {
		out[n-1] = true
		return nil
	})
	return out, err
}

// judge stores executions as their overlap policies and unique keys allow, and skipped ones.
func (x *volley) judge(ctx context.Context, c *pgx.Conn) (out []job.Ready, err error) {
	x.ended, x.more = nil, nil
	fire := func() error {
		all, err := collectReady(c.Query(ctx, fireJudgedSQL, append(slices.Clip(x.args), x.judgedArgs()...)...))
		if err != nil {
			return err
		}
		var skipped []engine.Ended
		out, skipped, err = partEnded(all)
		x.ended = append(x.ended, skipped...)
		return err
	}
	if !slices.ContainsFunc(x.firings, replaces) {
		err = hitting(ctx, c, "sched.afterInsertBeforeCommit", fire)
		return out, err
	}
	err = x.replace(ctx, c, func() ([]job.Ready, error) {
		err := fire()
		return out, err
	})
	return out, err
}

// overlapCode returns the code of a policy in fireJudgedSQL; 0 for one that skips nothing.
func overlapCode(o job.Overlap) int {
	switch o {
	case job.OverlapSkip:
		return 1
	case job.OverlapQueue:
		return 2
	}
	return 0
}

// moveArgs returns the parameters of moveSQL.
func moveArgs(fs []engine.Firing, x engine.Fence) []any {
	n := len(fs)
	tenants, parts, jobs, was, revisions, nexts, runs := texts(n), smallints(n), uuids(n), instants(n), ints(n), instants(n), bigints(n)
	for i := range fs {
		f := &fs[i]
		tenants.text(string(f.Tenant))
		parts.int2(int(job.PartitionOf(f.Job)))
		jobs.uuid(f.Job)
		was.time(f.Was)
		revisions.int4(f.Revision)
		nexts.time(f.Next)
		runs.int8(f.Runs)
	}
	return append(fenceArgs(x), tenants, parts, jobs, was, revisions, nexts, runs)
}

// judgedArgs returns the additional parameters of fireJudgedSQL.
func (x *volley) judgedArgs() []any {
	n := len(x.firings)
	spares, overlaps, firsts, lasts, untils := instants(n), smallints(n), ints(n), ints(n), ints(n)
	es := liveTable.arrays()
	var endings *array
	add := func(f *engine.Firing, e *job.Execution, ending []byte) {
		if endings = sparse(endings, byteas, es.rows, ending != nil); endings != nil {
			endings.bytes(ending)
		}
		es.execution(f.Tenant, e, true)
	}
	for i := range x.firings {
		f := &x.firings[i]
		spares.time(f.Spare)
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
	}
	args := []any{spares, overlaps, firsts, lasts, untils}
	for i, a := range es.sparse() {
		if _, ok := firedBy[liveTable.fields[i].name]; !ok {
			args = append(args, a)
		}
	}
	return append(args, endings, engine.Overlapped())
}

// heldUnique returns the end of the execution if another holds its unique key.
func heldUnique(e *job.Execution) []byte {
	if e.UniqueKey == "" {
		return nil
	}
	return engine.EncodeEnd(engine.HeldUnique(e.UniqueKey), nil)
}

// sparse starts an array at its first value that is not NULL.
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
