package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// rows is a source of executions, of which every chosen-th is chosen.
type rows struct {
	from   int // the instant of the newest
	n      int
	step   int // between two
	chosen int
}

func (r rows) at(i int) Place {
	return Place{At: time.Unix(int64(r.from-i*r.step), 0).UTC(), ID: job.ExecutionID{byte(r.from), byte(i >> 8), byte(i)}}
}

func (r rows) first(after Place) int {
	i := 0
	for !after.IsZero() && i < r.n && r.at(i).Compare(after) <= 0 {
		i++
	}
	return i
}

func (r rows) Nth(after Place, n int) (Place, error) {
	if i := r.first(after) + n - 1; i < r.n {
		return r.at(i), nil
	}
	return Place{}, nil
}

func (r rows) Read(in Span, limit int) (out []job.Execution, _ error) {
	for i := r.first(in.After); i < r.n && len(out) < limit && (in.Until.IsZero() || r.at(i).Compare(in.Until) <= 0); i++ {
		if i%r.chosen == 0 {
			out = append(out, job.Execution{ID: r.at(i).ID, ScheduledAt: r.at(i).At})
		}
	}
	return out, nil
}

func (r rows) Count(in Span, limit int) (int64, error) {
	es, err := r.Read(in, limit)
	return int64(len(es)), err
}

func (r rows) Rows() (int64, error) { return int64(r.n), nil }

// A search that has no time continues all the same, a step at a time, and misses nothing.
func TestSearchEndsEarlyAndGoesOn(t *testing.T) {
	sources := []rows{{100_000, 30_000, 3, 7001}, {99_999, 2000, 40, 13}, {99_998, 10, 1, 1}}
	var want []Place
	for _, s := range sources {
		es, _ := s.Read(Span{}, s.n)
		for i := range es {
			want = append(want, placeOf(&es[i]))
		}
	}
	slices.SortFunc(want, Place.Compare)
	for _, limit := range []int{1, 7, 100, 1000} {
		var got []Place
		var after Place
		partial := 0
		for range 10_000 {
			w := walk[job.Execution]{limit: limit, picky: true, place: placeOf, bytes: Bytes} // which began long ago
			for _, s := range sources {
				if err := w.through(s, after); err != nil {
					t.Fatal(err)
				}
			}
			found, next, early := w.page()
			for i := range found {
				got = append(got, placeOf(&found[i]))
			}
			if early {
				partial++
			}
			if next.IsZero() {
				break
			}
			if !after.IsZero() && next.Compare(after) <= 0 {
				t.Fatalf("it does not move on from %v", after)
			}
			after = next
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: %d found, want %d", limit, len(got), len(want))
		}
		if limit == 1000 && partial == 0 {
			t.Error("no page was partial")
		}
	}
}

func TestSearchCounts(t *testing.T) {
	f := &ExecutionFilter{Triggers: []job.Trigger{job.ByHand}}
	for _, c := range []struct {
		s    rows
		f    *ExecutionFilter
		want Total
	}{
		{rows{1e6, 100, 1, 1}, &ExecutionFilter{}, Total{Count: 100}},
		{rows{1e6, 10_000, 1, 1}, &ExecutionFilter{}, Total{Count: 10_000}},
		{rows{1e6, 30_000, 1, 1}, &ExecutionFilter{}, Total{Count: 30_000, Estimate: true}},
		{rows{1e6, 14_000, 1, 100}, f, Total{Count: 140}},
		{rows{1e6, 60_000, 1, 100}, f, Total{Count: 600, Estimate: true}},
		{rows{1e6, 60_000, 1, 1}, f, Total{Count: 60_000, Estimate: true}},
	} {
		if got, err := (&walk[job.Execution]{begun: time.Now().Add(time.Hour), counting: time.Hour}).count(c.f.picky(), c.s); err != nil || got != c.want {
			t.Errorf("%+v: got %+v, %v; want %+v", c.s, got, err, c.want)
		}
	}
}

// shyRows are rows of which counting finds none: those that are chosen are not among the newest.
type shyRows struct{ rows }

func (shyRows) Count(Span, int) (int64, error) { return 0, nil }

