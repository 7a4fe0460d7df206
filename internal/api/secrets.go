package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/secret"
	"github.com/carillon-jobs/carillon/internal/strictjson"
)

func wireSecret(s engine.Secret) client.Secret {
	return client.Secret{Name: s.Name, Version: s.Version, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt}
}

func (s accessAPI) listSecrets(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	all, page, err := paged(r, func() ([]engine.Secret, error) { return s.service.Secrets(r.Context(), p) })
	if err != nil {
		return err
	}
	out := client.Secrets{Secrets: make([]client.Secret, len(all)), Pagination: page}
	for i, x := range all {
		out.Secrets[i] = wireSecret(x)
	}
	return reply(w, 200, out)
}

// secretName returns the secret that a path names; a name that no person can have chosen is not found.
func secretName(r *http.Request) (string, error) {
	name := r.PathValue("name")
	if !job.ValidKey(name) {
		return "", engine.ErrNotFound
	}
	return name, nil
}

func (s accessAPI) getSecret(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	name, err := secretName(r)
	if err != nil {
		return err
	}
	x, err := s.service.Secret(r.Context(), p, name)
	if err != nil {
		return err
	}
	return reply(w, 200, wireSecret(x))
}

func (s accessAPI) putSecret(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	data, err := body(w, r, maxBody)
	if err != nil {
		return err
	}
	var req client.SecretRequest
	if err := decode(data, &req); err != nil {
		return withoutValue(err)
	}
	x, err := s.service.PutSecret(r.Context(), p, r.PathValue("name"), req.Value)
	if err != nil {
		return err
	}
	return reply(w, 200, wireSecret(x))
}

// withoutValue returns the error of a body without showing any of the body.
func withoutValue(err error) error {
	var e *strictjson.Error
	if !errors.As(err, &e) {
		return err
	}
	hushed := *e
	hushed.Problems = nil
	for _, p := range e.Problems {
		if p.Value != "" {
			p.Value = "(not shown)"
		}
		hushed.Problems = append(hushed.Problems, p)
	}
	return &hushed
}

var forceParams = []param{{"force", "boolean", "true: delete it even if jobs refer to it."}}

func (s accessAPI) deleteSecret(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	name, err := secretName(r)
	if err != nil {
		return err
	}
	q, err := parseQuery(r, forceParams)
	if err != nil {
		return err
	}
	force := q.flag("force")
	if err := q.err(); err != nil {
		return err
	}
	x, err := s.service.DeleteSecret(r.Context(), p, name, force)
	if err != nil {
		return err
	}
	return reply(w, 200, wireSecret(x))
}

// cleanOutcomes removes secrets from outcomes and makes them storable. elsewhere reports that another server may have
// handed out the attempts.
func cleanOutcomes(ctx context.Context, v *secret.Vault, os []job.Outcome, elsewhere bool) error {
	var ids []job.ExecutionID
	for _, o := range os {
		if v != nil && (o.Error != nil || o.Response != nil || len(o.Result) > 0) {
			ids = append(ids, o.Execution)
		}
	}
	guards, err := v.Guards(ctx, ids, elsewhere)
	if err != nil {
		return err
	}
	for i := range os {
		guards.CleanOutcome(&os[i])
		storable(&os[i])
	}
	return nil
}

// cleanAdvances does the same with progress reports.
func cleanAdvances(ctx context.Context, v *secret.Vault, as []job.Advance, elsewhere bool) error {
	var ids []job.ExecutionID
	for _, a := range as {
		if v != nil && a.Message != "" {
			ids = append(ids, a.Execution)
		}
	}
	guards, err := v.Guards(ctx, ids, elsewhere)
	if err != nil || guards == nil {
		return err
	}
	for i := range as {
		as[i].Message = guards.Clean(as[i].Execution, as[i].Message)
	}
	return nil
}

// ended records that attempts are over, except refused ones, as another attempt may be running, and parked ones.
func ended(v *secret.Vault, os []job.Outcome, vs []job.Verdict) {
	if v == nil {
		return
	}
	ids := make([]job.ExecutionID, 0, len(os))
	for i, o := range os {
		if vs[i].Accepted && o.Status != job.OutcomeParked {
			ids = append(ids, o.Execution)
		}
	}
	v.Ended(ids)
}
