package dispatch

import (
	"context"
	"math"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// settle records ended leases.
func (m *matcher) settle() {
	if !m.d.counts.Load() {
		return
	}
	m.d.mu.Lock()
	ended := m.d.ended
	m.d.ended = nil
	m.d.mu.Unlock()
	for _, l := range ended {
		m.win.picker.Ended(l)
	}
}

// heed applies a change of the partitions that this server owns. What runs in those it lost counts here for as long
// as a server keeps its partitions without attending: the new owner learns of these executions only when it attends
// next, or loses the partitions itself, and executions that nobody counts would be started again.
func (m *matcher) heed(ctx context.Context, now time.Time) {
	if m.d.cfg.Owner == nil {
		return
	}
	h := m.d.cfg.Owner.Holding()
	if h.Version != m.holding.Version || h.Fence.Server != m.holding.Fence.Server {
		m.restart(ctx) // another server picks from what it no longer owns
		for part := range m.holding.Fence.Epochs {
			m.lost[part] = now
		}
	}
	for part, at := range m.lost {
		_, back := h.Fence.Epochs[part]
		if back || now.Sub(at) >= m.d.cfg.OwnershipTTL {
			delete(m.lost, part)
			m.recount = m.recount || !back
		}
	}
	m.holding = h
}

// rules refreshes what decides who is given what: the owners of partitions, weights, limits, cordons, and running
// executions.
func (m *matcher) rules(ctx context.Context, now time.Time) error {
	p := m.win.picker
	m.heed(ctx, now)
	anew := m.d.anew.Swap(false)
	if anew {
		m.win.throttled(now, math.MaxInt)
	}
	if anew || now.Sub(m.weighed) >= weighEvery {
		ts, err := m.d.store.Tenants(ctx)
		if err != nil {
			return err
		}
		weights := make(map[tenant.ID]int, len(ts))
		m.quotas = m.quotas[:0]
		for _, t := range ts {
			q := t.Quota()
			weights[t.ID] = q.Weight
			m.quotas = append(m.quotas, job.QuotaLimits(t.ID, q)...)
		}
		p.Weigh(weights)
		m.weighed, m.ruled = now, time.Time{}
	}
	if anew || now.Sub(m.ruled) >= ruleEvery {
		ls, err := m.d.store.Limits(ctx, "")
		if err != nil {
			return err
		}
		m.recount = p.Limit(job.Both(ls, m.quotas)) || m.recount
		m.d.keepPauses(ls)
		ws, err := m.d.store.Cordoned(ctx)
		if err != nil {
			return err
		}
		m.cordoned = make(map[job.WorkerID]bool, len(ws))
		for _, w := range ws {
			m.cordoned[w] = true
		}
		m.ruled = now
	}
	m.win.shed(now)
	if err := m.count(ctx, now); err != nil {
		return err
	}
	if now.Sub(m.shared) >= shareEvery || m.ruled.Equal(now) && m.d.cfg.Owner == nil || p.Narrow() && (now.Sub(m.shared) >= narrowEvery || now.Sub(m.shared) >= pressedEvery && p.Pressed(m.serves)) {
		return m.share(ctx, now)
	}
	return nil
}

// count compares the count with the store: completely if it may be wrong or, if something waits for running
// executions to end, for the ends that another server may have seen.
func (m *matcher) count(ctx context.Context, now time.Time) error {
	p := m.win.picker
	if m.recount {
		if err := m.receiveAll(); err != nil { // otherwise what is in flight is counted twice, or not at all
			return err
		}
		var ps []job.Partition
		for part := range m.holding.Fence.Epochs {
			ps = append(ps, part)
		}
		for part := range m.lost {
			ps = append(ps, part)
		}
		var rs []engine.Running
		var err error
		if m.d.cfg.Owner == nil || len(ps) > 0 {
			if rs, err = m.d.store.Running(ctx, ps); err != nil {
				return err
			}
		}
		running := make(map[job.Lease]job.Ready, len(rs))
		for _, r := range rs {
			running[job.Lease{Execution: r.ID, Token: r.Token}] = r.Ready
		}
		p.Recount(running)
		m.d.counts.Store(p.Counts())
		m.recount, m.confirmed, m.shared, m.unreported = false, now, time.Time{}, true
		return nil
	}
	if !p.Counts() || now.Sub(m.confirmed) < confirmEvery || !p.Full() && now.Sub(m.confirmed) < countEvery {
		return nil
	}
	m.confirmed = now
	all := p.Count()
	for len(all) > 0 {
		some := all[:min(1000, len(all))]
		all = all[len(some):]
		hs, err := m.d.store.Held(ctx, some)
		if err != nil {
			return err
		}
		holds := make(map[job.Lease]bool, len(hs))
		for _, h := range hs {
			holds[job.Lease{Execution: h.ID, Token: h.Token}] = true
		}
		for _, l := range some {
			if !holds[l] {
				p.Ended(l)
			}
		}
	}
	return nil
}
