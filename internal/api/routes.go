package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// route is one endpoint.
type route struct {
	method  string
	path    string
	needs   tenant.Permission
	group   string // heading in the documents; "" if it is not part of the API
	summary string
	detail  string
	params  []param
	body    reflect.Type
	sample  string // a body that works
	bytes   bool   // the body that goes in (PUT) or out (GET) is bytes, not JSON
	stream  bool   // the response is a stream of events whose data is JSON
	status  int
	answer  reflect.Type
	also    int          // another status; 0: none
	other   reflect.Type // its answer; nil: the same

	everywhere bool // also served by processes without the API
	away       bool // allowed while the store is down, for callers confirmed as system within the last 15 minutes

	handle func(http.ResponseWriter, *http.Request, tenant.Principal) error
}

// param is a query parameter.
type param struct{ name, kind, doc string }

func of[T any]() reflect.Type { return reflect.TypeFor[T]() }

const jobSample = `{"name": "hello", "execution": {"target": "simulate", "work_kind": "noop"}}`

// table lists every route. No other requests are served.
func (s *Server) table() []route {
	rs := []route{
		{
			method: "POST", path: "/api/v1/jobs", needs: tenant.Write, group: "Jobs", summary: "Create a job",
			detail: "An IMMEDIATE job runs at once, a ONE_TIME job at its scheduled_time, CRON and INTERVAL jobs repeatedly. The job is durable when the response arrives. Send X-Idempotency-Key to make the request safe to retry for 24 hours. If an execution with the same unique_key has not finished, the response is its job, with the header Carillon-Deduplicated: true.",
			body:   of[client.JobRequest](), sample: jobSample, status: 201, answer: of[client.Job](), handle: jobAPI{s}.createJob,
		},
		{
			method: "POST", path: "/api/v1/jobs:batch", needs: tenant.Write, group: "Jobs", summary: "Create up to 10 000 jobs, all or none",
			detail: "A job whose unique_key is in use is not created: its entry names the job that holds the key, and the response has the header Carillon-Deduplicated.",
			body:   of[[]client.JobRequest](), sample: "[" + jobSample + "]", status: 201, answer: of[client.CreatedJobs](), handle: jobAPI{s}.createJobs,
		},
		{
			method: "POST", path: "/api/v1/jobs:bulk", needs: tenant.Write, group: "Jobs", summary: "Pause, resume, delete, trigger or tag many jobs",
			detail: "Select jobs by ids or by a filter. With dry_run nothing changes: the response is 200 with their number and the first ten. Otherwise an operation does it in the background; you can watch and cancel it. Jobs that the action does not apply to are skipped and counted.",
			body:   of[client.BulkRequest](), sample: `{"filter": {"tag": "reporting"}, "action": "pause", "reason": "the warehouse is moved", "dry_run": true}`, status: 202, also: 200, answer: of[client.BulkBegun](), handle: jobAPI{s}.bulkJobs,
		},
		{
			method: "GET", path: "/api/v1/jobs", needs: tenant.Read, group: "Jobs", summary: "List jobs, newest first",
			detail: "If a filter matches few of very many, a page may end early, or even be empty: partial is true, and next_cursor continues the search.",
			params: jobParams, status: 200, answer: of[client.Jobs](), handle: jobAPI{s}.listJobs,
		},
		{
			method: "GET", path: "/api/v1/jobs/{id}", needs: tenant.Read, group: "Jobs", summary: "Read a job",
			detail: "By its id, or by its key as key:…", status: 200, answer: of[client.Job](), handle: jobAPI{s}.getJob,
		},
		{
			method: "PATCH", path: "/api/v1/jobs/{id}", needs: tenant.Write, group: "Jobs", summary: "Change a job",
			detail: "Fields that you leave out stay as they are; null restores the default. Payload, headers and lists are replaced as a whole; the key cannot change. With If-Match: revision you get 412 if someone else changed the job meanwhile. Executions that have not started follow the change; a new schedule counts from now.",
			body:   of[client.JobRequest](), sample: `{"schedule": {"cron_expression": "30 4 * * *"}, "priority": 3}`, status: 200, answer: of[client.Job](), handle: jobAPI{s}.patchJob,
		},
		{
			method: "DELETE", path: "/api/v1/jobs/{id}", needs: tenant.Write, group: "Jobs", summary: "Delete a job",
			detail: "Cancels its waiting executions. Running executions continue, or with running=cancel are asked to stop. The history stays for as long as it is kept. 409 while a hold keeps the job.", params: deletionParams, status: 200, answer: of[client.Job](), handle: jobAPI{s}.deleteJob,
		},
		{
			method: "GET", path: "/api/v1/jobs/{id}/dependencies", needs: tenant.Read, group: "Jobs", summary: "The jobs that a job depends on, and those that depend on it",
			detail: "The answer names, for each job that this one depends on, the execution that ended last and that this job has not run for yet; null if there is none.",
			status: 200, answer: of[client.JobDependencies](), handle: jobAPI{s}.getDependencies,
		},
		{
			method: "PUT", path: "/api/v1/jobs/{id}/dependencies", needs: tenant.Write, group: "Jobs", summary: "Have a job run after others",
			detail: "The job runs once each time that every job in depends_on has had an execution that ended as condition asks: success (the default), failure (it failed, timed out, expired or was cancelled) or always. " +
				"If one of them ends more often, the latest execution counts. When the job is due by its own schedule before that, its execution is WAITING. Jobs that depend on each other in a cycle are refused, and the answer names the cycle. If-Match works as in a change of the job.",
			body: of[client.DependenciesRequest](), sample: `{"depends_on": ["key:extract"], "condition": "success"}`, status: 200, answer: of[client.JobDependencies](), handle: jobAPI{s}.putDependencies,
		},
		{
			method: "DELETE", path: "/api/v1/jobs/{id}/dependencies", needs: tenant.Write, group: "Jobs", summary: "Have a job depend on nothing",
			detail: "An execution that waited for other jobs may start.", status: 200, answer: of[client.JobDependencies](), handle: jobAPI{s}.deleteDependencies,
		},
		{
			method: "PATCH", path: "/api/v1/jobs/{id}/pause", needs: tenant.Write, group: "Jobs", summary: "Pause a job",
			detail: "A paused job does not fire, and its scheduled executions that wait are held. Running executions continue. The body is optional. Pausing it again changes reason and until.",
			body:   of[client.PauseRequest](), sample: `{"reason": "maintenance", "until": "2030-01-01T06:00:00Z"}`, status: 200, answer: of[client.Job](), handle: jobAPI{s}.pauseJob,
		},
		{
			method: "PATCH", path: "/api/v1/jobs/{id}/resume", needs: tenant.Write, group: "Jobs", summary: "Resume a paused job",
			detail: "catch_up decides which missed runs are made up.", status: 200, answer: of[client.Job](), handle: jobAPI{s}.resumeJob,
		},
		{
			method: "POST", path: "/api/v1/jobs/{id}/pause", needs: tenant.Write, group: "Jobs", summary: "Pause a job",
			detail: "A paused job does not fire, and its scheduled executions that wait are held. Running executions continue. The body is optional. Pausing it again changes reason and until.",
			body:   of[client.PauseRequest](), sample: `{"reason": "maintenance", "until": "2030-01-01T06:00:00Z"}`, status: 200, answer: of[client.Job](), handle: jobAPI{s}.pauseJob,
		},
		{
			method: "POST", path: "/api/v1/jobs/{id}/resume", needs: tenant.Write, group: "Jobs", summary: "Resume a paused job",
			detail: "catch_up decides which missed runs are made up.", status: 200, answer: of[client.Job](), handle: jobAPI{s}.resumeJob,
		},
		{
			method: "POST", path: "/api/v1/jobs/{id}/trigger", needs: tenant.Write, group: "Jobs", summary: "Run a job now",
			detail: "The execution has a priority two levels higher than the job's. You can also run a one-off job that has finished. The body is optional.",
			body:   of[client.TriggerRequest](), sample: `{"payload_override": {"n": 1}}`, status: 202, answer: of[client.Triggered](), handle: jobAPI{s}.triggerJob,
		},
		{
			method: "POST", path: "/api/v1/jobs/{id}/backfill", needs: tenant.Write, group: "Jobs", summary: "Backfill: fire past instants of a job, in the background",
			detail: "Uses the current schedule; by default fires only the missing instants. The response names the operation; with dry_run it is 200 with only the count.",
			body:   of[client.BackfillRequest](), sample: `{"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z", "rate_per_s": 10}`, status: 202, also: 200, answer: of[client.Begun](), handle: jobAPI{s}.backfillJob,
		},
		{
			method: "GET", path: "/api/v1/jobs/{id}/next", needs: tenant.Read, group: "Jobs", summary: "List the next instants of a job",
			params: nextParams, status: 200, answer: of[client.Preview](), handle: jobAPI{s}.nextOfJob,
		},
		{
			method: "GET", path: "/api/v1/jobs/{id}/occurrences", needs: tenant.Read, group: "Jobs", summary: "List every scheduled instant of a job and its outcome: did it run?",
			detail: "Earliest first. Instants of an earlier schedule appear if they left a record.",
			params: occurrenceParams, status: 200, answer: of[client.Occurrences](), handle: jobAPI{s}.listOccurrences,
		},
		{
			method: "GET", path: "/api/v1/jobs/{id}/executions", needs: tenant.Read, group: "Executions", summary: "List a job's executions, latest scheduled time first",
			params: executionParams, status: 200, answer: of[client.Executions](), handle: executionAPI{s}.listExecutions,
		},
		{
			method: "GET", path: "/api/v1/executions/{id}", needs: tenant.Read, group: "Executions", summary: "Read an execution",
			status: 200, answer: of[client.Execution](), handle: executionAPI{s}.getExecution,
		},
		{
			method: "GET", path: "/api/v1/executions/{id}/attempts", needs: tenant.Read, group: "Executions", summary: "List every attempt of an execution",
			params: pageParams, status: 200, answer: of[client.ExecutionAttempts](), handle: executionAPI{s}.listAttempts,
		},
		{
			method: "GET", path: "/api/v1/executions/{id}/events", needs: tenant.Read, group: "Executions", summary: "List the events of an execution, earliest first",
			params: pageParams, status: 200, answer: of[client.Events](), handle: executionAPI{s}.listEvents,
		},
		{
			method: "GET", path: "/api/v1/executions/{id}/report", needs: tenant.Read, group: "Executions", summary: "Summarize an execution: how it ended, and where its time went",
			status: 200, answer: of[client.Report](), handle: executionAPI{s}.reportExecution,
		},
		{
			method: "GET", path: "/api/v1/executions/{id}/logs", needs: tenant.Read, group: "Executions", summary: "Read or follow the log of an execution",
			detail: "Lines are ordered by attempt. With follow=true or Accept: text/event-stream the response is a stream: an event line for each line, an event beat every five seconds, and an event end when the execution has finished. To resume after a line, send its id as Last-Event-ID.",
			params: logParams, status: 200, answer: of[client.Log](), handle: executionAPI{s}.listLog,
		},
		{
			method: "POST", path: "/api/v1/executions/{id}/cancel", needs: tenant.Write, group: "Executions", summary: "Cancel an execution",
			detail: "An execution that waits, for a worker or for its target to complete it, ends at once. A running one is asked to stop and is ended by force 30 s later. A second cancel gets the same response; a finished execution gets 409. The body is optional.",
			body:   of[client.CancelRequest](), sample: `{"reason": "not needed"}`, status: 202, answer: of[client.Execution](), handle: executionAPI{s}.cancelExecution,
		},
		{
			method: "POST", path: "/api/v1/executions/{id}/complete", needs: tenant.Callback, group: "Executions", summary: "Complete an execution whose callback was answered with 202",
			detail: "For targets that answer 202 with Carillon-Async: true and finish later. Send Authorization: Bearer with the Carillon-Callback-Token of the callback; execution_id and fencing_token are optional. You can safely repeat the same outcome; if the attempt ended in another way, you get 409 stale_token.",
			body:   of[client.Outcome](), sample: `{"status": "SUCCEEDED", "result": {"rows": 12}}`, status: 200, answer: of[client.Verdict](), handle: accessAPI{s}.completeExecution,
		},
		{
			method: "POST", path: "/api/v1/executions/{id}/retry", needs: tenant.Write, group: "Executions", summary: "Run a finished execution again, as a new one",
			detail: "The new execution names the old one in retry_of. The old one does not change, except that it is no longer a dead letter. The execution of a run of a workflow, or of a node, retries that run or node, which must have ended; payload_override is then the input of the run. The body is optional.",
			body:   of[client.TriggerRequest](), sample: `{"payload_override": {"n": 1}}`, status: 202, answer: of[client.Triggered](), handle: executionAPI{s}.retryExecution,
		},
		{
			method: "GET", path: "/api/v1/dead-letters", needs: tenant.Read, group: "Dead letters", summary: "List dead letters, latest first",
			detail: "Dead letters are executions that failed for good. They keep their error history until someone redrives or discards them. If a filter matches few of very many, a page may end early: partial is true, and next_cursor continues the search.",
			params: deadLetterParams, status: 200, answer: of[client.DeadLetters](), handle: executionAPI{s}.listDeadLetters,
		},
		{
			method: "POST", path: "/api/v1/dead-letters/{id}/redrive", needs: tenant.Write, group: "Dead letters", summary: "Run a dead letter again, as a new execution",
			detail: "The dead letter of a run of a workflow, or of a node, retries that run or node.",
			status: 202, answer: of[client.Triggered](), handle: executionAPI{s}.redriveDeadLetter,
		},
		{
			method: "POST", path: "/api/v1/dead-letters:redrive", needs: tenant.Write, group: "Dead letters", summary: "Run many dead letters again, in the background",
			detail: "Select dead letters by ids or by a filter, and set a rate. Those that die after the request are not included. The response names the operation; with dry_run it is 200 with only the count.",
			body:   of[client.DeadLetterRequest](), sample: `{"filter": {"reason": "ATTEMPTS_EXHAUSTED"}, "rate_per_s": 10}`, status: 202, also: 200, answer: of[client.Begun](), handle: executionAPI{s}.redriveDeadLetters,
		},
		{
			method: "POST", path: "/api/v1/dead-letters:discard", needs: tenant.Write, group: "Dead letters", summary: "Discard dead letters",
			detail: "The executions stay in the history. With ids it happens at once, and the response has the count. With a filter it happens in the background, and the response is 202 with the operation.",
			body:   of[client.DeadLetterRequest](), sample: `{"ids": ["0190a6c8-7b3e-7cc0-8a1b-0123456789ab"]}`, status: 200, answer: of[client.Discarded](), also: 202, other: of[client.Begun](), handle: executionAPI{s}.discardDeadLetters,
		},
		{
			method: "GET", path: "/api/v1/operations", needs: tenant.Read, group: "Operations", summary: "List operations, newest first",
			params: pageParams, status: 200, answer: of[client.Operations](), handle: executionAPI{s}.listOperations,
		},
		{
			method: "GET", path: "/api/v1/operations/{id}", needs: tenant.Read, group: "Operations", summary: "Read an operation and its progress",
			status: 200, answer: of[client.Operation](), handle: executionAPI{s}.getOperation,
		},
		{
			method: "POST", path: "/api/v1/operations/{id}/cancel", needs: tenant.Write, group: "Operations", summary: "Cancel an operation",
			detail: "It stops; what it has done stays done. An operation that has finished gets 409.", status: 202, answer: of[client.Operation](), handle: executionAPI{s}.cancelOperation,
		},
		{
			method: "POST", path: "/api/v1/schedules/preview", needs: tenant.Read, group: "Schedules", summary: "Preview a schedule: in words, and its next instants",
			body: of[client.PreviewRequest](), sample: `{"cron_expression": "30 2 * * *", "timezone": "Europe/Berlin", "n": 5}`, status: 200, answer: of[client.Preview](), handle: jobAPI{s}.previewSchedule,
		},
		{
			method: "GET", path: "/api/v1/forecast", needs: tenant.Read, group: "Schedules", summary: "Forecast how many executions schedules will create, by minute",
			params: forecastParams, status: 200, answer: of[client.Forecast](), handle: jobAPI{s}.forecast,
		},
		{
			method: "GET", path: "/api/v1/calendars", needs: tenant.Read, group: "Schedules", summary: "List calendars",
			params: pageParams, status: 200, answer: of[client.Calendars](), handle: settingsAPI{s}.listCalendars,
		},
		{
			method: "GET", path: "/api/v1/calendars/{name}", needs: tenant.Read, group: "Schedules", summary: "Read a calendar",
			status: 200, answer: of[client.Calendar](), handle: settingsAPI{s}.getCalendar,
		},
		{
			method: "PUT", path: "/api/v1/calendars/{name}", needs: tenant.Write, group: "Schedules", summary: "Create or replace a calendar of dates that schedules leave out",
			detail: "Jobs that use the calendar are scheduled again.",
			body:   of[client.CalendarRequest](), sample: `{"dates": ["2026-12-28"], "yearly": ["12-25", "12-26"], "weekdays": ["SAT", "SUN"], "timezone": "Europe/Berlin"}`, status: 200, answer: of[client.Calendar](), handle: settingsAPI{s}.putCalendar,
		},
		{
			method: "DELETE", path: "/api/v1/calendars/{name}", needs: tenant.Write, group: "Schedules", summary: "Delete a calendar",
			detail: "409 while a job uses it.", status: 200, answer: of[client.Calendar](), handle: settingsAPI{s}.deleteCalendar,
		},
		{
			method: "GET", path: "/api/v1/secrets", needs: tenant.Read, group: "Secrets", summary: "List secrets, never their values",
			status: 200, answer: of[client.Secrets](), handle: accessAPI{s}.listSecrets,
		},
		{
			method: "GET", path: "/api/v1/secrets/{name}", needs: tenant.Read, group: "Secrets", summary: "Read the metadata of a secret, never its value",
			status: 200, answer: of[client.Secret](), handle: accessAPI{s}.getSecret,
		},
		{
			method: "PUT", path: "/api/v1/secrets/{name}", needs: tenant.Manage, group: "Secrets", summary: "Create a secret, or its next version",
			detail: "Jobs refer to it as ${secret:name} in header values, in env and in strings of their payload. The value is encrypted, goes to workers only, and cannot be read back. Attempts that start more than five seconds later get the new value. Sending the same value again creates no new version.",
			body:   of[client.SecretRequest](), sample: `{"value": "s3cr3t"}`, status: 200, answer: of[client.Secret](), handle: accessAPI{s}.putSecret,
		},
		{
			method: "DELETE", path: "/api/v1/secrets/{name}", needs: tenant.Manage, group: "Secrets", summary: "Delete a secret",
			detail: "409 while an ACTIVE or PAUSED job refers to it, unless force is true. Executions that refer to a deleted secret fail without retries, with an error that says so.", params: forceParams, status: 200, answer: of[client.Secret](), handle: accessAPI{s}.deleteSecret,
		},
		{
			method: "PUT", path: "/api/v1/artifacts", needs: tenant.Write, group: "Artifacts", summary: "Upload an artifact: a program for jobs with the target command",
			detail: "The body is the raw artifact: a program, or a tar, tar.gz or zip archive. Its id is the SHA-256 of its content. The status is 201 if it is new to the tenant, otherwise 200.",
			bytes:  true, status: 201, also: 200, answer: of[client.Artifact](), handle: settingsAPI{s}.putArtifact,
		},
		{
			method: "GET", path: "/api/v1/artifacts/{id}", needs: tenant.Fetch, group: "Artifacts", summary: "Download an artifact",
			bytes: true, status: 200, handle: settingsAPI{s}.getArtifact,
		},
		{
			method: "DELETE", path: "/api/v1/artifacts/{id}", needs: tenant.Write, group: "Artifacts", summary: "Delete an artifact",
			detail: "409 while an ACTIVE or PAUSED job refers to it.", status: 200, answer: of[client.Artifact](), handle: settingsAPI{s}.deleteArtifact,
		},
		{
			method: "GET", path: "/api/v1/limits", needs: tenant.Read, group: "Limits and tenants", summary: "List the limits of the tenant and its queues",
			params: pageParams, status: 200, answer: of[client.Limits](), handle: settingsAPI{s}.listLimits,
		},
		{
			method: "PUT", path: "/api/v1/limits/tenant", needs: tenant.Manage, group: "Limits and tenants", summary: "Limit all executions of the tenant",
			detail: "Replaces the previous limit; without max_concurrent and rate_limit, removes it. Executions over a limit wait.",
			body:   of[client.LimitRequest](), sample: `{"max_concurrent": 100, "rate_limit": {"count": 50, "per": "1s"}}`, status: 200, answer: of[client.Limit](), handle: settingsAPI{s}.setTenantLimit,
		},
		{
			method: "PUT", path: "/api/v1/limits/queues/{queue}", needs: tenant.Manage, group: "Limits and tenants", summary: "Limit the executions of one queue",
			body: of[client.LimitRequest](), sample: `{"max_concurrent": 5}`, status: 200, answer: of[client.Limit](), handle: settingsAPI{s}.setQueueLimit,
		},
		{
			method: "GET", path: "/api/v1/signing-secrets", needs: tenant.Read, group: "Signing secrets", summary: "List the secrets that sign callbacks, newest first",
			detail: "The secrets themselves are never shown. A tenant has one from the start, unless the server has no key to encrypt it with: then callbacks are not signed.", status: 200, answer: of[client.SigningSecrets](), handle: accessAPI{s}.listSigningSecrets,
		},
		{
			method: "POST", path: "/api/v1/signing-secrets/{id}/reveal", needs: tenant.Manage, group: "Signing secrets", summary: "Show a tenant's first signing secret, once",
			detail: "Only the first request gets it. Later ones get 409: rotate the secret instead.", status: 200, answer: of[client.SigningSecret](), handle: accessAPI{s}.revealSigningSecret,
		},
		{
			method: "POST", path: "/api/v1/signing-secrets", needs: tenant.Manage, group: "Signing secrets", summary: "Create a signing secret that replaces the current one",
			detail: "The response shows the secret once. The previous one keeps signing too for overlap_seconds, so that you have time to update targets. The body is optional.",
			body:   of[client.SigningSecretRequest](), sample: `{"overlap_seconds": 86400}`, status: 201, answer: of[client.SigningSecret](), handle: accessAPI{s}.addSigningSecret,
		},
		{
			method: "DELETE", path: "/api/v1/signing-secrets/{id}", needs: tenant.Manage, group: "Signing secrets", summary: "Revoke a signing secret",
			detail: "Within 5 s, no callback is signed with it.", status: 200, answer: of[client.SigningSecret](), handle: accessAPI{s}.deleteSigningSecret,
		},
		{
			method: "GET", path: "/api/v1/tenants", needs: tenant.Run, group: "Limits and tenants", summary: "List tenants",
			params: pageParams, status: 200, answer: of[client.Tenants](), handle: settingsAPI{s}.listTenants,
		},
		{
			method: "POST", path: "/api/v1/tenants", needs: tenant.Run, group: "Limits and tenants", summary: "Create a tenant",
			detail: "The id is derived from the name. The tier sets the tenant's share of the workers while several tenants have work waiting: free 1, pro 3, enterprise 10.",
			body:   of[client.TenantRequest](), sample: `{"name": "Acme", "tier": "pro"}`, status: 201, answer: of[client.Tenant](), handle: settingsAPI{s}.createTenant,
		},
		{
			method: "GET", path: "/api/v1/tenants/{id}", needs: tenant.Run, group: "Limits and tenants", summary: "Read a tenant with its quotas and usage",
			status: 200, answer: of[client.Tenant](), handle: settingsAPI{s}.getTenant,
		},
		{
			method: "PATCH", path: "/api/v1/tenants/{id}", needs: tenant.Run, group: "Limits and tenants", summary: "Change a tenant's name, tier, quotas or allowed callback addresses",
			detail: "Every server applies the change within 5 s. What the tenant already has stays and keeps running, even if it is over a new quota; the quota limits what it creates from now on.",
			body:   of[client.TenantChange](), sample: `{"tier": "enterprise", "quotas": {"active_jobs": 250000, "max_retries": null}}`, status: 200, answer: of[client.Tenant](), handle: settingsAPI{s}.changeTenant,
		},
		{
			method: "GET", path: "/api/v1/workers", needs: tenant.Read, group: "Workers", summary: "List workers, latest first",
			detail: "Workers that are gone are listed as DEAD for an hour.", params: pageParams, status: 200, answer: of[client.Workers](), handle: executionAPI{s}.listWorkers,
		},
		{
			method: "POST", path: "/api/v1/workers/{id}/drain", needs: tenant.Write, group: "Workers", summary: "Drain a worker",
			detail: "The worker takes no new executions, finishes what it has and shows as DRAINING. To drain a worker that serves all tenants you need the role system.",
			status: 202, answer: of[client.Draining](), handle: workerAPI{s}.drainWorker,
		},
		{
			method: "GET", path: "/api/v1/admin/scaling", needs: tenant.Scale, group: "Workers", summary: "Read how many workers you need",
			detail: "For autoscalers: covers all tenants, and is counted at most every 2 s. Use a key with the role worker for all tenants.", params: scalingParams, status: 200, answer: of[client.Scaling](), handle: viewAPI{s}.scaling,
		},
		{
			method: "POST", path: "/api/v1/workers", needs: tenant.Work, group: "Worker protocol", summary: "Register a worker",
			detail: "Send the session from the response as X-Worker-Session on every call below. A worker that sends no heartbeat for lease_seconds loses its leases.",
			body:   of[client.Registration](), sample: `{"host": "box-1", "kinds": ["send-email"], "capacity": 20}`, status: 201, answer: of[client.Session](), handle: workerAPI{s}.registerWorker,
		},
		{
			method: "POST", path: "/api/v1/workers/{id}/claim", needs: tenant.Work, group: "Worker protocol", summary: "Wait for executions and lease them",
			detail: "The response holds as many executions as fit into about 8 MiB, at least one; the others stay in the queue.",
			body:   of[client.ClaimRequest](), sample: `{"max": 20, "wait_seconds": 20}`, status: 200, answer: of[client.Claimed](), handle: workerAPI{s}.claim,
		},
		{
			method: "POST", path: "/api/v1/executions/{id}/start", needs: tenant.Work, group: "Worker protocol", summary: "Get an attempt with the values of its secrets, to begin it",
			detail: "For attempts that were claimed with late_secrets. Send the worker_id as X-Worker-ID, beside X-Worker-Session. The job's definition and the values are those of now. It is safe to repeat. You get 409 stale_token if the lease is lost, the execution was asked to stop or its job was deleted, and 409 not_started if a secret does not exist any more: do not begin the attempt, and release it. After a 429 or 503, ask again.",
			body:   of[client.StartRequest](), sample: `{"fencing_token": 7}`, status: 200, answer: of[client.Attempt](), handle: workerAPI{s}.start,
		},
		{
			method: "POST", path: "/api/v1/workers/{id}/beat", needs: tenant.Work, group: "Worker protocol", summary: "Send a heartbeat: keep the session alive, and learn what to stop",
			detail: "Renews every lease of the session. List every execution you hold, with new progress, including those that ended until their report is answered: an execution that you do not list for lease_seconds goes to another worker. If the response says drain, claim no more, finish what you hold and keep sending heartbeats.", body: of[client.Beat](), sample: `{"executions": [{"execution_id": "0190a6c8-7b3e-7cc0-8a1b-0123456789ab", "fencing_token": 7, "progress": {"percent": 40, "message": "half"}}]}`, status: 200, answer: of[client.Orders](), handle: workerAPI{s}.beat,
		},
		{
			method: "POST", path: "/api/v1/workers/{id}/complete", needs: tenant.Work, group: "Worker protocol", summary: "Report outcomes",
			detail: "Send each outcome with the fencing token of its claim. You can safely repeat the same outcome; a stale one is refused. Error messages are cut off after 10 000 bytes. SNOOZED postpones the execution by retry_after_ms without using up a retry.",
			body:   of[client.CompleteRequest](), sample: `{"outcomes": []}`, status: 200, answer: of[client.Verdicts](), handle: workerAPI{s}.complete,
		},
		{
			method: "POST", path: "/api/v1/workers/{id}/logs", needs: tenant.Work, group: "Worker protocol", summary: "Add lines to the log of an attempt",
			detail: "Send the fencing token of the claim; you get 409 stale_token if the lease is lost. With offset you can safely send the same lines again. Carillon keeps 100 000 lines and 10 MiB per attempt; cut says that the limit is reached.",
			body:   of[client.LogRequest](), sample: `{"execution_id": "0190a6c8-7b3e-7cc0-8a1b-0123456789ab", "fencing_token": 7, "offset": 0, "lines": [{"at": "2026-01-31T15:04:05Z", "stream": "stdout", "text": "hello"}]}`, status: 200, answer: of[client.LogAnswer](), handle: executionAPI{s}.appendLog,
		},
		{
			method: "POST", path: "/api/v1/workers/{id}/release", needs: tenant.Work, group: "Worker protocol", summary: "Hand executions back at once; no attempt is charged",
			body: of[client.ReleaseRequest](), sample: `{"executions": []}`, status: 200, answer: of[struct{}](), handle: workerAPI{s}.release,
		},
		{
			method: "DELETE", path: "/api/v1/workers/{id}", needs: tenant.Work, group: "Worker protocol", summary: "Leave, and hand back everything held",
			status: 200, answer: of[struct{}](), handle: workerAPI{s}.leave,
		},
		{
			method: "GET", path: "/healthz", needs: tenant.Open, group: "Health", summary: "Check that the process is alive",
			status: 200, answer: of[client.Health](), handle: s.healthz,
		},
		{
			method: "GET", path: "/health", needs: tenant.Open, group: "Health", summary: "The same as /healthz",
			status: 200, answer: of[client.Health](), handle: s.healthz,
		},
		{
			method: "GET", path: "/readyz", needs: tenant.Open, group: "Health", summary: "Check that the server can serve: the store is reachable, has space, and its migrations are current",
			status: 200, answer: of[client.Health](), handle: s.readyz,
		},
		{method: "GET", path: "/openapi.json", needs: tenant.Open, summary: "The OpenAPI document", handle: viewAPI{s}.openAPI},
		{method: "GET", path: "/docs", needs: tenant.Open, summary: "The API for people", handle: viewAPI{s}.docs},
		{method: "GET", path: "/docs/style.css", needs: tenant.Open, summary: "The style sheet of the API pages", handle: viewAPI{s}.docsStyle},
	}
	if s.cfg.Demo {
		rs = append(rs, route{method: "POST", path: "/demo/echo", needs: tenant.Open, summary: "A target for the sample jobs", handle: s.echo})
	}
	return slices.Concat(rs, workerAPI{s}.nodeRoutes(), s.workflowRoutes(), s.runRoutes(), executionAPI{s}.historyRoutes(), settingsAPI{s}.queueRoutes(), settingsAPI{s}.ruleRoutes(), accessAPI{s}.keyRoutes(), settingsAPI{s}.quotaRoutes(), accessAPI{s}.auditRoutes(), jobAPI{s}.declareRoutes(), viewAPI{s}.observeRoutes(), viewAPI{s}.supportRoutes(), viewAPI{s}.archiveRoutes(), settingsAPI{s}.badgeRoutes(), settingsAPI{s}.holdRoutes(), viewAPI{s}.screenRoutes(), accessAPI{s}.signInRoutes(), viewAPI{s}.pageRoutes())
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request, _ tenant.Principal) error {
	return reply(w, 200, client.Health{Status: "ok", Version: s.cfg.Version})
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request, _ tenant.Principal) error {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	if err := s.cfg.Ready(ctx); err != nil {
		s.log.Warn("not ready", "error", err)
		return refuse(503, "not_ready", notReady(err))
	}
	health := client.Health{Status: "ready", Version: s.cfg.Version}
	if s.cfg.Warnings != nil {
		health.Warnings = s.cfg.Warnings()
	}
	return reply(w, 200, health)
}

