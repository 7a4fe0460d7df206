package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"zombiezen.com/go/sqlite"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// where collects conditions and their parameters, in order.
type where struct {
	conditions []string
	bindings   []func(*stmt)
}

// and adds a condition, in which ? stands for the value.
func (w *where) and(condition string, bind ...func(*stmt)) {
	w.conditions = append(w.conditions, condition)
	w.bindings = append(w.bindings, bind...)
}

// copy returns the same conditions, to which others may be added.
func (w *where) copy() *where {
	return &where{slices.Clone(w.conditions), slices.Clone(w.bindings)}
}

func (w *where) String() string { return strings.Join(w.conditions, " AND ") }

func (w *where) bind(q *stmt) *stmt {
	for _, b := range w.bindings {
		b(q)
	}
	return q
}

func text(v string) func(*stmt)  { return func(q *stmt) { q.text(v) } }
func id(v [16]byte) func(*stmt)  { return func(q *stmt) { q.id(v) } }
func number(v int64) func(*stmt) { return func(q *stmt) { q.int(v) } }

// ofWorkflow holds for workflows, whose targets begin with engine.WorkflowMark.
const ofWorkflow = `substr(j.target, 1, 15) = x'7b226b223a22776f726b666c6f7722'`

// lateJobs selects the schedules whose instant came before a given one and has not fired.
const lateJobs = "FROM schedules INDEXED BY schedules_due WHERE active = 1 AND next_run_at IS NOT NULL AND next_run_at < ?"

// jobsWhere returns the conditions of a filter. If few jobs are late they are looked up; if many are, they are found
// on the way through all.
func jobsWhere(f engine.JobFilter, fewLate bool) *where {
	w := &where{}
	w.and("j.tenant = ?", text(string(f.Tenant)))
	switch f.State {
	case 0:
		w.and("j.state < 4")
	case job.Active:
		w.and("j.state = 1 AND NOT " + completed)
	case job.Completed:
		w.and("(j.state = 3 OR j.state = 1 AND " + completed + ")")
	default:
		w.and("j.state = ?", number(int64(f.State)))
	}
	if f.ScheduleType != 0 {
		w.and("j.kind = ?", number(int64(f.ScheduleType)))
	}
	if f.Workflows {
		w.and(ofWorkflow)
	}
	if f.Tag != "" {
		w.and("EXISTS (SELECT 1 FROM json_each(j.tags) WHERE value = ?)", text(f.Tag))
	}
	if f.WithoutTag != "" {
		w.and("NOT EXISTS (SELECT 1 FROM json_each(j.tags) WHERE value = ?)", text(f.WithoutTag))
	}
	if f.Name != "" {
		w.and("j.name = ?", text(f.Name))
	}
	if f.Text != "" {
		w.and("mentions(?, j.name, j.key, j.description)", text(fold(f.Text)))
	}
	if f.Owner != "" {
		w.and("instr(j.spec, ?) > 0", func(q *stmt) { q.bytes(engine.OwnerMark(f.Owner)) })
	}
	switch late := number(f.LateBefore.UnixMicro()); {
	case f.LateBefore.IsZero():
	case fewLate:
		w.and("j.state = 1 AND j.id IN (SELECT job "+lateJobs+")", late)
	default:
		w.and("j.state = 1 AND +s.next_run_at < ?", late)
	}
	return w
}

// FindJobs lists jobs, newest first.
func (s *jobs) FindJobs(ctx context.Context, f engine.JobFilter, p engine.Page) (engine.JobPage, error) {
	few, err := s.fewLate(ctx, f)
	if err != nil {
		return engine.JobPage{}, err
	}
	if p.Bounded && !few {
		return s.listJobs(ctx, f, p)
	}
	w := jobsWhere(f, few)
	all := *w
	if p.Cursor != "" {
		_, after, err := engine.DecodeCursor(p.Cursor)
		if err != nil {
			return engine.JobPage{}, err
		}
		w.and("j.id < ?", id(after))
	}
	limit := max(p.Limit, 1)
	var out engine.JobPage
	err = s.look(ctx, "list jobs", func(c *conn) error {
		q := c.prepare("SELECT " + jobColumns + " FROM " + plannedJobs + " WHERE " + w.String() + " ORDER BY j.id DESC LIMIT ?")
		err := w.bind(q).int(int64(limit) + 1).each(func(r *row) error {
			j, err := readJob(r)
			out.Jobs = append(out.Jobs, j)
			return err
		})
		if err != nil {
			return err
		}
		whole := len(out.Jobs) <= limit && p.Cursor == "" || p.Uncounted
		if len(out.Jobs) > limit {
			out.Jobs = out.Jobs[:limit]
			last := out.Jobs[limit-1]
			out.Next = engine.EncodeCursor(last.CreatedAt, last.ID)
		}
		if whole {
			out.Total.Count = int64(len(out.Jobs))
			return nil
		}
		out.Total, err = tally(
			all.bind(c.prepare("SELECT j.created_at FROM "+plannedJobs+" WHERE "+all.String()+" ORDER BY j.id DESC")),
			c.prepare("SELECT created_at FROM jobs WHERE tenant = ? ORDER BY id LIMIT 1").text(string(f.Tenant)))
		return err
	})
	if err != nil {
		return engine.JobPage{}, err
	}
	return out, nil
}

