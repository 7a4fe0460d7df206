// Package pick decides which of the waiting executions start next.
//
// A Picker holds candidates and picks for a worker: first the tenant whose turn it is, by weighted fair shares; then
// that tenant's execution with the best rank; and none that is over a limit of its tenant, queue or group, or whose
// queue is paused. Executions held back by a limit step aside, so that they block nobody, and come forward when the
// limit allows it.
//
// A Picker knows neither stores nor clocks: candidates, tokens of rates, shares of limits and the time are passed in.
// One goroutine owns it.
package pick

import (
	"container/heap"
	"encoding/binary"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Picker holds candidates and their limits.
type Picker struct {
	tenants map[tenant.ID]*tenantQueue
	turn    turns // the tenants that have a candidate, by virtual time
	virtual float64
	weights map[tenant.ID]int
	size    int
	queues  map[job.Class]string // of classes

	gates   map[scope]*gate     // of tenants and queues that have a limit
	latest  passage             // that was looked up
	paused  map[scope]job.Pause // queues whose executions may not start
	groups  map[job.GroupKey]*gate
	held    int                // groups whose groupQueues stand aside
	running map[job.Lease]stay // what counts against limits
	short   []*gate            // gates that must request more tokens
	timed   byUntil            // gates whose rate said when to ask again
	narrow  bool               // something waits for more of a limit than this server may use
	owed    map[scope]bool     // parts of removed limits that other servers still lend
}

// tenantQueue is a tenant with its candidates.
type tenantQueue struct {
	id      tenant.ID
	gate    *gate // nil: it has no limit
	classes map[job.Class]*classQueue
	waiting int     // candidates
	virtual float64 // the time it has used, divided by its weight
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
	place      int // index in classQueue.open; -1: it stands aside
}

// Many is the number of candidates from which a pick keeps bundles together and pays rates ahead.
const Many = 4 * job.Bundle

// New makes a picker without candidates.
func New() *Picker {
	return &Picker{
		tenants: map[tenant.ID]*tenantQueue{}, weights: map[tenant.ID]int{}, queues: map[job.Class]string{},
		gates: map[scope]*gate{}, paused: map[scope]job.Pause{}, owed: map[scope]bool{}, groups: map[job.GroupKey]*gate{}, running: map[job.Lease]stay{},
	}
}

// Weigh sets the tenants' weights; unlisted tenants have weight 1.
func (p *Picker) Weigh(weights map[tenant.ID]int) { p.weights = weights }

// Len returns the number of candidates.
func (p *Picker) Len() int { return p.size }

// payer returns the tenant whose limits and shares a candidate counts against: none for workflow runs. They only wait
// for their nodes, which count. If a run counted too, a limit of one would keep the nodes of the run from starting.
func payer(r *job.Ready) tenant.ID {
	if r.Class == job.Class(job.Workflow) {
		return r.Tenant + "/workflows" // no tenant's id holds a slash
	}
	return r.Tenant
}

// Add adds a candidate.
func (p *Picker) Add(r *job.Ready) {
	id := payer(r)
	t := p.tenants[id]
	if t == nil {
		t = &tenantQueue{id: id, gate: p.gates[scope{tenant: id}], classes: map[job.Class]*classQueue{}, place: -1}
		p.tenants[id] = t
	}
	s := t.classes[r.Class]
	if s == nil {
		s = &classQueue{queue: p.queue(r.Class)}
		s.gate = p.gates[scope{id, s.queue}]
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
		t.virtual = max(t.virtual, p.virtual) // it does not save up unused time
		heap.Push(&p.turn, t)
	}
}

// groupQueue finds or creates the groupQueue of a candidate.
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

// Any reports whether any candidate could be picked for a worker that serves these classes.
func (p *Picker) Any(serves func(tenant.ID, job.Class) bool, now time.Time) bool {
	p.reopen(now)
	for _, t := range p.turn {
		if p.best(t, serves, now) != nil {
			return true
		}
	}
	return false
}

// Pick removes and returns candidates whose class is served, in the order in which they should start, until there are
// n including those picked before. It stops when took, called with each, returns false. What it picks counts against
// the limits until it is Started or Dropped.
//
// If n is large, a tenant keeps its turn until the end of the bundle that it began, and waits longer afterwards; and
// Pick returns slightly fewer rather than splitting another bundle: what is stored together is better leased
// together.
func (p *Picker) Pick(picked []*job.Ready, n int, serves func(tenant.ID, job.Class) bool, now time.Time, took func(*job.Ready) bool) []*job.Ready {
	p.reopen(now)
	var passed []*tenantQueue // those that have nothing for this worker now
	var begun *tenantQueue    // has begun a bundle, with the one picked last
	if last := len(picked) - 1; n >= Many && last >= 0 && job.Bundled(picked[last].ID) {
		begun = p.tenants[payer(picked[last])]
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
		next := b.items[0].r // does it belong to a bundle that hardly fits?
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

// best finds, among those of a tenant that are served and not held back, the groupQueue whose head should start
// first. Concurrency limits are checked before rates, and a tenant's rate before those of its queues and groups:
// tokens are drawn only for what would then start.
func (p *Picker) best(t *tenantQueue, serves func(tenant.ID, job.Class) bool, now time.Time) *groupQueue {
	if p.full(t.gate) {
		return nil
	}
	var best *groupQueue
	paid := false // whether the tenant's rate was requested
	for c, s := range t.classes {
		if len(s.open) == 0 || !serves(t.id, c) || p.halted(scope{t.id, s.queue}, now) || p.full(s.gate) {
			continue
		}
		for len(s.open) > 0 && !p.admits(s.open[0].groupQueue) {
			s.open.remove(0) // it stands aside until its gate opens
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

// take removes the head of a groupQueue and counts it.
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

// emptied handles a groupQueue that has become empty. It is kept, as its group is: more may come.
func (p *Picker) emptied(b *groupQueue) {
	if g := b.gate; g != nil {
		p.spareGroup(g)
	}
}

// Prune drops what is no longer needed: classes, tenants without candidates that have not exceeded their share
// lately, and groups of which nothing waits or runs.
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
	id   uint64 // the beginning of the id, which rarely ties when two are due at once
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

// items is a heap; it does not use container/heap, which would allocate for every item.
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

// groupQueues is a heap of groupQueues by their heads. It keeps copies of the heads: many are compared, but few are
// examined.
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

// fix restores the position of a groupQueue whose head has changed.
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

// turns is ordered by virtual time.
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
