package dispatch

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// claimAll claims until nothing more comes for a second.
func claimAll(t *testing.T, d *Dispatcher, w job.WorkerID) []job.Attempt {
	var got []job.Attempt
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		as, err := d.Claim(ctx, w, 100)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if len(as) == 0 {
			return got
		}
		got = append(got, as...)
	}
}

func done(as ...job.Attempt) []job.Outcome {
	var out []job.Outcome
	for _, a := range as {
		out = append(out, job.Outcome{Lease: a.Lease, Status: job.OutcomeSucceeded})
	}
	return out
}

func TestAGroupRunsAtMostItsNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		for i := range 20 {
			r := ready(i, time.Now())
			r.Group = job.Group{Key: 7, Max: 2}
			f.add(r)
		}
		f.add(ready(50, time.Now()))
		d := running(t, f, Config{})
		first := claimAll(t, d, w1)
		if len(first) != 3 {
			t.Fatalf("%d run, want two of the group and the one in none", len(first))
		}
		runs := slices.DeleteFunc(first, func(a job.Attempt) bool { return f.held[a.Lease].Group.Key == 0 })
		for range 18 {
			if _, err := d.Report(t.Context(), w1, done(runs[0])); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			as, err := claimed(t, d, w1, 5)
			if err != nil || len(as) != 1 || time.Since(began) > 0 {
				t.Fatalf("after one ended %d came, %v, in %v", len(as), err, time.Since(began))
			}
			runs = append(runs[1:], as...)
			if n := len(f.held); n != 3 {
				t.Fatalf("%d run", n)
			}
		}
	})
}

func TestWhatEndedElsewhereIsFoundOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		for i := range 2 {
			r := ready(i, time.Now())
			r.Group = job.Group{Key: 7, Max: 1}
			f.add(r)
		}
		d := running(t, f, Config{})
		as := claimAll(t, d, w1)
		if len(as) != 1 {
			t.Fatalf("%d run", len(as))
		}
		f.mu.Lock()
		delete(f.held, as[0].Lease) // another server has taken its result, or a reaper its lease
		f.mu.Unlock()
		began := time.Now()
		if as, err := claimed(t, d, w1, 5); err != nil || len(as) != 1 || time.Since(began) > 2*time.Second {
			t.Errorf("%d came, %v, after %v", len(as), err, time.Since(began))
		}
	})
}

func TestWhatRunsIsCountedAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		f.limits = []job.Limit{{Tenant: "default", Max: 3}}
		for i := range 2 {
			r := ready(100+i, time.Now())
			f.held[job.Lease{Execution: r.ID, Token: 1}] = r
		}
		for i := range 5 {
			f.add(ready(i, time.Now()))
		}
		d := running(t, f, Config{})
		if as := claimAll(t, d, w1); len(as) != 1 {
			t.Errorf("%d were given although two of three run", len(as))
		}
	})
}

func TestALimitThatIsSetHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		for i := range 4 {
			f.add(ready(i, time.Now()))
		}
		d := running(t, f, Config{})
		if as := claimAll(t, d, w1); len(as) != 4 {
			t.Fatalf("%d run", len(as))
		}
		f.mu.Lock()
		f.limits = []job.Limit{{Tenant: "default", Max: 5}}
		f.mu.Unlock()
		d.Refresh()
		for i := range 4 {
			f.add(ready(10+i, time.Now()))
		}
		if as := claimAll(t, d, w1); len(as) != 1 {
			t.Errorf("%d were given although four of five run", len(as))
		}
		f.mu.Lock()
		f.limits = nil
		f.mu.Unlock()
		d.Refresh()
		if as := claimAll(t, d, w1); len(as) != 3 {
			t.Errorf("%d were given after the limit was gone", len(as))
		}
	})
}

func TestTenantsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		f.tenants = []tenant.Tenant{{ID: "big", Tier: tenant.Enterprise}, {ID: "small", Tier: tenant.Free}}
		for i := range 2000 {
			r := ready(i, time.Now().Add(-time.Hour))
			r.Tenant = "big"
			r.Partition = 0
			f.add(r)
		}
		for i := range 200 {
			r := ready(5000+i, time.Now())
			r.Tenant = "small"
			r.Partition = 0
			f.add(r)
		}
		d := running(t, f, Config{PerLane: 1000})
		by := map[tenant.ID]int{}
		for range 22 {
			as, err := claimed(t, d, w1, 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range as {
				by[f.held[a.Lease].Tenant]++
			}
		}
		if by["small"] < 15 || by["small"] > 25 {
			t.Errorf("of 220: %v; one in eleven is the small one's share", by)
		}
	})
}
