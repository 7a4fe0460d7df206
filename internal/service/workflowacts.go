package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/workflows"
)

// RunChanged is a run after an act, with what the act changed. After a dry run, the run is as it was.
type RunChanged struct {
	Run
	Changes []workflow.Change
}

// act is what a person does to a run.
type act struct {
	name   string // as in the audit log
	node   string // its key; "": it is done to the run
	needs  tenant.Permission
	dry    bool
	detail fields
	before func(*Run) error // what is wrong with it, as the run stands before; nil: nothing is
	do     func(*workflows.Turn) error
	once   workflows.Once
}

// act does something to a run and answers with the run as it is then.
func (s *WorkflowRuns) act(ctx context.Context, p tenant.Principal, id job.ExecutionID, a act) (out RunChanged, err error) {
	if err := allow(p, a.needs); err != nil {
		return out, err
	}
	r, err := s.run(ctx, p, id)
	if err != nil {
		return out, err
	}
	if a.node != "" {
		if _, err := r.node(a.node); err != nil {
			return out, err
		}
		if a.detail == nil {
			a.detail = fields{}
		}
		a.detail["node"] = a.node
	}
	if r.state == nil {
		return out, &workflow.Conflict{Act: a.name, Status: r.Stands, Want: "a run that has begun"}
	}
	if a.before != nil {
		if err := a.before(&r); err != nil {
			return out, err
		}
	}
	if !a.dry {
		leave, err := s.enter()
		if err != nil {
			return out, err
		}
		defer leave()
	}
	done, err := s.runner.Do(ctx, workflows.Act{
		Tenant: p.Tenant, Run: r.ID, DryRun: a.dry, Do: a.do, Once: a.once,
		Entry: func([]workflow.Change) *audit.Entry {
			return s.audited(p, "workflow_run."+a.name, r.ID.String(), detail{After: a.detail})
		},
	})
	if err != nil {
		return out, err
	}
	s.cfg.Nudge() // nodes may have been asked to stop
	out.Changes = done.Changes
	if out.Run, err = s.run(ctx, p, r.ID); err != nil {
		return out, err
	}
	return out, s.look(ctx, &out.Run)
}

// actOnce does something to a run, unless a request with the same idempotency key has done it.
func (s *WorkflowRuns) actOnce(ctx context.Context, p tenant.Principal, id job.ExecutionID, a act, once Once[RunChanged]) (RunChanged, []byte, error) {
	return s.onceOf(ctx, p, runOnce{needs: a.needs, run: id, dry: a.dry, once: once, do: func(claim workflows.Once) (RunChanged, error) {
		a.once = claim
		return s.act(ctx, p, id, a)
	}})
}

// PauseRun keeps nodes and items of a run from starting.
func (s *WorkflowRuns) PauseRun(ctx context.Context, p tenant.Principal, id job.ExecutionID, dry bool, once Once[RunChanged]) (RunChanged, []byte, error) {
	return s.actOnce(ctx, p, id, act{name: "pause", needs: tenant.Write, dry: dry, do: workflows.Pause}, once)
}

// UnpauseRun starts what a pause held back.
func (s *WorkflowRuns) UnpauseRun(ctx context.Context, p tenant.Principal, id job.ExecutionID, dry bool, once Once[RunChanged]) (RunChanged, []byte, error) {
	return s.actOnce(ctx, p, id, act{name: "unpause", needs: tenant.Write, dry: dry, do: workflows.Unpause}, once)
}

// CancelRun cancels what runs in a run, has the rest not run and then its finally nodes run; with force those are skipped, too.
func (s *WorkflowRuns) CancelRun(ctx context.Context, p tenant.Principal, id job.ExecutionID, force bool, reason string, dry bool, once Once[RunChanged]) (RunChanged, []byte, error) {
	if reason == "" {
		reason = "cancelled by " + p.Name
	}
	return s.onceOf(ctx, p, runOnce{
		needs: tenant.Write, run: id, dry: dry, once: once,
		do: func(claim workflows.Once) (RunChanged, error) {
			return s.cancelRun(ctx, p, id, force, reason, dry, claim)
		},
		then: func(out RunChanged) error { return s.cancelExecution(ctx, p, &out.Run, reason) },
	})
}

func (s *WorkflowRuns) cancelRun(ctx context.Context, p tenant.Principal, id job.ExecutionID, force bool, reason string, dry bool, claim workflows.Once) (out RunChanged, err error) {
	told := fields{"reason": reason}
	if force {
		told["force"] = "true"
	}
	r, err := s.run(ctx, p, id)
	if err != nil {
		return out, err
	}
	if r.state == nil {
		return s.cancelUnbegun(ctx, p, r, reason, dry)
	}
	return s.act(ctx, p, id, act{name: "cancel", needs: tenant.Write, dry: dry, detail: told, do: workflows.Cancel(force, reason), once: claim})
}

