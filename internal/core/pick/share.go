package pick

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Share describes how much of a limit this server may use, and how much it could use.
type Share struct {
	Tenant tenant.ID
	Queue  string
	Whole  int // 0: the limit is gone, and its lent part is returned
	Want   int
	Used   int
	gate   *gate
}

// Shares lists, for every concurrency limit, what this server could use of it: what runs, and what waits and is
// served. It clears the record that one was too narrow.
func (p *Picker) Shares(serves func(tenant.ID, job.Class) bool) []Share {
	p.narrow = false
	var out []Share
	for k, g := range p.gates {
		if g.whole == 0 {
			continue
		}
		want := min(g.count+p.served(k, serves), g.whole)
		g.share = min(g.share, want) // a returned part is not used, whether or not the answer arrives
		out = append(out, Share{k.tenant, k.queue, g.whole, want, g.count, g})
	}
	for k := range p.owed {
		out = append(out, Share{Tenant: k.tenant, Queue: k.queue})
	}
	slices.SortFunc(out, func(a, b Share) int { return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Queue, b.Queue)) })
	return out
}

// Lent reports whether servers count some of a limit for this one, or expect it to have some.
func (p *Picker) Lent() bool {
	if len(p.owed) > 0 {
		return true
	}
	for _, g := range p.gates {
		if g.lent > 0 || g.told > 0 {
			return true
		}
	}
	return false
}

// Spare reports whether more of a limit is lent or requested than is of use here.
func (p *Picker) Spare(serves func(tenant.ID, job.Class) bool) bool {
	if len(p.owed) > 0 {
		return true
	}
	for k, g := range p.gates {
		if g.lent == 0 && g.told == 0 {
			continue
		}
		if want := min(g.count+p.served(k, serves), g.whole); want < max(g.lent, g.told) {
			return true
		}
	}
	return false
}

// served returns how many candidates under a scope are served by some worker.
func (p *Picker) served(k scope, serves func(tenant.ID, job.Class) bool) (n int) {
	t := p.tenants[k.tenant]
	if t == nil || t.waiting == 0 {
		return 0
	}
	for c, s := range t.classes {
		if s.waiting > 0 && (k.queue == "" || s.queue == k.queue) && serves(t.id, c) {
			n += s.waiting
		}
	}
	return n
}

// waiting returns how many candidates a scope has.
func (p *Picker) waiting(k scope) (n int) {
	t := p.tenants[k.tenant]
	if t == nil || k.queue == "" {
		return p.Waiting(k.tenant)
	}
	for _, s := range t.classes {
		if s.queue == k.queue {
			n += s.waiting
		}
	}
	return n
}

// Waiting returns how many candidates a tenant has.
func (p *Picker) Waiting(id tenant.ID) int {
	if t := p.tenants[id]; t != nil {
		return t.waiting
	}
	return 0
}

// TurnTime is the minimum time for which a server keeps the indivisible rest of a limit while others want it.
const TurnTime = 2 * time.Second

// Lent is a server's part of a shared limit.
type Lent struct {
	Share int       // the part reserved for it: what it may use, and what it does use
	Want  int       // what it would use
	Turns int64     // how often it was given a part of the indivisible rest
	Turn  time.Time // when it last was; zero: never
}

// Allot returns what one of several servers that share a limit may use of it, and what is reserved for it, which is
// never less than what it uses. It may use as much as it wants if there is enough for all, else its part; but never
// what is reserved for others. The indivisible rest goes round: to those with the fewest turns, for TurnTime or as
// long as what they started with it runs.
func Allot(limit int, all []Lent, me, used int, now time.Time) (may int, mine Lent) {
	mine = all[me]
	part, extra := divide(limit, all, me, now)
	holds := mine.holds(now)
	if extra && !holds && used >= part { // when that ends, the turn is decided again
		part, extra = part-1, false
	}
	left := limit
	for i, l := range all {
		if i != me {
			left -= l.Share
		}
	}
	may = max(0, min(part, left))
	if extra && !holds && may == part {
		mine.Turn = now
		mine.Turns = max(mine.Turns, most(all)-savedTurns) + 1
	}
	mine.Share = max(may, used)
	return may, mine
}

// holds reports whether a server still has its turn with the indivisible rest.
func (l Lent) holds(now time.Time) bool { return !l.Turn.IsZero() && now.Sub(l.Turn) < TurnTime }

