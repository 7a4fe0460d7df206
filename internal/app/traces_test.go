package app_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/app"
)

// receiver is a collector that keeps the spans it is told.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	mu      sync.Mutex
	spans   []*otlp.Span // guarded by mu
	service string       // guarded by mu
	keys    []string     // guarded by mu: what came with the batches
}

func (r *receiver) Export(_ context.Context, in *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range in.ResourceSpans {
		for _, a := range x.Resource.Attributes {
			if a.Key == "service.name" {
				r.service = a.Value.GetStringValue()
			}
		}
		for _, y := range x.ScopeSpans {
			r.spans = append(r.spans, y.Spans...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	data, _ := io.ReadAll(req.Body)
	var in collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(data, &in); err != nil || req.URL.Path != "/v1/traces" {
		w.WriteHeader(400)
		return
	}
	r.mu.Lock()
	r.keys = append(r.keys, req.Header.Get("X-Key"))
	r.mu.Unlock()
	r.Export(req.Context(), &in)
}

func (r *receiver) all() []*otlp.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.spans)
}

// find is the span of a name in a trace.
func (r *receiver) find(t *testing.T, trace, name string) *otlp.Span {
	t.Helper()
	var seen []string
	for _, s := range r.all() {
		if hex.EncodeToString(s.TraceId) == trace {
			if s.Name == name {
				return s
			}
			seen = append(seen, s.Name)
		}
	}
	t.Fatalf("no span %q in the trace %s, only %q", name, trace, seen)
	return nil
}

func attribute(s *otlp.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// TestTraces follows an execution from the request that began it to its target, as a collector is told it.
func TestTraces(t *testing.T) {
	onEachStore(t, func(t *testing.T, where string) {
		r := &receiver{}
		web := httptest.NewServer(r)
		defer web.Close()
		s := serve(t, where, func(o *app.Options) { o.Config.Tracing.Endpoint, o.Config.Tracing.Headers = web.URL, "X-Key=k1" })
		url, parents := sink(t)
		const caller, callerSpan = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
		j := want[client.Job](s, 201, "POST", "/api/v1/jobs", fmt.Sprintf(`{"name": "traced", "execution": {"callback_url": %q}, "retry_policy": {"max_retries": 1, "initial_delay_ms": 1}}`, url+"/path-of-a-secret"),
			"traceparent", "00-"+caller+"-"+callerSpan+"-01")
		s.ends(j.ExecutionID, "SUCCEEDED")
		const second = "4bf92f3577b34da6a3ce929d0e0e4736"
		again := want[client.Triggered](s, 202, "POST", "/api/v1/jobs/"+j.JobID+"/trigger", "", "traceparent", "00-"+second+"-"+callerSpan+"-01")
		s.ends(again.ExecutionID, "SUCCEEDED")
		s.stop() // which tells what is left

		request := r.find(t, caller, "POST /api/v1/jobs")
		if hex.EncodeToString(request.ParentSpanId) != callerSpan || request.Kind != otlp.Span_SPAN_KIND_SERVER {
			t.Errorf("the request: %v", request)
		}
		r.find(t, second, "store trigger")
		trace := strings.ReplaceAll(j.ExecutionID, "-", "")
		root := r.find(t, trace, "execution")
		if len(root.ParentSpanId) != 0 || len(root.Links) != 1 || hex.EncodeToString(root.Links[0].TraceId) != caller || string(root.Links[0].SpanId) != string(request.SpanId) || attribute(root, "carillon.status") != "SUCCEEDED" {
			t.Errorf("the execution: %v", root)
		}
		if len(request.Links) != 1 || hex.EncodeToString(request.Links[0].TraceId) != trace || string(request.Links[0].SpanId) != string(root.SpanId) {
			t.Errorf("the request is not linked to what it began: %v", request.Links)
		}
		var attempts, callbacks []*otlp.Span
		for _, x := range r.all() {
			if hex.EncodeToString(x.TraceId) != trace {
				continue
			}
			switch x.Name {
			case "attempt":
				attempts = append(attempts, x)
			case "callback POST":
				callbacks = append(callbacks, x)
			}
			if x.Name != "callback POST" && x.Name != "execution" && string(x.ParentSpanId) != string(root.SpanId) {
				t.Errorf("%s is not part of the execution", x.Name)
			}
			if x.EndTimeUnixNano < x.StartTimeUnixNano || attribute(x, "carillon.job_id") != j.JobID {
				t.Errorf("%v", x)
			}
		}
		r.find(t, trace, "trigger")
		r.find(t, trace, "wait")
		seen := parents()
		if len(attempts) != 2 || len(callbacks) != 2 || len(seen) != 3 {
			t.Fatalf("%d attempts, %d callbacks, %d calls", len(attempts), len(callbacks), len(seen))
		}
		for i, c := range callbacks {
			if !slices.ContainsFunc(attempts, func(a *otlp.Span) bool { return string(a.SpanId) == string(c.ParentSpanId) }) {
				t.Errorf("callback %d is no part of an attempt", i)
			}
			if !slices.Contains(seen, "00-"+trace+"-"+hex.EncodeToString(c.SpanId)+"-01") {
				t.Errorf("the target was called in %q", seen)
			}
			if attribute(c, "server.address") != "127.0.0.1" || strings.Contains(c.String(), "path-of-a-secret") {
				t.Errorf("callback %v", c)
			}
		}
		if link := r.find(t, strings.ReplaceAll(again.ExecutionID, "-", ""), "execution").Links; len(link) != 1 || hex.EncodeToString(link[0].TraceId) != second {
			t.Errorf("the second one is linked to %v", link)
		}
		if r.service != "carillon" || slices.Contains(r.keys, "") {
			t.Errorf("told by %q with %q", r.service, r.keys)
		}
	})
}

// TestTracesAreAShare tells no trace where the share is none, whatever callers say, unless they are followed; and passes that on.
func TestTracesAreAShare(t *testing.T) {
	const caller = "0af7651916cd43dd8448eb211c80319d"
	for how, followed := range map[string]bool{"link": false, "follow": true, "ignore": false} {
		t.Run(how, func(t *testing.T) {
			r := &receiver{}
			web := httptest.NewServer(r)
			defer web.Close()
			s := serve(t, "sqlite:"+filepath.Join(t.TempDir(), "c.db"), func(o *app.Options) {
				o.Config.Tracing.Endpoint, o.Config.Tracing.Sample, o.Config.Tracing.Parents = web.URL, "0", how
			})
			url, parents := sink(t)
			create := func(headers ...string) string {
				j := want[client.Job](s, 201, "POST", "/api/v1/jobs", fmt.Sprintf(`{"name": "x", "execution": {"callback_url": %q}, "retry_policy": {"initial_delay_ms": 1}}`, url), headers...)
				s.ends(j.ExecutionID, "SUCCEEDED")
				return strings.ReplaceAll(j.ExecutionID, "-", "")
			}
			quiet := create("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
			create()
			for _, p := range parents() {
				if !strings.HasSuffix(p, "-00") {
					t.Errorf("the target was called in %q", p)
				}
			}
			told := create("traceparent", "00-"+caller+"-b7ad6b7169203331-01")
			s.stop()
			if followed {
				r.find(t, told, "execution")
			}
			for _, x := range r.all() {
				if id := hex.EncodeToString(x.TraceId); !followed || id != told && id != caller {
					t.Errorf("%s was told, of the trace %s (%s)", x.Name, id, quiet)
				}
			}
		})
	}
}

// TestTracesOverGRPC tells a collector that speaks gRPC; one that is away is no harm.
func TestTracesOverGRPC(t *testing.T) {
	r := &receiver{}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	collector.RegisterTraceServiceServer(g, r)
	go g.Serve(ln)
	defer g.Stop()
	for _, at := range []string{ln.Addr().String(), "127.0.0.1:1"} {
		s := serve(t, "sqlite:"+filepath.Join(t.TempDir(), "c.db"), func(o *app.Options) {
			o.Config.Tracing.Endpoint, o.Config.Tracing.Protocol = "http://"+at, "grpc"
		})
		j := s.run(simulate("noop", ""), "SUCCEEDED")
		s.stop()
		if at != "127.0.0.1:1" {
			r.find(t, strings.ReplaceAll(j.ExecutionID, "-", ""), "execution")
		}
	}
}
