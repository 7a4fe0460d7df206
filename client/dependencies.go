package client

import (
	"context"
	"net/http"
	"time"
)

// DependenciesRequest says on which jobs one depends.
type DependenciesRequest struct {
	DependsOn []string `json:"depends_on" doc:"The jobs, each by its id or as key:… by its key; at most 100."`
	Condition string   `json:"condition,omitempty" enum:"success,failure,always" doc:"How an execution of each must end. Default success."`
}

// JobDependencies are the jobs that one depends on, and those that depend on it.
type JobDependencies struct {
	JobID      string          `json:"job_id"`
	Key        *string         `json:"key"`
	Name       string          `json:"name"`
	Revision   int             `json:"revision" doc:"The revision of the job; send it as If-Match."`
	Condition  *string         `json:"condition" enum:"success,failure,always" doc:"null if the job depends on nothing."`
	DependsOn  []JobDependency `json:"depends_on" doc:"In the order in which they were given."`
	Dependants []JobDependant  `json:"dependants" doc:"The jobs that depend on this one."`
}

// JobDependency is a job that another depends on.
type JobDependency struct {
	JobID       string     `json:"job_id"`
	Key         *string    `json:"key"`
	Name        string     `json:"name"`
	ExecutionID *string    `json:"execution_id" doc:"The latest execution that met the condition since the other job last ran for it; null: none has."`
	EndedAt     *time.Time `json:"ended_at" doc:"When that execution ended."`
}

// JobDependant is a job that depends on another.
type JobDependant struct {
	JobID string `json:"job_id"`
	Name  string `json:"name"`
}

// JobDependencies reads on which jobs one depends, and which depend on it.
func (c *Client) JobDependencies(ctx context.Context, id string) (JobDependencies, error) {
	return get[JobDependencies](ctx, c, "/jobs/"+seg(id)+"/dependencies")
}

// SetJobDependencies has a job run each time that all the others have ended as the condition asks. If the job has
// another revision by now than the one given, it fails with ErrConflict; 0 stands for any.
func (c *Client) SetJobDependencies(ctx context.Context, id string, r DependenciesRequest, revision int) (d JobDependencies, err error) {
	_, err = c.ask(ctx, request{method: http.MethodPut, path: prefix + "/jobs/" + seg(id) + "/dependencies", header: ifMatch(revision)}, r, &d)
	return d, err
}

// RemoveJobDependencies has a job depend on nothing. The revision is as in SetJobDependencies.
func (c *Client) RemoveJobDependencies(ctx context.Context, id string, revision int) (d JobDependencies, err error) {
	_, err = c.ask(ctx, request{method: http.MethodDelete, path: prefix + "/jobs/" + seg(id) + "/dependencies", header: ifMatch(revision)}, nil, &d)
	return d, err
}
