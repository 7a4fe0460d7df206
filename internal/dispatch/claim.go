package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// claim is a worker's wish for executions.
type claim struct {
	worker job.Worker
	max    int
	taken  atomic.Bool // by the matcher, which will answer, or by the caller, who no longer waits
	reply  chan answer // of one
}

type answer struct {
	attempts []job.Attempt
	err      error
}

func (c *claim) answer(as []job.Attempt, err error) { c.reply <- answer{as, err} }

// Claim waits until there is at least one execution for the worker, and leases up to limit of them. It
// answers nothing when ctx ends first.
func (d *Dispatcher) Claim(ctx context.Context, id job.WorkerID, limit int) ([]job.Attempt, error) {
	w, err := d.Worker(ctx, id)
	if err != nil {
		return nil, err
	}
	for limit > 0 && ctx.Err() == nil {
		as, err := d.claimOnce(ctx, w, limit)
		if err != nil || len(as) > 0 {
			return as, err
		}
	}
	return nil, nil
}

// claimOnce waits for one match; it may come to nothing, where another server was quicker.
func (d *Dispatcher) claimOnce(ctx context.Context, w job.Worker, limit int) ([]job.Attempt, error) {
	c := &claim{worker: w, max: limit, reply: make(chan answer, 1)}
	select {
	case d.claims <- c:
	case <-ctx.Done():
		return nil, nil
	case <-d.done:
		return nil, ErrStopped
	}
	select {
	case a := <-c.reply:
		return a.attempts, a.err
	case <-ctx.Done():
		if c.taken.CompareAndSwap(false, true) {
			return nil, nil
		}
		select { // it is being leased for us: nobody else will hand it back
		case a := <-c.reply:
			return a.attempts, a.err
		case <-d.done:
			return nil, ErrStopped
		}
	}
}

// matcher brings claims and executions together. One goroutine runs it.
type matcher struct {
	d       *Dispatcher
	win     *window
	waiting []*claim
	swept   time.Time
	woken   bool // something may be ready that no hint tells of
}

const sweepEvery = time.Second

// pass waits for something to do and does it once.
func (m *matcher) pass(ctx context.Context) error {
	m.wait(ctx)
	now := m.d.clock.Now()
	m.win.ripen(now)
	m.waiting = slices.DeleteFunc(m.waiting, func(c *claim) bool { return c.taken.Load() })
	if len(m.waiting) == 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	hungry := !m.win.holds(m.serves)
	if m.d.missed.Swap(false) || now.Sub(m.swept) >= sweepEvery || hungry && (m.woken || now.Sub(m.swept) >= m.d.cfg.Poll) {
		lanes, err := m.d.store.Lanes(ctx)
		if err != nil {
			m.d.missed.Store(true)
			return err
		}
		m.win.sweep(lanes)
		m.swept, m.woken = now, false
	}
	if cs := m.win.dry(m.d.cfg.PerLane/4, m.serves); len(cs) > 0 {
		per := max(1, min(m.d.cfg.PerLane, m.d.cfg.Window/len(cs)))
		rs, err := m.d.store.Ready(ctx, cs, per)
		if err != nil {
			return err
		}
		m.win.refill(cs, rs, per)
	}
	return m.lease(ctx)
}

// serves reports whether any of the waiting claims takes executions of the class.
func (m *matcher) serves(c job.Class) bool {
	return slices.ContainsFunc(m.waiting, func(x *claim) bool { return x.worker.Serves(c) })
}

// wait blocks until a claim and something to give it may have come together.
func (m *matcher) wait(ctx context.Context) {
	var timer <-chan time.Time
	if len(m.waiting) > 0 {
		pause := m.d.cfg.Poll
		if m.win.holds(m.serves) || m.d.missed.Load() || len(m.win.dry(0, m.serves)) > 0 {
			pause = 0
		} else if at, ok := m.win.nextDue(); ok {
			pause = min(pause, max(0, at.Sub(m.d.clock.Now())))
		}
		if pause > 0 {
			t := time.NewTimer(pause)
			defer t.Stop()
			timer = t.C
		} else {
			now := make(chan time.Time)
			close(now)
			timer = now
		}
	}
	select {
	case <-ctx.Done():
	case c := <-m.d.claims:
		m.waiting = append(m.waiting, c)
	case rs := <-m.d.offers:
		m.win.offer(rs, m.d.clock.Now())
	case <-m.d.wake:
		m.woken = true
	case <-timer:
	}
	for { // whatever else has come meanwhile goes into the same commit
		select {
		case c := <-m.d.claims:
			m.waiting = append(m.waiting, c)
		case rs := <-m.d.offers:
			m.win.offer(rs, m.d.clock.Now())
		default:
			return
		}
	}
}