// notReady returns why a server cannot serve, without the addresses and paths that an error may contain: anybody may
// ask.
func notReady(err error) string {
	switch {
	case errors.Is(err, engine.ErrNoRoom):
		return "The store's disk is full."
	case errors.Is(err, engine.ErrReadOnly):
		return "The store is read-only: it takes no writes."
	case errors.Is(err, engine.ErrSchema):
		return "The store's migrations are not current."
	case errors.Is(err, engine.ErrUnavailable):
		return "The store is not reachable."
	}
	return "The server is starting or stopping, or its store failed; its log says why."
}

// echo returns the body that it was sent, with the requested status if that is an error status.
func (s *Server) echo(w http.ResponseWriter, r *http.Request, _ tenant.Principal) error {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	if err != nil {
		return refuse(413, "too_large", "The echo takes at most 64 KiB.")
	}
	got := json.RawMessage("null")
	if json.Valid(data) {
		got = data
	}
	var wish struct {
		Status int `json:"status"`
	}
	status := 200
	if json.Unmarshal(got, &wish) == nil && wish.Status >= 400 && wish.Status < 600 {
		status = wish.Status
	}
	return reply(w, status, map[string]any{
		"echo": got, "execution": r.Header.Get("X-Execution-ID"), "attempt": r.Header.Get("X-Attempt-Number"), "key": r.Header.Get("X-Idempotency-Key"),
	})
}
