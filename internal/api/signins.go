package api

import (
	"net/http"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// wireListedSignIn returns a sign-in as admins of the tenant see it; own is the hash of the caller's cookie.
func (s accessAPI) wireListedSignIn(x engine.SignIn, own [32]byte) client.SignIn {
	out := client.SignIn{
		SignInID: x.ID, TenantID: tenantID(x.Tenant), Name: x.Name, Role: string(x.Role), Kind: "key", KeyID: optional(x.Key), Current: x.Hash == own,
		SignedInAt: x.CreatedAt, LastUsedAt: x.UsedAt, IdleExpiresAt: s.cfg.SignIns.IdleUntil(x), ExpiresAt: x.EndsAt,
	}
	if x.Key == "" {
		out.Kind = "token"
	}
	return out
}

// ownSignIn returns the hash of the caller's cookie; zero if there is none.
func (s accessAPI) ownSignIn(r *http.Request) (own [32]byte) {
	if value := s.cookie(r); value != "" {
		own = access.HashSignIn(value)
	}
	return own
}

func (s accessAPI) listSignIns(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q, err := parseQuery(r, pageParams)
	if err != nil {
		return err
	}
	page := q.page()
	if err := q.err(); err != nil {
		return err
	}
	var found engine.Listed[engine.SignIn]
	if s.cfg.SignIns != nil { // without sign-in, nobody is signed in
		if found, err = s.service.SignIns(r.Context(), p, s.cfg.SignIns.Living(), page); err != nil {
			return err
		}
	}
	out := client.SignIns{SignIns: make([]client.SignIn, len(found.Rows)), Pagination: pagination(page, found.Total, found.Next)}
	out.Pagination.Partial = found.Partial
	own := s.ownSignIn(r)
	for i, x := range found.Rows {
		out.SignIns[i] = s.wireListedSignIn(x, own)
	}
	return reply(w, 200, out)
}

func (s accessAPI) endOneSignIn(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	if s.cfg.SignIns == nil {
		return engine.ErrNotFound
	}
	x, err := s.service.EndSignIn(r.Context(), p, s.cfg.SignIns.Living(), r.PathValue("id"))
	if err == nil || unsure(err) { // the store's answer may be lost
		s.cfg.SignIns.Forget(x.Hash)
	}
	if err != nil {
		return err
	}
	return reply(w, 200, s.wireListedSignIn(x, s.ownSignIn(r)))
}
