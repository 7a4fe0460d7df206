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

// How many lanes are examined: each costs an index probe.
const (
	countLanes  = 5000 // lanes that are listed
	countAtOnce = 100  // lanes that are read at once

	loadLanes = 20_000 // lanes examined for the longest wait
)

// Waiting counts executions that are due and wait for a worker like this one, up to most, except those of paused
// queues.
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

// count calls f with due executions of the chosen lanes, up to a number from each, until f has enough.
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

// Load counts the work in a queue, and its workers.
type Load struct {
	Queue   string
	Waiting int // due, and not of a paused queue
	Paused  int // due, and of a paused queue
	Running int
	Slots   int       // of live workers that take more and serve the queue
	Oldest  time.Time // when the longest-waiting execution that a worker could take was due; zero: none waits
	Held    time.Time // likewise, of those that a pause holds
	Bands   [Bands]Depth
}

// Depth counts waiting and running executions in a priority band.
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

// wait adds n waiting executions of a priority.
func (l *Load) wait(priority, n int, paused bool) {
	if paused {
		l.Paused += n
		return
	}
	l.Waiting += n
	l.Bands[band(priority)].Waiting += n
}

// all returns the numbers of waiting and running executions.
func (l *Load) all() int { return l.Waiting + l.Paused + l.Running }

func (l *Load) run(priority int) {
	l.Running++
	l.Bands[band(priority)].Running++
}

// waited records that an execution due at an instant waits.
func (l *Load) waited(due time.Time, paused bool) {
	oldest := &l.Oldest
	if paused {
		oldest = &l.Held
	}
	if !due.IsZero() && (oldest.IsZero() || due.Before(*oldest)) {
		*oldest = due
	}
}

// add adds the counts of another load.
func (l *Load) add(o *Load) {
	l.Waiting, l.Paused, l.Running = l.Waiting+o.Waiting, l.Paused+o.Paused, l.Running+o.Running
	l.waited(o.Oldest, false)
	l.waited(o.Held, true)
}

// loads caches the last count, so that frequent callers cost little.
type loads struct {
	life context.Context // of counts: they outlast who asks, not the dispatcher
	end  context.CancelFunc
	wg   sync.WaitGroup // of the count that is under way

	mu       sync.Mutex
	counting chan struct{}      // guarded by mu: closed when the count that is under way ends; nil: there is none
	err      error              // guarded by mu: why the last attempt to count failed
	at       time.Time          // guarded by mu: when the last count was made
	until    time.Time          // guarded by mu: so long it is given again
	of       []Load             // guarded by mu; nil: nothing was counted yet
	all      Load               // guarded by mu
	each     map[tenant.ID]Load // guarded by mu: of those that have something to do

	queues  map[queueOf]Load // guarded by mu: of each tenant
	workers []job.Worker     // guarded by mu: live ones that take more work
}

// A count is given again for loadLife, or for loadRest times as long as it took: a sixth of one connection's time is spent
// on counting, however much waits. A million take about a second, or eight where they were just written.
const (
	loadLife = 2 * time.Second
	loadRest = 5

	loadKept     = time.Minute     // for which a count may still be given while the next one takes its time
	loadPatience = 2 * time.Second // for which callers wait for that one first
	loadTime     = time.Minute     // that a count may take

	loadAhead = time.Minute // a count that was made so long after now was made before the clock was set back
)

// young reports whether the last count was to be replaced less than a time ago. The caller holds mu.
func (l *loads) young(now time.Time, by time.Duration) bool {
	return l.of != nil && now.Before(l.until.Add(by)) && now.Sub(l.at) > -loadAhead
}

// close ends the count that is under way, and waits for its end.
func (l *loads) close() {
	l.mu.Lock()
	l.end()
	l.mu.Unlock()
	l.wg.Wait()
}

