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
	"encoding/binary"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Picker holds candidates and what limits them.
type Picker struct {
	tenants map[tenant.ID]*tenantQueue
	turn    turns // the tenants that have a candidate, by virtual time
	virtual float64
	weights map[tenant.ID]int
	size    int
	queues  map[job.Class]string // of classes

	gates   map[scope]*gate     // of tenants and queues that have a limit
	latest  passage             // that was looked up
	paused  map[scope]job.Pause // queues of which nothing starts
	groups  map[job.GroupKey]*gate
	held    int                // groups whose groupQueues stand aside
	running map[job.Lease]stay // what counts against limits
	short   []*gate            // whose rate must be asked for more
	timed   byUntil            // whose rate said when to ask again
	narrow  bool               // something waits for more of a limit than may be used here
	owed    map[scope]bool     // what is lent of limits that are no more
}

// tenantQueue is a tenant with its candidates.
type tenantQueue struct {
	id      tenant.ID
	gate    *gate // nil: it has no limit
	classes map[job.Class]*classQueue
	waiting int     // candidates
	virtual float64 // time it has used, by its weight
	place   int     // in turns; -1: not there
}

// classQueue holds the candidates of one class of a tenant.
type classQueue struct {
	queue   string
	gate    *gate       // of the queue; nil: it has no limit
	waiting int         // candidates
	plain   *groupQueue // of candidates in no group
	open    groupQueues // those that may be picked from, the best head first
}

// groupQueue holds the candidates of one group, or those in none, of a classQueue.
type groupQueue struct {
	classQueue *classQueue
	gate       *gate // of the group; nil: of those in none
	items      items
	place      int // in classQueue.open; -1: it stands aside
}

// Many sets from how many candidates on a pick keeps bundles together, and pays the rate of what it leaves ahead.
const Many = 4 * job.Bundle

// New makes a picker without candidates.
func New() *Picker {
	return &Picker{
		tenants: map[tenant.ID]*tenantQueue{}, weights: map[tenant.ID]int{}, queues: map[job.Class]string{},
		gates: map[scope]*gate{}, paused: map[scope]job.Pause{}, owed: map[scope]bool{}, groups: map[job.GroupKey]*gate{}, running: map[job.Lease]stay{},
	}
}

// Weigh sets the tenants' weights; a tenant that is not named has 1.
func (p *Picker) Weigh(weights map[tenant.ID]int) { p.weights = weights }

// Len returns the number of candidates.
func (p *Picker) Len() int { return p.size }

// Add takes in a candidate.
func (p *Picker) Add(r *job.Ready) {
	t := p.tenants[r.Tenant]
	if t == nil {
		t = &tenantQueue{id: r.Tenant, gate: p.gates[scope{tenant: r.Tenant}], classes: map[job.Class]*classQueue{}, place: -1}
		p.tenants[r.Tenant] = t
	}
	s := t.classes[r.Class]
	if s == nil {
		s = &classQueue{queue: p.queue(r.Class)}
		s.gate = p.gates[scope{r.Tenant, s.queue}]
		s.plain = &groupQueue{classQueue: s, place: -1}
		t.classes[r.Class] = s
	}
	b := p.groupQueue(s, r)
	b.items.push(item{r.Rank().UnixMicro(), binary.BigEndian.Uint64(r.ID[:]), r})
	if b.place >= 0 {
		s.open.fix(b.place)
	} else if len(b.items) == 1 && !b.aside() {
		s.open.push(b)
	}
	s.waiting++
	t.waiting++
	p.size++
	if t.place < 0 {
		t.virtual = max(t.virtual, p.virtual) // it has not saved up what it did not ask for
		heap.Push(&p.turn, t)
	}
}

// groupQueue finds, or makes, the groupQueue of a candidate.
func (p *Picker) groupQueue(s *classQueue, r *job.Ready) *groupQueue {
	if r.Group.Key != 0 {
		g := p.group(r.Group.Key)
		b := g.groupQueue(s)
		if b == nil {
			b = &groupQueue{classQueue: s, gate: g, place: -1}
			g.groupQueues = append(g.groupQueues, b)
		}
		return b
	}
	return s.plain
}

// aside reports whether the groupQueue's gate holds it back.
func (b *groupQueue) aside() bool { return b.gate != nil && b.gate.held }

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

// Pick takes out candidates whose class is served, in the order in which they are to start, until with those that were
// picked before there are n. It stops where took, told of each, says no. What it picks counts against the limits until it is
// Started, or Dropped.
//
// Where n is large, a tenant whose turn it is has it until the bundle ends that it began, and waits the longer afterwards;
// and a few less are picked rather than a part of another bundle: what is stored together is better leased together.
func (p *Picker) Pick(picked []*job.Ready, n int, serves func(tenant.ID, job.Class) bool, now time.Time, took func(*job.Ready) bool) []*job.Ready {
	p.reopen(now)
	var passed []*tenantQueue // those that have nothing for this worker now
	var begun *tenantQueue    // has begun a bundle, with the last that was picked
	if last := len(picked) - 1; n >= Many && last >= 0 && job.Bundled(picked[last].ID) {
		begun = p.tenants[picked[last].Tenant]
	}
	for len(picked) < n && len(p.turn) > 0 {
		t := p.turn[0]
		var b *groupQueue
		if begun != nil && begun != t && begun.place >= 0 {
			if b = p.best(begun, serves, now); b != nil && job.BundleOf(b.items[0].r.ID) == job.BundleOf(picked[len(picked)-1].ID) {
				t = begun
			} else {
				b = nil
			}
		}
		if b == nil {
			b = p.best(t, serves, now)
		}
		if b == nil {
			heap.Pop(&p.turn)
			passed = append(passed, t)
			continue
		}
		next := b.items[0].r // is it of a bundle that hardly fits?
		if last := len(picked) - 1; n >= Many && last >= 0 && n-len(picked) < job.Bundle && job.Bundled(next.ID) && job.BundleOf(next.ID) != job.BundleOf(picked[last].ID) {
			break
		}
		r := p.take(t, b, now)
		picked = append(picked, r)
		if !took(r) {
			break
		}
		if begun = nil; n >= Many && job.Bundled(r.ID) {
			begun = t
		}
	}
	for _, t := range passed {
		if t.waiting > 0 {
			heap.Push(&p.turn, t)
		}
	}
	return picked
}