// cancelExecution has the execution of a run that is being cancelled say so, too. If it has ended meanwhile, nothing is left to say.
func (s *WorkflowRuns) cancelExecution(ctx context.Context, p tenant.Principal, r *Run, reason string) error {
	if r.Stands != workflow.Cancelling {
		return nil
	}
	_, err := s.store.Cancel(ctx, p.Tenant, r.Execution, reason, nil)
	s.runner.Advance(r.ID)
	if isConflict(err) || errors.Is(err, engine.ErrNotFound) {
		err = nil
	}
	return err
}

// cancelUnbegun cancels the execution of a run that has not begun.
func (s *WorkflowRuns) cancelUnbegun(ctx context.Context, p tenant.Principal, r Run, reason string, dry bool) (out RunChanged, err error) {
	if r.Stands.Final() && r.Stands != workflow.Cancelled {
		return out, &workflow.Conflict{Act: "cancel", Status: r.Stands, Want: "a run that has not ended"}
	}
	for n := range r.graph.Len() {
		if r.Stands != workflow.Cancelled {
			out.Changes = append(out.Changes, workflow.Change{Node: r.graph.Node(n).Key, From: workflow.Waiting, To: workflow.NotRun})
		}
	}
	if !dry {
		if _, err := s.executions.cancel(ctx, p, r.Execution, reason); err != nil {
			return out, err
		}
	}
	out.Run, err = s.WorkflowRun(ctx, p, r.ID)
	return out, err
}

// RunRetry says what of a run is to run again.
type RunRetry struct {
	Nodes  []string
	Only   bool
	Input  []byte // nil: the same
	Latest bool   // with the current version of the workflow
	Items  bool   // of maps among Nodes only the items that did not succeed
	Dry    bool
	Of     job.ExecutionID // the execution whose retry was asked for; zero: it was the run's

	once workflows.Once
}

// RetryRun runs parts of a run again that has ended.
func (s *WorkflowRuns) RetryRun(ctx context.Context, p tenant.Principal, id job.ExecutionID, x RunRetry, once Once[RunChanged]) (RunChanged, []byte, error) {
	return s.onceOf(ctx, p, runOnce{needs: tenant.Write, run: id, dry: x.Dry, once: once, do: func(claim workflows.Once) (RunChanged, error) {
		x.once = claim
		return s.retry(ctx, p, id, x)
	}})
}

func (s *WorkflowRuns) retry(ctx context.Context, p tenant.Principal, id job.ExecutionID, x RunRetry) (out RunChanged, err error) {
	if err := allow(p, tenant.Write); err != nil {
		return out, err
	}
	r, err := s.run(ctx, p, id)
	if err != nil {
		return out, err
	}
	again := workflows.Again{Retry: workflow.Retry{Nodes: x.Nodes, Only: x.Only, Items: x.Items}, Input: x.Input}
	told := fields{}
	if !x.Of.IsZero() {
		told["execution_id"] = x.Of.String()
	}
	if len(x.Nodes) > 0 {
		told["nodes"] = strings.Join(x.Nodes, ",")
	}
	if x.Only {
		told["only"] = "true"
	}
	if x.Input != nil {
		told["input"] = digest(x.Input)
		q, err := s.Quota(ctx, p)
		if err == nil {
			err = inputFits(q, &job.Definition{Payload: x.Input})
		}
		if err == nil {
			err = renamed(s.jobs.plans(p.Tenant).overriding(ctx, x.Input), "payload_override", "input")
		}
		if err != nil {
			return out, err
		}
	}
	if x.Latest {
		j, err := s.store.Job(ctx, p.Tenant, engine.Ref{ID: r.Workflow})
		if err != nil {
			return out, err
		}
		again.Latest = j.Target.Version
		told["version"] = fmt.Sprint(again.Latest)
		if err := s.notWeaker(ctx, p, &r, again.Latest); err != nil {
			return out, err
		}
	}
	if !x.Dry {
		if err := s.jobs.beginOne(ctx, p); err != nil {
			return out, err
		}
	}
	if r.state == nil {
		return s.restart(ctx, p, r, x, told)
	}
	return s.act(ctx, p, id, act{name: "retry", needs: tenant.Write, dry: x.Dry, detail: told, do: again.Do, once: x.once})
}

