package telemetry

import (
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/trace"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// A share of ids that are made one after the other is that share, on every server the same.
func TestShare(t *testing.T) {
	const n = 20_000
	for _, share := range []float64{0, 0.01, 0.25, 0.5, 0.9, 1} {
		s, told := newSampler(share), 0
		for range n {
			if s.takes(uuid.Must(uuid.NewV7())) {
				told++
			}
		}
		if got := float64(told) / n; got < share*0.9-0.005 || got > share*1.1+0.005 || share == 1 && told != n || share == 0 && told != 0 {
			t.Errorf("of a share of %v %v are told", share, got)
		}
	}
}

// elsewhere is a store whose leases another server gave.
type elsewhere struct {
	engine.Store
	held []job.Held
}

func (s elsewhere) Held(context.Context, []job.Lease) ([]job.Held, error)      { return s.held, nil }
func (s elsewhere) Traces(context.Context, [][16]byte) ([]engine.Trace, error) { return nil, nil }
func (s elsewhere) Finish(context.Context, []job.Finish) ([]job.Verdict, error) {
	return []job.Verdict{{Execution: s.held[0].ID, Accepted: true}}, nil
}

// An attempt that another server handed out is told by the one that takes its result.
func TestAttemptOfAnotherServer(t *testing.T) {
	var mu sync.Mutex
	var told strings.Builder
	c := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		io.Copy(&told, r.Body)
	}))
	defer c.Close()
	tracer, err := NewTracer(t.Context(), TracerConfig{Endpoint: c.URL, Sample: 1, Service: "s", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	id := job.ExecutionID(uuid.Must(uuid.NewV7()))
	at := time.Now().Add(-time.Minute)
	inner := elsewhere{held: []job.Held{{Execution: job.Execution{ID: id, Token: 7, ScheduledAt: at, LeasedAt: at, StartedAt: at, Attempt: 1}}}}
	s := Over(inner, clock.System{}, NewMetrics("test"), tracer)
	_, err = s.Finish(t.Context(), []job.Finish{{Outcome: job.Outcome{Lease: job.Lease{Execution: id, Token: 7}, Status: job.OutcomeSucceeded}, Then: job.Transition{Move: job.Done, Status: job.Succeeded}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	trace, _ := hex.DecodeString(strings.ReplaceAll(id.String(), "-", ""))
	if got := told.String(); !strings.Contains(got, "attempt") || !strings.Contains(got, "execution") || !strings.Contains(got, string(trace)) {
		t.Errorf("told %q", got)
	}
}

// A caller that says that its trace is told does not make it so: the share is taken of what callers say, and not by an id that
// they can choose. What they say is not told is not.
func TestParents(t *testing.T) {
	const n = 4000
	share := func(how Parents, sample float64, flags string) (told, theirs float64) {
		t.Helper()
		tracer := tell(t, TracerConfig{Sample: sample, Parents: how})
		for range n {
			r := httptest.NewRequest("GET", "/", nil)
			id := strings.ReplaceAll(uuid.NewString(), "-", "")
			r.Header.Set("traceparent", "00-"+id+"-b7ad6b7169203331-"+flags)
			r, done := tracer.Request(r, "GET /")
			if TraceID(r.Context()) != "" {
				told++
			}
			if trace.SpanContextFromContext(r.Context()).TraceID().String() == id {
				theirs++
			}
			done(200)
		}
		return told / n, theirs / n
	}
	for _, c := range []struct {
		how          Parents
		sample       float64
		flags        string
		told, theirs float64
	}{
		{ParentsLinked, 1, "01", 1, 1},
		{ParentsLinked, 0.25, "01", 0.25, 1},
		{ParentsLinked, 0, "01", 0, 1},
		{ParentsLinked, 1, "00", 0, 1},
		{ParentsFollowed, 0, "01", 1, 1},
		{ParentsFollowed, 1, "00", 0, 1},
		{ParentsIgnored, 0.25, "01", 0.25, 0},
		{ParentsIgnored, 1, "00", 1, 0},
	} {
		told, theirs := share(c.how, c.sample, c.flags)
		if told < c.told*0.8 || told > c.told*1.2 || theirs != c.theirs {
			t.Errorf("%+v: %v are told, %v are part of the caller's", c, told, theirs)
		}
	}
	// One that is told by one server, and not by another, shows that nobody can know which is.
	differ, one, other := false, newSampler(0.5), newSampler(0.5)
	for range 100 {
		id := trace.TraceID(uuid.New())
		differ = differ || one.takesOf(id) != other.takesOf(id)
	}
	if !differ {
		t.Error("who knows the code knows which are told")
	}
}

// tell is a tracer whose collector is nowhere.
func tell(t *testing.T, c TracerConfig) *Tracer {
	t.Helper()
	c.Endpoint, c.Log = "http://127.0.0.1:1", slog.New(slog.DiscardHandler)
	tracer, err := NewTracer(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // nobody waits for a collector that does not exist
		_ = tracer.Close(ctx)
	})
	return tracer
}

// slow is a store that keeps traces when it is let.
type slow struct {
	elsewhere
	begun, let chan struct{}
	kept       [][]engine.Trace
	err        error
}

func (s *slow) KeepTraces(_ context.Context, ts []engine.Trace) error {
	s.begun <- struct{}{}
	<-s.let
	s.kept = append(s.kept, ts)
	return s.err
}

func (s *slow) Traces(context.Context, [][16]byte) ([]engine.Trace, error) { return nil, nil }

// What requests begin is kept in the background, many in a commit, and found meanwhile; what there is no room for, or the store
// does not take, is counted.
func TestBegunIsKeptInBatches(t *testing.T) {
	inner := &slow{begun: make(chan struct{}), let: make(chan struct{})}
	m := NewMetrics("test")
	tracer := tell(t, TracerConfig{Sample: 1})
	s := Over(inner, clock.System{}, m, tracer)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.KeepBegun(ctx) }()
	r, done := tracer.Request(httptest.NewRequest("POST", "/", nil), "POST /")
	defer done(200)
	id := func(n int) [16]byte { return [16]byte{1, byte(n), byte(n >> 8), byte(n >> 16)} }
	begin := func(ids ...[16]byte) { s.Begun(r.Context(), "t", ids...) } // which hangs where it waits for the store
	begin(id(0))
	<-inner.begun
	const more = 500
	for n := range more {
		begin(id(n + 1))
	}
	for _, n := range []int{0, 1, more} { // in the hands of the store, and waiting
		if got, err := s.began(t.Context(), [][16]byte{id(n)}); err != nil || len(got) != 1 || got[0].Tenant != "t" || !parse(got[0].Parent).IsSampled() {
			t.Errorf("%d: %+v, %v", n, got, err)
		}
	}
	inner.let <- struct{}{}
	<-inner.begun
	inner.let <- struct{}{}
	lost := func() float64 { return testutil.ToFloat64(m.tracesLost) }
	for lost() == 0 { // until the buffer is full, however quick it was written meanwhile
		select {
		case <-inner.begun:
		default:
		}
		begin(fresh(mostKept)...)
	}
	inner.err = engine.ErrUnavailable
	stop()
	was := lost()
	for {
		select {
		case <-inner.begun:
			continue
		case inner.let <- struct{}{}:
			continue
		case <-ended:
		}
		break
	}
	if len(inner.kept) < 3 || len(inner.kept[0]) != 1 || len(inner.kept[1]) != more {
		t.Errorf("kept in %d batches", len(inner.kept))
	}
	if last := len(inner.kept[len(inner.kept)-1]); lost() < was+float64(last) {
		t.Errorf("%v were lost, and %v when %d more could not be kept", was, lost(), last)
	}
	if got, _ := s.began(t.Context(), [][16]byte{id(1)}); len(got) != 0 {
		t.Errorf("it is held on to: %+v", got)
	}
}

// fresh are new ids.
func fresh(n int) (out [][16]byte) {
	for range n {
		out = append(out, uuid.New())
	}
	return out
}

// Generations forget what ended elsewhere, and never what is young.
func TestHeldIsBounded(t *testing.T) {
	h := newHeld()
	lease := func(n int) job.Lease {
		return job.Lease{Execution: job.ExecutionID{byte(n), byte(n >> 8), byte(n >> 16)}, Token: job.Token(n + 1)}
	}
	for n := range 3*generation + 1 {
		h.add([]job.Attempt{{Lease: lease(n)}}, nil)
	}
	if len(h.young)+len(h.old) > 2*generation {
		t.Errorf("%d are held", len(h.young)+len(h.old))
	}
	for n, want := range map[int]bool{0: false, generation: false, 2*generation + 1: true, 3 * generation: true} {
		if _, ok := h.take(lease(n)); ok != want {
			t.Errorf("lease %d: %v", n, ok)
		}
	}
	last := lease(3*generation - 1)
	last.Token++
	if _, ok := h.take(last); ok {
		t.Error("taken under another token")
	}
}

// Without tracing nothing is begun, changed or wrapped.
func TestNoTracer(t *testing.T) {
	var none *Tracer
	r := httptest.NewRequest("GET", "/", nil)
	if got, done := none.Request(r, "/"); got != r || done != nil {
		t.Error("a span was begun")
	}
	if e := none.Around(runs{}); e != (runs{}) {
		t.Error("the executor is wrapped")
	}
	if err := none.Close(t.Context()); err != nil {
		t.Error(err)
	}
	s := Over(elsewhere{}, clock.System{}, NewMetrics("test"), none)
	a := client.Attempt{Traceparent: "00-a-b-01"}
	s.Begun(t.Context(), "t", [16]byte{1})
	if err := s.Step(t.Context(), job.Attempt{}, &a); err != nil || a.Traceparent != "00-a-b-01" {
		t.Errorf("%v, %+v", err, a)
	}
}

type runs struct{}

func (runs) Execute(context.Context, client.Attempt) client.Outcome { return client.Outcome{} }
