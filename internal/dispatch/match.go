package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

// matcher brings claims and executions together. One goroutine runs it.
type matcher struct {
	d       *Dispatcher
	win     *window
	waiting []*claim
	woken   bool // something may be ready that no hint tells of

	swept  time.Time
	after  *job.Lane            // where the next sweep goes on
	crowds map[crowded]job.Lane // where to go on among very many groups

	holding   engine.Holding
	recount   bool      // what runs must be counted before anything limited is leased
	confirmed time.Time // when what is counted was last held against the store
	ruled     time.Time // when limits were last read
	weighed   time.Time // and tenants
	shared    time.Time // and shares of limits asked for
	wanted    time.Time // and partitions of others looked at
	foreign   bool      // nothing of its own is left for the claims that wait
}

const (
	sweepEvery   = time.Second
	sweepLanes   = 1000                   // lanes listed at once
	sweepTime    = 150 * time.Millisecond // that a sweep may take
	ruleEvery    = time.Second
	weighEvery   = 5 * time.Second
	confirmEvery = time.Second
	countEvery   = time.Minute // what is counted is confirmed at the latest, also where nothing waits for it
	shareEvery   = time.Second
	narrowEvery  = 50 * time.Millisecond // shares are asked for, while something waits for more
)

// pass waits for something to do and does it once.
func (m *matcher) pass(ctx context.Context) error {
	m.wait(ctx)
	now := m.d.clock.Now()
	m.win.ripen(now)
	m.settle()
	m.waiting = slices.DeleteFunc(m.waiting, func(c *claim) bool { return c.taken.Load() })
	if m.d.cfg.Owner != nil {
		m.d.cfg.Owner.Feed(len(m.waiting) > 0)
	}
	if len(m.waiting) == 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	if err := m.rules(ctx, now); err != nil {
		return err
	}
	if err := m.fill(ctx, now); err != nil {
		return err
	}
	return m.lease(ctx)
}

// fill reads into the window what the waiting claims may be given.
func (m *matcher) fill(ctx context.Context, now time.Time) error {
	hungry := !m.win.picker.Any(m.serves, now)
	poll := m.d.cfg.Poll
	if len(m.win.lanes) > 1000 {
		poll = sweepEvery // listing so many is no small thing
	}
	if m.d.missed.Swap(false) || now.Sub(m.swept) >= sweepEvery || hungry && (m.woken || now.Sub(m.swept) >= poll) {
		if err := m.sweep(ctx); err != nil {
			m.d.missed.Store(true)
			return err
		}
		m.win.picker.Prune()
		m.unfit()
		m.swept, m.woken = now, false
	}
	m.foreign = false
	if err := m.refill(ctx, now); err != nil {
		return err
	}
	if m.d.cfg.Owner == nil || m.win.picker.Any(m.serves, now) {
		return nil
	}
	m.foreign = true // before the workers here stay idle they help the others out
	if err := m.refill(ctx, now); err != nil {
		return err
	}
	return m.covet(ctx, now)
}

