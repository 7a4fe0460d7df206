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

// NotDone says that something is not in a state for what was asked of it.
type NotDone struct {
	What string // "cancel", "retry", …
	Why  string
}

func (n *NotDone) Error() string { return n.Why }

// Execution finds one execution. One that failed before and is not over tells why its last attempt did.
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

// HasExecution says with engine.ErrNotFound that there is no such execution.
func (s *Executions) HasExecution(ctx context.Context, p tenant.Principal, id job.ExecutionID) error {
	if err := allow(p, tenant.Read); err != nil {
		return err
	}
	_, err := s.execution(ctx, p, id)
	return err
}

// since returns when the history that the tenant may see begins; zero for the first execution.
func (s *Executions) since(ctx context.Context, p tenant.Principal) (time.Time, error) {
	q, err := s.Quota(ctx, p)
	if err != nil {
		return time.Time{}, err
	}
	at, _ := q.KeptSince(s.now())
	return at, nil
}

// execution finds one that is not over, or not for longer than its tenant may see.
func (s *Executions) execution(ctx context.Context, p tenant.Principal, id job.ExecutionID) (job.Execution, error) {
	e, err := s.store.Execution(ctx, p.Tenant, id)
	if err != nil || !e.Status.Final() {
		return e, err
	}
	since, err := s.since(ctx, p)
	if err != nil || e.FinishedAt.Before(since) {
		return job.Execution{}, cmp.Or(err, engine.ErrNotFound)
	}
	return e, nil
}

// visible is ErrNotFound for an execution that is over for longer than its tenant may see.
func (s *Executions) visible(ctx context.Context, p tenant.Principal, id job.ExecutionID) error {
	since, err := s.since(ctx, p)
	if err != nil || since.IsZero() {
		return err
	}
	_, err = s.execution(ctx, p, id)
	return err
}

// Events tells all that happened to an execution, the first thing first.
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

// story reads an execution, its past attempts and what was kept of it, in this order: what ends meanwhile is told of twice, never missed.
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

// FindExecutions lists the executions of a job, those with the latest scheduled time first.
func (s *Executions) FindExecutions(ctx context.Context, p tenant.Principal, ref engine.Ref, f engine.ExecutionFilter, page engine.Page) (engine.ExecutionPage, error) {
	if err := allow(p, tenant.Read); err != nil {
		return engine.ExecutionPage{}, err
	}
	j, err := s.store.Job(ctx, p.Tenant, ref)
	if err != nil {
		return engine.ExecutionPage{}, err
	}
	f.Tenant, f.Job, page.Bounded = p.Tenant, j.ID, true
	if f.Kept, err = s.since(ctx, p); err != nil {
		return engine.ExecutionPage{}, err
	}
	return s.store.FindExecutions(ctx, f, page)
}

// Attempts lists every attempt of an execution, earliest first, and says as of when.
func (s *Executions) Attempts(ctx context.Context, p tenant.Principal, id job.ExecutionID) ([]job.Tried, time.Time, error) {
	e, past, kept, err := s.story(ctx, p, id)
	if err != nil {
		return nil, time.Time{}, err
	}
	return e.Attempts(past, kept), s.clock.Now(), nil
}

// Cancel ends an execution that waits and asks one that runs to stop. *NotDone if it has finished otherwise.
func (s *Executions) Cancel(ctx context.Context, p tenant.Principal, id job.ExecutionID, reason string) (job.Execution, error) {
	if err := allow(p, tenant.Write); err != nil {
		return job.Execution{}, err
	}
	if reason == "" {
		reason = "cancelled by " + p.Name
	}
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
	return e, nil
}

// Retry runs a finished execution again, as a new one. *NotDone if it has not finished.
func (s *Executions) Retry(ctx context.Context, p tenant.Principal, id job.ExecutionID, payload []byte, once Once[job.Execution]) (e job.Execution, replay []byte, err error) {
	if err := allow(p, tenant.Write); err != nil {
		return e, nil, err
	}
	old, err := s.execution(ctx, p, id)
	if err != nil {
		return e, nil, err
	}
	if !old.Status.Final() {
		return old, nil, &NotDone{"retry", fmt.Sprintf("The execution is %s; only a finished one can be run again.", old.Status)}
	}
	return s.rerun(ctx, p, old, job.ByRetry, payload, false, once)
}

