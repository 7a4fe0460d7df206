package api

import (
	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/service"
)

// wireRunOf is a run as lists have it.
func wireRunOf(r *service.Run) client.WorkflowRun {
	return client.WorkflowRun{
		WorkflowRunID: r.ID.String(), WorkflowID: r.Workflow.String(), WorkflowName: r.Name, ExecutionID: r.Execution.String(), Status: r.Stands.String(),
		Attempt: r.Attempt, Version: r.Version, ScheduledTime: instant(r.ScheduledAt), StartedAt: instant(r.BegunAt), FinishedAt: instant(r.EndedAt), Error: wireError(r.Error),
		CriticalPath: []string{},
	}
}

// wireRunAll is a run with its nodes.
func wireRunAll(r *service.Run) client.WorkflowRun {
	out := wireRunOf(r)
	out.Input, out.Output, out.CriticalPath = r.Input, r.Output, list0(r.Path)
	out.Nodes = make([]client.WorkflowRunNode, len(r.Nodes))
	for i := range r.Nodes {
		out.Nodes[i] = wireRunNode(&r.Nodes[i])
	}
	return out
}

func wireRunNode(n *service.RunNode) client.WorkflowRunNode {
	out := client.WorkflowRunNode{
		Key: n.Key, Status: n.Status.String(), Reason: n.Reason, Error: wireError(n.Error), ExecutionID: executionText(n.Execution), StartedAt: instant(n.Started), FinishedAt: instant(n.Finished),
	}
	if m := n.Map; m != nil {
		out.Map = &client.WorkflowRunMap{Total: m.Total, Succeeded: m.Succeeded, Failed: m.Failed, Running: m.Running, Skipped: m.Skipped}
	}
	if n.Wait != nil {
		out.Wait = wireRunWait(n.Wait)
	}
	return out
}

func wireRunWait(w *service.NodeWait) *client.WorkflowRunWait {
	out := &client.WorkflowRunWait{Kind: "timer", Until: instant(w.Until), Event: w.Event}
	switch a := w.Approval; {
	case a != nil:
		out.Kind, out.Roles, out.Min, out.Schema = "approval", a.Roles, max(a.Min, 1), a.Schema
	case w.Event != "":
		out.Kind = "event"
	}
	for _, v := range w.Votes {
		out.Votes = append(out.Votes, client.WorkflowVote{Approved: v.Approved, By: v.By, At: v.At, Comment: v.Comment, Data: v.Data})
	}
	return out
}

// executionText is nil for no execution.
func executionText(id job.ExecutionID) *string {
	if id.IsZero() {
		return nil
	}
	return new(id.String())
}

// statusText is nil for no status.
func statusText(s workflow.Status) *string {
	if s == 0 {
		return nil
	}
	return new(s.String())
}
