package sqlite

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// FindExecutions lists executions of a tenant or a job, those with the latest scheduled time first.
func (s *reads) FindExecutions(ctx context.Context, f engine.ExecutionFilter, p engine.Page) (engine.ExecutionPage, error) {
	var out engine.ExecutionPage
	err := s.look(ctx, "list executions", func(c *conn) error {
		bs, err := branches(c, f)
		if err != nil {
			return err
		}
		sources := make([]engine.Source, len(bs))
		for i := range bs {
			sources[i] = source{c, bs[i], p.Bounded}
		}
		if out, err = engine.Search(&f, p, sources); err != nil {
			return err
		}
		names := map[job.ID]string{}
		for i := range out.Executions {
			e := &out.Executions[i]
			if _, ok := names[e.Job]; !ok {
				if names[e.Job], err = jobName(c, e.Tenant, e.Job); err != nil {
					return err
				}
			}
			e.JobName = names[e.Job]
		}
		return nil
	})
	if err != nil {
		return engine.ExecutionPage{}, err
	}
	return out, nil
}

// branch is a part of a list of executions that a separate index finds.
type branch struct {
	from, columns, status string
	index                 *where // what the index finds
	all                   *where // and what else is to hold
	own                   bool   // what a job fired when it was created, which has the job's id: there is at most one
}

// branches returns the parts of a list: in each of the two tables the tenant's executions or, if few jobs are
// requested, for each of these its own fire, which has its id, and all others.
func branches(c *conn, f engine.ExecutionFilter) ([]branch, error) {
	if !f.Job.IsZero() {
		return jobBranches(f, f.Job), nil
	}
	if f.Tag == "" && f.JobName == "" {
		return tenantBranches(f), nil
	}
	few, ok, err := fewJobs(c, f)
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

	manyJobsSQL = "SELECT 1 FROM jobs WHERE tenant = ? ORDER BY id LIMIT 1 OFFSET ?"
)

// fewJobs lists the jobs that a filter of executions names, unless the tenant has too many jobs to search for a tag,
// or too many match.
func fewJobs(c *conn, f engine.ExecutionFilter) (few []job.ID, ok bool, err error) {
	if f.Tag != "" { // by name an index finds them
		many, err := c.prepare(manyJobsSQL).text(string(f.Tenant)).int(fewLook).first(nothing)
		if err != nil || many {
			return nil, false, err
		}
	}
	w := &where{}
	w.and("j.tenant = ?", text(string(f.Tenant)))
	jobsOf(f, w)
	err = w.bind(c.prepare("SELECT j.id FROM jobs j WHERE " + w.String() + " LIMIT ?")).int(fewMost + 1).each(func(r *row) error {
		few = append(few, r.id())
		return nil
	})
	return few, len(few) <= fewMost, err
}

func tenantBranches(f engine.ExecutionFilter) (out []branch) {
	live, past := f.Tables()
	if live {
		out = append(out, newBranch(f, branch{from: "live v INDEXED BY live_tenant", columns: liveColumns, status: liveStatus}, "v.priority > 0"))
	}
	switch {
	case !past:
	case f.Unwell():
		out = append(out, newBranch(f, branch{from: "executions v INDEXED BY executions_ill", columns: pastColumns, status: "v.status"}, "v.status > 10"))
	default:
		out = append(out, newBranch(f, branch{from: "executions v INDEXED BY executions_tenant", columns: pastColumns, status: "v.status"}, "v.status > 0"))
	}
	return out
}

func jobBranches(f engine.ExecutionFilter, of job.ID) (out []branch) {
	live, past := f.Tables()
	add := func(b branch, ownFrom string) {
		out = append(out, newBranch(f, b, "v.job = ? AND v.id <> v.job", id(of)))
		b.from, b.own = ownFrom, true
		out = append(out, newBranch(f, b, "v.id = ? AND v.id = v.job", id(of)))
	}
	if live {
		add(branch{from: "live v INDEXED BY live_fire", columns: liveColumns, status: liveStatus}, "live v")
	}
	if past {
		add(branch{from: "executions v INDEXED BY executions_job", columns: pastColumns, status: "v.status"}, "executions v INDEXED BY executions_id")
	}
	return out
}

