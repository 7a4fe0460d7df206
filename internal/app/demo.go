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

// addDemo adds the sample jobs, and runs those again that an earlier start has added.
func addDemo(ctx context.Context, svc *service.Service, p tenant.Principal, base string, now time.Time) error {
	quick := job.RetryPolicy{MaxRetries: 3, Backoff: job.Fixed, InitialDelay: 2 * time.Second, MaxDelay: 2 * time.Second}
	for _, d := range []job.Definition{
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
			Key: "demo-failing", Name: "Fails on purpose", Description: "Calls a path that is not there: the answer is kept, and it is not tried again.", Retry: quick,
			Target: job.Target{Kind: job.HTTP, Method: "POST", URL: base + "/demo/nothing-here", Timeout: 10 * time.Second},
		},
		{
			Key: "demo-later", Name: "In a minute", Description: "Fires once, at its scheduled time.", Retry: job.DefaultRetry,
			Schedule: job.Schedule{Type: job.OneTime, At: now.Add(time.Minute)},
			Target:   job.Target{Kind: job.Simulate, WorkKind: "sleep", Duration: time.Second, Timeout: 10 * time.Second},
		},
		{
			Key: "demo-bell", Name: "Bell", Description: "Rings every ten seconds.", Retry: job.DefaultRetry,
			Schedule: job.Schedule{Type: job.Interval, Every: 10 * time.Second},
			Target:   job.Target{Kind: job.HTTP, Method: "POST", URL: base + "/demo/echo", Timeout: 10 * time.Second},
			Payload:  []byte(`{"ring": "ding"}`),
		},
		{
			Key: "demo-moody", Name: "Moody bell", Description: "Fails at its first attempt and succeeds at its second, every ten seconds.", Retry: quick,
			Schedule: job.Schedule{Type: job.Interval, Every: 10 * time.Second},
			Target:   job.Target{Kind: job.Simulate, WorkKind: "flaky", FailAttempts: 1, Duration: 400 * time.Millisecond, Timeout: 10 * time.Second},
		},
		{
			Key: "demo-cracked", Name: "Cracked bell", Overlap: job.OverlapSkip, Retry: job.RetryPolicy{MaxRetries: 4, Backoff: job.Fixed, InitialDelay: 8 * time.Second, MaxDelay: 8 * time.Second},
			Description: "Asks the echo for a 503 every half minute, so that it fails. Run it again with another payload, and it succeeds.",
			Schedule:    job.Schedule{Type: job.Interval, Every: 30 * time.Second},
			Target:      job.Target{Kind: job.HTTP, Method: "POST", URL: base + "/demo/echo", Timeout: 10 * time.Second},
			Payload:     []byte(`{"status": 503, "ring": "clonk"}`), Runbook: "Run it again without the status in its payload.",
		},
	} {
		d.Priority, d.Queue, d.Tags = job.DefaultPriority, job.DefaultQueue, []string{"demo"}
		if d.Schedule.Type == 0 {
			d.Schedule.Type = job.Immediate
		}
		if err := addSample(ctx, svc, p, d); err != nil {
			return err
		}
	}
	return nil
}

// addSample adds a sample job, or runs it again. One that calls where this server no longer listens is made anew.
func addSample(ctx context.Context, svc *service.Service, p tenant.Principal, d job.Definition) error {
	there, err := svc.Job(ctx, p, engine.Ref{Key: d.Key})
	switch {
	case err == nil && there.Target.URL == d.Target.URL:
		if d.Schedule.Type == job.Immediate {
			_, _, err = svc.Trigger(ctx, p, engine.Ref{ID: there.ID}, nil, service.Once[job.Execution]{})
		}
		return err
	case err == nil:
		if _, err := svc.DeleteJob(ctx, p, engine.Ref{ID: there.ID}); err != nil {
			return err
		}
	case !errors.Is(err, engine.ErrNotFound):
		return err
	}
	_, _, err = svc.CreateJob(ctx, p, d, service.Once[[]service.NewJob]{})
	return err
}
