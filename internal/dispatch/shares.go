package dispatch

import (
	"context"
	"maps"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// visit records when a claim of a worker last waited here.
type visit struct {
	worker job.Worker
	at     time.Time
}

// left notes that a claim no longer waits. Its worker is likely to come again at once: what it takes is not given away
// meanwhile.
func (m *matcher) left(c *claim) {
	if m.d.cfg.Owner == nil {
		return
	}
	if m.lately[c.worker.ID] = (visit{c.worker, m.now}); m.now.Sub(m.pruned) >= visitTime {
		m.pruned = m.now
		maps.DeleteFunc(m.lately, func(_ job.WorkerID, v visit) bool { return m.now.Sub(v.at) >= fitTime })
	}
}

// takers reports who takes what: claims that wait, and workers whose claims did a moment ago.
func (m *matcher) takers(now time.Time) func(tenant.ID, job.Class) bool {
	type kind struct {
		tenant tenant.ID
		class  job.Class
	}
	known := map[kind]bool{}
	return func(t tenant.ID, c job.Class) bool {
		k := kind{t, c}
		takes, seen := known[k]
		if !seen {
			takes = m.serves(t, c)
			for id, v := range m.lately {
				takes = takes || now.Sub(v.at) < visitTime && !m.cordoned[id] && v.worker.Serves(t, c)
			}
			known[k] = takes
		}
		return takes
	}
}

// fitFor returns how long this server still counts as one that serves a tenant's class: fitTime from the last claim of a worker that
// takes it, since that worker may be busy for a moment.
func (m *matcher) fitFor(t tenant.ID, c job.Class) time.Duration {
	if m.serves(t, c) {
		return fitTime
	}
	var fit time.Duration
	for id, v := range m.lately {
		if !m.cordoned[id] && v.worker.Serves(t, c) {
			fit = max(fit, fitTime-m.now.Sub(v.at))
		}
	}
	return fit
}

// slots counts the slots of workers that claim here, or did a moment ago.
func (m *matcher) slots() (n int) {
	seen := map[job.WorkerID]bool{}
	add := func(w *job.Worker) {
		if !seen[w.ID] && !m.cordoned[w.ID] {
			seen[w.ID] = true
			n += w.Capacity
		}
	}
	for _, c := range m.waiting {
		add(&c.worker)
	}
	for _, v := range m.lately {
		if m.now.Sub(v.at) < fitTime {
			add(&v.worker)
		}
	}
	return n
}

// lent reports whether this server has shares of limits that others may need.
func (m *matcher) lent() bool { return m.d.cfg.Owner != nil && m.win.picker.Lent() }

// moved reports whether it is not known here, or not told to the other servers, what runs in the partitions owned now.
func (m *matcher) moved() bool {
	if m.d.cfg.Owner == nil {
		return false
	}
	h := m.d.cfg.Owner.Holding()
	return !h.Lapsed && (m.recount || m.unreported || h.Version != m.holding.Version || h.Fence.Server != m.holding.Fence.Server)
}

// repay gives back, while no claim waits, what is not used of limits. It finds out first what is: what ran here may have
// ended, or be counted elsewhere. What runs in partitions that came here is counted here also while no claim waits: who
// had them counts it for a short time only.
func (m *matcher) repay(ctx context.Context, now time.Time) error {
	if m.inFlight > 0 || now.Sub(m.repaid) < repayEvery {
		return nil
	}
	if m.moved() {
		m.repaid = now
		err := m.rules(ctx, now)
		m.shared = time.Time{} // a claim that comes now asks at once
		return err
	}
	if !m.lent() {
		return nil
	}
	m.repaid = now
	m.heed(ctx, now)
	if err := m.count(ctx, now); err != nil {
		return err
	}
	if !m.win.picker.Spare(m.takers(now)) {
		return nil
	}
	err := m.share(ctx, now)
	m.shared = time.Time{} // a claim that comes now asks at once
	return err
}

// share asks for as much of each limit on what runs at once as can be used here, and gives back the rest.
func (m *matcher) share(ctx context.Context, now time.Time) error {
	p := m.win.picker
	ss := p.Shares(m.takers(now))
	m.shared = now
	if len(ss) == 0 {
		m.unreported = false
		return nil
	}
	if m.d.cfg.Owner == nil {
		for _, s := range ss {
			p.Allow(s, s.Whole)
		}
		return nil
	}
	if m.holding.Lapsed { // what runs here is counted for this server until others have its partitions
		for _, s := range ss {
			p.Deny(s)
		}
		return nil
	}
	bs := make([]engine.Share, len(ss))
	for i, s := range ss {
		bs[i] = engine.Share{Tenant: s.Tenant, Queue: s.Queue, Max: s.Whole, Want: s.Want, Used: s.Used}
	}
	got, err := m.d.cfg.Owner.Borrow(ctx, bs)
	if err != nil {
		for _, s := range ss { // it may have happened, and what it took away be another's
			p.Deny(s)
		}
		return err
	}
	m.unreported = false
	for i, s := range ss {
		p.Allow(s, got[i])
	}
	return nil
}
