package client

import (
	"context"
	"encoding/json"
	"time"
)

// DeclaredJob is a job as written in a file; fields that are left out have their defaults.
type DeclaredJob struct {
	Job    JobRequest `json:"job" doc:"The job, with its key."`
	Paused *bool      `json:"paused,omitempty" doc:"Whether the job is paused; unchanged when omitted."`
}

// PlanRequest asks what declared jobs would change.
type PlanRequest struct {
	Jobs []DeclaredJob `json:"jobs" doc:"Up to 1000."`
}

// The actions that a plan can have for a declared job.
const (
	ActionCreate    = "create"
	ActionChange    = "change"
	ActionUnchanged = "unchanged"
	ActionInvalid   = "invalid"
)

// JobPlan describes what applying a declared job would change.
type JobPlan struct {
	Key      string        `json:"key"`
	Name     string        `json:"name"`
	Action   string        `json:"action" enum:"create,change,unchanged,invalid"`
	JobID    *string       `json:"job_id" doc:"null if no job has the key."`
	Revision int           `json:"revision" doc:"The current revision, for If-Match; 0 if there is no job."`
	Status   *string       `json:"status" doc:"The current status."`
	Timezone string        `json:"timezone" doc:"The time zone of its schedule."`
	Changes  []FieldChange `json:"changes"`
	Appear   FireTimes     `json:"appear" doc:"Instants in the next 24 hours at which it would newly fire."`
	Vanish   FireTimes     `json:"vanish" doc:"Instants in the next 24 hours at which it would no longer fire."`

	Condition *string         `json:"condition" enum:"success,failure,always" doc:"How the jobs that it depends on must end; null if it depends on nothing."`
	DependsOn []JobDependency `json:"depends_on" doc:"The jobs that it depends on now. Dependencies are no part of a declared job: set them with PUT /jobs/{id}/dependencies."`

	DroppedCredentials []string `json:"dropped_credentials,omitempty" doc:"Hidden headers and variables that the change would remove, because the job would call another origin or run another program. Declare their values, or use secrets, to keep them."`

	Problems []FieldProblem `json:"problems,omitempty" doc:"If it is invalid: what is wrong with it."`
}

// FieldChange is a field that would change. An unset field, or an implicit default, is null.
type FieldChange struct {
	Field string          `json:"field"`
	From  json.RawMessage `json:"from"`
	To    json.RawMessage `json:"to"`
}

// FireTimes lists instants at which a job fires.
type FireTimes struct {
	Count     int         `json:"count"`
	Truncated bool        `json:"truncated,omitempty" doc:"There were too many; only the first were compared."`
	First     []time.Time `json:"first" doc:"Up to ten of them."`
}

// JobPlans lists the plans of declared jobs, in their order.
type JobPlans struct {
	Jobs []JobPlan `json:"jobs"`
}

// PlanJobs asks what declared jobs would change. It changes nothing.
func (c *Client) PlanJobs(ctx context.Context, r PlanRequest) (JobPlans, error) {
	return post[JobPlans](ctx, c, "/jobs:plan", r)
}
