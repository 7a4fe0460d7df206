// Package scheduler turns due instants into executions.
//
// A pass asks the store which jobs of the partitions that are its own fire within the look-ahead, decides what each
// of them owes, makes the executions and moves the next instants, both in one transaction of the store in which each
// job's instant moves by compare-and-set. So any number of schedulers may run over one store: an instant fires once,
// whoever comes first. Rows are staged early and never run early: a lease takes only what the store's clock calls
// due. What an overlap policy judges is not staged: it is fired when its instant has come, by the same clock.
//
// If more is ahead than can be fired within the look-ahead, plain schedules are staged up to a minute early, the
// earliest first, in lanes of partitions that fire side by side.
//
// Jobs that are further behind than a few seconds are fired apart from the others, by another loop if there is one,
// by turns between tenants and in small steps: a job that owes much moves its next instant part of the way with each.
// Every statement writes a bounded number of rows. What a store refuses or gives up is retried in halves, and a job
// that fails alone is set aside for a while. So neither a job nor a tenant holds up the others.
//
// The scheduler holds no schedule in memory and never decides whether a fire counts: the store's condition does.
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Store is the part of a store that the scheduler uses.
type Store interface {
	engine.Firings
	Calendar(ctx context.Context, t tenant.ID, name string) (engine.Calendar, error)
}

// Config holds the options of a scheduler.
type Config struct {
	Part      Part                  // which jobs it fires
	LookAhead time.Duration         // how early executions are staged
	Lanes     int                   // how many batches are fired at once if there are many; less than 2: one
	Rate      float64               // the initial assumption of how many jobs a second it fires; 0: that of most machines
	Schedules *schedule.Cache       // compiles schedules; shared with others
	Owner     func() engine.Holding // returns its own partitions; nil: all
	Hint      func([]job.Ready)     // called with executions that may be leased
	Nudge     func()                // called when there are orders for workers; may be nil
	Log       *slog.Logger
}

// Part is the set of jobs that a scheduler fires.
type Part string

// The parts. A server has a loop for each of the latter two.
const (
	Both     Part = ""          // all jobs, one part after the other
	Punctual Part = "scheduler" // those that are due soon, or have just become due
	Behind   Part = "catch-up"  // those that became due longer ago
)

// Scheduler fires due jobs. One goroutine owns it.
type Scheduler struct {
	store Store
	clock clock.Clock // the store's
	cfg   Config
	stuck suspects
	size
	out  outlook
	back backlog
	last time.Time // when it began its last pass
}

