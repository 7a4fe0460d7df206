package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/check"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/upkeep"
)

// keepDays is how many days the history of the tenant north is kept.
const keepDays = 2

// forgets lets days pass at the end, and checks what is forgotten: nothing of a tenant before its days are over,
// everything after them, and nothing of a tenant whose history is kept forever.
func (w *world) forgets(s engine.Store) ([]check.Violation, error) {
	ctx := context.Background()
	f := &upkeep.Forgetter{Store: s, Clock: w.clock}
	was, err := w.histories(ctx, s)
	if err != nil {
		return nil, err
	}
	var out []check.Violation
	for _, step := range []struct {
		after time.Duration
		kept  bool
	}{{(keepDays - 1) * 24 * time.Hour, true}, {3 * 24 * time.Hour, false}} {
		<-time.After(step.after)
		// A run that is a node of another goes a round after that one.
		for round := 0; round <= workflow.MaxNesting; {
			wait, err := f.Tick(ctx)
			if err != nil {
				return nil, err
			}
			if <-time.After(wait); wait > time.Second {
				round++
			}
		}
		is, err := w.histories(ctx, s)
		if err != nil {
			return nil, err
		}
		for _, t := range w.tenants {
			want := was[t]
			if t == north && !step.kept {
				want = 0
			}
			if is[t] != want {
				out = append(out, check.Violation{Check: "retention", What: fmt.Sprintf("%v later %s has %d executions, and should have %d", step.after, t, is[t], want)})
			}
		}
	}
	return out, nil
}

// histories counts finished executions, by tenant.
func (w *world) histories(ctx context.Context, s engine.Store) (map[tenant.ID]int, error) {
	out := map[tenant.ID]int{}
	for _, t := range w.tenants {
		xs, err := s.FindExecutions(ctx, engine.ExecutionFilter{Tenant: t}, everything)
		if err != nil {
			return nil, err
		}
		out[t] = len(xs.Executions)
	}
	return out, nil
}
