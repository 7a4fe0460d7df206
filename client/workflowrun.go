package client

import (
	"encoding/json"
	"time"
)

// WorkflowRun is a run of a workflow. Its id is that of its first attempt's execution; each attempt has an execution of its own, and
// the id of any of them finds the run.
type WorkflowRun struct {
	WorkflowRunID string            `json:"workflow_run_id" doc:"Also the id of its first execution."`
	WorkflowID    string            `json:"workflow_id"`
	WorkflowName  string            `json:"workflow_name"`
	ExecutionID   string            `json:"execution_id" doc:"The execution of its current attempt."`
	Status        string            `json:"status" enum:"WAITING,PENDING,RUNNING,PAUSED,CANCELLING,SUCCEEDED,FAILED,TIMED_OUT,CANCELLED,SKIPPED,EXPIRED"`
	Attempt       int               `json:"attempt" doc:"1, and one more for each retry."`
	Version       int               `json:"version" doc:"Of the workflow's definition."`
	ScheduledTime *time.Time        `json:"scheduled_time"`
	StartedAt     *time.Time        `json:"started_at"`
	FinishedAt    *time.Time        `json:"finished_at"`
	Input         json.RawMessage   `json:"input" doc:"null in lists."`
	Output        json.RawMessage   `json:"output" doc:"null until it has succeeded, and in lists."`
	Error         *Error            `json:"error"`
	Nodes         []WorkflowRunNode `json:"nodes,omitempty" doc:"In the order of the definition. Not in lists."`
	CriticalPath  []string          `json:"critical_path" doc:"Keys of the nodes that decided how long it took, the first one first. Empty in lists."`
}

// WorkflowRunNode is the state of a node in a run.
type WorkflowRunNode struct {
	Key         string           `json:"key"`
	Status      string           `json:"status" enum:"WAITING,PENDING,RUNNING,RETRYING,CANCELLING,SUCCEEDED,FAILED,TIMED_OUT,EXPIRED,CANCELLED,SKIPPED,NOT_RUN"`
	Reason      string           `json:"reason,omitempty" doc:"Why, in a few words, where the status does not say it. Of a node that failed: the type of its error, a colon and the message."`
	Error       *Error           `json:"error" doc:"Why it failed: as its execution has it, or why none started. null unless it is FAILED, TIMED_OUT, EXPIRED or CANCELLED."`
	ExecutionID *string          `json:"execution_id" doc:"Its latest execution. null for a map, a wait, and a node that has not started."`
	StartedAt   *time.Time       `json:"started_at" doc:"Of a map: when its list was made. Of a wait: when it began."`
	FinishedAt  *time.Time       `json:"finished_at" doc:"Of a map: when its last item had ended. Of a wait: when it was decided, released or too late."`
	Map         *WorkflowRunMap  `json:"map,omitempty"`
	Wait        *WorkflowRunWait `json:"wait,omitempty"`
}

// WorkflowRunMap counts the items of a map.
type WorkflowRunMap struct {
	Total     int `json:"total"`
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	Running   int `json:"running" doc:"Started and not ended."`
	Skipped   int `json:"skipped"`
}

// WorkflowRunWait describes what a node waits for, or waited for.
type WorkflowRunWait struct {
	Kind   string          `json:"kind" enum:"timer,approval,event"`
	Until  *time.Time      `json:"until,omitempty" doc:"When it ends by itself."`
	Roles  []string        `json:"roles,omitempty" doc:"Of an approval: who may decide; none: operators and admins."`
	Min    int             `json:"min,omitempty" doc:"Of an approval: how many must approve."`
	Votes  []WorkflowVote  `json:"votes,omitempty" doc:"Of an approval: who has decided."`
	Schema json.RawMessage `json:"schema,omitempty" doc:"Of an approval: a JSON Schema for the data that people give."`
	Event  string          `json:"event,omitempty" doc:"The name of the event."`
}

