package client

import "time"

// NotificationRuleRequest describes the events to be notified of, and where notifications go.
type NotificationRuleRequest struct {
	Events           []string   `json:"events" enum:"failed,dead_lettered,late,missing,approval_waiting,recovered" doc:"What to notify about. failed: an execution ended as FAILED or TIMED_OUT. dead_lettered: it became a dead letter. late: an execution is due and has not started for late_after_seconds. missing: an instant passed and nothing ran. approval_waiting: a run of a workflow waits for an approval. recovered: a job with an earlier notification works again."`
	Jobs             []string   `json:"jobs,omitempty" doc:"Only these jobs, by id or as key:…; all jobs when omitted."`
	Tags             []string   `json:"tags,omitempty" doc:"Only jobs that have one of these tags."`
	CallbackURL      string     `json:"callback_url" doc:"The URL that gets the Notification, signed like every callback."`
	LateAfterSeconds *int64     `json:"late_after_seconds,omitempty" doc:"60 when omitted."`
	SilenceUntil     *time.Time `json:"silence_until,omitempty" doc:"No notifications are sent before this time."`
}

// NotificationRule is a rule as returned by the API.
type NotificationRule struct {
	Name             string     `json:"name"`
	Events           []string   `json:"events"`
	Jobs             []string   `json:"jobs"`
	Tags             []string   `json:"tags"`
	CallbackURL      string     `json:"callback_url"`
	LateAfterSeconds int64      `json:"late_after_seconds"`
	SilenceUntil     *time.Time `json:"silence_until"`
	Blocked          *string    `json:"blocked" doc:"Why callback_url may no longer be called: the rules for callbacks changed after the rule was stored, and its notifications end as BLOCKED_ADDRESS. null if it may be called."`
	CreatedAt        time.Time  `json:"created_at"`
	UpdatedAt        time.Time  `json:"updated_at"`
}

// NotificationRules is all rules of the tenant.
type NotificationRules struct {
	NotificationRules []NotificationRule `json:"notification_rules"`
	Pagination        Pagination         `json:"pagination"`
}

// Notification is the body of a request to a rule's callback_url.
type Notification struct {
	Event      string                 `json:"event"`
	Rule       string                 `json:"rule"`
	Summary    string                 `json:"summary"`
	OccurredAt time.Time              `json:"occurred_at"`
	Job        NotificationJob        `json:"job"`
	Execution  *NotificationExecution `json:"execution,omitempty"`
	Approval   *NotificationApproval  `json:"approval,omitempty" doc:"With approval_waiting."`
}

// NotificationApproval is the approval that a run of a workflow waits for.
type NotificationApproval struct {
	WorkflowRunID string     `json:"workflow_run_id"`
	Node          string     `json:"node"`
	Roles         []string   `json:"roles,omitempty" doc:"Who may decide; none: operators and admins."`
	Since         time.Time  `json:"since"`
	Until         *time.Time `json:"until,omitempty" doc:"When the wait times out."`
}

// NotificationTag is carried by the jobs that send notifications.
const NotificationTag = "carillon-notification"

// NotificationJob is the job that a notification is about.
type NotificationJob struct {
	JobID   string   `json:"job_id"`
	Key     *string  `json:"key,omitempty"`
	Name    string   `json:"name"`
	Tags    []string `json:"tags"`
	Owner   *string  `json:"owner,omitempty"`
	Runbook *string  `json:"runbook,omitempty"`
}

// NotificationExecution is the execution that a notification is about.
type NotificationExecution struct {
	ExecutionID   string     `json:"execution_id"`
	Status        string     `json:"status,omitempty"`
	ScheduledTime time.Time  `json:"scheduled_time"`
	FinishedAt    *time.Time `json:"finished_at,omitempty"`
	AttemptNumber int        `json:"attempt_number,omitempty"`
	Error         *Error     `json:"error,omitempty"`
}
