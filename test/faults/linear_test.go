//go:build unix

package faults

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	judge "github.com/carillon-jobs/carillon/internal/check"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/test/harness"
)

// The check of linearizability is itself checked, over a server whose store breaks one promise: what two workers are told through
// the recorder gives it away. Over the store as it is, the same calls are in order.
func TestAMutatedStoreIsNotLinear(t *testing.T) {
	for _, c := range []struct {
		name   string
		mutant func(engine.Store) engine.Store
		script func(a, b *hand)
		says   string
	}{
		{"a stale result is taken", func(s engine.Store) engine.Store {
			return &tokenBlind{Store: s, newest: map[job.ExecutionID]job.Token{}}
		}, func(a, b *hand) {
			old := a.claim()
			a.release(old)
			b.claim()
			a.complete(old)
		}, "-> accepted"},
		{"a result is taken and forgotten, and the next one too", func(s engine.Store) engine.Store { return &forgetful{Store: s} }, func(a, b *hand) {
			a.complete(a.claim())
			a.leave()
			if again, ok := b.try(2 * time.Second); ok { // over the store as it is there is nothing left
				b.complete(again)
			}
		}, "claim token="},
		{"a token is used again", func(s engine.Store) engine.Store { return &thrifty{Store: s, first: map[job.ExecutionID]job.Token{}} }, func(a, b *hand) {
			a.release(a.claim())
			b.complete(b.claim())
		}, "claim token="},
	} {
		t.Run(c.name, func(t *testing.T) {
			stores(t, func(t *testing.T, where string) {
				vs := scripted(t, where, c.mutant, c.script)
				if len(vs) != 1 || vs[0].Check != "linearizability" || !strings.Contains(vs[0].What, c.says) {
					t.Errorf("want one violation that says %q, got %v", c.says, vs)
				}
			})
		})
		t.Run(c.name+", not", func(t *testing.T) {
			stores(t, func(t *testing.T, where string) {
				for _, v := range scripted(t, where, func(s engine.Store) engine.Store { return s }, c.script) {
					t.Error(v)
				}
			})
		})
	}
}

// hand is a worker that does what a test says.
type hand struct {
	*testing.T
	*client.Client
	client.Session
}

// scripted lets two workers do something with one execution, and judges what they were told.
func scripted(t *testing.T, where string, wrap func(engine.Store) engine.Store, script func(a, b *hand)) []judge.Violation {
	base, _ := inProcess(t, where, wrap)
	rec := harness.NewRecorder()
	front := rec.Front(t, func() string { return base })
	users := client.New([]string{base}, harness.Key)
	j, err := users.CreateJob(t.Context(), client.JobRequest{Name: "by hand", Execution: client.Target{Target: "worker", Kind: "by-hand"}})
	if err != nil {
		t.Fatal(err)
	}
	hands := make([]*hand, 2)
	for i := range hands {
		h := &hand{T: t, Client: client.New([]string{front}, harness.Key)}
		var err error
		if h.Session, err = h.Register(t.Context(), client.Registration{Kinds: []string{"by-hand"}, Capacity: 4}); err != nil {
			t.Fatal(err)
		}
		hands[i] = h
	}
	script(hands[0], hands[1])
	for _, e := range harness.Read[client.Executions](harness.At(t, base), "/api/v1/jobs/"+j.JobID+"/executions").Executions {
		rec.Ended(e, harness.Read[client.Events](harness.At(t, base), "/api/v1/executions/"+e.ExecutionID+"/events").Events)
	}
	return judge.Linear(rec.History)
}

// try waits for something to do; of several the last.
func (h *hand) try(within time.Duration) (client.Attempt, bool) {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), within)
	defer cancel()
	as, err := h.Claim(ctx, h.Session, 1)
	if err != nil {
		h.Fatal(err)
	}
	if len(as) == 0 {
		return client.Attempt{}, false
	}
	return as[len(as)-1], true
}

func (h *hand) claim() client.Attempt {
	h.Helper()
	a, ok := h.try(harness.Slack * 10 * time.Second)
	if !ok {
		h.Fatal("there is nothing to do")
	}
	return a
}

func (h *hand) complete(a client.Attempt) {
	h.Helper()
	if _, err := h.Report(h.Context(), h.Session, []client.Outcome{{ExecutionID: a.ExecutionID, FencingToken: a.FencingToken, Status: client.Succeeded}}); err != nil {
		h.Fatal(err)
	}
}

func (h *hand) release(a client.Attempt) {
	h.Helper()
	if err := h.Release(h.Context(), h.Session, []client.Held{{ExecutionID: a.ExecutionID, FencingToken: a.FencingToken}}); err != nil {
		h.Fatal(err)
	}
}

func (h *hand) leave() {
	h.Helper()
	if err := h.Leave(h.Context(), h.Session); err != nil {
		h.Fatal(err)
	}
}

// tokenBlind takes every result as if it came under the newest token.
type tokenBlind struct {
	engine.Store
	mu     sync.Mutex
	newest map[job.ExecutionID]job.Token // guarded by mu
}

func (s *tokenBlind) Lease(ctx context.Context, gs []engine.Grant, f engine.Fence) ([]job.Attempt, error) {
	as, err := s.Store.Lease(ctx, gs, f)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range as {
		s.newest[a.Execution] = a.Token
	}
	return as, err
}

func (s *tokenBlind) Finish(ctx context.Context, fs []job.Finish) ([]job.Verdict, error) {
	s.mu.Lock()
	fs = slices.Clone(fs)
	for i := range fs {
		fs[i].Outcome.Token, fs[i].Worker = s.newest[fs[i].Outcome.Execution], job.WorkerID{}
	}
	s.mu.Unlock()
	return s.Store.Finish(ctx, fs)
}

// forgetful acknowledges the first result and does not store it.
type forgetful struct {
	engine.Store
	mu    sync.Mutex
	heard bool // guarded by mu
}

func (s *forgetful) Finish(ctx context.Context, fs []job.Finish) ([]job.Verdict, error) {
	s.mu.Lock()
	heard := s.heard
	s.heard = true
	s.mu.Unlock()
	if heard {
		return s.Store.Finish(ctx, fs)
	}
	vs := make([]job.Verdict, len(fs))
	for i, f := range fs {
		vs[i] = job.Verdict{Execution: f.Outcome.Execution, Accepted: true}
	}
	return vs, nil
}

// thrifty gives an execution the same token each time.
type thrifty struct {
	engine.Store
	mu    sync.Mutex
	first map[job.ExecutionID]job.Token // guarded by mu
}

func (s *thrifty) Lease(ctx context.Context, gs []engine.Grant, f engine.Fence) ([]job.Attempt, error) {
	as, err := s.Store.Lease(ctx, gs, f)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, a := range as {
		if t, ok := s.first[a.Execution]; ok {
			as[i].Token = t
		} else {
			s.first[a.Execution] = a.Token
		}
	}
	return as, err
}
