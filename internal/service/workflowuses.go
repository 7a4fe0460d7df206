package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// resolve finds the existing jobs that nodes name, and sees to it that workflows do not use themselves, nor each other too deep.
func (s *Workflows) resolve(ctx context.Context, t tenant.ID, w *Workflow, m *madeFlow, of job.Job) error {
	uses := &uses{s: s.shared, ctx: ctx, tenant: t, seen: map[job.ID]*used{}, of: map[string]*used{}}
	self := uses.keep(of, nil)
	var v job.Invalids
	found := map[string]job.ID{}
	for i := range w.Graph.Nodes {
		text := w.Graph.Nodes[i].JobID
		if text == "" {
			continue
		}
		id, ok := found[text]
		if !ok {
			j, err := s.jobNamed(ctx, t, text)
			if errors.Is(err, engine.ErrNotFound) {
				v.Add(fmt.Sprintf("nodes[%d].job_id", i), text, "the id of a job or workflow that exists, or key:… with its key")
				continue
			}
			if err != nil {
				return err
			}
			id = j.ID
			found[text] = id
			if j.Target.Kind == job.Workflow && id != of.ID {
				uses.keep(j, nil)
			}
			if j.Target.Kind == job.Workflow {
				self.uses = append(self.uses, id)
			}
		}
		m.version.Jobs[i] = id
	}
	if len(v) > 0 {
		return v
	}
	if len(self.uses) > 0 {
		self.known = true
		if err := uses.check(self); err != nil {
			return err
		}
	}
	return s.noCircle(ctx, of, w.Graph.Nodes, found)
}

// noCircle sees to it that a workflow does not depend on a job that it is about to use as a node, directly or not.
func (s *Workflows) noCircle(ctx context.Context, of job.Job, nodes []workflow.Node, found map[string]job.ID) error {
	if of.Revision == 0 || len(found) == 0 { // of a new one nothing is above
		return nil
	}
	edges, err := s.store.Above(ctx, of.Tenant, []job.ID{of.ID}, engine.MaxAbove+1)
	if err != nil {
		return err
	}
	if len(edges) > engine.MaxAbove {
		return job.Invalids{{Field: "nodes", Value: fmt.Sprintf("%d existing jobs", len(found)), Want: fmt.Sprintf("a workflow to which at most %d edges lead, directly or not", engine.MaxAbove)}}
	}
	above := map[job.ID][]job.ID{}
	for _, e := range edges {
		above[e.Child] = append(above[e.Child], e.Parent)
	}
	for i, n := range nodes {
		id, ok := found[n.JobID]
		if !ok || above[id] == nil && !slices.Contains(above[of.ID], id) {
			continue
		}
		circle := workflow.Circle(of.ID, func(x job.ID) []job.ID {
			if x == id {
				return []job.ID{of.ID}
			}
			return above[x]
		}, s.labels(ctx, of.Tenant, map[job.ID]job.Job{of.ID: of}))
		if circle != nil {
			return job.Invalids{{Field: fmt.Sprintf("nodes[%d].job_id", i), Value: strings.Join(circle, " → "), Want: workflow.WantNoCircle}}
		}
	}
	return nil
}

// jobNamed finds the job that a node, or a dependency, names; engine.ErrNotFound also for a deleted one.
func (s *shared) jobNamed(ctx context.Context, t tenant.ID, text string) (job.Job, error) {
	ref := engine.Ref{}
	if key, ok := strings.CutPrefix(text, "key:"); ok && job.ValidKey(key) {
		ref.Key = key
	} else if id, err := job.ParseID(text); err == nil {
		ref.ID = id
	} else {
		return job.Job{}, engine.ErrNotFound
	}
	j, err := s.find(ctx, t, ref)
	if err == nil && j.State == job.Deleted {
		err = engine.ErrNotFound
	}
	return j, err
}

// uses knows which workflows use each other, as far as it was asked.
type uses struct {
	s      *shared
	ctx    context.Context
	tenant tenant.ID
	seen   map[job.ID]*used
	of     map[string]*used // by label
	edges  int              // that were found
	err    error
}

