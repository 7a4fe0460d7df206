package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// decided is a decision about a run, with its input.
type decided struct {
	run    engine.WorkflowRun
	marks  []engine.RunMark
	waits  []engine.RunWait
	now    time.Time
	change *engine.RunChange
}

// BeginRuns stores runs and what their first decisions start.
func (s *Store) BeginRuns(ctx context.Context, all []engine.NewRun) (out []engine.Begun, err error) {
	defer s.begin(&ctx, opAdvance).end(&err)
	if out, err = s.Store.BeginRuns(ctx, all); err != nil {
		return out, err
	}
	for i := range out {
		if r := &all[i]; out[i].New {
			s.changed(ctx, decided{run: r.Run, now: r.Run.BegunAt, change: &r.First}, &out[i].Changed)
		}
	}
	return out, nil
}

// ChangeRuns commits decide's changes of runs.
func (s *Store) ChangeRuns(ctx context.Context, ids []job.ExecutionID, decide engine.Decide) (out []engine.RunChanged, err error) {
	defer s.begin(&ctx, opAdvance).end(&err)
	made := make(map[job.ExecutionID]decided, len(ids))
	if out, err = s.Store.ChangeRuns(ctx, ids, noting(made, decide)); err != nil {
		return out, err
	}
	s.decided(ctx, made, out)
	return out, nil
}

// FinishNodes applies transitions, and commits with them what decide says of runs.
func (s *Store) FinishNodes(ctx context.Context, fs []job.Finish, decide engine.Decide) (vs []job.Verdict, outs []engine.RunChanged, err error) {
	defer s.begin(&ctx, opFinish).end(&err)
	if s.tracer != nil {
		s.recall(ctx, fs)
	}
	made := make(map[job.ExecutionID]decided, len(fs))
	if vs, outs, err = s.Store.FinishNodes(ctx, fs, noting(made, decide)); err != nil {
		return vs, outs, err
	}
	s.count(fs, vs)
	s.decided(ctx, made, outs)
	return vs, outs, nil
}

// noting is a decide that notes what was decided.
func noting(made map[job.ExecutionID]decided, decide engine.Decide) engine.Decide {
	return func(v engine.RunView) (*engine.RunChange, error) {
		c, err := decide(v)
		made[v.Run.ID] = decided{v.Run, v.Marks, v.Waits, v.Now, c}
		return c, err
	}
}

// decided counts and tells what came of decisions.
func (s *Store) decided(ctx context.Context, made map[job.ExecutionID]decided, outs []engine.RunChanged) {
	for i := range outs {
		if d := made[outs[i].Run]; outs[i].Err == nil && d.change != nil {
			s.changed(ctx, d, &outs[i])
		}
	}
}

// changed counts and traces the result of a decision.
func (s *Store) changed(ctx context.Context, d decided, out *engine.RunChanged) {
	m := s.metrics
	m.decisionDelay.mu.Lock()
	for i := range d.marks {
		if d.marks[i].Place != engine.AskedToStop {
			m.decisionDelay.add(d.now.Sub(d.marks[i].FinishedAt))
		}
	}
	m.decisionDelay.mu.Unlock()
	for i := range out.Ended {
		e := &out.Ended[i]
		m.byStatus[e.Status].Inc()
		if e.Status == job.Failed || e.Status == job.TimedOut {
			m.deadLettered.Inc()
		}
	}
	if d.change.Finish != nil {
		if c := m.runs[workflow.Status(d.change.Status)]; c != nil {
			c.Inc()
		}
		s.endedRun(d)
	}
	if s.tracer != nil {
		s.traceRun(ctx, d)
	}
}

// endedRun counts how long a run took, if it began at this server.
func (s *Store) endedRun(d decided) {
	s.held.mu.Lock()
	h, ok := s.held.take(d.change.Finish.Outcome.Lease)
	s.held.mu.Unlock()
	if !ok {
		return
	}
	m, at := s.metrics, d.now.UnixMicro()
	m.duration.mu.Lock()
	m.duration.add(time.Duration(at-h.started) * time.Microsecond)
	m.duration.mu.Unlock()
	m.endToEnd.mu.Lock()
	m.endToEnd.add(time.Duration(at-h.begins) * time.Microsecond)
	m.endToEnd.mu.Unlock()
}

