package dispatch

import (
	"cmp"
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
	countEach   = 200  // executions that are counted of each lane at first

	loadLanes  = 20_000 // lanes that are listed for the loads of all queues
	maxWaiting = 10_000 // executions that are counted of each queue, at the least
	ownWaiting = 1000   // that are counted of each tenant in it, however many others wait
)

// Waiting counts executions that are due and wait for a worker like this one, up to most; not those of paused queues.
func (d *Dispatcher) Waiting(ctx context.Context, id job.WorkerID, most int) (int, error) {
	w, err := d.Worker(ctx, id)
	if err != nil {
		return 0, err
	}
	n, now := 0, d.clock.Now()
	err = d.count(ctx, most, func(l job.Lane) bool {
		return w.Serves(l.Tenant, l.Class) && !d.paused(l, now)
	}, func(job.Ready) bool {
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
	Waiting int  // due, and not of a paused queue
	Paused  int  // due, and of a paused queue
	Cut     bool // more wait, or may: not all was counted
	Running int
	Slots   int       // of workers that live and take more, and serve the queue
	Oldest  time.Time // when what has waited the longest was due, of what a worker could take; zero: nothing waits
	Held    time.Time // likewise, of what a pause holds
	Bands   [Bands]Depth
}

// Depth is what waits and runs in a band of priorities.
type Depth struct{ Waiting, Running int }

// The bands of priorities: 1 to 3, 4 to 7, 8 to 10.
const (
	High = iota
	Normal
	Low
	Bands
)

func band(priority int) int {
	switch {
	case priority <= 3:
		return High
	case priority <= 7:
		return Normal
	}
	return Low
}

// wait adds so many that wait at a priority.
func (l *Load) wait(priority, n int, paused bool) {
	if paused {
		l.Paused += n
		return
	}
	l.Waiting += n
	l.Bands[band(priority)].Waiting += n
}

// all is what waits and what runs.
func (l *Load) all() int { return l.Waiting + l.Paused + l.Running }

func (l *Load) run(priority int) {
	l.Running++
	l.Bands[band(priority)].Running++
}

// counted is how far what waits was counted, of paused queues or of others.
func (l *Load) counted(paused bool) int {
	if paused {
		return l.Paused
	}
	return l.Waiting
}

// waited notes that something waits that was due at an instant.
func (l *Load) waited(due time.Time, paused bool) {
	oldest := &l.Oldest
	if paused {
		oldest = &l.Held
	}
	if !due.IsZero() && (oldest.IsZero() || due.Before(*oldest)) {
		*oldest = due
	}
}

// add takes in what there is to do elsewhere.
func (l *Load) add(o *Load) {
	l.Waiting, l.Paused, l.Running = l.Waiting+o.Waiting, l.Paused+o.Paused, l.Running+o.Running
	l.waited(o.Oldest, false)
	l.waited(o.Held, true)
	l.Cut = l.Cut || o.Cut
}

// loads remembers the last count, so that asking often costs little.
type loads struct {
	mu    sync.Mutex
	until time.Time          // guarded by mu: so long it is given again
	of    []Load             // guarded by mu
	all   Load               // guarded by mu
	each  map[tenant.ID]Load // guarded by mu: of those that have something to do
	more  bool               // guarded by mu: of each there may be more

	queues  map[queueOf]Load // guarded by mu: of each tenant
	workers []job.Worker     // guarded by mu: that live and take more
}

// loadLife is how long a count is given again, at the least; one that took long is given again for ten times as long.
const loadLife = 2 * time.Second

// Loads says how much there is to do in each queue, over all tenants, in order of their names, and in all.
func (d *Dispatcher) Loads(ctx context.Context) ([]Load, Load, error) {
	d.loads.mu.Lock()
	defer d.loads.mu.Unlock()
	now := d.clock.Now()
	if d.loads.of != nil && now.Before(d.loads.until) {
		return d.loads.of, d.loads.all, nil
	}
	t, err := d.tally(ctx)
	if err != nil {
		return nil, Load{}, err
	}
	t.tenants[tenant.Default] = true
	workers := map[job.WorkerID]job.Worker{}
	for id := range t.tenants {
		ws, err := d.store.Workers(ctx, id)
		if err != nil {
			return nil, Load{}, err
		}
		for _, w := range ws {
			if w.State(now).Takes() {
				workers[w.ID] = w
			}
		}
	}
	of, all := make([]Load, 0, len(t.queues)), Load{}
	for _, w := range workers {
		all.Slots += w.Capacity
	}
	for _, q := range slices.Sorted(maps.Keys(t.queues)) {
		l := t.queues[q]
		l.Cut = l.Cut || t.more
		for _, w := range workers {
			if len(w.Queues) == 0 || slices.Contains(w.Queues, q) {
				l.Slots += w.Capacity
			}
		}
		all.add(l)
		for i, b := range l.Bands {
			all.Bands[i].Waiting, all.Bands[i].Running = all.Bands[i].Waiting+b.Waiting, all.Bands[i].Running+b.Running
		}
		of = append(of, *l)
	}
	each, queues := map[tenant.ID]Load{}, make(map[queueOf]Load, len(t.each))
	for k, l := range t.each {
		x := each[k.tenant]
		x.add(l)
		each[k.tenant], queues[k] = x, *l
	}
	then := d.clock.Now()
	d.loads.each, d.loads.queues, d.loads.workers, d.loads.more = each, queues, slices.Collect(maps.Values(workers)), t.more
	d.loads.of, d.loads.all, d.loads.until = of, all, then.Add(max(loadLife, 10*then.Sub(now)))
	return of, all, nil
}

// LoadOf says how much there is to do of a tenant's, as it was counted last.
func (d *Dispatcher) LoadOf(ctx context.Context, of tenant.ID) (Load, error) {
	if _, _, err := d.Loads(ctx); err != nil {
		return Load{}, err
	}
	d.loads.mu.Lock()
	defer d.loads.mu.Unlock()
	l := d.loads.each[of]
	l.Cut = l.Cut || d.loads.more
	return l, nil
}

// QueuesOf says how much there is to do in each queue of a tenant that has something to do, and in those that are named, as
// it was counted last, in order of their names.
func (d *Dispatcher) QueuesOf(ctx context.Context, of tenant.ID, named ...string) ([]Load, error) {
	if _, _, err := d.Loads(ctx); err != nil {
		return nil, err
	}
	d.loads.mu.Lock()
	defer d.loads.mu.Unlock()
	by := map[string]Load{}
	for _, q := range named {
		by[q] = Load{Queue: q}
	}
	for k, l := range d.loads.queues {
		if k.tenant == of {
			by[k.queue] = l
		}
	}
	out := make([]Load, 0, len(by))
	for _, q := range slices.Sorted(maps.Keys(by)) {
		l := by[q]
		for _, w := range d.loads.workers {
			if (w.Tenant == "" || w.Tenant == of) && (len(w.Queues) == 0 || slices.Contains(w.Queues, q)) {
				l.Slots += w.Capacity
			}
		}
		out = append(out, l)
	}
	return out, nil
}

// mostQueues is how many queues of a tenant are told apart.
const mostQueues = 20

// Depths says how much waits and runs of each tenant that has something to do, and of all, in each queue.
func (d *Dispatcher) Depths(ctx context.Context) ([]engine.TenantDepths, error) {
	t, err := d.tally(ctx)
	if err != nil {
		return nil, err
	}
	now := d.clock.Now()
	by := map[tenant.ID][]*Load{}
	for _, l := range t.queues {
		by[""] = append(by[""], l)
	}
	for k, l := range t.each {
		by[k.tenant] = append(by[k.tenant], l)
	}
	var out []engine.TenantDepths
	for of, ls := range by {
		ls = slices.DeleteFunc(ls, func(l *Load) bool { return l.all() == 0 })
		slices.SortFunc(ls, func(a, b *Load) int {
			return cmp.Or(cmp.Compare(b.all(), a.all()), cmp.Compare(a.Queue, b.Queue))
		})
		x := engine.TenantDepths{Tenant: of}
		for i, l := range ls {
			q := engine.QueueDepth{Queue: l.Queue, Waiting: int64(l.Waiting + l.Paused), Cut: l.Cut || t.more, Running: int64(l.Running)}
			l.waited(l.Held, false)
			if !l.Oldest.IsZero() {
				q.Oldest = max(time.Microsecond, now.Sub(l.Oldest))
			}
			if i < mostQueues {
				x.Queues = append(x.Queues, q)
				continue
			}
			rest := &x.Queues[mostQueues-1]
			rest.Queue, rest.Waiting, rest.Running, rest.Oldest = engine.OtherQueues, rest.Waiting+q.Waiting, rest.Running+q.Running, max(rest.Oldest, q.Oldest)
			rest.Cut = rest.Cut || q.Cut
		}
		out = append(out, x)
	}
	return out, nil
}

// tally counts what there is to do in each queue.
func (d *Dispatcher) tally(ctx context.Context) (*tally, error) {
	ls, err := d.store.Limits(ctx, "")
	if err != nil {
		return nil, err
	}
	t := &tally{d: d, now: d.clock.Now(), pauses: pausesIn(ls), queues: map[string]*Load{}, each: map[queueOf]*Load{}, tenants: map[tenant.ID]bool{}}
	t.of("")
	if err := t.waiting(ctx); err != nil {
		return nil, err
	}
	running, err := d.store.Running(ctx, nil)
	if err != nil {
		return nil, err
	}
	for _, r := range running {
		t.of(r.Class).run(r.Priority)
		t.its(r.Tenant, r.Class).run(r.Priority)
		t.tenants[r.Tenant] = true
	}
	return t, nil
}

// tally counts what there is to do in each queue.
type tally struct {
	d       *Dispatcher
	now     time.Time
	pauses  pauses
	queues  map[string]*Load
	each    map[queueOf]*Load  // of each tenant
	tenants map[tenant.ID]bool // that have something to do
	more    bool               // there are lanes that were not looked at
}

// queueOf is a queue of a tenant.
type queueOf struct {
	tenant tenant.ID
	queue  string
}

func (t *tally) its(of tenant.ID, c job.Class) *Load {
	k := queueOf{of, c.Needs().Queue}
	if t.each[k] == nil {
		t.each[k] = &Load{Queue: k.queue}
	}
	return t.each[k]
}

func (t *tally) of(c job.Class) *Load {
	q := c.Needs().Queue
	if t.queues[q] == nil {
		t.queues[q] = &Load{Queue: q}
	}
	return t.queues[q]
}

// room is how many more are counted of a lane: until its queue has enough, and so has its tenant in that. Where there is none
// the counts are too low from then on.
func (t *tally) room(l job.Lane) int {
	paused := t.paused(l)
	n := max(maxWaiting-t.of(l.Class).counted(paused), ownWaiting-t.its(l.Tenant, l.Class).counted(paused), 0)
	if n == 0 {
		t.cut(l)
	}
	return n
}

// cut notes that more waits in a lane than was counted, or may.
func (t *tally) cut(l job.Lane) { t.of(l.Class).Cut, t.its(l.Tenant, l.Class).Cut = true, true }

// waiting counts what is due and waits: a little of every lane, and then more of the lanes that have more, until there is no
// room.
func (t *tally) waiting(ctx context.Context) error {
	var some, deep []job.Lane
	count := func() error {
		ns, err := t.d.store.CountReady(ctx, some, countEach)
		if err != nil {
			return err
		}
		var heads []engine.LaneCursor
		for i, n := range ns {
			if n > 0 {
				t.wait(some[i], n)
				t.tenants[some[i].Tenant] = true
				heads = append(heads, engine.LaneCursor{Lane: some[i]})
			}
			if n == countEach {
				deep = append(deep, some[i])
			}
		}
		some = some[:0]
		return t.oldest(ctx, heads)
	}
	var after *job.Lane
	for seen := 0; !t.more; {
		lanes, err := t.d.store.Lanes(ctx, after, sweepLanes)
		if err != nil {
			return err
		}
		for _, l := range lanes {
			if t.room(l) == 0 {
				continue
			}
			if some = append(some, l); len(some) == countAtOnce {
				if err := count(); err != nil {
					return err
				}
			}
		}
		if len(lanes) < sweepLanes {
			break
		}
		seen += len(lanes)
		after, t.more = &lanes[len(lanes)-1], seen >= loadLanes
	}
	if err := count(); err != nil {
		return err
	}
	for _, l := range deep {
		room := t.room(l)
		if room == 0 {
			continue
		}
		ns, err := t.d.store.CountReady(ctx, []job.Lane{l}, countEach+room)
		if err != nil {
			return err
		}
		more := max(0, ns[0]-countEach) // it may have become less
		t.wait(l, more)
		if more == room {
			t.cut(l)
		}
	}
	return nil
}

// paused reports whether the queue of a lane is paused.
func (t *tally) paused(l job.Lane) bool { return t.pauses.hold(l.Tenant, l.Class, t.now) }

// wait adds so many that wait in a lane.
func (t *tally) wait(l job.Lane, n int) {
	paused := t.paused(l)
	t.of(l.Class).wait(l.Priority, n, paused)
	t.its(l.Tenant, l.Class).wait(l.Priority, n, paused)
}

// oldest looks at the first that waits of each lane.
func (t *tally) oldest(ctx context.Context, heads []engine.LaneCursor) error {
	if len(heads) == 0 {
		return nil
	}
	rs, err := t.d.store.Ready(ctx, heads, 1)
	for _, r := range rs {
		paused := t.pauses.hold(r.Tenant, r.Class, t.now)
		t.of(r.Class).waited(r.DueAt, paused)
		t.its(r.Tenant, r.Class).waited(r.DueAt, paused)
	}
	return err
}
