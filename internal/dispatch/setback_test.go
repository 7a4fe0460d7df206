package dispatch

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// offset is a clock that may be set.
type offset struct{ by atomic.Int64 }

func (o *offset) Now() time.Time { return time.Now().Add(time.Duration(o.by.Load())).UTC() }

// After the store's clock was set back by an hour nothing waits for an hour: neither what no hint told of, nor what a rate holds back.
func TestTheClockIsSetBack(t *testing.T) {
	for name, limits := range map[string][]job.Limit{"no limit": nil, "a rate": {{Tenant: "default", Rate: job.Rate{Count: 1, Per: time.Second, Burst: 1}}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clk := &offset{}
				f := newFake(clk.Now)
				f.limits = limits
				d := New(f, clk, quiet, Config{})
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() { d.Run(ctx) })
				defer wg.Wait()
				defer cancel()
				claim := func() int {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					as, err := d.Claim(ctx, w1, 1)
					if err != nil {
						t.Fatal(err)
					}
					return len(as)
				}
				f.add(ready(0, clk.Now()), ready(1, clk.Now()))
				if n := claim() + claim(); n != 2 {
					t.Fatalf("%d were given", n)
				}
				claim() // which waits in vain
				clk.by.Store(int64(-time.Hour))
				clear(f.buckets) // which move with the store's clock
				f.add(ready(2, clk.Now()), ready(3, clk.Now()))
				if n := claim() + claim(); n != 2 {
					t.Errorf("after the clock was set back %d of 2 were given within 5 s each", n)
				}
			})
		})
	}
}
