package client

import (
	"context"
	"iter"
	"net/http"
	"strconv"
)

// WorkflowFilter selects workflows; a zero field matches everything.
type WorkflowFilter struct {
	Status string
	Tag    string
	Owner  string
	Q      string // text in the name, description or key
}

// CreateWorkflow creates a workflow.
func (c *Client) CreateWorkflow(ctx context.Context, r WorkflowRequest) (Workflow, error) {
	return post[Workflow](ctx, c, "/workflows", r)
}

// Workflow reads a workflow, by its id or by its key as key:…
func (c *Client) Workflow(ctx context.Context, id string) (Workflow, error) {
	return get[Workflow](ctx, c, "/workflows/"+seg(id))
}

// WorkflowAt reads a workflow with an earlier version of its definition.
func (c *Client) WorkflowAt(ctx context.Context, id string, version int) (Workflow, error) {
	q := params{}
	q.number("version", version)
	return get[Workflow](ctx, c, q.on("/workflows/"+seg(id)))
}

// ListWorkflows reads a page of workflows, newest first, without their nodes.
func (c *Client) ListWorkflows(ctx context.Context, f WorkflowFilter, p Page) (Workflows, error) {
	q := p.params()
	q.text("status", f.Status)
	q.text("tag", f.Tag)
	q.text("owner", f.Owner)
	q.text("q", f.Q)
	return get[Workflows](ctx, c, q.on("/workflows"))
}

// Workflows iterates over all workflows, newest first, without their nodes.
func (c *Client) Workflows(ctx context.Context, f WorkflowFilter) iter.Seq2[Workflow, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]Workflow, Pagination, error) {
		page, err := c.ListWorkflows(ctx, f, p)
		return page.Workflows, page.Pagination, err
	})
}

// ListWorkflowVersions reads a page of the versions of a workflow, newest first.
func (c *Client) ListWorkflowVersions(ctx context.Context, id string, p Page) (WorkflowVersions, error) {
	return get[WorkflowVersions](ctx, c, p.params().on("/workflows/"+seg(id)+"/versions"))
}

// WorkflowVersions iterates over the versions of a workflow, newest first.
func (c *Client) WorkflowVersions(ctx context.Context, id string) iter.Seq2[WorkflowVersion, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]WorkflowVersion, Pagination, error) {
		page, err := c.ListWorkflowVersions(ctx, id, p)
		return page.Versions, page.Pagination, err
	})
}

// ChangeWorkflow changes fields of a workflow. A definition that differs becomes a new version.
func (c *Client) ChangeWorkflow(ctx context.Context, id string, change JobChange) (w Workflow, err error) {
	fields := change.Fields
	if fields == nil {
		fields = map[string]any{}
	}
	_, err = c.ask(ctx, request{method: http.MethodPatch, path: prefix + "/workflows/" + seg(id), header: ifMatch(change.Revision)}, fields, &w)
	return w, err
}

// ReplaceWorkflow replaces the whole definition of a workflow; fields left out have their defaults. A revision other
// than 0 is the one that the workflow must have.
func (c *Client) ReplaceWorkflow(ctx context.Context, id string, r WorkflowRequest, revision int) (w Workflow, err error) {
	_, err = c.ask(ctx, request{method: http.MethodPut, path: prefix + "/workflows/" + seg(id), header: ifMatch(revision)}, r, &w)
	return w, err
}

func ifMatch(revision int) http.Header {
	if revision == 0 {
		return nil
	}
	return http.Header{"If-Match": {strconv.Itoa(revision)}}
}

// DeleteWorkflow deletes a workflow: no new run begins, and those in flight continue.
func (c *Client) DeleteWorkflow(ctx context.Context, id string) (Workflow, error) {
	return drop[Workflow](ctx, c, "/workflows/"+seg(id))
}

// DeleteAndStopWorkflow deletes a workflow and cancels its runs.
func (c *Client) DeleteAndStopWorkflow(ctx context.Context, id string) (Workflow, error) {
	q := params{}
	q.text("runs", "cancel")
	return drop[Workflow](ctx, c, q.on("/workflows/"+seg(id)))
}

// LintWorkflow checks a definition without storing it. Mistakes are returned as the error; the answer lists probable
// mistakes.
func (c *Client) LintWorkflow(ctx context.Context, r WorkflowRequest) (WorkflowLint, error) {
	return post[WorkflowLint](ctx, c, "/workflows:lint", r)
}

// TriggerWorkflow begins a run. If an unfinished run has the unique key, it is returned, marked as Deduplicated.
func (c *Client) TriggerWorkflow(ctx context.Context, id string, r WorkflowTrigger) (t WorkflowTriggered, err error) {
	head, err := c.ask(ctx, request{method: http.MethodPost, path: prefix + "/workflows/" + seg(id) + "/trigger"}, r, &t)
	t.Deduplicated = head.Get(deduplicated) == "true"
	return t, err
}
