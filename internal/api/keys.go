package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

func wireKey(k engine.Key, now time.Time) client.APIKey {
	out := client.APIKey{
		KeyID: k.ID, TenantID: string(k.Tenant), Name: k.Name, Role: string(k.Role), Prefix: access.Prefix(k.ID), Status: "ACTIVE",
		CreatedAt: k.CreatedAt, ExpiresAt: instant(k.ExpiresAt), RevokedAt: instant(k.RevokedAt), LastUsedAt: instant(k.UsedAt),
	}
	if k.Tenant == "" {
		out.TenantID = service.AllTenants
	}
	switch {
	case !k.RevokedAt.IsZero():
		out.Status = "REVOKED"
	case !k.Works(now):
		out.Status = "EXPIRED"
	}
	return out
}

// keyRoutes returns the routes of API keys.
func (s accessAPI) keyRoutes() []route {
	const group = "Access"
	return []route{
		{
			method: "POST", path: "/api/v1/api-keys", needs: tenant.Manage, group: group, summary: "Create an API key",
			detail: "The response shows the key once; Carillon keeps only a hash. Roles: viewer reads; operator also changes jobs and executions; admin also manages keys and settings; worker uses the worker protocol; system manages the installation. You cannot grant more than your own role allows.",
			body:   of[client.KeyRequest](), sample: `{"name": "ci", "role": "operator", "expires_at": "2030-01-01T00:00:00Z"}`, status: 201, answer: of[client.APIKey](), handle: s.createKey,
		},
		{
			method: "GET", path: "/api/v1/api-keys", needs: tenant.Manage, group: group, summary: "List API keys, newest first", params: pageParams,
			detail: "Includes keys that have expired or were revoked.", status: 200, answer: of[client.APIKeys](), handle: s.listKeys,
		},
		{
			method: "GET", path: "/api/v1/api-keys/{id}", needs: tenant.Manage, group: group, summary: "Read an API key",
			status: 200, answer: of[client.APIKey](), handle: s.getKey,
		},
		{
			method: "POST", path: "/api/v1/api-keys/{id}/rotate", needs: tenant.Manage, group: group, summary: "Rotate an API key",
			detail: "The new key has the same name, role and expiry. The old one keeps working for overlap_seconds, so that callers can switch. The body is optional.",
			body:   of[client.RotateRequest](), sample: `{"overlap_seconds": 3600}`, status: 201, answer: of[client.APIKey](), handle: s.rotateKey,
		},
		{
			method: "DELETE", path: "/api/v1/api-keys/{id}", needs: tenant.Manage, group: group, summary: "Revoke an API key",
			detail: "Every server refuses it within 5 s.", status: 200, answer: of[client.APIKey](), handle: s.revokeKey,
		},
	}
}

// newKey creates a key, and returns the response; a repeated request gets it without the text.
func newKey(o once, now time.Time) (engine.Key, string, service.Once[engine.Key]) {
	id, text := access.NewKey()
	return engine.Key{ID: id, Hash: sha256.Sum256([]byte(text))}, text, service.Once[engine.Key]{
		Key: o.key, Hash: o.hash, Encode: func(k engine.Key) []byte { return encoded(wireKey(k, now)) },
	}
}

func (s accessAPI) createKey(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	data, o, err := read(w, r, maxBody)
	if err != nil {
		return err
	}
	var req client.KeyRequest
	if err := decode(data, &req); err != nil {
		return err
	}
	if req.TenantID != nil && *req.TenantID == "" {
		return job.Invalids{{Field: "tenant_id", Want: "the id of a tenant, or null for the credential's own"}}
	}
	k, text, first := newKey(o, time.Now())
	k.Name, k.Role = req.Name, tenant.Role(strings.ToLower(req.Role))
	if req.ExpiresAt != nil {
		k.ExpiresAt = req.ExpiresAt.UTC().Truncate(time.Microsecond)
	}
	k, replay, err := s.service.AddKey(r.Context(), p, deref(req.TenantID, ""), k, first)
	return answerKey(w, k, text, replay, err)
}

func answerKey(w http.ResponseWriter, k engine.Key, text string, replay []byte, err error) error {
	if err != nil {
		return err
	}
	if replay != nil {
		return again(w, 201, replay)
	}
	out := wireKey(k, k.CreatedAt)
	out.Key = &text
	w.Header().Set("Location", "/api/v1/api-keys/"+k.ID)
	return reply(w, 201, out)
}

const maxKeyOverlap = 30 * 24 * time.Hour

func (s accessAPI) rotateKey(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	if _, err := s.service.KeyOf(r.Context(), p, r.PathValue("id")); err != nil {
		return err
	}
	data, o, err := read(w, r, maxBody)
	if err != nil {
		return err
	}
	var req client.RotateRequest
	if err := decodeAny(data, &req); err != nil {
		return err
	}
	overlap := seconds(deref(req.OverlapSeconds, 86400))
	if overlap < 0 || overlap > maxKeyOverlap {
		return job.Invalids{{Field: "overlap_seconds", Value: job.Show(*req.OverlapSeconds), Want: "a whole number from 0 to 2592000 (30 days)"}}
	}
	k, text, first := newKey(o, time.Now())
	if req.ExpiresAt != nil {
		k.ExpiresAt = req.ExpiresAt.UTC().Truncate(time.Microsecond)
	}
	k, replay, err := s.service.RotateKey(r.Context(), p, r.PathValue("id"), k, overlap, first)
	s.forgetKey(r.PathValue("id"), err)
	return answerKey(w, k, text, replay, err)
}

func (s accessAPI) listKeys(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	all, page, err := paged(r, func() ([]engine.Key, error) { return s.service.Keys(r.Context(), p) })
	if err != nil {
		return err
	}
	out := client.APIKeys{APIKeys: make([]client.APIKey, len(all)), Pagination: page}
	for i, k := range all {
		out.APIKeys[i] = wireKey(k, time.Now())
	}
	return reply(w, 200, out)
}

func (s accessAPI) getKey(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	k, err := s.service.KeyOf(r.Context(), p, r.PathValue("id"))
	if err != nil {
		return err
	}
	return reply(w, 200, wireKey(k, time.Now()))
}

func (s accessAPI) revokeKey(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	k, err := s.service.RevokeKey(r.Context(), p, r.PathValue("id"))
	s.forgetKey(r.PathValue("id"), err)
	if err != nil {
		return err
	}
	return reply(w, 200, wireKey(k, time.Now()))
}

// forgetKey makes a changed key be looked up again, even if the store's answer was lost.
func (s accessAPI) forgetKey(id string, err error) {
	if s.cfg.SignIns != nil && (err == nil || unsure(err)) {
		s.cfg.SignIns.ForgetKey(id)
	}
}

// unsure reports whether a store call may or may not have taken effect.
func unsure(err error) bool {
	_, ours := problem(err)
	return ours || errors.Is(err, context.Canceled)
}
