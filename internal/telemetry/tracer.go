package telemetry

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/url"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// TracerConfig describes where spans are sent, and how many.
type TracerConfig struct {
	Endpoint string            // the URL of a collector
	GRPC     bool              // it speaks OTLP over gRPC; else over HTTP
	Headers  map[string]string // that go with each batch
	Sample   float64           // the share of traces to sample
	Parents  Parents           // how far callers' trace contexts are trusted
	Service  string
	Version  string
	Host     string
	Log      *slog.Logger
}

// Parents is how far callers' trace contexts are trusted.
type Parents uint8

const (
	ParentsLinked   Parents = iota // requests are part of the caller's trace; a share of those is sampled
	ParentsFollowed                // the caller decides what is sampled
	ParentsIgnored                 // not at all
)

// Tracer sends spans to a collector. A nil one sends nothing.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	sampler  sampler
	parents  Parents
}

// queueSize limits how many spans wait to be sent; more are dropped.
const queueSize = 8192

// NewTracer begins to send spans. It does not wait for the collector.
func NewTracer(ctx context.Context, c TracerConfig) (*Tracer, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("the collector's address %q is no URL", c.Endpoint)
	}
	var out sdk.SpanExporter
	if c.GRPC {
		o := []otlptracegrpc.Option{otlptracegrpc.WithEndpoint(u.Host), otlptracegrpc.WithHeaders(c.Headers)}
		if u.Scheme == "http" {
			o = append(o, otlptracegrpc.WithInsecure())
		}
		out, err = otlptracegrpc.New(ctx, o...)
	} else {
		path := u.Path
		if path == "" || path == "/" {
			path = "/v1/traces"
		}
		o := []otlptracehttp.Option{otlptracehttp.WithEndpoint(u.Host), otlptracehttp.WithURLPath(path), otlptracehttp.WithHeaders(c.Headers)}
		if u.Scheme == "http" {
			o = append(o, otlptracehttp.WithInsecure())
		}
		out, err = otlptracehttp.New(ctx, o...)
	}
	if err != nil {
		return nil, fmt.Errorf("prepare to tell traces: %w", err)
	}
	t := &Tracer{sampler: newSampler(c.Sample), parents: c.Parents}
	t.provider = sdk.NewTracerProvider(
		sdk.WithBatcher(&exporter{SpanExporter: out, log: c.Log}, sdk.WithMaxQueueSize(queueSize)),
		sdk.WithIDGenerator(ids{}), sdk.WithSampler(t.sampler),
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", c.Service), attribute.String("service.version", c.Version), attribute.String("host.name", c.Host))),
	)
	t.tracer = t.provider.Tracer("github.com/carillon-jobs/carillon")
	return t, nil
}

// Close sends the remaining spans, and ends.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// exporter logs once that spans cannot be sent, and once that they can be again.
type exporter struct {
	sdk.SpanExporter
	log     *slog.Logger
	failing atomic.Bool
}

func (e *exporter) ExportSpans(ctx context.Context, ss []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, ss)
	switch {
	case err != nil && e.failing.CompareAndSwap(false, true):
		e.log.Warn("traces cannot be told to the collector; those of now are lost", "spans", len(ss), "error", err)
	case err == nil && e.failing.CompareAndSwap(true, false):
		e.log.Info("traces are told to the collector again")
	}
	return nil // it was told
}

var propagator = propagation.TraceContext{}

// sampler follows the decision of trusted callers; of other traces it samples a share, the same on every server.
type sampler struct {
	bound uint64
	salt  uint64
}

func newSampler(share float64) sampler {
	s := sampler{salt: rand.Uint64()}
	switch {
	case share >= 1:
		s.bound = math.MaxUint64
	case share > 0:
		s.bound = uint64(share * (1 << 63) * 2)
	}
	return s
}

