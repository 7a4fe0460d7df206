package service

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// NotDone means that something is not in a state for the request.
type NotDone struct {
	What string // "cancel", "retry", …
	Why  string
}

func (n *NotDone) Error() string { return n.Why }

// Execution finds one execution. An unfinished one that failed before includes why its last attempt failed.
func (s *Executions) Execution(ctx context.Context, p tenant.Principal, id job.ExecutionID) (job.Execution, error) {
	if err := allow(p, tenant.Read); err != nil {
		return job.Execution{}, err
	}
	e, err := s.execution(ctx, p, id)
	if err != nil || e.Status.Final() || e.Error != nil || e.Tries+e.Lost == 0 {
		return e, err
	}
	past, err := s.store.Attempts(ctx, p.Tenant, id)
	if err != nil {
		return e, err
	}
	if n := len(past); n > 0 {
		e.Error = &past[n-1].Error
	}
	return e, nil
}

// HasExecution returns engine.ErrNotFound if there is no such execution.
func (s *Executions) HasExecution(ctx context.Context, p tenant.Principal, id job.ExecutionID) error {
	if err := allow(p, tenant.Read); err != nil {
		return err
	}
	_, err := s.execution(ctx, p, id)
	return err
}

// since returns when the history that the tenant may see begins; zero means from the start.
func (s *Executions) since(ctx context.Context, p tenant.Principal) (time.Time, error) {
	return s.sinceOf(ctx, p, job.ID{})
}

// sinceOf is since for the history of one job, which may be on hold.
func (s *Executions) sinceOf(ctx context.Context, p tenant.Principal, of job.ID) (time.Time, error) {
	if p.Internal || s.cfg.Unmetered {
		return time.Time{}, nil
	}
	t, err := s.settings(ctx, p.Tenant)
	if err != nil || s.held(p.Tenant, of) {
		return time.Time{}, err
	}
	at, _ := s.QuotaOf(t).KeptSince(s.now())
	return at, nil
}

// ownAsOf returns the time by which the retentions of single jobs hide executions from the tenant; zero: none has one.
func (s *Executions) ownAsOf(ctx context.Context, p tenant.Principal, of job.ID) (time.Time, error) {
	if p.Internal || s.cfg.Unmetered {
		return time.Time{}, nil
	}
	t, err := s.settings(ctx, p.Tenant)
	if err != nil || !t.OwnKept || s.held(p.Tenant, of) {
		return time.Time{}, err
	}
	return s.now(), nil
}

// ownRetention returns that of a job, and the time by which it hides its history; none if nothing is hidden by it.
func (s *Executions) ownRetention(ctx context.Context, p tenant.Principal, of job.ID) (r job.Retention, now time.Time, err error) {
	if now, err = s.ownAsOf(ctx, p, of); err != nil || now.IsZero() {
		return r, now, err
	}
	all, err := s.store.Retentions(ctx, p.Tenant, []job.ID{of})
	return all[of], now, err
}

// past reports whether an execution finished before what is kept, of a selection that was made as of a time: by the
// tenant, or by its job's own retention (zero: by none).
func (s *shared) past(ctx context.Context, e *job.Execution, kept, ownAsOf time.Time) (bool, error) {
	if !e.Status.Final() || ownAsOf.IsZero() || e.FinishedAt.Before(kept) {
		return e.Status.Final() && e.FinishedAt.Before(kept), nil
	}
	own, err := s.store.Retentions(ctx, e.Tenant, []job.ID{e.Job})
	return own[e.Job].Hides(ownAsOf, e.Trigger, e.Status, e.FinishedAt), err
}

// execution finds one that is unfinished, or finished within what its tenant may see.
func (s *Executions) execution(ctx context.Context, p tenant.Principal, id job.ExecutionID) (job.Execution, error) {
	e, err := s.store.Execution(ctx, p.Tenant, id)
	if err != nil || !e.Status.Final() {
		return e, err
	}
	since, err := s.sinceOf(ctx, p, e.Job)
	if err != nil || e.FinishedAt.Before(since) {
		return job.Execution{}, cmp.Or(err, engine.ErrNotFound)
	}
	own, now, err := s.ownRetention(ctx, p, e.Job)
	if err != nil || own.Hides(now, e.Trigger, e.Status, e.FinishedAt) {
		return job.Execution{}, cmp.Or(err, engine.ErrNotFound)
	}
	return e, nil
}

// visible returns ErrNotFound for an execution that finished before what its tenant may see.
func (s *Executions) visible(ctx context.Context, p tenant.Principal, id job.ExecutionID) error {
	since, err := s.since(ctx, p)
	if err != nil {
		return err
	}
	own, err := s.ownAsOf(ctx, p, job.ID{})
	if err != nil || since.IsZero() && own.IsZero() {
		return err
	}
	_, err = s.execution(ctx, p, id)
	return err
}

