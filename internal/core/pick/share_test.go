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

func TestASmallShareIsTold(t *testing.T) {
	p := New()
	p.Limit([]job.Limit{{Tenant: "t", Max: 10}})
	for range 6 {
		p.Add(ready("t"))
	}
	if got := p.pick(9, start); len(got) != 0 || !p.Narrow() {
		t.Fatalf("picked %d without a share, or did not tell", len(got))
	}
	s := p.Shares(all)
	if len(s) != 1 || s[0].Want != 6 || s[0].Whole != 10 || p.Narrow() {
		t.Fatalf("shares %+v", s)
	}
	p.Allow(s[0], 4)
	if got := p.pick(9, start); len(got) != 4 {
		t.Fatalf("picked %d with a share of 4", len(got))
	}
	if s := p.Shares(all); s[0].Want != 6 {
		t.Errorf("wants %d", s[0].Want)
	}
}

// Shares are asked for at once only where much waits for more of what was given in full: not for a few, not for what a rate or
// the limit itself holds back, and not again where there was no more.
func TestPressed(t *testing.T) {
	hourly := job.Rate{Count: 1, Per: time.Hour, Burst: 1}
	p := New()
	p.Limit([]job.Limit{{Tenant: "t", Max: 100}, {Tenant: "rated", Rate: hourly}})
	add := func(n int) {
		for range n {
			p.Add(ready("t"))
		}
		p.started(p.pick(1000, start))
	}
	p.gates[scope{tenant: "rated"}].count = 5 // as if some had run elsewhere since
	p.Recount(nil)
	add(pressing - 1)
	if !p.Narrow() || p.Pressed(all) {
		t.Errorf("%d wait: narrow %v, pressed %v", pressing-1, p.Narrow(), p.Pressed(all))
	}
	add(1)
	if !p.Pressed(all) {
		t.Errorf("%d wait, and it is not pressed", pressing)
	}
	p.Allow(p.Shares(all)[0], pressing)
	add(pressing)
	if !p.Pressed(all) {
		t.Error("as many again wait, and it is not pressed")
	}
	p.Allow(p.Shares(all)[0], pressing+1) // of 20
	add(50)
	if !p.Narrow() || p.Pressed(all) {
		t.Errorf("others have the rest: narrow %v, pressed %v", p.Narrow(), p.Pressed(all))
	}
	p.Allow(p.Shares(all)[0], 100)
	add(500)
	if p.Narrow() || p.Pressed(all) {
		t.Errorf("all of it is used: narrow %v, pressed %v", p.Narrow(), p.Pressed(all))
	}
}

// A share that is given back may be another's before the answer comes, or does not.
func TestWhatIsGivenBackIsNotUsed(t *testing.T) {
	p := New()
	p.Limit([]job.Limit{{Tenant: "t", Max: 3}})
	p.Allow(p.Shares(all)[0], 3)
	p.Add(ready("t"))
	p.started(p.pick(9, start))
	if s := p.Shares(all); s[0].Want != 1 {
		t.Fatalf("it wants %d, and one runs", s[0].Want)
	}
	p.Add(ready("t"))
	if got := p.pick(9, start); len(got) != 0 || !p.Narrow() {
		t.Errorf("picked %d after it gave back all but what runs", len(got))
	}
}

// What nobody takes here is not asked for, and what was lent for it is to be given back.
func TestAShareIsForWhatSomebodyTakes(t *testing.T) {
	none := func(tenant.ID, job.Class) bool { return false }
	p := New()
	p.Limit([]job.Limit{{Tenant: "t", Max: 3}})
	if p.Lent() || p.Spare(none) {
		t.Error("nothing was asked for, and something is lent")
	}
	for range 5 {
		p.Add(ready("t"))
	}
	p.Allow(p.Shares(all)[0], 3)
	got := p.pick(1, start)
	p.started(got)
	if !p.Lent() || p.Spare(all) || !p.Spare(none) {
		t.Errorf("lent %v; to spare while somebody takes it %v, while nobody does %v", p.Lent(), p.Spare(all), p.Spare(none))
	}
	s := p.Shares(none)
	if s[0].Want != 1 || s[0].Used != 1 {
		t.Errorf("nobody takes more than the one that runs: %+v", s)
	}
	p.Allow(s[0], 1)
	if p.Spare(none) {
		t.Error("all but what runs was given back, and more is to spare")
	}
	p.Ended(lease(got[0]))
	if !p.Spare(none) {
		t.Error("it has ended, and its share is not to spare")
	}
	p.Limit(nil)
	s = p.Shares(all)
	if len(s) != 1 || s[0].Whole != 0 || s[0].Want != 0 || !p.Spare(all) {
		t.Fatalf("of a limit that is no more: %+v", s)
	}
	p.Allow(s[0], 0)
	if p.Lent() || len(p.Shares(all)) != 0 {
		t.Error("all was given back, and something is lent")
	}
}

