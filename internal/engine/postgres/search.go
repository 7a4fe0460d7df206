package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// searching makes a transaction read one snapshot, through indexes in their order: what an index returns in order is
// never sorted, however few rows the planner expects.
const searching = `
	SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;
	SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off; SET LOCAL enable_hashjoin = off;
	SET LOCAL enable_mergejoin = off; SET LOCAL enable_material = off; SET LOCAL max_parallel_workers_per_gather = 0`

// FindExecutions lists executions of a tenant or a job, those with the latest scheduled time first.
func (s *reads) FindExecutions(ctx context.Context, f engine.ExecutionFilter, p engine.Page) (engine.ExecutionPage, error) {
	var out engine.ExecutionPage
	err := s.look(ctx, "list executions", func(ctx context.Context, c *pgxpool.Conn) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, searching); err != nil {
				return err
			}
			bs, err := branches(ctx, tx, f)
			if err != nil {
				return err
			}
			sources := make([]engine.Source, len(bs))
			for i := range bs {
				sources[i] = source{ctx, tx, bs[i], f, p.Bounded}
			}
			out, err = engine.Search(&f, p, sources)
			return err
		})
	})
	return out, err
}

// branch is a part of a list of executions that a separate index finds.
type branch struct {
	table   string
	from    string // what of it is read, as v
	columns string
	where   string // what the index finds
	also    string // what else is to hold, of v
	ofJob   string // and of the job j
	params  params
	found   int // how many of the conditions the index handles
}

// branches returns the parts of a list: in each of the two tables the tenant's executions or, if few jobs are
// requested, for each of these its own fire, which has its id, and all others.
func branches(ctx context.Context, tx pgx.Tx, f engine.ExecutionFilter) ([]branch, error) {
	if !f.Job.IsZero() {
		return jobBranches(f, f.Job), nil
	}
	if f.Tag == "" && f.JobName == "" {
		return tenantBranches(f), nil
	}
	few, ok, err := fewJobs(ctx, tx, f)
	if err != nil || !ok {
		return tenantBranches(f), err
	}
	var out []branch
	for _, id := range few {
		out = append(out, jobBranches(f, id)...)
	}
	return out, nil
}

const (
	fewLook = 10_000 // jobs examined for those that a filter of executions names
	fewMost = 16
)

// fewJobs lists the jobs that a filter of executions names, unless the tenant has too many jobs to search for a tag,
// or too many match.
func fewJobs(ctx context.Context, tx pgx.Tx, f engine.ExecutionFilter) (few []job.ID, ok bool, err error) {
	if f.Tag != "" { // by name an index finds them
		var more bool
		err = tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM jobs WHERE tenant = $1 ORDER BY id OFFSET $2)", string(f.Tenant), fewLook).Scan(&more)
		if err != nil || more {
			return nil, false, err
		}
	}
	ps := params{string(f.Tenant)}
	rows, _ := tx.Query(ctx, fmt.Sprintf("SELECT j.id FROM jobs j WHERE j.tenant = $1%s LIMIT %d", jobsOf(f, &ps), fewMost+1), ps...)
	few, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (id job.ID, err error) {
		err = r.Scan((*[16]byte)(&id))
		return id, err
	})
	return few, len(few) <= fewMost, err
}

// tables returns the tables that may contain matches of a filter.
func tables(f engine.ExecutionFilter) (out []string) {
	live, past := f.Tables()
	if live {
		out = append(out, "live", "bundles")
	}
	if past {
		out = append(out, "executions")
	}
	return out
}

func tenantBranches(f engine.ExecutionFilter) (out []branch) {
	for _, table := range tables(f) {
		b := newBranch(table, f)
		switch {
		case table != "executions":
			b.where += " AND v.priority > 0"
		case f.Unwell():
			b.where += " AND v.status > 10"
		default:
			b.where += " AND v.status > 0"
		}
		b.choose(f)
		out = append(out, b)
	}
	return out
}

func jobBranches(f engine.ExecutionFilter, id job.ID) (out []branch) {
	for _, table := range tables(f) {
		own, others := newBranch(table, f), newBranch(table, f)
		if table == "bundles" { // which contains only its own fire
			own.from = "(" + memberOf + own.params.add([16]byte(id)) + "::uuid" + inBundle + ")"
			own.where += " AND NOT v.tally"
			own.choose(f)
			out = append(out, own)
			continue
		}
		own.from = "(SELECT * FROM " + table + " WHERE id = " + own.params.add([16]byte(id)) + " OFFSET 0)" // so that no index in the order of the list is used
		own.where += " AND NOT v.tally"
		others.where += " AND v.job = " + others.params.add([16]byte(id)) + " AND v.tally"
		own.choose(f)
		others.choose(f)
		out = append(out, own, others)
	}
	return out
}

