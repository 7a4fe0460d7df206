package client

import (
	"encoding/json"
	"time"
)

// WorkflowWait describes what a node waits for: a timer, an approval or an event.
type WorkflowWait struct {
	Timer    string            `json:"timer,omitempty" doc:"A duration such as 2h, or an instant."`
	Approval *WorkflowApproval `json:"approval,omitempty"`
	Event    string            `json:"event,omitempty" doc:"The name of an event. Events of the last 24 hours count."`
	Match    json.RawMessage   `json:"match,omitempty" doc:"With event: an expression, or a value that the event must carry."`
}

// WorkflowApproval describes who decides and how many must agree.
type WorkflowApproval struct {
	Roles  []string        `json:"roles,omitempty" doc:"Who may decide; operators and admins when omitted."`
	Min    int             `json:"min,omitempty" doc:"How many must approve; 1 when omitted."`
	Schema json.RawMessage `json:"schema,omitempty" doc:"A JSON Schema for the data that people give."`
}

// WorkflowNode is one node of a workflow. It has exactly one of Execution, JobID and Wait.
type WorkflowNode struct {
	Key       string   `json:"key" doc:"1 to 64 of a-z, 0-9 and _, beginning with a letter; unique in the workflow."`
	DependsOn []string `json:"depends_on,omitempty" doc:"Keys of the nodes that must end first."`
	Trigger   string   `json:"trigger,omitempty" enum:"all_success,none_failed,none_failed_min_one_success,any_success,all_done,all_failed,one_success,one_done,one_failed,success,failure,always" doc:"Which ends of its parents let it run; all_success when omitted."`
	Condition string   `json:"condition,omitempty" enum:"success,failure,always" doc:"Another name of trigger."`
	If        string   `json:"if,omitempty" doc:"An expression: the node is SKIPPED if it is false."`
	OnFailure string   `json:"on_failure,omitempty" enum:"continue,stop,handle,ignore" doc:"What its failure means to the run; as the workflow says when omitted."`
	Finally   bool     `json:"finally,omitempty" doc:"It starts when all other nodes have ended, also after a cancel or timeout."`

	Map         json.RawMessage `json:"map,omitempty" doc:"An expression that gives a list, a list, or a number: the node runs once for each item."`
	MaxParallel int             `json:"max_parallel,omitempty" doc:"With map: how many items run at once."`
	Tolerate    json.RawMessage `json:"tolerate,omitempty" doc:"With map: how many items may fail, as a count such as 3 or a share such as \"1%\"."`

	Execution       *Target         `json:"execution,omitempty" doc:"What it runs. {{ expressions }} in payload, headers, callback_url and command are rendered when the node starts."`
	RetryPolicy     *RetryPolicy    `json:"retry_policy,omitempty"`
	JobID           string          `json:"job_id,omitempty" doc:"An existing job or workflow that it runs: its id, or key:…"`
	PayloadOverride json.RawMessage `json:"payload_override,omitempty" doc:"With job_id: replaces the job's payload; the input of a sub-workflow. A template."`
	Wait            *WorkflowWait   `json:"wait,omitempty"`

	Timeout   string `json:"timeout,omitempty" doc:"Limits all its attempts together, such as 30m."`
	OnTimeout string `json:"on_timeout,omitempty" enum:"fail,skip,succeed" doc:"With wait: how a wait ends that takes too long."`
}

// WorkflowRequest is the body of a request to create a workflow.
type WorkflowRequest struct {
	Name        string    `json:"name" doc:"1 to 255 characters; need not be unique."`
	Key         *string   `json:"key,omitempty" doc:"Unique in the tenant, also among jobs; you can use key:… instead of the id anywhere."`
	Description string    `json:"description,omitempty"`
	Schedule    *Schedule `json:"schedule,omitempty" doc:"MANUAL when omitted: it runs only when you trigger it."`
	Priority    *int      `json:"priority,omitempty" doc:"1 (highest) to 10; 5 when omitted. Nodes inherit it."`
	Tags        []string  `json:"tags,omitempty"`
	Owner       *string   `json:"owner,omitempty"`
	Runbook     *string   `json:"runbook,omitempty"`
	Paused      *bool     `json:"paused,omitempty" doc:"For a new workflow: true creates it paused."`
	Queue       *string   `json:"queue,omitempty" doc:"The queue of its inline nodes."`
	Labels      []string  `json:"labels,omitempty" doc:"Labels that a worker must have to run its inline nodes."`

	Overlap        *string    `json:"overlap,omitempty" enum:"allow,skip,queue,replace" doc:"What happens if a run is due while an earlier one has not finished."`
	CatchUp        *string    `json:"catch_up,omitempty" enum:"none,latest,all"`
	CatchUpLimit   *int       `json:"catch_up_limit,omitempty"`
	MaxConcurrent  *int       `json:"max_concurrent,omitempty" doc:"How many runs may be in flight at once."`
	ConcurrencyKey *string    `json:"concurrency_key,omitempty" doc:"An expression over the input, as payload: runs with the same value share the limit."`
	RateLimit      *RateLimit `json:"rate_limit,omitempty"`
	UniqueKey      *string    `json:"unique_key,omitempty"`
	ExpiresAfter   *string    `json:"expires_after,omitempty"`
	Retention      *Retention `json:"retention,omitempty" doc:"Deletes runs, with the executions of their nodes, earlier than the tenant's retention does."`

	Timeout     string          `json:"timeout,omitempty" doc:"Limits a run, such as 2h: what runs is cancelled, the rest is NOT_RUN, finally nodes run."`
	OnFailure   string          `json:"on_failure,omitempty" enum:"continue,stop" doc:"What a failed node means to the rest: only descendants suffer (continue, the default), or nothing else starts (stop)."`
	InputSchema json.RawMessage `json:"input_schema,omitempty" doc:"A JSON Schema that the input of runs must fit."`
	Input       json.RawMessage `json:"input,omitempty" doc:"The input of runs that are given none, such as scheduled ones."`
	Output      string          `json:"output,omitempty" doc:"An expression that makes the result of a run."`
	Nodes       []WorkflowNode  `json:"nodes" doc:"1 to 1000 nodes."`
}

