package api

import (
	"net/http"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// nodeRoutes lists the routes through which an attempt asks about its workflow.
func (s workerAPI) nodeRoutes() []route {
	return []route{
		{
			method: "POST", path: "/api/v1/workers/{id}/node", needs: tenant.Work, group: "Worker protocol", summary: "Read which node of a workflow an attempt is",
			detail: "With the item of a map that it runs for. Send the fencing token of the claim; you get 409 stale_token if the lease is lost, and 409 no_node if the attempt is not a node of a workflow.",
			body:   of[client.NodeRequest](), sample: `{"execution_id": "0190a6c8-7b3e-7cc0-8a1b-0123456789ab", "fencing_token": 7}`, status: 200, answer: of[client.AttemptNode](), handle: s.node,
		},
		{
			method: "POST", path: "/api/v1/workers/{id}/result", needs: tenant.Work, group: "Worker protocol", summary: "Read the result of another node for an attempt",
			detail: "Of an ancestor of the attempt's node; a finally node may read all that are none. Together the results of a node have at most 1 MiB: pass larger ones as artifacts. Send the fencing token of the claim; you get 409 stale_token if the lease is lost, and 409 no_node if the attempt is not a node of a workflow.",
			body:   of[client.NodeResultRequest](), sample: `{"execution_id": "0190a6c8-7b3e-7cc0-8a1b-0123456789ab", "fencing_token": 7, "node": "list"}`, status: 200, answer: of[client.NodeResult](), handle: s.result,
		},
	}
}

// held finds the lease that a worker holds.
func (s workerAPI) held(r *http.Request, w job.WorkerID, execution string, token int64) (job.Held, error) {
	id, err := job.ParseExecutionID(execution)
	if err != nil {
		return job.Held{}, job.Invalids{{Field: "execution_id", Value: job.Show(execution), Want: "an execution's id"}}
	}
	return s.cfg.Dispatch.Held(r.Context(), w, job.Lease{Execution: id, Token: job.Token(token)})
}

func (s workerAPI) node(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	by, err := s.worker(r, p)
	if err != nil {
		return err // before the body is judged
	}
	var req client.NodeRequest
	if err := s.readInto(w, r, maxBody, &req); err != nil {
		return err
	}
	h, err := s.held(r, by, req.ExecutionID, req.FencingToken)
	if err != nil {
		return err
	}
	n, item, err := s.service.NodeOf(r.Context(), h.Tenant, h.ID)
	if err != nil {
		return err
	}
	out := client.AttemptNode{WorkflowRunID: n.Run.ID.String(), WorkflowID: n.Run.Workflow.String(), Node: n.Node, Item: item}
	if n.Item >= 0 {
		out.Index = &n.Item
	}
	return reply(w, 200, out)
}

func (s workerAPI) result(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	by, err := s.worker(r, p)
	if err != nil {
		return err // before the body is judged
	}
	var req client.NodeResultRequest
	if err := s.readInto(w, r, maxBody, &req); err != nil {
		return err
	}
	h, err := s.held(r, by, req.ExecutionID, req.FencingToken)
	if err != nil {
		return err
	}
	left, err := s.service.ResultFor(r.Context(), h.Tenant, h.ID, req.Node)
	if err != nil {
		return err
	}
	return reply(w, 200, client.NodeResult{Node: req.Node, Status: left.Status.String(), Result: left.Result, Error: wireError(left.Error)})
}