// nodesStarted counts how long nodes that started for the first time had waited.
func (m *Metrics) nodesStarted(as []job.Attempt) {
	m.nodeWait.mu.Lock()
	defer m.nodeWait.mu.Unlock()
	for i := range as {
		if a := &as[i]; !a.Run.IsZero() && a.StartedAt.Equal(a.LeasedAt) {
			m.nodeWait.add(a.LeasedAt.Sub(a.DueAt))
		}
	}
}

// traceRun ends the spans that end with a decision: of waits, and of the run itself. Runs that the decision starts
// below this one are traced if this one is.
func (s *Store) traceRun(ctx context.Context, d decided) {
	var below []engine.Trace
	for i := range d.change.Members {
		if e := &d.change.Members[i].Execution; e.Class.Needs().Target == job.Workflow {
			below = append(below, engine.Trace{Tenant: d.run.Tenant, Of: e.ID, Parent: format(rootOf(d.run.ID)), At: d.now})
		}
	}
	if len(below) == 0 && len(d.change.Closed) == 0 && !d.change.Ended {
		return
	}
	a := job.Attempt{Lease: job.Lease{Execution: d.run.ID}, Job: d.run.Workflow, Tenant: d.run.Tenant}
	x := s.tracer.chosen(ctx, s.began, []job.Attempt{a})[d.run.ID]
	if x == nil {
		return
	}
	s.metrics.tracesLost.Add(float64(s.begun.add(below)))
	s.tracer.waited(x, d)
	if d.change.Finish != nil {
		s.tellRun(ctx, d, x.link)
	}
}

// waitNames holds the names of spans of waits, by kind.
var waitNames = map[engine.WaitKind]string{engine.WaitTimer: "timer", engine.WaitApproval: "approval", engine.WaitEvent: "event"}

// waited traces how long nodes waited for instants, people and events.
func (t *Tracer) waited(x *traced, d decided) {
	over := map[int]bool{}
	for _, w := range d.change.Closed {
		over[w.Node] = true
	}
	for _, w := range d.waits {
		if name := waitNames[w.Kind]; name != "" && (d.change.Ended || over[w.Node]) {
			t.tell(x, given{span: randomSpan()}, name, w.BegunAt, d.now, attribute.Int("carillon.node_number", w.Node))
		}
	}
}

// tellRun ends the span of a finished run. A retried one has a span for each later attempt below that of the first.
func (s *Store) tellRun(ctx context.Context, d decided, link trace.SpanContext) {
	id := d.change.Finish.Outcome.Lease.Execution
	e, err := s.Store.Execution(ctx, d.run.Tenant, id)
	if err != nil {
		return // the picture has a hole
	}
	x := &traced{link: link, Attempt: job.Attempt{
		Lease: job.Lease{Execution: id}, Job: e.Job, JobName: e.JobName, Tenant: e.Tenant, Trigger: e.Trigger, Number: d.change.Attempt,
		ScheduledAt: e.ScheduledAt, Target: job.Target{Kind: job.Workflow},
	}}
	status := job.Status(d.change.Status)
	if id != d.run.ID {
		x.Run = d.run.ID
		on := spanOf(&x.Attempt)
		s.tracer.tellWhole(trace.ContextWithRemoteSpanContext(context.Background(), rootOf(x.Run)), "retry", given{on.TraceID(), on.SpanID()}, x, status, d.now)
		return
	}
	if e.Trigger == job.ByWorkflow {
		if m, err := s.Store.MemberOf(ctx, e.Tenant, id); err == nil {
			x.Run = m.Run
		}
	}
	s.tracer.ended(x, d.change.Finish, status, d.now)
}
