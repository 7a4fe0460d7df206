package pick

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

func mail(r *job.Ready) { r.Class = job.Needs{Target: job.HTTP, Queue: "mail"}.Class() }

// Of a wide rate, tokens for everything that waits would have gone before the next pick: where that will leave many, more are asked for.
func TestNeeds(t *testing.T) {
	wide := job.Rate{Count: 1_000_000, Per: time.Second, Burst: 100_000}
	slow := job.Rate{Count: 100, Per: time.Second, Burst: 1000}
	for _, c := range []struct {
		name        string
		limit       job.Limit
		group       job.Group
		mail, other int // that wait
		room, want  int
	}{
		{"one", job.Limit{Rate: wide}, job.Group{}, 0, 1, 1, 1},
		{"few are left", job.Limit{Rate: wide}, job.Group{}, 0, Many, 1, Many},
		{"many are left", job.Limit{Rate: wide}, job.Group{}, 0, Many + 1, 1, Many + 1 + 50_000},
		{"all are picked", job.Limit{Rate: wide}, job.Group{}, 0, 3 * Many, 3 * Many, 3 * Many},
		{"a burst is less", job.Limit{Rate: job.Rate{Count: 1_000_000, Per: time.Second, Burst: 1000}}, job.Group{}, 0, 2 * Many, 1, 1000},
		{"a slow rate", job.Limit{Rate: slow}, job.Group{}, 0, 2 * Many, 1, 2*Many + 5},
		{"a very slow one", job.Limit{Rate: job.Rate{Count: 1, Per: time.Minute, Burst: 1000}}, job.Group{}, 0, 2 * Many, 1, 2 * Many},
		{"a tenant's, over two queues", job.Limit{Rate: slow}, job.Group{}, Many, Many, 1, 2*Many + 5},
		{"a queue's", job.Limit{Queue: "mail", Rate: wide}, job.Group{}, 3, 2 * Many, 1, 3},
		{"a queue's of many", job.Limit{Queue: "mail", Rate: slow}, job.Group{}, 2 * Many, 1, 1, 2*Many + 5},
		{"a group's", job.Limit{Max: 1000}, job.Group{Key: 7, Rate: wide}, 0, 2 * Many, 1, 2 * Many},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := New()
			c.limit.Tenant = "t"
			p.Limit([]job.Limit{c.limit})
			for _, s := range p.Shares(all) {
				p.Allow(s, s.Whole)
			}
			for range c.mail {
				p.Add(ready("t", grouped(c.group), mail))
			}
			for range c.other {
				p.Add(ready("t", grouped(c.group)))
			}
			p.Pick(nil, 1, all, start, goOn)
			if needs := p.Needs(c.room); len(needs) != 1 || needs[0].N != c.want {
				t.Errorf("needs %+v, want %d", needs, c.want)
			}
		})
	}
}

// Servers that draw from one bucket start, in any stretch of time, no more than it holds and what fills it meanwhile, however much they
// draw ahead.
func TestTokensOfSeveralServers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := job.Rate{Count: rapid.IntRange(1, 50_000).Draw(t, "count"), Per: time.Second}
		rate.Burst = rapid.IntRange(1, 2*rate.Count).Draw(t, "burst")
		b := &bucket{rate: rate}
		servers := make([]*Picker, rapid.IntRange(1, 3).Draw(t, "servers"))
		for i := range servers {
			servers[i] = New()
			servers[i].Limit([]job.Limit{{Tenant: "t", Rate: rate}})
		}
		type start struct {
			at time.Time
			n  int
		}
		var starts []start
		now := time.Unix(1_000_000, 0)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			p := servers[rapid.IntRange(0, len(servers)-1).Draw(t, "server")]
			for range rapid.SampledFrom([]int{0, 1, 10, 3 * Many}).Draw(t, "come") {
				p.Add(ready("t"))
			}
			room := rapid.SampledFrom([]int{1, 20, Many, 1000}).Draw(t, "room")
			got := p.Pick(nil, room, all, now, goOn)
			for range 2 {
				for _, n := range p.Needs(room - len(got)) {
					tokens, wait := b.draw(n.N, now)
					p.Pour(n, tokens, wait, now)
				}
				got = p.Pick(got, room, all, now, goOn)
			}
			starts = append(starts, start{now, len(got)})
			now = now.Add(time.Duration(rapid.SampledFrom([]int{0, 17, 1000, 7000, 49_000, 300_000}).Draw(t, "µs")) * time.Microsecond)
		}
		for i := range starts {
			n := 0
			for _, s := range starts[i:] {
				n += s.n
				if most := rate.Burst + int(s.at.Sub(starts[i].at)/rate.Interval()) + 1; n > most {
					t.Fatalf("%d started within %v, and at most %d may", n, s.at.Sub(starts[i].at), most)
				}
			}
		}
	})
}
