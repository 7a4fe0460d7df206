package worker

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// desk holds a session's work: attempts that wait for a slot, and those that run.
type desk struct {
	mu      sync.Mutex
	queue   []queued              // guarded by mu
	running map[string]*running   // guarded by mu; by execution id
	lost    map[*running]struct{} // guarded by mu: still in their slots, though a newer attempt of the execution came
	slots   int                   // guarded by mu: how many may run at once
	asked   int                   // guarded by mu: how many attempts the claims in flight ask for
	pace    time.Duration         // guarded by mu: how long an attempt takes, smoothed; 0: unknown
	change  chan struct{}         // a slot became free, or the queue shorter
	start   func(*running)        // runs one attempt to its end
	base    context.Context
	hurry   func() // there is progress to tell of
	write   func(context.Context, client.LogRequest) (client.LogAnswer, error)
	onWay   *atomic.Int64 // bytes of logs that the server has not accepted
	nodes   nodes         // of workflows, that attempts may query; nil: the server does not support it
}

type queued struct {
	attempt *client.Attempt // of what a claim was given
	at      time.Time
}

// How far a pool claims ahead: what its slots get through in ahead, so that short attempts come in large batches and
// long ones are left to other workers.
const (
	ahead    = 50 * time.Millisecond
	maxAhead = 1000
	second   = 100         // minimum number of attempts for a claim while another is in flight
	tooLong  = time.Second // an attempt that has waited this long for a slot is released
)

func newDesk(base context.Context, slots int, start func(*running), hurry func()) *desk {
	return &desk{running: map[string]*running{}, lost: map[*running]struct{}{}, slots: slots, change: make(chan struct{}, 1), start: start, base: base, hurry: hurry}
}

// ask returns how many attempts to claim now; if more than none, the caller must call got when the claim was
// answered. A claim is sent when half of what was claimed ahead has started, and a second one beside it only if it is
// large, so that claims stay large. full reports that there is no room, regardless of claims in flight.
func (d *desk) ask() (n int, full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	extra := 0
	if d.pace > 0 {
		extra = int(min(maxAhead, time.Duration(d.slots)*ahead/d.pace))
	}
	n = d.slots + extra - d.taken() - len(d.queue)
	if n < 1 || extra > 0 && len(d.queue) > extra/2 {
		return 0, true
	}
	if d.asked > 0 {
		n -= d.asked
		if n < max(second, extra/4) {
			return 0, false
		}
	}
	d.asked += n
	return n, false
}

// got records that a claim for n attempts was answered.
func (d *desk) got(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked -= n
}

// add adds attempts and starts those for which there are slots.
func (d *desk) add(as []client.Attempt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.queue = slices.Grow(d.queue, len(as))
	for i := range as {
		if as[i].AttemptNumber > 1 && !d.supersede(&as[i]) { // a first attempt supersedes none
			continue
		}
		d.queue = append(d.queue, queued{&as[i], now})
	}
	d.fill()
}

// supersede drops an older attempt of an execution that was handed out again: its lease is gone, whether the server
// has said so yet or not. It returns false if the new one's lease is the one that is gone, since claims may be
// answered out of order. The caller holds mu.
func (d *desk) supersede(a *client.Attempt) bool {
	if old, ok := d.running[a.ExecutionID]; ok {
		if old.attempt.FencingToken > a.FencingToken {
			return false
		}
		old.stop(ErrLeaseLost)
		delete(d.running, a.ExecutionID)
		d.lost[old] = struct{}{}
	}
	if i := slices.IndexFunc(d.queue, func(q queued) bool { return q.attempt.ExecutionID == a.ExecutionID }); i >= 0 {
		if d.queue[i].attempt.FencingToken > a.FencingToken {
			return false
		}
		d.queue = slices.Delete(d.queue, i, i+1)
	}
	return true
}

// taken returns how many slots are in use. The caller holds mu.
func (d *desk) taken() int { return len(d.running) + len(d.lost) }

// fill starts queued attempts while slots are free. The caller holds mu.
func (d *desk) fill() {
	for r := d.next(); r != nil; r = d.next() {
		go d.slot(r)
	}
}

