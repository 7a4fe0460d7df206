package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// runAPI answers for runs of workflows.
type runAPI struct{ *Server }

var (
	runParams = append([]param{
		{"workflow", "string", "Runs of this workflow: its id, or key:…"},
		{"status", "string", "One or more statuses, separated by commas."},
	}, pageParams...)
	itemParams = append([]param{{"status", "string", "One or more statuses, separated by commas."}}, pageParams...)
)

// runRoutes lists the calls over runs of workflows.
func (s *Server) runRoutes() []route {
	const group, at = "Workflow runs", "/api/v1/workflow-runs/{id}"
	act := func(path, summary, detail, sample string, handle func(http.ResponseWriter, *http.Request, tenant.Principal) error, r route) route {
		r.method, r.path, r.needs, r.group, r.summary, r.detail, r.sample, r.handle = "POST", at+path, tenant.Write, group, summary, detail, sample, handle
		r.status, r.answer = 200, of[client.WorkflowRunChanged]()
		return r
	}
	x := runAPI{s}
	decide := func(r route) route { r.needs = tenant.Read; return r } // the approval itself says who may
	patch := func(r route) route { r.method = "PATCH"; return r }
	return []route{
		{
			method: "GET", path: "/api/v1/workflow-runs", needs: tenant.Read, group: group, summary: "List runs, latest scheduled time first",
			detail: "Without their nodes. Runs that wait to begin are WAITING or PENDING. Runs that ended before they began, because they were skipped, expired, cancelled or had the wrong input, are listed as well.", params: runParams, status: 200, answer: of[client.WorkflowRuns](), handle: x.list,
		},
		{
			method: "GET", path: at, needs: tenant.Read, group: group, summary: "Read a run with its nodes",
			detail: "By the id of any of its attempts. critical_path lists the nodes that decided how long it took.", status: 200, answer: of[client.WorkflowRun](), handle: x.get,
		},
		{
			method: "GET", path: at + "/explain", needs: tenant.Read, group: group, summary: "Explain why a run and its nodes stand where they do",
			status: 200, answer: of[client.WorkflowRunExplanation](), handle: x.explain,
		},
		act("/cancel", "Cancel a run", "Nodes that run are cancelled and the rest is not run. Then the finally nodes run; a second cancel with force skips them, also in runs of sub-workflows. A repeated cancel changes nothing.", `{"reason": "wrong day"}`, x.cancel, route{body: of[client.WorkflowRunCancel]()}),
		act("/pause", "Pause a run", "No node and no item of a map starts, also in runs of sub-workflows. What runs continues, and so do timers; what they release waits.", `{}`, x.pause, route{body: of[client.WorkflowRunPause]()}),
		act("/unpause", "Continue a paused run", "Runs of its sub-workflows continue, too.", `{}`, x.unpause, route{body: of[client.WorkflowRunPause]()}),
		act("/retry", "Run parts of a run again", "For a run that has ended: nodes that failed run again with all that depends on them, and so does what was not run; the rest stays. Of a map only failed and unstarted items run. A run that ended before it began runs from its start. The run keeps its id, and its attempt is one higher.",
			`{"dry_run": true}`, x.retry, route{body: of[client.WorkflowRunRetry]()}),
		decide(act("/nodes/{key}/approve", "Approve what a node waits for", "The approval names the roles that may; without roles, operators and admins may. The first decision wins: a later one is answered with 409, which names who decided and when.", `{"comment": "go"}`, x.approve, route{body: of[client.WorkflowDecision]()})),
		decide(act("/nodes/{key}/reject", "Reject what a node waits for", "The node is FAILED.", `{"comment": "not today"}`, x.reject, route{body: of[client.WorkflowDecision]()})),
		act("/nodes/{key}/skip", "Skip a node", "For a node that has not started, waits, or did not succeed. On a run that has ended it begins a new attempt.", `{}`, x.skip, route{body: of[client.WorkflowNodeSkip]()}),
		act("/nodes/{key}/mark", "Mark a node as succeeded", "With a result, for the same nodes as skip.", `{"result": {"files": []}}`, x.mark, route{body: of[client.WorkflowNodeMark]()}),
		patch(act("/nodes/{key}", "Change a map while it runs", "", `{"max_parallel": 5}`, x.resize, route{body: of[client.WorkflowMapChange]()})),
		{
			method: "GET", path: at + "/nodes/{key}/items", needs: tenant.Read, group: group, summary: "List the items of a map, in the order of its list",
			detail: "Items that have not started are WAITING or NOT_RUN.", params: itemParams, status: 200, answer: of[client.WorkflowRunItems](), handle: x.items,
		},
		{
			method: "GET", path: "/api/v1/approvals", needs: tenant.Read, group: group, summary: "List the decisions that you may make, the oldest first",
			detail: "Of the 5 000 oldest decisions that runs of your tenant wait for, or of fewer if their schemas have 8 MiB: those that your role may make and that you have not voted on.", params: pageParams, status: 200, answer: of[client.PendingApprovals](), handle: x.approvals,
		},
		{
			method: "POST", path: "/api/v1/events:send", needs: tenant.Write, group: group, summary: "Send an event to runs that wait for it",
			detail: "Every wait for an event of this name continues whose match is the same value, or that has no match. Waits that begin within 24 hours see it, too. The response names up to 1 000 runs.",
			body:   of[client.EventRequest](), sample: `{"event": "order.paid", "match": "A-17", "payload": {"amount": 20}}`, status: 200, answer: of[client.EventSent](), handle: x.send,
		},
	}
}

