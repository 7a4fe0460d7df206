package tracing_test

import (
	"context"
	"errors"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/worker/tracing"
)

func TestMiddleware(t *testing.T) {
	told := tracetest.NewInMemoryExporter()
	tracer := sdk.NewTracerProvider(sdk.WithSyncer(told)).Tracer("test")
	var inside trace.SpanContext
	fails := errors.New("no luck")
	h := tracing.Middleware(tracer)(func(ctx context.Context, a client.Attempt) (any, error) {
		inside = trace.SpanContextFromContext(ctx)
		return a.Kind, fails
	})
	result, err := h(t.Context(), client.Attempt{Kind: "mail", Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
	if result != "mail" || !errors.Is(err, fails) {
		t.Errorf("got %v, %v", result, err)
	}
	spans := told.GetSpans()
	if len(spans) != 1 {
		t.Fatalf("%d spans", len(spans))
	}
	s := spans[0]
	if s.Name != "handle mail" || s.SpanContext.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" || s.Parent.SpanID().String() != "b7ad6b7169203331" || s.SpanContext.SpanID() != inside.SpanID() || s.Status.Code != codes.Error {
		t.Errorf("span %+v, inside %v", s, inside)
	}
	if s.Status.Description != "the handler failed" || len(s.Events) != 0 {
		t.Errorf("a handler's error is its own business: %+v", s)
	}
}
