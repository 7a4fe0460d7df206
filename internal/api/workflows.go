package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// workflowAPI answers for the definitions of workflows.
type workflowAPI struct{ *Server }

const workflowSample = `{"name": "nightly", "nodes": [{"key": "list", "execution": {"target": "simulate", "work_kind": "noop"}}, {"key": "load", "depends_on": ["list"], "execution": {"target": "simulate", "work_kind": "noop"}}]}`

var (
	workflowParams = append([]param{
		{"status", "string", "ACTIVE, PAUSED, COMPLETED or DELETED. Deleted workflows are listed only when asked for."},
		{"tag", "string", "Workflows that have this tag."},
		{"owner", "string", "Workflows with exactly this owner."},
		{"q", "string", "Workflows whose name, description or key contain this text, ignoring case."},
	}, pageParams...)
	workflowVersionParams  = []param{{"version", "integer", "An older version of the definition; the current one when omitted."}}
	workflowDeletionParams = []param{{"runs", "string", "What to do with runs in flight: leave (the default), or cancel."}}
)

// workflowRoutes lists the calls over definitions of workflows.
func (s *Server) workflowRoutes() []route {
	return append(workflowAPI{s}.graphRoutes(), []route{
		{
			method: "POST", path: "/api/v1/workflows", needs: tenant.Write, group: "Workflows", summary: "Create a workflow",
			detail: "A workflow is a job that runs a graph of nodes. Without a schedule it runs only when you trigger it. Send X-Idempotency-Key to make the request safe to retry for 24 hours.",
			body:   of[client.WorkflowRequest](), sample: workflowSample, status: 201, answer: of[client.Workflow](), handle: workflowAPI{s}.create,
		},
		{
			method: "POST", path: "/api/v1/workflows:lint", needs: tenant.Read, group: "Workflows", summary: "Check a definition without storing it",
			detail: "A wrong definition is answered with 422, as creating it would be. The response lists what is likely not meant, such as a join below a node that may be skipped.",
			body:   of[client.WorkflowRequest](), sample: workflowSample, status: 200, answer: of[client.WorkflowLint](), handle: workflowAPI{s}.lint,
		},
		{
			method: "GET", path: "/api/v1/workflows", needs: tenant.Read, group: "Workflows", summary: "List workflows, newest first",
			detail: "Without their nodes.", params: workflowParams, status: 200, answer: of[client.Workflows](), handle: workflowAPI{s}.list,
		},
		{
			method: "GET", path: "/api/v1/workflows/{id}", needs: tenant.Read, group: "Workflows", summary: "Read a workflow",
			detail: "By its id, or by its key as key:…", params: workflowVersionParams, status: 200, answer: of[client.Workflow](), handle: workflowAPI{s}.get,
		},
		{
			method: "PATCH", path: "/api/v1/workflows/{id}", needs: tenant.Write, group: "Workflows", summary: "Change a workflow",
			detail: "Fields that you leave out stay as they are; null restores the default. nodes, input and input_schema are replaced as a whole. A definition that really differs becomes a new version; runs in flight keep theirs. With If-Match: revision you get 412 if someone else changed the workflow meanwhile.",
			body:   of[client.WorkflowRequest](), sample: `{"timeout": "2h"}`, status: 200, answer: of[client.Workflow](), handle: workflowAPI{s}.patch,
		},
		{
			method: "PUT", path: "/api/v1/workflows/{id}", needs: tenant.Write, group: "Workflows", summary: "Replace the definition of a workflow",
			detail: "Fields that you leave out have their defaults again. If nothing differs, nothing changes.",
			body:   of[client.WorkflowRequest](), sample: workflowSample, status: 200, answer: of[client.Workflow](), handle: workflowAPI{s}.put,
		},
		{
			method: "DELETE", path: "/api/v1/workflows/{id}", needs: tenant.Write, group: "Workflows", summary: "Delete a workflow",
			detail: "No new run begins. Runs in flight continue, or with runs=cancel are cancelled. A workflow that others use cannot be deleted: 409 names them.", params: workflowDeletionParams, status: 200, answer: of[client.Workflow](), handle: workflowAPI{s}.remove,
		},
		{
			method: "GET", path: "/api/v1/workflows/{id}/versions", needs: tenant.Read, group: "Workflows", summary: "List the versions of a workflow, newest first",
			detail: "A version never changes.", params: pageParams, status: 200, answer: of[client.WorkflowVersions](), handle: workflowAPI{s}.versions,
		},
		{
			method: "POST", path: "/api/v1/workflows/{id}/trigger", needs: tenant.Write, group: "Workflows", summary: "Begin a run",
			detail: "The input is checked against input_schema. If a run with the same unique_key has not finished, the response is that run, with the header Carillon-Deduplicated: true. The body is optional.",
			body:   of[client.WorkflowTrigger](), sample: `{"input": {"day": "2026-01-31"}}`, status: 202, answer: of[client.WorkflowTriggered](), handle: workflowAPI{s}.trigger,
		},
	}...)
}

