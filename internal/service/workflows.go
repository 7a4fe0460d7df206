package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Workflow is all that a user says of a workflow.
type Workflow struct {
	job.Definition                     // its payload is the input of runs that are given none
	Graph          workflow.Definition // as it is stored
	Inline         []*Inline           // by node: what it runs; nil: it is not inline
}

// Inline is what an inline node runs, as it is written.
type Inline struct {
	Target  job.Target
	Payload []byte
	Retry   job.RetryPolicy
	Sample  job.Target // the target with a value in place of each expression, to be checked
	Guessed bool       // where its URL leads is known only when the node starts
}

// Flow is a workflow as it is stored, with one of its versions.
type Flow struct {
	Report
	Version  engine.WorkflowVersion
	Graph    workflow.Definition
	Warnings []workflow.Warning // what is likely not meant, of a definition that was just checked
}

// CreateWorkflow stores a workflow. replay is the answer given to the same request before.
func (s *Workflows) CreateWorkflow(ctx context.Context, p tenant.Principal, w Workflow, once Once[Flow]) (out Flow, replay []byte, err error) {
	if err := allow(p, tenant.Write); err != nil {
		return out, nil, err
	}
	q, err := s.Quota(ctx, p)
	if err == nil {
		err = inputFits(q, &w.Definition)
	}
	if err != nil {
		return out, nil, err
	}
	ps := s.jobs.plans(p.Tenant)
	ps.id = newID()
	w.Target = job.Target{Kind: job.Workflow, Version: 1}
	made, err := s.make(ctx, p, ps, q, &w, nil, job.Job{ID: ps.id, Definition: w.Definition})
	if err != nil {
		return out, nil, err
	}
	if err := s.jobs.metered(ctx, q, ps, &w.Definition, nil); err != nil {
		return out, nil, err
	}
	if err := made.draw(&w); err != nil {
		return out, nil, err
	}
	ps.flow = &made
	flow := func(j job.Job) Flow {
		return Flow{Report: Report{Job: j}, Version: made.version, Graph: w.Graph, Warnings: made.warnings}
	}
	all, replay, err := s.jobs.create(ctx, p, ps, q, []job.Definition{w.Definition}, Once[[]NewJob]{
		Key: once.Key, Hash: once.Hash, Encode: func(n []NewJob) []byte { return once.Encode(flow(*n[0].Job)) },
	})
	if err != nil || replay != nil {
		return out, replay, err
	}
	return flow(*all[0].Job), nil, nil
}

// UpdateWorkflow changes a workflow. change is given the workflow as it is, and answers with what it is to be; it is asked again
// where another request came in between, unless a revision (not 0) was asked for: then it is *Revised. A definition that really
// differs becomes a new version.
func (s *Workflows) UpdateWorkflow(ctx context.Context, p tenant.Principal, ref engine.Ref, revision int, change func(Flow) (Workflow, error)) (out Flow, err error) {
	q, err := s.Quota(ctx, p)
	if err != nil {
		return out, err
	}
	out.Report, err = s.jobs.change(ctx, p, ref, "workflow.update", revision, func(ps *plans, j job.Job) (u engine.Update, err error) {
		was, err := s.flow(ctx, Report{Job: j}, 0)
		if err != nil {
			return u, err
		}
		w, err := change(was)
		if err != nil {
			return u, err
		}
		if string(w.Payload) != string(j.Payload) {
			if err := inputFits(q, &w.Definition); err != nil {
				return u, err
			}
		}
		w.Target, w.Retry = j.Target, j.Retry
		w.Target.Version++
		made, err := s.make(ctx, p, ps, q, &w, &was, j)
		if err != nil {
			return u, err
		}
		if made.same {
			w.Target, made.version = j.Target, was.Version
		} else if err := made.draw(&w); err != nil {
			return u, err
		}
		out.Version, out.Graph, out.Warnings = made.version, w.Graph, made.warnings
		if u, err = s.jobs.revise(ctx, ps, j, w.Definition); err != nil {
			return u, err
		}
		if err := s.jobs.metered(ctx, q, ps, &u.Job.Definition, &j.Definition); err != nil {
			return u, err
		}
		if made.same {
			return u, nil
		}
		u.Workflow, u.Nodes, u.Secrets = &made.version, made.jobs, append(u.Secrets, made.secrets...)
		return u, nil
	})
	return out, err
}

// Workflow finds a workflow and one of its versions; 0 is the current one.
func (s *Workflows) Workflow(ctx context.Context, p tenant.Principal, ref engine.Ref, version int) (Flow, error) {
	r, err := s.jobs.Job(ctx, p, ref)
	if err != nil {
		return Flow{}, err
	}
	return s.flow(ctx, r, version)
}

// flow adds its definition to a job that must be a workflow.
func (s *Workflows) flow(ctx context.Context, r Report, version int) (f Flow, err error) {
	if r.Target.Kind != job.Workflow {
		return f, engine.ErrNotFound
	}
	if version == 0 {
		version = r.Target.Version
	}
	f.Report = r
	if f.Version, err = s.store.WorkflowVersion(ctx, r.Tenant, r.ID, version); err != nil {
		return f, err
	}
	return f, json.Unmarshal(f.Version.Definition, &f.Graph)
}