// divide returns one server's part of a limit, by what each wants, and whether the part includes one of the
// indivisible rest.
func divide(limit int, all []Lent, me int, now time.Time) (part int, extra bool) {
	total := 0
	for _, l := range all {
		total += l.Want
	}
	want := all[me].Want
	if total <= limit || want == 0 {
		return want, false
	}
	left, before := limit, 0 // the indivisible rest, and how many come before me
	for i, l := range all {
		if l.Want == 0 {
			continue
		}
		left -= limit * l.Want / total
		if i != me && l.precedes(all[me], i < me, now) {
			before++
		}
	}
	part = limit * want / total
	if before < left {
		return part + 1, true
	}
	return part, false
}

// precedes reports whether a server comes before another in the distribution of the indivisible rest: first whoever
// has the turn, then fewer turns, then order.
func (l Lent) precedes(o Lent, first bool, now time.Time) bool {
	if a, b := l.holds(now), o.holds(now); a != b {
		return a
	}
	if l.Turns != o.Turns {
		return l.Turns < o.Turns
	}
	return first
}

// savedTurns limits how many turns a server may be behind: it does not save up turns in which it wanted nothing.
const savedTurns = 3

// most returns the largest number of turns that any server has had.
func most(all []Lent) (n int64) {
	for _, l := range all {
		n = max(n, l.Turns)
	}
	return n
}

// Narrow reports whether something waits only because this server's share of a limit is too small.
func (p *Picker) Narrow() bool { return p.narrow }

// pressing is how many executions must wait for a share before it is worth asking at once.
const pressing = 10

// Pressed reports whether something waits only for a share, and this server could use twice as much of it as it last
// requested and received. That is so for a short while when much has come at once.
func (p *Picker) Pressed(serves func(tenant.ID, job.Class) bool) bool {
	if !p.narrow {
		return false
	}
	for k, g := range p.gates {
		if g.whole == 0 || g.denied || g.count < g.share {
			continue
		}
		if want := min(g.count+p.served(k, serves), g.whole); want >= max(2*g.share, g.share+pressing) {
			return true
		}
	}
	return false
}

// Full reports whether something may be waiting for what runs to end.
func (p *Picker) Full() bool {
	for _, g := range p.gates {
		if g.whole > 0 && g.count >= g.share && g.count > 0 {
			return true
		}
	}
	if p.held > 0 {
		for _, g := range p.groups {
			if g.held && g.count > 0 {
				return true
			}
		}
	}
	return false
}

// Allow sets how much of a limit this server may use. What it uses beyond that stays reserved until it ends.
func (p *Picker) Allow(s Share, n int) {
	g := s.gate
	if g == nil {
		delete(p.owed, scope{s.Tenant, s.Queue})
		return
	}
	g.share, g.denied = min(n, g.whole), n < s.Want
	g.lent, g.told = max(n, s.Used), s.Want
}

// Deny records that this server's share of a limit is unknown: nothing more starts until it is asked again.
func (p *Picker) Deny(s Share) {
	if g := s.gate; g != nil {
		g.share, g.denied, g.told = 0, true, g.whole
	}
}

// overdueMost is how many candidates Overdue examines in each queue.
const overdueMost = 1000

// Overdue lists, in order, the partitions of limited candidates that were due before an instant and that no limit
// holds back: they wait for a worker, and only the owner of their partition may lease them.
func (p *Picker) Overdue(before, now time.Time) []job.Partition {
	seen := map[job.Partition]bool{}
	for _, t := range p.turn {
		if !t.gate.open(now) {
			continue
		}
		for _, s := range t.classes {
			if !s.gate.open(now) || p.halted(scope{t.id, s.queue}, now) {
				continue
			}
			for _, b := range s.open[:min(len(s.open), overdueMost)] {
				q := b.groupQueue
				if most := q.items[0].r.Group.Max; q.gate != nil && (most > 0 && q.gate.count >= most || !q.gate.open(now)) {
					continue
				}
				for _, x := range q.items[:min(len(q.items), overdueMost)] {
					if x.r.DueAt.Before(before) && p.Limits(x.r) {
						seen[x.r.Partition] = true
					}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// open reports whether a limit lets something start now, without requesting tokens.
func (g *gate) open(now time.Time) bool {
	switch {
	case g == nil:
		return true
	case g.whole > 0 && g.count >= g.share:
		return false
	}
	return g.rate.IsZero() || g.tokens > 0 || !now.Before(g.until)
}