// newBranch begins a branch with the conditions that every index handles.
func newBranch(table string, f engine.ExecutionFilter) branch {
	b := branch{table: table, from: table, columns: liveColumns}
	if table == "executions" {
		b.columns = pastColumns
	}
	b.where = "v.tenant = " + b.params.add(string(f.Tenant))
	if !f.From.IsZero() {
		b.where += " AND v.scheduled_at >= " + b.params.add(f.From)
	}
	if !f.Until.IsZero() {
		b.where += " AND v.scheduled_at < " + b.params.add(f.Until)
	}
	if !f.Kept.IsZero() && table == "executions" {
		b.where += " AND v.finished_at >= " + b.params.add(f.Kept)
	}
	if !f.OwnAsOf.IsZero() && table == "executions" {
		b.where += fmt.Sprintf(keptSQL, b.params.add(f.OwnAsOf.UTC().Truncate(24*time.Hour)))
	}
	return b
}

// choose adds the other conditions.
func (b *branch) choose(f engine.ExecutionFilter) {
	b.found = len(b.params)
	status, failed := "v.status", "v.status > 10 OR "
	if b.table != "executions" {
		status, failed = liveStatus, "" // the reasons of failed attempts are not searched
	}
	if len(f.Statuses) > 0 {
		list := smallints(0)
		for _, x := range f.Statuses {
			if x.Final() == (b.table == "executions") {
				list.int2(int(x))
			}
		}
		b.also += " AND " + status + " = ANY (" + b.params.add(list) + "::int2[])"
	}
	if len(f.Triggers) > 0 {
		list := smallints(0)
		for _, t := range f.Triggers {
			list.int2(int(t))
		}
		b.also += " AND v.trigger = ANY (" + b.params.add(list) + "::int2[])"
	}
	if !f.Finished.IsZero() {
		b.also += " AND v.finished_at >= " + b.params.add(f.Finished)
	}
	if !f.Worker.IsZero() {
		b.also += " AND v.worker = " + b.params.add([16]byte(f.Worker))
	}
	b.ofJob = jobsOf(f, &b.params)
	if f.Text != "" { // which is searched here only as far as that is quick
		b.ofJob += " AND (" + failed + "j.name ILIKE " + b.params.add(anywhere(f.Text)) + ")"
	}
}

// jobsOf returns a filter's conditions on the jobs of executions.
func jobsOf(f engine.ExecutionFilter, ps *params) (out string) {
	if f.Tag != "" {
		out += " AND j.tags @> ARRAY[" + ps.add(f.Tag) + "::text]"
	}
	if f.JobName != "" {
		out += " AND j.name = " + ps.add(f.JobName)
	}
	return out
}

// source reads a branch in a transaction.
type source struct {
	ctx context.Context
	tx  pgx.Tx
	branch
	filter  engine.ExecutionFilter
	bounded bool
}

// within adds a span to the conditions of the index, and to its parameters or to all.
func (b branch) within(in engine.Span, of params) (from, where string, ps params) {
	from, where, ps = b.from, b.where, slices.Clone(of)
	var span, bundles string
	if !in.After.IsZero() {
		at := "(" + ps.add(in.After.At) + ", " + ps.add([16]byte(in.After.ID)) + ")"
		span += " AND (v.scheduled_at, v.id) < " + at
		bundles += " AND (v.scheduled_at, v.key) <= " + at
	}
	if !in.Until.IsZero() {
		at := ps.add(in.Until.At)
		span += " AND (v.scheduled_at, v.id) >= (" + at + ", " + ps.add([16]byte(in.Until.ID)) + ")"
		if from == "bundles" {
			bundles += " AND (v.scheduled_at, v.key) >= (" + at + ", " + ps.add(job.BundleOf(in.Until.ID)) + ")"
		}
	}
	if from == "bundles" { // expanded in order, which a loop over them keeps
		from = "(SELECT " + memberColumns + " FROM (SELECT * FROM bundles v WHERE " + where + bundles + " ORDER BY v.scheduled_at DESC, v.key DESC) b" +
			" CROSS JOIN LATERAL (SELECT b.ids[i] AS id FROM generate_subscripts(b.ids, 1, true) i) u WHERE " + isOpen + ")"
		where = "true"
	}
	return from, where + span, ps
}

// ordered returns the order of the list, unless rows come in it anyway.
func (b branch) ordered() string {
	if b.from == "bundles" {
		return ""
	}
	return " ORDER BY v.scheduled_at DESC, v.id DESC"
}

