package service

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// QueueStatus describes the state of the whole installation.
type QueueStatus struct {
	engine.Census
	Day     engine.Minute   // counts of the last 24 hours
	Lately  engine.Minute   // and in the last five minutes
	Minutes []engine.Minute // one by one, earliest first, as far back as requested
	Now     time.Time
}

// OverdueAfter is how long after its instant a job that has not fired is overdue.
const OverdueAfter = 5 * time.Second

// Now returns the time of the clock that decides what is overdue.
func (s *shared) Now() time.Time { return s.now() }

// QueueStatus returns the state of the whole installation, with the minutes of a period.
func (s *Views) QueueStatus(ctx context.Context, p tenant.Principal, back time.Duration) (QueueStatus, error) {
	if err := allow(p, tenant.Run); err != nil {
		return QueueStatus{}, err
	}
	out := QueueStatus{Now: s.clock.Now().UTC()}
	var err error
	if out.Census, err = s.store.Census(ctx, out.Now.Add(-OverdueAfter)); err != nil {
		return out, err
	}
	ms, err := s.store.Minutes(ctx, out.Now.Add(-24*time.Hour))
	for _, m := range ms {
		out.Day.Add(m)
		if age := out.Now.Sub(m.At); age < 5*time.Minute {
			out.Lately.Add(m)
		}
		if m.At.After(out.Now.Add(-back)) {
			out.Minutes = append(out.Minutes, m)
		}
	}
	return out, err
}

// Sizes tells how large the store is.
func (s *Views) Sizes(ctx context.Context, p tenant.Principal) (engine.Sizes, error) {
	if err := allow(p, tenant.Run); err != nil {
		return engine.Sizes{}, err
	}
	return s.store.Sizes(ctx)
}
