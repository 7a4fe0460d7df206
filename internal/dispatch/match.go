package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/pick"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

// matcher matches claims and executions. One goroutine runs it.
type matcher struct {
	d       *Dispatcher
	win     *window
	waiting []*claim
	woken   bool      // something may be ready without a hint
	now     time.Time // of this pass
	setBack bool      // the store's clock was

	inFlight int             // leases on their way
	returned chan *leaseCall // leases that were answered, or never will be
	doubt    bool            // the last lease failed: the next is sent alone, and awaited

	swept   time.Time
	probed  time.Time            // when lanes were last probed
	after   *job.Lane            // where the next sweep continues
	crowds  map[crowded]job.Lane // where to continue among very many groups
	skipped map[crowded]bool     // those not completely listed in this round of sweeps

	holding    engine.Holding
	lost       map[job.Partition]time.Time // when others turned out to own what was owned here; what runs there still counts here
	unreported bool                        // the count has not been reported to the other servers yet
	recount    bool                        // running executions must be counted before anything limited is leased
	confirmed  time.Time                   // when the count was last compared with the store
	ruled      time.Time                   // when limits and cordons were last read
	cordoned   map[job.WorkerID]bool
	weighed    time.Time              // and tenants
	quotas     []job.Limit            // the rates that their quotas give them
	shared     time.Time              // when shares of limits were last requested
	repaid     time.Time              // or last checked, while no claim waited
	lately     map[job.WorkerID]visit // workers whose claims waited here lately
	pruned     time.Time              // when old visits were last dropped
	wanted     time.Time              // when partitions of others were last considered
	foreign    bool                   // nothing of its own is left for the waiting claims
}

const (
	sweepEvery   = time.Second
	sweepLanes   = 1000                   // lanes listed at once
	sweepTime    = 150 * time.Millisecond // that a sweep may take
	ruleEvery    = time.Second
	weighEvery   = 3 * time.Second
	confirmEvery = time.Second
	countEvery   = time.Minute // counts are confirmed at least this often, even if nothing waits for it
	shareEvery   = time.Second
	repayEvery   = 500 * time.Millisecond // how often shares are checked while no claim waits
	visitTime    = time.Second            // how long after its claim a worker counts as taking more
	fitTime      = 3 * time.Second        // how long after its claim a server counts as serving what a worker takes
	narrowEvery  = 50 * time.Millisecond  // how often shares are requested while something waits for more …
	pressedEvery = 5 * time.Millisecond   // … and much does

	maxInFlight = 2   // leases in flight: one is picked and sent while the other is committed
	alongside   = 100 // executions in a lease that is sent beside another; smaller ones wait and share a commit
)

func newMatcher(d *Dispatcher) *matcher {
	m := &matcher{d: d, win: newWindow(d.cfg.Window), recount: true, lately: map[job.WorkerID]visit{}, lost: map[job.Partition]time.Time{}, crowds: map[crowded]job.Lane{}, returned: make(chan *leaseCall, maxInFlight)}
	m.win.hinted = d.cfg.Owner == nil // nobody else stores anything
	return m
}

// tick makes a pass. If that fails, nothing is in flight afterwards: a pause follows, and no claim should wait for
// its end.
func (m *matcher) tick(ctx context.Context) error {
	failed := true
	defer func() {
		if failed {
			_ = m.receiveAll() // whose claims are told
		}
	}()
	err := m.pass(ctx)
	failed = err != nil
	return err
}

