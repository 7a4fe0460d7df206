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

// found gives the driver's word for nothing the name that callers know.
func found(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return engine.ErrNotFound
	}
	return err
}

// params are the parameters of a statement that is put together.
type params []any

// add adds a parameter and returns how the statement names it.
func (p *params) add(v any) string {
	*p = append(*p, v)
	return fmt.Sprintf("$%d", len(*p))
}

// jobConditions are what a filter chooses. Where few are late they are looked up; where many are, they are met on the way through all.
func jobConditions(f engine.JobFilter, fewLate bool, ps *params) string {
	w := "j.tenant = " + ps.add(string(f.Tenant))
	switch f.State {
	case 0:
		w += " AND j.state <> 4"
	case job.Active:
		w += " AND j.state = 1 AND NOT " + completed
	case job.Completed:
		w += " AND (j.state = 3 OR j.state = 1 AND " + completed + ")"
	default:
		w += " AND j.state = " + ps.add(int16(f.State))
	}
	if f.ScheduleType != 0 {
		w += " AND j.kind = " + ps.add(int16(f.ScheduleType))
	}
	if f.Tag != "" {
		w += " AND j.tags @> ARRAY[" + ps.add(f.Tag) + "::text]"
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

// lateJobs are the schedules whose instant has come before one and has not fired: a look into the index for each partition.
const lateJobs = `FROM generate_series(0, 63) p(part) CROSS JOIN LATERAL (
	SELECT s.job FROM schedules s WHERE s.part = p.part AND s.active AND s.next_run_at IS NOT NULL AND s.next_run_at < `

// fewLate reports whether no more are late than may be looked up one by one.
func fewLate(ctx context.Context, c *pgxpool.Conn, f engine.JobFilter) (few bool, err error) {
	if f.LateBefore.IsZero() {
		return false, nil
	}
	err = c.QueryRow(ctx, "SELECT count(*) < $2 FROM (SELECT 1 "+lateJobs+"$1 LIMIT $2) s LIMIT $2) t", f.LateBefore, engine.TotalExact).Scan(&few)
	return few, err
}

// anywhere is the pattern of what holds a text.
func anywhere(text string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text) + "%"
}

// FindJobs lists jobs, the newest first, without their statistics.
func (s *Store) FindJobs(ctx context.Context, f engine.JobFilter, p engine.Page) (engine.JobPage, error) {
	from := "FROM " + listedJobs
	if f.State == job.Active || f.State == job.Completed {
		from += waits
	}
	var after [16]byte
	if p.Cursor != "" {
		var err error
		if _, after, err = engine.DecodeCursor(p.Cursor); err != nil {
			return engine.JobPage{}, err
		}
	}
	limit := max(p.Limit, 1)
	var out engine.JobPage
	err := s.look(ctx, "list jobs", func(ctx context.Context, c *pgxpool.Conn) error {
		out = engine.JobPage{}
		few, err := fewLate(ctx, c, f)
		if err != nil {
			return err
		}
		var ps params
		w := jobConditions(f, few, &ps)
		all, allParams := from+" WHERE "+w, ps
		if p.Cursor != "" {
			w += " AND j.id < " + ps.add(after)
		}
		rows, _ := c.Query(ctx, fmt.Sprintf("SELECT %s FROM (SELECT %s, j.payload %s WHERE %s ORDER BY j.id DESC LIMIT %d) j %s ORDER BY j.id DESC",
			jobColumns, definitionColumns, from, w, limit+1, waits), ps...)
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

// total counts what a FROM and WHERE choose; past TotalExact it takes the planner's word.
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
