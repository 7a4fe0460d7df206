package api

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// idsOrFilter reads what a body selects: either ids, which parse reads, or a filter, whose members are read like the
// parameters of the list. It requires exactly one of them.
func idsOrFilter[T any](ids []string, filter url.Values, what string, parse func(string) (T, error), choose func(*query)) (out []T, v job.Invalids) {
	switch {
	case filter != nil && len(ids) > 0:
		v.Add("filter", "", "ids or a filter, not both")
	case filter != nil:
		q := &query{values: filter}
		choose(q)
		for _, p := range q.problems {
			v = append(v, job.Invalid{Field: "filter." + p.Field, Value: p.Value, Want: p.Want})
		}
	case len(ids) == 0 || len(ids) > maxIDs:
		v.Add("ids", fmt.Sprintf("%d ids", len(ids)), fmt.Sprintf("1 to %d ids of %ss, or a filter; {} is all", maxIDs, what))
	default:
		out = make([]T, len(ids))
		for i, text := range ids {
			var err error
			if out[i], err = parse(text); err != nil {
				v.Add(fmt.Sprintf("ids[%d]", i), text, "the id of a "+what)
			}
		}
	}
	return out, v
}

// executionSelection reads which executions a body selects.
func (s executionAPI) executionSelection(r *http.Request, p tenant.Principal, req client.ExecutionBulkRequest) (sel service.ExecutionSelection, v job.Invalids, err error) {
	var values url.Values
	if f := req.Filter; f != nil {
		values = url.Values{
			"status": {f.Status}, "job_id": {f.JobID}, "job_name": {f.JobName}, "tag": {f.Tag}, "worker_id": {f.WorkerID}, "trigger": {f.Trigger},
			"start_date": {f.StartDate}, "end_date": {f.EndDate}, "q": {f.Q},
		}
	}
	var key engine.Ref
	sel.IDs, v = idsOrFilter(req.IDs, values, "execution", job.ParseExecutionID, func(q *query) { sel.Filter, key = q.executions() })
	if len(v) > 0 || key.Key == "" {
		return sel, v, nil
	}
	j, err := s.service.Job(r.Context(), p, key)
	sel.Filter.Job = j.ID
	return sel, v, err
}

func (s executionAPI) bulkExecutions(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	data, o, err := read(w, r, maxBody)
	if err != nil {
		return err
	}
	var req client.ExecutionBulkRequest
	if err := decode(data, &req); err != nil {
		return err
	}
	sel, v, err := s.executionSelection(r, p, req)
	if err != nil {
		return err
	}
	if string(req.PayloadOverride) == "null" {
		req.PayloadOverride = nil // as in a job: null is none
	}
	a := service.ExecutionAction{Reason: req.Reason, Payload: req.PayloadOverride}
	switch strings.ToLower(req.Action) {
	case "cancel":
		a.Kind = job.OpCancelExecutions
		if req.PayloadOverride != nil {
			v.Add("payload_override", "", "none: it belongs to the action retry")
		}
	case "retry":
		a.Kind = job.OpRetryExecutions
		if req.Reason != "" {
			v.Add("reason", req.Reason, "none: it belongs to the action cancel")
		}
	default:
		v.Add("action", req.Action, "cancel or retry")
	}
	perS := rate(req.RatePerS, &v)
	if err := v.Err(); err != nil {
		return err
	}
	if req.DryRun {
		found, err := s.service.SampleExecutions(r.Context(), p, sel, a)
		if err != nil {
			return err
		}
		out := client.ExecutionBulkBegun{Count: found.Total.Count, CountIsEstimate: found.Total.Estimate}
		for _, e := range found.Executions {
			out.Sample = append(out.Sample, client.ExecutionSample{ExecutionID: e.ID.String(), JobID: e.Job.String(), JobName: e.JobName, Status: e.Status.String(), ScheduledTime: e.ScheduledAt})
		}
		return reply(w, 200, out)
	}
	op, replay, err := s.service.BeginExecutions(r.Context(), p, sel, a, perS, service.Once[job.Operation]{
		Key: o.key, Hash: o.hash, Encode: func(x job.Operation) []byte { return encoded(wireBegun(x)) },
	})
	if err != nil {
		return err
	}
	if replay != nil {
		return again(w, 202, replay)
	}
	w.Header().Set("Location", "/api/v1/operations/"+op.ID.String())
	return reply(w, 202, wireBegun(op))
}