// Loads says how much there is to do in each queue, over all tenants, in order of their names, and in all. All of it is
// counted, however long a caller waits: while it is counted again, callers get the count before, the first of them after a moment.
func (d *Dispatcher) Loads(ctx context.Context) ([]Load, Load, error) {
	l := &d.loads
	l.mu.Lock()
	defer l.mu.Unlock()
	now := d.clock.Now()
	if l.young(now, 0) {
		return l.of, l.all, nil
	}
	kept := l.young(now, loadKept)
	switch {
	case l.counting != nil && kept:
		return l.of, l.all, nil
	case l.counting == nil && l.life.Err() != nil:
		return nil, Load{}, ErrStopped
	case l.counting == nil:
		l.counting = make(chan struct{})
		l.wg.Go(d.recount)
	}
	counted := l.counting
	l.mu.Unlock()
	var late <-chan time.Time
	if kept {
		t := time.NewTimer(loadPatience)
		defer t.Stop()
		late = t.C
	}
	ended := false
	select {
	case <-counted:
		ended = true
	case <-late:
	case <-ctx.Done():
	}
	l.mu.Lock()
	switch {
	case ended && l.err != nil:
		return nil, Load{}, l.err
	case ended, kept:
		return l.of, l.all, nil
	}
	return nil, Load{}, ctx.Err()
}

