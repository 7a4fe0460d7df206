package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

// shift is the life of one session.
type shift struct {
	p        *Pool
	session  client.Session
	desk     *desk
	kill     context.CancelCauseFunc // ends everything that runs
	over     chan struct{}           // closed when the session has ended
	draining atomic.Bool
	hurry    chan struct{} // there is something to report before the next heartbeat is due
	drain    chan struct{} // closed when the server has asked it to take no more work
	once     sync.Once
	full     atomic.Bool // the slots were all in use lately
	results  chan client.Outcome
	noMore   chan struct{} // closed when no more outcomes that count come into results
	late     chan struct{} // closed when the time to drain is up
	givenUp  bool          // of the reporting goroutine: after that time a report was not answered

	giveBack   chan struct{} // something is owed
	mu         sync.Mutex
	owed       []client.Held            // guarded by mu: attempts that did not start and are to be released
	unanswered map[client.Held]struct{} // guarded by mu: ended attempts for which the server has not answered yet

	answered atomic.Pointer[time.Time] // when the last answered heartbeat was sent, on the monotonic clock
}

func newShift(p *Pool, s client.Session) *shift {
	// Running attempts outlive the context that asks the pool to stop: the pool then drains.
	base, kill := context.WithCancelCause(context.Background())
	h := &shift{p: p, session: s, kill: kill, over: make(chan struct{}), drain: make(chan struct{}), hurry: make(chan struct{}, 1), giveBack: make(chan struct{}, 1), results: make(chan client.Outcome, maxOutcomes), noMore: make(chan struct{}), late: make(chan struct{}), unanswered: map[client.Held]struct{}{}}
	h.desk = newDesk(base, p.cfg.Slots, h.execute, h.hasten)
	h.desk.onWay = &p.onWay
	h.desk.write = func(ctx context.Context, r client.LogRequest) (client.LogAnswer, error) { return p.src.Logs(ctx, s, r) }
	if src, ok := p.src.(Nodes); ok {
		h.desk.nodes = asked{src, s}
	}
	if p.drained.Load() {
		h.retire()
	}
	h.answered.Store(new(time.Now()))
	return h
}

// end marks the session as ended and stops everything that runs under it.
func (h *shift) end(why error) {
	h.once.Do(func() {
		h.p.log.Warn("the session has ended; stopping what ran under it", "worker", h.session.WorkerID, "running", h.desk.busy(), "reason", why)
		close(h.over)
		h.kill(ErrLeaseLost)
	})
}

func (h *shift) ended() bool {
	select {
	case <-h.over:
		return true
	default:
		return false
	}
}

// run serves until ctx ends or the session does, and returns when nothing of it is left.
func (h *shift) run(ctx context.Context) {
	defer h.kill(ErrStopping)
	live, cancel := context.WithCancel(ctx) // ends with ctx or with the session
	defer cancel()
	beating, stopBeat := context.WithCancel(context.Background())
	var beats, reports sync.WaitGroup
	beats.Go(func() { h.beat(beating) })
	beats.Go(func() { h.tend(live) })
	reports.Go(h.report)
	go func() {
		select {
		case <-h.over:
			cancel()
		case <-beating.Done():
		}
	}()
	claiming, stopClaims := context.WithCancel(live)
	defer stopClaims()
	go func() {
		select {
		case <-h.drain:
			stopClaims()
		case <-claiming.Done():
		}
	}()
	if !h.draining.Load() {
		var claims sync.WaitGroup // two, so that the next batch is in flight while the last is processed
		claims.Go(func() { h.claim(claiming) })
		claims.Go(func() { h.claim(claiming) })
		claims.Wait()
	}
	h.draining.Store(true)
	h.hasten() // the server is to know
	if live.Err() == nil {
		h.owe(h.desk.waiting(0)) // others may begin it at once
		<-live.Done()
	}
	timer := time.AfterFunc(h.p.cfg.Drain, func() { close(h.late) })
	defer timer.Stop()
	h.finish()
	close(h.noMore)
	reports.Wait()
	stopBeat()
	beats.Wait()
	if !h.ended() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := h.p.src.Leave(ctx, h.session); err != nil {
			h.p.log.Warn("could not leave; the leases will run out", "worker", h.session.WorkerID, "error", err)
		}
	}
}

// hasten sends the next heartbeat early.
func (h *shift) hasten() {
	select {
	case h.hurry <- struct{}{}:
	default:
	}
}

// retire makes the shift take no more work, as the server asked; that also applies to later sessions.
func (h *shift) retire() {
	if h.draining.Swap(true) {
		return
	}
	if !h.p.drained.Swap(true) {
		h.p.log.Info("asked to drain: nothing more is claimed", "worker", h.session.WorkerID, "running", h.desk.busy())
	}
	close(h.drain)
}