// takesOf reports whether a trace that a caller began is sampled. The caller has chosen its id and must not decide
// this.
func (s sampler) takesOf(id trace.TraceID) bool {
	binary.BigEndian.PutUint64(id[:8], binary.BigEndian.Uint64(id[:8])^s.salt)
	return s.takes(id)
}

// takes reports whether a trace that nobody else began is sampled. An execution's id is not random enough, so it is
// mixed.
func (s sampler) takes(id [16]byte) bool {
	if s.bound == math.MaxUint64 {
		return true
	}
	x := binary.BigEndian.Uint64(id[:8]) ^ binary.BigEndian.Uint64(id[8:])*0x9E3779B97F4A7C15
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	return x < s.bound
}

func (s sampler) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	parent := trace.SpanContextFromContext(p.ParentContext)
	out := sdk.SamplingResult{Decision: sdk.Drop, Tracestate: parent.TraceState()}
	_, given := p.ParentContext.Value(idsKey{}).(given)
	if given || parent.IsSampled() || !parent.IsValid() && s.takes(p.TraceID) {
		out.Decision = sdk.RecordAndSample
	}
	return out
}

func (s sampler) Description() string { return "carillon" }

// ids generates ids, unless they are given.
type ids struct{}

type idsKey struct{}

type given struct {
	trace trace.TraceID
	span  trace.SpanID
}

func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if g, ok := ctx.Value(idsKey{}).(given); ok {
		return g.trace, g.span
	}
	var t trace.TraceID
	binary.BigEndian.PutUint64(t[:8], rand.Uint64())
	binary.BigEndian.PutUint64(t[8:], rand.Uint64()|1)
	return t, randomSpan()
}

func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if g, ok := ctx.Value(idsKey{}).(given); ok {
		return g.span
	}
	return randomSpan()
}

func randomSpan() (s trace.SpanID) {
	binary.BigEndian.PutUint64(s[:], rand.Uint64()|1)
	return s
}

// rootOf returns the span of a whole execution, in the trace that has its id.
func rootOf(id job.ExecutionID) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID(id), SpanID: trace.SpanID(id[8:]), TraceFlags: trace.FlagsSampled, Remote: true})
}

// traceOf returns the execution whose id names the trace of an attempt: for a workflow's node the run.
func traceOf(a *job.Attempt) job.ExecutionID {
	if a.Run.IsZero() {
		return a.Execution
	}
	return a.Run
}

// spanOf returns the span of an attempt's whole execution.
func spanOf(a *job.Attempt) trace.SpanContext {
	return rootOf(traceOf(a)).WithSpanID(trace.SpanID(a.Execution[8:]))
}

// attemptOf returns the span of an attempt, whose id is the token; workers continue from it.
func attemptOf(l job.Lease) (s trace.SpanID) {
	binary.BigEndian.PutUint64(s[:], uint64(max(l.Token, 1)))
	return s
}

// parse parses a traceparent; the result is invalid if that is.
func parse(parent string) trace.SpanContext {
	return trace.SpanContextFromContext(propagator.Extract(context.Background(), propagation.MapCarrier{"traceparent": parent}))
}

// format writes a traceparent.
func format(sc trace.SpanContext) string {
	c := propagation.MapCarrier{}
	propagator.Inject(trace.ContextWithSpanContext(context.Background(), sc), c)
	return c["traceparent"]
}

// span is an optional span.
type span struct{ on trace.Span }

func (s span) end(err error) {
	if s.on == nil {
		return
	}
	if err != nil && broken(err) {
		s.on.SetStatus(codes.Error, "the store failed")
	}
	s.on.End()
}

// child begins a span of a store call, if the caller is part of a sampled trace.
func (t *Tracer) child(ctx context.Context, o op) (context.Context, span) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, span{}
	}
	ctx, s := t.tracer.Start(ctx, "store "+opNames[o], trace.WithSpanKind(trace.SpanKindClient))
	return ctx, span{s}
}
