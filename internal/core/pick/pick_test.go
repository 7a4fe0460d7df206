package pick

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

var start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

var number byte

func ready(t tenant.ID, change ...func(*job.Ready)) *job.Ready {
	number++
	r := &job.Ready{ID: job.ExecutionID{number}, Tenant: t, Class: "http", Priority: 5, DueAt: start}
	for _, c := range change {
		c(r)
	}
	return r
}

func grouped(g job.Group) func(*job.Ready) { return func(r *job.Ready) { r.Group = g } }

func all(tenant.ID, job.Class) bool { return true }

func goOn(*job.Ready) bool { return true }

func (p *Picker) pick(n int, now time.Time) []*job.Ready { return p.Pick(nil, n, all, now, goOn) }

// tenants counts what was picked by tenant.
func tenants(rs []*job.Ready) map[tenant.ID]int {
	out := map[tenant.ID]int{}
	for _, r := range rs {
		out[r.Tenant]++
	}
	return out
}

func TestOrderWithinATenantIsByRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := New()
		n := rapid.IntRange(1, 60).Draw(t, "n")
		var model []*job.Ready
		add := func(i int) {
			r := &job.Ready{
				ID: job.ExecutionID{byte(i), byte(rapid.IntRange(0, 255).Draw(t, "id"))}, Tenant: "t",
				Class:    job.Class(rapid.SampledFrom([]string{"http", "simulate"}).Draw(t, "class")),
				Priority: rapid.IntRange(1, 10).Draw(t, "priority"),
				DueAt:    start.Add(time.Duration(rapid.IntRange(-900, 0).Draw(t, "due")) * time.Second),
				Group:    job.Group{Key: job.GroupKey(rapid.IntRange(0, 3).Draw(t, "group"))},
			}
			p.Add(r)
			model = append(model, r)
		}
		for i := range n {
			add(i)
		}
		for len(model) > 0 {
			k := rapid.IntRange(1, 8).Draw(t, "k")
			slices.SortFunc(model, func(a, b *job.Ready) int {
				if a.Before(*b) {
					return -1
				}
				return 1
			})
			got := p.pick(k, start)
			want := model[:min(k, len(model))]
			if !slices.Equal(got, want) {
				t.Fatalf("picked %v, want %v", got, want)
			}
			model = model[len(want):]
			if n < 100 && rapid.Bool().Draw(t, "more") {
				n++
				add(n)
			}
			if p.Len() != len(model) {
				t.Fatalf("%d candidates, want %d", p.Len(), len(model))
			}
		}
	})
}

func TestClassesThatAreNotServedStay(t *testing.T) {
	p := New()
	a, b := ready("t", func(r *job.Ready) { r.Class = "simulate" }), ready("t")
	p.Add(a)
	p.Add(b)
	http := func(_ tenant.ID, c job.Class) bool { return c == "http" }
	if got := p.Pick(nil, 5, http, start, goOn); len(got) != 1 || got[0] != b {
		t.Errorf("got %v", got)
	}
	if p.Any(http, start) || !p.Any(all, start) {
		t.Error("what is there was told wrongly")
	}
	if got := p.pick(5, start); len(got) != 1 || got[0] != a {
		t.Errorf("then %v", got)
	}
}

func TestPickStopsWhereItIsTold(t *testing.T) {
	p := New()
	for range 5 {
		p.Add(ready("t"))
	}
	n := 0
	if got := p.Pick(nil, 5, all, start, func(*job.Ready) bool { n++; return n < 3 }); len(got) != 3 || p.Len() != 2 {
		t.Errorf("picked %d, %d are left", len(got), p.Len())
	}
}

func TestSharesByWeight(t *testing.T) {
	p := New()
	p.Weigh(map[tenant.ID]int{"ten": 10, "three": 3})
	for range 200 {
		p.Add(ready("ten"))
		p.Add(ready("three"))
		p.Add(ready("one"))
	}
	got := tenants(p.pick(140, start))
	if got["ten"] < 98 || got["ten"] > 102 || got["three"] < 29 || got["three"] > 31 || got["one"] < 9 || got["one"] > 11 {
		t.Errorf("of 140: %v", got)
	}
}

func TestABurstDelaysNobody(t *testing.T) {
	p := New()
	for range 1000 {
		p.Add(ready("burst", func(r *job.Ready) { r.DueAt = start.Add(-time.Hour); r.Priority = 1 }))
	}
	p.pick(500, start)
	single := ready("single", func(r *job.Ready) { r.Priority = 10 })
	p.Add(single)
	if got := p.pick(2, start); !slices.Contains(got, single) {
		t.Error("the single one is not among the next two")
	}
}

