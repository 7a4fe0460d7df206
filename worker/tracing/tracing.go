// Package tracing lets a worker's handlers be part of the trace of their execution: each attempt is a span, below the
// server's span for it, and the handler's context carries it, so that the handler's calls are part of the trace, too.
//
//	w.Use(tracing.Middleware(otel.Tracer("mail")))
//
// It uses the given tracer and sets up none.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/worker"
)

// Middleware makes a span of each attempt.
func Middleware(t trace.Tracer) worker.Middleware {
	return func(next worker.Handler) worker.Handler {
		return func(ctx context.Context, a client.Attempt) (any, error) {
			parent := propagation.MapCarrier{"traceparent": a.Traceparent}
			ctx, span := t.Start(propagation.TraceContext{}.Extract(ctx, parent), "handle "+a.Kind, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
				attribute.String("carillon.execution_id", a.ExecutionID), attribute.String("carillon.job_id", a.JobID), attribute.Int("carillon.attempt_number", a.AttemptNumber),
			))
			defer span.End()
			result, err := next(ctx, a)
			if err != nil {
				span.SetStatus(codes.Error, "the handler failed")
			}
			return result, err
		}
	}
}