// best finds the groupQueue of a tenant whose head is to start first, of those that are served and not held back. What holds by
// numbers is asked before what holds by a rate, and a tenant's rate before its queues' and groups': a rate is paid only
// for what would start then.
func (p *Picker) best(t *tenantQueue, serves func(tenant.ID, job.Class) bool, now time.Time) *groupQueue {
	if p.full(t.gate) {
		return nil
	}
	var best *groupQueue
	paid := false // the tenant's rate was asked for
	for c, s := range t.classes {
		if len(s.open) == 0 || !serves(t.id, c) || p.halted(scope{t.id, s.queue}, now) || p.full(s.gate) {
			continue
		}
		for len(s.open) > 0 && !p.admits(s.open[0].groupQueue) {
			s.open.remove(0) // it stands aside until its gate gives way
		}
		if len(s.open) == 0 {
			continue
		}
		if !paid {
			if p.unpaid(t.gate, now) {
				return nil
			}
			paid = true
		}
		if p.unpaid(s.gate, now) {
			continue
		}
		for len(s.open) > 0 && !(p.admits(s.open[0].groupQueue) && p.paidFor(s.open[0].groupQueue, now)) {
			s.open.remove(0)
		}
		if len(s.open) > 0 && (best == nil || s.open[0].head.less(best.items[0])) {
			best = s.open[0].groupQueue
		}
	}
	return best
}

// take takes the head of a groupQueue out and counts it.
func (p *Picker) take(t *tenantQueue, b *groupQueue, now time.Time) *job.Ready {
	r := b.items.pop().r
	t.gate.enter()
	b.classQueue.gate.enter()
	if b.gate != nil {
		p.turnTo(b.gate, r.Group.Rate, now)
	}
	b.gate.enter()
	if len(b.items) > 0 {
		b.classQueue.open.fix(b.place)
	} else {
		b.classQueue.open.remove(b.place)
		p.emptied(b)
	}
	b.classQueue.waiting--
	t.waiting--
	p.size--
	p.virtual = max(p.virtual, p.turn[0].virtual) // and not that of one that is ahead since it began a bundle
	t.virtual += 1 / float64(max(p.weights[t.id], 1))
	if t.waiting > 0 {
		heap.Fix(&p.turn, t.place)
	} else {
		heap.Remove(&p.turn, t.place)
	}
	return r
}

// emptied says that a groupQueue has become empty. It is kept, as its group is: more may come.
func (p *Picker) emptied(b *groupQueue) {
	if g := b.gate; g != nil {
		p.spareGroup(g)
	}
}

// Prune forgets what is no longer needed: classes, tenants that have no candidates, but for those that have used more than
// their share lately, and groups of which nothing waits or runs.
func (p *Picker) Prune() {
	clear(p.queues)
	for _, g := range p.groups {
		if g.tokens > 0 && g.waiting() == 0 {
			g.tokens = 0
		}
		p.forgetGroup(g)
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
		t.classes, t.waiting, t.place = map[job.Class]*classQueue{}, 0, -1
	}
	for _, g := range p.groups {
		g.groupQueues = nil
		p.hold(g, false)
		p.forgetGroup(g)
	}
}

type item struct {
	rank int64
	id   uint64 // how it begins, so that of two that are due at once hardly any is looked at
	r    *job.Ready
}

func (a item) less(b item) bool {
	switch {
	case a.rank != b.rank:
		return a.rank < b.rank
	case a.id != b.id:
		return a.id < b.id
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

// groupQueues is a heap of groupQueues by their heads, of which it keeps copies: most are compared, and few are looked at.
type groupQueues []place

type place struct {
	head       item
	groupQueue *groupQueue
}

func (h *groupQueues) push(b *groupQueue) {
	*h = append(*h, place{groupQueue: b})
	b.place = len(*h) - 1
	h.fix(b.place)
}

// fix puts a groupQueue where it belongs whose head has changed.
func (h groupQueues) fix(i int) {
	x := h[i]
	x.head = x.groupQueue.items[0]
	for up := (i - 1) / 2; i > 0 && x.head.less(h[up].head); up = (i - 1) / 2 {
		h.set(i, h[up])
		i = up
	}
	for {
		least := 2*i + 1
		if right := least + 1; right < len(h) && h[right].head.less(h[least].head) {
			least = right
		}
		if least >= len(h) || !h[least].head.less(x.head) {
			break
		}
		h.set(i, h[least])
		i = least
	}
	h.set(i, x)
}

func (h groupQueues) set(i int, x place) {
	h[i] = x
	x.groupQueue.place = i
}

func (h *groupQueues) remove(i int) {
	a := *h
	last := len(a) - 1
	gone := a[i].groupQueue
	if i != last {
		a.set(i, a[last])
	}
	a[last] = place{}
	*h = a[:last]
	if i != last {
		h.fix(i)
	}
	gone.place = -1
}

// turns are ordered by virtual time.
type turns []*tenantQueue

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
	t := x.(*tenantQueue)
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