// WorkflowVote is the decision of one person.
type WorkflowVote struct {
	Approved bool            `json:"approved"`
	By       string          `json:"by"`
	At       time.Time       `json:"at"`
	Comment  string          `json:"comment,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
}

// WorkflowRuns is one page of runs.
type WorkflowRuns struct {
	WorkflowRuns []WorkflowRun `json:"workflow_runs"`
	Pagination   Pagination    `json:"pagination"`
}

// WorkflowRunItem is one item of a map.
type WorkflowRunItem struct {
	Index       int     `json:"index"`
	Status      string  `json:"status" enum:"WAITING,PENDING,RUNNING,RETRYING,CANCELLING,SUCCEEDED,FAILED,TIMED_OUT,EXPIRED,CANCELLED,SKIPPED,NOT_RUN"`
	ExecutionID *string `json:"execution_id" doc:"null if it has not started."`
	Error       *Error  `json:"error" doc:"Why it failed; null if it has not."`
}

// WorkflowRunItems is one page of the items of a map, in the order of the list.
type WorkflowRunItems struct {
	Items      []WorkflowRunItem `json:"items"`
	Pagination Pagination        `json:"pagination"`
}

// WorkflowNodeChange is the effect of an action on a node.
type WorkflowNodeChange struct {
	Node  string  `json:"node"`
	From  *string `json:"from" doc:"Its status before; null: the node is new."`
	To    *string `json:"to" doc:"Its status now; null: the node is gone."`
	Items int     `json:"items,omitempty" doc:"Of a map that continues: how many items run again, or for the first time."`
}

// WorkflowRunChanged is a run after an action. After a dry run, the run is unchanged.
type WorkflowRunChanged struct {
	Changes []WorkflowNodeChange `json:"changes" doc:"What the act changed, or would change."`
	WorkflowRun
}

// WorkflowRunPause is the body of a request to pause or unpause a run.
type WorkflowRunPause struct {
	DryRun bool `json:"dry_run,omitempty" doc:"Only list what would change."`
}

// WorkflowRunCancel is the body of a request to cancel a run.
type WorkflowRunCancel struct {
	Force  bool   `json:"force,omitempty" doc:"Skip the finally nodes of a run that is being cancelled already."`
	Reason string `json:"reason,omitempty" doc:"Up to 1000 characters."`
	DryRun bool   `json:"dry_run,omitempty" doc:"Only list what would change."`
}

// WorkflowRunRetry is the body of a request to run parts of a run again.
type WorkflowRunRetry struct {
	Nodes   []string        `json:"nodes,omitempty" doc:"Keys of the nodes to start from, even if they succeeded; what failed and what was not run when omitted."`
	Only    bool            `json:"only,omitempty" doc:"With nodes: what depends on them stays as it is."`
	Input   json.RawMessage `json:"input,omitempty" doc:"Another input; the same when omitted."`
	Version string          `json:"version,omitempty" enum:"latest" doc:"latest: continue with the current version of the workflow, matching nodes by key. The run's own version when omitted."`
	DryRun  bool            `json:"dry_run,omitempty" doc:"Only list what would change."`
}

// WorkflowDecision is the body of a request to approve or reject.
type WorkflowDecision struct {
	Comment string          `json:"comment,omitempty" doc:"Up to 1000 characters."`
	Data    json.RawMessage `json:"data,omitempty" doc:"To approve: data that fits the approval's schema."`
	DryRun  bool            `json:"dry_run,omitempty" doc:"Only list what would change."`
}

// WorkflowNodeSkip is the body of a request to skip a node.
type WorkflowNodeSkip struct {
	DryRun bool `json:"dry_run,omitempty" doc:"Only list what would change."`
}

// WorkflowNodeMark is the body of a request to mark a node as succeeded.
type WorkflowNodeMark struct {
	Result json.RawMessage `json:"result,omitempty" doc:"The node's result; null when omitted."`
	DryRun bool            `json:"dry_run,omitempty" doc:"Only list what would change."`
}

// WorkflowMapChange is the body of a request to change a map while it runs.
type WorkflowMapChange struct {
	MaxParallel *int            `json:"max_parallel,omitempty" doc:"How many items run at once; 0: no limit."`
	Tolerate    json.RawMessage `json:"tolerate,omitempty" doc:"How many items may fail, as a count such as 3 or a share such as \"1%\"."`
	DryRun      bool            `json:"dry_run,omitempty" doc:"Only list what would change."`
}

// WorkflowRunExplanation explains the state of a run.
type WorkflowRunExplanation struct {
	WorkflowRunID string                    `json:"workflow_run_id"`
	WorkflowID    string                    `json:"workflow_id"`
	Status        string                    `json:"status"`
	Summary       string                    `json:"summary" doc:"One sentence."`
	Nodes         []WorkflowNodeExplanation `json:"nodes" doc:"The nodes that there is something to say about, in the order of the definition."`
}

// WorkflowNodeExplanation explains the state of a node of a run.
type WorkflowNodeExplanation struct {
	Key         string  `json:"key"`
	Status      string  `json:"status"`
	Summary     string  `json:"summary"`
	ExecutionID *string `json:"execution_id,omitempty" doc:"Ask for the explanation of this execution to learn more."`
}

// EventRequest is the body of a request to send an event to waiting runs.
type EventRequest struct {
	Event   string          `json:"event" doc:"Its name, such as order.paid."`
	Match   json.RawMessage `json:"match,omitempty" doc:"The value that waits compare with their match. Without it, only waits without match continue."`
	Payload json.RawMessage `json:"payload,omitempty" doc:"The result of the nodes that it releases."`
	DryRun  bool            `json:"dry_run,omitempty" doc:"Only list the runs that it would release."`
}

// EventSent describes the effect of an event. Waits that begin within 24 hours see it too.
type EventSent struct {
	EventID      string   `json:"event_id,omitempty" doc:"None for a dry run."`
	WorkflowRuns []string `json:"workflow_runs" doc:"Ids of the runs that waited for it."`
}

// PendingApproval is a decision that a run waits for.
type PendingApproval struct {
	WorkflowRunID string          `json:"workflow_run_id"`
	WorkflowID    string          `json:"workflow_id"`
	WorkflowName  string          `json:"workflow_name"`
	Node          string          `json:"node"`
	Since         time.Time       `json:"since"`
	Until         *time.Time      `json:"until" doc:"When it ends by itself."`
	Roles         []string        `json:"roles" doc:"Who may decide; none: operators and admins."`
	Min           int             `json:"min" doc:"How many must approve."`
	Approved      int             `json:"approved" doc:"How many have."`
	Schema        json.RawMessage `json:"schema,omitempty" doc:"A JSON Schema for the data that people give."`
}

// PendingApprovals is one page of decisions that runs wait for.
type PendingApprovals struct {
	Approvals  []PendingApproval `json:"approvals"`
	Pagination Pagination        `json:"pagination"`
}
