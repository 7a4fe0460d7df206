package pick

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// ahead is how long in advance a busy tenant or queue requests tokens beyond what waits: up to that much of the rate
// may go unused.
const ahead = 50 * time.Millisecond

// unpaid reports whether the rate of a limit must be paid first, and records the need.
func (p *Picker) unpaid(g *gate, now time.Time) bool { return g != nil && p.dry(g, g.rate, now) }

// dry reports whether a start has not been paid for, and records the need if a token may be requested now.
func (p *Picker) dry(g *gate, r job.Rate, now time.Time) bool {
	p.turnTo(g, r, now)
	if r.IsZero() {
		return false
	}
	if g.tokens > 0 {
		if gone := now.Sub(g.paid) / r.Interval(); gone > 0 {
			g.tokens, g.paid = max(0, g.tokens-int(min(gone, 1<<30))), g.paid.Add(gone*r.Interval())
		}
	}
	if g.tokens > 0 {
		return false
	}
	if !g.short && !now.Before(g.until) {
		g.short = true
		p.short = append(p.short, g)
	}
	return true
}

// purse holds the tokens that were drawn under one rate.
type purse struct {
	tokens      int
	paid, until time.Time
}

// turnTo makes a gate use a rate. If executions of several jobs share its key, each rate has its own tokens: one
// job's start is not paid with another's tokens. Otherwise the rate has changed, and what was paid for stays paid.
func (p *Picker) turnTo(g *gate, r job.Rate, now time.Time) {
	if g.rate == r {
		return
	}
	was := g.rate
	if !g.key.Shared() {
		if !r.IsZero() {
			g.rate = r
		}
		return
	}
	g.rate = r
	if g.other == nil {
		g.other = map[job.Rate]purse{}
	}
	for rate, x := range g.other { // what has gone by is forgotten
		if now.Sub(x.paid) >= time.Duration(x.tokens)*rate.Interval() && !now.Before(x.until) {
			delete(g.other, rate)
		}
	}
	if !was.IsZero() {
		g.other[was] = purse{g.tokens, g.paid, g.until}
	}
	x := g.other[r]
	delete(g.other, r)
	g.tokens, g.paid, g.until = x.tokens, x.paid, x.until
	if g.timed >= 0 {
		heap.Remove(&p.timed, g.timed)
	}
	if now.Before(g.until) {
		heap.Push(&p.timed, g)
	}
}

// paidFor reports whether the rate of a groupQueue's group is paid; if not, its group is held back.
func (p *Picker) paidFor(b *groupQueue, now time.Time) bool {
	g := b.gate
	if g != nil && p.dry(g, b.items[0].r.Group.Rate, now) {
		p.hold(g, true)
		return false
	}
	return true
}

// enter counts a picked candidate, and what pays for it; nil: there is no limit.
func (g *gate) enter() {
	if g == nil {
		return
	}
	g.count++
	if g.tokens > 0 {
		g.tokens--
	}
}

// reopen brings forward the groups that may ask for tokens again.
func (p *Picker) reopen(now time.Time) {
	for len(p.timed) > 0 && !now.Before(p.timed[0].until) {
		p.release(heap.Pop(&p.timed).(*gate))
	}
}

// Next returns when a rate that holds something back may allow it; zero if none does.
func (p *Picker) Next() time.Time {
	if len(p.timed) == 0 {
		return time.Time{}
	}
	return p.timed[0].until
}

// Need is the number of tokens a rate must provide before more can be picked.
type Need struct {
	Bucket string
	Rate   job.Rate
	N      int
	gate   *gate
}

// Short reports whether there are needs.
func (p *Picker) Short() bool { return len(p.short) > 0 }

// Needs lists the tokens to request before room more can be picked, and clears the requests.
func (p *Picker) Needs(room int) []Need {
	var out []Need
	for _, g := range p.short {
		g.short = false
		out = append(out, Need{g.bucket(), g.rate, p.need(g, room), g})
	}
	p.short = p.short[:0]
	slices.SortFunc(out, func(a, b Need) int { return cmp.Compare(a.Bucket, b.Bucket) })
	return out
}

