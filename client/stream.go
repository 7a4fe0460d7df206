package client

import "time"

// Change is one change, as sent in the stream of events.
type Change struct {
	At            time.Time `json:"at"`
	Type          string    `json:"type" enum:"execution.created,execution.started,execution.retrying,execution.released,execution.cancelling,execution.finished,job.created,job.changed,job.paused,job.deleted,run.changed,worker.joined,worker.draining,worker.left"`
	ExecutionID   string    `json:"execution_id,omitempty"`
	JobID         string    `json:"job_id,omitempty" doc:"The job of the execution, if known; of run.changed the workflow."`
	WorkflowRunID string    `json:"workflow_run_id,omitempty" doc:"The run that changed, or that started the execution."`
	WorkerID      string    `json:"worker_id,omitempty"`
	Status        string    `json:"status,omitempty" doc:"The status of the execution, run or job after the event."`
}

// Changes is the data of an event named changes: the changes since the previous event, oldest first.
type Changes struct {
	Changes []Change `json:"changes"`
}

// Reset is the data of an event named reset: some changes were missed, so read everything that you show again.
type Reset struct {
	Reason string `json:"reason"`
}