// recount counts anew.
func (d *Dispatcher) recount() {
	l := &d.loads
	ctx, cancel := context.WithTimeout(l.life, loadTime)
	defer cancel()
	c, err := d.countLoads(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err = err; err == nil {
		then := d.clock.Now()
		l.of, l.all, l.each, l.queues, l.workers = c.of, c.all, c.each, c.queues, c.workers
		l.at, l.until = then, then.Add(max(loadLife, loadRest*then.Sub(c.begun)))
	}
	close(l.counting)
	l.counting = nil
}

// counted is a count of loads.
type counted struct {
	begun   time.Time
	of      []Load
	all     Load
	each    map[tenant.ID]Load
	queues  map[queueOf]Load
	workers []job.Worker
}

func (d *Dispatcher) countLoads(ctx context.Context) (counted, error) {
	c := counted{begun: d.clock.Now()}
	t, err := d.tally(ctx)
	if err != nil {
		return c, err
	}
	t.tenants[tenant.Default] = true
	workers := map[job.WorkerID]job.Worker{}
	for id := range t.tenants {
		ws, err := d.store.Workers(ctx, id)
		if err != nil {
			return c, err
		}
		for _, w := range ws {
			if w.State(c.begun).Takes() {
				workers[w.ID] = w
			}
		}
	}
	c.of, c.workers = make([]Load, 0, len(t.queues)), slices.Collect(maps.Values(workers))
	for _, w := range workers {
		c.all.Slots += w.Capacity
	}
	for _, q := range slices.Sorted(maps.Keys(t.queues)) {
		l := t.queues[q]
		for _, w := range workers {
			if len(w.Queues) == 0 || slices.Contains(w.Queues, q) {
				l.Slots += w.Capacity
			}
		}
		c.all.add(l)
		for i, b := range l.Bands {
			c.all.Bands[i].Waiting, c.all.Bands[i].Running = c.all.Bands[i].Waiting+b.Waiting, c.all.Bands[i].Running+b.Running
		}
		c.of = append(c.of, *l)
	}
	c.each, c.queues = map[tenant.ID]Load{}, make(map[queueOf]Load, len(t.each))
	for k, l := range t.each {
		x := c.each[k.tenant]
		x.add(l)
		c.each[k.tenant], c.queues[k] = x, *l
	}
	return c, nil
}

// LoadOf returns the load of a tenant, as of the last count.
func (d *Dispatcher) LoadOf(ctx context.Context, of tenant.ID) (Load, error) {
	if _, _, err := d.Loads(ctx); err != nil {
		return Load{}, err
	}
	d.loads.mu.Lock()
	defer d.loads.mu.Unlock()
	return d.loads.each[of], nil
}

// QueuesOf returns the load of each queue of a tenant that has work, and of the named ones, as of the last count, in
// order of their names.
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

// mostQueues limits how many queues of a tenant are distinguished.
const mostQueues = 20

// Depths returns the waiting and running executions of each tenant with work, and of all, by queue, as of the last
// count.
func (d *Dispatcher) Depths(ctx context.Context) ([]engine.TenantDepths, error) {
	all, _, err := d.Loads(ctx)
	if err != nil {
		return nil, err
	}
	now := d.clock.Now()
	by := map[tenant.ID][]Load{"": slices.Clone(all)}
	d.loads.mu.Lock()
	for k, l := range d.loads.queues {
		by[k.tenant] = append(by[k.tenant], l)
	}
	d.loads.mu.Unlock()
	var out []engine.TenantDepths
	for of, ls := range by {
		ls = slices.DeleteFunc(ls, func(l Load) bool { return l.all() == 0 })
		slices.SortFunc(ls, func(a, b Load) int {
			return cmp.Or(cmp.Compare(b.all(), a.all()), cmp.Compare(a.Queue, b.Queue))
		})
		x := engine.TenantDepths{Tenant: of}
		for i, l := range ls {
			q := engine.QueueDepth{Queue: l.Queue, Waiting: int64(l.Waiting + l.Paused), Running: int64(l.Running)}
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
		}
		out = append(out, x)
	}
	return out, nil
}

// tally counts the work in each queue.
func (d *Dispatcher) tally(ctx context.Context) (*tally, error) {
	ls, err := d.store.Limits(ctx, "")
	if err != nil {
		return nil, err
	}
	t := &tally{d: d, now: d.clock.Now(), pauses: pausesIn(ls), queues: map[string]*Load{}, each: map[queueOf]*Load{}, tenants: map[tenant.ID]bool{}}
	t.of("")
	due, err := d.store.CountDue(ctx)
	if err != nil {
		return nil, err
	}
	running, err := d.store.Running(ctx, nil)
	if err != nil {
		return nil, err
	}
	runs := map[engine.DueKey]int{}
	for _, r := range running {
		t.of(r.Class).run(r.Priority)
		t.its(r.Tenant, r.Class).run(r.Priority)
		t.tenants[r.Tenant] = true
		runs[engine.DueKey{Tenant: r.Tenant, Class: r.Class, Priority: r.Priority}]++
	}
	for k, n := range due {
		if n -= runs[k]; n > 0 { // subtract what has started since it was counted as due
			t.wait(k, n)
			t.tenants[k.Tenant] = true
		}
	}
	return t, t.oldest(ctx)
}

// tally counts the work in each queue.
type tally struct {
	d       *Dispatcher
	now     time.Time
	pauses  pauses
	queues  map[string]*Load
	each    map[queueOf]*Load  // of each tenant
	tenants map[tenant.ID]bool // that have something to do
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

// wait adds n waiting executions.
func (t *tally) wait(k engine.DueKey, n int) {
	paused := t.pauses.hold(k.Tenant, k.Class, t.now)
	t.of(k.Class).wait(k.Priority, n, paused)
	t.its(k.Tenant, k.Class).wait(k.Priority, n, paused)
}

// oldest examines the first waiting execution of each lane, up to loadLanes of them.
func (t *tally) oldest(ctx context.Context) error {
	var after *job.Lane
	for seen := 0; seen < loadLanes; {
		lanes, err := t.d.store.Lanes(ctx, after, sweepLanes)
		if err != nil {
			return err
		}
		for some := range slices.Chunk(lanes, countAtOnce) {
			heads := make([]engine.LaneCursor, len(some))
			for i, l := range some {
				heads[i].Lane = l
			}
			rs, err := t.d.store.Ready(ctx, heads, 1)
			if err != nil {
				return err
			}
			for _, r := range rs {
				paused := t.pauses.hold(r.Tenant, r.Class, t.now)
				t.of(r.Class).waited(r.DueAt, paused)
				t.its(r.Tenant, r.Class).waited(r.DueAt, paused)
			}
		}
		if len(lanes) < sweepLanes {
			return nil
		}
		seen += len(lanes)
		after = &lanes[len(lanes)-1]
	}
	return nil
}
