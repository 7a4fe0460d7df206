package service

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// gauge is a store of depths.
type gauge struct {
	keeping
	minutes []engine.DepthMinute
}

func (g gauge) Depths(context.Context, tenant.ID, time.Time) ([]engine.DepthMinute, error) {
	return g.minutes, nil
}

// A step shows the most that waited in any of its minutes.
func TestDepthsOfAStep(t *testing.T) {
	now := january(7)
	q := func(name string, waiting int64) engine.QueueDepth {
		return engine.QueueDepth{Queue: name, Waiting: waiting}
	}
	g := gauge{minutes: []engine.DepthMinute{
		{At: now.Add(-10 * time.Minute), Queues: []engine.QueueDepth{q("a", 7000), q("b", 1), q("c", 1000), q("d", 5)}},
		{At: now.Add(-9 * time.Minute), Queues: []engine.QueueDepth{q("a", 1000), q("b", 2), q("c", 7000)}},
		{At: now.Add(-8 * time.Minute), Queues: []engine.QueueDepth{q("a", 3), q("e", 9)}},
	}}
	for i := range g.minutes {
		g.minutes[i].At = g.minutes[i].At.UTC()
	}
	s := New(g, clock.NewManual(now), Config{})
	got, err := s.Depths(t.Context(), tenant.Local(), Stretch{Back: time.Hour, Step: 10 * time.Minute})
	want := []engine.QueueDepth{q("a", 7000), q("b", 2), q("c", 7000), q("d", 5), q("e", 9)}
	if err != nil || len(got.Points) != 1 || !slices.Equal(got.Points[0].Queues, want) {
		t.Errorf("got %+v, %v; want %+v", got.Points, err, want)
	}
}
