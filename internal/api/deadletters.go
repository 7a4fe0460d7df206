package api

import (
	"net/http"
	"net/url"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

var deadLetterParams = append([]param{
	{"job_id", "string", "Dead letters of this job."},
	{"reason", "string", "ATTEMPTS_EXHAUSTED, NOT_RETRYABLE or POISON."},
	{"q", "string", "Dead letters whose last error contains this text, ignoring case."},
	{"start_date", "string", "Died at or after this date or time."},
	{"end_date", "string", "Died before this date or time."},
}, pageParams...)

// deadLetters reads which dead letters are selected.
func (q *query) deadLetters() engine.DeadLetterFilter {
	f := engine.DeadLetterFilter{Reason: choice(q, "reason", job.DeadReasons()), Text: q.text("q"), From: q.date("start_date"), Until: q.date("end_date")}
	if id := q.values.Get("job_id"); id != "" {
		var err error
		if f.Job, err = job.ParseID(id); err != nil {
			q.wrong("job_id", id, "a job's id")
		}
	}
	return f
}

func (s executionAPI) listDeadLetters(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q, err := parseQuery(r, deadLetterParams)
	if err != nil {
		return err
	}
	f, page := q.deadLetters(), q.page()
	if err := q.err(); err != nil {
		return err
	}
	found, err := s.service.DeadLetters(r.Context(), p, f, page)
	if err != nil {
		return err
	}
	out := client.DeadLetters{DeadLetters: make([]client.DeadLetter, len(found.DeadLetters)), Pagination: pagination(page, found.Total, found.Next)}
	out.Pagination.Partial = found.Partial
	for i, d := range found.DeadLetters {
		out.DeadLetters[i] = client.DeadLetter{
			ExecutionID: d.ID.String(), JobID: d.Job.String(), JobName: d.JobName, Status: d.Status.String(), Reason: string(d.Reason),
			DeadLetteredAt: d.At, TotalAttempts: d.Attempt, Errors: wireAttempts(d.Attempts(d.Errors, nil), d.At),
		}
	}
	return reply(w, 200, out)
}

const (
	maxIDs  = 1000
	minRate = 0.001
	maxRate = 10_000
)

// selection reads which dead letters a body selects.
func selection(req client.DeadLetterRequest) (sel service.Selection, v job.Invalids) {
	var values url.Values
	if f := req.Filter; f != nil {
		values = url.Values{"job_id": {f.JobID}, "reason": {f.Reason}, "q": {f.Q}, "start_date": {f.StartDate}, "end_date": {f.EndDate}, "fingerprint": {f.Fingerprint}}
	}
	sel.IDs, v = idsOrFilter(req.IDs, values, "dead letter", job.ParseExecutionID, func(q *query) {
		sel.Filter = q.deadLetters()
		if text := q.values.Get("fingerprint"); text != "" {
			var err error
			if sel.Print, err = job.ParseFingerprint(text); err != nil || sel.Print == (job.Fingerprint{}) {
				q.wrong("fingerprint", text, "the fingerprint of a group of dead letters")
			}
		}
	})
	rate(req.RatePerS, &v)
	return sel, v
}

func (s executionAPI) redriveDeadLetters(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	return s.overDeadLetters(w, r, p, job.OpRedrive)
}

// discardDeadLetters discards those named by ids at once, and those of a filter as an operation.
func (s executionAPI) discardDeadLetters(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	return s.overDeadLetters(w, r, p, job.OpDiscard)
}

func (s executionAPI) overDeadLetters(w http.ResponseWriter, r *http.Request, p tenant.Principal, kind job.OperationKind) error {
	data, o, err := read(w, r, maxBody)
	if err != nil {
		return err
	}
	var req client.DeadLetterRequest
	if err := decode(data, &req); err != nil {
		return err
	}
	sel, v := selection(req)
	atOnce := kind == job.OpDiscard && req.Filter == nil
	if atOnce && req.RatePerS != nil {
		v.Add("rate_per_s", *req.RatePerS, "none with ids: they are discarded at once")
	}
	if err := v.Err(); err != nil {
		return err
	}
	switch {
	case req.DryRun:
		n, err := s.service.CountDead(r.Context(), p, sel)
		if err != nil {
			return err
		}
		return reply(w, 200, client.Begun{Count: n.Count, CountIsEstimate: n.About, CountIsMinimum: n.AtLeast})
	case atOnce:
		n, replay, err := s.service.Discard(r.Context(), p, sel.IDs, service.Once[int]{
			Key: o.key, Hash: o.hash, Encode: func(n int) []byte { return encoded(client.Discarded{Discarded: n}) },
		})
		if err != nil {
			return err
		}
		if replay != nil {
			return again(w, 200, replay)
		}
		return reply(w, 200, client.Discarded{Discarded: n})
	}
	op, replay, err := s.service.Begin(r.Context(), p, kind, sel, deref(req.RatePerS, 0), service.Once[job.Operation]{
		Key: o.key, Hash: o.hash, Encode: func(x job.Operation) []byte { return encoded(wireBegun(x)) },
	})
	if err != nil {
		return err
	}
	if replay != nil {
		return again(w, 202, replay)
	}
	w.Header().Set("Location", "/api/v1/operations/"+op.ID.String())
	return reply(w, 202, wireBegun(op))
}

func wireBegun(o job.Operation) client.Begun {
	return client.Begun{OperationID: o.ID.String(), Count: o.Total}
}

func wireOperation(o job.Operation) client.Operation {
	out := client.Operation{
		OperationID: o.ID.String(), Kind: string(o.Kind), State: string(o.State), Total: o.Total, Done: o.Done, Passed: o.Passed,
		CreatedBy: o.By, CreatedAt: o.CreatedAt, UpdatedAt: o.UpdatedAt, FinishedAt: instant(o.FinishedAt), Error: optional(o.Error),
	}
	if o.Rate > 0 {
		out.RatePerS = new(o.Rate)
	}
	return out
}

func (s executionAPI) listOperations(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q, err := parseQuery(r, pageParams)
	if err != nil {
		return err
	}
	page := q.page()
	if err := q.err(); err != nil {
		return err
	}
	found, err := s.service.FindOperations(r.Context(), p, page)
	if err != nil {
		return err
	}
	out := client.Operations{Operations: make([]client.Operation, len(found.Operations)), Pagination: pagination(page, found.Total, found.Next)}
	for i, o := range found.Operations {
		out.Operations[i] = wireOperation(o)
	}
	return reply(w, 200, out)
}

// operation returns the operation that a path names; an invalid id is not found.
func operation(r *http.Request) (job.OperationID, error) {
	id, err := job.ParseOperationID(r.PathValue("id"))
	if err != nil {
		return id, engine.ErrNotFound
	}
	return id, nil
}

func (s executionAPI) getOperation(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := operation(r)
	if err != nil {
		return err
	}
	o, err := s.service.Operation(r.Context(), p, id)
	if err != nil {
		return err
	}
	return reply(w, 200, wireOperation(o))
}

func (s executionAPI) cancelOperation(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := operation(r)
	if err != nil {
		return err
	}
	o, err := s.service.CancelOperation(r.Context(), p, id) // a second cancel gets the same response as the first, with or without a key
	if err != nil {
		return err
	}
	return reply(w, 202, wireOperation(o))
}
