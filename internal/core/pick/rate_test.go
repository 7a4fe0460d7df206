package pick

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// Of a wide rate, tokens for all that waits would have gone before the next pick.
func TestNeedsOfMuchThatWaits(t *testing.T) {
	wide := job.Rate{Count: 1_000_000, Per: time.Second, Burst: 100_000}
	for _, c := range []struct {
		waits int
		rate  job.Rate
		want  int
	}{
		{1, wide, 1},
		{Many - 1, wide, Many - 1},
		{Many, wide, Many + 50_000},
		{Many, job.Rate{Count: 1_000_000, Per: time.Second, Burst: 1000}, 1000},
		{Many, job.Rate{Count: 100, Per: time.Second, Burst: 1000}, Many + 5},
		{Many, job.Rate{Count: 1, Per: time.Minute, Burst: 1000}, Many},
	} {
		p := New()
		p.Limit([]job.Limit{{Tenant: "t", Rate: c.rate}})
		for range c.waits {
			p.Add(ready("t"))
		}
		p.pick(1, start)
		needs := p.Needs()
		if len(needs) != 1 || needs[0].N != c.want {
			t.Fatalf("%d wait at %v: needs %+v, want %d", c.waits, c.rate, needs, c.want)
		}
	}
}

// What was drawn for much goes all the same: it never adds to what the bucket holds by then.
func TestSpareTokensGoToo(t *testing.T) {
	p := New()
	p.Limit([]job.Limit{{Tenant: "t", Rate: job.Rate{Count: 1000, Per: time.Second, Burst: 1000}}})
	for range 2 * Many {
		p.Add(ready("t"))
	}
	p.pick(1, start)
	need := p.Needs()[0]
	if need.N != 2*Many+50 {
		t.Fatalf("needs %d", need.N)
	}
	p.Pour(need, need.N, 0, start)
	if got := p.pick(Many, start.Add(50*time.Millisecond)); len(got) != Many {
		t.Fatalf("%d of %d, which are paid", len(got), Many)
	}
	if got := p.pick(2*Many, start.Add(time.Duration(Many+40)*time.Millisecond)); len(got) != 10 {
		t.Errorf("%d, where all but 10 tokens are used or gone", len(got))
	}
}
