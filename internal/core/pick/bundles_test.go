package pick

import (
	"slices"
	"testing"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// A large pick keeps bundles together; gradually the tenants still get their shares.
func TestLargePicksKeepBundlesTogether(t *testing.T) {
	p := New()
	p.Weigh(map[tenant.ID]int{"a": 2, "b": 1})
	for i := range 40 {
		for _, of := range []tenant.ID{"a", "b"} {
			fresh := [16]byte{byte(i)}
			copy(fresh[1:], of)
			for n, id := range job.BundleIDs(fresh, 1, job.Bundle) {
				r := ready(of, grouped(job.Group{Key: job.GroupKey(n%3 + 1), Max: 1000}))
				r.ID = job.ExecutionID(id)
				p.Add(r)
			}
		}
	}
	if few := tenants(p.pick(6, start)); few["a"] != 4 || few["b"] != 2 {
		t.Errorf("a small pick took %v, want turns", few)
	}
	got := map[tenant.ID]int{}
	for range 6 {
		rs := p.pick(Many+5, start)
		seen := map[[16]byte]int{}
		for i, r := range rs {
			of := job.BundleOf(r.ID)
			if n := seen[of]; n > 0 && job.BundleOf(rs[i-1].ID) != of {
				t.Fatalf("a bundle was left after %d of its executions, for another", n)
			}
			seen[of]++
			got[r.Tenant]++
		}
		if n := len(rs); n > Many+5 || n <= Many+5-job.Bundle || seen[job.BundleOf(rs[n-1].ID)] < job.Bundle && job.Member(rs[n-1].ID) != job.Bundle-1 {
			t.Errorf("picked %d; want as many whole bundles as there is room for", n)
		}
	}
	if d := got["a"] - 2*got["b"]; d < -2*job.Bundle || d > 2*job.Bundle {
		t.Errorf("picked %v, want twice as many of a, give or take a bundle", got)
	}
}

// A tenant that comes while others have begun bundles waits for these, and not for another of each. (Those who are level with it
// and come before it by their names have theirs first.)
func TestANewcomerDoesNotWaitForBundles(t *testing.T) {
	p := New()
	weights := map[tenant.ID]int{"0": 1}
	p.Weigh(weights)
	for of := range 10 {
		name := tenant.ID('a' + rune(of))
		weights[name] = 1 + of%3*5
		for i := range 20 {
			for _, id := range job.BundleIDs([16]byte{byte(i), byte(of)}, 1, job.Bundle) {
				r := ready(name)
				r.ID = job.ExecutionID(id)
				p.Add(r)
			}
		}
	}
	for range 5 {
		p.pick(Many, start)
		p.Add(ready("0"))
		at := slices.IndexFunc(p.pick(2*Many, start), func(r *job.Ready) bool { return r.Tenant == "0" })
		if at < 0 || at > 2*job.Bundle {
			t.Errorf("it was picked as number %d", at)
		}
	}
}
