package dispatch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// How far what waits is counted: it costs a probe of the index for each lane, and a row for each that is counted.
const (
	countLanes  = 5000 // lanes that are listed
	countAtOnce = 100  // lanes that are read at once
	countEach   = 200  // executions that are counted of each lane
)

// Waiting counts executions that are due and wait for a worker like this one, up to most.
func (d *Dispatcher) Waiting(ctx context.Context, id job.WorkerID, most int) (int, error) {
	w, err := d.Worker(ctx, id)
	if err != nil {
		return 0, err
	}
	n := 0
	err = d.count(ctx, most, func(l job.Lane) bool { return (w.Tenant == "" || w.Tenant == l.Tenant) && w.Serves(l.Class) }, func(job.Ready) bool {
		n++
		return n < most
	})
	return n, err
}

// count calls f with executions that are due and wait, of the lanes that are chosen, up to so many of each, until it has enough.
func (d *Dispatcher) count(ctx context.Context, perLane int, choose func(job.Lane) bool, f func(job.Ready) (more bool)) error {
	var cs []engine.LaneCursor
	read := func() (more bool, err error) {
		if len(cs) == 0 {
			return true, nil
		}
		rs, err := d.store.Ready(ctx, cs, perLane)
		if err != nil {
			return false, err
		}
		cs = cs[:0]
		for _, r := range rs {
			if !f(r) {
				return false, nil
			}
		}
		return true, nil
	}
	var after *job.Lane
	for seen := 0; seen < countLanes; {
		lanes, err := d.store.Lanes(ctx, after, sweepLanes)
		if err != nil {
			return err
		}
		for _, l := range lanes {
			if !choose(l) {
				continue
			}
			if cs = append(cs, engine.LaneCursor{Lane: l}); len(cs) < countAtOnce {
				continue
			}
			if more, err := read(); err != nil || !more {
				return err
			}
		}
		if len(lanes) < sweepLanes {
			break
		}
		seen += len(lanes)
		after = &lanes[len(lanes)-1]
	}
	_, err := read()
	return err
}

// Load is how much there is to do in a queue, and who does it.
type Load struct {
	Queue   string
	Waiting int // due; counted so far that a scale can follow it
	Running int
	Slots   int // of workers that live and take more, and serve the queue
}

// loads remembers the last count, so that asking often costs little.
type loads struct {
	mu sync.Mutex
	at time.Time // guarded by mu
	of []Load    // guarded by mu
}

// loadLife is how long a count is given again.
const loadLife = 2 * time.Second

// Loads says how much there is to do in each queue, over all tenants, in order of their names.
func (d *Dispatcher) Loads(ctx context.Context) ([]Load, error) {
	d.loads.mu.Lock()
	defer d.loads.mu.Unlock()
	now := d.clock.Now()
	if d.loads.of != nil && now.Sub(d.loads.at) < loadLife {
		return d.loads.of, nil
	}
	queues := map[string]*Load{}
	of := func(c job.Class) *Load {
		q := c.Needs().Queue
		if queues[q] == nil {
			queues[q] = &Load{Queue: q}
		}
		return queues[q]
	}
	of("")
	tenants := map[tenant.ID]bool{tenant.Default: true}
	err := d.count(ctx, countEach, func(job.Lane) bool { return true }, func(r job.Ready) bool {
		of(r.Class).Waiting++
		tenants[r.Tenant] = true
		return true
	})
	if err != nil {
		return nil, err
	}
	running, err := d.store.Running(ctx, nil)
	if err != nil {
		return nil, err
	}
	for _, r := range running {
		of(r.Class).Running++
		tenants[r.Tenant] = true
	}
	workers := map[job.WorkerID]job.Worker{}
	for t := range tenants {
		ws, err := d.store.Workers(ctx, t)
		if err != nil {
			return nil, err
		}
		for _, w := range ws {
			if s := w.State(now); s != job.WorkerDead && s != job.WorkerDraining {
				workers[w.ID] = w
			}
		}
	}
	d.loads.of = make([]Load, 0, len(queues))
	for _, q := range slices.Sorted(maps.Keys(queues)) {
		l := queues[q]
		for _, w := range workers {
			if len(w.Queues) == 0 || slices.Contains(w.Queues, q) {
				l.Slots += w.Capacity
			}
		}
		d.loads.of = append(d.loads.of, *l)
	}
	d.loads.at = now
	return d.loads.of, nil
}
