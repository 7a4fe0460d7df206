package api

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

var executionParams = append([]param{
	{"status", "string", "One or more statuses, separated by commas."},
	{"start_date", "string", "Scheduled at or after this date or time."},
	{"end_date", "string", "Scheduled before this date or time."},
}, pageParams...)

func (s executionAPI) listExecutions(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	ref, err := jobRef(r)
	if err != nil {
		return err
	}
	q, err := parseQuery(r, executionParams)
	if err != nil {
		return err
	}
	f := engine.ExecutionFilter{Statuses: choices(q, "status", job.Statuses()), From: q.date("start_date"), Until: q.date("end_date")}
	page := q.page()
	if err := q.err(); err != nil {
		return err
	}
	found, err := s.service.FindExecutions(r.Context(), p, ref, f, page)
	if err != nil {
		return err
	}
	return reply(w, 200, wireExecutions(page, found))
}

// executionID reads the execution that a path names; an invalid id is not found.
func executionID(r *http.Request) (job.ExecutionID, error) {
	id, err := job.ParseExecutionID(r.PathValue("id"))
	if err != nil {
		return id, engine.ErrNotFound
	}
	return id, nil
}

func (s executionAPI) getExecution(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := executionID(r)
	if err != nil {
		return err
	}
	e, err := s.service.Execution(r.Context(), p, id)
	if err != nil {
		return err
	}
	out := wireExecution(e)
	out.PayloadOverride = json.RawMessage(e.Payload)
	return reply(w, 200, out)
}

// wireAttempts returns attempts in API form, as of an instant.
func wireAttempts(as []job.Tried, now time.Time) []client.ExecutionAttempt {
	out := make([]client.ExecutionAttempt, len(as))
	for i, a := range as {
		out[i] = client.ExecutionAttempt{
			AttemptNumber: a.Number, FencingToken: int64(a.Token), WorkerID: workerID(a.Worker), Status: string(a.Status),
			StartedAt: a.StartedAt, FinishedAt: instant(a.EndedAt), DurationMS: a.Duration(now).Milliseconds(), Error: wireError(a.Error),
		}
	}
	return out
}

func (s executionAPI) listAttempts(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := executionID(r)
	if err != nil {
		return err
	}
	var now time.Time
	all, page, err := paged(r, func() (as []job.Tried, err error) {
		as, now, err = s.service.Attempts(r.Context(), p, id)
		return as, err
	})
	if err != nil {
		return err
	}
	return reply(w, 200, client.ExecutionAttempts{Attempts: wireAttempts(all, now), Pagination: page})
}

func (s executionAPI) listEvents(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := executionID(r)
	if err != nil {
		return err
	}
	all, page, err := paged(r, func() ([]job.Event, error) { return s.service.Events(r.Context(), p, id) })
	if err != nil {
		return err
	}
	out := client.Events{Events: make([]client.Event, len(all)), Pagination: page}
	for i, e := range all {
		out.Events[i] = client.Event{At: e.At, Type: string(e.Kind), WorkerID: workerID(e.Worker), Detail: e.Note}
		if e.Attempt > 0 {
			out.Events[i].Attempt = new(e.Attempt)
		}
		if e.Token > 0 {
			out.Events[i].FencingToken = new(int64(e.Token))
		}
	}
	return reply(w, 200, out)
}

func workerID(w job.WorkerID) *string {
	if w.IsZero() {
		return nil
	}
	return new(w.String())
}

func (s executionAPI) reportExecution(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := executionID(r)
	if err != nil {
		return err
	}
	rep, err := s.service.ReportOf(r.Context(), p, id)
	if err != nil {
		return err
	}
	return reply(w, 200, wireReport(rep))
}

func wireReport(r job.Report) client.Report {
	e := r.Execution
	out := client.Report{
		ExecutionID: e.ID.String(), JobID: e.Job.String(), JobName: e.JobName, Status: e.Status.String(), Trigger: e.Trigger.String(),
		ScheduledTime: e.ScheduledAt, StartedAt: instant(e.StartedAt), FinishedAt: instant(e.FinishedAt),
		TriggerDelayMS: r.Delay.Milliseconds(), QueueWaitMS: r.Wait.Milliseconds(), RunningMS: r.Run.Milliseconds(), BetweenAttemptsMS: r.Between.Milliseconds(),
		TotalMS: r.Total.Milliseconds(), LostAttempts: e.Lost, MaxAttempts: e.MaxAttempts, Attempts: wireAttempts(r.Attempts, r.End), Errors: []client.Error{},
		Result: e.Result,
	}
	if x := e.Response; x != nil {
		out.CallbackResponse = &client.CallbackResponse{HTTPStatus: x.HTTPStatus, BodyPreview: x.BodyPreview}
	}
	for _, a := range r.Attempts {
		if a.Error != nil {
			out.Errors = append(out.Errors, *wireError(a.Error))
		}
	}
	if e.Error != nil && len(r.Attempts) == 0 {
		out.Errors = append(out.Errors, *wireError(e.Error)) // otherwise its last attempt already includes it
	}
	return out
}