// An answer that did not come may have taken the share away.
func TestAShareThatIsNotKnownIsNotUsed(t *testing.T) {
	p := New()
	p.Limit([]job.Limit{{Tenant: "t", Max: 3}})
	p.Add(ready("t"))
	p.Allow(p.Shares(all)[0], 3)
	p.Deny(p.Shares(all)[0])
	if got := p.pick(9, start); len(got) != 0 || !p.Narrow() || !p.Lent() {
		t.Errorf("picked %d without knowing the share; narrow %v, lent %v", len(got), p.Narrow(), p.Lent())
	}
}

// However many servers share a limit, and whenever they ask, no more run than it allows.
func TestAllotNeverExceedsTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 12).Draw(t, "limit")
		n := rapid.IntRange(1, 4).Draw(t, "servers")
		all, may, used := make([]Lent, n), make([]int, n), make([]int, n)
		now := start
		for range 60 {
			i := rapid.IntRange(0, n-1).Draw(t, "who")
			now = now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(t, "ms")) * time.Millisecond)
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				all[i].Want = used[i] + rapid.IntRange(0, 15).Draw(t, "more")
				may[i], all[i] = Allot(limit, all, i, used[i], now)
				if may[i] > all[i].Want {
					t.Fatalf("%d may use %d and wants %d", i, may[i], all[i].Want)
				}
			case 1:
				used[i] = max(used[i], may[i])
			case 2:
				used[i] = max(0, used[i]-rapid.IntRange(0, 3).Draw(t, "ended"))
			}
			run, kept := 0, 0
			for k := range n {
				run, kept = run+used[k], kept+all[k].Share
			}
			if run > limit || kept > limit {
				t.Fatalf("of %d %d run, and %d are kept for %v", limit, run, kept, all)
			}
		}
	})
}

// Servers that always want more have their parts within two rounds, however long what they start runs.
func TestAllotIsFair(t *testing.T) {
	for _, limit := range []int{1, 2, 3, 5} {
		for _, servers := range []int{2, 3, 4} {
			for _, takes := range []time.Duration{100 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 6 * time.Second, 11 * time.Second} {
				t.Run(fmt.Sprintf("%d servers share %d, each takes %v", servers, limit, takes), func(t *testing.T) {
					all, ran := make([]Lent, servers), make([]time.Duration, servers)
					ends := make([][]time.Time, servers)
					for i := range all {
						all[i].Want = limit
					}
					round := max(takes, TurnTime)
					const step = 50 * time.Millisecond // which is how often servers ask that want more
					for now := start; now.Before(start.Add(time.Duration(20*servers) * round)); now = now.Add(step) {
						for i := range servers {
							ends[i] = slices.DeleteFunc(ends[i], func(end time.Time) bool { return !end.After(now) })
							var may int
							may, all[i] = Allot(limit, all, i, len(ends[i]), now)
							for len(ends[i]) < may {
								ends[i] = append(ends[i], now.Add(takes))
								ran[i] += takes
							}
						}
						// Within two rounds of all servers nobody is behind.
						if least, most := slices.Min(ran), slices.Max(ran); most-least > 2*time.Duration(servers)*round {
							t.Fatalf("after %v: %v", now.Sub(start), ran)
						}
					}
					if sum := ran[0] * time.Duration(servers); sum < time.Duration(20*servers)*round*time.Duration(limit)*6/10 {
						t.Errorf("the limit is hardly used: %v", ran)
					}
				})
			}
		}
	}
}

// Overdue names the partitions whose limited candidates wait for a worker, and for nothing else.
func TestOverdue(t *testing.T) {
	p := New()
	p.Limit([]job.Limit{{Tenant: "rated", Rate: job.Rate{Count: 1000, Per: time.Minute, Burst: 1000}}, {Tenant: "spent", Rate: job.Rate{Count: 1, Per: time.Hour, Burst: 1}}, {Tenant: "full", Max: 1}})
	p.gates[scope{tenant: "spent"}].until = start.Add(time.Hour)
	in := func(part job.Partition, due time.Time) func(*job.Ready) {
		return func(r *job.Ready) { r.Partition, r.DueAt = part, due }
	}
	early, late := start.Add(-3*time.Second), start.Add(-time.Second)
	p.Add(ready("rated", in(7, early)))
	p.Add(ready("rated", in(3, early)))
	p.Add(ready("rated", in(4, late)))
	p.Add(ready("plain", in(5, early))) // any server may lease it
	p.Add(ready("spent", in(6, early)))
	p.Add(ready("full", in(8, early))) // no share of its limit is here
	p.Add(ready("plain", grouped(job.Group{Key: 1, Max: 1}), in(9, early)))
	if got, want := p.Overdue(start.Add(-2*time.Second), start), []job.Partition{3, 7, 9}; !slices.Equal(got, want) {
		t.Errorf("overdue: %v, want %v", got, want)
	}
	p.groups[1].count = 1
	if got, want := p.Overdue(start.Add(-2*time.Second), start), []job.Partition{3, 7}; !slices.Equal(got, want) {
		t.Errorf("with its group full: %v, want %v", got, want)
	}
}
