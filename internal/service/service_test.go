package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// fakeStore answers creations as the test says.
type fakeStore struct {
	keeping
	create func(ctx context.Context, cs []engine.Creation) ([]engine.Created, error)
}

func (f fakeStore) CreateJobs(ctx context.Context, cs []engine.Creation) ([]engine.Created, error) {
	return f.create(ctx, cs)
}

func noop() job.Definition {
	return job.Definition{
		Name: "n", Priority: 5, Queue: job.DefaultQueue, Schedule: job.Schedule{Type: job.Immediate}, Retry: job.DefaultRetry,
		Target: job.Target{Kind: job.Simulate, WorkKind: "noop", Timeout: time.Second},
	}
}

// idle fails unless nothing waits at the gate or is on its way through it.
func idle(t *testing.T, g *gate) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.going != 0 || len(g.waiting) != 0 {
		t.Errorf("%d commits on their way, %d wait", g.going, len(g.waiting))
	}
}

func TestSingleCreatesShareCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, jobs := 0, 0
		var mu sync.Mutex
		s := New(fakeStore{create: func(_ context.Context, cs []engine.Creation) ([]engine.Created, error) {
			<-time.After(time.Millisecond) // as long as a commit takes
			mu.Lock()
			defer mu.Unlock()
			calls, jobs = calls+1, jobs+len(cs)
			out := make([]engine.Created, len(cs))
			for i, c := range cs {
				if c.Jobs[0].Key == "taken" {
					out[i].Taken = "taken"
				}
			}
			return out, nil
		}}, clock.System{}, Config{})
		var wg sync.WaitGroup
		began := time.Now()
		for i := range 500 {
			wg.Go(func() {
				d := noop()
				if i%10 == 0 {
					d.Key = "taken"
				}
				_, _, err := s.CreateJob(t.Context(), tenant.Local(), d, Once[[]NewJob]{})
				var taken *KeyTaken
				if (i%10 == 0) != errors.As(err, &taken) || i%10 != 0 && err != nil {
					t.Errorf("%d: %v", i, err)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if took := time.Since(began); jobs != 500 || calls > 4 || took > 2*time.Millisecond {
			t.Errorf("%d jobs in %d commits and %v", jobs, calls, took)
		}
		idle(t, s.gate)
	})
}

func TestAFullGateTurnsAway(t *testing.T) {
	stuck := make(chan struct{})
	s := New(fakeStore{create: func(_ context.Context, cs []engine.Creation) ([]engine.Created, error) {
		<-stuck
		return make([]engine.Created, len(cs)), nil
	}}, clock.System{}, Config{})
	s.gate.waiting = make([]*passage, maxWaiting)
	for i := range s.gate.waiting {
		s.gate.waiting[i] = &passage{done: make(chan answer, 1)}
	}
	if _, _, err := s.CreateJob(t.Context(), tenant.Local(), noop(), Once[[]NewJob]{}); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	close(stuck)
}

func TestACallerWhoGivesUpFailsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(fakeStore{create: func(ctx context.Context, cs []engine.Creation) ([]engine.Created, error) {
			<-time.After(time.Second)
			return make([]engine.Created, len(cs)), ctx.Err()
		}}, clock.System{}, Config{})
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				ctx := t.Context()
				if i%2 == 0 {
					short, cancel := context.WithTimeout(ctx, time.Millisecond)
					defer cancel()
					ctx = short
				}
				_, _, err := s.CreateJob(ctx, tenant.Local(), noop(), Once[[]NewJob]{})
				if gaveUp := i%2 == 0; errors.Is(err, context.DeadlineExceeded) != gaveUp || !gaveUp && err != nil {
					t.Errorf("%d: %v", i, err)
				}
			})
		}
		wg.Wait()
		<-time.After(time.Minute) // a commit that carries only callers who gave up is still on its way
		idle(t, s.gate)
	})
}

func TestAStoreThatFailsFailsAllOfItsCommit(t *testing.T) {
	s := New(fakeStore{create: func(context.Context, []engine.Creation) ([]engine.Created, error) {
		return nil, fmt.Errorf("away: %w", engine.ErrUnavailable)
	}}, clock.System{}, Config{})
	if _, _, err := s.CreateJob(t.Context(), tenant.Local(), noop(), Once[[]NewJob]{}); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestRolesAreChecked(t *testing.T) {
	s := New(nil, clock.System{}, Config{}) // a store would panic
	viewer := tenant.Principal{Tenant: "t", Role: tenant.Viewer}
	worker := tenant.Principal{Tenant: "t", Role: tenant.Worker}
	for name, err := range map[string]error{
		"create": func() error { _, _, err := s.CreateJob(t.Context(), viewer, noop(), Once[[]NewJob]{}); return err }(),
		"batch":  func() error { _, _, err := s.CreateJobs(t.Context(), viewer, nil, Once[[]NewJob]{}); return err }(),
		"delete": func() error { _, err := s.DeleteJob(t.Context(), viewer, engine.Ref{}); return err }(),
		"trigger": func() error {
			_, _, err := s.Trigger(t.Context(), viewer, engine.Ref{}, nil, Once[job.Execution]{})
			return err
		}(),
		"job":       func() error { _, err := s.Job(t.Context(), worker, engine.Ref{}); return err }(),
		"jobs":      func() error { _, err := s.FindJobs(t.Context(), worker, engine.JobFilter{}, engine.Page{}); return err }(),
		"execution": func() error { _, err := s.Execution(t.Context(), worker, job.ExecutionID{}); return err }(),
		"executions": func() error {
			_, err := s.FindExecutions(t.Context(), worker, engine.Ref{}, engine.ExecutionFilter{}, engine.Page{})
			return err
		}(),
	} {
		if !errors.Is(err, ErrForbidden) {
			t.Errorf("%s: got %v, want ErrForbidden", name, err)
		}
	}
}
