package pick

import (
	"cmp"
	"slices"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Share is how much of a limit may be used here, and how much would be.
type Share struct {
	Tenant tenant.ID
	Queue  string
	Whole  int
	Want   int
	Used   int
	gate   *gate
}

// Shares lists, of every limit on what runs at once, what would be used of it here: what runs and what waits. It forgets
// that one was too narrow.
func (p *Picker) Shares() []Share {
	p.narrow = false
	var out []Share
	for k, g := range p.gates {
		if g.whole == 0 {
			continue
		}
		want := min(g.count+p.waiting(k), g.whole)
		g.share = min(g.share, want) // what is given back is not used, whether or not the answer comes
		out = append(out, Share{k.tenant, k.queue, g.whole, want, g.count, g})
	}
	slices.SortFunc(out, func(a, b Share) int { return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Queue, b.Queue)) })
	return out
}

// waiting is how many candidates there are under a scope.
func (p *Picker) waiting(k scope) (n int) {
	t := p.tenants[k.tenant]
	if t == nil || k.queue == "" {
		return p.Waiting(k.tenant)
	}
	for _, s := range t.shelves {
		if s.queue == k.queue {
			n += s.waiting
		}
	}
	return n
}

// Waiting is how many candidates a tenant has.
func (p *Picker) Waiting(id tenant.ID) int {
	if t := p.tenants[id]; t != nil {
		return t.waiting
	}
	return 0
}

// Divide is what one of several that share a limit may have of it, where each has a wish: all of it, if it is enough for
// all; else its part, and what does not divide goes to each in turn, so that none waits for ever.
func Divide(limit int, wishes []int, i int, turn int64) int {
	total, wish := 0, 0
	for k, w := range wishes {
		total += w
		if k == i {
			wish = w
		}
	}
	if total <= limit || wish == 0 {
		return wish
	}
	left, rank, n := limit, 0, 0
	for k, w := range wishes {
		if w == 0 {
			continue
		}
		left -= limit * w / total
		if k < i {
			rank++
		}
		n++
	}
	mine := limit * wish / total
	if int((int64(rank)+turn)%int64(n)) < left {
		mine++
	}
	return mine
}

// Narrow reports whether something waits only because too little of a limit may be used here.
func (p *Picker) Narrow() bool { return p.narrow }

// pressing is how many must wait for a share, at the least, for it to be worth asking at once.
const pressing = 10

// Pressed reports whether something waits only for a share, and much more of one could be used than was asked for last, and was
// given: twice as much. That is so when much has come at once, and not for long.
func (p *Picker) Pressed() bool {
	if !p.narrow {
		return false
	}
	for k, g := range p.gates {
		if g.whole == 0 || g.denied || g.count < g.share {
			continue
		}
		if want := min(g.count+p.waiting(k), g.whole); want >= max(2*g.share, g.share+pressing) {
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

// Allow says how much of a limit may be used here.
func (p *Picker) Allow(s Share, n int) {
	s.gate.share, s.gate.denied = min(n, s.gate.whole), n < s.Want
}
