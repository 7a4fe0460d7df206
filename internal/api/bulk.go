package api

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// jobs reads which jobs are selected, as of an instant.
func (q *query) jobs(asOf time.Time) engine.JobFilter {
	f := engine.JobFilter{
		State: choice(q, "status", job.States()), ScheduleType: choice(q, "schedule_type", job.ScheduleTypes()),
		Tag: q.text("tag"), WithoutTag: q.text("without_tag"), Name: q.text("name"), Owner: q.text("owner"), Text: q.text("q"),
	}
	switch s := q.values.Get("late"); s {
	case "":
	case "true":
		f.LateBefore = asOf.Add(-service.OverdueAfter)
	default:
		q.wrong("late", s, "true, or leave it out")
	}
	return f
}

// jobSelection reads which jobs a body selects.
func jobSelection(req client.BulkRequest, asOf time.Time) (sel service.JobSelection, v job.Invalids) {
	var values url.Values
	if f := req.Filter; f != nil {
		values = url.Values{"status": {f.Status}, "schedule_type": {f.ScheduleType}, "tag": {f.Tag}, "without_tag": {f.WithoutTag}, "name": {f.Name}, "owner": {f.Owner}, "q": {f.Q}}
		if f.Late {
			values.Set("late", "true")
		}
	}
	sel.IDs, v = idsOrFilter(req.IDs, values, "job", job.ParseID, func(q *query) { sel.Filter = q.jobs(asOf) })
	return sel, v
}

// jobAction reads the action of a body. Fields of another action are a mistake, not ignored.
func jobAction(req client.BulkRequest) (a service.JobAction, v job.Invalids) {
	if a.Kind = job.OperationKind(strings.ToLower(req.Action)); !a.Kind.OverJobs() {
		v.Add("action", req.Action, "pause, resume, delete, trigger, tag or untag")
		return a, v
	}
	if string(req.PayloadOverride) == "null" {
		req.PayloadOverride = nil // as in a job: null is none
	}
	a.Reason, a.Tags, a.Payload = req.Reason, req.Tags, req.PayloadOverride
	if req.Until != nil {
		a.Until = *req.Until
	}
	if a.Kind != job.OpPause {
		if req.Reason != "" {
			v.Add("reason", req.Reason, "none: it belongs to the action pause")
		}
		if req.Until != nil {
			v.Add("until", job.Show(*req.Until), "none: it belongs to the action pause")
		}
	}
	if a.Kind != job.OpTag && a.Kind != job.OpUntag && len(req.Tags) > 0 {
		v.Add("tags", job.Show(req.Tags), "none: they belong to the actions tag and untag; jobs with a tag are chosen by filter.tag")
	}
	if a.Kind != job.OpTrigger && req.PayloadOverride != nil {
		v.Add("payload_override", "", "none: it belongs to the action trigger")
	}
	return a, v
}

// rate reads a rate per second.
func rate(r *float64, v *job.Invalids) float64 {
	if r != nil && (*r < minRate || *r > maxRate) {
		v.Add("rate_per_s", *r, fmt.Sprintf("a number from %g to %d, or null for as fast as it goes", minRate, maxRate))
	}
	return deref(r, 0)
}

func (s jobAPI) bulkJobs(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	data, o, err := read(w, r, maxBody)
	if err != nil {
		return err
	}
	var req client.BulkRequest
	if err := decode(data, &req); err != nil {
		return err
	}
	sel, v := jobSelection(req, s.service.Now())
	a, wrong := jobAction(req)
	v = append(v, wrong...)
	perS := rate(req.RatePerS, &v)
	if err := v.Err(); err != nil {
		return err
	}
	if req.DryRun {
		found, err := s.service.SampleJobs(r.Context(), p, sel, a)
		if err != nil {
			return err
		}
		out := client.BulkBegun{Count: found.Total.Count, CountIsEstimate: found.Total.Estimate}
		for _, j := range found.Jobs {
			out.Sample = append(out.Sample, client.BulkSample{JobID: j.ID.String(), Name: j.Name, Status: j.State.String()})
		}
		return reply(w, 200, out)
	}
	op, replay, err := s.service.BeginJobs(r.Context(), p, sel, a, perS, service.Once[job.Operation]{
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
