package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// asRequest returns the request that would create a job as it is.
func asRequest(j job.Job) client.JobRequest {
	w := wireJob(j, job.Stats{})
	r := client.JobRequest{
		Name: w.Name, Key: w.Key, Description: w.Description, Priority: &w.Priority, Tags: j.Tags, Owner: w.Owner, Runbook: w.Runbook,
		Overlap: &w.Overlap, CatchUp: &w.CatchUp, CatchUpLimit: &w.CatchUpLimit, Labels: j.Labels, Queue: &w.Queue,
		MaxConcurrent: w.MaxConcurrent, ConcurrencyKey: w.ConcurrencyKey, RateLimit: w.RateLimit, UniqueKey: w.UniqueKey,
		ExpiresAfter: w.ExpiresAfter, AutoRedriveAfter: w.AutoRedriveAfter,
		RetryPolicy: &client.RetryPolicy{
			MaxRetries: &w.RetryPolicy.MaxRetries, Backoff: w.RetryPolicy.Backoff, InitialDelayMS: &w.RetryPolicy.InitialDelayMS, MaxDelayMS: &w.RetryPolicy.MaxDelayMS,
		},
	}
	if k := w.Retention; k != nil {
		r.Retention = &client.Retention{Days: k.Days}
		if *k.FailedDays != k.Days { // else they stay the same, if a patch changes the one
			r.Retention.FailedDays = k.FailedDays
		}
	}
	s, x := w.Schedule, w.Execution
	r.Schedule = &client.Schedule{
		Type: s.Type, ScheduledTime: s.ScheduledTime, CronExpression: s.CronExpression, Timezone: s.Timezone, Day: s.Day, Every: s.Every,
		JitterMS: s.JitterMS, StartAt: s.StartAt, EndAt: s.EndAt, MaxRuns: s.MaxRuns, Calendar: s.Calendar,
	}
	r.Execution = client.Target{
		Target: x.Target, CallbackURL: x.CallbackURL, Method: x.Method, Headers: j.Target.Headers, TimeoutSeconds: &x.TimeoutSeconds,
		StallTimeoutSeconds: x.StallTimeout, TotalTimeoutSeconds: x.TotalTimeout, Expect: x.Expect, FollowRedirects: x.FollowRedirects,
		Command: x.Command, ArtifactID: x.ArtifactID, Entrypoint: x.Entrypoint, Env: j.Target.Env,
		Kind: x.Kind, WorkKind: x.WorkKind, DurationMS: x.DurationMS, FailAttempts: x.FailAttempts,
	}
	return r
}

// members is a JSON object with undecoded values.
type members = map[string]json.RawMessage

// merged is a job's request with a patch laid over it: what the patch leaves out stays, null is the default again. Objects
// are merged member by member, but payload, headers, env and lists are replaced whole. With another schedule type what that type
// does not have is dropped; with another target, what the old one said of it is gone.
func merged(j job.Job, patch []byte) (out client.JobRequest, err error) {
	if err := decode(patch, &out); err != nil {
		return out, err // it has the form of a request, in which every field is optional
	}
	if out.Paused != nil {
		return out, job.Invalids{{Field: "paused", Value: strconv.FormatBool(*out.Paused), Want: "nothing here: POST /jobs/{id}/pause and /resume do that"}}
	}
	for _, field := range []string{"execution", "retry_policy"} {
		if value, ok := objectOf(patch)[field]; ok && j.Target.Kind == job.Workflow {
			return out, job.Invalids{{Field: field, Value: job.Show(string(value)), Want: "nothing here: PATCH /workflows/{id} changes the nodes of a workflow"}}
		}
	}
	request := asRequest(j)
	request.Execution.Headers, request.Execution.Env = redacted(j.Target.Headers), redactedEnv(j.Target.Env) // the service restores hidden values
	given, base := objectOf(patch), objectOf(encoded(request))
	schedule, execution := objectOf(given["schedule"]), objectOf(given["execution"])
	if t := textOf(schedule["type"]); t != "" && !strings.EqualFold(t, request.Schedule.Type) {
		base["schedule"] = encoded(fitting(objectOf(base["schedule"]), strings.ToUpper(t)))
	}
	if t := textOf(execution["target"]); t != "" && !strings.EqualFold(t, request.Execution.Target) {
		base["execution"] = encoded(client.Target{
			TimeoutSeconds: request.Execution.TimeoutSeconds, StallTimeoutSeconds: request.Execution.StallTimeoutSeconds, TotalTimeoutSeconds: request.Execution.TotalTimeoutSeconds,
		})
	}
	payload, has := execution["payload"]
	laid := overlay(base, given, "")
	out = client.JobRequest{}
	if err := decode(encoded(laid), &out); err != nil {
		return out, err
	}
	if out.Execution.Payload = payload; !has {
		out.Execution.Payload = j.Payload // as it was written
	}
	return out, nil
}

// scheduleMembers lists the fields of each type of schedule, besides its type.
var scheduleMembers = map[string][]string{
	job.Immediate.String(): {},
	job.Manual.String():    {},
	job.OneTime.String():   {"scheduled_time", "jitter_ms"},
	job.Cron.String():      {"cron_expression", "timezone", "day", "jitter_ms", "start_at", "end_at", "max_runs", "calendar"},
	job.Interval.String():  {"every", "timezone", "jitter_ms", "start_at", "end_at", "max_runs", "calendar"},
}

