package service

import (
	"context"
	"errors"
	"fmt"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Retry runs a finished execution again, as a new one. *NotDone if it has not finished. If the execution belongs to a run of a workflow,
// it retries that run or its node.
func (s *Reruns) Retry(ctx context.Context, p tenant.Principal, id job.ExecutionID, payload []byte, once Once[job.Execution]) (e job.Execution, replay []byte, err error) {
	if err := allow(p, tenant.Write); err != nil {
		return e, nil, err
	}
	old, err := s.executions.execution(ctx, p, id)
	if err != nil {
		return e, nil, err
	}
	if !old.Status.Final() {
		return old, nil, &NotDone{"retry", fmt.Sprintf("The execution is %s; only a finished one can be run again.", old.Status)}
	}
	j, part, err := s.partOf(ctx, old)
	if err != nil {
		return e, nil, err
	}
	if part.run != (job.ExecutionID{}) {
		return s.onceOf(ctx, p, once, func() (job.Execution, error) { return s.retryPart(ctx, p, part, payload, once) })
	}
	return s.rerun(ctx, p, j, old, job.ByRetry, payload, once)
}

// Redrive runs a dead letter again, as a new execution. *NotDone if it is no dead letter. If it belongs to a run of a workflow, it retries
// that run or its node.
func (s *Reruns) Redrive(ctx context.Context, p tenant.Principal, id job.ExecutionID, once Once[job.Execution]) (e job.Execution, replay []byte, err error) {
	if err := allow(p, tenant.Write); err != nil {
		return e, nil, err
	}
	if err := s.executions.visible(ctx, p, id); err != nil {
		return e, nil, err
	}
	old, err := s.store.Execution(ctx, p.Tenant, id)
	if err != nil {
		return e, nil, err
	}
	if err := s.deadLetters(ctx, p); err != nil {
		return e, nil, err
	}
	j, part, err := s.partOf(ctx, old)
	if err != nil {
		return e, nil, err
	}
	if part.run == (job.ExecutionID{}) {
		return s.rerun(ctx, p, j, old, job.ByRedrive, nil, once)
	}
	return s.onceOf(ctx, p, once, func() (job.Execution, error) {
		dead, err := s.dead(ctx, p.Tenant, id)
		if err == nil && !dead {
			err = &NotDone{"redrive", noDeadLetter}
		}
		if err != nil {
			return old, err
		}
		return s.retryPart(ctx, p, part, nil, once)
	})
}

// onceOf does something, unless a request with the same idempotency key has done it. Another may do so meanwhile: then it fails here, and
// the answer is there.
func (s *Reruns) onceOf(ctx context.Context, p tenant.Principal, once Once[job.Execution], do func() (job.Execution, error)) (e job.Execution, replay []byte, err error) {
	answered := func() ([]byte, error) {
		got, err := s.store.Answered(ctx, p.Tenant, once.with(e, s.now()))
		if err != nil {
			return nil, err
		}
		return outcome(got)
	}
	if replay, err = answered(); replay != nil || err != nil {
		return e, replay, err
	}
	if e, err = do(); err != nil {
		if replay, known := answered(); replay != nil || errors.Is(known, ErrKeyReused) {
			return e, replay, known
		}
	}
	return e, nil, err
}

// runPart is the part of a run that an execution stands for.
type runPart struct {
	of    job.ExecutionID
	run   job.ExecutionID   // zero: the execution belongs to no run
	place *engine.NodePlace // nil: the run itself
}

// partOf finds the job of an execution, and the part of a run that the execution stands for.
func (s *Reruns) partOf(ctx context.Context, old job.Execution) (j job.Job, part runPart, err error) {
	part.of = old.ID
	if old.Trigger == job.ByWorkflow {
		m, err := s.store.MemberOf(ctx, old.Tenant, old.ID)
		switch {
		case err == nil:
			part.run, part.place = m.Run, &m.Place
			return j, part, nil
		case !errors.Is(err, engine.ErrNotFound):
			return j, part, err
		case old.Job.OfNode(): // what its templates gave was known to its run only
			return j, part, &NotDone{"retry", "The execution belongs to a node of a workflow, and its run is no longer kept or has no such node any more."}
		}
	}
	if j, err = s.store.Job(ctx, old.Tenant, engine.Ref{ID: old.Job}); err == nil && j.Target.Kind == job.Workflow {
		part.run = old.ID
	}
	return j, part, err
}

// retryPart retries a part of a run, and answers with the execution that runs it again.
func (s *Reruns) retryPart(ctx context.Context, p tenant.Principal, part runPart, payload []byte, once Once[job.Execution]) (e job.Execution, err error) {
	x := RunRetry{Of: part.of, Input: payload}
	x.once = func(next *engine.RunChange, _ []workflow.Change) engine.Idempotency {
		e = part.again(next)
		return once.with(e, s.now())
	}
	if part.place != nil {
		if payload != nil {
			return job.Execution{}, job.Invalids{{Field: "payload_override", Value: "(a payload)", Want: "nothing here: the workflow gives its nodes their payloads"}}
		}
		keys, err := s.keys(ctx, p, part.run, []engine.NodePlace{*part.place})
		if err != nil {
			return job.Execution{}, err
		}
		x.Nodes, x.Items = keys, true
	}
	if _, err := s.runs.retry(ctx, p, part.run, x); err != nil {
		return job.Execution{}, renamed(err, "input", "payload_override")
	}
	return e, nil
}

// again is the execution that runs a part again: its own or, as an item may have to wait for others, that of the run's next attempt.
func (p runPart) again(next *engine.RunChange) job.Execution {
	for _, m := range next.Members {
		if p.place != nil && m.Place == *p.place {
			return m.Execution
		}
	}
	e := *next.Next
	e.Status = job.Running
	return e
}

// keys names the nodes of places of a run, each once.
func (s *Reruns) keys(ctx context.Context, p tenant.Principal, run job.ExecutionID, places []engine.NodePlace) (keys []string, err error) {
	r, err := s.runs.run(ctx, p, run)
	if err != nil {
		return nil, err
	}
	seen := map[int]bool{}
	for _, place := range places {
		if n := place.Node(); n < r.graph.Len() && !seen[n] {
			seen[n] = true
			keys = append(keys, r.graph.Node(n).Key)
		}
	}
	return keys, nil
}

// retryParts retries what parts of runs stand for, each run once, and answers with how many of them are run again. What cannot be is
// passed over: a run that has not ended, for instance.
func (s *Reruns) retryParts(ctx context.Context, p tenant.Principal, parts []runPart, payload []byte) (done int, err error) {
	type group struct {
		of     job.ExecutionID
		whole  bool
		places []engine.NodePlace
		n      int
	}
	groups := map[job.ExecutionID]*group{}
	var order []job.ExecutionID
	for _, part := range parts {
		run := part.run
		if r, err := s.store.WorkflowRun(ctx, p.Tenant, run); err == nil {
			run = r.ID // an attempt's execution may name it
		} else if !errors.Is(err, engine.ErrNotFound) {
			return 0, err
		}
		g := groups[run]
		if g == nil {
			g = &group{of: part.of}
			groups[run], order = g, append(order, run)
		}
		if part.place == nil {
			g.whole = true
		} else {
			g.places = append(g.places, *part.place)
		}
		g.n++
	}
	for _, run := range order {
		g := groups[run]
		x := RunRetry{Of: g.of, Input: payload}
		if !g.whole {
			if payload != nil {
				continue
			}
			x.Items = true
			x.Nodes, err = s.keys(ctx, p, run, g.places)
		}
		if err == nil {
			_, err = s.runs.retry(ctx, p, run, x)
		}
		switch {
		case err == nil:
			done += g.n
		case refusedToRun(err):
			err = nil
		default:
			return done, err
		}
	}
	return done, nil
}

// refusedToRun reports whether an error says that something cannot be run again as it stands.
func refusedToRun(err error) bool {
	var conflict *workflow.Conflict
	var no *NotDone
	return errors.Is(err, engine.ErrNotFound) || isInvalid(err) || errors.As(err, &conflict) || errors.As(err, &no)
}

func (s *Reruns) rerun(ctx context.Context, p tenant.Principal, j job.Job, old job.Execution, t job.Trigger, payload []byte, once Once[job.Execution]) (e job.Execution, replay []byte, err error) {
	dead := t == job.ByRedrive
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
	if err := s.jobs.beginOne(ctx, p); err != nil {
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

const noDeadLetter = "The execution is no dead letter: it did not fail for good, was run again, or was discarded."

// dead reports whether an execution is a dead letter.
func (s *Reruns) dead(ctx context.Context, t tenant.ID, id job.ExecutionID) (bool, error) {
	page, err := s.store.DeadLetters(ctx, engine.DeadLetterFilter{Tenant: t, Execution: id}, engine.Page{Limit: 1})
	return len(page.DeadLetters) > 0, err
}

// whyNot says why an execution was not run again.
func (s *Reruns) whyNot(ctx context.Context, p tenant.Principal, j job.Job, old job.Execution, dead bool) error {
	what := "retry"
	if dead {
		what = "redrive"
		if is, err := s.dead(ctx, p.Tenant, old.ID); err != nil {
			return err
		} else if !is {
			return &NotDone{what, noDeadLetter}
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
