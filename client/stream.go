package client

import "time"

// Change is something that happened, as the stream of events tells it.
type Change struct {
	At          time.Time `json:"at"`
	Type        string    `json:"type" enum:"execution.created,execution.started,execution.retrying,execution.released,execution.cancelling,execution.finished,job.created,job.changed,job.paused,job.deleted,worker.joined,worker.draining,worker.left"`
	ExecutionID string    `json:"execution_id,omitempty"`
	JobID       string    `json:"job_id,omitempty" doc:"The job of the execution, if known."`
	WorkerID    string    `json:"worker_id,omitempty"`
	Status      string    `json:"status,omitempty" doc:"The status of the execution or job after the event."`
}

// Changes is the data of an event changes: what happened since the one before, the first thing first.
type Changes struct {
	Changes []Change `json:"changes"`
}

// Reset is the data of an event reset: what was told before is not all that happened. Read again what you show.
type Reset struct {
	Reason string `json:"reason"`
}
