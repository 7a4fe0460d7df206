package api

import (
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// holdRoutes returns the routes of legal holds.
func (s settingsAPI) holdRoutes() []route {
	const group = "Holds"
	return []route{
		{
			method: "GET", path: "/api/v1/holds", needs: tenant.Read, group: group, summary: "List legal holds, oldest first",
			params: pageParams, status: 200, answer: of[client.Holds](), handle: s.listHolds,
		},
		{
			method: "PUT", path: "/api/v1/holds", needs: tenant.Manage, group: group, summary: "Hold the history of a job, or of a tenant",
			detail: "Name a job, or a tenant; the latter takes the role system. From the response on nothing of what is held is purged, whatever its retention, and a job that is held cannot be deleted. The same request again answers the hold that there is. Holds for different reasons are separate: each must be ended.",
			body:   of[client.HoldRequest](), sample: `{"job_id": "key:nightly", "reason": "Case 4711"}`, status: 200, answer: of[client.Hold](), handle: s.putHold,
		},
		{
			method: "DELETE", path: "/api/v1/holds/{id}", needs: tenant.Manage, group: group, summary: "End a legal hold",
			detail: "What no other hold keeps, and is past its retention, is purged at the next run, within about 10 minutes.", status: 200, answer: of[client.Hold](), handle: s.deleteHold,
		},
	}
}

func wireHold(h service.HoldOf) client.Hold {
	out := client.Hold{HoldID: h.ID, TenantID: string(h.Tenant), Reason: h.Reason, By: h.By, At: h.At}
	if !h.OfTenant() {
		out.JobID, out.JobName = new(job.ID(h.Job).String()), optional(h.Name)
	}
	return out
}

func (s settingsAPI) listHolds(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	all, page, err := paged(r, func() ([]service.HoldOf, error) { return s.service.Holds(r.Context(), p) })
	if err != nil {
		return err
	}
	out := client.Holds{Holds: make([]client.Hold, len(all)), Pagination: page}
	for i, h := range all {
		out.Holds[i] = wireHold(h)
	}
	return reply(w, 200, out)
}

func (s settingsAPI) putHold(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	data, err := body(w, r, maxBody)
	if err != nil {
		return err
	}
	var req client.HoldRequest
	if err := decode(data, &req); err != nil {
		return err
	}
	if (req.JobID == nil) == (req.TenantID == nil) {
		return job.Invalids{{Field: "job_id", Value: job.Show(deref(req.JobID, "")), Want: "the id of a job, or its key as key:…; or else, in tenant_id, the id of a tenant"}}
	}
	var h service.HoldOf
	missing := job.Invalid{Field: "tenant_id", Want: "the id of a tenant"}
	if req.JobID == nil {
		missing.Value = job.Show(*req.TenantID)
		h, err = s.service.AddHold(r.Context(), p, nil, tenant.ID(*req.TenantID), req.Reason)
	} else {
		missing = job.Invalid{Field: "job_id", Value: job.Show(*req.JobID), Want: "the id of a job, or its key as key:…"}
		var ref engine.Ref
		if ref, err = parseRef(*req.JobID); err == nil {
			h, err = s.service.AddHold(r.Context(), p, &ref, "", req.Reason)
		}
	}
	if errors.Is(err, engine.ErrNotFound) {
		err = job.Invalids{missing}
	}
	if err != nil {
		return err
	}
	return reply(w, 200, wireHold(h))
}

func (s settingsAPI) deleteHold(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return engine.ErrNotFound
	}
	h, err := s.service.DeleteHold(r.Context(), p, id.String())
	if err != nil {
		return err
	}
	return reply(w, 200, wireHold(h))
}

// heldBy describes why something cannot be deleted.
func heldBy(h *engine.Held) client.Problem {
	return made(409, "held", "Nothing is deleted: "+h.Error()+". End the hold first: DELETE /api/v1/holds/"+h.Hold.ID+".")
}
