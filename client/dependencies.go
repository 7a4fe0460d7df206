package client

import (
	"context"
	"time"
)

// DependenciesRequest says on which jobs one depends.
type DependenciesRequest struct {
	DependsOn []string `json:"depends_on" doc:"The jobs, each by its id or as key:… by its key; at most 100."`
	Condition string   `json:"condition,omitempty" enum:"success,failure,always" doc:"How an execution of each must end. Default success."`
}

// JobDependencies are the jobs that one depends on.
type JobDependencies struct {
	JobID     string          `json:"job_id"`
	Key       *string         `json:"key"`
	Name      string          `json:"name"`
	Condition *string         `json:"condition" enum:"success,failure,always" doc:"null if the job depends on nothing."`
	DependsOn []JobDependency `json:"depends_on" doc:"In the order in which they were given."`
}

// JobDependency is a job that another depends on.
type JobDependency struct {
	JobID       string     `json:"job_id"`
	Key         *string    `json:"key"`
	Name        string     `json:"name"`
	ExecutionID *string    `json:"execution_id" doc:"The latest execution that met the condition since the other job last ran for it; null: none has."`
	EndedAt     *time.Time `json:"ended_at" doc:"When that execution ended."`
}

// JobDependencies reads on which jobs one depends.
func (c *Client) JobDependencies(ctx context.Context, id string) (JobDependencies, error) {
	return get[JobDependencies](ctx, c, "/jobs/"+seg(id)+"/dependencies")
}

// SetJobDependencies has a job run each time that all the others have ended as the condition asks.
func (c *Client) SetJobDependencies(ctx context.Context, id string, r DependenciesRequest) (JobDependencies, error) {
	return put[JobDependencies](ctx, c, "/jobs/"+seg(id)+"/dependencies", r)
}

// RemoveJobDependencies has a job depend on nothing.
func (c *Client) RemoveJobDependencies(ctx context.Context, id string) (JobDependencies, error) {
	return drop[JobDependencies](ctx, c, "/jobs/"+seg(id)+"/dependencies")
}