// A total is no smaller than the page that it is of, and what follows that.
func TestTotalsIncludeTheirPage(t *testing.T) {
	s := shyRows{rows{1e6, 15_500, 1, 100}}
	last := s.at(15_000)
	for name, c := range map[string]struct {
		p    Page
		rows int
		want int64
	}{
		"the first page": {Page{Limit: 3, Bounded: true}, 3, 4},
		"the last page":  {Page{Limit: 10, Bounded: true, Cursor: EncodeCursor(last.At, last.ID)}, 4, 4},
	} {
		want := Total{Count: c.want, Estimate: true}
		if page, err := List(c.p, s, placeOf); err != nil || len(page.Rows) != c.rows || page.Total != want {
			t.Errorf("%s of a list: %d rows of %+v, %v; want %d of %+v", name, len(page.Rows), page.Total, err, c.rows, want)
		}
		f := &ExecutionFilter{Triggers: []job.Trigger{job.ByHand}}
		if page, err := Search(f, c.p, []Source{s, rows{1e5, 0, 1, 1}}); err != nil || len(page.Executions) != c.rows || page.Total != want {
			t.Errorf("%s of a search: %d rows of %+v, %v; want %d of %+v", name, len(page.Executions), page.Total, err, c.rows, want)
		}
	}
}

// hardRows are rows that take their time to be counted.
type hardRows struct{ rows }

func (h hardRows) Count(in Span, limit int) (int64, error) {
	for begun := time.Now(); time.Since(begun) < time.Millisecond; { // it is busy, as a database would be
	}
	return h.rows.Count(in, limit)
}

// Rows are counted as far as there is time: where the first few take too long, or the page did, they stand for all.
func TestSearchCountsAsFarAsThereIsTime(t *testing.T) {
	s := hardRows{rows{1e6, 60_000, 1, 1000}} // 2 of the first 1500, 15 of the first 15 000
	soon, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	for name, c := range map[string]struct {
		w    walk[job.Execution]
		want int64
	}{
		"time enough":              {walk[job.Execution]{begun: soon, counting: time.Hour}, 60},
		"counting takes long":      {walk[job.Execution]{begun: soon, counting: time.Nanosecond}, 80},
		"the page has taken long":  {walk[job.Execution]{begun: past, counting: time.Hour, time: time.Minute}, 80},
		"it has not, for its time": {walk[job.Execution]{begun: past, counting: time.Hour, time: 2 * time.Hour}, 60},
	} {
		if got, err := c.w.count(true, s); err != nil || got != (Total{Count: c.want, Estimate: true}) {
			t.Errorf("%s: got %+v, %v; want %d", name, got, err, c.want)
		}
	}
}

// slowRows are rows that take their time to be read.
type slowRows struct{ rows }

func (s slowRows) Read(in Span, limit int) ([]job.Execution, error) {
	for begun := time.Now(); time.Since(begun) < 2*listTime; { // it is busy, as a database would be
	}
	return s.rows.Read(in, limit)
}

// A page of a list ends early where it takes long, says so, and the next one continues after it.
func TestListEndsEarlyAndGoesOn(t *testing.T) {
	s := slowRows{rows{100_000, 2000, 3, 777}}
	var got []Place
	p, partial := Page{Limit: 10, Uncounted: true}, 0
	for range 10 {
		page, err := List(p, s, placeOf)
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Rows {
			got = append(got, placeOf(&page.Rows[i]))
		}
		if page.Partial {
			partial++
		}
		if p.Cursor = page.Next; p.Cursor == "" {
			break
		}
	}
	if want := []Place{s.at(0), s.at(777), s.at(1554)}; !slices.Equal(got, want) || partial == 0 || p.Cursor != "" {
		t.Errorf("got %v, %d of the pages partial, then %q; want %v", got, partial, p.Cursor, want)
	}
	if page, err := List(Page{Limit: 10, Cursor: "x"}, s, placeOf); err != ErrCursor {
		t.Errorf("got %+v, %v", page, err)
	}
}

func TestPlacesOfNumbers(t *testing.T) {
	for _, n := range []int64{1, 255, 1 << 40} {
		if p := NumberPlace(n); p.IsZero() || p.Number() != n || p.Compare(NumberPlace(n+1)) <= 0 {
			t.Errorf("%d: %+v", n, p)
		}
	}
}
