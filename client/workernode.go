package client

import "encoding/json"

// CodeNoNode is the code of the problem that an attempt does not run a node of a workflow.
const CodeNoNode = "no_node"

// NodeRequest names an attempt that runs a node of a workflow.
type NodeRequest struct {
	ExecutionID  string `json:"execution_id"`
	FencingToken int64  `json:"fencing_token"`
}

// AttemptNode identifies the node and the run that an attempt belongs to.
type AttemptNode struct {
	WorkflowRunID string          `json:"workflow_run_id"`
	WorkflowID    string          `json:"workflow_id"`
	Node          string          `json:"node"`
	Index         *int            `json:"index,omitempty" doc:"Of a map: the number of the item, from 0."`
	Item          json.RawMessage `json:"item,omitempty" doc:"Of a map: the item."`
}

// NodeResultRequest asks for the result of an ancestor of an attempt's node.
type NodeResultRequest struct {
	ExecutionID  string `json:"execution_id"`
	FencingToken int64  `json:"fencing_token"`
	Node         string `json:"node" doc:"The key of an ancestor; in a finally node, of any node that is none."`
}

// NodeResult is the result of a node of a run.
type NodeResult struct {
	Node   string          `json:"node"`
	Status string          `json:"status" doc:"As in a run; it may not have ended, above a node with a trigger such as one_success."`
	Result json.RawMessage `json:"result" doc:"At most 1 MiB; of a map, the list of its items' results, null where one failed."`
	Error  *Error          `json:"error"`
}
