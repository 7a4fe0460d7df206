// Package pick decides which of the waiting executions start next.
//
// A Picker holds candidates and says, for a worker that wants some: the tenant
// whose turn it is, by weighted fair shares; of that tenant the execution with
// the best rank; and none that is over a limit, of its tenant, its queue or its
// group, or whose queue is paused. What a limit holds back steps aside, so that it stands in nobody's way,
// and comes forward when the limit gives way.
//
// A Picker knows neither stores nor clocks: candidates, tokens of rates, shares
// of limits and the time are handed in. One goroutine owns it.
package pick

import (
	"container/heap"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Picker holds candidates and what limits them.
type Picker struct {
	tenants map[tenant.ID]*party
	turn    turns // the tenants that have a candidate, by virtual time
	virtual float64
	weights map[tenant.ID]int
	size    int
	queues  map[job.Class]string // of classes

	gates   map[scope]*gate     // of tenants and queues that have a limit
	paused  map[scope]job.Pause // queues of which nothing starts
	groups  map[job.GroupKey]*gate
	running map[job.Lease]job.Ready // what counts against limits
	short   []*gate                 // whose rate must be asked for more
	timed   byUntil                 // whose rate said when to ask again
	narrow  bool                    // something waits for more of a limit than may be used here
}

// party is a tenant with its candidates.
type party struct {
	id      tenant.ID
	shelves map[job.Class]*shelf
	waiting int     // candidates
	virtual float64 // time it has used, by its weight
	place   int     // in turns; -1: not there
}

// shelf holds the candidates of one class of a tenant.
type shelf struct {
	queue   string
	waiting int  // candidates
	plain   *bin // of candidates in no group
	open    bins // those that may be picked from, the best head first
}

// bin holds the candidates of one group, or those in none, of a shelf.
type bin struct {
	shelf *shelf
	group job.GroupKey
	items items
	place int // in shelf.open; -1: it stands aside
}

// New makes a picker without candidates.
func New() *Picker {
	return &Picker{
		tenants: map[tenant.ID]*party{}, weights: map[tenant.ID]int{}, queues: map[job.Class]string{},
		gates: map[scope]*gate{}, paused: map[scope]job.Pause{}, groups: map[job.GroupKey]*gate{}, running: map[job.Lease]job.Ready{},
	}
}

// Weigh sets the tenants' weights; a tenant that is not named has 1.
func (p *Picker) Weigh(weights map[tenant.ID]int) { p.weights = weights }

// Len is how many candidates there are.
func (p *Picker) Len() int { return p.size }

// Add takes in a candidate.
func (p *Picker) Add(r *job.Ready) {
	t := p.tenants[r.Tenant]
	if t == nil {
		t = &party{id: r.Tenant, shelves: map[job.Class]*shelf{}, place: -1}
		p.tenants[r.Tenant] = t
	}
	s := t.shelves[r.Class]
	if s == nil {
		s = &shelf{queue: p.queue(r.Class)}
		s.plain = &bin{shelf: s, place: -1}
		t.shelves[r.Class] = s
	}
	b := p.bin(s, r)
	b.items.push(item{r.Rank().UnixMicro(), r})
	if b.place >= 0 {
		heap.Fix(&s.open, b.place)
	} else if len(b.items) == 1 && !p.aside(b) {
		heap.Push(&s.open, b)
	}
	s.waiting++
	t.waiting++
	p.size++
	if t.place < 0 {
		t.virtual = max(t.virtual, p.virtual) // it has not saved up what it did not ask for
		heap.Push(&p.turn, t)
	}
}

// bin finds, or makes, the bin of a candidate.
func (p *Picker) bin(s *shelf, r *job.Ready) *bin {
	if r.Group.Key != 0 {
		g := p.group(r.Group.Key)
		if b := g.bins[s]; b != nil {
			return b
		}
		b := &bin{shelf: s, group: r.Group.Key, place: -1}
		g.bins[s] = b
		return b
	}
	return s.plain
}

// aside reports whether the bin's gate holds it back.
func (p *Picker) aside(b *bin) bool {
	g := p.groups[b.group]
	return b.group != 0 && g != nil && g.held
}

// Any reports whether there is a candidate that could be picked for a worker that takes what serves says.
func (p *Picker) Any(serves func(tenant.ID, job.Class) bool, now time.Time) bool {
	p.reopen(now)
	for _, t := range p.turn {
		if p.best(t, serves, now) != nil {
			return true
		}
	}
	return false
}

// Pick takes out up to n candidates whose class is served, in the order in which they are to start. It stops where took,
// told of each, says no. What it picks counts against the limits until it is Started, or Dropped.
func (p *Picker) Pick(n int, serves func(tenant.ID, job.Class) bool, now time.Time, took func(*job.Ready) bool) []*job.Ready {
	p.reopen(now)
	var picked []*job.Ready
	var passed []*party // those that have nothing for this worker now
	for len(picked) < n && len(p.turn) > 0 {
		t := p.turn[0]
		b := p.best(t, serves, now)
		if b == nil {
			heap.Pop(&p.turn)
			passed = append(passed, t)
			continue
		}
		r := p.take(t, b)
		picked = append(picked, r)
		if !took(r) {
			break
		}
	}
	for _, t := range passed {
		if t.waiting > 0 {
			heap.Push(&p.turn, t)
		}
	}
	return picked
}

// best finds the bin of a tenant whose head is to start first, of those that are served and not held back. What holds by
// numbers is asked before what holds by a rate, and a tenant's rate before its queues' and groups': a rate is paid only
// for what would start then.
func (p *Picker) best(t *party, serves func(tenant.ID, job.Class) bool, now time.Time) *bin {
	if p.full(scope{tenant: t.id}) {
		return nil
	}
	var best *bin
	paid := false // the tenant's rate was asked for
	for c, s := range t.shelves {
		if len(s.open) == 0 || !serves(t.id, c) || p.halted(scope{t.id, s.queue}, now) || p.full(scope{t.id, s.queue}) {
			continue
		}
		for len(s.open) > 0 && !p.admits(s.open[0]) {
			heap.Pop(&s.open) // it stands aside until its gate gives way
		}
		if len(s.open) == 0 {
			continue
		}
		if !paid {
			if p.unpaid(scope{tenant: t.id}, now) {
				return nil
			}
			paid = true
		}
		if p.unpaid(scope{t.id, s.queue}, now) {
			continue
		}
		for len(s.open) > 0 && !(p.admits(s.open[0]) && p.paidFor(s.open[0], now)) {
			heap.Pop(&s.open)
		}
		if len(s.open) > 0 && (best == nil || s.open[0].items[0].less(best.items[0])) {
			best = s.open[0]
		}
	}
	return best
}

// take takes the head of a bin out and counts it.
func (p *Picker) take(t *party, b *bin) *job.Ready {
	r := b.items.pop().r
	if len(b.items) > 0 {
		heap.Fix(&b.shelf.open, b.place)
	} else {
		heap.Remove(&b.shelf.open, b.place)
		p.forgetBin(b)
	}
	b.shelf.waiting--
	t.waiting--
	p.size--
	p.virtual = max(p.virtual, t.virtual)
	t.virtual += 1 / float64(max(p.weights[t.id], 1))
	if t.waiting > 0 {
		heap.Fix(&p.turn, t.place)
	} else {
		heap.Remove(&p.turn, t.place)
	}
	p.enter(r)
	return r
}

func (p *Picker) forgetBin(b *bin) {
	if g := p.groups[b.group]; b.group != 0 && g != nil {
		delete(g.bins, b.shelf)
		p.forgetGroup(b.group, g)
	}
}

// Prune forgets what is no longer needed: classes, tenants that have no candidates, but for those that have used more than
// their share lately, and groups of which nothing waits or runs.
func (p *Picker) Prune() {
	clear(p.queues)
	for k, g := range p.groups {
		if g.tokens > 0 && len(g.bins) == 0 {
			g.tokens = 0
		}
		p.forgetGroup(k, g)
	}
	for id, t := range p.tenants {
		if t.waiting == 0 && t.virtual <= p.virtual {
			delete(p.tenants, id)
		}
	}
}

// Clear drops all candidates; what is running still counts.
func (p *Picker) Clear() {
	p.turn, p.size = nil, 0
	for _, t := range p.tenants {
		t.shelves, t.waiting, t.place = map[job.Class]*shelf{}, 0, -1
	}
	for k, g := range p.groups {
		g.bins, g.held = map[*shelf]*bin{}, false
		p.forgetGroup(k, g)
	}
}

type item struct {
	rank int64
	r    *job.Ready
}

func (a item) less(b item) bool {
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	return string(a.r.ID[:]) < string(b.r.ID[:])
}

// items is a heap; it is written out since container/heap would allocate for every item.
type items []item

func (h *items) push(x item) {
	*h = append(*h, x)
	a := *h
	for i := len(a) - 1; i > 0; {
		up := (i - 1) / 2
		if !a[i].less(a[up]) {
			break
		}
		a[i], a[up] = a[up], a[i]
		i = up
	}
}

func (h *items) pop() item {
	a := *h
	top, n := a[0], len(a)-1
	a[0] = a[n]
	a[n] = item{}
	a = a[:n]
	*h = a
	for i := 0; ; {
		least := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < n && a[c].less(a[least]) {
				least = c
			}
		}
		if least == i {
			return top
		}
		a[i], a[least] = a[least], a[i]
		i = least
	}
}

// bins are ordered by their heads.
type bins []*bin

func (h bins) Len() int           { return len(h) }
func (h bins) Less(i, j int) bool { return h[i].items[0].less(h[j].items[0]) }
func (h bins) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *bins) Push(x any) {
	b := x.(*bin)
	b.place = len(*h)
	*h = append(*h, b)
}

func (h *bins) Pop() any {
	old := *h
	b := old[len(old)-1]
	b.place = -1
	*h = old[:len(old)-1]
	return b
}

// turns are ordered by virtual time.
type turns []*party

func (h turns) Len() int { return len(h) }
func (h turns) Less(i, j int) bool {
	if h[i].virtual != h[j].virtual {
		return h[i].virtual < h[j].virtual
	}
	return h[i].id < h[j].id
}

func (h turns) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *turns) Push(x any) {
	t := x.(*party)
	t.place = len(*h)
	*h = append(*h, t)
}

func (h *turns) Pop() any {
	old := *h
	t := old[len(old)-1]
	t.place = -1
	*h = old[:len(old)-1]
	return t
}