// FindWorkflows lists workflows, newest first, with their statistics and without their definitions.
func (s *Workflows) FindWorkflows(ctx context.Context, p tenant.Principal, f engine.JobFilter, page engine.Page) (Reports, error) {
	f.Workflows = true
	return s.jobs.FindJobs(ctx, p, f, page)
}

// WorkflowVersions lists the versions of a workflow that come before one (0: all), newest first, and says whether there are more. It lists
// fewer than limit if they are long.
func (s *Workflows) WorkflowVersions(ctx context.Context, p tenant.Principal, ref engine.Ref, before, limit int) (of []engine.WorkflowVersion, more bool, err error) {
	f, err := s.Workflow(ctx, p, ref, 0)
	if err != nil {
		return nil, false, err
	}
	of, err = s.store.WorkflowVersions(ctx, p.Tenant, f.ID, before, limit)
	return of, len(of) > 0 && of[len(of)-1].Version > 1, err
}

// DeleteWorkflow deletes a workflow: no new run begins. With stop it ends those that are in flight.
func (s *Workflows) DeleteWorkflow(ctx context.Context, p tenant.Principal, ref engine.Ref, stop bool) (Report, error) {
	if _, err := s.Workflow(ctx, p, ref, 0); err != nil {
		return Report{}, err
	}
	return s.jobs.deleteJob(ctx, p, ref, stop)
}

// LintWorkflow says what is wrong with a workflow, as an error, or what is likely not meant. It stores nothing.
func (s *Workflows) LintWorkflow(ctx context.Context, p tenant.Principal, w Workflow) ([]workflow.Warning, error) {
	if err := allow(p, tenant.Read); err != nil {
		return nil, err
	}
	q, err := s.Quota(ctx, p)
	if err != nil {
		return nil, err
	}
	ps := s.jobs.plans(p.Tenant)
	w.Target = job.Target{Kind: job.Workflow, Version: 1}
	of := job.Job{ID: newID(), Definition: w.Definition}
	var was *Flow
	if w.Key != "" { // it would replace the workflow of its key
		j, err := s.store.Job(ctx, p.Tenant, engine.Ref{Key: w.Key})
		if err == nil && j.Target.Kind == job.Workflow {
			f, err := s.flow(ctx, Report{Job: j}, 0)
			if err != nil {
				return nil, err
			}
			was, of = &f, j
		}
	}
	made, err := s.make(ctx, p, ps, q, &w, was, of)
	return made.warnings, err
}

// TriggerWorkflow begins a run. input, if not nil, replaces the workflow's own. unique, if not empty, is the run's unique key.
func (s *Workflows) TriggerWorkflow(ctx context.Context, p tenant.Principal, ref engine.Ref, input []byte, unique string, once Once[job.Execution]) (t Triggered, replay []byte, err error) {
	if err := allow(p, tenant.Write); err != nil {
		return t, nil, err
	}
	if _, err := s.Workflow(ctx, p, ref, 0); err != nil {
		return t, nil, err
	}
	var v job.Invalids
	if job.CheckUnique(unique, &v); len(v) > 0 {
		return t, nil, v
	}
	q, err := s.Quota(ctx, p)
	if err == nil {
		err = inputFits(q, &job.Definition{Payload: input})
	}
	if err != nil {
		return t, nil, err
	}
	t, replay, err = s.jobs.trigger(ctx, p, ref, firing{id: job.ExecutionID(newID()), payload: input, unique: unique}, once, s.jobs.beginOne)
	return t, replay, renamed(err, "payload_override", "input")
}

// checkInput says what is wrong with the input that a run of a workflow would have; other jobs take any payload.
func (s *Jobs) checkInput(ctx context.Context, j *job.Job, override []byte) error {
	if j.Target.Kind != job.Workflow || j.State == job.Deleted {
		return nil
	}
	v, err := s.store.WorkflowVersion(ctx, j.Tenant, j.ID, j.Target.Version)
	if err != nil {
		return err
	}
	var d workflow.Definition
	if err := json.Unmarshal(v.Definition, &d); err != nil {
		return fmt.Errorf("read a stored workflow: %w", err)
	}
	input := override
	if input == nil {
		input = j.Payload
	}
	if input == nil {
		input = []byte("null")
	}
	return renamed(d.CheckInput(input), "input", "payload_override")
}

// inputFits says with *OverQuota that the input of runs is longer than a payload may be.
func inputFits(q tenant.Quota, d *job.Definition) error {
	err := fits(q, d, nil)
	var over *OverQuota
	if errors.As(err, &over) {
		over.Field = "input"
	}
	return err
}

// renamed gives the fields of an error another first name.
func renamed(err error, from, to string) error {
	var v job.Invalids
	if !errors.As(err, &v) {
		return err
	}
	out := make(job.Invalids, len(v))
	for i, x := range v {
		if rest, ok := strings.CutPrefix(x.Field, from); ok {
			x.Field = to + rest
		}
		out[i] = x
	}
	return out
}
