package api

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/secret"
	"github.com/carillon-jobs/carillon/internal/service"
	"github.com/carillon-jobs/carillon/internal/wire"
)

// workflowOf is a request as the service takes it, with the defaults filled in.
func workflowOf(r client.WorkflowRequest, base job.RetryPolicy) (out service.Workflow, err error) {
	if r.Schedule == nil {
		r.Schedule = &client.Schedule{Type: job.Manual.String()}
	}
	out.Definition, err = definition(client.JobRequest{
		Name: r.Name, Key: r.Key, Description: r.Description, Schedule: r.Schedule, Priority: r.Priority, Tags: r.Tags, Owner: r.Owner, Runbook: r.Runbook, Paused: r.Paused,
		Queue: r.Queue, Labels: r.Labels, Overlap: r.Overlap, CatchUp: r.CatchUp, CatchUpLimit: r.CatchUpLimit, MaxConcurrent: r.MaxConcurrent, ConcurrencyKey: r.ConcurrencyKey,
		RateLimit: r.RateLimit, UniqueKey: r.UniqueKey, ExpiresAfter: r.ExpiresAfter, Retention: r.Retention, Execution: client.Target{Payload: r.Input},
	}, job.RetryPolicy{Backoff: job.Exponential})
	if err != nil {
		return out, err
	}
	out.Target = job.Target{Kind: job.Workflow}
	doc := encoded(struct {
		OnFailure   string                `json:"on_failure,omitempty"`
		Timeout     string                `json:"timeout,omitempty"`
		InputSchema json.RawMessage       `json:"input_schema,omitempty"`
		Output      string                `json:"output,omitempty"`
		Nodes       []client.WorkflowNode `json:"nodes"`
	}{r.OnFailure, r.Timeout, r.InputSchema, r.Output, r.Nodes})
	if err := json.Unmarshal(doc, &out.Graph); err != nil {
		return out, fmt.Errorf("read a workflow: %w", err)
	}
	out.Inline = make([]*service.Inline, len(r.Nodes))
	for i, n := range r.Nodes {
		if n.Execution == nil {
			continue
		}
		sample, guessed := wire.Sample(*n.Execution)
		out.Inline[i] = &service.Inline{
			Target: wire.Target(*n.Execution), Payload: wire.Payload(*n.Execution), Retry: wire.Retry(n.RetryPolicy, base), Sample: wire.Target(sample), Guessed: guessed,
		}
	}
	return out, nil
}

// wireNodes are nodes as answered, without the values of credentials.
func wireNodes(nodes []workflow.Node) []client.WorkflowNode {
	if nodes == nil {
		return nil
	}
	var out []client.WorkflowNode
	if json.Unmarshal(encoded(nodes), &out) != nil {
		return nil // it was made of such nodes
	}
	for i := range out {
		e := out[i].Execution
		if e == nil {
			continue
		}
		for name, value := range e.Headers {
			if secret.HidesHeader(name, value) && !strings.Contains(value, "{{") {
				e.Headers[name] = secret.Hidden
			}
		}
		e.Env = redactedEnv(e.Env)
	}
	return out
}

// wireWorkflow is a workflow as answered.
func wireWorkflow(f service.Flow) client.Workflow {
	j := wireJob(f.Job, f.Stats)
	out := client.Workflow{
		WorkflowID: j.JobID, Version: f.Target.Version, Key: j.Key, Name: j.Name, Description: j.Description, Status: j.Status, Schedule: j.Schedule, Priority: j.Priority, Tags: j.Tags,
		Owner: j.Owner, Runbook: j.Runbook, Queue: j.Queue, Labels: j.Labels, Overlap: j.Overlap, CatchUp: j.CatchUp, CatchUpLimit: j.CatchUpLimit, MaxConcurrent: j.MaxConcurrent,
		ConcurrencyKey: j.ConcurrencyKey, RateLimit: j.RateLimit, UniqueKey: j.UniqueKey, ExpiresAfter: j.ExpiresAfter, Retention: j.Retention, Input: f.Payload,
		Timeout: f.Graph.Timeout, OnFailure: string(f.Graph.OnFailure), InputSchema: f.Graph.InputSchema, Output: f.Graph.Output, Nodes: wireNodes(f.Graph.Nodes),
		DependsOn: j.DependsOn, PauseReason: j.PauseReason, PausedUntil: j.PausedUntil, Stats: j.Stats, CreatedAt: j.CreatedAt, UpdatedAt: j.UpdatedAt, Revision: j.Revision, Warnings: wireWarnings(f.Warnings),
	}
	if f.Version.Version != 0 {
		out.Version = f.Version.Version
	}
	return out
}

func wireWarnings(ws []workflow.Warning) (out []client.WorkflowWarning) {
	for _, w := range ws {
		out = append(out, client.WorkflowWarning{Node: w.Node, Message: w.Text})
	}
	return out
}

// wireVersion is a version as answered.
func wireVersion(v engine.WorkflowVersion, current int) (client.WorkflowVersion, error) {
	var g workflow.Definition
	err := json.Unmarshal(v.Definition, &g)
	return client.WorkflowVersion{
		Version: v.Version, CreatedAt: v.CreatedAt, CreatedBy: v.By, Current: v.Version == current,
		Timeout: g.Timeout, OnFailure: string(g.OnFailure), InputSchema: g.InputSchema, Output: g.Output, Nodes: wireNodes(g.Nodes),
	}, err
}

// asWorkflowRequest is a request that would make the workflow as it is.
func asWorkflowRequest(f service.Flow) client.WorkflowRequest {
	r, w := asRequest(f.Job), wireWorkflow(f)
	return client.WorkflowRequest{
		Name: r.Name, Key: r.Key, Description: r.Description, Schedule: r.Schedule, Priority: r.Priority, Tags: r.Tags, Owner: r.Owner, Runbook: r.Runbook, Queue: r.Queue, Labels: r.Labels,
		Overlap: r.Overlap, CatchUp: r.CatchUp, CatchUpLimit: r.CatchUpLimit, MaxConcurrent: r.MaxConcurrent, ConcurrencyKey: r.ConcurrencyKey, RateLimit: r.RateLimit, UniqueKey: r.UniqueKey,
		ExpiresAfter: r.ExpiresAfter, Retention: r.Retention, Timeout: w.Timeout, OnFailure: w.OnFailure, InputSchema: w.InputSchema, Input: w.Input, Output: w.Output, Nodes: w.Nodes,
	}
}
