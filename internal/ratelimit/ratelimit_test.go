package ratelimit

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// shared is a store of buckets by a clock.
type shared struct {
	clock *clock.Manual
	full  map[string]time.Time
	calls int
	err   error
}

func (s *shared) Charge(_ context.Context, cs []engine.Charge) ([]time.Duration, error) {
	s.calls++
	if s.err != nil {
		return nil, s.err
	}
	now := s.clock.Now()
	out := make([]time.Duration, len(cs))
	for i, c := range cs {
		f := s.full[c.Bucket]
		if from := now.Add(-c.Ago); f.Before(from) {
			f = from
		}
		f = f.Add(time.Duration(c.N) * c.Rate.Interval())
		s.full[c.Bucket], out[i] = f, max(0, f.Sub(now))
	}
	return out, nil
}

func tick(t *testing.T, rs ...*Limiter) {
	t.Helper()
	for _, r := range rs {
		if _, err := r.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOneServer(t *testing.T) {
	clk := clock.NewManual(time.Unix(1000, 0))
	r := New(&shared{clock: clk, full: map[string]time.Time{}}, clk)
	rate := job.Rate{Count: 10, Per: time.Second, Burst: 10}
	for i := range 10 {
		if a := r.Take("a", rate, 1); !a.OK || a.Left != 9-i {
			t.Fatalf("%d: %+v", i, a)
		}
	}
	if a := r.Take("a", rate, 1); a.OK || a.Wait != 100*time.Millisecond || a.Reset != time.Second || a.Left != 0 {
		t.Errorf("the eleventh: %+v", a)
	}
	if a := r.Take("b", rate, 1); !a.OK {
		t.Errorf("another's: %+v", a)
	}
	if a := r.Take("a", rate, 11); a.OK || a.Wait != Never {
		t.Errorf("more than there ever is: %+v", a)
	}
	clk.Advance(250 * time.Millisecond)
	tick(t, r)
	if a := r.Take("a", rate, 2); !a.OK || a.Left != 0 {
		t.Errorf("later: %+v", a)
	}
	if a := r.Take("a", rate, 1); a.OK || a.Wait != 50*time.Millisecond {
		t.Errorf("and no more: %+v", a)
	}
}

// However many servers there are, over a while they let as much through as the rate says, and what they use at once.
func TestManyServersShare(t *testing.T) {
	clk := clock.NewManual(time.Unix(1000, 0))
	store := &shared{clock: clk, full: map[string]time.Time{}}
	rate := job.Rate{Count: 100, Per: time.Second, Burst: 100}
	servers := []*Limiter{New(store, clk), New(store, clk), New(store, clk)}
	const seconds = 20
	passed, most := 0, 0
	for range seconds * 4 {
		before := passed
		for range 200 { // more than is allowed, spread evenly
			for _, s := range servers {
				if s.Take("a", rate, 1).OK {
					passed++
				}
			}
		}
		most = max(most, passed-before)
		tick(t, servers...)
		clk.Advance(Every)
	}
	if limit := rate.Count*seconds + rate.Burst*len(servers); passed > limit {
		t.Errorf("%d passed in %d s, want %d at most", passed, seconds, limit)
	}
	if passed < rate.Count*seconds*9/10 {
		t.Errorf("only %d passed", passed)
	}
	if most > rate.Burst*len(servers) {
		t.Errorf("%d passed at once", most)
	}
	if store.calls > seconds*4*len(servers) {
		t.Errorf("%d writes", store.calls)
	}
}

func TestAStoreThatIsAway(t *testing.T) {
	clk := clock.NewManual(time.Unix(1000, 0))
	store := &shared{clock: clk, full: map[string]time.Time{}, err: errors.New("away")}
	r := New(store, clk)
	rate := job.Rate{Count: 1, Per: time.Second, Burst: 2}
	r.Take("a", rate, 1)
	if _, err := r.Tick(t.Context()); err == nil {
		t.Error("no error")
	}
	if a := r.Take("a", rate, 1); !a.OK {
		t.Errorf("%+v", a)
	}
	if a := r.Take("a", rate, 1); a.OK {
		t.Errorf("%+v", a)
	}
	store.err = nil
	tick(t, r)
	if full := store.full["used/a"]; !full.Equal(clk.Now().Add(2 * time.Second)) {
		t.Errorf("it was told of %v", full.Sub(clk.Now()))
	}
	clk.Advance(time.Minute)
	tick(t, r)
	calls := store.calls
	tick(t, r)
	if store.calls != calls || len(r.buckets) != 0 {
		t.Errorf("%d calls for what nobody uses, %d buckets", store.calls-calls, len(r.buckets))
	}
}