// lease picks for all waiting claims and leases in one commit.
func (m *matcher) lease(ctx context.Context) error {
	if err := m.disown(ctx); err != nil {
		return err
	}
	var grants []engine.Grant
	var served []*claim
	for _, c := range m.waiting {
		if slices.ContainsFunc(served, func(s *claim) bool { return s.worker.ID == c.worker.ID }) {
			continue // one grant a session and commit
		}
		rs := m.win.pick(c.max, c.worker.Serves)
		if len(rs) == 0 {
			continue
		}
		if !c.taken.CompareAndSwap(false, true) {
			m.win.offer(rs, m.d.clock.Now())
			continue
		}
		g := engine.Grant{Worker: c.worker.ID, Executions: make([]job.ExecutionID, len(rs))}
		for i, r := range rs {
			g.Executions[i] = r.ID
		}
		grants, served = append(grants, g), append(served, c)
	}
	if len(grants) == 0 {
		return nil
	}
	answered := false
	defer func() {
		if !answered { // a panic: the callers must not wait for ever
			m.fail(grants, served, fmt.Errorf("the lease was not answered: %w", engine.ErrUnavailable))
		}
	}()
	as, err := m.d.store.Lease(ctx, grants)
	answered = true
	if err != nil {
		m.fail(grants, served, err)
		if errors.Is(err, engine.ErrSession) {
			return nil
		}
		return err
	}
	m.hand(as, grants, served)
	return nil
}

// hand answers the claims that were served, also with nothing: their callers ask again.
func (m *matcher) hand(as []job.Attempt, grants []engine.Grant, served []*claim) {
	owner := make(map[job.ExecutionID]int, len(as))
	for i, g := range grants {
		for _, id := range g.Executions {
			owner[id] = i
		}
	}
	parts := make([][]job.Attempt, len(grants))
	if len(grants) == 1 {
		parts[0] = as
	} else {
		for _, a := range as {
			i := owner[a.Execution]
			parts[i] = append(parts[i], a)
		}
	}
	m.d.mu.Lock()
	for i, c := range served {
		if s := m.d.known[c.worker.ID]; s != nil {
			for _, a := range parts[i] {
				s.held[a.Token]++
			}
		}
	}
	m.d.mu.Unlock()
	m.waiting = slices.DeleteFunc(m.waiting, func(c *claim) bool { return slices.Contains(served, c) })
	for i, c := range served {
		c.answer(parts[i], nil)
	}
}

// fail is what follows a lease that was not answered: it may have happened, so the sessions are asked for what nobody was told of.
func (m *matcher) fail(grants []engine.Grant, served []*claim, err error) {
	m.d.missed.Store(true)
	m.waiting = slices.DeleteFunc(m.waiting, func(c *claim) bool { return slices.Contains(served, c) })
	m.d.mu.Lock()
	for _, g := range grants {
		switch s := m.d.known[g.Worker]; {
		case s == nil:
		case errors.Is(err, engine.ErrSession):
			delete(m.d.known, g.Worker)
		default:
			s.suspect = true
		}
	}
	m.d.mu.Unlock()
	for _, c := range served {
		c.answer(nil, err)
	}
}

// disown returns what sessions in this process hold without anybody knowing. What others hold is told by their beats.
func (m *matcher) disown(ctx context.Context) error {
	type suspect struct {
		id   job.WorkerID
		keep []job.Lease
	}
	var all []suspect
	m.d.mu.Lock()
	for id, s := range m.d.known {
		if s.suspect && s.local {
			x := suspect{id: id}
			for t := range s.held {
				x.keep = append(x.keep, job.Lease{Token: t})
			}
			all = append(all, x)
		}
	}
	m.d.mu.Unlock()
	for _, x := range all {
		if err := m.d.disown(ctx, x.id, x.keep, 0); err != nil {
			return err
		}
	}
	return nil
}