// pass waits for something to do and does it once.
func (m *matcher) pass(ctx context.Context) error {
	if err := m.wait(ctx); err != nil {
		return err
	}
	now := m.tell()
	if m.setBack {
		m.turnBack(ctx, now)
	}
	m.win.ripen(now)
	m.settle()
	m.waiting = slices.DeleteFunc(m.waiting, func(c *claim) bool {
		gone := c.taken.Load()
		if gone {
			m.left(c)
		}
		return gone
	})
	if m.d.cfg.Owner != nil {
		m.d.cfg.Owner.SetDemand(m.inFlight > 0 || slices.ContainsFunc(m.waiting, m.fed))
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if len(m.waiting) == 0 {
		return m.repay(ctx, now)
	}
	if !m.free() {
		return nil
	}
	if err := m.rules(ctx, now); err != nil {
		return err
	}
	if err := m.fill(ctx, now); err != nil {
		return err
	}
	if err := m.lease(ctx); err != nil {
		return err
	}
	_, err := m.unpack(ctx) // before the limit that holds it back opens, or it would continue to block others
	return err
}

// tell reads the store's clock, and records whether it was set back.
func (m *matcher) tell() time.Time {
	now := m.d.clock.Now()
	m.setBack = m.setBack || now.Before(m.now)
	m.now = now
	return now
}

// turnBack starts over after the store's clock was set back: otherwise everything with a delay (sweeps, rates,
// limits, shares) would wait until that instant comes once more.
func (m *matcher) turnBack(ctx context.Context, now time.Time) {
	m.restart(ctx)
	hinted := m.win.hinted
	m.win = newWindow(m.d.cfg.Window)
	m.win.hinted, m.setBack = hinted, false
	m.weighed, m.ruled, m.confirmed, m.shared, m.repaid, m.wanted, m.pruned = time.Time{}, time.Time{}, time.Time{}, time.Time{}, time.Time{}, time.Time{}, time.Time{}
	clear(m.lately)
	for part := range m.lost {
		m.lost[part] = now
	}
}

// serves reports whether any of the waiting claims takes executions of a tenant's class.
func (m *matcher) serves(t tenant.ID, c job.Class) bool {
	return slices.ContainsFunc(m.waiting, func(x *claim) bool { return m.fed(x) && x.worker.Serves(t, c) })
}

// fed reports whether a claim may be given something: its worker is not cordoned.
func (m *matcher) fed(c *claim) bool { return !m.cordoned[c.worker.ID] }

// free reports whether a lease may be sent: none is in flight, or only one and this one is large.
func (m *matcher) free() bool {
	if m.inFlight == 0 {
		return true
	}
	if m.inFlight >= maxInFlight || m.win.picker.Len() < alongside {
		return false
	}
	want := 0
	for _, c := range m.waiting {
		if m.fed(c) {
			want += c.max
		}
	}
	return want >= alongside
}

// wait blocks until there may be a match for a claim, or a lease was answered. Its error is that of a lease.
func (m *matcher) wait(ctx context.Context) (err error) {
	var timer <-chan time.Time
	if len(m.waiting) > 0 && m.free() {
		t := time.NewTimer(m.pause())
		defer t.Stop()
		timer = t.C
	} else if len(m.waiting) == 0 && (m.lent() || m.moved()) {
		t := time.NewTimer(repayEvery)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-ctx.Done():
	case c := <-m.d.claims:
		m.waiting = append(m.waiting, c)
	case rs := <-m.d.offers:
		m.take(rs)
	case f := <-m.returned:
		err = m.receive(f)
	case <-m.d.wake:
		m.woken = true
	case <-m.d.freed:
	case <-timer:
	}
	for err == nil { // anything else that has arrived meanwhile goes into the same commit
		select {
		case c := <-m.d.claims:
			m.waiting = append(m.waiting, c)
		case rs := <-m.d.offers:
			m.take(rs)
		case f := <-m.returned:
			err = m.receive(f)
		default:
			return nil
		}
	}
	return err
}

// pause returns how long there is nothing to do, unless something arrives.
func (m *matcher) pause() time.Duration {
	now := m.tell() // a pause may have ended
	p := m.win.picker
	if m.setBack {
		return 0
	}
	if p.Any(m.serves, now) || p.Short() && slices.ContainsFunc(m.waiting, m.fed) || m.d.missed.Load() || len(m.win.dry(0, m.reads)) > 0 {
		return 0
	}
	pause := m.d.cfg.Poll
	switch {
	case p.Pressed(m.serves):
		pause = min(pause, max(0, pressedEvery-now.Sub(m.shared)))
	case p.Narrow():
		pause = min(pause, narrowEvery)
	}
	if at, ok := m.win.next(); ok {
		pause = min(pause, max(0, at.Sub(now)))
	}
	return pause
}

// take accepts the part of a hint that this server owns.
func (m *matcher) take(rs []job.Ready) {
	if m.d.cfg.Owner != nil {
		rs = slices.DeleteFunc(slices.Clone(rs), func(r job.Ready) bool { return !m.own(r.Partition) })
	}
	m.win.offer(rs, m.d.clock.Now())
}

// lease picks for all waiting claims and leases the executions in one commit.
func (m *matcher) lease(ctx context.Context) error {
	if err := m.disown(ctx); err != nil {
		return err
	}
	now := m.d.clock.Now()
	var gs []grant
	handled := false
	defer func() {
		if handled {
			return
		}
		// A panic: the callers must not wait forever, and what was picked must be found again.
		m.fail(gs, errUnanswered)
		m.restart(ctx)
	}()
	for _, c := range m.waiting {
		if !m.fed(c) || slices.ContainsFunc(gs, func(g grant) bool { return g.claim.worker.ID == c.worker.ID }) {
			continue // one grant a session and commit
		}
		rs, err := m.pick(ctx, c, now)
		if err != nil {
			handled = true
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
		if m.win.halted {
			break // the others might not be given what comes first
		}
	}
	if len(gs) == 0 {
		handled = true
		return nil
	}
	f := &leaseCall{gs: gs}
	named, fence := grants(gs), m.fence(gs)
	m.answered(gs)
	m.inFlight++
	handled = true
	go func() {
		defer func() { m.returned <- f }()
		f.send(ctx, m.d, named, fence)
	}()
	if m.doubt {
		return m.receiveAll()
	}
	return nil
}

// errUnanswered is the error for claims whose lease panicked.
var errUnanswered = fmt.Errorf("the lease was not answered: %w", engine.ErrUnavailable)

// leaseCall is a lease in flight. Its executions stay known to the window until it is answered, so that nobody picks
// them again from what the store returned before the commit.
type leaseCall struct {
	gs  []grant
	as  []job.Attempt
	err error
}

// send calls the store in its own goroutine.
func (f *leaseCall) send(ctx context.Context, d *Dispatcher, gs []engine.Grant, fence engine.Fence) {
	f.err = errUnanswered
	defer func() {
		if p := recover(); p != nil {
			d.log.Error("a lease panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	as, err := d.store.Lease(ctx, gs, fence)
	if err == nil {
		err = failpoint.Hit("claim.afterCommitBeforeReply")
	}
	f.as, f.err = as, err
}

// receive handles the outcome of a lease, and answers its claims.
func (m *matcher) receive(f *leaseCall) error {
	m.inFlight--
	if f.err == nil {
		m.doubt = false
		m.hand(f.as, f.gs)
		return nil
	}
	m.fail(f.gs, f.err)
	if errors.Is(f.err, engine.ErrSession) {
		return nil
	}
	m.doubt = true
	return f.err
}

// receiveAll waits until no lease is in flight. Its error is that of one of them.
func (m *matcher) receiveAll() (err error) {
	for m.inFlight > 0 {
		if e := m.receive(<-m.returned); e != nil {
			err = e
		}
	}
	return err
}

// restart clears the window, so that the store is read and counted again.
func (m *matcher) restart(ctx context.Context) {
	if err := m.receiveAll(); err != nil && ctx.Err() == nil {
		m.d.log.Warn("a lease failed", "error", err)
	}
	m.recount = true
	m.win.reset()
	m.swept, m.after, m.skipped = time.Time{}, nil, nil
}

// grant holds what was picked for a claim.
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

// fence names the partitions of executions that count against limits.
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

// pick removes from the window what a claim will be given, and pays its rates.
func (m *matcher) pick(ctx context.Context, c *claim, now time.Time) ([]*job.Ready, error) {
	known := map[job.Class]bool{} // parsing a class for every execution would cost more than picking it
	mine := func(t tenant.ID, x job.Class) bool {
		if c.worker.Tenant != "" && c.worker.Tenant != t {
			return false
		}
		ok, seen := known[x]
		if !seen {
			ok = c.worker.Serves(t, x)
			known[x] = ok
		}
		return ok
	}
	rs := m.win.pick(nil, c.max, mine, now)
	for range 3 { // paying one rate may show that another must be paid
		if room := c.max - len(rs); room == 0 || c.max >= pick.Many && room < job.Bundle || m.win.halted || !m.win.picker.Short() {
			break
		}
		needs := m.win.picker.Needs(c.max - len(rs))
		ds := make([]engine.Draw, len(needs))
		for i, n := range needs {
			ds[i] = engine.Draw{Bucket: n.Bucket, Rate: n.Rate, N: n.N}
		}
		got, err := m.d.store.Draw(ctx, ds)
		if err != nil {
			for _, n := range needs { // otherwise executions that stand aside for them would never be asked for again
				m.win.picker.Pour(n, 0, 0, now)
			}
			m.back(rs)
			return nil, err
		}
		for i, n := range needs {
			m.win.picker.Pour(n, got[i].N, got[i].Wait, now)
		}
		rs = m.win.pick(rs, c.max, mine, now)
	}
	return rs, nil
}

// back returns picked executions to the window.
func (m *matcher) back(rs []*job.Ready) {
	for _, r := range rs {
		m.win.drop(r)
		m.win.offer([]job.Ready{*r}, r.DueAt)
	}
}

// drop returns all picked executions, and answers their claims with nothing: the callers ask again.
func (m *matcher) drop(gs []grant) {
	m.answered(gs)
	for _, g := range gs {
		m.back(g.picked)
		g.claim.answer(nil, nil)
	}
}

// hand answers the served claims, possibly with nothing: the callers ask again.
func (m *matcher) hand(as []job.Attempt, gs []grant) {
	parts := make([][]job.Attempt, len(gs))
	m.d.mu.Lock()
	for i, g := range gs {
		s := m.d.known[g.claim.worker.ID]
		n := 0 // the store answers in the requested order, so its answer splits into parts, with gaps in what was picked
		for _, r := range g.picked {
			if n == len(as) || as[n].Execution != r.ID {
				m.win.drop(r)
				continue
			}
			m.win.let(r)
			m.win.picker.Started(as[n].Lease, r)
			if s != nil {
				s.held[as[n].Token]++
			}
			n++
		}
		parts[i], as = as[:n:n], as[n:]
	}
	m.d.counts.Store(m.win.picker.Counts()) // before anybody can report
	m.d.mu.Unlock()
	for i, g := range gs {
		g.claim.answer(parts[i], nil)
	}
}

// answered removes the claims that will be answered.
func (m *matcher) answered(gs []grant) {
	m.waiting = slices.DeleteFunc(m.waiting, func(c *claim) bool {
		gone := slices.ContainsFunc(gs, func(g grant) bool { return g.claim == c })
		if gone {
			m.left(c)
		}
		return gone
	})
}

// fail handles a lease without an answer: it may have happened, so leases unknown to their sessions are searched for,
// and running executions are counted again.
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

// disown releases what sessions in this process hold without knowing. For others, their heartbeats reveal it.
func (m *matcher) disown(ctx context.Context) error {
	if len(m.suspects()) == 0 {
		return nil
	}
	if err := m.receiveAll(); err != nil { // leases in flight are unknown too, and are not meant
		return err
	}
	for id, keep := range m.suspects() {
		if _, err := m.d.disown(ctx, id, keep, time.Time{}); err != nil {
			return err
		}
	}
	return nil
}

// suspects returns the sessions in this process that may hold executions unknowingly, and the tokens that they know
// of.
func (m *matcher) suspects() map[job.WorkerID][]job.Token {
	var out map[job.WorkerID][]job.Token
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	for id, s := range m.d.known {
		if s.suspect && s.local {
			if out == nil {
				out = map[job.WorkerID][]job.Token{}
			}
			out[id] = slices.Collect(maps.Keys(s.held))
		}
	}
	return out
}