// newBranch completes a branch with its conditions.
func newBranch(f engine.ExecutionFilter, b branch, which string, bind ...func(*stmt)) branch {
	b.index = &where{}
	b.index.and(which, bind...)
	b.index.and("v.tenant = ?", text(string(f.Tenant)))
	if !f.From.IsZero() {
		b.index.and("v.scheduled_at >= ?", number(f.From.UnixMicro()))
	}
	if !f.Until.IsZero() {
		b.index.and("v.scheduled_at < ?", number(f.Until.UnixMicro()))
	}
	if !f.Kept.IsZero() && b.status == "v.status" {
		b.index.and("v.finished_at >= ?", number(f.Kept.UnixMicro()))
	}
	if !f.OwnAsOf.IsZero() && b.status == "v.status" {
		b.index.and(keptSQL, number(f.OwnAsOf.UTC().Truncate(24*time.Hour).UnixMicro()))
	}
	b.all = b.index.copy()
	if len(f.Statuses) > 0 {
		mask := int64(0)
		for _, x := range f.Statuses {
			mask |= 1 << x
		}
		b.all.and("(1 << "+b.status+") & ? <> 0", number(mask))
	}
	if len(f.Triggers) > 0 {
		mask := int64(0)
		for _, x := range f.Triggers {
			mask |= 1 << x
		}
		b.all.and("(1 << v.trigger) & ? <> 0", number(mask))
	}
	if !f.Finished.IsZero() {
		b.all.and("v.finished_at >= ?", number(f.Finished.UnixMicro()))
	}
	if !f.Worker.IsZero() {
		b.all.and("v.worker = ?", id(f.Worker))
	}
	if f.Tag != "" || f.JobName != "" {
		j := &where{}
		jobsOf(f, j)
		b.all.and(itsJob+" AND "+j.String()+")", j.bindings...)
	}
	switch {
	case f.Text == "":
	case b.status == "v.status":
		b.all.and("(v.status > 10 AND says(?, v.ending) OR "+itsJob+" AND mentions(?, j.name)))", text(f.Text), text(fold(f.Text)))
	default: // the reasons of failed attempts are not searched
		b.all.and(itsJob+" AND mentions(?, j.name))", text(fold(f.Text)))
	}
	return b
}

const itsJob = "EXISTS (SELECT 1 FROM jobs j WHERE j.tenant = v.tenant AND j.id = v.job"

// jobsOf adds a filter's conditions on the jobs of executions.
func jobsOf(f engine.ExecutionFilter, w *where) {
	if f.Tag != "" {
		w.and("EXISTS (SELECT 1 FROM json_each(j.tags) WHERE value = ?)", text(f.Tag))
	}
	if f.JobName != "" {
		w.and("j.name = ?", text(f.JobName))
	}
}

// source reads a branch.
type source struct {
	c *conn
	branch
	bounded bool
}

// within adds a span to conditions.
func within(w *where, in engine.Span) *where {
	w = w.copy()
	if !in.After.IsZero() {
		w.and("(v.scheduled_at, v.id) < (?, ?)", number(in.After.At.UnixMicro()), id(in.After.ID))
	}
	if !in.Until.IsZero() {
		w.and("(v.scheduled_at, v.id) >= (?, ?)", number(in.Until.At.UnixMicro()), id(in.Until.ID))
	}
	return w
}

const inOrder = " ORDER BY v.scheduled_at DESC, v.id DESC LIMIT ?"

func (b branch) nthSQL(w *where) string {
	return "SELECT v.scheduled_at, v.id FROM " + b.from + " WHERE " + w.String() + inOrder + " OFFSET ?"
}

func (b branch) readSQL(w *where) string {
	return "SELECT " + b.columns + " FROM " + b.from + " WHERE " + w.String() + inOrder
}

func (b branch) countSQL(w *where) string {
	return "SELECT count(*) FROM (SELECT 1 FROM " + b.from + " WHERE " + w.String() + inOrder + ")"
}

// Nth returns the place of the n-th row after a place.
func (s source) Nth(after engine.Place, n int) (at engine.Place, err error) {
	w := within(s.index, engine.Span{After: after})
	_, err = w.bind(s.c.prepare(s.nthSQL(w))).int(1).int(int64(n - 1)).first(func(r *row) error {
		at = engine.Place{At: r.at(), ID: r.id()}
		return nil
	})
	return at, err
}

// Read lists up to limit rows of a span, or fewer if they are long.
func (s source) Read(in engine.Span, limit int) (out []job.Execution, err error) {
	w := within(s.all, in)
	bytes := 0
	_, err = w.bind(s.c.prepare(s.readSQL(w))).int(int64(limit)).until(func(r *row) (bool, error) {
		e, err := readExecution(r)
		out = append(out, e)
		bytes += engine.Bytes(&e)
		return s.bounded && bytes >= engine.PageBytes, err
	})
	return out, err
}

// Count counts up to limit of a span.
func (s source) Count(in engine.Span, limit int) (n int64, err error) {
	w := within(s.all, in)
	_, err = w.bind(s.c.prepare(s.countSQL(w))).int(int64(limit)).first(func(r *row) error {
		n = r.int64()
		return nil
	})
	return n, err
}

// Rows assumes that all are as dense as the newest.
func (s source) Rows() (int64, error) {
	const look = engine.TotalExact
	place := func(order string, skip int64) (at time.Time, err error) {
		sql := "SELECT v.scheduled_at FROM " + s.from + " WHERE " + s.index.String() + " ORDER BY v.scheduled_at" + order + " LIMIT 1 OFFSET ?"
		_, err = s.index.bind(s.c.prepare(sql)).int(skip).first(func(r *row) error {
			at = r.at()
			return nil
		})
		return at, err
	}
	newest, err := place(" DESC", 0)
	if err != nil {
		return 0, err
	}
	seen, err := place(" DESC", look-1)
	if err != nil || seen.IsZero() {
		return 0, err
	}
	oldest, err := place("", 0)
	if d := newest.Sub(seen); d > 0 {
		return int64(look * float64(newest.Sub(oldest)) / float64(d)), err
	}
	return look, err
}
