package upkeep

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// sweptStore is a store with chunks to delete.
type sweptStore struct {
	answers []engine.Forgot
	before  []time.Time
	err     error
}

func (l *sweptStore) SweepBlobs(_ context.Context, before time.Time, limit int) (engine.Forgot, error) {
	l.before = append(l.before, before)
	if l.err != nil || len(l.answers) == 0 {
		return engine.Forgot{}, l.err
	}
	f := l.answers[0]
	l.answers = l.answers[1:]
	return f, nil
}

type sweptAt time.Time

func (a sweptAt) Now() time.Time { return time.Time(a) }

// The sweeper goes on soon while there is more, and gives uploads a day.
func TestSweeper(t *testing.T) {
	now := time.Date(2026, 11, 19, 12, 0, 0, 0, time.UTC)
	l := &sweptStore{answers: []engine.Forgot{{N: 64, More: true}, {N: 3, More: true}, {}}}
	s := &Sweeper{Store: l, Clock: sweptAt(now)}
	for i, want := range []time.Duration{sweepPause, sweepPause, sweepEvery} {
		if next, err := s.Tick(t.Context()); next != want || err != nil {
			t.Errorf("pass %d: again after %s, %v, want %s", i, next, err, want)
		}
	}
	if l.before[0] != now.Add(-24*time.Hour) {
		t.Errorf("uploads since %s are given up", l.before[0])
	}
	l.err = errors.New("away")
	if _, err := s.Tick(t.Context()); !errors.Is(err, l.err) {
		t.Errorf("got %v", err)
	}
}
