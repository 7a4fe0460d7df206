package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/check"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/upkeep"
)

// keepDays is the retention of the tenant north in days, and of some jobs of all tenants.
const keepDays = 2

// forgets lets days pass at the end, and checks what is forgotten: nothing of a tenant before its days are over,
// everything after them, and nothing of a tenant whose history is kept forever, except of jobs that keep less.
func (w *world) forgets(s engine.Store) ([]check.Violation, error) {
	ctx := context.Background()
	f := &upkeep.Forgetter{Store: s, Clock: w.clock}
	was, err := w.histories(ctx, s)
	if err != nil {
		return nil, err
	}
	own, err := w.keepLess(ctx, s)
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
			if !step.kept {
				want -= own[t]
			}
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

// keepLess gives about every third job that has no part in a workflow a retention of its own, as if it had that for
// long, and counts the executions that end with it, by tenant.
func (w *world) keepLess(ctx context.Context, s engine.Store) (map[tenant.ID]int, error) {
	out := map[tenant.ID]int{}
	for _, t := range w.tenants {
		xs, err := s.FindExecutions(ctx, engine.ExecutionFilter{Tenant: t}, everything)
		if err != nil {
			return nil, err
		}
		of, nodes := map[job.ID]int{}, map[job.ID]bool{}
		for _, e := range xs.Executions {
			if e.Status.Final() {
				of[e.Job]++
			}
			nodes[e.Job] = nodes[e.Job] || e.Trigger == job.ByWorkflow
		}
		for id, n := range of {
			if nodes[id] || id[len(id)-1]%3 != 0 {
				continue
			}
			j, err := s.Job(ctx, t, engine.Ref{ID: id})
			if err != nil {
				return nil, err
			}
			if j.Target.Kind == job.Workflow || j.State == job.Deleted {
				continue
			}
			j.Retention = job.Retention{Days: keepDays, FailedDays: keepDays}
			if _, err := s.UpdateJob(ctx, t, engine.Update{Job: j, AsOf: w.clock.Now().Add(-tenant.CutGrace), Retained: true}); err != nil {
				return nil, fmt.Errorf("give a job a retention: %w", err)
			}
			out[t] += n
		}
	}
	return out, nil
}