// claim fills the desk until ctx ends.
func (h *shift) claim(ctx context.Context) {
	for fails := 0; ctx.Err() == nil; {
		n, full := h.desk.ask()
		if full {
			h.full.Store(true)
		}
		if n < 1 {
			select {
			case <-ctx.Done():
			case <-h.desk.change:
			}
			continue
		}
		as, err := h.p.src.Claim(ctx, h.session, n)
		if len(as) > 0 && err == nil {
			err = failpoint.Hit("worker.afterClaim")
		}
		switch {
		case errors.Is(err, ErrSession):
			h.end(err)
			return
		case err != nil && ctx.Err() == nil:
			fails++
			if fails == 1 {
				h.p.log.Warn("cannot claim; trying again", "error", err)
			}
			pause(ctx, backoff(fails))
		case len(as) > 0:
			fails = 0
			if len(as) == n {
				h.full.Store(true)
			}
			h.desk.add(as)
		}
		h.desk.got(n)
	}
}

// tend adapts the number of slots to the demand, and releases attempts that have waited too long for one.
func (h *shift) tend(ctx context.Context) {
	tick := time.NewTicker(h.p.cfg.Scale)
	defer tick.Stop()
	slots := h.p.cfg.Slots
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.giveBack:
			h.release()
			continue
		case <-tick.C:
		}
		slots = h.wanted(ctx, slots)
		h.desk.resize(slots)
		h.owe(h.desk.waiting(tooLong))
		h.release()
	}
}

// wanted returns how many slots there should be: for what runs or has a lease, and what waits at the server, within
// the bounds.
func (h *shift) wanted(ctx context.Context, slots int) int {
	full := h.full.Swap(false)
	g, ok := h.p.src.(Gauge)
	if ok && h.p.cfg.MaxSlots > h.p.cfg.Slots {
		call, cancel := context.WithTimeout(ctx, max(h.p.cfg.Scale, time.Second))
		defer cancel()
		if n, err := g.Waiting(call, h.session, h.p.cfg.MaxSlots); err == nil {
			return min(max(h.desk.load()+n, h.p.cfg.Slots), h.p.cfg.MaxSlots)
		}
	}
	return scaled(slots, h.desk.busy(), full, h.p.cfg)
}

// scaled returns how many slots there should be if nobody knows what waits: twice as many while all of the last ones
// were used, fewer while half of them are idle.
func scaled(slots, busy int, full bool, c Config) int {
	switch {
	case full:
		return min(2*slots, c.MaxSlots)
	case busy < slots/2:
		return max(slots/2, c.Slots)
	}
	return slots
}

// beat keeps the session alive until ctx ends. When no heartbeat has been answered for so long that the leases may be
// gone, it ends the session by itself: by the monotonic clock, whatever the wall clock says.
func (h *shift) beat(ctx context.Context) {
	every := time.Duration(h.session.BeatSeconds) * time.Second
	enough := h.lease() - every/2 // of silence: a second heartbeat is tried after one that hung
	tick := time.NewTicker(every)
	defer tick.Stop()
	var nudged <-chan struct{}
	if n, ok := h.p.src.(Nudger); ok {
		nudged = n.Nudged()
	}
	var soon <-chan time.Time
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.over:
			return
		case <-h.hurry:
			if soon == nil {
				soon = time.After(max(0, hurried-time.Since(last)))
			}
			continue
		case <-soon:
		case <-nudged:
		case <-tick.C:
		}
		asked := time.Now()
		soon, last = nil, asked
		// A hanging heartbeat must not keep attempts from being stopped before the lease ends.
		call, cancel := context.WithTimeout(ctx, max(0, min(every, enough-h.silent())))
		held, told := h.held()
		err := failpoint.Hit("worker.beforeHeartbeat")
		var orders client.Orders
		if err == nil {
			orders, err = h.p.src.Beat(call, h.session, client.Beat{Executions: held, Draining: h.draining.Load(), Memory: Memory()})
		}
		cancel()
		switch {
		case errors.Is(err, ErrSession):
			h.end(err)
			return
		case err != nil && ctx.Err() == nil:
			h.p.log.Warn("a beat was not answered", "worker", h.session.WorkerID, "error", err)
			if silent := h.silent(); silent >= enough {
				h.end(fmt.Errorf("no beat was answered for %v", silent.Round(time.Second)))
				return
			}
		case err == nil:
			h.answered.Store(&asked)
			told()
			if orders.Drain {
				h.retire()
			}
			if len(orders.Cancel) > 0 {
				h.owe(h.desk.stop(ErrCancelled, orders.Cancel, held)) // released, it ends as cancelled
			}
			if len(orders.Lost) > 0 {
				h.desk.stop(ErrLeaseLost, orders.Lost, held)
			}
		}
	}
}

// hurried limits how close together early heartbeats are.
const hurried = time.Second

