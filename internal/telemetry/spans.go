package telemetry

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Request begins the span of a request, in the trace that the caller names, as far as callers are trusted; done ends
// it with the status of the response. A nil tracer begins none.
func (t *Tracer) Request(r *http.Request, route string) (_ *http.Request, done func(code int)) {
	if t == nil {
		return r, nil
	}
	ctx, s := t.tracer.Start(t.joined(r), route, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attribute.String("http.request.method", r.Method), attribute.String("http.route", route)))
	return r.WithContext(ctx), func(code int) {
		s.SetAttributes(attribute.Int("http.response.status_code", code))
		if code >= 500 {
			s.SetStatus(codes.Error, "")
		}
		s.End()
	}
}

// joined returns the context of a request that may be part of a caller's trace. A caller can only claim membership: a
// trace that it marks as sampled still passes the sampler, unless the settings trust it; one that it marks as not
// sampled is not.
func (t *Tracer) joined(r *http.Request) context.Context {
	if t.parents == ParentsIgnored {
		return r.Context()
	}
	ctx := propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	parent := trace.SpanContextFromContext(ctx)
	if t.parents == ParentsFollowed || !parent.IsSampled() || t.sampler.takesOf(parent.TraceID()) {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, parent.WithTraceFlags(parent.TraceFlags()&^trace.FlagsSampled))
}

// TraceID returns the sampled trace that a context is part of; "" if none.
func TraceID(ctx context.Context) string {
	if sc := trace.SpanContextFromContext(ctx); sc.IsSampled() {
		return sc.TraceID().String()
	}
	return ""
}

const (
	mostKept   = 1000 // how many of a request's jobs and executions are linked to it
	mostLinked = 16   // and recorded with its span
)

// Begun records that a request begins jobs and executions, before they are stored, so that their traces can be
// linked. It does not wait. If the request is not in a sampled trace it does nothing.
func (s *Store) Begun(ctx context.Context, t tenant.ID, ids ...[16]byte) {
	if s.tracer == nil || len(ids) == 0 {
		return
	}
	on := trace.SpanFromContext(ctx)
	if !on.IsRecording() {
		return
	}
	for _, id := range ids[:min(len(ids), mostLinked)] {
		on.AddLink(trace.Link{SpanContext: rootOf(job.ExecutionID(id))})
	}
	parent, now := format(on.SpanContext()), s.clock.Now().UTC().Truncate(time.Microsecond)
	ts := make([]engine.Trace, min(len(ids), mostKept))
	for i := range ts {
		ts[i] = engine.Trace{Tenant: t, Of: ids[i], Parent: parent, At: now}
	}
	s.metrics.tracesLost.Add(float64(s.begun.add(ts)))
}

// Step is the delivery step that marks in the traceparent of an attempt whether its trace is sampled.
func (s *Store) Step(_ context.Context, a job.Attempt, out *client.Attempt) error {
	if s.tracer == nil {
		return nil
	}
	s.held.mu.Lock()
	h, ok := s.held.find(a.Lease)
	s.held.mu.Unlock()
	if n := len(out.Traceparent); n > 2 && (!ok || h.traced == nil) {
		out.Traceparent = out.Traceparent[:n-2] + "00"
	}
	return nil
}

// traced holds the attributes of an attempt's spans.
type traced struct {
	job.Attempt
	link trace.SpanContext // of the request that began the execution, or its job; invalid: unknown
}

// chosen returns the attempts in sampled traces: those of executions that a sampled request itself began, and a share
// of the others. A sampled request that created their job long ago is only a link. Nodes of a workflow are sampled if
// their run is.
func (t *Tracer) chosen(ctx context.Context, began lookup, as []job.Attempt) map[job.ExecutionID]*traced {
	links := t.links(ctx, began, as)
	out := map[job.ExecutionID]*traced{}
	for i := range as {
		a := &as[i]
		whole := traceOf(a)
		link := links[whole]
		told := link.IsSampled() || t.sampler.takes(whole)
		if !link.IsValid() {
			link = links[job.ExecutionID(a.Job)]
		}
		if told {
			x := &traced{Attempt: *a, link: link}
			x.Payload, x.Target = nil, job.Target{Kind: a.Target.Kind}
			out[a.Execution] = x
		}
	}
	return out
}

// leased samples attempts, and traces how they came to be leased.
func (t *Tracer) leased(ctx context.Context, began lookup, as []job.Attempt) map[job.ExecutionID]*traced {
	out := t.chosen(ctx, began, as)
	for _, x := range out {
		a := &x.Attempt
		if a.StartedAt.Equal(a.LeasedAt) && a.Run.IsZero() {
			at := a.Execution.At()
			if at.Before(a.ScheduledAt) {
				at = a.ScheduledAt
			}
			t.tell(x, given{span: randomSpan()}, "trigger", a.ScheduledAt, at, attribute.String("carillon.trigger", a.Trigger.String()))
		}
		t.tell(x, given{span: randomSpan()}, "wait", a.DueAt, a.LeasedAt, attribute.Int("carillon.attempt_number", a.Number))
	}
	return out
}