const (
	// itsJob is the job of an execution: it is looked up for each, and never the other way around, by name.
	itsJob = " LEFT JOIN LATERAL (SELECT name, tags FROM jobs WHERE tenant = v.tenant AND id = v.job OFFSET 0) j ON true"
)

func (b branch) nthSQL(after engine.Place, n int) (string, params) {
	from, where, ps := b.within(engine.Span{After: after}, b.params[:b.found])
	return "SELECT v.scheduled_at, v.id FROM " + from + " v WHERE " + where + b.ordered() + " LIMIT 1 OFFSET " + ps.add(n-1), ps
}

func (b branch) readSQL(in engine.Span, limit int) (string, params) {
	from, where, ps := b.within(in, b.params)
	rows := "SELECT " + b.columns + " FROM " + from + " v WHERE " + where + b.also
	if b.ofJob == "" { // a deleted job has no name
		rows += b.ordered() + " LIMIT " + ps.add(limit)
		return "SELECT " + executionColumns + " FROM (" + rows + ") v LEFT JOIN jobs j ON j.tenant = v.tenant AND j.id = v.job" + b.ordered(), ps
	}
	return "SELECT " + executionColumns + " FROM (" + rows + ") v" + itsJob + " WHERE true" + b.ofJob + b.ordered() + " LIMIT " + ps.add(limit), ps
}

func (b branch) countSQL(in engine.Span, limit int) (string, params) {
	table, where, ps := b.within(in, b.params)
	from := table + " v WHERE " + where + b.also
	if b.ofJob != "" {
		from = table + " v" + itsJob + " WHERE " + where + b.also + b.ofJob
	}
	return "SELECT count(*) FROM (SELECT 1 FROM " + from + " LIMIT " + ps.add(limit) + ") v", ps
}

// Nth returns the place of the n-th row after a place.
func (s source) Nth(after engine.Place, n int) (at engine.Place, err error) {
	sql, ps := s.nthSQL(after, n)
	err = s.tx.QueryRow(s.ctx, sql, ps...).Scan(&at.At, (*[16]byte)(&at.ID))
	if err == pgx.ErrNoRows {
		return engine.Place{}, nil
	}
	at.At = at.At.UTC()
	return at, err
}

// Read lists up to limit rows of a span, or fewer if they are long.
func (s source) Read(in engine.Span, limit int) (out []job.Execution, err error) {
	bytes := 0
	err = s.each(in, limit, func(e job.Execution) (enough bool) {
		out = append(out, e)
		bytes += engine.Bytes(&e)
		return len(out) >= limit || s.bounded && bytes >= engine.PageBytes
	})
	return out, err
}

// each calls f with the rows of a span until that has enough; there may be fewer than limit.
func (s source) each(in engine.Span, limit int, f func(job.Execution) (enough bool)) error {
	if s.filter.Text != "" { // which the statement does not search everywhere
		limit = 1 << 30
	}
	sql, ps := s.readSQL(in, limit)
	rows, err := s.tx.Query(s.ctx, sql, ps...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		e, err := scanExecution(rows)
		if err != nil {
			return err
		}
		if s.filter.Mentions(&e) && f(e) {
			break
		}
	}
	rows.Close()
	return rows.Err()
}

// Count counts up to limit of a span.
func (s source) Count(in engine.Span, limit int) (n int64, err error) {
	if s.filter.Text != "" {
		err = s.each(in, limit, func(job.Execution) bool { n++; return n >= int64(limit) })
		return n, err
	}
	sql, ps := s.countSQL(in, limit)
	err = s.tx.QueryRow(s.ctx, sql, ps...).Scan(&n)
	return n, err
}

// Rows returns the planner's estimate of how many there are.
func (s source) Rows() (int64, error) {
	var text []byte
	sql := "EXPLAIN (FORMAT JSON) SELECT 1 FROM " + s.from + " v WHERE " + s.where
	if err := s.tx.QueryRow(s.ctx, sql, s.params[:s.found]...).Scan(&text); err != nil {
		return 0, err
	}
	n, err := planned(text)
	if s.from == "bundles" {
		n *= job.Bundle
	}
	return n, err
}

// planned returns how many rows a plan expects.
func planned(text []byte) (int64, error) {
	var plans []struct {
		Plan struct {
			Rows float64 `json:"Plan Rows"`
		}
	}
	if err := json.Unmarshal(text, &plans); err != nil || len(plans) != 1 {
		return 0, fmt.Errorf("read a plan: %w", err)
	}
	return int64(plans[0].Plan.Rows), nil
}
