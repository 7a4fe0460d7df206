package api

import (
	"fmt"
	"net/http"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/service"
)

func (s jobAPI) backfillJob(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	ref, data, err := s.onJob(w, r, p)
	if err != nil {
		return err
	}
	o, err := idempotency(r, data)
	if err != nil {
		return err
	}
	var req client.BackfillRequest
	if err := decode(data, &req); err != nil {
		return err
	}
	var v job.Invalids
	if req.From.IsZero() {
		v.Add("from", "", "the time of the first instant that may be fired")
	}
	if req.To.IsZero() {
		v.Add("to", "", "a time after from")
	}
	if x := req.RatePerS; x != nil && (*x <= 0 || *x > maxRate) {
		v.Add("rate_per_s", *x, fmt.Sprintf("a number greater than 0, at most %d, or null for as fast as it goes", maxRate))
	}
	if len(v) > 0 {
		return v
	}
	b := service.Backfill{From: req.From, To: req.To, OnlyMissing: deref(req.OnlyMissing, true)}
	if req.DryRun {
		n, err := s.service.CountBackfill(r.Context(), p, ref, b)
		if err != nil {
			return err
		}
		return reply(w, 200, client.Begun{Count: n})
	}
	op, replay, err := s.service.BeginBackfill(r.Context(), p, ref, b, deref(req.RatePerS, 0), service.Once[job.Operation]{
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
