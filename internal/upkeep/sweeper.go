package upkeep

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Sweeper deletes the chunks of objects that were deleted, and of uploads that were given up.
type Sweeper struct {
	Store interface {
		SweepBlobs(ctx context.Context, before time.Time, limit int) (engine.Forgot, error)
	}
	Clock clock.Clock // the store's
}

const (
	sweepEvery  = time.Minute
	sweepPause  = 100 * time.Millisecond
	sweepAtOnce = 64             // chunks of 256 KiB, in one commit
	givenUp     = 24 * time.Hour // after which nobody writes an object on
)

// Tick deletes some chunks.
func (s *Sweeper) Tick(ctx context.Context) (time.Duration, error) {
	f, err := s.Store.SweepBlobs(ctx, s.Clock.Now().Add(-givenUp), sweepAtOnce)
	if err != nil || !f.More {
		return sweepEvery, err
	}
	return sweepPause, nil
}
