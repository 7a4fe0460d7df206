package api

import (
	"net/http"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// searchParams lists the parameters that select executions.
var searchParams = []param{
	{"status", "string", "One or more statuses, separated by commas."},
	{"job_id", "string", "The job's id, or its key as key:…"},
	{"job_name", "string", "Executions of jobs with exactly this name."},
	{"tag", "string", "Executions of jobs that have this tag."},
	{"worker_id", "string", "Executions held by this worker now, or by it last."},
	{"trigger", "string", "One or more triggers, separated by commas."},
	{"start_date", "string", "Scheduled at or after this date or time."},
	{"end_date", "string", "Scheduled before this date or time."},
	{"finished_after", "string", "Finished at or after this date or time."},
	{"q", "string", "Text in the job's name or, for finished executions, in the type or message of the error; or the id of an execution or a job."},
}

// historyRoutes returns the routes for past, running and waiting executions.
func (s executionAPI) historyRoutes() []route {
	return []route{
		{
			method: "GET", path: "/api/v1/executions", needs: tenant.Read, group: "Executions", summary: "List executions, latest scheduled time first",
			detail: "Covers all jobs. If a filter matches few of very many, a page may end early, or even be empty: partial is true, and next_cursor continues the search.",
			params: append(searchParams[:len(searchParams):len(searchParams)], pageParams...), status: 200, answer: of[client.Executions](), handle: s.searchExecutions,
		},
		{
			method: "GET", path: "/api/v1/executions:export", needs: tenant.Read, group: "Executions", summary: "Export executions as CSV, JSON lines or Parquet",
			detail: "Streams all matching executions, latest scheduled time first. If an export cannot be completed, the connection breaks.",
			params: append([]param{{"format", "string", "csv, jsonl or parquet; jsonl when omitted."}}, searchParams...), bytes: true, status: 200, handle: s.exportExecutions,
		},
		{
			method: "GET", path: "/api/v1/executions/{id}/explain", needs: tenant.Read, group: "Executions", summary: "Explain why an execution waits, what it is doing, or how it ended",
			detail: "Returns one sentence, and the facts behind it. estimated_start is null if it is not known; it assumes that everything ahead takes as long as this job's executions do on average.",
			status: 200, answer: of[client.Explanation](), handle: s.explainExecution,
		},
		{
			method: "GET", path: "/api/v1/admin/queue/status", needs: tenant.Run, group: "Workers", summary: "Read the state of the whole installation: what waits, runs, completed and failed",
			detail: "Covers all tenants. Each server counts events and stores the counts every five seconds.",
			params: statusParams, status: 200, answer: of[client.QueueStatus](), handle: viewAPI{s.Server}.queueStatus,
		},
		{
			method: "GET", path: "/api/v1/events/stream", needs: tenant.Read, group: "Executions", summary: "Stream changes of executions, jobs and workers",
			detail: "The response is a stream of events (text/event-stream): ready at the start; changes with what happened since the previous one, at most four a second; reset if some changes were lost, so that you read again what you show; and beat every five seconds, so that you notice a stream that hangs. To resume after an event, send its id as Last-Event-ID.",
			params: streamParams, stream: true, status: 200, answer: of[client.Changes](), handle: viewAPI{s.Server}.streamEvents,
		},
	}
}

// executions reads which executions are selected, except for a job named by its key.
func (q *query) executions() (f engine.ExecutionFilter, of engine.Ref) {
	f = engine.ExecutionFilter{
		Statuses: choices(q, "status", job.Statuses()), Triggers: choices(q, "trigger", job.Triggers()),
		JobName: q.text("job_name"), Tag: q.text("tag"), Text: q.text("q"), From: q.date("start_date"), Until: q.date("end_date"), Finished: q.date("finished_after"),
	}
	if text := q.text("worker_id"); text != "" {
		var err error
		if f.Worker, err = job.ParseWorkerID(text); err != nil {
			q.wrong("worker_id", text, "the id of a worker")
		}
	}
	if text := q.text("job_id"); text != "" {
		var err error
		if of, err = parseRef(text); err != nil {
			q.wrong("job_id", text, "a job's id, or its key as key:…")
		}
	}
	f.Job = of.ID
	return f, of
}

// executions reads which executions are selected.
func (s executionAPI) executions(r *http.Request, p tenant.Principal, q *query) (engine.ExecutionFilter, error) {
	f, of := q.executions()
	if err := q.err(); err != nil || of.Key == "" {
		return f, err
	}
	j, err := s.service.Job(r.Context(), p, of)
	f.Job = j.ID
	return f, err
}

func (s executionAPI) searchExecutions(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q, err := parseQuery(r, append(searchParams[:len(searchParams):len(searchParams)], pageParams...))
	if err != nil {
		return err
	}
	page := q.page()
	f, err := s.executions(r, p, q)
	if err != nil {
		return err
	}
	found, err := s.service.SearchExecutions(r.Context(), p, f, page)
	if err != nil {
		return err
	}
	return reply(w, 200, wireExecutions(page, found))
}

func wireExecutions(page engine.Page, found engine.ExecutionPage) client.Executions {
	out := client.Executions{Executions: make([]client.Execution, len(found.Executions)), Pagination: pagination(page, found.Total, found.Next)}
	out.Pagination.Partial, out.UnreadFiles = found.Partial, found.Unread
	for i, e := range found.Executions {
		out.Executions[i] = wireExecution(e)
	}
	return out
}
