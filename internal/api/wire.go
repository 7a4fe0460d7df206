package api

import (
	"cmp"
	"encoding/json"
	"maps"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/secret"
	"github.com/carillon-jobs/carillon/internal/wire"
)

// Definition converts a request to the core's form, with the defaults filled in, or returns what is wrong with it.
func Definition(r client.JobRequest, check func(job.Definition) job.Invalids) (job.Definition, error) {
	d, err := definition(r, job.DefaultRetry)
	if err != nil {
		return d, both(err, check(d))
	}
	return d, nil
}

// definition converts a request to the core's form, with the defaults filled in. Definition.Check validates single
// fields; this refuses only what has no place in a Definition.
func definition(r client.JobRequest, base job.RetryPolicy) (job.Definition, error) {
	var v job.Invalids
	d := job.Definition{
		Name: r.Name, Description: r.Description, Key: deref(r.Key, ""), Owner: deref(r.Owner, ""), Runbook: deref(r.Runbook, ""),
		Schedule: job.Schedule{Type: job.Immediate}, Target: wire.Target(r.Execution), Payload: wire.Payload(r.Execution), Retry: wire.Retry(r.RetryPolicy, base),
		Priority: deref(r.Priority, job.DefaultPriority), Queue: deref(r.Queue, job.DefaultQueue), Labels: r.Labels, Tags: r.Tags, Asleep: deref(r.Paused, false),
	}
	if r.Key != nil && *r.Key == "" {
		v.Add("key", "", "a key, or null for none")
	}
	limits(r, &d, &v)
	if r.Schedule != nil {
		d.Schedule = scheduleOf(*r.Schedule, &v)
	}
	policies(r, &d, &v)
	return d, v.Err()
}

// wireJob returns a job in API form.
func wireJob(j job.Job, stats job.Stats) client.Job {
	out := client.Job{
		JobID: j.ID.String(), Key: optional(j.Key), Name: j.Name, Description: j.Description, Status: j.State.String(),
		Schedule: wireSchedule(j, stats),
		Execution: client.JobTarget{
			Target: string(j.Target.Kind), CallbackURL: j.Target.URL, Method: j.Target.Method, Headers: redacted(j.Target.Headers), Payload: j.Payload,
			TimeoutSeconds: int64(j.Target.Timeout / time.Second), FollowRedirects: j.Target.FollowRedirects,
			StallTimeout: wholeSeconds(j.Target.Stall), TotalTimeout: wholeSeconds(j.Target.Total),
			Command: j.Target.Command, ArtifactID: j.Target.Artifact, Entrypoint: j.Target.Entrypoint, Env: redactedEnv(j.Target.Env),
			Kind: j.Target.Handler, WorkKind: j.Target.WorkKind, DurationMS: j.Target.Duration.Milliseconds(), FailAttempts: j.Target.FailAttempts,
		},
		RetryPolicy: client.JobRetryPolicy{
			MaxRetries: j.Retry.MaxRetries, Backoff: string(j.Retry.Backoff),
			InitialDelayMS: j.Retry.InitialDelay.Milliseconds(), MaxDelayMS: j.Retry.MaxDelay.Milliseconds(),
		},
		Priority: j.Priority, Tags: j.Tags, Owner: optional(j.Owner), Runbook: optional(j.Runbook),
		Stats:   wireStats(stats),
		Overlap: string(cmp.Or(j.Overlap, job.OverlapAllow)), CatchUp: string(cmp.Or(j.CatchUp, job.CatchUpLatest)),
		CatchUpLimit: cmp.Or(j.CatchUpLimit, job.DefaultCatchUpLimit), Labels: j.Labels, Queue: j.Queue,
		MaxConcurrent: atOnce(j.MaxConcurrent), ConcurrencyKey: optional(j.ConcurrencyKey), RateLimit: wireRate(j.Rate), UniqueKey: optional(j.UniqueKey),
		ExpiresAfter: wireSpan(j.ExpiresAfter), AutoRedriveAfter: wireSpan(j.AutoRedriveAfter), Retention: wireRetention(j.Retention),
		CreatedAt: j.CreatedAt, UpdatedAt: j.UpdatedAt, Revision: j.Revision,
	}
	out.Tags, out.Labels = list0(out.Tags), list0(out.Labels)
	if j.State != job.Deleted {
		for _, id := range j.DependsOn {
			out.DependsOn = append(out.DependsOn, id.String())
		}
	}
	if j.State == job.Paused {
		out.PauseReason, out.PausedUntil = optional(j.PauseNote), instant(j.PausedTill)
	}
	if len(j.Target.ExpectStatus) > 0 || j.Target.ExpectBody != "" {
		out.Execution.Expect = &client.Expect{Status: j.Target.ExpectStatus, BodyContains: optional(j.Target.ExpectBody)}
	}
	return out
}

