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
	for !after.IsZero() && i < r.n && r.at(i).compare(after) <= 0 {
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
	for i := r.first(in.After); i < r.n && len(out) < limit && (in.Until.IsZero() || r.at(i).compare(in.Until) <= 0); i++ {
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

// A search that has no time goes on all the same, a step at a time, and misses nothing.
func TestSearchEndsEarlyAndGoesOn(t *testing.T) {
	sources := []rows{{100_000, 30_000, 3, 7001}, {99_999, 2000, 40, 13}, {99_998, 10, 1, 1}}
	var want []Place
	for _, s := range sources {
		es, _ := s.Read(Span{}, s.n)
		for i := range es {
			want = append(want, placeOf(&es[i]))
		}
	}
	slices.SortFunc(want, Place.compare)
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
			if !after.IsZero() && next.compare(after) <= 0 {
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

// slowRows are rows that take their time to be read.
type slowRows struct{ rows }

func (s slowRows) Read(in Span, limit int) ([]job.Execution, error) {
	for begun := time.Now(); time.Since(begun) < 2*listTime; { // it is busy, as a database would be
	}
	return s.rows.Read(in, limit)
}

// A page of a list ends early where it takes long, says so, and the next one goes on behind it.
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
		if p := NumberPlace(n); p.IsZero() || p.Number() != n || p.compare(NumberPlace(n+1)) <= 0 {
			t.Errorf("%d: %+v", n, p)
		}
	}
}