// runStatuses lists the states that a run may be in.
func runStatuses() []workflow.Status {
	return []workflow.Status{
		workflow.Waiting, workflow.Pending, workflow.Running, workflow.Paused, workflow.Cancelling, workflow.Succeeded, workflow.Failed, workflow.TimedOut, workflow.Cancelled,
		workflow.Skipped, workflow.Expired,
	}
}

// itemStatuses lists the states that an item of a map may be in.
func itemStatuses() []workflow.Status {
	return []workflow.Status{
		workflow.Waiting, workflow.Pending, workflow.Running, workflow.Retrying, workflow.Cancelling, workflow.Succeeded, workflow.Failed, workflow.TimedOut, workflow.Expired,
		workflow.Cancelled, workflow.Skipped, workflow.NotRun,
	}
}

func (s runAPI) list(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q, err := parseQuery(r, runParams)
	if err != nil {
		return err
	}
	query, page := service.RunQuery{Statuses: choices(q, "status", runStatuses())}, q.page()
	if text := q.text("workflow"); text != "" {
		if query.Workflow, err = parseRef(text); err != nil {
			q.wrong("workflow", text, "the id of a workflow, or key:…")
		}
	}
	if err := q.err(); err != nil {
		return err
	}
	found, err := s.service.FindRuns(r.Context(), p, query, page)
	if err != nil {
		return err
	}
	out := client.WorkflowRuns{WorkflowRuns: make([]client.WorkflowRun, len(found.Rows)), Pagination: pagination(page, found.Total, found.Next)}
	out.Pagination.Partial = found.Partial
	for i := range found.Rows {
		out.WorkflowRuns[i] = wireRunOf(&found.Rows[i])
	}
	return reply(w, 200, out)
}

func (s runAPI) get(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := executionID(r)
	if err != nil {
		return err
	}
	if err := noParams(r); err != nil {
		return err
	}
	run, err := s.service.WorkflowRun(r.Context(), p, id)
	if err != nil {
		return err
	}
	return reply(w, 200, wireRunAll(&run))
}

func (s runAPI) explain(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := executionID(r)
	if err != nil {
		return err
	}
	if err := noParams(r); err != nil {
		return err
	}
	x, err := s.service.ExplainRun(r.Context(), p, id)
	if err != nil {
		return err
	}
	out := client.WorkflowRunExplanation{
		WorkflowRunID: x.ID.String(), WorkflowID: x.Workflow.String(), Status: x.Stands.String(), Summary: x.Summary, Nodes: []client.WorkflowNodeExplanation{},
	}
	for _, n := range x.Nodes {
		if n.Reason != "" {
			out.Nodes = append(out.Nodes, client.WorkflowNodeExplanation{Key: n.Key, Status: n.Status.String(), Summary: n.Reason, ExecutionID: executionText(n.Execution)})
		}
	}
	return reply(w, 200, out)
}

