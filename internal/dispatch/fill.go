package dispatch

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// fill reads executions for the waiting claims into the window.
func (m *matcher) fill(ctx context.Context, now time.Time) error {
	waiting := !m.win.picker.Any(m.serves, now)
	poll := m.d.cfg.Poll
	if len(m.win.lanes) > 1000 {
		poll = sweepEvery // listing so many is expensive
	}
	missed := m.d.missed.Swap(false)
	if missed || m.woken {
		m.win.lost = m.win.round
	}
	due := now.Sub(m.swept) >= poll && !m.win.picker.Short() // executions that wait only for a rate are in the window
	if missed || now.Sub(m.swept) >= sweepEvery || waiting && (m.woken || due) {
		if err := m.sweep(ctx); err != nil {
			m.d.missed.Store(true)
			return err
		}
		m.fit()
		m.win.throttled(now, throttledMost)
		m.swept, m.woken = now, false
		defer m.win.picker.Prune() // once what was put aside is back
	}
	m.foreign = false
	for began := time.Now(); ; {
		if err := m.refill(ctx, now); err != nil {
			return err
		}
		if m.win.packed == 0 || m.win.picker.Any(m.serves, now) || m.win.picker.Short() || time.Since(began) > sweepTime {
			break
		}
		more, err := m.unpack(ctx) // everything read may be held back, unlike what comes after it
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	if err := m.probe(ctx, now); err != nil {
		return err
	}
	if m.d.cfg.Owner == nil || m.win.picker.Any(m.serves, now) {
		return nil
	}
	m.foreign = true // idle workers here help the other servers
	if err := m.refill(ctx, now); err != nil {
		return err
	}
	return m.covet(ctx, now)
}

// unpack moves packed executions that limits hold back into the lanes of their groups.
func (m *matcher) unpack(ctx context.Context) (any bool, err error) {
	ids := m.win.aside()
	if len(ids) == 0 {
		return false, nil
	}
	return true, m.d.store.Unpack(ctx, ids)
}

// sweep lists lanes, from where the last sweep stopped, for as long as a sweep may take. If a class of a tenant has
// very many groups in a partition, it lists the first of them and, each time round, some more, so that they do not
// keep it from everything else.
func (m *matcher) sweep(ctx context.Context) error {
	for began := time.Now(); ; {
		lanes, err := m.d.store.Lanes(ctx, m.after, sweepLanes)
		if err != nil {
			return err
		}
		m.win.sweep(lanes, m.now)
		if len(lanes) < sweepLanes {
			m.win.forget(func(k job.Lane) bool { return !m.skipped[crowdOf(k)] })
			m.win.round++
			m.after, m.skipped = nil, nil
			return nil
		}
		first, last := lanes[0], lanes[len(lanes)-1]
		m.after = &last
		if crowd := crowdOf(last); crowd == crowdOf(first) {
			m.win.forget(func(k job.Lane) bool { return crowdOf(k) == crowd && !behind(k, last) })
			if err := m.crowd(ctx, crowd, last); err != nil {
				return err
			}
			m.after = &job.Lane{Partition: last.Partition, Tenant: last.Tenant, Class: last.Class, Group: math.MaxInt64, Priority: math.MaxInt16}
		}
		if time.Since(began) > sweepTime {
			return nil
		}
	}
}

// crowded is a tenant's class that has very many groups in a partition.
type crowded struct {
	part   job.Partition
	tenant tenant.ID
	class  job.Class
}

func crowdOf(l job.Lane) crowded { return crowded{l.Partition, l.Tenant, l.Class} }

// behind reports whether the store lists k after l, both lanes of a crowd.
func behind(k, than job.Lane) bool {
	return k.Group > than.Group || k.Group == than.Group && k.Priority > than.Priority
}

// crowd lists more groups of a crowded class, after those of the last time.
func (m *matcher) crowd(ctx context.Context, c crowded, first job.Lane) error {
	if m.skipped == nil {
		m.skipped = map[crowded]bool{}
	}
	m.skipped[c] = true
	after, ok := m.crowds[c]
	if !ok || !behind(after, first) {
		after = first
	}
	lanes, err := m.d.store.Lanes(ctx, &after, sweepLanes)
	if err != nil {
		return err
	}
	lanes = slices.DeleteFunc(lanes, func(l job.Lane) bool { return crowdOf(l) != c })
	m.win.sweep(lanes, m.now)
	delete(m.crowds, c)
	if len(lanes) == 0 {
		return nil
	}
	last := lanes[len(lanes)-1]
	m.win.forget(func(k job.Lane) bool { return crowdOf(k) == c && behind(k, after) && !behind(k, last) })
	if len(m.crowds) < 10_000 {
		m.crowds[c] = last
	}
	return nil
}

// refill reads the lanes that must be read before the window can tell what comes first.
func (m *matcher) refill(ctx context.Context, now time.Time) error {
	for began := time.Now(); ; {
		cs := m.win.dry(m.win.low(m.d.cfg.PerLane), m.reads)
		if len(cs) == 0 {
			return nil
		}
		per := m.win.perLane(m.d.cfg.PerLane, len(cs))
		rs, err := m.d.store.Ready(ctx, cs, per)
		if err != nil {
			return err
		}
		var neglected []job.ExecutionID
		m.win.refill(cs, slices.DeleteFunc(rs, func(r job.Ready) bool {
			return !r.Packed && !m.own(r.Partition) && !m.holding.Quiet[r.Partition] && now.Sub(r.DueAt) < patience
		}), per, func(r *job.Ready) bool {
			if !r.Packed || m.own(r.Partition) {
				return false
			}
			if now.Sub(r.DueAt) > neglect {
				neglected = append(neglected, r.ID)
			}
			return true
		})
		if len(neglected) > 0 { // only the owner leases it: the lanes of its groups show that somebody who serves the partition should have it
			if err := m.d.store.Unpack(ctx, neglected); err != nil {
				return err
			}
		}
		if m.inFlight == 0 && len(cs) < atOnce || time.Since(began) > sweepTime {
			return nil // otherwise everything read may be in flight, and what comes after it, or in other lanes, comes first
		}
	}
}

// patience is how long ready executions are left to the owner of their partition.
const patience = 100 * time.Millisecond

// own reports whether this server owns a partition.
func (m *matcher) own(p job.Partition) bool {
	if m.d.cfg.Owner == nil {
		return true
	}
	_, ok := m.holding.Fence.Epochs[p]
	return ok
}

// reads reports whether a lane is read: one of its own or, if none of its own is left, one without limits; none whose
// queue is paused.
func (m *matcher) reads(k job.Lane) bool {
	if !m.serves(k.Tenant, k.Class) || m.paused(k) {
		return false
	}
	return m.own(k.Partition) || m.foreign && !m.limited(k)
}

// limited reports whether a lane's executions count against limits.
func (m *matcher) limited(k job.Lane) bool {
	return m.win.picker.Limits(&job.Ready{Tenant: k.Tenant, Class: k.Class, Group: job.Group{Key: k.Group}})
}

// paused reports whether the queue of a lane is paused.
func (m *matcher) paused(k job.Lane) bool { return m.win.picker.Paused(k.Tenant, k.Class, m.now) }

// covet asks for other servers' partitions with waiting executions that count against limits, which only the owner
// may lease and whose owner apparently has no worker for them.
func (m *matcher) covet(ctx context.Context, now time.Time) error {
	if now.Sub(m.wanted) < time.Second {
		return nil
	}
	m.wanted = now
	var cs []engine.LaneCursor
	for k := range m.win.lanes {
		if !m.own(k.Partition) && m.serves(k.Tenant, k.Class) && m.limited(k) && !m.paused(k) && len(cs) < 100 {
			cs = append(cs, engine.LaneCursor{Lane: k})
		}
	}
	if len(cs) == 0 {
		return nil
	}
	rs, err := m.d.store.Ready(ctx, cs, 1)
	if err != nil {
		return err
	}
	var ps []job.Partition
	for _, r := range rs {
		if now.Sub(r.DueAt) > neglect && !slices.Contains(ps, r.Partition) {
			ps = append(ps, r.Partition)
		}
	}
	if len(ps) > 0 {
		m.d.cfg.Owner.Want(ps)
	}
	return nil
}

// fit tells the owner of partitions until when this server can serve those that hold limited executions. A worker
// that claimed here once and has turned to another server serves nothing here any more. It passes an instant, not a
// verdict, because nothing is swept while no claim waits. It also names the partitions in which its workers are
// behind, so that idle workers at other servers help.
func (m *matcher) fit() {
	if m.d.cfg.Owner == nil {
		return
	}
	type kind struct {
		tenant tenant.ID
		class  job.Class
	}
	now, served := time.Now(), map[kind]time.Time{}
	out := map[job.Partition]time.Time{}
	for k := range m.win.lanes {
		if !m.own(k.Partition) || !m.limited(k) || m.paused(k) {
			continue
		}
		x := kind{k.Tenant, k.Class}
		until, seen := served[x]
		if !seen {
			until = now.Add(m.fitFor(k.Tenant, k.Class))
			served[x] = until
		}
		if least, ok := out[k.Partition]; !ok || until.Before(least) {
			out[k.Partition] = until
		}
	}
	m.d.cfg.Owner.FitUntil(out, m.win.picker.Overdue(m.now.Add(-neglect), m.now), m.slots())
}

// neglect is how long an execution waits before a server with a worker for it asks for its partition.
const neglect = 2 * time.Second
