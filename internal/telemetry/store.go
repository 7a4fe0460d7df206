package telemetry

import (
	"context"
	"strconv"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Store is a store whose calls are counted and timed.
type Store struct {
	engine.Around
	clock   clock.Clock // the store's
	metrics *Metrics
	tracer  *Tracer // nil: there is no tracing
	held    held
	begun   *begun
}

// Over wraps a store whose clock is given.
func Over(store engine.Store, clk clock.Clock, m *Metrics, t *Tracer) *Store {
	s := &Store{clock: clk, metrics: m, tracer: t, held: newHeld(), begun: newBegun()}
	s.Around = engine.Around{Store: store, Hook: s.timed}
	return s
}

// call is one store call.
type call struct {
	store *Store
	op    op
	began time.Time
	span  span
}

// begin begins a call; if it is part of a trace, as a span of it.
func (s *Store) begin(ctx *context.Context, o op) call {
	c := call{store: s, op: o, began: time.Now()}
	if s.tracer != nil {
		*ctx, c.span = s.tracer.child(*ctx, o)
	}
	return c
}

func (c call) end(err *error) {
	m := &c.store.metrics.ops[c.op]
	m.seconds.Observe(time.Since(c.began).Seconds())
	if *err != nil && broken(*err) {
		m.errors.Inc()
	}
	c.span.end(*err)
}

// timed counts and times the calls that need no other counts.
func (s *Store) timed(ctx context.Context, method engine.Method, run func(context.Context) error) (err error) {
	if o, ok := opOf[method]; ok {
		defer s.begin(&ctx, o).end(&err)
	}
	return run(ctx)
}

// Fire stores the executions of jobs.
func (s *Store) Fire(ctx context.Context, fs []engine.Firing, f engine.Fence) (out engine.Fired, err error) {
	defer s.begin(&ctx, opFire).end(&err)
	if out, err = s.Store.Fire(ctx, fs, f); err != nil {
		return out, err
	}
	s.cancelled(out.Ended)
	s.fired(fs, out.Ready)
	return out, nil
}

// fired counts how late scheduled executions are, and what is skipped. The store does not tell whether a policy
// skipped a missing execution or another server was quicker, which is rare: if there is a policy, it counts as
// skipped.
func (s *Store) fired(fs []engine.Firing, rs []job.Ready) {
	m, now := s.metrics, s.clock.Now()
	m.triggerDelay.mu.Lock()
	defer m.triggerDelay.mu.Unlock()
	stored := make(map[job.ExecutionID]bool, len(rs))
	for i := range rs {
		stored[rs[i].ID] = true
	}
	for i := range fs {
		moved := len(fs[i].Executions) == 0
		skipped := 0
		for k := range fs[i].Executions {
			e := &fs[i].Executions[k]
			if !stored[e.ID] {
				skipped++
				moved = moved || e.UniqueKey != "" || fs[i].Overlap == job.OverlapSkip || fs[i].Overlap == job.OverlapQueue
				continue
			}
			moved = true
			if e.Trigger == job.BySchedule {
				m.triggerDelay.add(now.Sub(job.FirstDue(e.Job, e.ScheduledAt)))
			}
		}
		if !moved {
			continue
		}
		skipped += len(fs[i].Skips)
		m.byStatus[job.Skipped].Add(float64(skipped))
		for k := range fs[i].Skips {
			if x := &fs[i].Skips[k]; x.Metadata["reason"] == string(job.SkipMissed) {
				m.missed.Add(float64(standsFor(x)))
			}
		}
	}
}

// standsFor returns how many instants a record of skipped ones covers.
func standsFor(e *job.Execution) int64 {
	if n, err := strconv.ParseInt(e.Metadata["count"], 10, 64); err == nil {
		return n
	}
	return 1
}

// Lease gives sessions executions.
func (s *Store) Lease(ctx context.Context, gs []engine.Grant, f engine.Fence) (as []job.Attempt, err error) {
	defer s.begin(&ctx, opLease).end(&err)
	if as, err = s.Store.Lease(ctx, gs, f); err != nil || len(as) == 0 {
		return as, err
	}
	w := s.metrics.queueWait
	w.mu.Lock()
	for i := range as {
		if a := &as[i]; a.StartedAt.Equal(a.LeasedAt) { // for the first time
			w.add(a.LeasedAt.Sub(a.DueAt))
		}
	}
	w.mu.Unlock()
	s.metrics.nodesStarted(as)
	var traces map[job.ExecutionID]*traced
	if s.tracer != nil {
		traces = s.tracer.leased(ctx, s.began, as)
	}
	s.held.add(as, traces)
	return as, nil
}

// Finish applies transitions.
func (s *Store) Finish(ctx context.Context, fs []job.Finish) (vs []job.Verdict, err error) {
	defer s.begin(&ctx, opFinish).end(&err)
	if s.tracer != nil {
		s.recall(ctx, fs)
	}
	if vs, err = s.Store.Finish(ctx, fs); err != nil {
		return vs, err
	}
	s.count(fs, vs)
	return vs, nil
}

// count counts what ended.
func (s *Store) count(fs []job.Finish, vs []job.Verdict) {
	now := s.clock.Now()
	var ended [len(s.metrics.byStatus)]int
	s.held.mu.Lock()
	defer s.held.mu.Unlock()
	s.metrics.duration.mu.Lock()
	defer s.metrics.duration.mu.Unlock()
	s.metrics.endToEnd.mu.Lock()
	defer s.metrics.endToEnd.mu.Unlock()
	for i := range vs {
		if st := s.finished(&fs[i], &vs[i], now); st.Final() {
			ended[st]++
		}
	}
	for st, n := range ended {
		if n > 0 {
			s.metrics.byStatus[st].Add(float64(n))
		}
	}
}

// recall looks up ending leases that another server gave.
func (s *Store) recall(ctx context.Context, fs []job.Finish) {
	var unknown []job.Lease
	s.held.mu.Lock()
	for i := range fs {
		if _, ok := s.held.find(fs[i].Outcome.Lease); !ok {
			unknown = append(unknown, fs[i].Outcome.Lease)
		}
	}
	s.held.mu.Unlock()
	if len(unknown) == 0 {
		return
	}
	hs, err := s.Store.Held(ctx, unknown)
	if err != nil || len(hs) == 0 {
		return
	}
	as := make([]job.Attempt, len(hs))
	for i, h := range hs {
		var run job.ExecutionID
		if h.Trigger == job.ByWorkflow {
			if m, err := s.Store.MemberOf(ctx, h.Tenant, h.ID); err == nil {
				run = m.Run
			}
		}
		as[i] = job.Attempt{
			Run: run, Lease: job.Lease{Execution: h.ID, Token: h.Token}, Job: h.Job, JobName: h.JobName, Tenant: h.Tenant, Trigger: h.Trigger, Number: h.Attempt,
			ScheduledAt: h.ScheduledAt, DueAt: h.DueAt, LeasedAt: h.LeasedAt, StartedAt: h.StartedAt,
		}
	}
	s.held.add(as, s.tracer.chosen(ctx, s.began, as))
}

// finished counts the end of an attempt, and returns the final status of its execution; 0: none. The locks of held,
// duration and endToEnd are held.
func (s *Store) finished(f *job.Finish, v *job.Verdict, now time.Time) job.Status {
	m := s.metrics
	if !v.Accepted {
		if v.Reason == job.RefusedStale && !f.Expel { // otherwise this server ended it, and its worker was quicker
			m.stale.Inc()
		}
		return 0
	}
	if _, held := s.held.find(f.Outcome.Lease); v.Repeated && !held {
		return 0 // it was counted when it was applied; if that answer was lost, it is still held here
	}
	then := f.Came(v)
	status := then.Status
	if f.Outcome.Error != nil && f.Outcome.Error.Type == job.TimeoutError || status == job.TimedOut {
		m.timeouts.Inc()
	}
	if then.Move == job.Again {
		m.retries.Inc()
	}
	h, ok := s.held.take(f.Outcome.Lease)
	if h.traced != nil {
		s.tracer.ended(h.traced, f, status, now)
	}
	if !status.Final() {
		return 0
	}
	if status == job.Failed || status == job.TimedOut {
		m.deadLettered.Inc()
	}
	if ok {
		at := now.UnixMicro()
		m.duration.add(time.Duration(at-h.started) * time.Microsecond)
		m.endToEnd.add(time.Duration(at-h.begins) * time.Microsecond)
	}
	return status
}

// Park leaves executions to their targets.
func (s *Store) Park(ctx context.Context, ps []engine.Parking) (vs []job.Verdict, err error) {
	defer s.begin(&ctx, opFinish).end(&err)
	vs, err = s.Store.Park(ctx, ps)
	for i := range vs {
		if !vs[i].Accepted && vs[i].Reason == job.RefusedStale {
			s.metrics.stale.Inc()
		}
	}
	return vs, err
}

// Reap returns the executions of dead sessions to the queue.
func (s *Store) Reap(ctx context.Context, limit, poison int) (got engine.Reaped, err error) {
	defer s.begin(&ctx, opReap).end(&err)
	if got, err = s.Store.Reap(ctx, limit, poison); err != nil {
		return got, err
	}
	m := s.metrics
	m.deaths.Add(float64(got.Sessions))
	m.leasesLost.Add(float64(got.Lost()))
	m.byStatus[job.Failed].Add(float64(got.Poisoned))
	m.deadLettered.Add(float64(got.Poisoned))
	m.byStatus[job.Cancelled].Add(float64(got.Cancelled))
	s.held.drop(got.Ready)
	return got, nil
}

// Expire ends what did not start in time.
func (s *Store) Expire(ctx context.Context, limit int) (es []engine.Ended, err error) {
	defer s.begin(&ctx, opUpkeep).end(&err)
	es, err = s.Store.Expire(ctx, limit)
	s.metrics.byStatus[job.Expired].Add(float64(len(es)))
	return es, err
}

// Force ends executions that were asked to stop and did not.
func (s *Store) Force(ctx context.Context, grace time.Duration, limit int) (es []engine.Ended, err error) {
	defer s.begin(&ctx, opUpkeep).end(&err)
	es, err = s.Store.Force(ctx, grace, limit)
	s.metrics.byStatus[job.Cancelled].Add(float64(len(es)))
	return es, err
}

// Cancel ends waiting executions and asks running ones to stop.
func (s *Store) Cancel(ctx context.Context, t tenant.ID, id job.ExecutionID, reason string, e *audit.Entry) (out engine.Cancelled, err error) {
	defer s.begin(&ctx, opCancel).end(&err)
	out, err = s.Store.Cancel(ctx, t, id, reason, e)
	s.cancelled(out.Ended)
	return out, err
}

// DeleteJob marks a job deleted, and ends its waiting executions.
func (s *Store) DeleteJob(ctx context.Context, t tenant.ID, d engine.Deletion) (out engine.Deleted, err error) {
	defer s.begin(&ctx, opUpdate).end(&err)
	out, err = s.Store.DeleteJob(ctx, t, d)
	s.cancelled(out.Ended)
	return out, err
}

// CancelWaiting ends waiting executions of a deleted job.
func (s *Store) CancelWaiting(ctx context.Context, t tenant.ID, of job.ID, limit int) (es []engine.Ended, err error) {
	defer s.begin(&ctx, opUpdate).end(&err)
	es, err = s.Store.CancelWaiting(ctx, t, of, limit)
	s.cancelled(es)
	return es, err
}

// cancelled counts executions that a call cancelled: they were asked to stop, are of a deleted job, or were replaced.
func (s *Store) cancelled(es []engine.Ended) {
	for i := range es {
		if es[i].Status == job.Cancelled { // Fire also skips some, which it counts itself
			s.metrics.byStatus[job.Cancelled].Inc()
		}
	}
}

// Release returns executions to the queue.
func (s *Store) Release(ctx context.Context, w job.WorkerID, ls []job.Lease) (out engine.Requeued, err error) {
	defer s.begin(&ctx, opRelease).end(&err)
	out, err = s.Store.Release(ctx, w, ls)
	s.cancelled(out.Ended)
	s.held.drop(out.Ready)
	return out, err
}

// Disown returns executions to the queue.
func (s *Store) Disown(ctx context.Context, w job.WorkerID, keep []job.Token, before time.Time) (out engine.Requeued, err error) {
	defer s.begin(&ctx, opRelease).end(&err)
	out, err = s.Store.Disown(ctx, w, keep, before)
	s.cancelled(out.Ended)
	s.held.drop(out.Ready)
	return out, err
}

// Leave ends a session.
func (s *Store) Leave(ctx context.Context, w job.WorkerID) (out engine.Requeued, err error) {
	defer s.begin(&ctx, opRelease).end(&err)
	out, err = s.Store.Leave(ctx, w)
	s.cancelled(out.Ended)
	s.held.drop(out.Ready)
	return out, err
}

// Draw takes tokens out of buckets.
func (s *Store) Draw(ctx context.Context, ds []engine.Draw) (out []engine.Drawn, err error) {
	defer s.begin(&ctx, opDraw).end(&err)
	out, err = s.Store.Draw(ctx, ds)
	short := 0
	for i := range out {
		if out[i].N < ds[i].N {
			short++
		}
	}
	s.metrics.limitedBy("execution_rate", short)
	return out, err
}
