package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Dependencies are the jobs that one depends on, in the order in which they were given.
type Dependencies struct {
	Job       job.Job
	Condition workflow.Condition // empty: it depends on nothing
	Parents   []Parent
	Children  []Child
}

// Child is a job that depends on another.
type Child struct {
	ID   job.ID
	Name string
}

// Parent is a job that another depends on.
type Parent struct {
	ID        job.ID
	Key, Name string
	Token     job.ExecutionID // the newest execution that counts and that the other job has not fired by; zero: none
	At        time.Time       // when that ended
}

// Dependencies says on what a job depends and which tokens are there, and which jobs depend on it.
func (s *Jobs) Dependencies(ctx context.Context, p tenant.Principal, ref engine.Ref) (Dependencies, error) {
	if err := allow(p, tenant.Read); err != nil {
		return Dependencies{}, err
	}
	j, err := s.find(ctx, p.Tenant, ref)
	if err != nil {
		return Dependencies{}, err
	}
	return s.dependencies(ctx, j)
}

// dependencies reads on what a job depends, and what depends on it. A deleted one depends on nothing.
func (s *shared) dependencies(ctx context.Context, j job.Job) (Dependencies, error) {
	out, err := s.parents(ctx, j)
	if err != nil {
		return out, err
	}
	ids, err := s.store.Dependants(ctx, j.Tenant, j.ID, workflow.MaxDependants)
	if err != nil || len(ids) == 0 {
		return out, err
	}
	names, err := s.store.Names(ctx, j.Tenant, ids)
	for _, id := range ids {
		out.Children = append(out.Children, Child{id, names[id]})
	}
	return out, err
}

// parents reads on what a job depends.
func (s *shared) parents(ctx context.Context, j job.Job) (Dependencies, error) {
	out := Dependencies{Job: j}
	if len(j.DependsOn) == 0 || j.State == job.Deleted {
		return out, nil
	}
	out.Condition = workflow.Condition(j.DependsIf)
	edges, err := s.store.Dependencies(ctx, j.Tenant, []job.ID{j.ID})
	if err != nil {
		return out, err
	}
	for _, id := range j.DependsOn {
		of, err := s.store.Job(ctx, j.Tenant, engine.Ref{ID: id})
		if err != nil && !errors.Is(err, engine.ErrNotFound) {
			return out, err
		}
		x := Parent{ID: id, Key: of.Key, Name: of.Name}
		for _, e := range edges {
			if e.Parent == id {
				x.Token, x.At = e.Token, e.At
			}
		}
		out.Parents = append(out.Parents, x)
	}
	return out, nil
}

// SetDependencies has a job depend on others: it fires each time that each of them has ended as the condition asks. References that are
// the same as before keep their tokens, unless the condition is another. *Revised if the job has another revision than the one given; 0 stands for any.
func (s *Jobs) SetDependencies(ctx context.Context, p tenant.Principal, ref engine.Ref, revision int, on []string, c workflow.Condition) (Dependencies, error) {
	if c == "" {
		c = workflow.OnSuccess
	}
	r, err := s.change(ctx, p, ref, "job.dependencies.set", revision, func(_ *plans, j job.Job) (u engine.Update, err error) {
		d := workflow.Dependencies{Condition: c}
		if d.Parents, err = s.checked(ctx, j, on, d); err != nil {
			return u, err
		}
		if slices.Equal(d.Parents, j.DependsOn) && j.DependsIf == string(c) {
			return u, errUnchanged
		}
		u.Job = j
		u.Job.DependsOn, u.Job.DependsIf = d.Parents, string(c)
		u.Parents = &engine.ParentsChange{Reset: j.DependsIf != string(c)}
		return u, nil
	})
	if err != nil {
		return Dependencies{}, err
	}
	s.runner.Tokens()
	return s.dependencies(ctx, r.Job)
}

// RemoveDependencies has a job depend on nothing. What its schedule fired and waits for them starts.
func (s *Jobs) RemoveDependencies(ctx context.Context, p tenant.Principal, ref engine.Ref, revision int) (Dependencies, error) {
	r, err := s.change(ctx, p, ref, "job.dependencies.remove", revision, func(_ *plans, j job.Job) (u engine.Update, err error) {
		if len(j.DependsOn) == 0 {
			return u, errUnchanged
		}
		u.Job = j
		u.Job.DependsOn, u.Job.DependsIf = nil, ""
		u.Parents = &engine.ParentsChange{}
		return u, nil
	})
	if err != nil {
		return Dependencies{}, err
	}
	return s.dependencies(ctx, r.Job)
}

// checked finds the jobs that one is to depend on, and says what is wrong with them.
func (s *Jobs) checked(ctx context.Context, j job.Job, on []string, d workflow.Dependencies) ([]job.ID, error) {
	if n := len(on); n > workflow.MaxParents {
		return nil, job.Invalids{{Field: "depends_on", Value: fmt.Sprintf("%d jobs", n), Want: fmt.Sprintf("at most %d", workflow.MaxParents)}}
	}
	var v job.Invalids
	known := map[job.ID]job.Job{j.ID: j}
	for i, text := range on {
		field := fmt.Sprintf("depends_on[%d]", i)
		of, err := s.jobNamed(ctx, j.Tenant, text)
		if errors.Is(err, engine.ErrNotFound) {
			v.Add(field, text, "the id of a job or workflow that exists, or key:… with its key")
			continue
		}
		if err != nil {
			return nil, err
		}
		known[of.ID] = of
		d.Parents = append(d.Parents, of.ID)
		children, err := s.store.Dependants(ctx, j.Tenant, of.ID, workflow.MaxDependants)
		if err != nil {
			return nil, err
		}
		if len(children) >= workflow.MaxDependants && !slices.Contains(children, j.ID) {
			v.Add(field, text, fmt.Sprintf("a job on which fewer than %d others depend", workflow.MaxDependants))
		}
	}
	if len(v) > 0 {
		return nil, v
	}
	edges, err := s.store.Above(ctx, j.Tenant, d.Parents, engine.MaxAbove+1)
	if err != nil {
		return nil, err
	}
	if len(edges) > engine.MaxAbove {
		return nil, job.Invalids{{Field: "depends_on", Value: fmt.Sprintf("%d jobs", len(on)), Want: fmt.Sprintf("jobs to which fewer edges lead, directly or not: together at most %d", engine.MaxAbove)}}
	}
	above := map[job.ID][]job.ID{}
	for _, e := range edges {
		above[e.Child] = append(above[e.Child], e.Parent)
	}
	v = d.Check(j.ID, func(id job.ID) []job.ID { return above[id] }, s.labels(ctx, j.Tenant, known))
	if len(v) > 0 {
		return nil, v
	}
	return d.Parents, nil
}

// labels returns what people know jobs by, of which some are known.
func (s *shared) labels(ctx context.Context, t tenant.ID, known map[job.ID]job.Job) func(job.ID) string {
	return func(id job.ID) string {
		of, ok := known[id]
		if !ok {
			var err error
			if of, err = s.store.Job(ctx, t, engine.Ref{ID: id}); err != nil {
				return id.String()
			}
		}
		return cmp.Or(of.Key, of.Name)
	}
}
