package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Workflows are the versions of the definitions of workflows. The workflow itself is a job, whose target names the
// version for new runs. A version never changes.
type Workflows interface {
	// AddWorkflow stores the first version of a workflow by itself. ErrConflict if the workflow has that version
	// already, ErrNotFound if one of the jobs that it uses is unknown or deleted. CreateJobs stores it together with
	// the job, and UpdateJob all later ones.
	AddWorkflow(ctx context.Context, v WorkflowVersion) error
	// WorkflowVersion finds one version; ErrNotFound if there is none.
	WorkflowVersion(ctx context.Context, t tenant.ID, workflow job.ID, version int) (WorkflowVersion, error)
	// WorkflowVersions lists up to limit versions of a workflow that come before one (0: all), newest first and without their layouts: fewer
	// if they have PageBytes. Versions are numbered from 1 without gaps, so that the last one tells whether there are more.
	WorkflowVersions(ctx context.Context, t tenant.ID, workflow job.ID, before, limit int) ([]WorkflowVersion, error)
	// WorkflowUsers lists the workflows that use a job, or another workflow, in their current version, in the order
	// of their names, except deleted ones.
	WorkflowUsers(ctx context.Context, t tenant.ID, of job.ID) ([]WorkflowUser, error)
}

// WorkflowVersion is one version of a workflow's definition.
type WorkflowVersion struct {
	Tenant     tenant.ID
	Workflow   job.ID
	Version    int
	CreatedAt  time.Time
	By         string   // who stored it
	Definition []byte   // its JSON, see workflow.Definition
	Jobs       []job.ID // by node: the job that it runs, which is a hidden one for an inline node; zero for a wait
	Layout     []byte   // the layout of its graph; nil: unknown
}

// Uses lists the existing jobs that nodes of the version run, each once, in order.
func (v *WorkflowVersion) Uses() (out []job.ID) {
	for _, id := range v.Jobs {
		if !id.IsZero() && !id.OfNode() {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b job.ID) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(out)
}

// WorkflowUser is a workflow that uses a job, or a job that depends on it.
type WorkflowUser struct {
	ID   job.ID
	Key  string
	Name string
}

// Used says that a job cannot be deleted, because workflows use it, or jobs depend on it.
type Used struct {
	By         []WorkflowUser
	Dependants []WorkflowUser
}

func (u *Used) Error() string {
	var why []string
	if len(u.By) > 0 {
		why = append(why, "workflows use the job: "+listUsers(u.By))
	}
	if len(u.Dependants) > 0 {
		why = append(why, "jobs depend on the job: "+listUsers(u.Dependants))
	}
	return strings.Join(why, "; ")
}

func listUsers(by []WorkflowUser) string {
	names := make([]string, 0, len(by))
	for _, w := range by[:min(len(by), 5)] {
		name := fmt.Sprintf("%q", w.Name)
		if w.Key != "" {
			name = "key:" + w.Key
		}
		names = append(names, name)
	}
	if n := len(by) - len(names); n > 0 {
		names = append(names, fmt.Sprintf("%d more", n))
	}
	return strings.Join(names, ", ")
}
