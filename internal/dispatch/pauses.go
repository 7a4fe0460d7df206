package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// pauses are the queues that are paused.
type pauses map[queueOf]job.Pause

func pausesIn(ls []job.Limit) pauses {
	out := pauses{}
	for _, l := range ls {
		if !l.Pause.IsZero() {
			out[queueOf{l.Tenant, l.Queue}] = l.Pause
		}
	}
	return out
}

// hold reports whether a tenant's class is of a queue that is paused at an instant.
func (p pauses) hold(t tenant.ID, c job.Class, now time.Time) bool {
	return len(p) > 0 && p[queueOf{t, c.Needs().Queue}].Holds(now)
}

// Head lists the executions of a tenant's queue that are due and wait, up to n, in the order in which they are to start.
func (d *Dispatcher) Head(ctx context.Context, of tenant.ID, queue string, n int) (out []job.Ready, err error) {
	err = d.count(ctx, n, func(l job.Lane) bool { return l.Tenant == of && l.Class.Needs().Queue == queue }, func(r job.Ready) bool {
		out = append(out, r)
		if len(out) >= 100*n { // of very many lanes those that are behind are let go
			out = first(out, n)
		}
		return true
	})
	return first(out, n), err
}

// first sorts executions by when they are to start, and keeps n.
func first(rs []job.Ready, n int) []job.Ready {
	slices.SortFunc(rs, func(a, b job.Ready) int {
		switch {
		case a.Before(b):
			return -1
		case b.Before(a):
			return 1
		}
		return 0
	})
	return rs[:min(n, len(rs))]
}

// keepPauses notes which queues are paused, for those who count what waits.
func (d *Dispatcher) keepPauses(ls []job.Limit) {
	p := pausesIn(ls)
	d.pauses.Store(&p)
}

// paused reports whether the queue of a lane was paused when limits were last read.
func (d *Dispatcher) paused(l job.Lane, now time.Time) bool {
	p := d.pauses.Load()
	return p != nil && p.hold(l.Tenant, l.Class, now)
}