// fitting returns the fields of a schedule that stay when its type changes.
func fitting(was members, to string) members {
	out := members{}
	for _, name := range scheduleMembers[to] {
		if value, ok := was[name]; ok {
			out[name] = value
		}
	}
	return out
}

// overlay applies the members of a patch to those of an object.
func overlay(base, patch members, path string) members {
	if base == nil {
		base = members{}
	}
	for name, value := range patch {
		inner := objectOf(value)
		switch {
		case isNull(value):
			delete(base, name)
		case inner == nil || path+name == "execution.headers" || path+name == "execution.env" || path+name == "execution.payload":
			base[name] = value
		default:
			base[name] = encoded(overlay(objectOf(base[name]), inner, path+name+"."))
		}
	}
	return base
}

func isNull(raw json.RawMessage) bool { return string(bytes.TrimSpace(raw)) == "null" }

// objectOf returns the members of a JSON object; nil if it is none.
func objectOf(raw []byte) members {
	var m members
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

func textOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// revision reads If-Match; 0 if there is none.
func revision(r *http.Request) (int, error) {
	text := strings.TrimSpace(r.Header.Get("If-Match"))
	if text == "" || text == "*" {
		return 0, nil
	}
	bare := text
	if len(text) > 2 && strings.HasPrefix(text, `"`) && strings.HasSuffix(text, `"`) {
		bare = text[1 : len(text)-1]
	}
	n, err := strconv.Atoi(bare)
	if err != nil || n < 1 {
		return 0, refuse(400, "invalid_header", "If-Match cannot be read.", client.FieldProblem{Field: "If-Match", Value: job.Show(text), Want: "the revision of the job as it was read, such as 3"})
	}
	return n, nil
}

func (s jobAPI) patchJob(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	ref, data, err := s.onJob(w, r, p)
	if err != nil {
		return err
	}
	at, err := revision(r)
	if err != nil {
		return err
	}
	if objectOf(data) == nil && len(data) > 0 && json.Valid(data) {
		return refuse(400, "invalid_body", "The body is not an object; want the fields to change.")
	}
	change := func(j job.Job) (job.Definition, error) {
		req, err := merged(j, data)
		if err != nil {
			return job.Definition{}, err
		}
		d, err := definition(req, s.cfg.Retry)
		if j.Target.Kind == job.Workflow {
			d.Target, d.Retry, d.Payload = j.Target, j.Retry, j.Payload
		}
		if err != nil {
			return d, both(err, s.service.Check(d))
		}
		if req.Priority == nil {
			d.Priority, err = s.usualPriority(r, p)
		}
		return d, err
	}
	j, err := s.service.UpdateJob(r.Context(), p, ref, at, func(j job.Job) (job.Definition, error) {
		d, err := change(j)
		if err == nil && j.Target.Kind == job.Workflow && service.Places(j.Definition, d) {
			err = errPlaced
		}
		return d, err
	})
	if errors.Is(err, errPlaced) {
		j, err = s.placeWorkflow(r, p, ref, at, change)
	}
	if err != nil {
		return err
	}
	return reply(w, 200, wireChanged(j))
}

// errPlaced says that a change of a workflow concerns what its inline nodes run.
var errPlaced = errors.New("the inline nodes change, too")

// placeWorkflow changes the job of a workflow together with its inline nodes.
func (s jobAPI) placeWorkflow(r *http.Request, p tenant.Principal, ref engine.Ref, at int, change func(job.Job) (job.Definition, error)) (service.Report, error) {
	f, err := s.service.UpdateWorkflow(r.Context(), p, ref, at, func(f service.Flow) (w service.Workflow, err error) {
		if w, err = (workflowAPI{s.Server}).workflow(r, p, asWorkflowRequest(f)); err == nil {
			w.Definition, err = change(f.Job)
		}
		return w, err
	})
	return f.Report, err
}

// wireChanged is a job that was changed, with the credentials that the change removed.
func wireChanged(r service.Report) client.Job {
	j := wireJob(r.Job, r.Stats)
	j.DroppedCredentials = r.Dropped
	return j
}

// onJob reads the job that a path names, which must exist before the body is checked, and the body.
func (s jobAPI) onJob(w http.ResponseWriter, r *http.Request, p tenant.Principal) (engine.Ref, []byte, error) {
	ref, err := jobRef(r)
	if err != nil {
		return ref, nil, err
	}
	if err := s.service.HasJob(r.Context(), p, ref); err != nil {
		return ref, nil, err
	}
	data, err := body(w, r, maxBody)
	return ref, data, err
}

func (s jobAPI) pauseJob(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	ref, data, err := s.onJob(w, r, p)
	if err != nil {
		return err
	}
	var req client.PauseRequest
	if err := decodeAny(data, &req); err != nil {
		return err
	}
	j, err := s.service.PauseJob(r.Context(), p, ref, req.Reason, written(req.Until))
	if err != nil {
		return err
	}
	return reply(w, 200, wireJob(j.Job, j.Stats))
}

func (s jobAPI) resumeJob(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	ref, data, err := s.onJob(w, r, p)
	if err != nil {
		return err
	}
	var req struct{}
	if err := decodeAny(data, &req); err != nil {
		return err
	}
	j, err := s.service.ResumeJob(r.Context(), p, ref)
	if err != nil {
		return err
	}
	return reply(w, 200, wireJob(j.Job, j.Stats))
}
