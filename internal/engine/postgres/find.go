package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// found maps the driver's "no rows" to the error that callers know.
func found(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return engine.ErrNotFound
	}
	return err
}

// params holds the parameters of a statement under construction.
type params []any

// add adds a parameter and returns how the statement names it.
func (p *params) add(v any) string {
	*p = append(*p, v)
	return fmt.Sprintf("$%d", len(*p))
}

// jobsFound returns the part of a filter of jobs that an index handles: by name, state (paused or deleted), type
// (except IMMEDIATE), or all of the tenant.
func jobsFound(f engine.JobFilter, ps *params) string {
	w := "j.tenant = " + ps.add(string(f.Tenant))
	switch {
	case f.Workflows:
		w += ofWorkflow
	case f.Name != "":
		w += " AND j.name = " + ps.add(f.Name)
	case f.State == job.Paused || f.State == job.Deleted:
		w += fmt.Sprintf(" AND j.state = %d", f.State)
	case f.ScheduleType != 0 && f.ScheduleType != job.Immediate:
		w += fmt.Sprintf(" AND j.kind = %d AND j.state <> 5", f.ScheduleType)
	}
	return w
}

// ofWorkflow holds for workflows, whose targets begin with engine.WorkflowMark.
const ofWorkflow = ` AND substring(j.target FROM 1 FOR 15) = '\x7b226b223a22776f726b666c6f7722'::bytea`

// jobsChosen returns all conditions of a filter of jobs besides the tenant. If few jobs are late they are looked up;
// if many are, they are found on the way through all.
func jobsChosen(f engine.JobFilter, fewLate bool, ps *params) (w string) {
	switch f.State {
	case 0:
		w += " AND j.state < 4"
	case job.Active:
		w += " AND j.state = 1 AND (j.kind = 5 OR j.next_run_at IS NOT NULL OR " + lives + ")"
	case job.Completed:
		w += " AND (j.state = 3 OR j.state = 1 AND j.kind <> 5 AND j.next_run_at IS NULL AND NOT " + lives + ")"
	default:
		w += " AND j.state = " + ps.add(int16(f.State))
	}
	if f.ScheduleType != 0 {
		w += " AND j.kind = " + ps.add(int16(f.ScheduleType))
	}
	if f.Workflows {
		w += ofWorkflow
	}
	if f.Tag != "" {
		w += " AND j.tags @> ARRAY[" + ps.add(f.Tag) + "::text]"
	}
	if f.WithoutTag != "" { // if there are no tags they are NULL
		w += " AND (j.tags @> ARRAY[" + ps.add(f.WithoutTag) + "::text]) IS NOT TRUE"
	}
	if f.Name != "" {
		w += " AND j.name = " + ps.add(f.Name)
	}
	if f.Text != "" {
		like := " ILIKE " + ps.add(anywhere(f.Text))
		w += " AND (j.name" + like + " OR j.key" + like + " OR j.description" + like + ")"
	}
	if f.Owner != "" {
		w += " AND position(" + ps.add(engine.OwnerMark(f.Owner)) + "::bytea IN j.spec) > 0"
	}
	if f.LateBefore.IsZero() {
		return w
	}
	at := ps.add(f.LateBefore)
	if w += " AND j.state = 1 AND j.next_run_at < " + at; fewLate {
		w += " AND j.id = ANY (ARRAY(SELECT s.job " + lateJobs + at + " OFFSET 0) s))"
	}
	return w
}

// lateJobs selects the schedules whose instant came before a given one and has not fired, with an index lookup for
// each partition.
const lateJobs = `FROM generate_series(0, 63) p(part) CROSS JOIN LATERAL (
	SELECT s.job FROM schedules s WHERE s.part = p.part AND s.active AND s.next_run_at IS NOT NULL AND s.next_run_at < `

// fewLate reports whether late jobs are wanted and few enough are late to look them up one by one.
func (s *jobs) fewLate(ctx context.Context, f engine.JobFilter) (few bool, err error) {
	if f.LateBefore.IsZero() {
		return false, nil
	}
	err = s.look(ctx, "count jobs that are late", func(ctx context.Context, c *pgxpool.Conn) error {
		return c.QueryRow(ctx, "SELECT count(*) < $2 FROM (SELECT 1 "+lateJobs+"$1 LIMIT $2) s LIMIT $2) t", f.LateBefore, engine.TotalExact).Scan(&few)
	})
	return few, err
}

