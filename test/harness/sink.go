package harness

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Arrival is one call of a sink.
type Arrival struct {
	At             time.Time
	Execution, Job string
	Attempt        int
	Token          int64
	Key            string    // by which the target would recognise repetitions
	Instant        time.Time // the scheduled time
	Header         http.Header
	Body           string
}

// Sink is a target that remembers who called.
type Sink struct {
	*httptest.Server
	mu       sync.Mutex
	arrivals []Arrival                                               // guarded by mu
	answer   func(http.ResponseWriter, *http.Request, Arrival) error // guarded by mu
}

// NewSink listens until the test ends.
func NewSink(t *testing.T) *Sink {
	s := &Sink{}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func (s *Sink) serve(w http.ResponseWriter, r *http.Request) {
	a := Arrival{
		At: time.Now(), Execution: r.Header.Get("X-Execution-ID"), Job: r.Header.Get("X-Job-ID"), Key: r.Header.Get("X-Idempotency-Key"),
		Header: r.Header.Clone(),
	}
	b, _ := io.ReadAll(r.Body)
	a.Body = string(b)
	a.Attempt, _ = strconv.Atoi(r.Header.Get("X-Attempt-Number"))
	a.Token, _ = strconv.ParseInt(r.Header.Get("X-Fencing-Token"), 10, 64)
	a.Instant, _ = time.Parse(time.RFC3339, r.Header.Get("X-Scheduled-Time"))
	s.mu.Lock()
	s.arrivals = append(s.arrivals, a)
	answer := s.answer
	s.mu.Unlock()
	if answer != nil && answer(w, r, a) != nil {
		w.WriteHeader(500)
	}
}

// Answer sets how calls are answered from now on; nil restores 200.
func (s *Sink) Answer(f func(http.ResponseWriter, *http.Request)) {
	if f == nil {
		s.set(nil)
		return
	}
	s.set(func(w http.ResponseWriter, r *http.Request, _ Arrival) error { f(w, r); return nil })
}

// OnArrival sets what is done before a call is answered; an error becomes a 500.
func (s *Sink) OnArrival(f func(Arrival) error) {
	s.set(func(_ http.ResponseWriter, _ *http.Request, a Arrival) error { return f(a) })
}

func (s *Sink) set(f func(http.ResponseWriter, *http.Request, Arrival) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

// Seen returns all calls so far, in order.
func (s *Sink) Seen() []Arrival { return s.Since(0) }

// Since returns all calls except the first n.
func (s *Sink) Since(n int) []Arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.arrivals[n:])
}

// Call returns the body of a job that calls the sink, with more fields.
func (s *Sink) Call(more string) string {
	return fmt.Sprintf(`{"name": "call", "execution": {"callback_url": %q, "payload": {"n": 1}}%s}`, s.URL, more)
}
