package app

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// demoRuns sets how often the sample workflow runs. Its approval times out a little earlier, so that there is nearly
// always one waiting and never two.
const (
	demoRuns     = 2 * time.Minute
	demoApproval = "105s"
)

// sampleFlow is the sample workflow: fetch, then a map, a join and an approval.
func sampleFlow() service.Workflow {
	w := service.Workflow{
		Definition: job.Definition{
			Key: "demo-workflow", Name: "Order import", Description: "Fetches a list, loads each part, adds it all up and asks a person. Without an answer it publishes after a while.",
			Schedule: job.Schedule{Type: job.Interval, Every: demoRuns}, CatchUp: job.CatchUpNone, Overlap: job.OverlapSkip,
			Priority: job.DefaultPriority, Queue: job.DefaultQueue, Tags: []string{"demo"}, Target: job.Target{Kind: job.Workflow}, Retry: job.RetryPolicy{Backoff: job.Exponential},
		},
	}
	add := func(n workflow.Node, lasts time.Duration) {
		var in *service.Inline
		if n.Wait == nil {
			n.Execution, _ = json.Marshal(map[string]any{"target": "simulate", "work_kind": "sleep", "duration_ms": lasts.Milliseconds()}) // of texts and a number
			t := job.Target{Kind: job.Simulate, WorkKind: "sleep", Duration: lasts, Timeout: 30 * time.Second}
			in = &service.Inline{Target: t, Sample: t, Retry: job.DefaultRetry}
		}
		w.Graph.Nodes, w.Inline = append(w.Graph.Nodes, n), append(w.Inline, in)
	}
	add(workflow.Node{Key: "fetch"}, time.Second)
	add(workflow.Node{Key: "load", DependsOn: []string{"fetch"}, Map: json.RawMessage(`["north", "east", "south", "west"]`), MaxParallel: 2}, 2*time.Second)
	add(workflow.Node{Key: "join", DependsOn: []string{"load"}}, time.Second)
	add(workflow.Node{Key: "approve", DependsOn: []string{"join"}, Wait: &workflow.Wait{Approval: &workflow.Approval{}}, Timeout: demoApproval, OnTimeout: workflow.TimeoutSucceeds}, 0)
	add(workflow.Node{Key: "publish", DependsOn: []string{"approve"}}, time.Second)
	return w
}

// demonstrateFlow runs the sample workflow at once and then repeatedly, or pauses it.
func demonstrateFlow(ctx context.Context, svc *service.Service, p tenant.Principal, on bool) error {
	w := sampleFlow()
	there, err := svc.Job(ctx, p, engine.Ref{Key: w.Key})
	switch found := err == nil; {
	case err != nil && !errors.Is(err, engine.ErrNotFound):
		return err
	case found && on && there.State == job.Paused && there.PauseNote == demoOff:
		_, err = svc.ResumeJob(ctx, p, engine.Ref{ID: there.ID})
		return err
	case found && !on && there.State == job.Active:
		_, err = svc.PauseJob(ctx, p, engine.Ref{ID: there.ID}, demoOff, time.Time{})
		return err
	case found || !on:
		return nil
	}
	if _, _, err := svc.CreateWorkflow(ctx, p, w, service.Once[service.Flow]{}); err != nil {
		return err
	}
	_, _, err = svc.Trigger(ctx, p, engine.Ref{Key: w.Key}, nil, service.Once[job.Execution]{})
	return err
}