// acting reads the run, the node and the body of an act.
func acting[T any](s runAPI, w http.ResponseWriter, r *http.Request, p tenant.Principal) (id job.ExecutionID, key string, req T, once service.Once[service.RunChanged], err error) {
	if id, err = executionID(r); err != nil {
		return id, "", req, once, err
	}
	key = r.PathValue("key")
	if err := noParams(r); err != nil {
		return id, key, req, once, err
	}
	if err := s.service.HasRun(r.Context(), p, id, key); err != nil {
		return id, key, req, once, err // before the body is judged
	}
	data, o, err := read(w, r, maxBody+maxBody/2) // room for a result of the greatest size
	if err != nil {
		return id, key, req, once, err
	}
	once = service.Once[service.RunChanged]{Key: o.key, Hash: o.hash, Encode: func(x service.RunChanged) []byte { return encoded(wireActed(x)) }}
	return id, key, req, once, decodeAny(data, &req)
}

// acted answers with a run after an act.
func acted(w http.ResponseWriter, x service.RunChanged, replay []byte, err error) error {
	if err != nil {
		return err
	}
	if replay != nil {
		return again(w, 200, replay)
	}
	return reply(w, 200, wireActed(x))
}

func wireActed(x service.RunChanged) client.WorkflowRunChanged {
	out := client.WorkflowRunChanged{Changes: make([]client.WorkflowNodeChange, len(x.Changes)), WorkflowRun: wireRunAll(&x.Run)}
	for i, c := range x.Changes {
		out.Changes[i] = client.WorkflowNodeChange{Node: c.Node, From: statusText(c.From), To: statusText(c.To), Items: c.Items}
	}
	return out
}

func (s runAPI) cancel(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, _, req, once, err := acting[client.WorkflowRunCancel](s, w, r, p)
	if err != nil {
		return err
	}
	if !job.ValidNote(req.Reason) {
		return job.Invalids{{Field: "reason", Value: job.Show(req.Reason), Want: job.WantNote}}
	}
	x, replay, err := s.service.CancelRun(r.Context(), p, id, req.Force, req.Reason, req.DryRun, once)
	return acted(w, x, replay, err)
}

func (s runAPI) pause(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, _, req, once, err := acting[client.WorkflowRunPause](s, w, r, p)
	if err != nil {
		return err
	}
	x, replay, err := s.service.PauseRun(r.Context(), p, id, req.DryRun, once)
	return acted(w, x, replay, err)
}

func (s runAPI) unpause(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, _, req, once, err := acting[client.WorkflowRunPause](s, w, r, p)
	if err != nil {
		return err
	}
	x, replay, err := s.service.UnpauseRun(r.Context(), p, id, req.DryRun, once)
	return acted(w, x, replay, err)
}

// latest is the version of a retry that continues with the workflow as it is now.
const latest = "latest"

func (s runAPI) retry(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, _, req, once, err := acting[client.WorkflowRunRetry](s, w, r, p)
	if err != nil {
		return err
	}
	if req.Version != "" && req.Version != latest {
		return job.Invalids{{Field: "version", Value: job.Show(req.Version), Want: latest + ", or nothing: the run's own version"}}
	}
	x, replay, err := s.service.RetryRun(r.Context(), p, id, service.RunRetry{Nodes: req.Nodes, Only: req.Only, Input: given(req.Input), Latest: req.Version == latest, Dry: req.DryRun}, once)
	return acted(w, x, replay, err)
}

func (s runAPI) approve(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	return s.decide(w, r, p, true)
}

func (s runAPI) reject(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	return s.decide(w, r, p, false)
}

func (s runAPI) decide(w http.ResponseWriter, r *http.Request, p tenant.Principal, approved bool) error {
	id, key, req, _, err := acting[client.WorkflowDecision](s, w, r, p)
	if err != nil {
		return err
	}
	if !job.ValidNote(req.Comment) {
		return job.Invalids{{Field: "comment", Value: job.Show(req.Comment), Want: job.WantNote}}
	}
	x, err := s.service.Decide(r.Context(), p, id, key, workflow.Vote{Approved: approved, Comment: req.Comment, Data: given(req.Data)}, req.DryRun)
	return acted(w, x, nil, err)
}

func (s runAPI) skip(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, key, req, once, err := acting[client.WorkflowNodeSkip](s, w, r, p)
	if err != nil {
		return err
	}
	x, replay, err := s.service.SkipNode(r.Context(), p, id, key, req.DryRun, once)
	return acted(w, x, replay, err)
}

func (s runAPI) mark(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, key, req, once, err := acting[client.WorkflowNodeMark](s, w, r, p)
	if err != nil {
		return err
	}
	x, replay, err := s.service.MarkNode(r.Context(), p, id, key, given(req.Result), req.DryRun, once)
	return acted(w, x, replay, err)
}

