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

// where gathers conditions and their parameters, in order.
type where struct {
	conditions []string
	bindings   []func(*stmt)
}

// and adds a condition, in which ? stands for the value.
func (w *where) and(condition string, bind ...func(*stmt)) {
	w.conditions = append(w.conditions, condition)
	w.bindings = append(w.bindings, bind...)
}

// copy is the same conditions, to which others may be added.
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

// lateJobs are the schedules whose instant has come before one and has not fired.
const lateJobs = "FROM schedules INDEXED BY schedules_due WHERE active = 1 AND next_run_at IS NOT NULL AND next_run_at < ?"

// jobsWhere returns the condition of a filter. Where few jobs are late they are looked up; where many are, they are met on the way through all.
func jobsWhere(f engine.JobFilter, fewLate bool) *where {
	w := &where{}
	w.and("j.tenant = ?", text(string(f.Tenant)))
	switch f.State {
	case 0:
		w.and("j.state <> 4")
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

// fewLate reports whether late ones are wanted and no more are late than may be looked up one by one.
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

// jobsIndex is the index that finds most of a filter of jobs, and what it finds: those of a name, those that are paused or
// deleted, those of a type but for the IMMEDIATE ones, or all of the tenant.
func jobsIndex(f engine.JobFilter) (name string, w *where) {
	w = &where{}
	w.and("j.tenant = ?", text(string(f.Tenant)))
	switch {
	case f.Name != "":
		w.and("j.name = ?", text(f.Name))
		return " INDEXED BY jobs_name", w
	case f.State == job.Paused || f.State == job.Deleted:
		w.and(fmt.Sprintf("j.state = %d AND j.state IN (2, 4)", f.State))
		return " INDEXED BY jobs_aside", w
	case f.ScheduleType != 0 && f.ScheduleType != job.Immediate:
		w.and(fmt.Sprintf("j.kind = %d AND j.kind <> 1", f.ScheduleType))
		return " INDEXED BY jobs_kind", w
	}
	return "", w
}

// listJobs lists jobs, and ends early where few of very many are chosen.
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

// tallyTime limits how long counting past TotalExact may take.
const tallyTime = 50 * time.Millisecond

// tally counts a list of instants, newest first. Past TotalExact and out of
// time it takes the rest, back to the oldest, to lie as densely.
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

// fold makes texts that differ in case only the same.
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

// register gives statements mentions(folded, text, …): whether one of the texts holds the first, in any case; and
// says(text, ending): whether an ending's error does.
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