// Events lists the events of an execution, oldest first.
func (s *Executions) Events(ctx context.Context, p tenant.Principal, id job.ExecutionID) ([]job.Event, error) {
	e, past, kept, err := s.story(ctx, p, id)
	if err != nil {
		return nil, err
	}
	return job.Timeline(e, past, kept), nil
}

// ReportOf sums up an execution.
func (s *Executions) ReportOf(ctx context.Context, p tenant.Principal, id job.ExecutionID) (job.Report, error) {
	e, past, kept, err := s.story(ctx, p, id)
	if err != nil {
		return job.Report{}, err
	}
	return job.Reported(e, past, kept, s.clock.Now()), nil
}

// story reads an execution, its past attempts and its events, in this order: what ends meanwhile may appear twice,
// but is never missed.
func (s *Executions) story(ctx context.Context, p tenant.Principal, id job.ExecutionID) (e job.Execution, past []job.PastAttempt, kept []job.Event, err error) {
	if err := allow(p, tenant.Read); err != nil {
		return e, nil, nil, err
	}
	if e, err = s.execution(ctx, p, id); err != nil {
		return e, nil, nil, err
	}
	if past, err = s.store.Attempts(ctx, p.Tenant, id); err != nil {
		return e, nil, nil, err
	}
	kept, err = s.store.Events(ctx, p.Tenant, id)
	return e, past, kept, err
}

// FindExecutions lists the executions of a job, latest scheduled time first.
func (s *Executions) FindExecutions(ctx context.Context, p tenant.Principal, ref engine.Ref, f engine.ExecutionFilter, page engine.Page) (engine.ExecutionPage, error) {
	if err := allow(p, tenant.Read); err != nil {
		return engine.ExecutionPage{}, err
	}
	j, err := s.find(ctx, p.Tenant, ref)
	if err != nil {
		return engine.ExecutionPage{}, err
	}
	f.Tenant, f.Job, page.Bounded = p.Tenant, j.ID, true
	if f.Kept, err = s.sinceOf(ctx, p, j.ID); err != nil {
		return engine.ExecutionPage{}, err
	}
	if f.OwnAsOf, err = s.ownAsOf(ctx, p, j.ID); err != nil {
		return engine.ExecutionPage{}, err
	}
	return s.store.FindExecutions(ctx, f, page)
}

// Attempts lists every attempt of an execution, oldest first, and the instant of the list.
func (s *Executions) Attempts(ctx context.Context, p tenant.Principal, id job.ExecutionID) ([]job.Tried, time.Time, error) {
	e, past, kept, err := s.story(ctx, p, id)
	if err != nil {
		return nil, time.Time{}, err
	}
	return e.Attempts(past, kept), s.clock.Now(), nil
}

// Cancel ends a waiting execution and asks a running one to stop. *NotDone if it has finished otherwise.
func (s *Executions) Cancel(ctx context.Context, p tenant.Principal, id job.ExecutionID, reason string) (job.Execution, error) {
	if err := allow(p, tenant.Write); err != nil {
		return job.Execution{}, err
	}
	if reason == "" {
		reason = "cancelled by " + p.Name
	}
	return s.cancel(ctx, p, id, reason)
}

func (s *Executions) cancel(ctx context.Context, p tenant.Principal, id job.ExecutionID, reason string) (job.Execution, error) {
	got, err := s.store.Cancel(ctx, p.Tenant, id, reason, s.audited(p, "execution.cancel", id.String(), detail{After: fields{"reason": reason}}))
	if err != nil && !isConflict(err) {
		return job.Execution{}, fmt.Errorf("cancel: %w", err)
	}
	e, look := s.store.Execution(ctx, p.Tenant, id)
	if look != nil {
		return job.Execution{}, look
	}
	if err != nil {
		return e, &NotDone{"cancel", fmt.Sprintf("The execution has finished as %s; it cannot be cancelled.", e.Status)}
	}
	if got.Status == job.Cancelling {
		s.cfg.Nudge()
	}
	if s.told(ctx, e) {
		return s.store.Execution(ctx, p.Tenant, id)
	}
	return e, nil
}

// told lets the runs of workflows process a change of an execution: its own run, if it is the execution of one, and
// the run of which it is a node. It reports whether there was any. If it fails, a sweep of the runs does it a second
// later.
func (s *Executions) told(ctx context.Context, e job.Execution) (any bool) {
	settle := func(run job.ExecutionID) {
		if err := s.runner.Settle(ctx, e.Tenant, run); err != nil {
			s.runner.Advance(run)
		}
		any = true
	}
	if !e.Status.Final() && e.Class.Needs().Target == job.Workflow {
		settle(e.ID)
	}
	if e.Trigger == job.ByWorkflow {
		if m, err := s.store.MemberOf(ctx, e.Tenant, e.ID); err == nil {
			settle(m.Run)
		}
	}
	return any
}

