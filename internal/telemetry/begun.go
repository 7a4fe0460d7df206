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
	mostBegun  = 20_000                // that wait to be stored; more are lost
	begunPause = 25 * time.Millisecond // between two batches, so that they are batches
	begunTime  = 5 * time.Second       // that one may take
)

// begun holds the origins of jobs and executions until the store has them. They are stored in batches and in the
// background: a separate commit would cost a request as much as its jobs do.
type begun struct {
	wake chan struct{} // there is something

	mu      sync.Mutex
	waiting map[[16]byte]engine.Trace // guarded by mu
	writing map[[16]byte]engine.Trace // guarded by mu: replaced, never changed
}

func newBegun() *begun {
	return &begun{wake: make(chan struct{}, 1), waiting: map[[16]byte]engine.Trace{}}
}

// add adds some, and returns how many found no room.
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

// find finds those that the store may not have yet, and returns which are left to be read from it.
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

// take begins to write the waiting ones.
func (b *begun) take() []engine.Trace {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting, b.writing = map[[16]byte]engine.Trace{}, b.waiting
	return slices.Collect(maps.Values(b.writing))
}

// KeepBegun stores what Begun records until ctx ends, and then the rest.
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

// keepBegun writes the waiting ones. Those that cannot be written are lost, and counted: a missing link is harmless.
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

// began finds the origins of jobs and executions.
func (s *Store) began(ctx context.Context, ids [][16]byte) ([]engine.Trace, error) {
	found, left := s.begun.find(ids)
	if len(left) == 0 {
		return found, nil
	}
	more, err := s.Store.Traces(ctx, left)
	return append(found, more...), err
}