func TestNobodySavesUpTurns(t *testing.T) {
	p := New()
	for range 100 {
		p.Add(ready("busy"))
	}
	p.pick(50, start)
	for range 100 {
		p.Add(ready("late"))
	}
	if got := tenants(p.pick(40, start)); got["late"] > 21 || got["busy"] < 19 {
		t.Errorf("of 40 after one was away: %v", got)
	}
	p.pick(200, start)
	p.Prune()
	for range 20 {
		p.Add(ready("busy"))
		p.Add(ready("late"))
	}
	if got := tenants(p.pick(20, start)); got["late"] < 9 || got["late"] > 11 {
		t.Errorf("of 20 after both were away: %v", got)
	}
}

func lease(r *job.Ready) job.Lease { return job.Lease{Execution: r.ID, Token: 1} }

func (p *Picker) started(rs []*job.Ready) {
	for _, r := range rs {
		p.Started(lease(r), r)
	}
}

func TestGroupsRunAtMostTheirNumber(t *testing.T) {
	p := New()
	for range 5 {
		p.Add(ready("t", grouped(job.Group{Key: 7, Max: 2})))
	}
	other := ready("t", func(r *job.Ready) { r.DueAt = start.Add(time.Hour) }, grouped(job.Group{Key: 8, Max: 1}))
	free := ready("t", func(r *job.Ready) { r.DueAt = start.Add(2 * time.Hour) })
	p.Add(other)
	p.Add(free)
	first := p.pick(10, start)
	if len(first) != 4 || first[2] != other || first[3] != free {
		t.Fatalf("picked %d: a full group stands in the way", len(first))
	}
	p.started(first)
	if got := p.pick(10, start); len(got) != 0 || p.Any(all, start) {
		t.Fatalf("over the limit: %v", got)
	}
	p.Add(ready("t", grouped(job.Group{Key: 7, Max: 2})))
	if got := p.pick(10, start); len(got) != 0 {
		t.Fatalf("over the limit by a newcomer: %v", got)
	}
	p.Ended(lease(first[0]))
	p.Ended(lease(first[0]))
	if got := p.pick(10, start); len(got) != 1 {
		t.Fatalf("one has ended, %d are picked", len(got))
	}
	p.Dropped(first[1])
	if got := p.pick(10, start); len(got) != 1 {
		t.Fatalf("one was dropped, %d are picked", len(got))
	}
}

// What a group holds back of what the store lists together is taken out; all else stays.
func TestAside(t *testing.T) {
	p := New()
	packed := func(r *job.Ready) { r.Packed = true }
	out := map[*job.Ready]bool{}
	for i := range 6 {
		r := ready("t", grouped(job.Group{Key: 7, Max: 1}))
		if i%2 == 1 {
			packed(r)
			out[r] = true
		}
		p.Add(r)
	}
	for range 2 {
		r := ready("u", grouped(job.Group{Key: 8, Max: 1}), packed) // all that its tenant has
		out[r] = true
		p.Add(r)
	}
	open := ready("t", grouped(job.Group{Key: 9, Max: 1}), packed)
	p.Add(open)
	aside := func() (n int) {
		p.Aside(3, func(r *job.Ready) {
			if n++; !out[r] {
				t.Errorf("taken out: %+v", r)
			}
			delete(out, r)
		})
		return n
	}
	if n := aside(); n != 0 {
		t.Errorf("%d were taken out before any was held back", n)
	}
	first := p.pick(10, start)
	for _, r := range first {
		delete(out, r)
	}
	if p.started(first); len(first) != 3 || p.Len() != 6 {
		t.Fatalf("picked %d, left %d", len(first), p.Len())
	}
	if n := aside() + aside(); n != 4 || len(out) != 0 || p.Len() != 2 { // three, and one
		t.Errorf("%d were taken out, %d should have been, %d are left", n, len(out), p.Len())
	}
	if n := aside(); n != 0 {
		t.Errorf("%d were taken out again", n)
	}
	for _, r := range first {
		p.Ended(lease(r))
	}
	if got := p.pick(10, start); len(got) != 1 || got[0].Packed || got[0].Group.Key != 7 {
		t.Errorf("then picked: %+v", got)
	}
	p.Add(ready("u"))
	if got := p.pick(10, start); len(got) != 1 || got[0].Tenant != "u" {
		t.Errorf("the tenant that had nothing left: %+v", got)
	}
}

