package client

import (
	"encoding/json"
	"time"
)

// Attempt is one try at an execution, handed to a worker under a lease.
type Attempt struct {
	ExecutionID    string          `json:"execution_id"`
	JobID          string          `json:"job_id"`
	JobName        string          `json:"job_name"`
	TenantID       string          `json:"tenant_id,omitempty" doc:"The tenant it belongs to."`
	Execution      Target          `json:"execution"`
	Kind           string          `json:"kind,omitempty" doc:"Target worker: the handler to run."`
	Payload        json.RawMessage `json:"payload"`
	AttemptNumber  int             `json:"attempt_number"`
	FencingToken   int64           `json:"fencing_token"`
	ScheduledTime  time.Time       `json:"scheduled_time"`
	Deadline       time.Time       `json:"deadline"`
	IdempotencyKey string          `json:"idempotency_key"`

	LateSecrets bool `json:"late_secrets,omitempty" doc:"The attempt names secrets, so its payload, headers and env are not here. Call POST /executions/{id}/start when you begin it, and run the attempt that it answers with."`

	Traceparent string `json:"traceparent,omitempty" doc:"W3C Trace Context: all attempts of an execution belong to one trace."`

	PayloadSecret   bool              `json:"payload_secret,omitempty" doc:"The payload contains the value of a secret: send it only to its target."`
	CallbackHeaders map[string]string `json:"callback_headers,omitempty" doc:"Target http: additional headers to send, such as the signature."`
	CallbackAllow   []string          `json:"callback_allow,omitempty" doc:"Target http: private address ranges that this callback may reach."`

	CallbackHTTPSOnly bool `json:"callback_https_only,omitempty" doc:"Target http: this callback may not go over plain http, nor may its redirects."`
	WantsResult       bool `json:"wants_result,omitempty" doc:"It is a node of a workflow, whose other nodes may read its result. Target http: report the JSON of the response."`
}

// The ways an attempt ends.
const (
	Succeeded = "SUCCEEDED"
	Failed    = "FAILED"
	Cancelled = "CANCELLED"
	Snoozed   = "SNOOZED"
	Parked    = "PARKED"
	Skipped   = "SKIPPED"
)

// Limits on what a worker reports of one attempt, in bytes.
const (
	MaxResult  = 1 << 20 // of a result, as JSON; a larger one is refused
	MaxMessage = 10_000  // of an error's message; longer ones are cut off
)

// Outcome is the result of an attempt, as its worker reports it.
type Outcome struct {
	ExecutionID  string            `json:"execution_id"`
	FencingToken int64             `json:"fencing_token"`
	Status       string            `json:"status" enum:"SUCCEEDED,FAILED,CANCELLED,SNOOZED,PARKED,SKIPPED" doc:"SNOOZED: run it again after retry_after_ms; it did not fail, and no retry is used up. PARKED: it has not ended; its target took it over and will complete it. SKIPPED: there was nothing to do; the execution ends SKIPPED, and error.message says why."`
	Result       json.RawMessage   `json:"result,omitempty" doc:"Any JSON of at most 1 MiB."`
	Error        *Error            `json:"error,omitempty"`
	Response     *CallbackResponse `json:"response,omitempty"`
	Retryable    bool              `json:"retryable,omitempty"`
	RetryAfterMS int64             `json:"retry_after_ms,omitempty" doc:"FAILED: retry no sooner than this. SNOOZED: run again after this; at least 1."`
}

// Verdict reports whether an outcome was accepted.
type Verdict struct {
	ExecutionID string `json:"execution_id"`
	Verdict     string `json:"verdict" enum:"accepted,refused"`
	Reason      string `json:"reason,omitempty"`
}

// The verdicts.
const (
	Accepted = "accepted"
	Refused  = "refused"
)

// Held names an execution and the token it is held under.
type Held struct {
	ExecutionID  string    `json:"execution_id"`
	FencingToken int64     `json:"fencing_token"`
	Progress     *Progress `json:"progress,omitempty" doc:"Only new progress since the last heartbeat: each report counts as progress for stall_timeout_seconds."`
}

// Beat is a worker's heartbeat: which leases it holds, and whether it is stopping.
type Beat struct {
	Executions []Held `json:"executions" doc:"All executions that you hold. If null or omitted, none is considered forgotten."`
	Draining   bool   `json:"draining,omitempty"`
	Memory
}

