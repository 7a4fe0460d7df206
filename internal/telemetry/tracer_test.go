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