// need returns how many tokens a gate requests: one for each waiting candidate and, if a pick of room leaves many,
// for those that go while these are picked.
func (p *Picker) need(g *gate, room int) int {
	var n int
	if g.key != 0 {
		n = g.waiting()
	} else if n = p.waiting(g.scope); n-room >= Many {
		n += int(ahead / g.rate.Interval())
	}
	return max(1, min(g.rate.Burst, n))
}

// bucket returns the bucket of the gate's rate.
func (g *gate) bucket() string {
	if g.key != 0 {
		return GroupBucket(g.key, g.rate)
	}
	return ScopeBucket(g.scope.tenant, g.scope.queue)
}

// GroupBucket returns the bucket of a group's rate. A key that several jobs may share has a bucket for each of their
// rates; a job's own has one, which is rescaled when the rate changes.
func GroupBucket(k job.GroupKey, r job.Rate) string {
	if !k.Shared() {
		return fmt.Sprintf("group/%016x", uint64(k))
	}
	pace := r.Pace()
	return fmt.Sprintf("group/%016x/%d*%d", uint64(k), pace.Step, pace.Burst)
}

// ScopeBucket returns the bucket of the rate of a tenant, or of one of its queues.
func ScopeBucket(t tenant.ID, queue string) string { return fmt.Sprintf("queue/%s/%s", t, queue) }

// Pour records what a need received: paid starts, or none before a wait is over.
func (p *Picker) Pour(n Need, tokens int, wait time.Duration, now time.Time) {
	g := n.gate
	p.turnTo(g, n.Rate, now)
	if tokens > 0 {
		g.tokens, g.paid, g.until = g.tokens+tokens, now, time.Time{}
		p.release(g)
		return
	}
	g.until = now.Add(max(wait, time.Millisecond))
	if g.timed < 0 {
		heap.Push(&p.timed, g)
	} else {
		heap.Fix(&p.timed, g.timed)
	}
}

// Evict removes all candidates of a group, and calls f with each: their limits have changed, and they return with the
// new ones. Whatever held the group back is checked again.
func (p *Picker) Evict(k job.GroupKey, f func(*job.Ready)) {
	g := p.groups[k]
	if g == nil {
		return
	}
	for _, b := range g.groupQueues {
		if len(b.items) == 0 {
			continue
		}
		t := p.tenants[payer(b.items[0].r)]
		for _, x := range b.items {
			f(x.r)
		}
		n := len(b.items)
		b.items = nil
		b.classQueue.waiting -= n
		t.waiting -= n
		p.size -= n
		if b.place >= 0 {
			b.classQueue.open.remove(b.place)
		}
		if t.waiting == 0 && t.place >= 0 {
			heap.Remove(&p.turn, t.place)
		}
	}
	g.other = nil
	if g.tokens, g.until = 0, (time.Time{}); g.timed >= 0 {
		heap.Remove(&p.timed, g.timed)
	}
	p.release(g)
}

// Throttled reports whether a rate holds a group back for longer than a time.
func (p *Picker) Throttled(k job.GroupKey, now time.Time, longer time.Duration) bool {
	g := p.groups[k]
	return g != nil && g.timed >= 0 && g.until.Sub(now) > longer
}

// byUntil orders gates by when they may ask again.
type byUntil []*gate

func (h byUntil) Len() int           { return len(h) }
func (h byUntil) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h byUntil) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].timed, h[j].timed = i, j
}

func (h *byUntil) Push(x any) {
	g := x.(*gate)
	g.timed = len(*h)
	*h = append(*h, g)
}

func (h *byUntil) Pop() any {
	old := *h
	g := old[len(old)-1]
	g.timed = -1
	*h = old[:len(old)-1]
	return g
}
