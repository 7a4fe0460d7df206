package workflows

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
)

// sleeper is a store in which waits are due at instants.
type sleeper struct {
	Store
	due   []time.Time
	asked []time.Time
}

func (s *sleeper) WakeRuns(context.Context, int) ([]job.ExecutionID, time.Time, error) {
	now := time.Now()
	s.asked = append(s.asked, now)
	for _, at := range s.due {
		if at.After(now) {
			return nil, at, nil
		}
	}
	return nil, time.Time{}, nil
}

// Waits are looked for when they are due: those that the store tells of, and those that were begun since.
func TestWaitsAreLookedForWhenTheyAreDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := &sleeper{}
		for _, after := range []time.Duration{300, 301, 302, 2700} {
			s.due = append(s.due, began.Add(after*time.Millisecond))
		}
		r := New(s, clock.System{}, Config{Log: slog.New(slog.DiscardHandler)})
		ctx, end := context.WithCancel(t.Context())
		go r.Run(ctx)
		<-time.After(1500 * time.Millisecond)
		fresh := began.Add(1600 * time.Millisecond)
		r.expect(fresh.Add(time.Hour))
		r.expect(fresh)
		<-time.After(1500 * time.Millisecond)
		end()
		synctest.Wait()
		for _, at := range append(s.due, fresh) {
			if !slices.ContainsFunc(s.asked, func(x time.Time) bool { d := x.Sub(at); return d >= 0 && d <= 50*time.Millisecond }) {
				t.Errorf("nobody looked within 50 ms after %v", at.Sub(began))
			}
		}
		if n := len(s.asked); n > 10 {
			t.Errorf("the store was asked %d times in 3 s", n)
		}
	})
}
