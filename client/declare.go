package client

import (
	"context"
	"encoding/json"
	"time"
)

// DeclaredJob is a job as a file has it: what it leaves out has its default.
type DeclaredJob struct {
	Job    JobRequest `json:"job" doc:"The job, with its key."`
	Paused *bool      `json:"paused,omitempty" doc:"Whether it is to be paused; as it is when omitted."`
}

// PlanRequest is the body of a request to say what declared jobs would change.
type PlanRequest struct {
	Jobs []DeclaredJob `json:"jobs" doc:"Up to 1000."`
}

// What would become of a declared job.
const (
	ActionCreate    = "create"
	ActionChange    = "change"
	ActionUnchanged = "unchanged"
	ActionInvalid   = "invalid"
)

// JobPlan is what would become of a declared job.
type JobPlan struct {
	Key      string        `json:"key"`
	Name     string        `json:"name"`
	Action   string        `json:"action" enum:"create,change,unchanged,invalid"`
	JobID    *string       `json:"job_id" doc:"null: there is none with the key."`
	Revision int           `json:"revision" doc:"As it is, for If-Match; 0: there is none."`
	Status   *string       `json:"status" doc:"As it is."`
	Timezone string        `json:"timezone" doc:"In which its schedule is read."`
	Changes  []FieldChange `json:"changes"`
	Appear   FireTimes     `json:"appear" doc:"Instants of the next 24 hours at which it does not fire now, and would."`
	Vanish   FireTimes     `json:"vanish" doc:"Instants of the next 24 hours at which it fires now, and would not."`

	DroppedCredentials []string `json:"dropped_credentials,omitempty" doc:"Hidden headers and variables that the change would remove, because the job would go to another origin, or run another program. Declare their values, or name secrets, to have them."`

	Problems []FieldProblem `json:"problems,omitempty" doc:"Of an invalid one: what is wrong with it."`
}

// FieldChange is a field that would change. What is not set, or a default that is not written out, is null.
type FieldChange struct {
	Field string          `json:"field"`
	From  json.RawMessage `json:"from"`
	To    json.RawMessage `json:"to"`
}

// FireTimes are instants at which a job fires.
type FireTimes struct {
	Count     int         `json:"count"`
	Truncated bool        `json:"truncated,omitempty" doc:"There are so many that only the first were compared."`
	First     []time.Time `json:"first" doc:"Up to ten of them."`
}

// JobPlans is what would become of declared jobs, in their order.
type JobPlans struct {
	Jobs []JobPlan `json:"jobs"`
}

// PlanJobs asks what declared jobs would change. Nothing is.
func (c *Client) PlanJobs(ctx context.Context, r PlanRequest) (JobPlans, error) {
	return post[JobPlans](ctx, c, "/jobs:plan", r)
}
