package client

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// WorkflowRunFilter selects runs; a zero field matches everything.
type WorkflowRunFilter struct {
	Workflow string   // the id of a workflow, or key:…
	Status   []string // any of these
}

// ListWorkflowRuns reads a page of runs, latest scheduled time first, without their nodes.
func (c *Client) ListWorkflowRuns(ctx context.Context, f WorkflowRunFilter, p Page) (WorkflowRuns, error) {
	q := p.params()
	q.text("workflow", f.Workflow)
	q.list("status", f.Status)
	return get[WorkflowRuns](ctx, c, q.on("/workflow-runs"))
}

// WorkflowRuns goes through runs, latest scheduled time first, without their nodes.
func (c *Client) WorkflowRuns(ctx context.Context, f WorkflowRunFilter) iter.Seq2[WorkflowRun, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]WorkflowRun, Pagination, error) {
		page, err := c.ListWorkflowRuns(ctx, f, p)
		return page.WorkflowRuns, page.Pagination, err
	})
}

// WorkflowRun reads a run, by the id of any of its attempts.
func (c *Client) WorkflowRun(ctx context.Context, id string) (WorkflowRun, error) {
	return get[WorkflowRun](ctx, c, "/workflow-runs/"+seg(id))
}

// WaitForWorkflowRun waits until a run has ended. It calls seen, unless nil, for each state that it reads before.
func (c *Client) WaitForWorkflowRun(ctx context.Context, id string, seen func(WorkflowRun)) (WorkflowRun, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		r, err := c.WorkflowRun(ctx, id)
		if err != nil {
			return r, err
		}
		if seen != nil {
			seen(r)
		}
		if Final(r.Status) {
			return r, nil
		}
		if !pause(ctx, wait) {
			return r, ended(ctx)
		}
	}
}

// ExplainWorkflowRun explains the state of a run and its nodes.
func (c *Client) ExplainWorkflowRun(ctx context.Context, id string) (WorkflowRunExplanation, error) {
	return get[WorkflowRunExplanation](ctx, c, "/workflow-runs/"+seg(id)+"/explain")
}

// ListWorkflowRunItems reads a page of the items of a map, in the order of the list.
func (c *Client) ListWorkflowRunItems(ctx context.Context, id, node string, status []string, p Page) (WorkflowRunItems, error) {
	q := p.params()
	q.list("status", status)
	return get[WorkflowRunItems](ctx, c, q.on(runNode(id, node)+"/items"))
}

// WorkflowRunItems iterates over the items of a map that have one of these states, in the order of the list; no
// states means all.
func (c *Client) WorkflowRunItems(ctx context.Context, id, node string, status ...string) iter.Seq2[WorkflowRunItem, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]WorkflowRunItem, Pagination, error) {
		page, err := c.ListWorkflowRunItems(ctx, id, node, status, p)
		return page.Items, page.Pagination, err
	})
}

// CancelWorkflowRun cancels a run: running nodes are asked to stop, the rest is not run, and then the finally nodes
// run.
func (c *Client) CancelWorkflowRun(ctx context.Context, id string, r WorkflowRunCancel) (WorkflowRunChanged, error) {
	return post[WorkflowRunChanged](ctx, c, "/workflow-runs/"+seg(id)+"/cancel", r)
}

// PauseWorkflowRun keeps nodes and items of a run from starting. Running ones continue.
func (c *Client) PauseWorkflowRun(ctx context.Context, id string, r WorkflowRunPause) (WorkflowRunChanged, error) {
	return post[WorkflowRunChanged](ctx, c, "/workflow-runs/"+seg(id)+"/pause", r)
}

// UnpauseWorkflowRun starts what a pause held back.
func (c *Client) UnpauseWorkflowRun(ctx context.Context, id string, r WorkflowRunPause) (WorkflowRunChanged, error) {
	return post[WorkflowRunChanged](ctx, c, "/workflow-runs/"+seg(id)+"/unpause", r)
}

// RetryWorkflowRun runs parts of a finished run again. The run keeps its id, and its attempt is one higher.
func (c *Client) RetryWorkflowRun(ctx context.Context, id string, r WorkflowRunRetry) (WorkflowRunChanged, error) {
	return post[WorkflowRunChanged](ctx, c, "/workflow-runs/"+seg(id)+"/retry", r)
}

// ApproveWorkflowNode approves a waiting node. The first decision wins; a later one is refused with 409.
func (c *Client) ApproveWorkflowNode(ctx context.Context, id, node string, r WorkflowDecision) (WorkflowRunChanged, error) {
	return post[WorkflowRunChanged](ctx, c, runNode(id, node)+"/approve", r)
}

// RejectWorkflowNode rejects a waiting node, which becomes FAILED.
func (c *Client) RejectWorkflowNode(ctx context.Context, id, node string, r WorkflowDecision) (WorkflowRunChanged, error) {
	return post[WorkflowRunChanged](ctx, c, runNode(id, node)+"/reject", r)
}

// SkipWorkflowNode skips a node that has not started, waits, or did not succeed.
func (c *Client) SkipWorkflowNode(ctx context.Context, id, node string, r WorkflowNodeSkip) (WorkflowRunChanged, error) {
	return post[WorkflowRunChanged](ctx, c, runNode(id, node)+"/skip", r)
}

// MarkWorkflowNode marks such a node as SUCCEEDED, with a result.
func (c *Client) MarkWorkflowNode(ctx context.Context, id, node string, r WorkflowNodeMark) (WorkflowRunChanged, error) {
	return post[WorkflowRunChanged](ctx, c, runNode(id, node)+"/mark", r)
}

// ChangeWorkflowMap changes how many items of a map run at once and how many may fail, while it runs.
func (c *Client) ChangeWorkflowMap(ctx context.Context, id, node string, r WorkflowMapChange) (run WorkflowRunChanged, err error) {
	_, err = c.ask(ctx, request{method: http.MethodPatch, path: prefix + runNode(id, node)}, r, &run)
	return run, err
}

// SendEvent sends an event to the runs that wait for it, and to those that begin to wait within 24 hours.
func (c *Client) SendEvent(ctx context.Context, r EventRequest) (EventSent, error) {
	return post[EventSent](ctx, c, "/events:send", r)
}

// ListApprovals reads a page of the pending decisions that the caller may make, oldest first.
func (c *Client) ListApprovals(ctx context.Context, p Page) (PendingApprovals, error) {
	return get[PendingApprovals](ctx, c, p.params().on("/approvals"))
}

// Approvals iterates over the pending decisions that the caller may make, oldest first.
func (c *Client) Approvals(ctx context.Context) iter.Seq2[PendingApproval, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]PendingApproval, Pagination, error) {
		page, err := c.ListApprovals(ctx, p)
		return page.Approvals, page.Pagination, err
	})
}

func runNode(id, node string) string {
	return "/workflow-runs/" + seg(id) + "/nodes/" + seg(node)
}
