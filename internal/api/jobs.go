package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/service"
)

func wireNewJob(n service.NewJob) client.Job {
	j := wireJob(*n.Job, job.Stats{})
	if !n.Execution.IsZero() {
		j.ExecutionID = n.Execution.String()
	}
	return j
}

func (s jobAPI) createJob(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	data, o, err := read(w, r, maxBody)
	if err != nil {
		return err
	}
	var req client.JobRequest
	if err := decode(data, &req); err != nil {
		return err
	}
	d, err := definition(req, s.cfg.Retry)
	if err != nil {
		return both(err, s.service.Check(d))
	}
	if req.Priority == nil {
		if d.Priority, err = s.usualPriority(r, p); err != nil {
			return err
		}
	}
	made, replay, err := s.service.CreateJob(r.Context(), p, d, service.Once[[]service.NewJob]{
		Key: o.key, Hash: o.hash, Encode: func(n []service.NewJob) []byte { return encoded(wireNewJob(n[0])) },
	})
	if err != nil {
		return err
	}
	if replay != nil {
		return again(w, 201, replay)
	}
	if made.Instead {
		deduplicated(w)
	}
	w.Header().Set("Location", "/api/v1/jobs/"+made.Job.ID.String())
	return reply(w, 201, wireNewJob(made))
}

// both joins the mistakes found by the mapping and by the core.
func both(err error, more job.Invalids) error {
	var v job.Invalids
	if !errors.As(err, &v) {
		return err
	}
	seen := map[string]bool{}
	for _, x := range v {
		seen[x.Field] = true
	}
	for _, x := range more {
		if !seen[x.Field] {
			v = append(v, x)
		}
	}
	return v
}

func again(w http.ResponseWriter, status int, answer []byte) error {
	w.Header().Set("Idempotent-Replay", "true")
	return replyRaw(w, status, answer)
}

func wireNewJobs(made []service.NewJob) client.CreatedJobs {
	out := client.CreatedJobs{Jobs: make([]client.CreatedJob, len(made))}
	for i, m := range made {
		out.Jobs[i].JobID = m.Job.ID.String()
		if !m.Execution.IsZero() {
			out.Jobs[i].ExecutionID = m.Execution.String()
		}
	}
	return out
}

func (s jobAPI) createJobs(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	data, o, err := read(w, r, maxBatch)
	if err != nil {
		return err
	}
	var raw []json.RawMessage // counted before anything larger is allocated
	if err := decode(data, &raw); err != nil {
		return err
	}
	if len(raw) > service.MaxBatch {
		return job.Invalids{{Value: fmt.Sprintf("%d jobs", len(raw)), Want: fmt.Sprintf("at most %d jobs", service.MaxBatch)}}
	}
	var reqs []client.JobRequest
	if err := decode(data, &reqs); err != nil {
		return err
	}
	defs := make([]job.Definition, len(reqs))
	for i, req := range reqs {
		if defs[i], err = definition(req, s.cfg.Retry); err != nil {
			var v job.Invalids
			errors.As(both(err, s.service.Check(defs[i])), &v)
			return v.Under(fmt.Sprintf("[%d].", i))
		}
	}
	usual, err := s.usualPriority(r, p)
	if err != nil {
		return err
	}
	for i := range reqs {
		if reqs[i].Priority == nil {
			defs[i].Priority = usual
		}
	}
	made, replay, err := s.service.CreateJobs(r.Context(), p, defs, service.Once[[]service.NewJob]{
		Key: o.key, Hash: o.hash, Encode: func(n []service.NewJob) []byte { return encoded(wireNewJobs(n)) },
	})
	if err != nil {
		return err
	}
	if replay != nil {
		return again(w, 201, replay)
	}
	if slices.ContainsFunc(made, func(m service.NewJob) bool { return m.Instead }) {
		deduplicated(w)
	}
	return reply(w, 201, wireNewJobs(made))
}