// used is a workflow and the workflows that it uses.
type used struct {
	job   job.Job
	label string // what people know it by; no other has it
	uses  []job.ID
	known bool     // uses is
	below []string // labels
	lists bool     // below is known
}

func (u *uses) keep(j job.Job, uses []job.ID) *used {
	x := &used{job: j, label: "key:" + j.Key, uses: uses}
	if j.Key == "" {
		x.label = fmt.Sprintf("%s (%s)", j.Name, j.ID)
	}
	u.seen[j.ID], u.of[x.label] = x, x
	return x
}

// find returns a workflow; nil if the job is none, or if something failed.
func (u *uses) find(id job.ID) *used {
	if x, ok := u.seen[id]; ok || u.err != nil {
		return x
	}
	j, err := u.s.store.Job(u.ctx, u.tenant, engine.Ref{ID: id})
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		u.err = err
		return nil
	}
	if err != nil || j.Target.Kind != job.Workflow || j.State == job.Deleted {
		u.seen[id] = nil
		return nil
	}
	return u.keep(j, nil)
}

// below lists the labels of the workflows that one uses.
func (u *uses) below(label string) (out []string) {
	x := u.of[label]
	if x.lists {
		return x.below
	}
	if !u.goesOn(0) {
		return nil
	}
	if !x.known {
		x.known = true
		v, err := u.s.store.WorkflowVersion(u.ctx, u.tenant, x.job.ID, x.job.Target.Version)
		if err != nil {
			u.err = err
			return nil
		}
		x.uses = v.Uses()
	}
	if !u.goesOn(len(x.uses)) {
		return nil
	}
	for _, id := range x.uses {
		if !u.goesOn(0) {
			return nil
		}
		if y := u.find(id); y != nil {
			out = append(out, y.label)
		}
	}
	x.below, x.lists = out, true
	return out
}

// check sees to it that a workflow does not use itself, and that neither it nor one that uses it is nested too deep. Only what leads through
// the workflow has changed, so the depth above it and the depth below it are enough.
func (u *uses) check(self *used) error {
	below, err := workflow.Nesting(self.label, u.below)
	if err == nil && u.err == nil {
		err = u.climb(self.job.ID, below)
	}
	if u.err != nil {
		return u.err
	}
	var bad job.Invalid
	if errors.As(err, &bad) {
		return job.Invalids{bad}
	}
	return err
}

// climb goes up from a workflow, one level after the other, as far as workflows may be nested.
func (u *uses) climb(from job.ID, deep int) error {
	above := map[job.ID][]job.ID{}
	for level := []job.ID{from}; len(level) > 0 && u.err == nil; deep++ {
		if err := workflow.CheckNesting(deep); err != nil {
			return err
		}
		var next []job.ID
		in := map[job.ID]bool{}
		for _, id := range level {
			if _, ok := above[id]; !ok {
				above[id] = u.users(id)
			}
			for _, by := range above[id] {
				if !in[by] {
					in[by], next = true, append(next, by)
				}
			}
		}
		level = next
	}
	return nil
}

// users lists the workflows that use one.
func (u *uses) users(of job.ID) []job.ID {
	if u.err != nil {
		return nil
	}
	by, err := u.s.store.WorkflowUsers(u.ctx, u.tenant, of)
	if u.err = err; err != nil || !u.goesOn(len(by)) {
		return nil
	}
	out := make([]job.ID, len(by))
	for i := range by {
		out[i] = by[i].ID
	}
	return out
}

// goesOn counts edges that were found, and reports whether to look for more.
func (u *uses) goesOn(edges int) bool {
	if u.err == nil {
		u.err = u.ctx.Err()
	}
	if u.edges += edges; u.err == nil && u.edges > engine.MaxAbove {
		u.err = job.Invalids{{
			Field: "nodes", Value: fmt.Sprintf("more than %d uses of jobs and workflows", engine.MaxAbove),
			Want: fmt.Sprintf("at most %d in the workflows that this one uses, directly or not, and of those that use it", engine.MaxAbove),
		}}
	}
	return u.err == nil
}
