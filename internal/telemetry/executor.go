package telemetry

import (
	"context"
	"maps"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/carillon-jobs/carillon/client"
)

// Executor runs attempts.
type Executor interface {
	Execute(ctx context.Context, a client.Attempt) client.Outcome
}

// Around makes a span of each attempt that an executor runs, below the attempt's own span, and passes it on to the
// target. A nil tracer returns the executor unchanged.
func (t *Tracer) Around(inner Executor) Executor {
	if t == nil {
		return inner
	}
	return traces{t, inner}
}

type traces struct {
	t     *Tracer
	inner Executor
}

const header = "traceparent"

func (x traces) Execute(ctx context.Context, a client.Attempt) client.Outcome {
	parent := parse(a.Traceparent)
	if !parent.IsValid() {
		return x.inner.Execute(ctx, a)
	}
	name, kind, attrs := what(a)
	ctx, s := x.t.tracer.Start(trace.ContextWithRemoteSpanContext(ctx, parent), name, trace.WithSpanKind(kind), trace.WithAttributes(attrs...))
	defer s.End()
	a.Traceparent = format(s.SpanContext())
	if _, ok := a.CallbackHeaders[header]; ok {
		a.CallbackHeaders = maps.Clone(a.CallbackHeaders)
		a.CallbackHeaders[header] = a.Traceparent
	}
	o := x.inner.Execute(ctx, a)
	if o.Response != nil && o.Response.HTTPStatus > 0 {
		s.SetAttributes(attribute.Int("http.response.status_code", o.Response.HTTPStatus))
	}
	s.SetAttributes(attribute.String("carillon.outcome", o.Status))
	if o.Error != nil && o.Status == client.Failed {
		s.SetAttributes(attribute.String("error.type", o.Error.Type))
		s.SetStatus(codes.Error, o.Error.Type)
	}
	return o
}

// what describes an attempt's action: only the host of a URL, since the rest may hold secrets.
func what(a client.Attempt) (name string, kind trace.SpanKind, attrs []attribute.KeyValue) {
	attrs = []attribute.KeyValue{attribute.String("carillon.execution_id", a.ExecutionID), attribute.String("carillon.job_id", a.JobID), attribute.Int("carillon.attempt_number", a.AttemptNumber)}
	target := a.Execution.Target
	if target != "" && target != "http" {
		return target, trace.SpanKindInternal, attrs
	}
	method := strings.ToUpper(a.Execution.Method)
	if method == "" {
		method = "POST"
	}
	if u, err := url.Parse(a.Execution.CallbackURL); err == nil {
		attrs = append(attrs, attribute.String("server.address", u.Hostname()))
	}
	return "callback " + method, trace.SpanKindClient, append(attrs, attribute.String("http.request.method", method))
}