// sweep lists lanes, from where the last sweep stopped, for as long as a sweep may take. Where one class of a tenant has
// very many groups in a partition, it lists the first of them and, each time round, some more, and goes on behind them:
// they must not keep it from what else there is.
func (m *matcher) sweep(ctx context.Context) error {
	for began := time.Now(); ; {
		lanes, err := m.d.store.Lanes(ctx, m.after, sweepLanes)
		if err != nil {
			return err
		}
		whole := len(lanes) < sweepLanes
		m.win.sweep(lanes, m.after, whole)
		if whole {
			m.after = nil
			return nil
		}
		first, last := lanes[0], lanes[len(lanes)-1]
		m.after = &last
		if crowd := (crowded{last.Partition, last.Tenant, last.Class}); crowd == (crowded{first.Partition, first.Tenant, first.Class}) {
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

// crowded is a class of a tenant in a partition that has very many groups.
type crowded struct {
	part   job.Partition
	tenant tenant.ID
	class  job.Class
}

// crowd lists some more groups of a crowded class, behind those of the last time.
func (m *matcher) crowd(ctx context.Context, c crowded, first job.Lane) error {
	after, ok := m.crowds[c]
	if !ok || after.Compare(first) < 0 {
		after = first
	}
	lanes, err := m.d.store.Lanes(ctx, &after, sweepLanes)
	if err != nil {
		return err
	}
	lanes = slices.DeleteFunc(lanes, func(l job.Lane) bool { return l.Partition != c.part || l.Tenant != c.tenant || l.Class != c.class })
	m.win.sweep(lanes, &after, false)
	delete(m.crowds, c)
	if len(lanes) > 0 && len(m.crowds) < 10_000 {
		m.crowds[c] = lanes[len(lanes)-1]
	}
	return nil
}

// refill reads the lanes that must be read before the window can tell what comes first.
func (m *matcher) refill(ctx context.Context, now time.Time) error {
	cs := m.win.dry(m.d.cfg.PerLane/4, m.reads)
	if len(cs) == 0 {
		return nil
	}
	per := m.win.perLane(m.d.cfg.PerLane, len(cs))
	rs, err := m.d.store.Ready(ctx, cs, per)
	if err != nil {
		return err
	}
	m.win.refill(cs, slices.DeleteFunc(rs, func(r job.Ready) bool {
		return !m.own(r.Partition) && !m.holding.Quiet[r.Partition] && now.Sub(r.DueAt) < patience
	}), per)
	return nil
}

// patience is how long what is ready is left to the owner of its partition.
const patience = 100 * time.Millisecond

// own reports whether this server owns a partition.
func (m *matcher) own(p job.Partition) bool {
	if m.d.cfg.Owner == nil {
		return true
	}
	_, ok := m.holding.Fence.Epochs[p]
	return ok
}

// reads reports whether a lane is read: one of its own, or, when nothing of its own is left, one without limits.
func (m *matcher) reads(k job.Lane) bool {
	if !m.serves(k.Class) {
		return false
	}
	return m.own(k.Partition) || m.foreign && !m.limited(k)
}

// limited reports whether a lane's executions count against limits.
func (m *matcher) limited(k job.Lane) bool {
	return m.win.picker.Limits(&job.Ready{Tenant: k.Tenant, Class: k.Class, Group: job.Group{Key: k.Group}})
}

// covet asks for partitions of others in which executions wait that count against limits, which only the owner may
// lease, and that nobody there seems to serve.
func (m *matcher) covet(ctx context.Context, now time.Time) error {
	if now.Sub(m.wanted) < time.Second {
		return nil
	}
	m.wanted = now
	var cs []engine.LaneCursor
	for k := range m.win.lanes {
		if !m.own(k.Partition) && m.serves(k.Class) && m.limited(k) && len(cs) < 100 {
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

// unfit tells the owner of partitions which of them hold what is limited and no worker that is known here serves.
func (m *matcher) unfit() {
	if m.d.cfg.Owner == nil {
		return
	}
	served := map[job.Class]bool{}
	out := map[job.Partition]bool{}
	for k := range m.win.lanes {
		if out[k.Partition] || !m.own(k.Partition) || !m.limited(k) {
			continue
		}
		ok, seen := served[k.Class]
		if !seen {
			ok = m.d.anyServes(k.Class)
			served[k.Class] = ok
		}
		out[k.Partition] = !ok
	}
	m.d.cfg.Owner.Unfit(out)
}

// neglect is how long an execution waits before a server with a worker for it asks for its partition.
const neglect = 2 * time.Second

// serves reports whether any of the waiting claims takes executions of the class.
func (m *matcher) serves(c job.Class) bool {
	return slices.ContainsFunc(m.waiting, func(x *claim) bool { return x.worker.Serves(c) })
}

// wait blocks until a claim and something to give it may have come together.
func (m *matcher) wait(ctx context.Context) {
	var timer <-chan time.Time
	if len(m.waiting) > 0 {
		t := time.NewTimer(m.pause())
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-ctx.Done():
	case c := <-m.d.claims:
		m.waiting = append(m.waiting, c)
	case rs := <-m.d.offers:
		m.take(rs)
	case <-m.d.wake:
		m.woken = true
	case <-m.d.freed:
	case <-timer:
	}
	for { // whatever else has come meanwhile goes into the same commit
		select {
		case c := <-m.d.claims:
			m.waiting = append(m.waiting, c)
		case rs := <-m.d.offers:
			m.take(rs)
		default:
			return
		}
	}
}

// pause is how long there is nothing to do, unless something comes.
func (m *matcher) pause() time.Duration {
	now := m.d.clock.Now()
	p := m.win.picker
	if p.Any(m.serves, now) || p.Short() || m.d.missed.Load() || len(m.win.dry(0, m.reads)) > 0 {
		return 0
	}
	pause := m.d.cfg.Poll
	if p.Narrow() {
		pause = min(pause, narrowEvery)
	}
	if at, ok := m.win.next(); ok {
		pause = min(pause, max(0, at.Sub(now)))
	}
	return pause
}

// take takes in a hint, of what is its own.
func (m *matcher) take(rs []job.Ready) {
	if m.d.cfg.Owner != nil {
		rs = slices.DeleteFunc(slices.Clone(rs), func(r job.Ready) bool { return !m.own(r.Partition) })
	}
	m.win.offer(rs, m.d.clock.Now())
}

// lease picks for all waiting claims and leases in one commit.
func (m *matcher) lease(ctx context.Context) error {
	if err := m.disown(ctx); err != nil {
		return err
	}
	now := m.d.clock.Now()
	var gs []grant
	for _, c := range m.waiting {
		if slices.ContainsFunc(gs, func(g grant) bool { return g.claim.worker.ID == c.worker.ID }) {
			continue // one grant a session and commit
		}
		rs, err := m.pick(ctx, c, now)
		if err != nil {
			m.drop(gs)
			return err
		}
		if len(rs) == 0 {
			continue
		}
		if !c.taken.CompareAndSwap(false, true) {
			m.back(rs)
			continue
		}
		gs = append(gs, grant{c, rs})
	}
	if len(gs) == 0 {
		return nil
	}
	answered := false
	defer func() {
		if !answered { // a panic: the callers must not wait for ever
			m.fail(gs, fmt.Errorf("the lease was not answered: %w", engine.ErrUnavailable))
		}
	}()
	as, err := m.d.store.Lease(ctx, grants(gs), m.fence(gs))
	if err == nil {
		err = failpoint.Hit("claim.afterCommitBeforeReply")
	}
	answered = true
	if err != nil {
		m.fail(gs, err)
		if errors.Is(err, engine.ErrSession) {
			return nil
		}
		return err
	}
	m.hand(as, gs)
	return nil
}

// grant is what was picked for a claim.
type grant struct {
	claim  *claim
	picked []*job.Ready
}

func grants(gs []grant) []engine.Grant {
	out := make([]engine.Grant, len(gs))
	for i, g := range gs {
		out[i] = engine.Grant{Worker: g.claim.worker.ID, Executions: make([]job.ExecutionID, len(g.picked))}
		for k, r := range g.picked {
			out[i].Executions[k] = r.ID
		}
	}
	return out
}

// fence names the partitions of what counts against limits.
func (m *matcher) fence(gs []grant) engine.Fence {
	if m.d.cfg.Owner == nil {
		return engine.Fence{}
	}
	f := engine.Fence{Server: m.holding.Fence.Server, Epochs: map[job.Partition]int64{}}
	for _, g := range gs {
		for _, r := range g.picked {
			if m.win.picker.Limits(r) {
				f.Epochs[r.Partition] = m.holding.Fence.Epochs[r.Partition]
			}
		}
	}
	return f
}

// pick takes out of the window what a claim is to be given, and has its rates paid for.
func (m *matcher) pick(ctx context.Context, c *claim, now time.Time) ([]*job.Ready, error) {
	known := map[job.Class]bool{} // taking a class apart for every execution would cost more than picking it
	mine := func(x job.Class) bool {
		ok, seen := known[x]
		if !seen {
			ok = c.worker.Serves(x)
			known[x] = ok
		}
		return ok
	}
	rs := m.win.pick(c.max, mine, now)
	for range 3 { // a rate that is paid may show that another is to be paid
		if len(rs) == c.max || !m.win.picker.Short() {
			break
		}
		needs := m.win.picker.Needs()
		ds := make([]engine.Draw, len(needs))
		for i, n := range needs {
			ds[i] = engine.Draw{Bucket: n.Bucket, Rate: n.Rate, N: n.N}
		}
		got, err := m.d.store.Draw(ctx, ds)
		if err != nil {
			for _, n := range needs { // else what stands aside for them would never be asked for again
				m.win.picker.Pour(n, 0, 0, now)
			}
			m.back(rs)
			return nil, err
		}
		for i, n := range needs {
			m.win.picker.Pour(n, got[i].N, got[i].Wait, now)
		}
		rs = append(rs, m.win.pick(c.max-len(rs), mine, now)...)
	}
	return rs, nil
}

// back puts what was picked into the window again.
func (m *matcher) back(rs []*job.Ready) {
	for _, r := range rs {
		m.win.drop(r)
		m.win.offer([]job.Ready{*r}, r.DueAt)
	}
}

// drop puts all that was picked back, and lets go of the claims it was for.
func (m *matcher) drop(gs []grant) {
	for _, g := range gs {
		g.claim.taken.Store(false)
		m.back(g.picked)
	}
}

// hand answers the claims that were served, also with nothing: their callers ask again.
func (m *matcher) hand(as []job.Attempt, gs []grant) {
	got := make(map[job.ExecutionID]*job.Attempt, len(as))
	for i := range as {
		got[as[i].Execution] = &as[i]
	}
	parts := make([][]job.Attempt, len(gs))
	m.d.mu.Lock()
	for i, g := range gs {
		s := m.d.known[g.claim.worker.ID]
		parts[i] = make([]job.Attempt, 0, len(g.picked))
		for _, r := range g.picked {
			a := got[r.ID]
			if a == nil {
				m.win.drop(r)
				continue
			}
			m.win.picker.Started(a.Lease, r)
			parts[i] = append(parts[i], *a)
			if s != nil {
				s.held[a.Token]++
			}
		}
	}
	m.d.counts.Store(m.win.picker.Counts()) // before anybody can report
	m.d.mu.Unlock()
	m.answered(gs)
	for i, g := range gs {
		g.claim.answer(parts[i], nil)
	}
}

// answered takes the claims out that are about to be answered.
func (m *matcher) answered(gs []grant) {
	m.waiting = slices.DeleteFunc(m.waiting, func(c *claim) bool {
		return slices.ContainsFunc(gs, func(g grant) bool { return g.claim == c })
	})
}

// fail is what follows a lease that was not answered: it may have happened, so the sessions are asked for what nobody was
// told of, and what runs is counted anew.
func (m *matcher) fail(gs []grant, err error) {
	m.d.missed.Store(true)
	for _, g := range gs {
		for _, r := range g.picked {
			m.win.drop(r)
			m.recount = m.recount || m.win.picker.Limits(r)
		}
	}
	m.answered(gs)
	m.d.mu.Lock()
	for _, g := range gs {
		switch s := m.d.known[g.claim.worker.ID]; {
		case s == nil:
		case errors.Is(err, engine.ErrSession):
			delete(m.d.known, g.claim.worker.ID)
		default:
			s.suspect = s.local
		}
	}
	m.d.mu.Unlock()
	for _, g := range gs {
		g.claim.answer(nil, err)
	}
}

// disown returns what sessions in this process hold without anybody knowing. What others hold is told by their beats.
func (m *matcher) disown(ctx context.Context) error {
	type suspect struct {
		id   job.WorkerID
		keep []job.Token
	}
	var all []suspect
	m.d.mu.Lock()
	for id, s := range m.d.known {
		if s.suspect && s.local {
			x := suspect{id: id}
			for t := range s.held {
				x.keep = append(x.keep, t)
			}
			all = append(all, x)
		}
	}
	m.d.mu.Unlock()
	for _, x := range all {
		if _, err := m.d.disown(ctx, x.id, x.keep, time.Time{}); err != nil {
			return err
		}
	}
	return nil
}

// settle takes in which leases have ended.
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

// rules keeps what decides who is given what up to date: who owns which partition, weights, limits, and what runs.
func (m *matcher) rules(ctx context.Context, now time.Time) error {
	p := m.win.picker
	if m.d.cfg.Owner != nil {
		h := m.d.cfg.Owner.Holding()
		if h.Version != m.holding.Version || h.Fence.Server != m.holding.Fence.Server {
			m.recount = true
			m.win.reset() // what it no longer owns, another picks from
			m.swept, m.after = time.Time{}, nil
		}
		m.holding = h
	}
	anew := m.d.anew.Swap(false)
	if anew || now.Sub(m.weighed) >= weighEvery {
		ts, err := m.d.store.Tenants(ctx)
		if err != nil {
			return err
		}
		weights := make(map[tenant.ID]int, len(ts))
		for _, t := range ts {
			weights[t.ID] = t.Tier.Weight()
		}
		p.Weigh(weights)
		m.weighed = now
	}
	if anew || now.Sub(m.ruled) >= ruleEvery {
		ls, err := m.d.store.Limits(ctx, "")
		if err != nil {
			return err
		}
		m.recount = p.Limit(ls) || m.recount
		m.ruled = now
	}
	if err := m.count(ctx, now); err != nil {
		return err
	}
	if now.Sub(m.shared) >= shareEvery || m.ruled.Equal(now) && m.d.cfg.Owner == nil || p.Narrow() && now.Sub(m.shared) >= narrowEvery {
		return m.share(ctx, now)
	}
	return nil
}

// count holds what is counted against the store: whole, where it may be wrong, or, where something waits for what runs to
// end, what another server may have seen the end of.
func (m *matcher) count(ctx context.Context, now time.Time) error {
	p := m.win.picker
	if m.recount {
		var ps []job.Partition
		for part := range m.holding.Fence.Epochs {
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
		m.recount, m.confirmed, m.shared = false, now, time.Time{}
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

// share asks for as much of each limit on what runs at once as can be used here.
func (m *matcher) share(ctx context.Context, now time.Time) error {
	p := m.win.picker
	ss := p.Shares()
	m.shared = now
	if len(ss) == 0 {
		return nil
	}
	if m.d.cfg.Owner == nil {
		for _, s := range ss {
			p.Allow(s, s.Whole)
		}
		return nil
	}
	bs := make([]engine.Share, len(ss))
	for i, s := range ss {
		bs[i] = engine.Share{Tenant: s.Tenant, Queue: s.Queue, Max: s.Whole, Want: s.Want, Used: s.Used}
	}
	got, err := m.d.cfg.Owner.Borrow(ctx, bs)
	if err != nil {
		return err
	}
	for i, s := range ss {
		p.Allow(s, got[i])
	}
	return nil
}