// Redrive runs a dead letter again, as a new execution. *NotDone if it is no dead letter.
func (s *Executions) Redrive(ctx context.Context, p tenant.Principal, id job.ExecutionID, once Once[job.Execution]) (e job.Execution, replay []byte, err error) {
	if err := allow(p, tenant.Write); err != nil {
		return e, nil, err
	}
	if err := s.visible(ctx, p, id); err != nil {
		return e, nil, err
	}
	old, err := s.store.Execution(ctx, p.Tenant, id)
	if err != nil {
		return e, nil, err
	}
	if err := s.deadLetters(ctx, p); err != nil {
		return e, nil, err
	}
	return s.rerun(ctx, p, old, job.ByRedrive, nil, true, once)
}

func (s *Executions) rerun(ctx context.Context, p tenant.Principal, old job.Execution, t job.Trigger, payload []byte, dead bool, once Once[job.Execution]) (e job.Execution, replay []byte, err error) {
	j, err := s.store.Job(ctx, p.Tenant, engine.Ref{ID: old.Job})
	if err != nil {
		return e, nil, err
	}
	e = j.Rerun(old, job.ExecutionID(newID()), t, payload, s.now())
	if err := s.overrideFits(ctx, p, payload); err != nil {
		return e, nil, err
	}
	if err := regroup(j, &e); err != nil {
		return e, nil, err
	}
	if err := s.jobs.plans(p.Tenant).overriding(ctx, payload); err != nil {
		return e, nil, err
	}
	if err := s.beginOne(ctx, p); err != nil {
		return e, nil, err
	}
	leave, err := s.enter()
	if err != nil {
		return e, nil, err
	}
	defer leave()
	if s.cfg.Begun != nil {
		s.cfg.Begun(ctx, p.Tenant, e.ID)
	}
	action, told := "execution.retry", fields{"execution_id": e.ID.String()}
	if dead {
		action = "dead_letter.redrive"
	}
	if payload != nil {
		told["payload_override"] = digest(payload)
	}
	got, err := s.store.Rerun(ctx, p.Tenant, engine.Rerun{
		Executions: []job.Execution{e}, DeadOnly: dead, Idempotency: once.with(e, s.now()), Entry: s.audited(p, action, old.ID.String(), detail{After: told}),
	})
	if err != nil {
		return e, nil, fmt.Errorf("run again: %w", err)
	}
	if replay, err := outcome(got.Created); replay != nil || err != nil {
		return e, replay, err
	}
	if len(got.Added) == 0 {
		return e, nil, s.whyNot(ctx, p, j, old, dead)
	}
	s.cfg.Hint([]job.Ready{e.Ready()})
	return e, nil, nil
}

// whyNot says why an execution was not run again.
func (s *Executions) whyNot(ctx context.Context, p tenant.Principal, j job.Job, old job.Execution, dead bool) error {
	what := "retry"
	if dead {
		what = "redrive"
		page, err := s.store.DeadLetters(ctx, engine.DeadLetterFilter{Tenant: p.Tenant, Execution: old.ID}, engine.Page{Limit: 1})
		if err != nil {
			return err
		}
		if len(page.DeadLetters) == 0 {
			return &NotDone{what, "The execution is no dead letter: it did not fail for good, was run again, or was discarded."}
		}
	}
	if j, err := s.store.Job(ctx, p.Tenant, engine.Ref{ID: j.ID}); err != nil {
		return err
	} else if j.State == job.Deleted {
		return &NotDone{what, "The job of the execution was deleted."}
	}
	if j.UniqueKey != "" {
		return &NotDone{what, fmt.Sprintf("Another execution with the unique key %q has not finished.", job.Show(j.UniqueKey))}
	}
	return &NotDone{what, "The execution cannot be run again just now. Look at it and try again."}
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
	return s.store.DeadLetters(ctx, f, page)
}

// Discard forgets dead letters and answers with how many there were.
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

// Drain asks a worker to take nothing more and to finish what it has. Those that serve every tenant are for who runs the
// installation to drain.
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

// overWorker reports why a principal may not tell a worker what to do.
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

// Cordon has a worker given nothing more, within two seconds at every server, until that is ended; what it has it continues
// with. It stays, and need not know. Those that serve every tenant are for who runs the installation.
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

// WorkerReport is a worker and how it does now.
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
	now := s.clock.Now().Add(-time.Second) // the tracked clock errs to the late side by as much as an answer takes
	for i, w := range ws {
		out[i] = WorkerReport{w, w.State(now)}
	}
	return out, nil
}