func (s workflowAPI) create(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	data, o, err := read(w, r, maxBody)
	if err != nil {
		return err
	}
	x, err := s.decode(r, p, data)
	if err != nil {
		return err
	}
	made, replay, err := s.service.CreateWorkflow(r.Context(), p, x, service.Once[service.Flow]{
		Key: o.key, Hash: o.hash, Encode: func(f service.Flow) []byte { return encoded(wireWorkflow(f)) },
	})
	if err != nil {
		return err
	}
	if replay != nil {
		return again(w, 201, replay)
	}
	w.Header().Set("Location", "/api/v1/workflows/"+made.ID.String())
	return reply(w, 201, wireWorkflow(made))
}

// decode reads a workflow.
func (s workflowAPI) decode(r *http.Request, p tenant.Principal, data []byte) (service.Workflow, error) {
	var req client.WorkflowRequest
	if err := decode(data, &req); err != nil {
		return service.Workflow{}, err
	}
	return s.workflow(r, p, req)
}

// workflow is a request as the service takes it, with the tenant's usual priority.
func (s workflowAPI) workflow(r *http.Request, p tenant.Principal, req client.WorkflowRequest) (service.Workflow, error) {
	out, err := workflowOf(req, s.cfg.Retry)
	if err == nil && req.Priority == nil {
		out.Priority, err = s.usualPriority(r, p)
	}
	return out, err
}

func (s workflowAPI) lint(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	data, err := body(w, r, maxBody)
	if err != nil {
		return err
	}
	x, err := s.decode(r, p, data)
	if err != nil {
		return err
	}
	found, err := s.service.LintWorkflow(r.Context(), p, x)
	if err != nil {
		return err
	}
	return reply(w, 200, client.WorkflowLint{Warnings: append([]client.WorkflowWarning{}, wireWarnings(found)...)})
}

func (s workflowAPI) list(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q, err := parseQuery(r, workflowParams)
	if err != nil {
		return err
	}
	f, page := engine.JobFilter{State: choice(q, "status", job.States()), Tag: q.text("tag"), Owner: q.text("owner"), Text: q.text("q")}, q.page()
	if err := q.err(); err != nil {
		return err
	}
	found, err := s.service.FindWorkflows(r.Context(), p, f, page)
	if err != nil {
		return err
	}
	out := client.Workflows{Workflows: make([]client.Workflow, len(found.Jobs)), Pagination: pagination(page, found.Total, found.Next)}
	out.Pagination.Partial = found.Partial
	for i, j := range found.Jobs {
		out.Workflows[i] = wireWorkflow(service.Flow{Report: j})
	}
	return reply(w, 200, out)
}

func (s workflowAPI) get(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	ref, err := jobRef(r)
	if err != nil {
		return err
	}
	q, err := parseQuery(r, workflowVersionParams)
	if err != nil {
		return err
	}
	version := q.number("version", 0, 1, 1<<31-1)
	if err := q.err(); err != nil {
		return err
	}
	f, err := s.service.Workflow(r.Context(), p, ref, version)
	if err != nil {
		return err
	}
	return reply(w, 200, wireWorkflow(f))
}

func (s workflowAPI) patch(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	return s.change(w, r, p, func(f service.Flow, data []byte) (client.WorkflowRequest, error) {
		var req client.WorkflowRequest
		if err := decode(data, &req); err != nil {
			return req, err // its form is that of a request, of which every field may be left out
		}
		if req.Paused != nil {
			return req, job.Invalids{{Field: "paused", Value: strconv.FormatBool(*req.Paused), Want: "nothing here: POST /jobs/{id}/pause and /resume do that"}}
		}
		given, base := objectOf(data), objectOf(encoded(asWorkflowRequest(f)))
		if t := textOf(objectOf(given["schedule"])["type"]); t != "" && !strings.EqualFold(t, f.Schedule.Type.String()) {
			base["schedule"] = encoded(fitting(objectOf(base["schedule"]), strings.ToUpper(t)))
		}
		for _, whole := range []string{"nodes", "input", "input_schema"} { // these are replaced, not merged
			if value, ok := given[whole]; ok {
				delete(base, whole)
				if !isNull(value) {
					base[whole] = value
				}
				delete(given, whole)
			}
		}
		req = client.WorkflowRequest{}
		return req, decode(encoded(overlay(base, given, "")), &req)
	})
}

func (s workflowAPI) put(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	return s.change(w, r, p, func(f service.Flow, data []byte) (req client.WorkflowRequest, err error) {
		if err := decode(data, &req); err != nil {
			return req, err
		}
		if req.Paused != nil {
			return req, job.Invalids{{Field: "paused", Value: strconv.FormatBool(*req.Paused), Want: "nothing here: POST /jobs/{id}/pause and /resume do that"}}
		}
		if req.Key == nil {
			req.Key = optional(f.Key)
		}
		return req, nil
	})
}