func (s executionAPI) cancelExecution(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	var req client.CancelRequest
	id, _, err := s.action(w, r, p, &req)
	if err != nil {
		return err
	}
	if !job.ValidNote(req.Reason) {
		return job.Invalids{{Field: "reason", Value: job.Show(req.Reason), Want: job.WantNote}}
	}
	e, err := s.service.Cancel(r.Context(), p, id, req.Reason) // a second cancel gets the same response as the first, with or without a key
	if err != nil {
		return err
	}
	return reply(w, 202, wireExecution(e))
}

func (s executionAPI) retryExecution(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	var req client.TriggerRequest
	id, once, err := s.action(w, r, p, &req)
	if err != nil {
		return err
	}
	if string(req.PayloadOverride) == "null" {
		req.PayloadOverride = nil
	}
	e, replay, err := s.service.Retry(r.Context(), p, id, req.PayloadOverride, once)
	return begun(w, service.Triggered{Execution: e}, replay, err)
}

func (s executionAPI) redriveDeadLetter(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, once, err := s.action(w, r, p, &struct{}{})
	if err != nil {
		return err
	}
	e, replay, err := s.service.Redrive(r.Context(), p, id, once)
	return begun(w, service.Triggered{Execution: e}, replay, err)
}

// deduplicated marks a response that returns the holder of the unique key instead of a new object.
func deduplicated(w http.ResponseWriter) { w.Header().Set("Carillon-Deduplicated", "true") }

// begun responds with a new execution, or with the one that holds its unique key.
func begun(w http.ResponseWriter, e service.Triggered, replay []byte, err error) error {
	if err != nil {
		return err
	}
	if replay != nil {
		return again(w, 202, replay)
	}
	if e.Instead {
		deduplicated(w)
	}
	w.Header().Set("Location", "/api/v1/executions/"+e.ID.String())
	return reply(w, 202, wireTriggered(e.Execution))
}

// onceTriggered makes a request that begins an execution safe to retry.
func onceTriggered(o once) service.Once[job.Execution] {
	return service.Once[job.Execution]{Key: o.key, Hash: o.hash, Encode: func(e job.Execution) []byte { return encoded(wireTriggered(e)) }}
}

// action first checks that an execution exists, and then reads the optional body.
func (s executionAPI) action(w http.ResponseWriter, r *http.Request, p tenant.Principal, req any) (id job.ExecutionID, _ service.Once[job.Execution], err error) {
	var none service.Once[job.Execution]
	if id, err = executionID(r); err != nil {
		return id, none, err
	}
	if err := s.service.HasExecution(r.Context(), p, id); err != nil {
		return id, none, err
	}
	data, o, err := read(w, r, maxBody)
	if err == nil {
		err = decodeAny(data, req)
	}
	return id, onceTriggered(o), err
}

func (s executionAPI) listWorkers(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	ws, page, err := paged(r, func() ([]service.WorkerReport, error) { return s.service.Workers(r.Context(), p) })
	if err != nil {
		return err
	}
	out := client.Workers{Workers: make([]client.Worker, len(ws)), Pagination: page}
	for i, x := range ws {
		out.Workers[i] = wireWorker(x)
	}
	return reply(w, 200, out)
}

func wireWorker(x service.WorkerReport) client.Worker {
	return client.Worker{
		WorkerID: x.ID.String(), Host: x.Host, Version: x.Version, Labels: list0(x.Labels), Queues: list0(x.Queues), Targets: list0(x.Targets), Kinds: list0(x.Kinds),
		Capacity: x.Capacity, Running: x.Running, Status: string(x.State), Completed: x.Completed, Failed: x.Failed, StartedAt: x.StartedAt, LastBeatAt: x.BeatAt,
		Memory: wireMemory(x.Memory),
	}
}

// list0 is a list that is never null.
func list0(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
