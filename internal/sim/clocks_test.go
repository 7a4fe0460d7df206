package sim

import (
	"context"
	"slices"
	"testing"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Mutants of clocks, leases and retries, as those of TestMutantsAreFound.
func TestMutantsOfTimeAreFound(t *testing.T) {
	if raced {
		t.Skip("it takes some hundred seeds, and proves nothing about races")
	}
	for name, m := range map[string]struct {
		mutant func(engine.Store) engine.Store
		flaws  Flaws
		check  string
	}{
		"a retry loses its count":               {mutant: func(s engine.Store) engine.Store { return &countsNoTries{s} }, check: "counts"},
		"a scheduler goes by its host's clock":  {flaws: Flaws{HostClock: true}, check: "early"},
		"a worker takes its beats for answered": {flaws: Flaws{NoSelfFence: true}, check: "fence"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hunt(t, Options{Mutant: m.mutant, Flaws: m.flaws}, nil, m.check)
		})
	}
}

// countsNoTries has every retry begin with no failure.
type countsNoTries struct{ engine.Store }

func (s *countsNoTries) Finish(ctx context.Context, fs []job.Finish) ([]job.Verdict, error) {
	fs = slices.Clone(fs)
	for i := range fs {
		if fs[i].Then.Move == job.Again {
			fs[i].Then.Tries = 0
		}
	}
	return s.Store.Finish(ctx, fs)
}