// held lists all leases of the session; call told when the server knows.
func (h *shift) held() (held []client.Held, told func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	held, told = h.desk.held()
	held = append(held, h.owed...)
	return slices.AppendSeq(held, maps.Keys(h.unanswered)), told
}

// silent returns how long ago the last answered heartbeat was sent.
func (h *shift) silent() time.Duration { return time.Since(*h.answered.Load()) }

func (h *shift) lease() time.Duration { return time.Duration(h.session.LeaseSeconds) * time.Second }

// execute runs one attempt and reports its outcome, unless the lease was lost with it.
func (h *shift) execute(r *running) {
	h.p.busy.Add(1)
	defer h.p.busy.Add(-1)
	a := &r.attempt
	if a.LateSecrets && !h.complete(r) {
		return
	}
	if silent := h.silent(); silent > h.lease() {
		// This process was suspended for so long that the lease may be gone. The session must not live on: nobody
		// would run this.
		h.end(fmt.Errorf("no beat was answered for %v", silent.Round(time.Second)))
		return
	}
	out := sound(h.protect(r, *a))
	r.leave()
	if !r.closeLog(h.over) && !h.ended() { // before the outcome, which ends the lease
		h.p.log.Warn("the end of an attempt's log could not be sent", "execution", a.ExecutionID)
	}
	out.ExecutionID, out.FencingToken = a.ExecutionID, a.FencingToken
	cause := r.stopped()
	if errors.Is(cause, ErrLeaseLost) || errors.Is(cause, ErrStopping) && out.Status != client.Succeeded {
		return // the server has the execution back, or is about to get it
	}
	h.mu.Lock()
	h.unanswered[client.Held{ExecutionID: out.ExecutionID, FencingToken: out.FencingToken}] = struct{}{}
	h.mu.Unlock()
	select {
	case h.results <- out:
	case <-h.noMore: // it was abandoned
	}
}

// protect turns a panic of the executor into an outcome.
func (h *shift) protect(ctx context.Context, a client.Attempt) (out client.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			h.p.log.Error("an execution panicked", "execution", a.ExecutionID, "panic", p, "stack", string(debug.Stack()))
			out = client.Outcome{Status: client.Failed, Retryable: true, Error: &client.Error{Type: "PANIC", Message: fmt.Sprint(p)}}
		}
	}()
	if err := failpoint.Hit("worker.beforeEffect"); err != nil {
		panic(err)
	}
	out = h.p.exec.Execute(ctx, a)
	if err := failpoint.Hit("worker.afterEffectBeforeComplete"); err != nil {
		panic(err)
	}
	return out
}

// owe records attempts that did not start and are to be released.
func (h *shift) owe(held []client.Held) {
	if len(held) == 0 {
		return
	}
	h.mu.Lock()
	h.owed = append(h.owed, held...)
	h.mu.Unlock()
	select {
	case h.giveBack <- struct{}{}:
	default:
	}
}

// release releases what is owed; what the server does not answer for stays owed.
func (h *shift) release() {
	h.mu.Lock()
	held := h.owed
	h.owed = nil
	h.mu.Unlock()
	if len(held) == 0 || h.ended() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := h.p.src.Release(ctx, h.session, held); err != nil {
		h.p.log.Warn("could not hand executions back; trying again", "executions", len(held), "error", err)
		h.mu.Lock()
		h.owed = append(h.owed, held...)
		h.mu.Unlock()
	}
}

// finish releases what has not started and waits for running attempts, until the time for it is up; then it stops the
// rest.
func (h *shift) finish() {
	h.owe(h.desk.waiting(0))
	h.release() // leaving releases what this does not reach
	if err := failpoint.Hit("shutdown.midDrain"); err != nil {
		h.end(err)
	}
	for h.desk.busy() > 0 {
		select {
		case <-h.desk.change:
		case <-h.over:
			h.await()
			return
		case <-h.late:
			h.p.log.Warn("stopping what still runs", "executions", h.desk.busy())
			h.kill(ErrStopping)
			h.await()
			return
		}
	}
}

// grace is how long an executor has to return after a stop.
const grace = 5 * time.Second

// await waits until the executor has returned from everything that was stopped. An attempt that ignores its context
// is abandoned: it must keep neither the process from ending nor the pool from a new session.
func (h *shift) await() {
	enough := time.NewTimer(grace)
	defer enough.Stop()
	for h.desk.busy() > 0 {
		select {
		case <-h.desk.change:
		case <-enough.C:
			h.abandon()
			return
		}
	}
}

// abandon releases attempts that continue although they were stopped.
func (h *shift) abandon() {
	held, _ := h.desk.held()
	ids := make([]string, len(held))
	for i, x := range held {
		held[i].Progress, ids[i] = nil, x.ExecutionID
	}
	h.p.log.Error("executions were told to stop and run on; they are abandoned", "worker", h.session.WorkerID, "running", h.desk.busy(), "executions", ids)
	h.owe(held)
	h.release()
}