// anywhere returns the pattern of texts that contain a text.
func anywhere(text string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text) + "%"
}

// FindJobs lists jobs, newest first, without their statistics.
func (s *jobs) FindJobs(ctx context.Context, f engine.JobFilter, p engine.Page) (engine.JobPage, error) {
	few, err := s.fewLate(ctx, f)
	if err != nil {
		return engine.JobPage{}, err
	}
	if p.Bounded && !few {
		return s.listJobs(ctx, f, p)
	}
	var ps params
	w := "j.tenant = " + ps.add(string(f.Tenant)) + jobsChosen(f, few, &ps)
	from := "FROM " + listedJobs
	all, allParams := from+" WHERE "+w, ps
	if p.Cursor != "" {
		_, after, err := engine.DecodeCursor(p.Cursor)
		if err != nil {
			return engine.JobPage{}, err
		}
		w += " AND j.id < " + ps.add(after)
	}
	limit := max(p.Limit, 1)
	page := fmt.Sprintf("SELECT %s FROM (SELECT %s, j.payload %s WHERE %s ORDER BY j.id DESC LIMIT %d) j %s ORDER BY j.id DESC",
		jobColumns, definitionColumns, from, w, limit+1, waits)
	var out engine.JobPage
	err = s.look(ctx, "list jobs", func(ctx context.Context, c *pgxpool.Conn) error {
		out = engine.JobPage{}
		rows, _ := c.Query(ctx, page, ps...)
		var err error
		if out.Jobs, err = pgx.CollectRows(rows, scanJob); err != nil {
			return err
		}
		if len(out.Jobs) > limit {
			out.Jobs = out.Jobs[:limit]
			last := out.Jobs[limit-1]
			out.Next = engine.EncodeCursor(last.CreatedAt, last.ID)
		}
		if !p.Uncounted {
			out.Total, err = total(ctx, c, all, allParams)
		}
		return err
	})
	return out, err
}

// listJobs lists jobs, and ends early if few of very many match.
func (s *jobs) listJobs(ctx context.Context, f engine.JobFilter, p engine.Page) (engine.JobPage, error) {
	l := listing[job.Job]{table: "jobs j", from: listedJobs, key: []string{"j.id"}, scan: scanJob}
	l.where = jobsFound(f, &l.params)
	l.found = len(l.params)
	l.also = jobsChosen(f, false, &l.params)
	l.read = func(where, limit string) string {
		return fmt.Sprintf("SELECT %s FROM (SELECT %s, j.payload FROM %s WHERE %s LIMIT %s) j %s ORDER BY j.id DESC", jobColumns, definitionColumns, listedJobs, where, limit, waits)
	}
	l.keys = func(at engine.Place, ps *params) string { return ps.add([16]byte(at.ID)) }
	l.place = func(r pgx.Row) (engine.Place, error) {
		var id [16]byte
		err := r.Scan(&id)
		return engine.IDPlace(id), err
	}
	out, err := listed(ctx, s.database, "list jobs", p, func(j *job.Job) engine.Place { return engine.IDPlace(j.ID) }, l, nil)
	return engine.JobPage{Jobs: out.Rows, Next: out.Next, Partial: out.Partial, Total: out.Total}, err
}

// total counts what a FROM and WHERE select; beyond TotalExact it uses the planner's estimate.
func total(ctx context.Context, c *pgxpool.Conn, from string, ps params) (engine.Total, error) {
	var t engine.Total
	err := c.QueryRow(ctx, fmt.Sprintf("SELECT count(*) FROM (SELECT 1 %s LIMIT %d) t", from, engine.TotalExact+1), ps...).Scan(&t.Count)
	if err != nil || t.Count <= engine.TotalExact {
		return t, err
	}
	var text []byte
	if err := c.QueryRow(ctx, "EXPLAIN (FORMAT JSON) SELECT 1 "+from, ps...).Scan(&text); err != nil {
		return t, err
	}
	rows, err := planned(text)
	return engine.Total{Count: max(t.Count, rows), Estimate: true}, err
}
