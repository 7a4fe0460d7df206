package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// ErrStale means that the worker no longer holds the lease it names.
var ErrStale = errors.New("the lease is not held under this token")

// Ahead is the error that lines of a log were left out.
type Ahead struct{ Have int }

func (a *Ahead) Error() string { return fmt.Sprintf("the log has %d lines so far", a.Have) }

// Lines holds lines that a worker adds to the log of an attempt.
type Lines struct {
	Lease  job.Lease
	Offset int // the number of the first line; AtEnd: the next one
	Lines  []job.LogLine
}

// AtEnd is the offset of lines that are appended wherever the log ends.
const AtEnd = -1

// ledger caches the ends of the logs of running attempts, so that an append needs no read before it. If an entry is
// missing or wrong, the store's answer corrects it.
type ledger struct {
	mu    sync.Mutex
	heads map[job.Lease]job.LogHead // guarded by mu
}

// maxHeads limits the number of cached logs.
const maxHeads = 20_000

func (l *ledger) head(x job.Lease) job.LogHead {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heads[x]
}

func (l *ledger) keep(x job.Lease, h job.LogHead) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.heads == nil || len(l.heads) >= maxHeads {
		l.heads = map[job.Lease]job.LogHead{}
	}
	l.heads[x] = h
}

func (l *ledger) forget(ls []job.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.heads) == 0 {
		return
	}
	for _, x := range ls {
		delete(l.heads, x)
	}
}

// Log adds lines to the log of an attempt, and returns the log's new head. Lines that were added before are skipped.
// It returns ErrStale if the worker does not hold the lease, *Ahead if lines before them are missing.
func (d *Dispatcher) Log(ctx context.Context, w job.WorkerID, in Lines) (job.LogHead, error) {
	head, known := d.ledger.head(in.Lease), false
	lines, offset := in.Lines, in.Offset
	for misses := 0; ; {
		first := offset
		if first == AtEnd {
			first = head.Lines
		}
		a := engine.LogAppend{Lease: in.Lease, Worker: w, From: nowhere, To: head}
		var left []job.LogLine
		if first <= head.Lines && !head.Cut {
			var kept []job.LogLine
			if kept, a.To, left = head.Take(lines[min(len(lines), head.Lines-first):]); len(kept) > 0 {
				a.From, a.Data = head.Lines, engine.EncodeLog(kept)
			}
		}
		switch {
		case a.From != nowhere || !known:
		case first > head.Lines && !head.Cut:
			return head, &Ahead{head.Lines}
		default:
			return head, nil // everything is stored, or nothing more is kept
		}
		got, err := d.logs.call(ctx, a)
		if err != nil {
			return head, err
		}
		if !got.Held {
			d.ledger.forget([]job.Lease{in.Lease})
			return got.Head, ErrStale
		}
		head, known = got.Head, true
		d.ledger.keep(in.Lease, head)
		if !got.Stored {
			if misses++; misses > maxMisses {
				return head, fmt.Errorf("add to a log that others add to: %w", engine.ErrConflict)
			}
			continue
		}
		d.watchers.wake(in.Lease.Execution)
		if lines = left; len(lines) == 0 {
			return head, nil
		}
		if offset != AtEnd {
			offset = head.Lines
		}
	}
}

const (
	// nowhere is an offset at which no chunk begins: a chunk there is not stored, and the store's answer tells how
	// much of the log is stored.
	nowhere = -1
	// maxMisses limits how often lines are retried because others were added to the same log at the same time.
	maxMisses = 20
)

// watchers are notified when an execution has changed at this server.
type watchers struct {
	mu sync.Mutex
	of map[job.ExecutionID][]chan struct{} // guarded by mu
}

// Watch returns a channel that is signalled when lines of the execution's log, or its end, were stored through this
// server. It is a hint to look at once, which may be spurious. stop ends it.
func (d *Dispatcher) Watch(id job.ExecutionID) (changed <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	w := &d.watchers
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		w.of = map[job.ExecutionID][]chan struct{}{}
	}
	w.of[id] = append(w.of[id], c)
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.of[id] = slices.DeleteFunc(w.of[id], func(x chan struct{}) bool { return x == c })
		if len(w.of[id]) == 0 {
			delete(w.of, id)
		}
	}
}

func (w *watchers) wake(ids ...job.ExecutionID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.of) == 0 {
		return
	}
	for _, id := range ids {
		for _, c := range w.of[id] {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
}

// over drops the logs of leases that have ended, and notifies watchers.
func (d *Dispatcher) over(ls []job.Lease) {
	d.ledger.forget(ls)
	d.watchers.mu.Lock()
	watched := len(d.watchers.of) > 0
	d.watchers.mu.Unlock()
	if !watched {
		return
	}
	for _, l := range ls {
		d.watchers.wake(l.Execution)
	}
}