// fewLate reports whether late jobs are wanted and few enough are late to look them up one by one.
func (s *jobs) fewLate(ctx context.Context, f engine.JobFilter) (few bool, err error) {
	if f.LateBefore.IsZero() {
		return false, nil
	}
	err = s.look(ctx, "count jobs that are late", func(c *conn) error {
		_, err := c.prepare("SELECT count(*) FROM (SELECT 1 " + lateJobs + " LIMIT ?)").int(f.LateBefore.UnixMicro()).int(countedLate).first(func(r *row) error {
			few = r.int64() < countedLate
			return nil
		})
		return err
	})
	return few, err
}

// jobsIndex returns the index that handles most of a filter of jobs, and its conditions: by name, state (paused or
// deleted), type (except IMMEDIATE), or all of the tenant.
func jobsIndex(f engine.JobFilter) (name string, w *where) {
	w = &where{}
	w.and("j.tenant = ?", text(string(f.Tenant)))
	switch {
	case f.Workflows:
		w.and(ofWorkflow)
		return " INDEXED BY jobs_workflows", w
	case f.Name != "":
		w.and("j.name = ?", text(f.Name))
		return " INDEXED BY jobs_name", w
	case f.State == job.Paused || f.State == job.Deleted:
		w.and(fmt.Sprintf("j.state = %d AND j.state IN (2, 4)", f.State))
		return " INDEXED BY jobs_aside", w
	case f.ScheduleType != 0 && f.ScheduleType != job.Immediate:
		w.and(fmt.Sprintf("j.kind = %d AND j.kind <> 1 AND j.state <> 5", f.ScheduleType))
		return " INDEXED BY jobs_kind", w
	}
	return "", w
}

// listJobs lists jobs, and ends early if few of very many match.
func (s *jobs) listJobs(ctx context.Context, f engine.JobFilter, p engine.Page) (engine.JobPage, error) {
	by, index := jobsIndex(f)
	from := "jobs j" + by + " LEFT JOIN schedules s ON s.job = j.id"
	all := index.copy()
	chosen := jobsWhere(f, false)
	all.and(chosen.String(), chosen.bindings...)
	var out engine.Listed[job.Job]
	err := s.look(ctx, "list jobs", func(c *conn) (err error) {
		out, err = engine.List(p, listing[job.Job]{
			c: c, table: "jobs j" + by, index: index, all: all, asked: from, from: from, columns: jobColumns, key: []string{"j.id"}, at: "j.created_at",
			read: readJob, keys: func(p engine.Place) []func(*stmt) { return []func(*stmt){id(p.ID)} }, place: func(r *row) engine.Place { return engine.IDPlace(r.id()) },
		}, func(j *job.Job) engine.Place { return engine.IDPlace(j.ID) })
		return err
	})
	return engine.JobPage{Jobs: out.Rows, Next: out.Next, Partial: out.Partial, Total: out.Total}, err
}

// tallyTime limits how long counting beyond TotalExact may take.
const tallyTime = 50 * time.Millisecond

// tally counts a list of instants, newest first. Beyond TotalExact and out of time it assumes that the rest, back to
// the oldest, is as dense.
func tally(list, oldest *stmt) (engine.Total, error) {
	var t engine.Total
	var newest, last int64
	over := false
	begun := time.Now()
	_, err := list.until(func(r *row) (bool, error) {
		last = r.int64()
		if t.Count == 0 {
			newest = last
		}
		t.Count++
		over = t.Count > engine.TotalExact && t.Count%1000 == 0 && time.Since(begun) > tallyTime
		return over, nil
	})
	if err != nil || !over {
		return t, err
	}
	t.Estimate = true
	_, err = oldest.first(func(r *row) error {
		if seen, whole := float64(newest-last), float64(newest-r.int64()); seen > 0 && whole > seen {
			t.Count = int64(float64(t.Count) * whole / seen)
		}
		return nil
	})
	return t, err
}

// fold maps texts that differ only in case to the same text.
func fold(s string) string { return strings.Map(foldRune, s) }

func foldRune(r rune) rune {
	if r <= unicode.MaxASCII {
		if 'a' <= r && r <= 'z' {
			r -= 'a' - 'A'
		}
		return r
	}
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return least
}

// register adds SQL functions: mentions(folded, text, …) reports whether one of the texts contains the first,
// ignoring case; says(text, ending) whether the error of an end does.
func register(c *sqlite.Conn) error {
	truth := func(is bool) sqlite.Value {
		if is {
			return sqlite.IntegerValue(1)
		}
		return sqlite.IntegerValue(0)
	}
	err := c.CreateFunction("mentions", &sqlite.FunctionImpl{
		NArgs: -1, Deterministic: true,
		Scalar: func(_ sqlite.Context, args []sqlite.Value) (sqlite.Value, error) {
			for _, a := range args[1:] {
				if strings.Contains(fold(a.Text()), args[0].Text()) {
					return truth(true), nil
				}
			}
			return truth(false), nil
		},
	})
	if err != nil {
		return err
	}
	return c.CreateFunction("says", &sqlite.FunctionImpl{
		NArgs: 2, Deterministic: true,
		Scalar: func(_ sqlite.Context, args []sqlite.Value) (sqlite.Value, error) {
			why, _, err := engine.DecodeEnd(args[1].Blob())
			return truth(why != nil && why.Mentions(args[0].Text())), err
		},
	})
}
