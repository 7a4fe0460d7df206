package service

import (
	"context"
	"encoding/json"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/workflows"
)

// ErrNoNode says that an execution is not a node of a workflow.
var ErrNoNode = workflows.ErrNoNode

// NodeOf finds the node that an execution is, and the item of a map that it runs for, as JSON. The caller holds its
// lease.
func (s *WorkflowRuns) NodeOf(ctx context.Context, t tenant.ID, id job.ExecutionID) (workflows.NodeOf, json.RawMessage, error) {
	n, err := s.runner.NodeOf(ctx, t, id)
	if err != nil || n.Item < 0 {
		return n, nil, err
	}
	item, err := s.runner.ItemOf(ctx, t, id)
	return n, item, err
}

// ResultFor returns the result of an ancestor of an execution's node. The caller holds its lease.
func (s *WorkflowRuns) ResultFor(ctx context.Context, t tenant.ID, id job.ExecutionID, node string) (workflows.Left, error) {
	return s.runner.ResultFor(ctx, t, id, node)
}
