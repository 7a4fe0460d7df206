package history

import (
	"context"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/archive"
	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// FindExecutions lists executions, latest scheduled time first, from the store and from files.
func (s *Tiers) FindExecutions(ctx context.Context, f engine.ExecutionFilter, p engine.Page) (engine.ExecutionPage, error) {
	page, err := s.Store.FindExecutions(ctx, f, p)
	if _, past := f.Tables(); err != nil || !past {
		return page, err
	}
	m := &merge{Tiers: s, filter: &f, limit: max(p.Limit, 1), begun: time.Now(), found: page.Executions}
	if m.in.After, err = place(p.Cursor); err != nil {
		return page, err
	}
	if m.in.Until, err = place(page.Next); err != nil {
		return page, err
	}
	m.end, m.partial = m.in.Until, page.Partial
	files, err := m.candidates(ctx)
	if err != nil || len(files) == 0 {
		if err == nil {
			err = s.count(ctx, &f, p, &page)
		}
		return page, err
	}
	if err := m.read(ctx, files); err != nil {
		return engine.ExecutionPage{}, err
	}
	out := engine.ExecutionPage{Unread: m.unread, Total: page.Total}
	var next engine.Place
	out.Executions, next, out.Partial = m.page()
	if !next.IsZero() {
		out.Next = engine.EncodeCursor(next.At, next.ID)
	}
	return out, s.count(ctx, &f, p, &out)
}

func place(cursor string) (at engine.Place, err error) {
	if cursor == "" {
		return at, nil
	}
	at.At, at.ID, err = engine.DecodeCursor(cursor)
	return at, err
}

// merge makes one page of what the store and files have.
type merge struct {
	*Tiers
	filter  *engine.ExecutionFilter
	in      engine.Span // that the page of the store covers
	limit   int
	begun   time.Time
	found   []job.Execution
	end     engine.Place // everything is looked at down to here; zero: everything
	partial bool         // the end is not that of a full page
	unread  []string
}

func placeOf(e *job.Execution) engine.Place { return engine.Place{At: e.ScheduledAt, ID: e.ID} }

// candidates lists the files that may have something of the span, those with the latest first.
func (m *merge) candidates(ctx context.Context) ([]engine.ArchiveFile, error) {
	q := engine.FileFilter{Tenant: m.filter.Tenant, Kind: engine.ArchivedExecutions, Answering: true, From: m.filter.From, Until: m.filter.Until}
	if at := m.in.Until.At; at.After(q.From) {
		q.From = at
	}
	if at := m.in.After.At; !at.IsZero() && (q.Until.IsZero() || at.Before(q.Until)) {
		q.Until = at
	}
	files, err := m.Store.ArchiveFiles(engine.Unconfined(ctx), q)
	kept := m.filter.Kept
	if m.filter.Finished.After(kept) {
		kept = m.filter.Finished
	}
	files = slices.DeleteFunc(files, func(x engine.ArchiveFile) bool { return !x.Day.AddDate(0, 0, 1).After(kept) })
	slices.SortStableFunc(files, func(a, b engine.ArchiveFile) int { return b.Shares[0].Last.Compare(a.Shares[0].Last) })
	return files, err
}

// before returns the place before everything that a file has.
func before(x engine.ArchiveFile) engine.Place {
	return engine.Place{At: x.Shares[0].Last.Add(time.Microsecond)}
}

// read reads files, until there is a page that no other file could change, or time is up.
func (m *merge) read(ctx context.Context, files []engine.ArchiveFile) error {
	for i, x := range files {
		if last, full := m.last(); full && before(x).Compare(last) >= 0 {
			return nil // this file, and those after it, come behind the page
		}
		if i > 0 && time.Since(m.begun) > readTime && m.stop(before(x)) {
			return nil
		}
		span := m.in
		if !m.end.IsZero() {
			span.Until = m.end
		}
		err := m.with(ctx, x, func(at *blob.At) error {
			f, err := archive.Open(at, x.Bytes)
			if err != nil {
				return err
			}
			for {
				es, more, err := f.Newest(ctx, m.filter, span, m.limit+1)
				if err != nil {
					return err
				}
				kept, err := m.kept(ctx, es)
				if err != nil {
					return err
				}
				m.found = append(m.found, kept...)
				some := len(kept) < len(es) && (more || len(es) > m.limit) // is hidden, and leaves room on the page
				if !some && !more {
					return nil
				}
				last := placeOf(&es[len(es)-1])
				if !some || time.Since(m.begun) > readTime {
					m.stop(last)
					return nil
				}
				span.After = last
			}
		})
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return err
		case lost(err):
			m.tell(x, err)
			m.unread = append(m.unread, x.Name)
		default: // it may be there a moment later
			m.tell(x, err)
			if !m.stop(before(x)) {
				return cannot(err)
			}
			if page, _, _ := m.page(); len(page) == 0 {
				return cannot(err)
			}
			return nil
		}
	}
	return nil
}

