package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// What a group's limit holds back among what the store lists together does not stand in the way of the others.
func TestAFloodOfOneGroupAmongOthers(t *testing.T) {
	for _, packed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(time.Now)
			for i := range 5000 {
				r := ready(i, time.Now().Add(-time.Hour))
				r.Partition, r.Group, r.Packed = 0, job.Group{Key: 7, Max: 2}, packed
				f.add(r)
			}
			rest := map[job.ExecutionID]bool{}
			for i := range 20 {
				r := ready(6000+i, time.Now())
				r.Partition, r.Group, r.Packed = 0, job.Group{Key: job.GroupKey(100 + i%5), Max: 2}, packed
				f.add(r)
				rest[r.ID] = true
			}
			d := running(t, f, Config{Window: 500})
			began := time.Now()
			given := 0
			for len(rest) > 0 {
				as, err := claimed(t, d, w1, 100)
				if err != nil {
					t.Fatal(err)
				}
				for _, a := range as {
					delete(rest, a.Execution)
				}
				if given += len(as); given > 200 || time.Since(began) > 5*time.Second {
					t.Fatalf("packed %v: %d of the others are left after %d and %v", packed, len(rest), given, time.Since(began))
				}
				running := map[job.GroupKey]int{}
				for _, r := range f.held {
					if running[r.Group.Key]++; running[r.Group.Key] > 2 {
						t.Fatalf("%d of the group %d run", running[r.Group.Key], r.Group.Key)
					}
				}
				if _, err := d.Report(t.Context(), w1, done(as...)); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// What of a group was put aside comes before what of it came later, also where that is in the window already.
func TestAGroupInBulkStartsInItsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		var hints []job.Ready
		for i := range 70 {
			r := ready(i, time.Now())
			r.Partition, r.Group, r.Packed = 0, job.Group{Key: 7, Max: 2}, i < 64 // the rest is in rows
			f.add(r)
			hints = append(hints, r)
		}
		d := running(t, f, Config{})
		d.Offer(hints)
		for next := 0; next < 70; {
			as, err := claimed(t, d, w1, 100)
			if err != nil || len(as) == 0 || len(as) > 2 {
				t.Fatalf("%d were given: %v", len(as), err)
			}
			for _, a := range as {
				if a.Execution != hints[next].ID {
					t.Fatalf("%v came in the place of number %d", a.Execution, next)
				}
				next++
			}
			if next == 20 {
				late := ready(500, time.Now().Add(-time.Millisecond)) // it was created later, and alone
				late.Partition, late.Group, late.DueAt = 0, job.Group{Key: 7, Max: 2}, time.Now().Add(time.Millisecond)
				f.add(late)
				d.Offer([]job.Ready{late})
				hints = append(hints, late)
			}
			if _, err := d.Report(t.Context(), w1, done(as...)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A rate is asked for once for what the store lists together, and nothing starts that was not paid for.
func TestARateOfAGroupInBulk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now)
		var hints []job.Ready
		for i := range 200 {
			r := ready(i, time.Now())
			r.Partition, r.Group, r.Packed = 0, job.Group{Key: job.GroupKey(1 + i%4), Max: 3, Rate: job.Rate{Count: 1, Per: time.Hour, Burst: 5}}, true
			f.add(r)
			hints = append(hints, r)
		}
		d := running(t, f, Config{})
		d.Offer(hints[:100]) // the others it finds
		for _, want := range []int{4 * 3, 4 * 2} {
			var got []job.Attempt
			for len(got) < want { // no claim is given up: what was picked for one that is would have been paid for in vain
				as, err := claimed(t, d, w1, 100)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, as...)
			}
			if len(got) != want {
				t.Fatalf("%d were given, want %d", len(got), want)
			}
			if _, err := d.Report(t.Context(), w1, done(got...)); err != nil {
				t.Fatal(err)
			}
		}
		if as := claimAll(t, d, w1); len(as) != 0 {
			t.Errorf("%d more than five of each group were given", len(as))
		}
		for b, full := range f.buckets {
			if spent := time.Until(full); spent > 5*time.Hour || spent < 4*time.Hour {
				t.Errorf("of %s %v are spent", b, spent)
			}
		}
	})
}
