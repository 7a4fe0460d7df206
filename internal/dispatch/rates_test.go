package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

func TestRatesSpreadStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		f.limits = []job.Limit{{Tenant: "default", Rate: job.Rate{Count: 10, Per: time.Second, Burst: 1}}}
		for i := range 31 {
			f.add(ready(i, time.Now()))
		}
		d := running(t, f, Config{})
		began := time.Now()
		n := 0
		for n < 31 {
			as, err := claimed(t, d, w1, 100)
			if err != nil {
				t.Fatal(err)
			}
			n += len(as)
			if most := 1 + int(time.Since(began)/(100*time.Millisecond)); n > most {
				t.Fatalf("%d have started after %v", n, time.Since(began))
			}
		}
		if took := time.Since(began); took > 3100*time.Millisecond {
			t.Errorf("it took %v, at ten a second", took)
		}
		if f.draws > 100 {
			t.Errorf("%d draws for 31 starts: it spins", f.draws)
		}
	})
}

func TestAGroupWhoseRateCouldNotBeAskedForGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		f.failDraws = 2
		for i := range 3 {
			r := ready(i, time.Now())
			r.Group = job.Group{Key: 7, Rate: job.Rate{Count: 10, Per: time.Second, Burst: 1}}
			f.add(r)
		}
		if got := claimAll(t, running(t, f, Config{}), w1); len(got) != 3 {
			t.Errorf("%d of 3 ran after tokens could not be drawn", len(got))
		}
	})
}

// A claim that leaves much waiting has its rate paid for a while, and one that takes everything that waits does not: what is drawn is lost to others.
func TestTokensAreDrawnAheadOfABacklog(t *testing.T) {
	rate := job.Rate{Count: 1000, Per: time.Second, Burst: 1000}
	for name, c := range map[string]struct{ waits, claims, drawn int }{
		"a backlog":         {300, 10, 350},
		"all that waits":    {300, 400, 300},
		"all but a hundred": {300, 200, 300},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(time.Now)
				f.limits = []job.Limit{{Tenant: "default", Rate: rate}}
				for i := range c.waits {
					f.add(ready(i, time.Now()))
				}
				began := time.Now()
				as, err := claimed(t, running(t, f, Config{PerLane: 1000}), w1, c.claims)
				if err != nil || len(as) != min(c.claims, c.waits) {
					t.Fatalf("%d started, %v", len(as), err)
				}
				for bucket, full := range f.buckets {
					if drawn := int(full.Sub(began) / rate.Interval()); drawn != c.drawn {
						t.Errorf("%d tokens were drawn from %s, want %d", drawn, bucket, c.drawn)
					}
				}
				if len(f.buckets) != 1 {
					t.Errorf("%d buckets, want 1", len(f.buckets))
				}
			})
		})
	}
}
