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

// route is one thing that can be asked for.
type route struct {
	method  string
	path    string
	needs   tenant.Permission
	group   string // heading in the documents; "" for what is not part of the API
	summary string
	detail  string
	params  []param
	body    reflect.Type
	sample  string // a body that works
	bytes   bool   // what goes in (PUT) or out (GET) is no JSON, but bytes
	stream  bool   // the answer is a stream of events, whose data is JSON
	status  int
	answer  reflect.Type
	also    int          // another status; 0: none
	other   reflect.Type // its answer; nil: the same

	everywhere bool // also served by processes without the API
	away       bool // while the store is away, also for whoever it knew as system within the last 15 minutes

	handle func(http.ResponseWriter, *http.Request, tenant.Principal) error
}

// param is a parameter behind the ?.
type param struct{ name, kind, doc string }

func of[T any]() reflect.Type { return reflect.TypeFor[T]() }

const jobSample = `{"name": "hello", "execution": {"target": "simulate", "work_kind": "noop"}}`

// table lists every route. There is no other way in.
func (s *Server) table() []route {
	rs := []route{
		{
			method: "POST", path: "/api/v1/jobs", needs: tenant.Write, group: "Jobs", summary: "Create a job",
			detail: "An IMMEDIATE job runs at once, a ONE_TIME job at its scheduled_time, CRON and INTERVAL jobs again and again. The answer comes when the job is durable. Send X-Idempotency-Key to make the request safe to repeat for 24 hours. Where an execution with the same unique_key has not finished, the answer is its job, with the header Carillon-Deduplicated: true.",
			body:   of[client.JobRequest](), sample: jobSample, status: 201, answer: of[client.Job](), handle: jobAPI{s}.createJob,
		},
		{
			method: "POST", path: "/api/v1/jobs:batch", needs: tenant.Write, group: "Jobs", summary: "Create up to 10 000 jobs, all or none",
			detail: "A job whose unique_key is held is not created: its entry names who holds it, and the header Carillon-Deduplicated is set.",
			body:   of[[]client.JobRequest](), sample: "[" + jobSample + "]", status: 201, answer: of[client.CreatedJobs](), handle: jobAPI{s}.createJobs,
		},
		{
			method: "POST", path: "/api/v1/jobs:bulk", needs: tenant.Write, group: "Jobs", summary: "Pause, resume, delete, trigger or tag many jobs",
			detail: "Those named by ids, or all that a filter chooses; with dry_run it is 200 with their number and the first ten, and nothing is done. Else it is an operation in the background that can be watched and cancelled. Jobs it cannot be done to are passed over and counted.",
			body:   of[client.BulkRequest](), sample: `{"filter": {"tag": "reporting"}, "action": "pause", "reason": "the warehouse is moved", "dry_run": true}`, status: 202, also: 200, answer: of[client.BulkBegun](), handle: jobAPI{s}.bulkJobs,
		},
		{
			method: "GET", path: "/api/v1/jobs", needs: tenant.Read, group: "Jobs", summary: "List jobs, the newest first",
			detail: "Where few of very many are chosen a page ends early: partial is true, and next_cursor goes on from where it came to, also where the page is empty.",
			params: jobParams, status: 200, answer: of[client.Jobs](), handle: jobAPI{s}.listJobs,
		},
		{
			method: "GET", path: "/api/v1/jobs/{id}", needs: tenant.Read, group: "Jobs", summary: "Read a job",
			detail: "By its id, or by its key as key:…", status: 200, answer: of[client.Job](), handle: jobAPI{s}.getJob,
		},
		{
			method: "PATCH", path: "/api/v1/jobs/{id}", needs: tenant.Write, group: "Jobs", summary: "Change a job",
			detail: "What the body leaves out stays; null is the default again. Payload, headers and lists are replaced whole; the key cannot change. With If-Match: revision it is 412 where someone else changed the job meanwhile. What was staged and has not begun follows the change; another schedule is planned anew from now.",
			body:   of[client.JobRequest](), sample: `{"schedule": {"cron_expression": "30 4 * * *"}, "priority": 3}`, status: 200, answer: of[client.Job](), handle: jobAPI{s}.patchJob,
		},
		{
			method: "DELETE", path: "/api/v1/jobs/{id}", needs: tenant.Write, group: "Jobs", summary: "Delete a job",
			detail: "Cancels its executions that wait and leaves those that run, or, with running=cancel, asks them to stop. Its history stays.", params: deletionParams, status: 200, answer: of[client.Job](), handle: jobAPI{s}.deleteJob,
		},
		{
			method: "PATCH", path: "/api/v1/jobs/{id}/pause", needs: tenant.Write, group: "Jobs", summary: "Pause a job",
			detail: "It does not fire, and what waits of its schedule is held; what runs goes on. The body may be left out. Pausing it again changes reason and until.",
			body:   of[client.PauseRequest](), sample: `{"reason": "maintenance", "until": "2030-01-01T06:00:00Z"}`, status: 200, answer: of[client.Job](), handle: jobAPI{s}.pauseJob,
		},
		{
			method: "PATCH", path: "/api/v1/jobs/{id}/resume", needs: tenant.Write, group: "Jobs", summary: "Resume a paused job",
			detail: "What it missed is judged by catch_up.", status: 200, answer: of[client.Job](), handle: jobAPI{s}.resumeJob,
		},
		{
			method: "POST", path: "/api/v1/jobs/{id}/pause", needs: tenant.Write, group: "Jobs", summary: "Pause a job",
			detail: "It does not fire, and what waits of its schedule is held; what runs goes on. The body may be left out. Pausing it again changes reason and until.",
			body:   of[client.PauseRequest](), sample: `{"reason": "maintenance", "until": "2030-01-01T06:00:00Z"}`, status: 200, answer: of[client.Job](), handle: jobAPI{s}.pauseJob,
		},
		{
			method: "POST", path: "/api/v1/jobs/{id}/resume", needs: tenant.Write, group: "Jobs", summary: "Resume a paused job",
			detail: "What it missed is judged by catch_up.", status: 200, answer: of[client.Job](), handle: jobAPI{s}.resumeJob,
		},
		{
			method: "POST", path: "/api/v1/jobs/{id}/trigger", needs: tenant.Write, group: "Jobs", summary: "Run a job now",
			detail: "Ranked two priorities higher than the job. Works on finished one-off jobs, too. The body may be left out.",
			body:   of[client.TriggerRequest](), sample: `{"payload_override": {"n": 1}}`, status: 202, answer: of[client.Triggered](), handle: jobAPI{s}.triggerJob,
		},
		{
			method: "POST", path: "/api/v1/jobs/{id}/backfill", needs: tenant.Write, group: "Jobs", summary: "Fire past instants of a job, in the background",
			detail: "By its schedule as it is now; by default only what is missing. The answer names the operation; with dry_run it is 200 with the count only.",
			body:   of[client.BackfillRequest](), sample: `{"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z", "rate_per_s": 10}`, status: 202, also: 200, answer: of[client.Begun](), handle: jobAPI{s}.backfillJob,
		},
		{
			method: "GET", path: "/api/v1/jobs/{id}/next", needs: tenant.Read, group: "Jobs", summary: "The next instants of a job",
			params: nextParams, status: 200, answer: of[client.Preview](), handle: jobAPI{s}.nextOfJob,
		},
		{
			method: "GET", path: "/api/v1/jobs/{id}/occurrences", needs: tenant.Read, group: "Jobs", summary: "Did it run? Every instant of a job's schedule and what became of it",
			detail: "The first one first. Instants of an earlier schedule are there as far as they left a record.",
			params: occurrenceParams, status: 200, answer: of[client.Occurrences](), handle: jobAPI{s}.listOccurrences,
		},
		{
			method: "GET", path: "/api/v1/jobs/{id}/executions", needs: tenant.Read, group: "Executions", summary: "List a job's executions, the latest scheduled time first",
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
			method: "GET", path: "/api/v1/executions/{id}/events", needs: tenant.Read, group: "Executions", summary: "Tell all that happened to an execution, the first thing first",
			params: pageParams, status: 200, answer: of[client.Events](), handle: executionAPI{s}.listEvents,
		},
		{
			method: "GET", path: "/api/v1/executions/{id}/report", needs: tenant.Read, group: "Executions", summary: "Sum up an execution: how it ended, and where its time went",
			status: 200, answer: of[client.Report](), handle: executionAPI{s}.reportExecution,
		},
		{
			method: "GET", path: "/api/v1/executions/{id}/logs", needs: tenant.Read, group: "Executions", summary: "Read what the attempts of an execution wrote, or follow it",
			detail: "Attempt by attempt. With follow=true or Accept: text/event-stream it is a stream: an event line for each line, whose id goes into Last-Event-ID to go on behind it, an event beat every five seconds, and an event end when the execution has finished.",
			params: logParams, status: 200, answer: of[client.Log](), handle: executionAPI{s}.listLog,
		},
		{
			method: "POST", path: "/api/v1/executions/{id}/cancel", needs: tenant.Write, group: "Executions", summary: "Cancel an execution",
			detail: "One that waits, for a worker or for its target to complete it, ends at once; one that runs is asked to stop and, 30 s later, ended by force. A second cancel gets the same answer; a finished execution 409. The body may be left out.",
			body:   of[client.CancelRequest](), sample: `{"reason": "not needed"}`, status: 202, answer: of[client.Execution](), handle: executionAPI{s}.cancelExecution,
		},
		{
			method: "POST", path: "/api/v1/executions/{id}/complete", needs: tenant.Callback, group: "Executions", summary: "Complete an execution whose callback was answered with 202",
			detail: "For targets that answer 202 with Carillon-Async: true and finish later. Send Authorization: Bearer and the Carillon-Callback-Token of the callback; execution_id and fencing_token may be left out. The same outcome again is accepted again; where the attempt is over otherwise, it is 409 stale_token.",
			body:   of[client.Outcome](), sample: `{"status": "SUCCEEDED", "result": {"rows": 12}}`, status: 200, answer: of[client.Verdict](), handle: accessAPI{s}.completeExecution,
		},
		{
			method: "POST", path: "/api/v1/executions/{id}/retry", needs: tenant.Write, group: "Executions", summary: "Run a finished execution again, as a new one",
			detail: "The new execution names the old one in retry_of; the old one never changes, but leaves the dead letters. The body may be left out.",
			body:   of[client.TriggerRequest](), sample: `{"payload_override": {"n": 1}}`, status: 202, answer: of[client.Triggered](), handle: executionAPI{s}.retryExecution,
		},
		{
			method: "GET", path: "/api/v1/dead-letters", needs: tenant.Read, group: "Dead letters", summary: "List dead letters, the latest first",
			detail: "Executions that failed for good, with their whole error history, until someone runs them again or discards them. Where few of very many are chosen a page ends early: partial is true, and next_cursor goes on.",
			params: deadLetterParams, status: 200, answer: of[client.DeadLetters](), handle: executionAPI{s}.listDeadLetters,
		},
		{
			method: "POST", path: "/api/v1/dead-letters/{id}/redrive", needs: tenant.Write, group: "Dead letters", summary: "Run a dead letter again, as a new execution",
			status: 202, answer: of[client.Triggered](), handle: executionAPI{s}.redriveDeadLetter,
		},
		{
			method: "POST", path: "/api/v1/dead-letters:redrive", needs: tenant.Write, group: "Dead letters", summary: "Run many dead letters again, in the background",
			detail: "By ids or by a filter, at a rate. What dies after the request is not part of it. The answer names the operation; with dry_run it is 200 with the count only.",
			body:   of[client.DeadLetterRequest](), sample: `{"filter": {"reason": "ATTEMPTS_EXHAUSTED"}, "rate_per_s": 10}`, status: 202, also: 200, answer: of[client.Begun](), handle: executionAPI{s}.redriveDeadLetters,
		},
		{
			method: "POST", path: "/api/v1/dead-letters:discard", needs: tenant.Write, group: "Dead letters", summary: "Discard dead letters",
			detail: "The executions stay in history. By ids it is done at once, with how many there were; by a filter in the background, with 202 and the operation.",
			body:   of[client.DeadLetterRequest](), sample: `{"ids": ["0190a6c8-7b3e-7cc0-8a1b-0123456789ab"]}`, status: 200, answer: of[client.Discarded](), also: 202, other: of[client.Begun](), handle: executionAPI{s}.discardDeadLetters,
		},
		{
			method: "GET", path: "/api/v1/operations", needs: tenant.Read, group: "Operations", summary: "List operations, the newest first",
			params: pageParams, status: 200, answer: of[client.Operations](), handle: executionAPI{s}.listOperations,
		},
		{
			method: "GET", path: "/api/v1/operations/{id}", needs: tenant.Read, group: "Operations", summary: "Read an operation: how far it has come",
			status: 200, answer: of[client.Operation](), handle: executionAPI{s}.getOperation,
		},
		{
			method: "POST", path: "/api/v1/operations/{id}/cancel", needs: tenant.Write, group: "Operations", summary: "Cancel an operation",
			detail: "It does no more; what it has done stays. One that has finished answers 409.", status: 202, answer: of[client.Operation](), handle: executionAPI{s}.cancelOperation,
		},
		{
			method: "POST", path: "/api/v1/schedules/preview", needs: tenant.Read, group: "Schedules", summary: "What a schedule does, in words and instants",
			body: of[client.PreviewRequest](), sample: `{"cron_expression": "30 2 * * *", "timezone": "Europe/Berlin", "n": 5}`, status: 200, answer: of[client.Preview](), handle: jobAPI{s}.previewSchedule,
		},
		{
			method: "GET", path: "/api/v1/forecast", needs: tenant.Read, group: "Schedules", summary: "How many executions schedules will make, minute by minute",
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
			method: "PUT", path: "/api/v1/calendars/{name}", needs: tenant.Write, group: "Schedules", summary: "Keep a calendar of what schedules leave out",
			detail: "In place of any of its name; jobs that use it are planned anew.",
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
			method: "GET", path: "/api/v1/secrets/{name}", needs: tenant.Read, group: "Secrets", summary: "Read what is known of a secret, never its value",
			status: 200, answer: of[client.Secret](), handle: accessAPI{s}.getSecret,
		},
		{
			method: "PUT", path: "/api/v1/secrets/{name}", needs: tenant.Manage, group: "Secrets", summary: "Keep a secret, or its next version",
			detail: "Jobs name it as ${secret:name} in header values, in env and in texts of their payload. The value is encrypted, is given to workers only, and cannot be read back. What starts more than five seconds later gets the new value. The same value again makes no new version.",
			body:   of[client.SecretRequest](), sample: `{"value": "s3cr3t"}`, status: 200, answer: of[client.Secret](), handle: accessAPI{s}.putSecret,
		},
		{
			method: "DELETE", path: "/api/v1/secrets/{name}", needs: tenant.Manage, group: "Secrets", summary: "Delete a secret",
			detail: "409 while a job that is ACTIVE or PAUSED names it, unless force is true: what names it then fails, without retries, with an error that says so.", params: forceParams, status: 200, answer: of[client.Secret](), handle: accessAPI{s}.deleteSecret,
		},
		{
			method: "PUT", path: "/api/v1/artifacts", needs: tenant.Write, group: "Artifacts", summary: "Keep a program for jobs of the target command",
			detail: "The body is the artifact as it is: a program, or a tar, tar.gz or zip. Its id is the SHA-256 of its content; 201 where it is new to the tenant, 200 where not.",
			bytes:  true, status: 201, also: 200, answer: of[client.Artifact](), handle: settingsAPI{s}.putArtifact,
		},
		{
			method: "GET", path: "/api/v1/artifacts/{id}", needs: tenant.Fetch, group: "Artifacts", summary: "Download an artifact",
			bytes: true, status: 200, handle: settingsAPI{s}.getArtifact,
		},
		{
			method: "DELETE", path: "/api/v1/artifacts/{id}", needs: tenant.Write, group: "Artifacts", summary: "Delete an artifact",
			detail: "409 while a job that is ACTIVE or PAUSED names it.", status: 200, answer: of[client.Artifact](), handle: settingsAPI{s}.deleteArtifact,
		},
		{
			method: "GET", path: "/api/v1/limits", needs: tenant.Read, group: "Limits and tenants", summary: "List the limits of the tenant and of its queues",
			params: pageParams, status: 200, answer: of[client.Limits](), handle: settingsAPI{s}.listLimits,
		},
		{
			method: "PUT", path: "/api/v1/limits/tenant", needs: tenant.Manage, group: "Limits and tenants", summary: "Limit all executions of the tenant",
			detail: "In place of the limit before; with neither it is removed. Over a limit executions wait.",
			body:   of[client.LimitRequest](), sample: `{"max_concurrent": 100, "rate_limit": {"count": 50, "per": "1s"}}`, status: 200, answer: of[client.Limit](), handle: settingsAPI{s}.setTenantLimit,
		},
		{
			method: "PUT", path: "/api/v1/limits/queues/{queue}", needs: tenant.Manage, group: "Limits and tenants", summary: "Limit the executions of one queue",
			body: of[client.LimitRequest](), sample: `{"max_concurrent": 5}`, status: 200, answer: of[client.Limit](), handle: settingsAPI{s}.setQueueLimit,
		},
		{
			method: "GET", path: "/api/v1/signing-secrets", needs: tenant.Read, group: "Signing secrets", summary: "List what callbacks are signed with, the newest first",
			detail: "Never the secrets themselves. A tenant has one from the start, unless the server has no key to keep it under: then callbacks are not signed.", status: 200, answer: of[client.SigningSecrets](), handle: accessAPI{s}.listSigningSecrets,
		},
		{
			method: "POST", path: "/api/v1/signing-secrets/{id}/reveal", needs: tenant.Manage, group: "Signing secrets", summary: "Show the signing secret that a tenant has from the start, once",
			detail: "The first who asks is shown it. 409 for everyone after: rotate it instead.", status: 200, answer: of[client.SigningSecret](), handle: accessAPI{s}.revealSigningSecret,
		},
		{
			method: "POST", path: "/api/v1/signing-secrets", needs: tenant.Manage, group: "Signing secrets", summary: "Make a signing secret, in place of the one before",
			detail: "The answer shows it, this once. The one before signs as well for overlap_seconds, so that targets can be told. The body may be left out.",
			body:   of[client.SigningSecretRequest](), sample: `{"overlap_seconds": 86400}`, status: 201, answer: of[client.SigningSecret](), handle: accessAPI{s}.addSigningSecret,
		},
		{
			method: "DELETE", path: "/api/v1/signing-secrets/{id}", needs: tenant.Manage, group: "Signing secrets", summary: "Revoke a signing secret",
			detail: "Within 5 s nothing is signed with it any more.", status: 200, answer: of[client.SigningSecret](), handle: accessAPI{s}.deleteSigningSecret,
		},
		{
			method: "GET", path: "/api/v1/tenants", needs: tenant.Run, group: "Limits and tenants", summary: "List tenants",
			params: pageParams, status: 200, answer: of[client.Tenants](), handle: settingsAPI{s}.listTenants,
		},
		{
			method: "POST", path: "/api/v1/tenants", needs: tenant.Run, group: "Limits and tenants", summary: "Create a tenant",
			detail: "Its id is made of its name. The tier is its share of the workers beside others that have work waiting: free 1, pro 3, enterprise 10.",
			body:   of[client.TenantRequest](), sample: `{"name": "Acme", "tier": "pro"}`, status: 201, answer: of[client.Tenant](), handle: settingsAPI{s}.createTenant,
		},
		{
			method: "GET", path: "/api/v1/tenants/{id}", needs: tenant.Run, group: "Limits and tenants", summary: "Read a tenant, what it may have and do, and what it has",
			status: 200, answer: of[client.Tenant](), handle: settingsAPI{s}.getTenant,
		},
		{
			method: "PATCH", path: "/api/v1/tenants/{id}", needs: tenant.Run, group: "Limits and tenants", summary: "Change a tenant's name, tier, quotas or where its callbacks may go",
			detail: "Every server goes by it within 5 s. What the tenant has, it keeps, and it runs; what it may not have any more, it cannot make.",
			body:   of[client.TenantChange](), sample: `{"tier": "enterprise", "quotas": {"active_jobs": 250000, "max_retries": null}}`, status: 200, answer: of[client.Tenant](), handle: settingsAPI{s}.changeTenant,
		},
		{
			method: "GET", path: "/api/v1/workers", needs: tenant.Read, group: "Workers", summary: "List workers, the latest first",
			detail: "Those that are gone are listed for an hour, as DEAD.", params: pageParams, status: 200, answer: of[client.Workers](), handle: executionAPI{s}.listWorkers,
		},
		{
			method: "POST", path: "/api/v1/workers/{id}/drain", needs: tenant.Write, group: "Workers", summary: "Drain a worker",
			detail: "It takes nothing more, finishes what it has and shows as DRAINING. A worker that serves every tenant takes the role system.",
			status: 202, answer: of[client.Draining](), handle: workerAPI{s}.drainWorker,
		},
		{
			method: "GET", path: "/api/v1/admin/scaling", needs: tenant.Scale, group: "Workers", summary: "How many workers the load asks for",
			detail: "Over all tenants, counted at most every 2 s: for an autoscaler, with a key of role worker for all tenants.", params: scalingParams, status: 200, answer: of[client.Scaling](), handle: viewAPI{s}.scaling,
		},
		{
			method: "POST", path: "/api/v1/workers", needs: tenant.Work, group: "Worker protocol", summary: "Register a worker",
			detail: "Send the session it answers with in X-Worker-Session on every call below. A worker that does not beat for lease_seconds loses what it holds.",
			body:   of[client.Registration](), sample: `{"host": "box-1", "kinds": ["send-email"], "capacity": 20}`, status: 201, answer: of[client.Session](), handle: workerAPI{s}.registerWorker,
		},
		{
			method: "POST", path: "/api/v1/workers/{id}/claim", needs: tenant.Work, group: "Worker protocol", summary: "Wait for executions and lease them",
			detail: "The answer holds as many as fit into about 8 MiB, at least one; the others stay in the queue.",
			body:   of[client.ClaimRequest](), sample: `{"max": 20, "wait_seconds": 20}`, status: 200, answer: of[client.Claimed](), handle: workerAPI{s}.claim,
		},
		{
			method: "POST", path: "/api/v1/workers/{id}/beat", needs: tenant.Work, group: "Worker protocol", summary: "Keep the session alive, and hear what to stop",
			detail: "Renews every lease of the session. Name all that is held, with the progress that is new, also what has ended until its report is answered: what is not named for lease_seconds is given to others. drain: claim no more, finish what is held, go on beating.", body: of[client.Beat](), sample: `{"executions": [{"execution_id": "0190a6c8-7b3e-7cc0-8a1b-0123456789ab", "fencing_token": 7, "progress": {"percent": 40, "message": "half"}}]}`, status: 200, answer: of[client.Orders](), handle: workerAPI{s}.beat,
		},
		{
			method: "POST", path: "/api/v1/workers/{id}/complete", needs: tenant.Work, group: "Worker protocol", summary: "Report outcomes",
			detail: "Each under the fencing token it was claimed with; the same outcome again is accepted again, a stale one refused. An error's message is cut off after 10 000 bytes. SNOOZED puts it back for retry_after_ms and uses up no retry.",
			body:   of[client.CompleteRequest](), sample: `{"outcomes": []}`, status: 200, answer: of[client.Verdicts](), handle: workerAPI{s}.complete,
		},
		{
			method: "POST", path: "/api/v1/workers/{id}/logs", needs: tenant.Work, group: "Worker protocol", summary: "Add lines to the log of an attempt",
			detail: "Under the fencing token it was claimed with: 409 stale_token when the lease is lost. With offset the same lines may be sent again. Of an attempt 100 000 lines and 10 MiB are kept; cut says that no more are.",
			body:   of[client.LogRequest](), sample: `{"execution_id": "0190a6c8-7b3e-7cc0-8a1b-0123456789ab", "fencing_token": 7, "offset": 0, "lines": [{"at": "2026-01-31T15:04:05Z", "stream": "stdout", "text": "hello"}]}`, status: 200, answer: of[client.LogAnswer](), handle: executionAPI{s}.appendLog,
		},
		{
			method: "POST", path: "/api/v1/workers/{id}/release", needs: tenant.Work, group: "Worker protocol", summary: "Hand executions back at once, uncharged",
			body: of[client.ReleaseRequest](), sample: `{"executions": []}`, status: 200, answer: of[struct{}](), handle: workerAPI{s}.release,
		},
		{
			method: "DELETE", path: "/api/v1/workers/{id}", needs: tenant.Work, group: "Worker protocol", summary: "Leave; everything held is handed back",
			status: 200, answer: of[struct{}](), handle: workerAPI{s}.leave,
		},
		{
			method: "GET", path: "/healthz", needs: tenant.Open, group: "Health", summary: "Is the process alive?",
			status: 200, answer: of[client.Health](), handle: s.healthz,
		},
		{
			method: "GET", path: "/health", needs: tenant.Open, group: "Health", summary: "The same as /healthz",
			status: 200, answer: of[client.Health](), handle: s.healthz,
		},
		{
			method: "GET", path: "/readyz", needs: tenant.Open, group: "Health", summary: "Can it serve: is the store reachable, has it room, are the migrations current?",
			status: 200, answer: of[client.Health](), handle: s.readyz,
		},
		{method: "GET", path: "/openapi.json", needs: tenant.Open, summary: "The OpenAPI document", handle: viewAPI{s}.openAPI},
		{method: "GET", path: "/docs", needs: tenant.Open, summary: "The API for people", handle: viewAPI{s}.docs},
		{method: "GET", path: "/docs/style.css", needs: tenant.Open, summary: "How the page looks", handle: viewAPI{s}.docsStyle},
	}
	if s.cfg.Demo {
		rs = append(rs, route{method: "POST", path: "/demo/echo", needs: tenant.Open, summary: "A target for the sample jobs", handle: s.echo})
	}
	return slices.Concat(rs, executionAPI{s}.historyRoutes(), settingsAPI{s}.queueRoutes(), settingsAPI{s}.ruleRoutes(), accessAPI{s}.keyRoutes(), settingsAPI{s}.quotaRoutes(), accessAPI{s}.auditRoutes(), jobAPI{s}.declareRoutes(), viewAPI{s}.observeRoutes(), viewAPI{s}.supportRoutes(), settingsAPI{s}.badgeRoutes(), viewAPI{s}.screenRoutes(), accessAPI{s}.signInRoutes(), viewAPI{s}.pageRoutes())
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
	return reply(w, 200, client.Health{Status: "ready", Version: s.cfg.Version})
}

// notReady says why a server cannot serve, without what an error may tell of addresses and paths: anybody may ask.
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

// echo answers with what it was sent, and with the status that it was sent, if that is one of an error.
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