var pageParams = []param{
	{"limit", "integer", "How many to return, 1 to 1000; default 50."},
	{"cursor", "string", "next_cursor of the previous page."},
}

var jobParams = append([]param{
	{"status", "string", "ACTIVE, PAUSED, COMPLETED or DELETED. Deleted jobs are listed only when asked for."},
	{"tag", "string", "Jobs that have this tag."},
	{"without_tag", "string", "Jobs that do not have this tag, such as carillon-notification."},
	{"name", "string", "Jobs with exactly this name."},
	{"schedule_type", "string", "IMMEDIATE, ONE_TIME, CRON or INTERVAL."},
	{"owner", "string", "Jobs with exactly this owner."},
	{"late", "boolean", "true: ACTIVE jobs that should have fired more than five seconds ago and have not."},
	{"q", "string", "Jobs whose name, description or key contain this text, ignoring case."},
}, pageParams...)

func (s jobAPI) listJobs(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q, err := parseQuery(r, jobParams)
	if err != nil {
		return err
	}
	f, page := q.jobs(s.service.Now()), q.page()
	if err := q.err(); err != nil {
		return err
	}
	found, err := s.service.FindJobs(r.Context(), p, f, page)
	if err != nil {
		return err
	}
	out := client.Jobs{Jobs: make([]client.Job, len(found.Jobs)), Pagination: pagination(page, found.Total, found.Next)}
	out.Pagination.Partial = found.Partial
	for i, j := range found.Jobs {
		out.Jobs[i] = wireJob(j.Job, j.Stats)
	}
	return reply(w, 200, out)
}

func (s jobAPI) getJob(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	ref, err := jobRef(r)
	if err != nil {
		return err
	}
	j, err := s.service.Job(r.Context(), p, ref)
	if err != nil {
		return err
	}
	return reply(w, 200, wireJob(j.Job, j.Stats))
}

var deletionParams = []param{{"running", "string", "What to do with running executions: leave (the default), or cancel: they are asked to stop, and ended by force after 30 s."}}

// runningChoice reads what happens to a deleted job's running executions: leave or cancel.
type runningChoice string

const (
	leaveRunning  runningChoice = "leave"
	cancelRunning runningChoice = "cancel"
)

func (c runningChoice) String() string { return string(c) }

func (s jobAPI) deleteJob(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	ref, err := jobRef(r)
	if err != nil {
		return err
	}
	q, err := parseQuery(r, deletionParams)
	if err != nil {
		return err
	}
	running := choice(q, "running", []runningChoice{leaveRunning, cancelRunning})
	if err := q.err(); err != nil {
		return err
	}
	drop := s.service.DeleteJob
	if running == cancelRunning {
		drop = s.service.DeleteAndStopJob
	}
	j, err := drop(r.Context(), p, ref)
	if err != nil {
		return err
	}
	out := wireJob(j.Job, j.Stats)
	if j.Rest != (job.OperationID{}) {
		out.OperationID = j.Rest.String()
	}
	return reply(w, 200, out)
}

func wireTriggered(e job.Execution) client.Triggered {
	return client.Triggered{ExecutionID: e.ID.String(), JobID: e.Job.String(), Status: e.Status.String(), ScheduledTime: e.ScheduledAt}
}

func (s jobAPI) triggerJob(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	ref, err := jobRef(r)
	if err != nil {
		return err
	}
	if err := s.service.HasJob(r.Context(), p, ref); err != nil {
		return err // before the body is judged
	}
	data, o, err := read(w, r, maxBody)
	if err != nil {
		return err
	}
	var req client.TriggerRequest
	if err := decodeAny(data, &req); err != nil {
		return err
	}
	if string(req.PayloadOverride) == "null" {
		req.PayloadOverride = nil // as in a job: null is none
	}
	e, replay, err := s.service.Trigger(r.Context(), p, ref, req.PayloadOverride, onceTriggered(o))
	return begun(w, e, replay, err)
}
