package pick

import (
	"container/heap"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// scope is what a limit applies to: a tenant, or one of its queues.
type scope struct {
	tenant tenant.ID
	queue  string // empty: the whole tenant
}

// gate is a limit and its usage.
type gate struct {
	whole  int  // the concurrency limit; 0: none
	share  int  // what of it may be used here
	denied bool // less of it than was asked for
	lent   int  // the part of it that other servers count for this one
	told   int  // what this one last reported as its need
	count  int  // what runs
	rate   job.Rate
	tokens int       // starts that were paid for
	paid   time.Time // when these were paid; they expire one by one as their bucket refills
	until  time.Time // no tokens are available before this instant
	short  bool      // something waits for tokens, and they may be requested
	timed  int       // its index in Picker.timed; -1: not there

	scope scope // of a tenant or a queue

	// of a group
	key         job.GroupKey
	other       map[job.Rate]purse // of a shared key: tokens paid by rates other than that of the last one examined
	groupQueues []*groupQueue      // one a classQueue
	held        bool               // its groupQueues stand aside
}

// Limit sets the limits over tenants and queues, and which of these are paused. It reports whether running executions
// must be recounted, because one has a limit that had none.
func (p *Picker) Limit(ls []job.Limit) (recount bool) {
	was := p.gates
	p.gates, p.latest = make(map[scope]*gate, len(ls)), passage{}
	clear(p.paused)
	for _, l := range ls {
		k := scope{l.Tenant, l.Queue}
		if !l.Pause.IsZero() {
			p.paused[k] = l.Pause
		}
		if l.IsZero() {
			continue
		}
		g := was[k]
		if g == nil {
			g = &gate{scope: k, timed: -1}
		}
		if l.Max > 0 && g.whole == 0 {
			recount = true
			g.share = 0
		}
		if g.rate != l.Rate {
			g.rate, g.tokens, g.until = l.Rate, 0, time.Time{}
			if g.timed >= 0 {
				heap.Remove(&p.timed, g.timed) // it may ask at once
			}
		}
		if l.Max == 0 && g.lent+g.told > 0 {
			p.owed[k] = true
			g.lent, g.told = 0, 0
		} else if l.Max > 0 {
			delete(p.owed, k)
		}
		g.whole, g.share = l.Max, min(g.share, l.Max)
		p.gates[k] = g
	}
	for k, g := range was {
		if p.gates[k] == nil && g.lent+g.told > 0 {
			p.owed[k] = true
		}
	}
	for _, t := range p.tenants {
		t.gate = p.gates[scope{tenant: t.id}]
		for _, s := range t.classes {
			s.gate = p.gates[scope{t.id, s.queue}]
		}
	}
	return recount
}

// Limits reports whether a candidate counts against any limit.
func (p *Picker) Limits(r *job.Ready) bool {
	if r.Group.Key != 0 {
		return true
	}
	if len(p.gates) == 0 {
		return false
	}
	x := p.passage(r)
	return x.whole != nil || x.part != nil
}

// passage holds the limits of tenants and queues that candidates of a tenant's class must pass.
type passage struct {
	tenant      tenant.ID
	class       job.Class
	known       bool
	whole, part *gate // of the tenant and of the queue; nil: none
}

// stay records the gates that a running execution passed: of its tenant, its queue and its group; nil: none.
type stay struct{ whole, part, group *gate }

// passage finds the gates of a candidate. Most have the same class as the previous one.
func (p *Picker) passage(r *job.Ready) *passage {
	if x := &p.latest; !x.known || x.tenant != r.Tenant || x.class != r.Class {
		id := payer(r)
		*x = passage{r.Tenant, r.Class, true, p.gates[scope{tenant: id}], p.gates[scope{id, p.queue(r.Class)}]}
	}
	return &p.latest
}

// queue returns the queue of a class.
func (p *Picker) queue(c job.Class) string {
	q, ok := p.queues[c]
	if !ok {
		q = c.Needs().Queue
		p.queues[c] = q
	}
	return q
}

// group finds or creates the gate of a group.
func (p *Picker) group(k job.GroupKey) *gate {
	g := p.groups[k]
	if g == nil {
		g = &gate{key: k, timed: -1}
		p.groups[k] = g
	}
	return g
}

// groupQueue returns the groupQueue of a classQueue in the group; nil: it has none.
func (g *gate) groupQueue(s *classQueue) *groupQueue {
	for _, b := range g.groupQueues {
		if b.classQueue == s {
			return b
		}
	}
	return nil
}

// waiting returns how many candidates a group has.
func (g *gate) waiting() (n int) {
	for _, b := range g.groupQueues {
		n += len(b.items)
	}
	return n
}

// forgetGroup drops a group if nothing of it waits or runs and its rate has no pending requests; otherwise it drops
// its empty groupQueues.
func (p *Picker) forgetGroup(g *gate) {
	g.groupQueues = slices.DeleteFunc(g.groupQueues, func(b *groupQueue) bool { return len(b.items) == 0 })
	if len(g.groupQueues) == 0 && g.count == 0 && g.tokens == 0 && g.timed < 0 && !g.short {
		p.hold(g, false)
		delete(p.groups, g.key)
	}
}

// keptGroups is how many idle groups are kept until pruning: more work may come.
const keptGroups = 10_000

// spareGroup drops such a group at once if there are very many.
func (p *Picker) spareGroup(g *gate) {
	if len(p.groups) > keptGroups {
		p.forgetGroup(g)
	}
}

// hold sets whether the groupQueues of a group stand aside.
func (p *Picker) hold(g *gate, held bool) {
	if g.held == held {
		return
	}
	if g.held = held; held {
		p.held++
	} else {
		p.held--
	}
}

// Aside removes up to most candidates that their groups hold back and that the store lists with those in no group,
// and calls f with each: while they wait, they would block the ones listed after them. Candidates whose rate is yet
// to be asked stay.
func (p *Picker) Aside(most int, f func(*job.Ready)) {
	if p.held == 0 {
		return
	}
	for _, g := range p.groups {
		if !g.held || g.short {
			continue
		}
		for _, b := range slices.Clone(g.groupQueues) {
			if most -= p.unload(b, most, f); most <= 0 {
				return
			}
		}
	}
}

// unload removes up to most packed candidates from a groupQueue that is held back, and returns how many it removed.
func (p *Picker) unload(b *groupQueue, most int, f func(*job.Ready)) (n int) {
	var stay items
	var t *tenantQueue
	for _, x := range b.items {
		if !x.r.Packed || n == most {
			stay.push(x)
			continue
		}
		n++
		t = p.tenants[payer(x.r)]
		f(x.r)
	}
	if n == 0 {
		return 0
	}
	b.items = stay
	b.classQueue.waiting -= n
	t.waiting -= n
	p.size -= n
	switch {
	case len(stay) > 0 && b.place >= 0:
		b.classQueue.open.fix(b.place)
	case len(stay) == 0:
		if b.place >= 0 {
			b.classQueue.open.remove(b.place)
		}
		p.emptied(b)
	}
	if t.waiting == 0 && t.place >= 0 {
		heap.Remove(&p.turn, t.place)
	}
	return n
}

// full reports whether a limit is used up, and records whether only this server's share is.
func (p *Picker) full(g *gate) bool {
	if g == nil || g.whole == 0 || g.count < g.share {
		return false
	}
	p.narrow = p.narrow || g.share < g.whole
	return true
}

// admits reports whether the head of a groupQueue may start as far as its group is concerned; if not, its group is
// held back.
func (p *Picker) admits(b *groupQueue) bool {
	g := b.gate
	if g == nil {
		return true
	}
	if most := b.items[0].r.Group.Max; most > 0 && g.count >= most {
		p.hold(g, true)
		return false
	}
	return true
}

// stay finds the gates that a candidate passes.
func (p *Picker) stay(r *job.Ready) (s stay) {
	if len(p.gates) > 0 {
		x := p.passage(r)
		s.whole, s.part = x.whole, x.part
	}
	if r.Group.Key != 0 {
		s.group = p.group(r.Group.Key)
	}
	return s
}

// Started records that what was picked now runs under a lease.
func (p *Picker) Started(l job.Lease, r *job.Ready) {
	if s := p.stay(r); s != (stay{}) {
		p.running[l] = s
	}
}

// Dropped records that what was picked does not run after all.
func (p *Picker) Dropped(r *job.Ready) { p.leave(p.stay(r)) }

// Ended records that a lease has ended; it ignores leases that do not count.
func (p *Picker) Ended(l job.Lease) {
	if len(p.running) == 0 {
		return
	}
	if s, ok := p.running[l]; ok {
		delete(p.running, l)
		p.leave(s)
	}
}

func (p *Picker) leave(s stay) {
	s.whole.leave()
	s.part.leave()
	if g := s.group; g != nil {
		g.leave()
		p.release(g)
		p.spareGroup(g)
	}
}

// leave counts one less; nil: there is no limit.
func (g *gate) leave() {
	if g != nil {
		g.count = max(0, g.count-1)
	}
}

// release brings the groupQueues of a group forward again.
func (p *Picker) release(g *gate) {
	if !g.held {
		return
	}
	p.hold(g, false)
	for _, b := range g.groupQueues {
		if b.place < 0 && len(b.items) > 0 {
			b.classQueue.open.push(b)
		}
	}
}

// Counts reports whether any lease counts against limits.
func (p *Picker) Counts() bool { return len(p.running) > 0 }

// Count lists the leases that count against limits.
func (p *Picker) Count() []job.Lease {
	out := make([]job.Lease, 0, len(p.running))
	for l := range p.running {
		out = append(out, l)
	}
	return out
}

// Recount replaces the running executions that count against limits. Those that no longer count may be counted
// elsewhere now, and take their part of each share with them until more is allowed.
func (p *Picker) Recount(running map[job.Lease]job.Ready) {
	clear(p.running)
	was := make(map[*gate]int, len(p.gates))
	for _, g := range p.gates {
		was[g], g.count = g.count, 0
	}
	for _, g := range p.groups {
		g.count = 0
	}
	for l, r := range running {
		s := p.stay(&r)
		if s == (stay{}) {
			continue
		}
		p.running[l] = s
		for _, g := range []*gate{s.whole, s.part, s.group} {
			if g != nil {
				g.count++
			}
		}
	}
	for g, n := range was {
		if g.whole > 0 {
			g.share = max(0, g.share-max(0, n-g.count))
		}
	}
	for _, g := range p.groups {
		p.release(g)
		p.forgetGroup(g)
	}
}