func (s runAPI) resize(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, key, req, _, err := acting[client.WorkflowMapChange](s, w, r, p)
	if err != nil {
		return err
	}
	const most = 1_000_000
	if n := req.MaxParallel; n != nil && (*n < 0 || *n > most) {
		return job.Invalids{{Field: "max_parallel", Value: strconv.Itoa(*n), Want: fmt.Sprintf("0 (no limit) to %d", most)}}
	}
	tolerate := given(req.Tolerate)
	if req.MaxParallel == nil && tolerate == nil {
		return job.Invalids{{Field: "max_parallel", Value: "none", Want: "max_parallel, tolerate or both"}}
	}
	x, err := s.service.ResizeMap(r.Context(), p, id, key, req.MaxParallel, tolerate, req.DryRun)
	return acted(w, x, nil, err)
}

func (s runAPI) items(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := executionID(r)
	if err != nil {
		return err
	}
	q, err := parseQuery(r, itemParams)
	if err != nil {
		return err
	}
	statuses, page := choices(q, "status", itemStatuses()), q.page()
	if err := q.err(); err != nil {
		return err
	}
	from := 0
	if page.Cursor != "" {
		if from, err = strconv.Atoi(page.Cursor); err != nil || from < 1 {
			return engine.ErrCursor
		}
	}
	found, err := s.service.FindItems(r.Context(), p, id, r.PathValue("key"), statuses, from, page.Limit)
	if err != nil {
		return err
	}
	next := ""
	if found.Next > 0 {
		next = strconv.Itoa(found.Next)
	}
	out := client.WorkflowRunItems{Items: make([]client.WorkflowRunItem, len(found.Items)), Pagination: pagination(page, found.Total, next)}
	out.Pagination.Partial = found.Partial
	for i, x := range found.Items {
		out.Items[i] = client.WorkflowRunItem{Index: x.Index, Status: x.Status.String(), ExecutionID: executionText(x.Execution), Error: wireError(x.Error)}
	}
	return reply(w, 200, out)
}

// given is nil for a value that was left out or is null.
func given(doc json.RawMessage) []byte {
	if isNull(doc) {
		return nil
	}
	return doc
}

func (s runAPI) approvals(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	size := func(a *service.OpenApproval) int { return len(a.Approval.Schema) }
	all, page, err := pagedWithin(r, size, func() ([]service.OpenApproval, error) { return s.service.FindApprovals(r.Context(), p) })
	if err != nil {
		return err
	}
	out := client.PendingApprovals{Approvals: make([]client.PendingApproval, len(all)), Pagination: page}
	for i, a := range all {
		out.Approvals[i] = client.PendingApproval{
			WorkflowRunID: a.Run.String(), WorkflowID: a.Workflow.String(), WorkflowName: a.Name, Node: a.Key, Since: a.BegunAt, Until: instant(a.Until),
			Roles: list0(a.Approval.Roles), Min: max(a.Approval.Min, 1), Approved: a.Approved, Schema: a.Approval.Schema,
		}
	}
	return reply(w, 200, out)
}

// runsNamed bounds the runs that the answer to an event names.
const runsNamed = 1000

func (s runAPI) send(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	if err := noParams(r); err != nil {
		return err
	}
	data, o, err := read(w, r, maxBody+maxBody/2)
	if err != nil {
		return err
	}
	var req client.EventRequest
	if err := decode(data, &req); err != nil {
		return err
	}
	sent, replay, err := s.service.SendEvent(r.Context(), p, req.Event, given(req.Match), given(req.Payload), req.DryRun, service.Once[service.EventSent]{
		Key: o.key, Hash: o.hash, Encode: func(x service.EventSent) []byte { return encoded(wireSent(x)) },
	})
	if err != nil {
		return err
	}
	if replay != nil {
		return again(w, 200, replay)
	}
	return reply(w, 200, wireSent(sent))
}

func wireSent(sent service.EventSent) client.EventSent {
	out := client.EventSent{WorkflowRuns: []string{}}
	if sent.ID != [16]byte{} {
		out.EventID = job.ExecutionID(sent.ID).String()
	}
	for _, id := range sent.Runs[:min(len(sent.Runs), runsNamed)] {
		out.WorkflowRuns = append(out.WorkflowRuns, id.String())
	}
	return out
}
