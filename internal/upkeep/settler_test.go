package upkeep

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
)

type unsettled struct {
	engine.Jobs
	left int
	err  error
}

func (u *unsettled) Settle(_ context.Context, limit int) (int, error) {
	n := min(u.left, limit)
	u.left -= n
	return n, u.err
}

func TestSettler(t *testing.T) {
	u := &unsettled{left: 2*engine.HoldsAtOnce + 1}
	s := &Settler{Store: u}
	for _, want := range []time.Duration{0, 0, 0, time.Second} {
		if next, err := s.Tick(t.Context()); err != nil || next != want {
			t.Errorf("%d left: next in %v, want %v; %v", u.left, next, want, err)
		}
	}
	u.err = errors.New("away")
	if _, err := s.Tick(t.Context()); !errors.Is(err, u.err) {
		t.Errorf("got %v", err)
	}
}