// DeadLetters lists dead letters, latest first.
func (s *Executions) DeadLetters(ctx context.Context, p tenant.Principal, f engine.DeadLetterFilter, page engine.Page) (engine.DeadLetterPage, error) {
	if err := allow(p, tenant.Read); err != nil {
		return engine.DeadLetterPage{}, err
	}
	if err := s.deadLetters(ctx, p); err != nil {
		return engine.DeadLetterPage{}, err
	}
	f.Tenant, page.Bounded = p.Tenant, true
	since, err := s.since(ctx, p)
	if err != nil {
		return engine.DeadLetterPage{}, err
	}
	if f.From.Before(since) {
		f.From = since
	}
	if f.OwnAsOf, err = s.ownAsOf(ctx, p, f.Job); err != nil {
		return engine.DeadLetterPage{}, err
	}
	return s.store.DeadLetters(ctx, f, page)
}

// Discard discards dead letters and returns how many there were.
func (s *Executions) Discard(ctx context.Context, p tenant.Principal, ids []job.ExecutionID, once Once[int]) (n int, replay []byte, err error) {
	if err := allow(p, tenant.Write); err != nil {
		return 0, nil, err
	}
	if err := s.deadLetters(ctx, p); err != nil {
		return 0, nil, err
	}
	var e *audit.Entry
	if len(ids) > 0 {
		e = new(s.entry(p, "dead_letter.discard", ids[0].String(), detail{}))
		e.Count = len(ids)
	}
	n, made, err := s.store.Discard(ctx, p.Tenant, ids, once.with(0, s.now()), once.Encode, e)
	if err != nil {
		return 0, nil, err
	}
	replay, err = outcome(made)
	return n, replay, err
}

// Drain asks a worker to take no more work and to finish what it has. Only operators of the installation may drain
// workers that serve every tenant.
func (s *Executions) Drain(ctx context.Context, p tenant.Principal, w job.WorkerID) error {
	if err := s.overWorker(ctx, p, w); err != nil {
		return err
	}
	if err := s.store.Drain(ctx, p.Tenant, w, s.audited(p, "worker.drain", w.String(), detail{})); err != nil {
		return err
	}
	s.cfg.Nudge()
	return nil
}

// overWorker returns why a principal may not control a worker.
func (s *Executions) overWorker(ctx context.Context, p tenant.Principal, w job.WorkerID) error {
	if err := allow(p, tenant.Write); err != nil {
		return err
	}
	ws, err := s.store.Workers(ctx, p.Tenant)
	if err != nil {
		return err
	}
	for _, x := range ws {
		if x.ID == w && x.Tenant == "" {
			return allow(p, tenant.Run)
		}
	}
	return nil
}

// Cordon keeps a worker from being given more work, within two seconds at every server, until it is uncordoned; it
// continues with what it has, and stays registered. Only operators of the installation may cordon workers that serve
// every tenant.
func (s *Executions) Cordon(ctx context.Context, p tenant.Principal, w job.WorkerID, on bool) (WorkerReport, error) {
	if err := s.overWorker(ctx, p, w); err != nil {
		return WorkerReport{}, err
	}
	was, err := s.Worker(ctx, p, w)
	if err != nil {
		return was, err
	}
	if was.State == job.WorkerDead {
		return was, engine.ErrNotFound
	}
	if was.Cordoned == on {
		return was, nil
	}
	action := "worker.uncordon"
	if on {
		action = "worker.cordon"
	}
	if err := s.store.Cordon(ctx, p.Tenant, w, on, s.audited(p, action, w.String(), detail{})); err != nil {
		return was, err
	}
	s.cfg.Refresh()
	return s.Worker(ctx, p, w)
}

// WorkerReport is a worker and its current state.
type WorkerReport struct {
	job.Worker
	State job.WorkerState
}

// Worker finds a worker that may serve the tenant.
func (s *Executions) Worker(ctx context.Context, p tenant.Principal, id job.WorkerID) (WorkerReport, error) {
	ws, err := s.Workers(ctx, p)
	if err != nil {
		return WorkerReport{}, err
	}
	for _, w := range ws {
		if w.ID == id {
			return w, nil
		}
	}
	return WorkerReport{}, engine.ErrNotFound
}

// Workers lists the workers that may serve the tenant.
func (s *Executions) Workers(ctx context.Context, p tenant.Principal) ([]WorkerReport, error) {
	if err := allow(p, tenant.Read); err != nil {
		return nil, err
	}
	ws, err := s.store.Workers(ctx, p.Tenant)
	if err != nil {
		return nil, err
	}
	out := make([]WorkerReport, len(ws))
	now := s.clock.Now().Add(-time.Second) // the tracked clock may be late by as much as an answer takes
	for i, w := range ws {
		out[i] = WorkerReport{w, w.State(now)}
	}
	return out, nil
}
