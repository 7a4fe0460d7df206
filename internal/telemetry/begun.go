package telemetry

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	mostBegun  = 20_000                // that wait to be kept; more are lost
	begunPause = 25 * time.Millisecond // between two batches, so that they are batches
	begunTime  = 5 * time.Second       // that one may take
)

// begun keeps where jobs and executions came from, until the store has it. It is stored in batches and in the background: a commit
// of its own would cost a request as much as its jobs do.
type begun struct {
	wake chan struct{} // there is something

	mu      sync.Mutex
	waiting map[[16]byte]engine.Trace // guarded by mu
	writing map[[16]byte]engine.Trace // guarded by mu: replaced, never changed
}

func newBegun() *begun {
	return &begun{wake: make(chan struct{}, 1), waiting: map[[16]byte]engine.Trace{}}
}

// add has some kept, and says how many found no room.
func (b *begun) add(ts []engine.Trace) (lost int) {
	b.mu.Lock()
	for _, t := range ts {
		if _, there := b.waiting[t.Of]; !there && len(b.waiting) >= mostBegun {
			lost++
			continue
		}
		b.waiting[t.Of] = t
	}
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return lost
}

// find finds those that the store may not have yet, and says which are left to be asked of it.
func (b *begun) find(ids [][16]byte) (found []engine.Trace, left [][16]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		t, ok := b.waiting[id]
		if !ok {
			t, ok = b.writing[id]
		}
		if ok {
			found = append(found, t)
		} else {
			left = append(left, id)
		}
	}
	return found, left
}

// take begins to write those that wait.
func (b *begun) take() []engine.Trace {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting, b.writing = map[[16]byte]engine.Trace{}, b.waiting
	return slices.Collect(maps.Values(b.writing))
}

// KeepBegun keeps what Begun notes until ctx ends, and then what is left.
func (s *Store) KeepBegun(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-s.begun.wake:
			s.keepBegun(ctx)
			t := time.NewTimer(begunPause)
			select {
			case <-ctx.Done():
			case <-t.C:
			}
			t.Stop()
		}
	}
	s.keepBegun(ctx)
}

// keepBegun writes what waits. What cannot be written is lost, and counted: a link that is missing is no harm.
func (s *Store) keepBegun(ctx context.Context) {
	ts := s.begun.take()
	if len(ts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), begunTime)
	defer cancel()
	if err := s.KeepTraces(ctx, ts); err != nil {
		s.metrics.tracesLost.Add(float64(len(ts)))
	}
	s.begun.mu.Lock()
	defer s.begun.mu.Unlock()
	s.begun.writing = nil
}

// began finds where jobs and executions began.
func (s *Store) began(ctx context.Context, ids [][16]byte) ([]engine.Trace, error) {
	found, left := s.begun.find(ids)
	if len(left) == 0 {
		return found, nil
	}
	more, err := s.Store.Traces(ctx, left)
	return append(found, more...), err
}
