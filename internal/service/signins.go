package service

import (
	"context"
	"errors"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// maxSignIns is how many browsers may be signed in with one credential; more end the oldest.
const maxSignIns = 100

// SignIn keeps what a browser is signed in as.
func (s *Service) SignIn(ctx context.Context, p tenant.Principal, x engine.SignIn) error {
	told := detail{After: fields{"name": x.Name, "role": string(x.Role), "ends_at": x.EndsAt.Format(time.RFC3339)}}
	return s.store.AddSignIn(s.audited(ctx, entering(p), "sign_in.begin", x.ID, told), x, maxSignIns)
}

// SignOut forgets it. What has ended meanwhile has ended.
func (s *Service) SignOut(ctx context.Context, p tenant.Principal, x engine.SignIn) error {
	told := detail{Before: fields{"name": x.Name, "role": string(x.Role)}}
	err := s.store.EndSignIn(s.audited(ctx, entering(p), "sign_in.end", x.ID, told), x.Hash)
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	return err
}

// entering is the principal in the tenant in whose log it is to be found: of a key for all tenants, the first.
func entering(p tenant.Principal) tenant.Principal {
	if p.Tenant == "" {
		p.Tenant = tenant.Default
	}
	return p
}