// kept returns those executions that their jobs still keep, by retentions of their own. Most never move to files;
// these did before their job had one.
func (m *merge) kept(ctx context.Context, es []job.Execution) ([]job.Execution, error) {
	now := m.filter.OwnAsOf
	if now.IsZero() || len(es) == 0 {
		return es, nil
	}
	own, err := m.Store.Retentions(ctx, m.filter.Tenant, jobsOf(es))
	if err != nil || len(own) == 0 {
		return es, err
	}
	return slices.DeleteFunc(slices.Clone(es), func(e job.Execution) bool { return own[e.Job].Hides(now, e.Trigger, e.Status, e.FinishedAt) }), nil
}

// jobsOf returns the jobs of executions.
func jobsOf(es []job.Execution) (ids []job.ID) {
	for i := range es {
		ids = append(ids, es[i].Job)
	}
	slices.SortFunc(ids, func(a, b job.ID) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(ids)
}

// last returns the place of the last execution of the page, if the page is full.
func (m *merge) last() (engine.Place, bool) {
	m.tidy()
	if len(m.found) <= m.limit {
		return engine.Place{}, false
	}
	return placeOf(&m.found[m.limit]), true
}

// tidy sorts what was found, and drops what was found twice: the store comes first.
func (m *merge) tidy() {
	slices.SortStableFunc(m.found, func(a, b job.Execution) int { return placeOf(&a).Compare(placeOf(&b)) })
	m.found = slices.CompactFunc(m.found, func(a, b job.Execution) bool { return a.ID == b.ID })
}

// stop ends the page at a place. It reports false, and does nothing, where the next page would begin as this one did.
func (m *merge) stop(at engine.Place) bool {
	if !m.in.After.IsZero() && at.Compare(m.in.After) <= 0 {
		return false
	}
	if m.end.IsZero() || at.Compare(m.end) < 0 {
		m.end, m.partial = at, true
	}
	return true
}

func (m *merge) page() (found []job.Execution, next engine.Place, partial bool) {
	m.tidy()
	found = m.found
	if !m.end.IsZero() {
		n := slices.IndexFunc(found, func(e job.Execution) bool { return placeOf(&e).Compare(m.end) > 0 })
		if n >= 0 {
			found = found[:n]
		}
		next, partial = m.end, m.partial
	}
	if len(found) > m.limit {
		found, partial = found[:m.limit], false
		next = placeOf(&found[m.limit-1])
	}
	return found, next, partial
}

// count adds what files have to the total of a page: exactly where the filter names a tenant alone, else as a lower bound.
func (s *Tiers) count(ctx context.Context, f *engine.ExecutionFilter, p engine.Page, page *engine.ExecutionPage) error {
	if p.Uncounted {
		return nil
	}
	files, err := s.Store.ArchiveFiles(engine.Unconfined(ctx), engine.FileFilter{Tenant: f.Tenant, Kind: engine.ArchivedExecutions, Answering: true, From: f.From, Until: f.Until})
	if err != nil || len(files) == 0 {
		return err
	}
	t := &page.Total
	if page.Next == "" && p.Cursor == "" && len(page.Unread) == 0 {
		*t = engine.Total{Count: int64(len(page.Executions))}
		return nil
	}
	plain := *f
	plain.Tenant, plain.Kept, plain.OwnAsOf = "", time.Time{}, time.Time{}
	if plain.Job.IsZero() && len(plain.Statuses)+len(plain.Triggers) == 0 && plain.Worker.IsZero() && plain.JobName+plain.Tag+plain.Text == "" && plain.From.IsZero() && plain.Until.IsZero() && plain.Finished.IsZero() {
		for _, x := range files {
			t.Count += x.Shares[0].Rows
			t.Estimate = t.Estimate || x.State == engine.FileAnswers || !f.Kept.IsZero() && x.Day.Before(f.Kept) || !f.OwnAsOf.IsZero()
		}
		return nil
	}
	t.Estimate = true
	n := int64(len(page.Executions))
	if page.Next != "" {
		n++
	}
	t.Count = max(t.Count, n)
	return nil
}