// restart begins a run whose execution ended before the run could begin.
func (s *WorkflowRuns) restart(ctx context.Context, p tenant.Principal, r Run, x RunRetry, told fields) (out RunChanged, err error) {
	switch {
	case !r.Stands.Final():
		return out, &workflow.Conflict{Act: "retry", Status: r.Stands, Want: "a run that has ended: cancel it first, or wait"}
	case len(x.Nodes) > 0:
		return out, job.Invalids{{Field: "nodes", Value: job.Show(strings.Join(x.Nodes, ", ")), Want: "nothing here: the run never began, and all of it runs"}}
	case x.Only:
		return out, job.Invalids{{Field: "only", Value: "true", Want: "nothing here: the run never began, and all of it runs"}}
	}
	j, err := s.store.Job(ctx, p.Tenant, engine.Ref{ID: r.Workflow})
	if err != nil {
		return out, err
	}
	if j.State == job.Deleted {
		return out, &NotDone{"retry", "The workflow of the run was deleted."}
	}
	if x.Input != nil {
		r.Input = x.Input
	}
	run := r.WorkflowRun
	run.EndedAt, run.Error = time.Time{}, nil
	if !x.Dry {
		leave, err := s.enter()
		if err != nil {
			return out, err
		}
		defer leave()
	}
	out.Changes, err = s.runner.Restart(ctx, run, x.Dry, s.audited(p, "workflow_run.retry", r.ID.String(), detail{After: told}), x.once)
	if err != nil {
		return out, err
	}
	out.Run, err = s.WorkflowRun(ctx, p, r.ID)
	return out, err
}

// SkipNode makes a node SKIPPED that has not started, waits, or did not succeed.
func (s *WorkflowRuns) SkipNode(ctx context.Context, p tenant.Principal, id job.ExecutionID, key string, dry bool, once Once[RunChanged]) (RunChanged, []byte, error) {
	return s.actOnce(ctx, p, id, s.overruling(ctx, p, act{name: "skip", node: key, dry: dry}, workflows.Skip(key)), once)
}

// MarkNode makes such a node SUCCEEDED, with a result.
func (s *WorkflowRuns) MarkNode(ctx context.Context, p tenant.Principal, id job.ExecutionID, key string, result []byte, dry bool, once Once[RunChanged]) (out RunChanged, replay []byte, err error) {
	if err := allow(p, tenant.Write); err != nil {
		return out, nil, err
	}
	if err := s.valueFits(ctx, p, "result", result); err != nil {
		return out, nil, err
	}
	return s.actOnce(ctx, p, id, s.overruling(ctx, p, act{name: "mark", node: key, dry: dry, detail: fields{"result": digest(result)}}, workflows.Mark(key, result)), once)
}

// ResizeMap changes how many items of a map run at once, and how many may fail; nil leaves as it is.
func (s *WorkflowRuns) ResizeMap(ctx context.Context, p tenant.Principal, id job.ExecutionID, key string, parallel *int, tolerate json.RawMessage, dry bool) (out RunChanged, err error) {
	var t *workflow.Tolerance
	told := fields{}
	if parallel != nil {
		told["max_parallel"] = fmt.Sprint(*parallel)
	}
	if tolerate != nil {
		parsed, ok := workflow.ParseTolerance(tolerate)
		if !ok {
			return out, job.Invalids{{Field: "tolerate", Value: job.Show(string(tolerate)), Want: workflow.WantTolerance}}
		}
		t, told["tolerate"] = &parsed, job.Show(string(tolerate))
	}
	return s.act(ctx, p, id, act{name: "change_map", node: key, needs: tenant.Write, dry: dry, detail: told, do: workflows.Resize(key, parallel, t)})
}

// Decide approves or rejects what a node waits for. Who may, the approval says: its roles, else operators and admins.
func (s *WorkflowRuns) Decide(ctx context.Context, p tenant.Principal, id job.ExecutionID, key string, v workflow.Vote, dry bool) (RunChanged, error) {
	if err := s.valueFits(ctx, p, "data", v.Data); err != nil {
		return RunChanged{}, err
	}
	v.By, v.Who = p.Name, p.Who()
	told := fields{"comment": v.Comment}
	if v.Data != nil {
		told["data"] = digest(v.Data)
	}
	name := v.Act()
	vote := workflows.Vote(key, v)
	return s.act(ctx, p, id, act{name: name, node: key, needs: tenant.Read, dry: dry, detail: told, do: func(t *workflows.Turn) error {
		n, _ := t.Graph.Number(key)
		switch w := t.Graph.Node(n).Wait; {
		case w == nil || w.Approval == nil:
			status, _ := t.State.Node(n)
			return &workflow.Conflict{Act: name, Node: key, Status: status, Want: "a node that waits for an approval"}
		case !w.Approval.MayVote(p.Role):
			return fmt.Errorf("%w: node %s asks for a decision of %s; yours is the role %q", ErrForbidden, key, deciders(w.Approval), p.Role)
		}
		return vote(t)
	}})
}
