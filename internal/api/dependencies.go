package api

import (
	"net/http"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/service"
)

func wireDependencies(d service.Dependencies) client.JobDependencies {
	out := client.JobDependencies{JobID: d.Job.ID.String(), Key: optional(d.Job.Key), Name: d.Job.Name, Revision: d.Job.Revision, Condition: optional(string(d.Condition)), DependsOn: make([]client.JobDependency, len(d.Parents)), Dependants: make([]client.JobDependant, len(d.Children))}
	for i, p := range d.Parents {
		x := client.JobDependency{JobID: p.ID.String(), Key: optional(p.Key), Name: p.Name, EndedAt: instant(p.At)}
		if !p.Token.IsZero() {
			x.ExecutionID = optional(p.Token.String())
		}
		out.DependsOn[i] = x
	}
	for i, c := range d.Children {
		out.Dependants[i] = client.JobDependant{JobID: c.ID.String(), Name: c.Name}
	}
	return out
}

func (s jobAPI) getDependencies(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	ref, err := jobRef(r)
	if err != nil {
		return err
	}
	if err := s.service.HasJob(r.Context(), p, ref); err != nil {
		return err
	}
	if err := noParams(r); err != nil {
		return err
	}
	d, err := s.service.Dependencies(r.Context(), p, ref)
	if err != nil {
		return err
	}
	return reply(w, 200, wireDependencies(d))
}

func (s jobAPI) putDependencies(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	ref, data, err := s.onJob(w, r, p)
	if err != nil {
		return err
	}
	var req client.DependenciesRequest
	if err := decode(data, &req); err != nil {
		return err
	}
	is, err := revision(r)
	if err != nil {
		return err
	}
	d, err := s.service.SetDependencies(r.Context(), p, ref, is, req.DependsOn, workflow.Condition(req.Condition))
	if err != nil {
		return err
	}
	return reply(w, 200, wireDependencies(d))
}

func (s jobAPI) deleteDependencies(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	ref, err := jobRef(r)
	if err != nil {
		return err
	}
	if err := s.service.HasJob(r.Context(), p, ref); err != nil {
		return err
	}
	is, err := revision(r)
	if err != nil {
		return err
	}
	d, err := s.service.RemoveDependencies(r.Context(), p, ref, is)
	if err != nil {
		return err
	}
	return reply(w, 200, wireDependencies(d))
}
