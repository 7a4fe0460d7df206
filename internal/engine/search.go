package engine

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// ExecutionFilter selects executions; a zero field matches everything.
type ExecutionFilter struct {
	Tenant   tenant.ID
	Job      job.ID
	Statuses []job.Status
	Triggers []job.Trigger
	Worker   job.WorkerID // that holds it, or held it last
	JobName  string       // exactly the job's current name
	Tag      string       // of the job, as it is now
	Text     string       // contained, ignoring case, in the job's name or, for finished ones, in the error's type or message
	From     time.Time    // scheduled at or after
	Until    time.Time    // scheduled before
	Finished time.Time    // at or after; live ones do not match
	Kept     time.Time    // for finished ones: at or after
	OwnAsOf  time.Time    // leaves out what jobs with a retention of their own no longer keep at this time; zero: nothing
}

// picky reports whether it filters executions beyond their tenant, job and instants.
func (f *ExecutionFilter) picky() bool {
	return len(f.Statuses)+len(f.Triggers) > 0 || !f.Worker.IsZero() || f.JobName != "" || f.Tag != "" || f.Text != "" || !f.Finished.IsZero()
}

// Tables reports which of the two parts, live and finished executions, may contain matches.
func (f *ExecutionFilter) Tables() (live, past bool) {
	live, past = len(f.Statuses) == 0, len(f.Statuses) == 0
	for _, x := range f.Statuses {
		live, past = live || !x.Final(), past || x.Final()
	}
	return live && f.Finished.IsZero(), past
}

// Unwell reports whether it selects only those finished executions that did not succeed.
func (f *ExecutionFilter) Unwell() bool {
	return len(f.Statuses) > 0 && !slices.Contains(f.Statuses, job.Succeeded)
}

// Mentions reports whether an execution contains the requested text, or none is requested.
func (f *ExecutionFilter) Mentions(e *job.Execution) bool {
	if f.Text == "" {
		return true
	}
	return job.Mentions(e.JobName, f.Text) || e.Status.Final() && e.Error != nil && e.Error.Mentions(f.Text)
}

// ExecutionPage is one page of executions. If it is Partial, the search ran out of time, or its results are long:
// Next continues where it stopped, whatever it has found.
type ExecutionPage struct {
	Executions []job.Execution
	Next       string
	Partial    bool
	Total      Total
	Unread     []string // files that are gone or damaged: what they have is missing from the page
}

// Place is a position in a list of executions, which begins with the latest scheduled time and the greatest id. The
// zero place is before all others or, as an end, after them.
type Place struct {
	At time.Time
	ID job.ExecutionID
}

// IsZero reports whether it is not a position within the list.
func (p Place) IsZero() bool { return p.At.IsZero() }

// Compare orders places as lists do: it is negative if p comes before o.
func (p Place) Compare(o Place) int {
	return cmp.Or(o.At.Compare(p.At), bytes.Compare(o.ID[:], p.ID[:]))
}

func placeOf(e *job.Execution) Place { return Place{e.ScheduledAt, e.ID} }

// Span is a part of a list: after After, down to and including Until.
type Span struct{ After, Until Place }

// Source is a part of a list of executions that one index returns in its order.
type Source = SourceOf[job.Execution]

// SourceOf is a list, or a part of one, that an index returns in its order.
type SourceOf[T any] interface {
	// Nth returns the place of the n-th row after a place, whether or not the filter selects it; zero if there are
	// fewer.
	Nth(after Place, n int) (Place, error)
	// Read lists up to limit rows of a span that the filter selects; fewer if the page is bounded and they contain
	// PageBytes.
	Read(in Span, limit int) ([]T, error)
	// Count counts up to limit rows of a span that the filter selects.
	Count(in Span, limit int) (int64, error)
	// Rows estimates the number of rows, whether or not the filter selects them.
	Rows() (int64, error)
}

// PageBytes limits the size of a bounded page from one source, except for the last execution.
const PageBytes = 8 << 20

// Bytes returns the size of the potentially long parts of an execution.
func Bytes(e *job.Execution) int { return len(e.Result) + len(e.Payload) }

// Search lists what a filter selects from several sources as one page. With the same cursor it neither repeats nor
// skips unchanged rows, whatever is added or removed in between, as long as all sources are read in one snapshot.
func Search(f *ExecutionFilter, p Page, sources []Source) (ExecutionPage, error) {
	var after Place
	if p.Cursor != "" {
		at, id, err := DecodeCursor(p.Cursor)
		if err != nil {
			return ExecutionPage{}, err
		}
		after = Place{at, id}
	}
	limit := max(p.Limit, 1)
	w := walk[job.Execution]{limit: limit, picky: f.picky() && p.Bounded, bounded: p.Bounded, begun: time.Now(), time: searchTime, counting: countTime, place: placeOf, bytes: Bytes}
	for _, s := range sources {
		if err := w.through(s, after); err != nil {
			return ExecutionPage{}, err
		}
	}
	found, next, partial := w.page()
	out := ExecutionPage{Executions: found, Partial: partial}
	if !next.IsZero() {
		out.Next = EncodeCursor(next.At, next.ID)
	}
	if p.Uncounted {
		return out, nil
	}
	if out.Next == "" && after.IsZero() {
		out.Total.Count = int64(len(out.Executions))
		return out, nil
	}
	for _, s := range sources {
		if out.Total.Count > TotalExact {
			out.Total.Estimate = true
		}
		t, err := w.count(f.picky(), s)
		if err != nil {
			return ExecutionPage{}, err
		}
		out.Total.Count += t.Count
		out.Total.Estimate = out.Total.Estimate || t.Estimate
	}
	out.Total.include(len(out.Executions), out.Next != "" && !out.Partial)
	return out, nil
}