// change changes a workflow to what of makes of it.
func (s workflowAPI) change(w http.ResponseWriter, r *http.Request, p tenant.Principal, of func(f service.Flow, data []byte) (client.WorkflowRequest, error)) error {
	ref, data, err := jobAPI{s.Server}.onJob(w, r, p)
	if err != nil {
		return err
	}
	at, err := revision(r)
	if err != nil {
		return err
	}
	if objectOf(data) == nil && len(data) > 0 && json.Valid(data) {
		return refuse(400, "invalid_body", "The body is not an object; want the fields of a workflow.")
	}
	f, err := s.service.UpdateWorkflow(r.Context(), p, ref, at, func(f service.Flow) (service.Workflow, error) {
		req, err := of(f, data)
		if err != nil {
			return service.Workflow{}, err
		}
		return s.workflow(r, p, req)
	})
	if err != nil {
		return err
	}
	return reply(w, 200, wireWorkflow(f))
}

func (s workflowAPI) remove(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	ref, err := jobRef(r)
	if err != nil {
		return err
	}
	q, err := parseQuery(r, workflowDeletionParams)
	if err != nil {
		return err
	}
	runs := choice(q, "runs", []runningChoice{leaveRunning, cancelRunning})
	if err := q.err(); err != nil {
		return err
	}
	j, err := s.service.DeleteWorkflow(r.Context(), p, ref, runs == cancelRunning)
	if err != nil {
		return err
	}
	out := wireWorkflow(service.Flow{Report: j})
	if j.Rest != (job.OperationID{}) {
		out.OperationID = j.Rest.String()
	}
	return reply(w, 200, out)
}

func (s workflowAPI) versions(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	ref, err := jobRef(r)
	if err != nil {
		return err
	}
	q, err := parseQuery(r, pageParams)
	if err != nil {
		return err
	}
	page := q.page()
	if err := q.err(); err != nil {
		return err
	}
	before := 0
	if page.Cursor != "" {
		if before, err = strconv.Atoi(page.Cursor); err != nil || before < 1 || before > 1<<31-1 {
			return engine.ErrCursor
		}
	}
	f, err := s.service.Workflow(r.Context(), p, ref, 0)
	if err != nil {
		return err
	}
	found, more, err := s.service.WorkflowVersions(r.Context(), p, ref, before, page.Limit)
	if err != nil {
		return err
	}
	next := ""
	if more {
		next = strconv.Itoa(found[len(found)-1].Version)
	}
	out := client.WorkflowVersions{Versions: make([]client.WorkflowVersion, len(found)), Pagination: pagination(page, engine.Total{Count: int64(f.Target.Version)}, next)}
	out.Pagination.Partial = more && len(found) < page.Limit
	for i, v := range found {
		if out.Versions[i], err = wireVersion(v, f.Target.Version); err != nil {
			return err
		}
	}
	return reply(w, 200, out)
}

func wireRun(e job.Execution) client.WorkflowTriggered {
	return client.WorkflowTriggered{WorkflowRunID: e.ID.String(), WorkflowID: e.Job.String(), Status: e.Status.String()}
}

func (s workflowAPI) trigger(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	ref, err := jobRef(r)
	if err != nil {
		return err
	}
	if _, err := s.service.Workflow(r.Context(), p, ref, 0); err != nil {
		return err // before the body is judged
	}
	data, o, err := read(w, r, maxBody)
	if err != nil {
		return err
	}
	var req client.WorkflowTrigger
	if err := decodeAny(data, &req); err != nil {
		return err
	}
	if string(req.Input) == "null" {
		req.Input = nil
	}
	e, replay, err := s.service.TriggerWorkflow(r.Context(), p, ref, req.Input, req.UniqueKey, service.Once[job.Execution]{
		Key: o.key, Hash: o.hash, Encode: func(e job.Execution) []byte { return encoded(wireRun(e)) },
	})
	if err != nil {
		return err
	}
	if replay != nil {
		return again(w, 202, replay)
	}
	if e.Instead {
		deduplicated(w)
	}
	return reply(w, 202, wireRun(e.Execution))
}

// usedBy is the answer to a deletion of a job that workflows use, or on which other jobs depend.
func usedBy(u *engine.Used) client.Problem {
	fields := make([]client.FieldProblem, 0, len(u.By))
	for _, w := range u.By {
		name := "workflow " + w.ID.String()
		if w.Key != "" {
			name = "workflow key:" + w.Key
		}
		fields = append(fields, client.FieldProblem{Field: name, Value: w.Name, Want: "a definition without the job, or that you delete the workflow first"})
	}
	for _, j := range u.Dependants {
		name := "job " + j.ID.String()
		if j.Key != "" {
			name = "job key:" + j.Key
		}
		fields = append(fields, client.FieldProblem{Field: name, Value: j.Name, Want: "dependencies without the job, or that you delete this one first"})
	}
	if len(u.By) == 0 {
		return made(409, "in_use", fmt.Sprintf("It is in use: %s.", strings.Replace(u.Error(), "depend on the job", "depend on it", 1)), fields...)
	}
	return made(409, "in_use", fmt.Sprintf("It is in use: %s.", strings.TrimPrefix(u.Error(), "workflows use the job: ")), fields...)
}
