package service

import (
	"context"
	"slices"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// RunItem is one item of a map.
type RunItem struct {
	Index     int
	Status    workflow.Status
	Execution job.ExecutionID // zero: it has not started
	Error     *job.Error      // why it failed
}

// RunItems is one page of the items of a map, in the order of the list.
type RunItems struct {
	Items   []RunItem
	Next    int // the index to go on from; 0: there are no more
	Partial bool
	Total   engine.Total
}

const (
	itemsAtOnce = 1000 // whose executions one read looks for
	itemReads   = 20   // of one page
)

// FindItems lists items of a map from an index, of any of these states; none: of all.
func (s *WorkflowRuns) FindItems(ctx context.Context, p tenant.Principal, id job.ExecutionID, key string, statuses []workflow.Status, from, limit int) (out RunItems, err error) {
	if err := allow(p, tenant.Read); err != nil {
		return out, err
	}
	r, err := s.run(ctx, p, id)
	if err != nil {
		return out, err
	}
	n, err := r.node(key)
	if err != nil {
		return out, err
	}
	if !r.graph.Mapped(n) {
		return out, job.Invalids{{Field: "node", Value: job.Show(key), Want: "the key of a node with map"}}
	}
	if r.state == nil {
		return out, nil
	}
	counts, _ := r.state.Map(n)
	wanted := func(i int) bool { return mayBe(r.state.Item(n, i), statuses) }
	for i := range counts.Total {
		if wanted(i) {
			out.Total.Count++
		}
	}
	out.Total.Estimate = slices.ContainsFunc(statuses, func(s workflow.Status) bool { return broadly(s) != s }) || slices.Contains(statuses, workflow.Failed) || slices.Contains(statuses, workflow.Pending)
	reads := 0
	for i := from; i < counts.Total; {
		if !wanted(i) {
			i++
			continue
		}
		if reads++; reads > itemReads {
			out.Next, out.Partial = i, true
			return out, s.failures(ctx, &r, n, out.Items)
		}
		until := min(i+itemsAtOnce, counts.Total)
		members, err := s.store.Members(ctx, r.Tenant, r.ID, engine.PlaceOf(n, i), engine.PlaceOf(n, until), itemsAtOnce)
		if err != nil {
			return out, err
		}
		of := map[int]engine.Member{}
		for _, m := range members {
			of[m.Place.Item()] = m
		}
		for ; i < until; i++ {
			x := itemOf(i, r.state.Item(n, i), of)
			if len(statuses) > 0 && !slices.Contains(statuses, x.Status) {
				continue
			}
			if len(out.Items) == limit {
				out.Next = i
				return out, s.failures(ctx, &r, n, out.Items)
			}
			out.Items = append(out.Items, x)
		}
	}
	return out, s.failures(ctx, &r, n, out.Items)
}

// failures adds why items of a node failed.
func (s *WorkflowRuns) failures(ctx context.Context, r *Run, n int, items []RunItem) error {
	q := engine.ErrorQuery{Tenant: r.Tenant, Run: r.ID, Attempt: r.Attempt, Since: r.BegunAt}
	at := map[engine.NodePlace]int{}
	for i, x := range items {
		if x.Status.Failed() {
			p := engine.PlaceOf(n, x.Index)
			q.Places, at[p] = append(q.Places, p), i
		}
	}
	kept, err := s.store.RunErrors(ctx, q)
	for _, k := range kept {
		items[at[k.Place]].Error = k.Error
	}
	return err
}

// itemOf is an item as its run knows it, and as its execution says more.
func itemOf(i int, status workflow.Status, of map[int]engine.Member) RunItem {
	x := RunItem{Index: i, Status: status}
	m, ok := of[i]
	if !ok || status == workflow.Waiting || status == workflow.NotRun {
		return x // what ran in an earlier attempt of the run has been forgotten
	}
	x.Execution = m.Execution
	if status == workflow.Pending || status == workflow.Failed {
		x.Status = workflow.Status(m.Status)
	}
	return x
}

// broadly is the state under which a run knows an item that is in this one.
func broadly(s workflow.Status) workflow.Status {
	switch s {
	case workflow.Running, workflow.Retrying, workflow.Cancelling:
		return workflow.Pending
	case workflow.TimedOut, workflow.Expired, workflow.Cancelled:
		return workflow.Failed
	}
	return s
}

// mayBe reports whether an item that a run knows as this may be in one of these states. One whose end the run does not know yet may
// be in any final one.
func mayBe(known workflow.Status, statuses []workflow.Status) bool {
	return len(statuses) == 0 || slices.ContainsFunc(statuses, func(s workflow.Status) bool {
		return broadly(s) == known || known == workflow.Pending && s.Final() && s != workflow.NotRun
	})
}

// RunExplanation says why a run stands where it does.
type RunExplanation struct {
	Run
	Summary string
}

// ExplainRun says why a run and its nodes stand where they do.
func (s *WorkflowRuns) ExplainRun(ctx context.Context, p tenant.Principal, id job.ExecutionID) (out RunExplanation, err error) {
	if out.Run, err = s.WorkflowRun(ctx, p, id); err != nil {
		return out, err
	}
	if out.state != nil {
		out.Summary = workflow.ExplainRun(out.graph, out.state)
		return out, nil
	}
	x, err := s.executions.Explain(ctx, p, out.Execution)
	out.Summary = x.Why.Text
	return out, err
}