// New makes a scheduler over a store and its clock.
func New(store Store, clk clock.Clock, cfg Config) *Scheduler {
	if cfg.Schedules == nil {
		cfg.Schedules = schedule.NewCache(time.LoadLocation)
	}
	if cfg.Hint == nil {
		cfg.Hint = func([]job.Ready) {}
	}
	if cfg.Nudge == nil {
		cfg.Nudge = func() {}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Rate == 0 {
		cfg.Rate = firstRate
	}
	return &Scheduler{store: store, clock: clk, cfg: cfg, stuck: suspects{}, out: outlook{rate: cfg.Rate}}
}

const (
	batch = 1000
	// There is always another pass within the look-ahead of new jobs.
	between  = time.Second
	afterRun = 20 * time.Millisecond  // after a full batch of which nothing could be fired
	onHold   = 100 * time.Millisecond // between checks whether the clock can be trusted again
)

// holder is a clock that may be temporarily untrusted.
type holder interface{ Held() bool }

// pass is one pass over a lane: its instant, and what it has read. It only reads from its scheduler.
type pass struct {
	*Scheduler
	now       time.Time
	ahead     time.Duration // how early plain schedules are staged
	calendars map[calendarKey]read
	wait      time.Duration // until something is due that must not be fired early
	most      int           // how many instants of a job fire at once
	looked    int           // how many instants were computed
	found     suspects      // its findings about jobs that fail
	cleared   []job.ID      // suspects that were fired
	passed    int           // jobs that may not be staged yet
	failures  int           // statements that failed
	done      int           // successful statements that were not made smaller for jobs that had failed
	gaveUp    bool          // the store abandoned one of jobs that had not failed before
	unread    int           // schedules that cannot be computed
}

type calendarKey struct {
	tenant tenant.ID
	name   string
}

type read struct {
	calendar *schedule.Calendar
	err      error
}

// Tick fires one batch of each of its parts.
func (s *Scheduler) Tick(ctx context.Context) (time.Duration, error) {
	var ps []job.Partition
	var fence engine.Fence
	if s.cfg.Owner != nil {
		fence = s.cfg.Owner().Fence
		if ps = slices.Sorted(maps.Keys(fence.Epochs)); len(ps) == 0 {
			return between, nil
		}
	}
	if h, ok := s.clock.(holder); ok && h.Held() {
		return onHold, nil
	}
	now := s.clock.Now()
	if now.Before(s.last) { // the clock was set back: do not wait for an instant that comes once more
		s.stuck, s.back, s.out.look = suspects{}, backlog{}, time.Time{}
	}
	s.last = now
	next := between
	var errs [2]error
	if s.cfg.Part != Behind {
		var d time.Duration
		d, errs[0] = s.punctual(ctx, ps, now, fence)
		next = min(next, d)
	}
	if s.cfg.Part != Punctual && ctx.Err() == nil {
		var d time.Duration
		d, errs[1] = s.behind(ctx, ps, now, fence)
		next = min(next, d)
	}
	return next, errors.Join(errs[:]...)
}

// punctual fires one batch of jobs that are due within the look-ahead, or became due moments ago.
func (s *Scheduler) punctual(ctx context.Context, ps []job.Partition, now time.Time, fence engine.Fence) (time.Duration, error) {
	if err := s.lookOut(ctx, ps, now); err != nil {
		return 0, err
	}
	vs := s.each(ctx, s.lanes(ps), now, fence)
	next := between
	var ready []job.Ready
	var errs []error
	for i := range vs {
		v := &vs[i]
		ready = append(ready, v.ready...)
		s.stuck.merge(v.pass)
		if errs = append(errs, v.err); v.err == nil {
			next = min(next, v.next)
		}
	}
	s.hint(ready, now)
	s.learn(now, vs)
	if slices.ContainsFunc(vs, func(v volley) bool { return v.nudge }) {
		s.cfg.Nudge() // a replaced one may run
	}
	return next, errors.Join(errs...)
}

// fire fires one batch of the partitions of a lane.
func (v *volley) fire(ctx context.Context, ps []job.Partition, limit int, fence engine.Fence) {
	p := v.pass
	fs, full, err := p.gather(ctx, engine.DueFilter{Partitions: ps, From: p.now.Add(-lateAfter), Until: p.now.Add(max(p.ahead, between)), Limit: limit})
	v.full, v.passed, v.next, v.err = full, p.passed, p.wait, err
	if err != nil || len(fs) == 0 {
		if v.full && p.ahead > p.cfg.LookAhead {
			v.next = min(p.wait, afterRun) // there may be something after what it may not stage yet
		}
		return
	}
	v.ready, v.err = p.commit(ctx, fs, 2*herdBatch, fence)
	v.nudge = nudges(fs)
	switch {
	case v.err != nil:
	case p.failures > 0:
		v.next = afterRun // what failed is retried, in halves
	case !v.full:
		v.next = p.wait
	case len(v.ready) == 0:
		v.next = afterRun // another server may own these by now
	default:
		v.next = 0
	}
}

// gather reads due jobs until it has found half as many that may be fired as it was to read, or there are no more:
// jobs set aside never hide others.
func (p *pass) gather(ctx context.Context, f engine.DueFilter) (fs []engine.Firing, full bool, err error) {
	for {
		due, err := p.store.Due(ctx, f)
		if err != nil {
			return nil, false, fmt.Errorf("find due jobs: %w", err)
		}
		more, err := p.firings(ctx, due)
		if err != nil {
			return nil, false, err
		}
		fs = append(fs, more...)
		if full = len(due) >= f.Limit; !full || len(fs)+p.passed >= f.Limit/2 {
			return fs, full, nil
		}
		after(&f, due)
	}
}

// after moves a filter past what it has found.
func after(f *engine.DueFilter, due []engine.Due) {
	last := due[len(due)-1].Job.NextRunAt
	if !last.Equal(f.From) {
		f.From, f.Skip = last, 0
	}
	for i := len(due) - 1; i >= 0 && due[i].Job.NextRunAt.Equal(last); i-- {
		f.Skip++
	}
}

func nudges(fs []engine.Firing) bool {
	return slices.ContainsFunc(fs, func(f engine.Firing) bool { return f.Overlap == job.OverlapReplace })
}

// firings returns the firings of the due jobs.
func (p *pass) firings(ctx context.Context, due []engine.Due) ([]engine.Firing, error) {
	fs := make([]engine.Firing, 0, len(due))
	for i := range due {
		f, ok, err := p.tryFiring(ctx, &due[i])
		if err != nil {
			return nil, err
		}
		if ok {
			fs = append(fs, f)
		}
	}
	return fs, nil
}

// tryFiring returns the firing of a job, unless it is set aside or cannot be computed; an error is not about the job.
func (p *pass) tryFiring(ctx context.Context, d *engine.Due) (f engine.Firing, ok bool, err error) {
	x, known := p.stuck.of(d)
	if known && p.now.Before(x.until) {
		return f, false, nil
	}
	f, ok, err = p.firing(ctx, d)
	switch {
	case err == nil:
		return f, ok, nil
	case ctx.Err() != nil:
		return f, false, ctx.Err()
	case errors.Is(err, engine.ErrUnavailable):
		return f, false, err
	}
	if p.unread++; p.unread <= logged {
		p.cfg.Log.Error("the schedule of a job cannot be worked out; it is tried again in a while, the others go on", "job", d.Job.ID, "tenant", d.Job.Tenant, "error", err)
	}
	p.found.setAside(d.Job.ID, suspect{until: p.now.Add(unreadFor), revision: d.Revision, fails: x.fails + 1})
	return f, false, nil
}

// firing returns the firing of one job; ok is false if there is none yet.
func (p *pass) firing(ctx context.Context, d *engine.Due) (f engine.Firing, ok bool, err error) {
	j, at := &d.Job, d.Job.NextRunAt
	f = engine.Firing{Tenant: j.Tenant, Job: j.ID, Revision: d.Revision, Was: at, Overlap: j.FiringOverlap()}
	until := p.now // what else is live is judged when it is due, not when it is staged
	if early(j) {
		until = p.now.Add(p.cfg.LookAhead)
	}
	last := until
	if early(j) && j.Schedule.Herds() {
		until = p.now.Add(p.ahead)
	}
	if at.After(until) {
		p.passed++
		p.wait = max(0, min(p.wait, at.Sub(until)))
		return f, false, nil
	}
	if !j.Schedule.Type.Recurs() {
		f.Executions = []job.Execution{p.execution(j, at, j.OneOffTrigger(at))}
		return f, true, nil
	}
	plan, err := p.plan(ctx, j)
	if err != nil {
		return f, false, err
	}
	if !plan.At(at) { // its calendar, or its zone, has changed, or it is to be looked at again
		f.Next, _ = plan.Cursor(at.Add(-1), p.now)
		return f, true, nil
	}
	p.owe(&f, j, plan, last)
	return f, true, nil
}

// early reports whether executions of a job may be staged before they are due.
func early(j *job.Job) bool {
	return j.FiringOverlap() == job.OverlapAllow && j.UniqueKey == ""
}

// owe fills in what a recurring job owes, and what of it is staged: besides the next instant those up to another one.
func (p *pass) owe(f *engine.Firing, j *job.Job, plan schedule.Plan, until time.Time) {
	left := int64(-1)
	if j.Schedule.MaxRuns > 0 {
		left = max(0, j.Schedule.MaxRuns-j.Runs)
	}
	limit := j.CatchUpLimit
	if limit == 0 {
		limit = job.DefaultCatchUpLimit
	}
	policy := j.CatchUp
	if policy == "" {
		policy = job.CatchUpLatest
	}
	why := job.SkipReason("")
	if f.Overlap == job.OverlapReplace && policy == job.CatchUpAll {
		policy, why = job.CatchUpLatest, job.SkipOverlap // each would be replaced by the next
	}
	o := schedule.Owe(plan, f.Was, p.now, schedule.Terms{Policy: policy, Limit: limit, Runs: left, Most: p.mostOf(j), Paused: j.PausedAt, Resumed: j.ResumedAt})
	p.looked += o.Looked
	f.Next, f.Spare, f.Runs = o.Next, o.Spare, int64(len(o.Fires))
	if o.Skipped != nil {
		if why == "" {
			why = o.Why
		}
		f.Skips = append(f.Skips, j.Skip(newID(), *o.Skipped, why, p.now))
	}
	trigger := job.BySchedule
	if o.Caught {
		trigger = job.ByCatchUp
	}
	for _, t := range o.Fires {
		f.Executions = append(f.Executions, p.execution(j, t, trigger))
	}
	for f.Overlap == job.OverlapAllow && f.Next.After(p.now) && !f.Next.After(until) && plan.At(f.Next) {
		f.Executions = append(f.Executions, p.execution(j, f.Next, job.BySchedule))
		f.Runs++
		next, more := plan.Cursor(f.Next, p.now)
		if f.Next = next; !more || left >= 0 && f.Runs >= left {
			f.Next, f.Spare = time.Time{}, next
			break
		}
	}
	if !f.Next.IsZero() && (!early(j) || !f.Next.After(p.now)) {
		p.wait = max(0, min(p.wait, f.Next.Sub(p.now)))
	}
}

// execution returns the execution of a job for an instant.
func (p *pass) execution(j *job.Job, at time.Time, by job.Trigger) job.Execution {
	e := j.FireLate(newID(), at, schedule.Jitter(j.ID, at, j.Schedule.Jitter), p.now)
	e.Trigger = by
	e.Queue(*j)
	if len(j.DependsOn) > 0 {
		e.Status = job.Waiting // for its parents
	}
	return e
}

// plan compiles the schedule of a job, with its current calendar.
func (p *pass) plan(ctx context.Context, j *job.Job) (schedule.Plan, error) {
	var cal *schedule.Calendar
	if name := j.Schedule.Calendar; name != "" {
		key := calendarKey{j.Tenant, name}
		r, ok := p.calendars[key]
		if !ok {
			var kept engine.Calendar
			if kept, r.err = p.store.Calendar(ctx, j.Tenant, name); r.err == nil {
				r.calendar, r.err = p.cfg.Schedules.ReadCalendar(kept.Spec)
			}
			p.calendars[key] = r
		}
		if r.err != nil {
			return schedule.Plan{}, fmt.Errorf("calendar %s: %w", name, r.err)
		}
		cal = r.calendar
	}
	return p.cfg.Schedules.Plan(j.Schedule, j.CreatedAt, cal)
}

func newID() job.ExecutionID { return job.ExecutionID(uuid.Must(uuid.NewV7())) }
