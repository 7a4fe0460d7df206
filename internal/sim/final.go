package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/check"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// everything is more than a run makes.
var everything = engine.Page{Limit: 10_000}

// read records the final state, and checks what no history shows: that statistics and dead letters match the
// executions, that a job whose executions have ended is over, and that every instant of a schedule is accounted for.
func (w *world) read(ctx context.Context, s engine.Store) ([]check.Violation, error) {
	var out []check.Violation
	for _, t := range w.tenants {
		vs, err := w.readTenant(ctx, s, t)
		if err != nil {
			return nil, err
		}
		out = append(out, vs...)
	}
	if err := w.readRuns(ctx, s); err != nil {
		return nil, err
	}
	for _, s := range w.store.redrives {
		out = append(out, check.Violation{Check: "liveness", What: fmt.Sprintf("%s was to be redriven, and was not", s.name)})
	}
	return out, nil
}

func (w *world) readTenant(ctx context.Context, s engine.Store, t tenant.ID) ([]check.Violation, error) {
	var jobs []job.Job
	for _, state := range []job.State{0, job.Deleted} {
		page, err := s.FindJobs(ctx, engine.JobFilter{Tenant: t, State: state}, everything)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, page.Jobs...)
	}
	xs, err := s.FindExecutions(ctx, engine.ExecutionFilter{Tenant: t}, everything)
	if err != nil {
		return nil, err
	}
	ids := make([]job.ID, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	stats, err := s.Stats(ctx, t, ids)
	if err != nil {
		return nil, err
	}
	dead, err := s.DeadLetters(ctx, engine.DeadLetterFilter{Tenant: t}, everything)
	if err != nil {
		return nil, err
	}
	of := map[job.ID][]job.Execution{}
	ended, rerun := map[job.ExecutionID]job.Execution{}, map[job.ExecutionID]bool{}
	for _, x := range xs.Executions {
		of[x.Job] = append(of[x.Job], x)
		ended[x.ID] = x
		rerun[x.RetryOf] = true
	}
	var out []check.Violation
	for i, j := range jobs {
		out = append(out, w.readJob(j, of[j.ID], stats[i])...)
		delete(of, j.ID)
	}
	for id, xs := range of {
		if w.store.inline[id] == t {
			for _, x := range xs {
				out = append(out, w.readExecution(x)...)
			}
			continue
		}
		out = append(out, check.Violation{Check: "tenancy", What: fmt.Sprintf("of %s there are %d executions of the job %s, which it has not", t, len(xs), xs[0].JobName)})
	}
	return slices.Concat(out, w.deadLetters(dead.DeadLetters, ended, rerun), w.redriven(ended)), nil
}

// readJob checks a job against its executions.
func (w *world) readJob(j job.Job, xs []job.Execution, got job.Stats) []check.Violation {
	var out []check.Violation
	e := w.final(check.Event{Op: check.Job, Tenant: string(j.Tenant), Job: j.Name, Tag: j.Name, Result: j.State.String()})
	var want job.Stats
	for _, x := range xs {
		out = append(out, w.readExecution(x)...)
		if x.Status != job.Skipped { // which is no run
			want.Total++
		}
		if x.Status == job.Succeeded {
			want.Succeeded++
		}
	}
	if got.Total != want.Total || got.Succeeded != want.Succeeded {
		out = append(out, check.Violation{Check: "statistics", Slice: []check.Event{e}, What: fmt.Sprintf(
			"of %s %d executions ended, %d of them with success; the statistics have %d and %d", j.Name, want.Total, want.Succeeded, got.Total, got.Succeeded)})
	}
	if j.State != job.Deleted && j.State != job.Completed && j.Schedule.Type != job.Manual {
		out = append(out, check.Violation{Check: "completion", Slice: []check.Event{e}, What: fmt.Sprintf("%s has run, and is %s", j.Name, j.State)})
	}
	if j.State == job.Completed && recurs(j.Name) {
		out = append(out, instants(j, xs, w.jump.last != 0)...)
	}
	return out
}

// readExecution records the final state of an execution.
func (w *world) readExecution(x job.Execution) []check.Violation {
	e := check.Event{Op: check.Execution, Tenant: string(x.Tenant), Job: x.JobName, Execution: w.store.name(x.ID), SchedAt: x.ScheduledAt, Attempt: x.Attempt, Tag: tagOf(x), Redrive: x.Trigger == job.ByRedrive, Result: x.Status.String()}
	if s := w.store.known[x.ID]; s != nil && s.run != "" {
		e.Tag, e.Run = "", s.run
	}
	w.final(e)
	return w.counted(x)
}

// redriven checks automatic redrives: each dead letter that should run again did so once, and none that had before.
func (w *world) redriven(ended map[job.ExecutionID]job.Execution) []check.Violation {
	var out []check.Violation
	of := map[job.ExecutionID]bool{}
	for _, x := range ended {
		if x.Trigger != job.ByRedrive {
			continue
		}
		if of[x.RetryOf] || ended[x.RetryOf].Trigger == job.ByRedrive {
			out = append(out, check.Violation{Check: "redrive", What: fmt.Sprintf("%s, of which %s is a redrive, was redriven before", w.store.name(x.RetryOf), w.store.name(x.ID))})
		}
		of[x.RetryOf] = true
	}
	return out
}

// deadLetters compares the dead letters with the executions that failed and were not run again.
func (w *world) deadLetters(dead []job.DeadLetter, ended map[job.ExecutionID]job.Execution, rerun map[job.ExecutionID]bool) []check.Violation {
	var out []check.Violation
	is := map[job.ExecutionID]bool{}
	for _, d := range dead {
		is[d.ID] = true
	}
	for id, x := range ended {
		want := (x.Status == job.Failed || x.Status == job.TimedOut) && !rerun[id]
		if is[id] != want {
			out = append(out, check.Violation{Check: "dead letters", What: fmt.Sprintf("%s is %s, run again: %v, a dead letter: %v", w.store.name(id), x.Status, rerun[id], is[id])})
		}
		delete(is, id)
	}
	for id := range is {
		out = append(out, check.Violation{Check: "dead letters", What: fmt.Sprintf("%s is a dead letter of no execution", id)})
	}
	return out
}

func (w *world) final(e check.Event) check.Event {
	e.Proc, e.Kind = "reader", check.Final
	e.At = time.Since(w.store.begun)
	w.history.Add(e)
	return e
}
