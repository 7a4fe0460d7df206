package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// pauses holds the paused queues.
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

// hold reports whether the queue of a tenant's class is paused at an instant.
func (p pauses) hold(t tenant.ID, c job.Class, now time.Time) bool {
	return len(p) > 0 && p[queueOf{t, c.Needs().Queue}].Holds(now)
}

// Head lists up to n executions of a tenant's queue that are due and wait, in the order in which they should start.
func (d *Dispatcher) Head(ctx context.Context, of tenant.ID, queue string, n int) (out []job.Ready, err error) {
	err = d.count(ctx, n, func(l job.Lane) bool { return l.Tenant == of && l.Class.Needs().Queue == queue }, func(r job.Ready) bool {
		out = append(out, r)
		if len(out) >= 100*n { // with very many lanes, drop those that come later
			out = first(out, n)
		}
		return true
	})
	return first(out, n), err
}

// first sorts executions by when they should start, and keeps n.
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

// keepPauses records which queues are paused, for those who count what waits.
func (d *Dispatcher) keepPauses(ls []job.Limit) {
	p := pausesIn(ls)
	d.pauses.Store(&p)
}

// paused reports whether the queue of a lane was paused when limits were last read.
func (d *Dispatcher) paused(l job.Lane, now time.Time) bool {
	p := d.pauses.Load()
	return p != nil && p.hold(l.Tenant, l.Class, now)
}
