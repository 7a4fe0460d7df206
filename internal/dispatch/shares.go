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

// left records that a claim no longer waits. Its worker is likely to come again at once, so what it takes is not
// given away meanwhile.
func (m *matcher) left(c *claim) {
	if m.d.cfg.Owner == nil {
		return
	}
	if m.lately[c.worker.ID] = (visit{c.worker, m.now}); m.now.Sub(m.pruned) >= visitTime {
		m.pruned = m.now
		maps.DeleteFunc(m.lately, func(_ job.WorkerID, v visit) bool { return m.now.Sub(v.at) >= fitTime })
	}
}

// takers returns who takes which executions: waiting claims, and workers that claimed a moment ago.
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

// fitFor returns how long this server still counts as serving a tenant's class: fitTime from the last claim of a
// worker that takes it, since that worker may be busy for a moment.
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

// moved reports whether the running executions in the partitions owned now are not known here, or not reported to the
// other servers.
func (m *matcher) moved() bool {
	if m.d.cfg.Owner == nil {
		return false
	}
	h := m.d.cfg.Owner.Holding()
	return !h.Lapsed && (m.recount || m.unreported || h.Version != m.holding.Version || h.Fence.Server != m.holding.Fence.Server)
}

// repay returns unused shares of limits while no claim waits. It first determines what is used: what ran here may
// have ended, or be counted elsewhere. It counts what runs in newly acquired partitions even while no claim waits,
// since their previous owner counts it only for a short time.
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

// share requests as much of each concurrency limit as this server can use, and returns the rest.
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
		for _, s := range ss { // the call may have succeeded, and what it took away may be another's
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