func TestGroupsArePruned(t *testing.T) {
	p := New()
	for i := range 100 {
		r := ready("t", grouped(job.Group{Key: job.GroupKey(i + 1), Max: 1, Rate: job.Rate{Count: 1, Per: time.Hour, Burst: 5}}))
		p.Add(r)
		p.pick(1, start)
		for _, n := range p.Needs(1) {
			p.Pour(n, 5, 0, start)
		}
		got := p.pick(1, start)
		p.started(got)
		p.Ended(lease(r))
	}
	p.Prune()
	if len(p.groups) != 0 || len(p.running) != 0 || len(p.tenants) > 1 {
		t.Errorf("%d groups, %d running, %d tenants are remembered", len(p.groups), len(p.running), len(p.tenants))
	}
}

func TestTenantsAndQueuesRunAtMostTheirNumber(t *testing.T) {
	p := New()
	slow := func(r *job.Ready) { r.Class = job.Needs{Target: job.HTTP, Queue: "slow"}.Class() }
	if !p.Limit([]job.Limit{{Tenant: "t", Max: 3}, {Tenant: "t", Queue: "slow", Max: 1}}) {
		t.Error("new limits need a count")
	}
	for _, s := range p.Shares(all) {
		p.Allow(s, s.Whole)
	}
	for range 5 {
		p.Add(ready("t"))
		p.Add(ready("t", slow))
		p.Add(ready("u"))
	}
	got := p.pick(100, start)
	queues := 0
	for _, r := range got {
		if r.Class != "http" {
			queues++
		}
	}
	if by := tenants(got); by["t"] != 3 || by["u"] != 5 || queues != 1 {
		t.Fatalf("%v, %d of the queue", by, queues)
	}
	p.started(got)
	for _, r := range got {
		p.Ended(lease(r))
	}
	got = p.pick(100, start)
	if by := tenants(got); by["t"] != 3 || !slices.ContainsFunc(got, func(r *job.Ready) bool { return r.Class != "http" }) {
		t.Errorf("after all ended: %v of %v", got, by)
	}
	if p.Limit([]job.Limit{{Tenant: "t", Max: 9}}) {
		t.Error("a changed number needs no count")
	}
}

func TestRecount(t *testing.T) {
	p := New()
	p.Limit([]job.Limit{{Tenant: "t", Max: 2}})
	p.Allow(p.Shares(all)[0], 2)
	a, b := ready("t"), ready("t", grouped(job.Group{Key: 5, Max: 1}))
	p.Recount(map[job.Lease]job.Ready{lease(a): *a, lease(b): *b, {Token: 9}: *ready("u")})
	if n := len(p.Count()); n != 2 {
		t.Errorf("%d count", n)
	}
	p.Add(ready("t"))
	p.Add(ready("u", grouped(job.Group{Key: 5, Max: 1})))
	if got := p.pick(9, start); len(got) != 0 {
		t.Errorf("picked %d", len(got))
	}
	p.Ended(lease(b))
	if got := p.pick(9, start); len(got) != 2 {
		t.Errorf("then picked %d", len(got))
	}
}

// bucket fills at a rate, as a store's does.
type bucket struct {
	rate job.Rate
	full time.Time
}

func (b *bucket) draw(n int, now time.Time) (int, time.Duration) {
	if b.full.Before(now) {
		b.full = now
	}
	room := now.Add(time.Duration(b.rate.Burst) * b.rate.Interval()).Sub(b.full)
	n = min(n, int(room/b.rate.Interval()))
	b.full = b.full.Add(time.Duration(n) * b.rate.Interval())
	return n, b.full.Sub(now) - time.Duration(b.rate.Burst-1)*b.rate.Interval()
}

func TestWhatMovesTakesItsPartOfAShareWithIt(t *testing.T) {
	p := New()
	p.Limit([]job.Limit{{Tenant: "t", Max: 3}})
	p.Allow(p.Shares(all)[0], 3)
	for range 6 {
		p.Add(ready("t"))
	}
	rs := p.pick(3, start)
	p.started(rs)
	p.Recount(map[job.Lease]job.Ready{lease(rs[0]): *rs[0]})
	if got := p.pick(9, start); len(got) != 0 {
		t.Errorf("%d were picked although what moved still runs elsewhere", len(got))
	}
	p.Allow(p.Shares(all)[0], 2)
	if got := p.pick(9, start); len(got) != 1 {
		t.Errorf("%d were picked of a share of 2, of which one runs", len(got))
	}
}