// Registration describes a worker that registers.
type Registration struct {
	Host     string   `json:"host,omitempty"`
	Version  string   `json:"version,omitempty"`
	Labels   []string `json:"labels,omitempty" doc:"Jobs may require these."`
	Queues   []string `json:"queues,omitempty" doc:"Queues to serve; all when omitted."`
	Targets  []string `json:"targets,omitempty" doc:"Targets to serve; only worker when omitted."`
	Kinds    []string `json:"kinds,omitempty" doc:"Kinds of handlers it has, for the target worker."`
	Capacity int      `json:"capacity,omitempty" doc:"How many it runs at once; 1 when omitted."`
	Memory
}

// MaxClaim limits how many attempts one claim may ask for.
const MaxClaim = 1000

// ClaimRequest asks for attempts.
type ClaimRequest struct {
	Max         int  `json:"max,omitempty" doc:"1 to 1000; 1 when omitted."`
	WaitSeconds *int `json:"wait_seconds,omitempty" doc:"How long to wait for executions, 0 to 60; default 20."`

	LateSecrets bool `json:"late_secrets,omitempty" doc:"Leave out the values of secrets: you ask for those of each attempt when you begin it. For workers that claim more than they can begin at once."`
}

// StartRequest asks for an attempt that was claimed without the values of its secrets.
type StartRequest struct {
	FencingToken int64 `json:"fencing_token"`
}

// Claimed is the response to a claim; it is empty if no work came in time.
type Claimed struct {
	Attempts []Attempt `json:"attempts"`
}

// CompleteRequest reports the outcomes of attempts.
type CompleteRequest struct {
	Outcomes []Outcome `json:"outcomes"`
}

// Verdicts reports, in order, whether outcomes were accepted.
type Verdicts struct {
	Verdicts []Verdict `json:"verdicts"`
}

// ReleaseRequest hands executions back.
type ReleaseRequest struct {
	Executions []Held `json:"executions"`
}

// Session is the response to a worker's registration.
type Session struct {
	WorkerID     string `json:"worker_id"`
	Session      string `json:"session"`
	LeaseSeconds int    `json:"lease_seconds"`
	BeatSeconds  int    `json:"beat_seconds"`
}

// Orders is the response to a worker's heartbeat.
type Orders struct {
	Cancel []string `json:"cancel"`
	Lost   []string `json:"lost" doc:"Stop these: the leases that the heartbeat named are gone. An execution that you hold with a newer token is not listed."`
	Drain  bool     `json:"drain" doc:"Claim no more, finish what you hold and keep sending heartbeats."`
}

// Worker is a worker as returned by the API.
type Worker struct {
	WorkerID   string    `json:"worker_id"`
	Host       string    `json:"host"`
	Version    string    `json:"version"`
	Labels     []string  `json:"labels"`
	Queues     []string  `json:"queues"`
	Targets    []string  `json:"targets"`
	Kinds      []string  `json:"kinds"`
	Capacity   int       `json:"capacity"`
	Running    int       `json:"running" doc:"As of its last heartbeat."`
	Status     string    `json:"status" enum:"ACTIVE,IDLE,BUSY,DRAINING,CORDONED,DEAD"`
	Completed  int64     `json:"completed"`
	Failed     int64     `json:"failed"`
	StartedAt  time.Time `json:"started_at"`
	LastBeatAt time.Time `json:"last_beat_at"`
	Memory               // as of its last heartbeat; unknown values are left out
}

// Memory is the memory of a worker's process. Unknown values are left out.
type Memory struct {
	MemoryUsed  *int64 `json:"memory_used_bytes,omitempty" doc:"Resident memory of the worker's process. Omitted if unknown."`
	MemoryLimit *int64 `json:"memory_limit_bytes,omitempty" doc:"Memory it may use: its cgroup limit or, without one, all memory of the machine. Omitted if unknown."`
}

// Workers lists all workers, newest first.
type Workers struct {
	Workers    []Worker   `json:"workers"`
	Pagination Pagination `json:"pagination"`
}

// Draining is the response to draining a worker.
type Draining struct {
	WorkerID string `json:"worker_id"`
	Status   string `json:"status" enum:"DRAINING"`
}
