package api

import (
	"fmt"
	"net/http"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

var executionParams = append([]param{
	{"status", "string", "One or more statuses, parted by commas."},
	{"start_date", "string", "Scheduled at or after this date or time."},
	{"end_date", "string", "Scheduled before this date or time."},
}, pageParams...)

func (s *Server) listExecutions(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
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
	out := client.Executions{Executions: make([]client.Execution, len(found.Executions)), Pagination: pagination(page, found.Total, found.Next)}
	for i, e := range found.Executions {
		out.Executions[i] = wireExecution(e)
	}
	return reply(w, 200, out)
}

// executionID reads the execution that a path names; what can be none is not found.
func executionID(r *http.Request) (job.ExecutionID, error) {
	id, err := job.ParseExecutionID(r.PathValue("id"))
	if err != nil {
		return id, engine.ErrNotFound
	}
	return id, nil
}

func (s *Server) getExecution(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := executionID(r)
	if err != nil {
		return err
	}
	e, err := s.service.Execution(r.Context(), p, id)
	if err != nil {
		return err
	}
	return reply(w, 200, wireExecution(e))
}

func wireAttempts(past []job.PastAttempt) []client.PastAttempt {
	out := make([]client.PastAttempt, len(past))
	for i, a := range past {
		out[i] = client.PastAttempt{
			AttemptNumber: a.Number, FencingToken: int64(a.Token), StartedAt: a.StartedAt, EndedAt: a.EndedAt,
			DurationMS: max(0, a.EndedAt.Sub(a.StartedAt).Milliseconds()), Error: *wireError(&a.Error),
		}
		if !a.Worker.IsZero() {
			out[i].WorkerID = new(a.Worker.String())
		}
	}
	return out
}

func (s *Server) listAttempts(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := executionID(r)
	if err != nil {
		return err
	}
	past, err := s.service.Attempts(r.Context(), p, id)
	if err != nil {
		return err
	}
	return reply(w, 200, client.PastAttempts{Attempts: wireAttempts(past), Pagination: whole(len(past))})
}

// whole is the pagination of a list that is always answered whole.
func whole(n int) client.Pagination { return client.Pagination{Limit: max(n, 1), Total: int64(n)} }

func (s *Server) cancelExecution(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	var req client.CancelRequest
	id, _, err := s.action(w, r, p, &req)
	if err != nil {
		return err
	}
	if !job.ValidNote(req.Reason) {
		return job.Invalids{{Field: "reason", Value: job.Show(req.Reason), Want: "at most 1000 characters, without control characters other than tabs and line breaks"}}
	}
	e, err := s.service.Cancel(r.Context(), p, id, req.Reason) // a second cancel is answered like the first, with or without a key
	if err != nil {
		return err
	}
	return reply(w, 202, wireExecution(e))
}

func (s *Server) retryExecution(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	var req client.TriggerRequest
	id, once, err := s.action(w, r, p, &req)
	if err != nil {
		return err
	}
	if string(req.PayloadOverride) == "null" {
		req.PayloadOverride = nil
	}
	e, replay, err := s.service.Retry(r.Context(), p, id, req.PayloadOverride, once)
	return begun(w, e, replay, err)
}

func (s *Server) redriveDeadLetter(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, once, err := s.action(w, r, p, &struct{}{})
	if err != nil {
		return err
	}
	e, replay, err := s.service.Redrive(r.Context(), p, id, once)
	return begun(w, e, replay, err)
}

// begun answers with a new execution.
func begun(w http.ResponseWriter, e job.Execution, replay []byte, err error) error {
	if err != nil {
		return err
	}
	if replay != nil {
		return again(w, 202, replay)
	}
	w.Header().Set("Location", "/api/v1/executions/"+e.ID.String())
	return reply(w, 202, wireTriggered(e))
}

// onceTriggered makes a request that begins an execution safe to send again.
func onceTriggered(o once) service.Once[job.Execution] {
	return service.Once[job.Execution]{Key: o.key, Hash: o.hash, Encode: func(e job.Execution) []byte { return encoded(wireTriggered(e)) }}
}

// action reads what is asked of an execution: first whether there is one, then the body, which may be left out.
func (s *Server) action(w http.ResponseWriter, r *http.Request, p tenant.Principal, req any) (id job.ExecutionID, _ service.Once[job.Execution], err error) {
	var none service.Once[job.Execution]
	if id, err = executionID(r); err != nil {
		return id, none, err
	}
	if _, err := s.service.Execution(r.Context(), p, id); err != nil {
		return id, none, err
	}
	data, o, err := read(w, r, maxBody)
	if err == nil && len(data) > 0 {
		err = decode(data, req)
	}
	return id, onceTriggered(o), err
}

var deadLetterParams = append([]param{
	{"job_id", "string", "Dead letters of this job."},
	{"reason", "string", "ATTEMPTS_EXHAUSTED, NOT_RETRYABLE or POISON."},
	{"q", "string", "Dead letters whose last error contains this text, in any case."},
	{"start_date", "string", "Died at or after this date or time."},
	{"end_date", "string", "Died before this date or time."},
}, pageParams...)

func (s *Server) listDeadLetters(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q, err := parseQuery(r, deadLetterParams)
	if err != nil {
		return err
	}
	f := engine.DeadLetterFilter{Reason: choice(q, "reason", job.DeadReasons()), Text: q.text("q"), From: q.date("start_date"), Until: q.date("end_date")}
	if id := q.values.Get("job_id"); id != "" {
		if f.Job, err = job.ParseID(id); err != nil {
			q.wrong("job_id", id, "a job's id")
		}
	}
	page := q.page()
	if err := q.err(); err != nil {
		return err
	}
	found, err := s.service.DeadLetters(r.Context(), p, f, page)
	if err != nil {
		return err
	}
	out := client.DeadLetters{DeadLetters: make([]client.DeadLetter, len(found.DeadLetters)), Pagination: pagination(page, found.Total, found.Next)}
	for i, d := range found.DeadLetters {
		out.DeadLetters[i] = client.DeadLetter{
			ExecutionID: d.ID.String(), JobID: d.Job.String(), JobName: d.JobName, Status: d.Status.String(), Reason: string(d.Reason),
			DeadLetteredAt: d.At, TotalAttempts: d.Attempt, Errors: wireAttempts(d.Errors),
		}
	}
	return reply(w, 200, out)
}

const maxIDs = 1000

func (s *Server) discardDeadLetters(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	data, err := body(w, r, maxBody)
	if err != nil {
		return err
	}
	var req client.DiscardRequest
	if err := decode(data, &req); err != nil {
		return err
	}
	var v job.Invalids
	if len(req.IDs) == 0 || len(req.IDs) > maxIDs {
		v.Add("ids", fmt.Sprintf("%d ids", len(req.IDs)), fmt.Sprintf("1 to %d execution ids", maxIDs))
		return v
	}
	ids := make([]job.ExecutionID, len(req.IDs))
	for i, text := range req.IDs {
		if ids[i], err = job.ParseExecutionID(text); err != nil {
			v.Add(fmt.Sprintf("ids[%d]", i), text, "an execution's id")
		}
	}
	if err := v.Err(); err != nil {
		return err
	}
	n, err := s.service.Discard(r.Context(), p, ids)
	if err != nil {
		return err
	}
	return reply(w, 200, client.Discarded{Discarded: n})
}

func (s *Server) listWorkers(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	ws, err := s.service.Workers(r.Context(), p)
	if err != nil {
		return err
	}
	out := client.Workers{Workers: make([]client.Worker, len(ws)), Pagination: whole(len(ws))}
	for i, x := range ws {
		out.Workers[i] = client.Worker{
			WorkerID: x.ID.String(), Host: x.Host, Version: x.Version, Labels: list0(x.Labels), Queues: list0(x.Queues), Targets: list0(x.Targets), Kinds: list0(x.Kinds),
			Capacity: x.Capacity, Running: x.Running, Status: string(x.State), Completed: x.Completed, Failed: x.Failed, StartedAt: x.StartedAt, LastBeatAt: x.BeatAt,
		}
	}
	return reply(w, 200, out)
}

// list0 is a list that is never null.
func list0(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
