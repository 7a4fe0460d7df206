package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/layout"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// madeFlow is a workflow that was checked, on its way into the store.
type madeFlow struct {
	version  engine.WorkflowVersion
	jobs     []job.Job       // of inline nodes that no earlier version has
	secrets  []engine.Secret // the credentials of these
	warnings []workflow.Warning
	same     bool // the definition is that of the version before
}

// make checks a workflow and makes its version, which its target names. was is the workflow as it is, if it exists, and of its job.
func (s *Workflows) make(ctx context.Context, p tenant.Principal, ps *plans, q tenant.Quota, w *Workflow, was *Flow, of job.Job) (m madeFlow, err error) {
	v, err := s.jobs.check(ctx, ps, &w.Definition)
	if err != nil {
		return m, err
	}
	errors.As(renamed(v.Err(), "execution.payload", "input"), &v)
	limits := workflow.DefaultLimits()
	if !s.cfg.Unmetered {
		t, err := s.settings(ctx, p.Tenant)
		if err != nil {
			return m, err
		}
		limits.MapWidth = t.Tier.MapWidth()
	}
	g, err := workflow.Compile(w.Graph, limits)
	var bad job.Invalids
	if errors.As(err, &bad) {
		v = append(v, bad...)
	} else if err != nil {
		return m, err
	}
	for i := range w.Inline { // also where the graph is wrong: all mistakes are told at once
		wrong, err := s.checkNode(ctx, ps, q, w, i)
		if err != nil {
			return m, err
		}
		v = append(v, wrong...)
	}
	wrong, err := s.handedOn(ctx, ps, w)
	if err != nil {
		return m, err
	}
	v = append(v, wrong...)
	if len(v) == 0 && w.Payload != nil {
		errors.As(g.CheckInput(w.Payload), &v)
	}
	if len(v) > 0 {
		return m, v[:min(len(v), maxProblems)]
	}
	m.version = engine.WorkflowVersion{Tenant: p.Tenant, Workflow: of.ID, Version: w.Target.Version, CreatedAt: ps.at, By: p.Name, Jobs: make([]job.ID, len(w.Graph.Nodes))}
	if err := s.resolve(ctx, p.Tenant, w, &m, of); err != nil {
		return m, err
	}
	if err := s.inline(ctx, ps, w, was, of, &m); err != nil {
		return m, err
	}
	if m.version.Definition, err = json.Marshal(w.Graph); err != nil {
		return m, err
	}
	m.warnings = lint(g, w)
	m.same = was != nil && bytes.Equal(m.version.Definition, was.Version.Definition) && slices.Equal(m.version.Jobs, was.Version.Jobs)
	return m, nil
}

// draw lays a workflow out. That is most of the work on a large one, and only for what is stored.
func (m *madeFlow) draw(w *Workflow) error {
	drawn, err := layout.Compute(layout.Of(w.Graph), layout.Pixels(layout.Right))
	if err != nil {
		return err
	}
	m.version.Layout, err = json.Marshal(drawn)
	return err
}

// maxProblems bounds how many mistakes of a workflow are listed.
const maxProblems = 20

// lint lists what is likely not meant.
func lint(g *workflow.Graph, w *Workflow) []workflow.Warning {
	out := workflow.Lint(g)
	if w.Schedule.Type != job.Manual && w.Payload == nil && g.CheckInput([]byte("null")) != nil {
		out = append(out, workflow.Warning{Text: "the schedule begins runs without input, which input_schema refuses; give the workflow an input"})
	}
	return out
}

// of is the definition of the job that an inline node runs.
func (w *Workflow) of(i int) job.Definition {
	name := []rune(w.Name)
	in := w.Inline[i]
	return job.Definition{
		Name: string(name[:min(len(name), 190)]) + "/" + w.Graph.Nodes[i].Key, Schedule: job.Schedule{Type: job.Manual}, Target: in.Target, Payload: in.Payload, Retry: in.Retry,
		Priority: w.Priority, Queue: w.Queue, Labels: w.Labels, Tags: w.Tags, Owner: w.Owner, Runbook: w.Runbook,
	}
}

// checkNode says what is wrong with what an inline node runs, by the rules for jobs.
func (s *Workflows) checkNode(ctx context.Context, ps *plans, q tenant.Quota, w *Workflow, i int) (v job.Invalids, err error) {
	in := w.Inline[i]
	if in == nil {
		return nil, nil
	}
	under := fmt.Sprintf("nodes[%d].", i)
	d := w.of(i)
	if err := fits(q, &d, nil); err != nil {
		return nil, nestedQuota(err, under)
	}
	sample := d
	sample.Target = in.Sample
	if in.Target.Kind == job.Workflow {
		return job.Invalids{{Field: under + "execution.target", Value: string(job.Workflow), Want: "one of http, command, worker, simulate; a sub-workflow is a node with job_id"}}, nil
	}
	for _, x := range sample.Check() {
		if strings.HasPrefix(x.Field, "execution.") || strings.HasPrefix(x.Field, "retry_policy.") { // the rest is the workflow's own
			v = append(v, x)
		}
	}
	v = append(v, s.off(&sample.Target)...)
	if len(v) == 0 && !in.Guessed {
		if v, err = s.barred(ctx, ps.tenant, &sample.Target); err != nil {
			return nil, err
		}
	}
	if len(v) == 0 {
		if v, err = s.runnable(ctx, ps.tenant, &sample.Target); err != nil {
			return nil, err
		}
	}
	if len(v) == 0 {
		if err := s.jobs.metered(ctx, q, ps, &d, nil); err != nil {
			return nil, nestedQuota(err, under)
		}
	}
	return v.Under(under), nil
}

// nestedQuota says of an error over a node which node it is about.
func nestedQuota(err error, under string) error {
	var over *OverQuota
	if errors.As(err, &over) && over.Field != "" {
		over.Field = under + over.Field
	}
	return err
}
