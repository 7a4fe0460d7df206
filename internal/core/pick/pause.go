package pick

import (
	"container/heap"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Paused reports whether the queue of a tenant's class is paused at an instant.
func (p *Picker) Paused(t tenant.ID, c job.Class, now time.Time) bool {
	return len(p.paused) > 0 && p.halted(scope{t, p.queue(c)}, now)
}

// halted reports whether a queue is paused.
func (p *Picker) halted(k scope, now time.Time) bool {
	if len(p.paused) == 0 {
		return false
	}
	return p.paused[k].Holds(now)
}

// Shed removes the candidates of paused queues, and calls f with each: they wait elsewhere, and leave their room to
// others.
func (p *Picker) Shed(now time.Time, f func(*job.Ready)) {
	for k, pause := range p.paused {
		t := p.tenants[k.tenant]
		if t == nil || t.waiting == 0 || !pause.Holds(now) {
			continue
		}
		for c, s := range t.classes {
			if s.queue == k.queue && s.waiting > 0 {
				p.clearShelf(t, s, f)
				delete(t.classes, c)
			}
		}
		if t.waiting == 0 && t.place >= 0 {
			heap.Remove(&p.turn, t.place)
		}
	}
}

// clearShelf removes all candidates from a classQueue that is about to be dropped.
func (p *Picker) clearShelf(t *tenantQueue, s *classQueue, f func(*job.Ready)) {
	drop := func(b *groupQueue) {
		for _, x := range b.items {
			f(x.r)
		}
	}
	drop(s.plain)
	for _, g := range p.groups {
		if b := g.groupQueue(s); b != nil {
			drop(b)
			b.items = nil
			p.emptied(b)
		}
	}
	t.waiting -= s.waiting
	p.size -= s.waiting
}