// next moves the head of the queue to the running attempts; nil: there is none, or no slot. The caller holds mu.
func (d *desk) next() *running {
	for len(d.queue) > 0 && d.taken() < d.slots {
		a := d.queue[0].attempt
		d.queue[0] = queued{} // so that its payload can be freed
		d.queue = d.queue[1:]
		if newer, ok := d.running[a.ExecutionID]; ok && newer.attempt.FencingToken > a.FencingToken {
			continue // the answer to an older claim came later: this lease is gone
		}
		r := newRunning(d.base, *a)
		r.progress.hurry, r.write, r.onWay = d.hurry, d.write, d.onWay
		if a.WantsResult {
			r.nodes = d.nodes
		}
		d.running[a.ExecutionID] = r
		return r
	}
	return nil
}

// slot runs attempts, one after the other, until none waits or there are too many slots.
func (d *desk) slot(r *running) {
	for r != nil {
		began := time.Now()
		d.start(r)
		took := time.Since(began)
		r.over()
		d.mu.Lock()
		if d.running[r.attempt.ExecutionID] == r {
			delete(d.running, r.attempt.ExecutionID)
		}
		delete(d.lost, r)
		if d.pace == 0 {
			d.pace = max(took, 1)
		} else {
			d.pace = max(d.pace+(took-d.pace)/16, 1)
		}
		r = d.next()
		d.mu.Unlock()
		d.signal()
	}
}

func (d *desk) signal() {
	select {
	case d.change <- struct{}{}:
	default:
	}
}

// resize sets how many attempts may run at once.
func (d *desk) resize(slots int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.slots = slots
	d.fill()
	d.signal() // there may be room to claim
}

// waiting removes from the queue what has waited longer than limit for a slot.
func (d *desk) waiting(limit time.Duration) []client.Held {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []client.Held
	keep := d.queue[:0:0]
	for _, q := range d.queue {
		if time.Since(q.at) >= limit {
			out = append(out, client.Held{ExecutionID: q.attempt.ExecutionID, FencingToken: q.attempt.FencingToken})
		} else {
			keep = append(keep, q)
		}
	}
	d.queue = keep
	if len(out) > 0 {
		d.pace = max(d.pace, limit) // attempts now take longer than before: claim less far ahead
		d.signal()
	}
	return out
}

// held lists all leases of the session, with new progress; call told when the server knows it.
func (d *desk) held() (out []client.Held, told func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var news []func()
	out = make([]client.Held, 0, len(d.queue)+len(d.running))
	for _, q := range d.queue {
		out = append(out, client.Held{ExecutionID: q.attempt.ExecutionID, FencingToken: q.attempt.FencingToken})
	}
	for id, r := range d.running {
		p, known := r.progress.news()
		if p != nil {
			news = append(news, known)
		}
		out = append(out, client.Held{ExecutionID: id, FencingToken: r.attempt.FencingToken, Progress: p})
	}
	return out, func() {
		for _, f := range news {
			f()
		}
	}
}

// busy returns how many attempts run.
func (d *desk) busy() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.taken()
}

// load returns how many attempts run or wait for a slot.
func (d *desk) load() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.taken() + len(d.queue)
}

// stop ends the named running executions, and removes those that wait for a slot. It applies to the leases that the
// heartbeat with the order named: an attempt that came since is not meant.
func (d *desk) stop(cause error, ids []string, named []client.Held) (waited []client.Held) {
	meant := make(map[client.Held]bool, len(ids))
	for _, h := range named {
		if slices.Contains(ids, h.ExecutionID) {
			meant[client.Held{ExecutionID: h.ExecutionID, FencingToken: h.FencingToken}] = true
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for h := range meant {
		if r, ok := d.running[h.ExecutionID]; ok && r.attempt.FencingToken == h.FencingToken {
			r.stop(cause)
		}
	}
	keep := d.queue[:0:0]
	for _, q := range d.queue {
		if h := (client.Held{ExecutionID: q.attempt.ExecutionID, FencingToken: q.attempt.FencingToken}); meant[h] {
			waited = append(waited, h)
		} else {
			keep = append(keep, q)
		}
	}
	d.queue = keep
	return waited
}