// WorkflowWarning describes something in a valid definition that is probably a mistake.
type WorkflowWarning struct {
	Node    string `json:"node,omitempty" doc:"The key of the node; none: the workflow."`
	Message string `json:"message"`
}

// Workflow is a workflow: a job whose target is a graph of nodes.
type Workflow struct {
	WorkflowID  string      `json:"workflow_id" doc:"Also the id of its job: the calls of /jobs/{id} work on it."`
	Version     int         `json:"version" doc:"Of the definition. New runs have the current version; a run keeps its own."`
	Key         *string     `json:"key"`
	Name        string      `json:"name"`
	Description string      `json:"description"`
	Status      string      `json:"status" enum:"ACTIVE,PAUSED,COMPLETED,DELETED"`
	Schedule    JobSchedule `json:"schedule"`
	Priority    int         `json:"priority"`
	Tags        []string    `json:"tags"`
	Owner       *string     `json:"owner"`
	Runbook     *string     `json:"runbook"`
	Queue       string      `json:"queue"`
	Labels      []string    `json:"labels"`

	Overlap        string     `json:"overlap"`
	CatchUp        string     `json:"catch_up"`
	CatchUpLimit   int        `json:"catch_up_limit"`
	MaxConcurrent  *int       `json:"max_concurrent"`
	ConcurrencyKey *string    `json:"concurrency_key"`
	RateLimit      *RateLimit `json:"rate_limit"`
	UniqueKey      *string    `json:"unique_key"`
	ExpiresAfter   *string    `json:"expires_after"`
	Retention      *Retention `json:"retention"`

	Timeout     string          `json:"timeout,omitempty"`
	OnFailure   string          `json:"on_failure,omitempty"`
	InputSchema json.RawMessage `json:"input_schema,omitempty"`
	Input       json.RawMessage `json:"input,omitempty"`
	Output      string          `json:"output,omitempty"`
	Nodes       []WorkflowNode  `json:"nodes,omitempty" doc:"Not in lists."`

	DependsOn []string `json:"depends_on,omitempty" doc:"The ids of the jobs that it depends on; see /jobs/{id}/dependencies."`

	PauseReason *string           `json:"pause_reason,omitempty"`
	PausedUntil *time.Time        `json:"paused_until,omitempty"`
	Stats       Stats             `json:"stats"`
	CreatedAt   time.Time         `json:"created_at"`
	UpdatedAt   time.Time         `json:"updated_at"`
	Revision    int               `json:"revision" doc:"Grows with every change, also of what is no part of the definition; send it as If-Match."`
	Warnings    []WorkflowWarning `json:"warnings,omitempty" doc:"In the response to a change: what is likely not meant."`
	OperationID string            `json:"operation_id,omitempty" doc:"In the response to a deletion: the operation that cancels what still waits."`
}

// Workflows is one page of workflows.
type Workflows struct {
	Workflows  []Workflow `json:"workflows"`
	Pagination Pagination `json:"pagination"`
}

// WorkflowVersion is one version of a workflow's definition.
type WorkflowVersion struct {
	Version     int             `json:"version"`
	CreatedAt   time.Time       `json:"created_at"`
	CreatedBy   string          `json:"created_by"`
	Current     bool            `json:"current"`
	Timeout     string          `json:"timeout,omitempty"`
	OnFailure   string          `json:"on_failure,omitempty"`
	InputSchema json.RawMessage `json:"input_schema,omitempty"`
	Output      string          `json:"output,omitempty"`
	Nodes       []WorkflowNode  `json:"nodes"`
}

// WorkflowVersions is one page of versions.
type WorkflowVersions struct {
	Versions   []WorkflowVersion `json:"versions"`
	Pagination Pagination        `json:"pagination"`
}

// WorkflowLint is the answer to a check of a definition.
type WorkflowLint struct {
	Warnings []WorkflowWarning `json:"warnings"`
}

// WorkflowTrigger is the body of a request to begin a run.
type WorkflowTrigger struct {
	Input     json.RawMessage `json:"input,omitempty" doc:"The input of the run; the workflow's own when omitted."`
	UniqueKey string          `json:"unique_key,omitempty" doc:"If a run with this key has not finished, the response names that one."`
}

// WorkflowTriggered is a run that has begun.
type WorkflowTriggered struct {
	WorkflowRunID string `json:"workflow_run_id"`
	WorkflowID    string `json:"workflow_id"`
	Status        string `json:"status"`
	Deduplicated  bool   `json:"-"` // an earlier run that holds the unique key
}