func TestRates(t *testing.T) {
	p := New()
	rate := job.Rate{Count: 10, Per: time.Second, Burst: 2}
	p.Limit([]job.Limit{{Tenant: "t", Rate: rate}})
	for range 10 {
		p.Add(ready("t"))
		p.Add(ready("t", grouped(job.Group{Key: 3, Rate: rate})))
	}
	if got := p.pick(9, start); len(got) != 0 {
		t.Fatalf("picked %d unpaid", len(got))
	}
	buckets := map[string]*bucket{}
	picked := 0
	for now := start; p.Len() > 0; {
		if now.After(start.Add(time.Minute)) {
			t.Fatalf("%d are left", p.Len())
		}
		got := p.pick(9, now)
		picked += len(got)
		if most := 2 + int(now.Sub(start)/(100*time.Millisecond)); picked > most {
			t.Fatalf("%d have started %v after the beginning, at most %d may", picked, now.Sub(start), most)
		}
		needs := p.Needs(1)
		for _, n := range needs {
			if n.Rate != rate || n.N > rate.Burst || n.N < 1 {
				t.Fatalf("needs %+v", n)
			}
			b := buckets[n.Bucket]
			if b == nil {
				b = &bucket{rate: rate}
				buckets[n.Bucket] = b
			}
			got, wait := b.draw(n.N, now)
			p.Pour(n, got, wait, now)
		}
		if next := p.Next(); len(needs) == 0 && len(got) == 0 {
			if !next.After(now) {
				t.Fatalf("nothing is to be had, and none will be: %d are left", p.Len())
			}
			now = next
		}
	}
	if len(buckets) != 2 {
		t.Errorf("buckets: %v", buckets)
	}
}

// Jobs that share a key each start at their own rate, whatever the others' rates give; while one waits for its rate those of the key that come after it wait, too.
func TestJobsThatShareAKeyKeepTheirOwnRates(t *testing.T) {
	p := New()
	slow, fast := job.Rate{Count: 1, Per: time.Minute, Burst: 1}, job.Rate{Count: 100, Per: time.Second, Burst: 10}
	for range 5 {
		for _, rate := range []job.Rate{slow, fast, fast} {
			p.Add(ready("t", grouped(job.Group{Key: 3, Rate: rate})))
		}
	}
	buckets := map[string]*bucket{}
	starts := map[job.Rate][]time.Time{}
	for now := start; p.Len() > 0; {
		if now.After(start.Add(time.Hour)) {
			t.Fatalf("%d are left", p.Len())
		}
		got := p.pick(9, now)
		for _, r := range got {
			starts[r.Group.Rate] = append(starts[r.Group.Rate], now)
		}
		needs := p.Needs(1)
		for _, n := range needs {
			b := buckets[n.Bucket]
			if b == nil {
				b = &bucket{rate: n.Rate}
				buckets[n.Bucket] = b
			}
			if b.rate != n.Rate {
				t.Fatalf("%v is drawn from the bucket of %v", n.Rate, b.rate)
			}
			got, wait := b.draw(n.N, now)
			p.Pour(n, got, wait, now)
		}
		if len(needs) == 0 && len(got) == 0 {
			if !p.Next().After(now) {
				t.Fatalf("nothing is to be had, and none will be: %d are left", p.Len())
			}
			now = p.Next()
		}
	}
	if len(starts[slow]) != 5 || len(starts[fast]) != 10 || len(buckets) != 2 {
		t.Errorf("%d and %d have started, from %d buckets", len(starts[slow]), len(starts[fast]), len(buckets))
	}
	for i, at := range starts[slow] {
		if early := start.Add(time.Duration(i) * time.Minute); at.Before(early) {
			t.Errorf("of the slower, number %d started after %v, want at least %v", i+1, at.Sub(start), early.Sub(start))
		}
	}
}

func TestTokensGoAsTheirBucketFills(t *testing.T) {
	p := New()
	p.Limit([]job.Limit{{Tenant: "t", Rate: job.Rate{Count: 10, Per: time.Second, Burst: 5}}})
	for range 6 {
		p.Add(ready("t"))
	}
	p.pick(1, start)
	p.Pour(p.Needs(1)[0], 5, 0, start)
	if got := p.pick(1, start.Add(99*time.Millisecond)); len(got) != 1 {
		t.Fatal("a token was gone too soon")
	}
	if got := p.pick(9, start.Add(250*time.Millisecond)); len(got) != 2 {
		t.Errorf("of 5 tokens, one used and two gone, %d were left", len(got))
	}
}

