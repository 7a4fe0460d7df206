package app

import (
	"context"
	"errors"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// demoEvery sets how often each of the sample jobs fires.
const demoEvery = 10 * time.Second

// demoOff is the reason shown when the sample jobs are paused in a server without the demo: their target does not
// exist.
const demoOff = "The demonstration is off: start with --demo."

// samples returns the sample jobs; base is the address of this server.
func samples(base string) []job.Definition {
	quick := job.RetryPolicy{MaxRetries: 3, Backoff: job.Fixed, InitialDelay: 2 * time.Second, MaxDelay: 2 * time.Second}
	all := []job.Definition{
		{
			Key: "demo-hello", Name: "Hello", Description: "Calls the echo of this server.", Retry: job.DefaultRetry,
			Target:  job.Target{Kind: job.HTTP, Method: "POST", URL: base + "/demo/echo", Timeout: 10 * time.Second},
			Payload: []byte(`{"hello": "world"}`),
		},
		{
			Key: "demo-flaky", Name: "Fails twice, then succeeds", Description: "Shows retries.", Retry: quick,
			Target: job.Target{Kind: job.Simulate, WorkKind: "flaky", FailAttempts: 2, Duration: 300 * time.Millisecond, Timeout: 10 * time.Second},
		},
		{
			Key: "demo-failing", Name: "Fails on purpose", Description: "Asks the echo for a 503. Run one again with another payload, and it succeeds.",
			Retry: job.RetryPolicy{MaxRetries: 1, Backoff: job.Fixed, InitialDelay: 4 * time.Second, MaxDelay: 4 * time.Second}, Overlap: job.OverlapSkip, Runbook: "Run it again without the status in its payload.",
			Target:  job.Target{Kind: job.HTTP, Method: "POST", URL: base + "/demo/echo", Timeout: 10 * time.Second},
			Payload: []byte(`{"status": 503}`),
		},
	}
	for i := range all {
		d := &all[i]
		d.Priority, d.Queue, d.Tags = job.DefaultPriority, job.DefaultQueue, []string{"demo"}
		d.Schedule = job.Schedule{Type: job.Interval, Every: demoEvery}
		d.CatchUp = job.CatchUpNone
	}
	return all
}

// demonstrate makes the sample jobs call, each at once and then repeatedly, or pauses those that an earlier start
// with the demo left behind.
func demonstrate(ctx context.Context, svc *service.Service, p tenant.Principal, base string, on bool) error {
	for _, d := range samples(base) {
		there, err := svc.Job(ctx, p, engine.Ref{Key: d.Key})
		found := err == nil
		if err != nil && !errors.Is(err, engine.ErrNotFound) {
			return err
		}
		switch {
		case on:
			err = ring(ctx, svc, p, d, there.Job, found)
		case found && there.State == job.Active && there.Schedule.Type == job.Interval:
			_, err = svc.PauseJob(ctx, p, engine.Ref{ID: there.ID}, demoOff, time.Time{})
		default:
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return demonstrateFlow(ctx, svc, p, on)
}

// ring adds a sample job and runs it. It recreates a job that calls an address where this server no longer listens,
// or whose definition has changed; a job that a person has paused stays paused.
func ring(ctx context.Context, svc *service.Service, p tenant.Principal, d job.Definition, there job.Job, found bool) error {
	if found && there.Target.URL == d.Target.URL && there.Schedule.Type == d.Schedule.Type {
		if there.State != job.Paused || there.PauseNote != demoOff {
			return nil
		}
		_, err := svc.ResumeJob(ctx, p, engine.Ref{ID: there.ID})
		return err
	}
	if found {
		if _, err := svc.DeleteJob(ctx, p, engine.Ref{ID: there.ID}); err != nil {
			return err
		}
	}
	if _, _, err := svc.CreateJob(ctx, p, d, service.Once[[]service.NewJob]{}); err != nil {
		return err
	}
	_, _, err := svc.Trigger(ctx, p, engine.Ref{Key: d.Key}, nil, service.Once[job.Execution]{}) // an interval begins one interval from now
	return err
}
