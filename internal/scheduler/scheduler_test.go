package scheduler

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

type fakeStore struct {
	until time.Time
	due   []engine.Due
	fired []engine.Firing
	err   error
}

func (f *fakeStore) Due(_ context.Context, until time.Time, limit int) ([]engine.Due, error) {
	f.until = until
	return f.due[:min(limit, len(f.due))], f.err
}

func (f *fakeStore) Fire(_ context.Context, fs []engine.Firing) ([]job.Ready, error) {
	f.fired = append(f.fired, fs...)
	f.due = f.due[len(fs):]
	var rs []job.Ready
	for _, x := range fs {
		rs = append(rs, x.Executions[0].Ready())
	}
	return rs, nil
}

func TestTick(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	f := &fakeStore{}
	hinted := 0
	s := New(f, clock.NewManual(now), Config{LookAhead: 5 * time.Second, Hint: func(rs []job.Ready) { hinted += len(rs) }})
	if next, err := s.Tick(t.Context()); err != nil || next != between || !f.until.Equal(now.Add(5*time.Second)) {
		t.Errorf("nothing due: %v, %v, asked until %v", next, err, f.until)
	}
	for i := range batch + 1 {
		at := now.Add(time.Duration(i%7-3) * time.Second)
		f.due = append(f.due, engine.Due{Revision: 4, Job: job.Job{
			ID: job.ID{byte(i >> 8), byte(i)}, NextRunAt: at, Definition: job.Definition{Priority: 3, Schedule: job.Schedule{Type: job.OneTime, At: at}, Retry: job.RetryPolicy{MaxRetries: 2}},
		}})
	}
	if next, err := s.Tick(t.Context()); err != nil || next != 0 {
		t.Errorf("a full batch: %v, %v", next, err)
	}
	if next, err := s.Tick(t.Context()); err != nil || next != between {
		t.Errorf("the rest: %v, %v", next, err)
	}
	if len(f.fired) != batch+1 || hinted != batch+1 {
		t.Fatalf("%d fired, %d hinted", len(f.fired), hinted)
	}
	seen := map[job.ExecutionID]bool{}
	for _, x := range f.fired {
		e := x.Executions[0]
		if seen[e.ID] || x.Revision != 4 || !x.Next.IsZero() || !e.ScheduledAt.Equal(x.Was) || e.DueAt.Before(now) || e.DueAt.Before(x.Was) || e.MaxAttempts != 3 || e.Trigger != job.BySchedule {
			t.Fatalf("fired %+v", x)
		}
		seen[e.ID] = true
	}
	f.err = errors.New("away")
	if _, err := s.Tick(t.Context()); err == nil {
		t.Error("no error")
	}
}