func wireStats(stats job.Stats) client.Stats {
	out := client.Stats{
		TotalRuns: stats.Total, SuccessRate: stats.SuccessRate(), AvgDurationMS: stats.AvgDuration.Milliseconds(), P95DurationMS: stats.P95Duration.Milliseconds(),
	}
	if stats.LastStatus != 0 {
		out.LastStatus = new(stats.LastStatus.String())
	}
	return out
}

// redacted hides the values of headers that carry credentials, except references to secrets.
func redacted(headers map[string]string) map[string]string {
	out := maps.Clone(headers)
	if out == nil {
		out = map[string]string{}
	}
	for name, value := range out {
		if secret.HidesHeader(name, value) {
			out[name] = secret.Hidden
		}
	}
	return out
}

// redactedEnv hides the values of variables that carry credentials.
func redactedEnv(env map[string]string) map[string]string {
	out := maps.Clone(env)
	for name, value := range out {
		if secret.HidesVariable(name, value) {
			out[name] = secret.Hidden
		}
	}
	return out
}

// wireExecution returns an execution in API form.
func wireExecution(e job.Execution) client.Execution {
	out := client.Execution{
		ExecutionID: e.ID.String(), JobID: e.Job.String(), JobName: e.JobName, Status: e.Status.String(), Trigger: e.Trigger.String(),
		ScheduledTime: e.ScheduledAt, DueAt: e.DueAt, StartedAt: instant(e.StartedAt), FinishedAt: instant(e.FinishedAt), TriggerDelayMS: e.TriggerDelay().Milliseconds(),
		AttemptNumber: e.Attempt, MaxAttempts: e.MaxAttempts, LostAttempts: e.Lost, Metadata: map[string]string{}, Priority: e.Priority,
		IdempotencyKey: e.IdempotencyKey(), Result: json.RawMessage(e.Result), Error: wireError(e.Error),
	}
	maps.Copy(out.Metadata, e.Metadata)
	if !e.StartedAt.IsZero() && !e.FinishedAt.IsZero() {
		out.DurationMS = new(e.Duration().Milliseconds())
	}
	if !e.Worker.IsZero() {
		out.WorkerID = new(e.Worker.String())
	}
	if p := e.Progress; p != nil {
		out.Progress = &client.Progress{Percent: p.Percent, Message: p.Message}
	}
	if !e.RetryOf.IsZero() {
		out.RetryOf = new(e.RetryOf.String())
	}
	if r := e.Response; r != nil {
		out.CallbackResponse = &client.CallbackResponse{HTTPStatus: r.HTTPStatus, BodyPreview: r.BodyPreview}
	}
	return out
}

func wireError(e *job.Error) *client.Error {
	if e == nil {
		return nil
	}
	return &client.Error{Type: string(e.Type), Message: e.Message, HTTPStatus: e.HTTPStatus}
}

func pagination(p engine.Page, t engine.Total, next string) client.Pagination {
	return client.Pagination{Limit: p.Limit, Total: t.Count, TotalIsEstimate: t.Estimate, NextCursor: optional(next)}
}

func deref[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// seconds and millis keep an out-of-range number out of range, where a plain product would wrap around.
func seconds(n int64) time.Duration { return scaled(n, time.Second) }
func millis(n int64) time.Duration  { return scaled(n, time.Millisecond) }

func scaled(n int64, unit time.Duration) time.Duration {
	const most = int64(1<<63 - 1)
	switch limit := most / int64(unit); {
	case n > limit:
		return time.Duration(most)
	case n < -limit:
		return -time.Duration(most)
	}
	return time.Duration(n) * unit
}
