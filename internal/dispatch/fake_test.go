package dispatch

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// others are methods of the port that no dispatcher calls.
type others interface {
	CreateTenant(ctx context.Context, t tenant.Tenant) error
	UpdateTenant(ctx context.Context, t tenant.Tenant) error
	SetLimit(ctx context.Context, l job.Limit) error
}

// fakeStore is a queue in memory, with one lock in place of a database.
type fakeStore struct {
	engine.Hot // what a test does not expect panics
	others
	now func() time.Time

	mu        sync.Mutex
	free      map[job.ExecutionID]job.Ready
	held      map[job.Lease]job.Ready
	tries     map[job.ExecutionID]int
	done      map[job.ExecutionID]int
	token     job.Token
	leases    int   // commits
	reads     int   // Ready calls
	failWith  error // of the next Lease, after it has happened
	failDraws int   // of the next draws
	ended     bool
	beats     []engine.Renewal
	limits    []job.Limit
	tenants   []tenant.Tenant
	buckets   map[string]time.Time // when each is full
	draws     int
	given     map[job.Lease]time.Time
	disowned  []time.Time // what Disown was told
	drain     bool
	orders    []job.Order
	cordoned  []job.WorkerID
	panicAt   int // the lease that panics
	away      bool
	slow      map[int]chan struct{} // the n-th lease is answered when its channel closes
	open      bool                  // and committed no earlier
}

func newFake(now func() time.Time) *fakeStore {
	return &fakeStore{now: now, free: map[job.ExecutionID]job.Ready{}, held: map[job.Lease]job.Ready{}, tries: map[job.ExecutionID]int{}, done: map[job.ExecutionID]int{}, buckets: map[string]time.Time{}, given: map[job.Lease]time.Time{}}
}

func (f *fakeStore) add(rs ...job.Ready) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range rs {
		f.free[r.ID] = r
	}
}

func (f *fakeStore) Register(context.Context, job.Worker, time.Duration) error { return nil }

// everything is what a worker of the tests serves.
var everything = []string{"", "http", "worker", "simulate"}

func (f *fakeStore) Worker(_ context.Context, id job.WorkerID) (job.Worker, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return job.Worker{ID: id, Ended: true}, nil
	}
	return job.Worker{ID: id, Targets: everything}, nil
}

func (f *fakeStore) Renew(_ context.Context, rs []engine.Renewal, _ time.Duration) (engine.Orders, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beats = append(f.beats, rs...)
	if f.ended {
		return engine.Orders{Ended: []job.WorkerID{rs[0].Worker}}, nil
	}
	out := engine.Orders{Orders: f.orders}
	if f.drain {
		out.Drain = []job.WorkerID{rs[0].Worker}
	}
	return out, nil
}

func (f *fakeStore) Lanes(_ context.Context, after *job.Lane, limit int) ([]job.Lane, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := map[job.Lane]bool{}
	var out []job.Lane
	for _, r := range f.free {
		if !seen[r.Lane()] {
			seen[r.Lane()] = true
			out = append(out, r.Lane())
		}
	}
	slices.SortFunc(out, compareLanes)
	if after != nil {
		out = slices.DeleteFunc(out, func(l job.Lane) bool { return compareLanes(l, *after) <= 0 })
	}
	return out[:min(limit, len(out))], nil
}

func (f *fakeStore) Unpack(_ context.Context, ids []job.ExecutionID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		if r, ok := f.free[id]; ok {
			r.Packed = false
			f.free[id] = r
		}
	}
	return nil
}

func (f *fakeStore) Tenants(context.Context) ([]tenant.Tenant, error) { return f.tenants, nil }

func (f *fakeStore) Limits(context.Context, tenant.ID) ([]job.Limit, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.limits, nil
}

func (f *fakeStore) Cordoned(context.Context) ([]job.WorkerID, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.cordoned), nil
}

func (f *fakeStore) Draw(_ context.Context, ds []engine.Draw) ([]engine.Drawn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.draws++
	if f.failDraws > 0 {
		f.failDraws--
		return nil, engine.ErrUnavailable
	}
	out := make([]engine.Drawn, len(ds))
	for i, d := range ds {
		now, step := f.now(), d.Rate.Interval()
		full := f.buckets[d.Bucket]
		if full.Before(now) {
			full = now
		}
		n := min(d.N, int(now.Add(time.Duration(d.Rate.Burst)*step).Sub(full)/step))
		full = full.Add(time.Duration(n) * step)
		f.buckets[d.Bucket] = full
		out[i] = engine.Drawn{N: n, Wait: max(0, full.Sub(now)-time.Duration(d.Rate.Burst-1)*step)}
	}
	return out, nil
}

func (f *fakeStore) Running(context.Context, []job.Partition) ([]engine.Running, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []engine.Running
	for l, r := range f.held {
		out = append(out, engine.Running{Ready: r, Token: l.Token})
	}
	return out, nil
}

