package enginetest

import (
	"errors"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// found lists the names of the jobs that a filter selects, in both ways of listing.
func (f fixture) found(by engine.JobFilter) (names []string) {
	f.Helper()
	by.Tenant = tenant.Default
	page := must(f.FindJobs(f.ctx, by, engine.Page{Limit: 10}))
	if bounded := must(f.FindJobs(f.ctx, by, engine.Page{Limit: 10, Bounded: true})); len(bounded.Jobs) != len(page.Jobs) || page.Total.Count != int64(len(page.Jobs)) {
		f.Errorf("%+v: %d jobs, %d in all, but %d where the list ends early", by, len(page.Jobs), page.Total.Count, len(bounded.Jobs))
	}
	for _, j := range page.Jobs {
		names = append(names, j.Name)
	}
	return names
}

// manualJobs tests jobs that only run when they are triggered.
func manualJobs(t *testing.T, h Harness) {
	t.Run("stay active", func(t *testing.T) {
		f := open(t, h)
		j := f.sample("by hand")
		j.Schedule = job.Schedule{Type: job.Manual}
		f.store(engine.Creation{Tenant: j.Tenant, Jobs: []job.Job{j}})
		same(t, f.job(j.ID), j)
		e := f.due(j)
		e.Trigger = job.ByHand
		must(f.Trigger(f.ctx, tenant.Default, e, engine.Idempotency{}, nil))
		_, as := f.take(e.ID)
		f.report(succeed(as[0]))
		if got := f.job(j.ID); got.State != job.Active || !got.NextRunAt.IsZero() {
			t.Errorf("after its execution: %s, next at %v", got.State, got.NextRunAt)
		}
		for state, want := range map[job.State]int{0: 1, job.Active: 1, job.Completed: 0, job.Paused: 0} {
			for _, kind := range []job.ScheduleType{0, job.Manual} {
				if got := f.found(engine.JobFilter{State: state, ScheduleType: kind}); len(got) != want {
					t.Errorf("state %q, type %q: got %q, want %d", state, kind, got, want)
				}
			}
		}
		if n := must(f.CountJobs(f.ctx, tenant.Default)); n != 1 {
			t.Errorf("%d active jobs, want 1", n)
		}
	})
	t.Run("from a plan and back", func(t *testing.T) {
		f := open(t, h)
		j := f.sample("changes")
		j.Schedule, j.NextRunAt = job.Schedule{Type: job.Interval, Every: time.Hour}, f.now().Add(time.Hour)
		f.store(engine.Creation{Tenant: j.Tenant, Jobs: []job.Job{j}})
		next := j.NextRunAt
		j.Schedule, j.NextRunAt = job.Schedule{Type: job.Manual}, time.Time{}
		if got := must(f.UpdateJob(f.ctx, tenant.Default, engine.Update{Job: j, Replan: true, AsOf: f.now()})); got.State != job.Active || !got.NextRunAt.IsZero() {
			t.Errorf("without a plan: %s, next at %v", got.State, got.NextRunAt)
		}
		j.Schedule, j.NextRunAt = job.Schedule{Type: job.Interval, Every: time.Hour}, next
		if got := must(f.UpdateJob(f.ctx, tenant.Default, engine.Update{Job: j, Replan: true, AsOf: f.now()})); !got.NextRunAt.Equal(next) {
			t.Errorf("planned again: next at %v, want %v", got.NextRunAt, next)
		}
	})
}

// inlineJobs tests the jobs of inline nodes: they behave like ACTIVE ones, but nobody sees them.
func inlineJobs(t *testing.T, h Harness) {
	f := open(t, h)
	flow := f.sample("flow")
	flow.Schedule, flow.Queue, flow.Labels = job.Schedule{Type: job.Manual}, job.DefaultQueue, nil
	flow.Target = job.Target{Kind: job.Workflow, Version: 3}
	node := f.sample("flow/load")
	node.ID, node.State, node.Schedule = job.NodeID(newID()), job.Inline, job.Schedule{Type: job.Manual}
	f.store(engine.Creation{Tenant: flow.Tenant, Jobs: []job.Job{flow}})
	for range 2 { // again is harmless
		f.store(engine.Creation{Tenant: node.Tenant, Jobs: []job.Job{node}})
	}
	same(t, f.job(flow.ID), flow)
	same(t, f.job(node.ID), node)

	hidden := func(when string) {
		t.Helper()
		for _, by := range []engine.JobFilter{{}, {State: job.Active}, {ScheduleType: job.Manual}, {State: job.Active, ScheduleType: job.Manual}, {Tag: "a"}, {Text: "flow"}, {Owner: "team"}, {Workflows: true}, {Workflows: true, State: job.Active, Name: "flow"}} {
			if got := f.found(by); len(got) != 1 || got[0] != "flow" {
				t.Errorf("%s: %+v finds %q, want only the workflow", when, by, got)
			}
		}
		for _, by := range []engine.JobFilter{{State: job.Completed}, {State: job.Paused}, {State: job.Deleted}, {Name: "flow/load"}, {LateBefore: f.now().Add(time.Hour)}} {
			if got := f.found(by); len(got) != 0 {
				t.Errorf("%s: %+v finds %q, want nothing", when, by, got)
			}
		}
	}
	hidden("at rest")

	// It is leased, retried and finished like any other.
	e := f.due(node)
	e.Trigger = job.ByHand
	must(f.Trigger(f.ctx, tenant.Default, e, engine.Idempotency{}, nil))
	hidden("at work")
	if n := must(f.CountJobs(f.ctx, tenant.Default)); n != 1 {
		t.Errorf("%d active jobs, want only the workflow", n)
	}
	_, as := f.take(e.ID)
	if as[0].Target.Kind != job.HTTP || as[0].JobName != "flow/load" {
		t.Errorf("leased %+v", as[0])
	}
	if held := must(f.Held(f.ctx, []job.Lease{as[0].Lease})); len(held) != 1 || held[0].JobState != job.Inline || held[0].Retry != node.Retry {
		t.Errorf("held: %+v", held)
	}
	f.report(again(as[0], f.now(), 1))
	_, as = f.take(e.ID)
	f.report(die(as[0], 2))
	if got := f.execution(e.ID); got.Status != job.Failed || got.Job != node.ID || got.JobName != "flow/load" {
		t.Errorf("in the end: %+v", got)
	}
	r := f.rerunOf(e, job.ByHand)
	if out := must(f.Rerun(f.ctx, tenant.Default, engine.Rerun{Executions: []job.Execution{r}})); len(out.Added) != 1 {
		t.Errorf("it was not run again: %+v", out)
	}
	if _, err := f.Job(f.ctx, "other", engine.Ref{ID: node.ID}); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("another tenant's: %v", err)
	}
	if got := f.job(node.ID); got.State != job.Inline {
		t.Errorf("it is %s", got.State)
	}
	hidden("afterwards")
	f.add("no workflow")
	if got := f.found(engine.JobFilter{Workflows: true}); len(got) != 1 || got[0] != "flow" {
		t.Errorf("workflows: %q", got)
	}
}
