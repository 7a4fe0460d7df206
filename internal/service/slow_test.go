package service

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// slowStore takes its time over each write, one at a time and in turn, as a store with one slow disk does.
type slowStore struct {
	keeping
	takes time.Duration
	disk  chan struct{} // of one

	mu      sync.Mutex
	commits int // guarded by mu
	jobs    int // guarded by mu: created
	most    int // guarded by mu: in one commit
}

func newSlowStore(takes time.Duration) *slowStore {
	return &slowStore{takes: takes, disk: make(chan struct{}, 1)}
}

func (s *slowStore) write() {
	s.disk <- struct{}{}
	<-time.After(s.takes)
	<-s.disk
}

func (s *slowStore) CreateJobs(_ context.Context, cs []engine.Creation) ([]engine.Created, error) {
	s.write()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range cs {
		n += len(c.Jobs)
	}
	s.commits, s.jobs, s.most = s.commits+1, s.jobs+n, max(s.most, n)
	return make([]engine.Created, len(cs)), nil
}

func (s *slowStore) Job(context.Context, tenant.ID, engine.Ref) (job.Job, error) {
	return job.Job{ID: job.ID{1}, Definition: noop()}, nil
}

func (s *slowStore) Trigger(context.Context, tenant.ID, job.Execution, engine.Idempotency, *audit.Entry) (engine.Created, error) {
	s.write()
	return engine.Created{}, nil
}

// beat is any write of a worker's: a renewal, a finish.
func (s *slowStore) beat() time.Duration {
	began := time.Now()
	s.write()
	return time.Since(began)
}

func TestASlowStoreShedsCreationsBeforeBeatsSuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSlowStore(3 * time.Second)
		s := New(store, clock.System{}, Config{})
		var wg sync.WaitGroup
		var mu sync.Mutex
		stored, shed := 0, 0
		batch := make([]job.Definition, 500)
		for i := range batch {
			batch[i] = noop()
		}
		for i := range 300 { // ten a second for half a minute, each of five hundred jobs
			wg.Go(func() {
				<-time.After(time.Duration(i) * 100 * time.Millisecond)
				began := time.Now()
				_, _, err := s.CreateJobs(t.Context(), tenant.Local(), batch, Once[[]NewJob]{})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					stored++
				case errors.Is(err, engine.ErrUnavailable):
					shed++
					if took := time.Since(began); took > 0 {
						t.Errorf("it was turned away only after %v", took)
					}
				default:
					t.Errorf("%d: %v", i, err)
				}
			})
		}
		var worst time.Duration
		for range 5 {
			<-time.After(5 * time.Second)
			worst = max(worst, store.beat())
		}
		wg.Wait()
		synctest.Wait()
		if worst > 4*store.takes {
			t.Errorf("a beat took %v", worst)
		}
		if shed == 0 || stored == 0 || store.jobs != stored*500 || store.most > maxSharedJobs {
			t.Errorf("%d stored, %d turned away; %d jobs in %d commits, %d at most", stored, shed, store.jobs, store.commits, store.most)
		}
		idle(t, s.gate)
	})
}

func TestASlowStoreShedsTriggers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(newSlowStore(10*time.Millisecond), clock.System{}, Config{})
		var wg sync.WaitGroup
		var mu sync.Mutex
		shed := 0
		for range 2 * maxInside {
			wg.Go(func() {
				_, _, err := s.Trigger(t.Context(), tenant.Local(), engine.Ref{}, nil, Once[job.Execution]{})
				if err != nil && !errors.Is(err, engine.ErrUnavailable) {
					t.Error(err)
				}
				if err != nil {
					mu.Lock()
					shed++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if shed != maxInside {
			t.Errorf("%d were turned away", shed)
		}
		if _, _, err := s.Trigger(t.Context(), tenant.Local(), engine.Ref{}, nil, Once[job.Execution]{}); err != nil {
			t.Errorf("after that: %v", err)
		}
	})
}