func (f *fakeStore) CountDue(context.Context) (map[engine.DueKey]int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[engine.DueKey]int{}
	count := func(r job.Ready) {
		if !r.DueAt.After(f.now()) {
			out[engine.DueKey{Tenant: r.Tenant, Class: r.Class, Priority: r.Priority}]++
		}
	}
	for _, r := range f.free {
		count(r)
	}
	for _, r := range f.held {
		count(r)
	}
	return out, nil
}

func (f *fakeStore) Ready(_ context.Context, cs []engine.LaneCursor, perLane int) ([]job.Ready, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	now := f.now()
	var out []job.Ready
	for _, c := range cs {
		var lane []job.Ready
		for _, r := range f.free {
			behind := r.DueAt.After(c.DueAt) || r.DueAt.Equal(c.DueAt) && string(r.ID[:]) > string(c.After[:])
			if r.Lane() == c.Lane && behind && !r.DueAt.After(now) {
				lane = append(lane, r)
			}
		}
		slices.SortFunc(lane, func(a, b job.Ready) int {
			if d := a.DueAt.Compare(b.DueAt); d != 0 {
				return d
			}
			return slices.Compare(a.ID[:], b.ID[:])
		})
		out = append(out, lane[:min(len(lane), perLane)]...)
	}
	return out, nil
}

func (f *fakeStore) Lease(_ context.Context, gs []engine.Grant, _ engine.Fence) ([]job.Attempt, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return nil, engine.ErrSession
	}
	f.leases++
	if f.leases == f.panicAt {
		panic("as the test asked")
	}
	if f.away {
		return nil, engine.ErrUnavailable
	}
	if slow := f.slow[f.leases]; slow != nil {
		wait := func() {
			f.mu.Unlock()
			<-slow
			f.mu.Lock()
		}
		if f.open {
			wait()
		} else {
			defer wait()
		}
	}
	var out []job.Attempt
	for _, g := range gs {
		f.token++
		for _, id := range g.Executions {
			r, ok := f.free[id]
			if !ok || r.DueAt.After(f.now()) {
				continue
			}
			delete(f.free, id)
			l := job.Lease{Execution: id, Token: f.token}
			f.held[l], f.given[l] = r, f.now()
			out = append(out, job.Attempt{Lease: l, LeasedAt: f.now()})
		}
	}
	if err := f.failWith; err != nil {
		f.failWith = nil
		return nil, err
	}
	return out, nil
}

func (f *fakeStore) Disown(_ context.Context, _ job.WorkerID, keep []job.Token, before time.Time) (engine.Requeued, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.disowned = append(f.disowned, before)
	var out engine.Requeued
	for l, r := range f.held {
		if !slices.Contains(keep, l.Token) && (before.IsZero() || f.given[l].Before(before)) {
			delete(f.held, l)
			f.free[r.ID] = r
			out.Ready = append(out.Ready, r)
		}
	}
	return out, nil
}

func (f *fakeStore) Release(_ context.Context, _ job.WorkerID, ls []job.Lease) (engine.Requeued, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out engine.Requeued
	for _, l := range ls {
		if r, ok := f.held[l]; ok {
			delete(f.held, l)
			f.free[r.ID] = r
			out.Ready = append(out.Ready, r)
		}
	}
	return out, nil
}

func (f *fakeStore) Leave(ctx context.Context, w job.WorkerID) (engine.Requeued, error) {
	return f.Disown(ctx, w, nil, time.Time{})
}

func (f *fakeStore) Held(_ context.Context, ls []job.Lease) ([]job.Held, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []job.Held
	for _, l := range ls {
		if r, ok := f.held[l]; ok {
			out = append(out, job.Held{
				Execution: job.Execution{ID: l.Execution, Token: l.Token, Status: job.Running, Tries: f.tries[l.Execution], MaxAttempts: 3, Partition: r.Partition, Class: r.Class, Group: r.Group, Priority: r.Priority, Tenant: r.Tenant},
				Retry:     job.RetryPolicy{MaxRetries: 2, Backoff: job.Fixed, InitialDelay: time.Second, MaxDelay: time.Second}, JobState: job.Active,
			})
		}
	}
	return out, nil
}

func (f *fakeStore) Finish(_ context.Context, fs []job.Finish) ([]job.Verdict, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	vs := make([]job.Verdict, len(fs))
	for i, x := range fs {
		l := x.Outcome.Lease
		r, ok := f.held[l]
		vs[i] = job.Verdict{Execution: l.Execution, Accepted: ok}
		if !ok {
			vs[i].Reason = job.RefusedStale
			continue
		}
		delete(f.held, l)
		if x.Then.Status.Final() {
			f.done[l.Execution]++
		} else {
			r.DueAt = x.Then.DueAt
			f.tries[l.Execution] = x.Then.Tries
			f.free[r.ID] = r
		}
	}
	return vs, nil
}

func compareLanes(l, o job.Lane) int {
	return cmp.Or(cmp.Compare(l.Partition, o.Partition), cmp.Compare(l.Tenant, o.Tenant), cmp.Compare(l.Class, o.Class),
		cmp.Compare(l.Group, o.Group), cmp.Compare(l.Priority, o.Priority))
}