// lookup finds the origins of jobs and executions.
type lookup func(ctx context.Context, ids [][16]byte) ([]engine.Trace, error)

// links finds the requests that began executions, and their jobs.
func (t *Tracer) links(ctx context.Context, began lookup, as []job.Attempt) map[job.ExecutionID]trace.SpanContext {
	ids := make([][16]byte, 0, 2*len(as))
	for i := range as {
		ids = append(ids, traceOf(&as[i]))
		if job.ID(as[i].Execution) != as[i].Job && as[i].Run.IsZero() {
			ids = append(ids, as[i].Job)
		}
	}
	found, err := began(ctx, ids)
	if err != nil {
		return nil
	}
	out := make(map[job.ExecutionID]trace.SpanContext, len(found))
	for _, x := range found {
		out[x.Of] = parse(x.Parent)
	}
	return out
}

// tell sends a span below that of an execution.
func (t *Tracer) tell(x *traced, g given, name string, from, to time.Time, more ...attribute.KeyValue) trace.Span {
	ctx := trace.ContextWithRemoteSpanContext(context.WithValue(context.Background(), idsKey{}, g), spanOf(&x.Attempt))
	_, s := t.tracer.Start(ctx, name, trace.WithTimestamp(from), trace.WithAttributes(append(more, about(x)...)...))
	if !to.IsZero() {
		s.End(trace.WithTimestamp(later(from, to)))
	}
	return s
}

func later(a, b time.Time) time.Time {
	if b.Before(a) {
		return a
	}
	return b
}

// about returns the attributes of every span of an execution.
func about(x *traced) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("carillon.execution_id", x.Execution.String()), attribute.String("carillon.job_id", x.Job.String()), attribute.String("carillon.tenant_id", string(x.Tenant)),
	}
}

// ended sends the span of an attempt and, if its status shows that the execution has ended, of that.
func (t *Tracer) ended(x *traced, f *job.Finish, status job.Status, now time.Time) {
	runs := x.Target.Kind == job.Workflow
	if !runs { // a run's own attempt lasts as long as the run
		t.endedAttempt(x, f, now)
	}
	if !status.Final() {
		return
	}
	root := given{trace.TraceID(x.Execution), rootOf(x.Execution).SpanID()}
	if x.Run.IsZero() {
		name := "execution"
		if runs {
			name = "run"
		}
		t.tellWhole(context.Background(), name, root, x, status, now, x.link)
		return
	}
	on := spanOf(&x.Attempt)
	in := trace.ContextWithRemoteSpanContext(context.Background(), rootOf(x.Run))
	if !runs {
		t.tellWhole(in, "node", given{on.TraceID(), on.SpanID()}, x, status, now)
		return
	}
	// A node that is a workflow is a run, which has its own trace.
	t.tellWhole(in, "node", given{on.TraceID(), on.SpanID()}, x, status, now, rootOf(x.Execution))
	t.tellWhole(context.Background(), "run", root, x, status, now, on)
}

// endedAttempt sends the span of an attempt.
func (t *Tracer) endedAttempt(x *traced, f *job.Finish, now time.Time) {
	s := t.tell(x, given{span: attemptOf(f.Outcome.Lease)}, "attempt", x.LeasedAt, time.Time{},
		attribute.Int("carillon.attempt_number", x.Number), attribute.Int64("carillon.fencing_token", int64(f.Outcome.Token)), attribute.String("carillon.target", string(x.Target.Kind)))
	if !f.Worker.IsZero() {
		s.SetAttributes(attribute.String("carillon.worker_id", f.Worker.String()))
	}
	if e := f.Outcome.Error; e != nil && f.Outcome.Status != job.OutcomeSucceeded {
		s.SetAttributes(attribute.String("error.type", string(e.Type)))
		if f.Outcome.Status == job.OutcomeFailed {
			s.SetStatus(codes.Error, string(e.Type))
		}
	}
	s.End(trace.WithTimestamp(later(x.LeasedAt, now)))
}

// tellWhole sends the span of a whole execution.
func (t *Tracer) tellWhole(in context.Context, name string, g given, x *traced, status job.Status, now time.Time, links ...trace.SpanContext) {
	o := []trace.SpanStartOption{trace.WithTimestamp(x.ScheduledAt), trace.WithAttributes(append(about(x),
		attribute.String("carillon.job_name", x.JobName), attribute.String("carillon.status", status.String()), attribute.String("carillon.trigger", x.Trigger.String()), attribute.Int("carillon.attempts", x.Number))...)}
	for _, l := range links {
		if l.IsValid() {
			o = append(o, trace.WithLinks(trace.Link{SpanContext: l}))
		}
	}
	_, whole := t.tracer.Start(context.WithValue(in, idsKey{}, g), name, o...)
	if status != job.Succeeded && status != job.Cancelled {
		whole.SetStatus(codes.Error, status.String())
	}
	whole.End(trace.WithTimestamp(later(x.ScheduledAt, now)))
}