// include raises an estimated total to what is known of its list: a page, and whether there is more after it.
func (t *Total) include(found int, more bool) {
	if more {
		found++
	}
	if t.Estimate {
		t.Count = max(t.Count, int64(found))
	}
}

const (
	searchTime  = 25 * time.Millisecond // after this time a search begins no further step
	searchFirst = 500                   // rows that its first step examines, in each source
	searchStep  = 3000                  // and any
	countRows   = 15_000                // rows that counting examines, if the filter skips some
	countTime   = 30 * time.Millisecond // approximate time limit of counting
)

// walk collects a page.
type walk[T any] struct {
	limit    int
	picky    bool
	bounded  bool
	narrow   bool          // no source is looked at behind the place where the page ends already
	time     time.Duration // that gathering may take
	counting time.Duration // that counting may take
	begun    time.Time
	place    func(*T) Place
	bytes    func(*T) int
	found    []T
	end      Place // all sources were examined down to here; zero: to their ends
}

// through examines one source, until there is a page and one more row, or time is up.
func (w *walk[T]) through(s SourceOf[T], after Place) error {
	n := 0
	for step, looked := searchFirst, 0; ; step = w.step(step, looked) {
		var until Place
		if w.picky {
			var err error
			if until, err = s.Nth(after, step); err != nil {
				return err
			}
		}
		last := w.narrow && !w.end.IsZero() && (until.IsZero() || until.Compare(w.end) > 0)
		if last {
			until = w.end
		}
		es, err := s.Read(Span{after, until}, w.limit+1-n)
		if err != nil {
			return err
		}
		w.found = append(w.found, es...)
		n += len(es)
		looked += step
		bytes := 0
		for i := range es {
			bytes += w.bytes(&es[i])
		}
		switch {
		case n > w.limit || w.bounded && bytes >= PageBytes:
			w.stop(w.place(&es[len(es)-1]))
			return nil
		case until.IsZero() || last:
			return nil
		case time.Since(w.begun) > w.time:
			w.stop(until)
			return nil
		}
		after = until
	}
}

// step returns how many rows to examine next: increasing, but no more than fit into the remaining time.
func (w *walk[T]) step(last, looked int) int {
	if w.time == searchTime {
		return min(4*last, searchStep)
	}
	took := max(time.Since(w.begun), time.Microsecond)
	fit := float64(looked) * float64(w.time-took) / float64(took)
	return max(searchFirst, min(4*last, int(fit)))
}

// stop records that a source was not examined after a place.
func (w *walk[T]) stop(at Place) {
	if w.end.IsZero() || at.Compare(w.end) < 0 {
		w.end = at
	}
}

func (w *walk[T]) page() (found []T, next Place, partial bool) {
	slices.SortFunc(w.found, func(a, b T) int { return w.place(&a).Compare(w.place(&b)) })
	found = w.found
	if !w.end.IsZero() {
		n, _ := slices.BinarySearchFunc(w.found, w.end, func(e T, end Place) int {
			if c := w.place(&e).Compare(end); c != 0 {
				return c
			}
			return -1 // it is within
		})
		found, partial, next = w.found[:n], true, w.end
	}
	if len(found) > w.limit {
		found, partial, next = found[:w.limit], false, w.place(&found[w.limit-1])
	}
	return found, next, partial
}

// count counts what the filter selects from a source: exactly, or in proportion to what it selects among the newest
// rows. It examines few rows first, and more if there is time.
func (w *walk[T]) count(picky bool, s SourceOf[T]) (Total, error) {
	if !picky {
		return w.countIn(false, s, 0)
	}
	begun := time.Now()
	t, err := w.countIn(true, s, countRows/10)
	if took := time.Since(begun); err != nil || !t.Estimate || took > w.counting/10 || begun.Sub(w.begun) > w.time {
		return t, err
	}
	return w.countIn(true, s, countRows)
}

func (w *walk[T]) countIn(picky bool, s SourceOf[T], look int) (Total, error) {
	var in Span
	if picky {
		var err error
		if in.Until, err = s.Nth(Place{}, look); err != nil {
			return Total{}, err
		}
	}
	n, err := s.Count(in, TotalExact+1)
	if err != nil || in.Until.IsZero() && n <= TotalExact {
		return Total{Count: n}, err
	}
	rows, err := s.Rows()
	if !in.Until.IsZero() && n <= TotalExact {
		rows = int64(float64(n) / float64(look) * float64(max(rows, int64(look))))
	}
	return Total{Count: max(n, rows), Estimate: true}, err
}