// A rate that changes while it holds something back hides none that may ask sooner than others.
func TestAChangedRateHidesNoOther(t *testing.T) {
	p := New()
	per := func(b time.Duration) []job.Limit {
		var out []job.Limit
		for _, t := range []tenant.ID{"a", "b", "c", "d"} {
			out = append(out, job.Limit{Tenant: t, Rate: job.Rate{Count: 1, Per: time.Hour, Burst: 1}})
		}
		out[1].Rate.Per = b
		return out
	}
	p.Limit(per(time.Hour))
	holds := func(t tenant.ID, wait time.Duration) {
		p.Add(ready(t))
		p.pick(9, start)
		for _, n := range p.Needs(1) {
			p.Pour(n, 0, wait, start)
		}
	}
	for i, t := range []tenant.ID{"a", "b", "c"} {
		holds(t, time.Duration(i+1)*10*time.Minute)
	}
	p.Limit(per(time.Minute))
	p.Add(ready("d"))
	p.pick(9, start)
	for _, n := range p.Needs(1) {
		if n.gate.scope.tenant == "d" {
			p.Pour(n, 0, 5*time.Minute, start)
		}
	}
	if got, want := p.Next(), start.Add(5*time.Minute); !got.Equal(want) {
		t.Errorf("the next rate may allow something after %v, want %v", got.Sub(start), want.Sub(start))
	}
}

// A rate is not drained for what another limit holds back.
func TestNothingIsPaidForWhatCannotStart(t *testing.T) {
	p := New()
	slow := func(r *job.Ready) { r.Class = job.Needs{Target: job.HTTP, Queue: "slow"}.Class() }
	p.Limit([]job.Limit{{Tenant: "t", Rate: job.Rate{Count: 1, Per: time.Hour, Burst: 1}}, {Tenant: "t", Queue: "slow", Max: 1}})
	p.Allow(p.Shares(all)[0], 1)
	r := ready("t", slow)
	p.Recount(map[job.Lease]job.Ready{lease(r): *r})
	p.Add(ready("t", slow))
	p.Add(ready("u", grouped(job.Group{Key: 7, Max: 1})))
	p.started(p.pick(1, start))
	for range 3 {
		if got := p.pick(5, start); len(got) != 0 || p.Short() || p.Any(all, start) {
			t.Fatalf("picked %d, or asked the rate", len(got))
		}
	}
	p.Add(ready("t"))
	if got := p.pick(5, start); len(got) != 0 || !p.Short() {
		t.Error("what could start did not ask the rate")
	}
}

func TestClear(t *testing.T) {
	p := New()
	r := ready("t", grouped(job.Group{Key: 3, Max: 1}))
	p.Add(r)
	p.Add(ready("t", grouped(job.Group{Key: 3, Max: 1})))
	p.started(p.pick(1, start))
	p.Clear()
	if p.Len() != 0 || p.Any(all, start) || len(p.Count()) != 1 {
		t.Errorf("%d candidates, %d count", p.Len(), len(p.Count()))
	}
	p.Add(ready("t", grouped(job.Group{Key: 3, Max: 1})))
	if got := p.pick(1, start); len(got) != 0 {
		t.Error("what runs no longer counts")
	}
}

func BenchmarkPick(b *testing.B) {
	for _, groups := range []int{0, 1000} {
		b.Run(fmt.Sprint(groups, " groups"), func(b *testing.B) {
			p := New()
			rs := make([]*job.Ready, 1000)
			for i := range rs {
				rs[i] = ready(tenant.ID(fmt.Sprint(i % 3)))
				if groups > 0 {
					rs[i].Group = job.Group{Key: job.GroupKey(i%groups + 1), Max: 5}
				}
			}
			for b.Loop() {
				for _, r := range rs {
					p.Add(r)
				}
				for _, r := range p.pick(len(rs), start) {
					p.Dropped(r)
				}
			}
		})
	}
}

// Groups of which nothing waits or runs are kept for a while, but not very many of them.
func TestFewIdleGroupsAreKept(t *testing.T) {
	p := New()
	for i := range 3 * keptGroups {
		p.Add(ready("t", grouped(job.Group{Key: job.GroupKey(i + 1), Max: 1})))
		for _, r := range p.pick(1, start) {
			l := job.Lease{Execution: job.ExecutionID{byte(i), byte(i >> 8), byte(i >> 16)}}
			p.Started(l, r)
			p.Ended(l)
		}
	}
	if n := len(p.groups); n > keptGroups+1 {
		t.Errorf("%d groups are kept", n)
	}
	if p.Prune(); len(p.groups) != 0 {
		t.Errorf("%d groups are kept after all was pruned", len(p.groups))
	}
}
