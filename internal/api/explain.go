package api

import (
	"net/http"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/explain"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/service"
)

func (s executionAPI) explainExecution(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := executionID(r)
	if err != nil {
		return err
	}
	if err := noParams(r); err != nil {
		return err
	}
	x, err := s.service.Explain(r.Context(), p, id)
	if err != nil {
		return err
	}
	return reply(w, 200, wireExplanation(x))
}

func wireExplanation(x service.Explained) client.Explanation {
	y, f := x.Why, x.Why.Facts
	out := client.Explanation{
		ExecutionID: x.Execution.ID.String(), JobID: x.Execution.Job.String(), Status: x.Execution.Status.String(), Code: string(y.Code), Summary: y.Text,
		Since: instant(y.Since), EstimatedStart: instant(y.Start),
		Details: client.ExplanationDetails{
			Until: instant(f.Until), Attempt: f.Attempt, MaxAttempts: f.MaxAttempts, Error: wireError(f.Error), ExitCode: f.ExitCode, Reason: f.Reason, By: f.By,
			WorkerID: workerID(f.Worker), Lacks: f.Lacks, Parents: f.Parents, Ahead: f.Ahead, AheadIsMin: f.More,
		},
	}
	d := &out.Details
	if !f.Run.IsZero() {
		id := f.Run.String()
		d.RunID, d.Node, d.Item = &id, f.Node, f.Item
	}
	for _, n := range f.Nodes {
		d.Nodes = append(d.Nodes, client.WorkflowNodeExplanation{Key: n.Key, Status: n.Status.String(), Summary: n.Text})
	}
	if f.Progress != nil {
		d.Progress = &client.Progress{Percent: f.Progress.Percent, Message: f.Progress.Message}
	}
	if n := f.Needs; n != nil {
		d.Needs = &client.ExplanationNeeds{Target: string(n.Target), Kind: n.Kind, Queue: n.Queue, Labels: list0(n.Labels)}
		d.Workers, d.Matching, d.Slots, d.BusySlots = &f.Workers, &f.Matching, &f.Slots, &f.Busy
	}
	if l := f.Limit; l != nil {
		d.Limit = &client.ExplanationLimit{Scope: l.Scope, Queue: l.Queue, ConcurrencyKey: l.Key}
		if y.Code == explain.RateLimit {
			d.Limit.RateLimit = wireRate(l.Rate)
		} else {
			d.Limit.MaxConcurrent, d.Limit.Current = &l.Max, &l.Running
			for _, h := range l.Held {
				d.Limit.HeldBy = append(d.Limit.HeldBy, client.ExplanationShare{Server: h.Server, Shares: h.Shares})
			}
		}
	}
	return out
}
