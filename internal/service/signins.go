package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// maxSignIns limits how many browsers may be signed in with one credential; further ones end the oldest.
const maxSignIns = 100

// SignIn stores a browser's sign-in.
func (s *Access) SignIn(ctx context.Context, p tenant.Principal, x engine.SignIn) error {
	told := detail{After: fields{"name": x.Name, "role": string(x.Role), "ends_at": x.EndsAt.Format(time.RFC3339)}}
	return s.store.AddSignIn(ctx, x, maxSignIns, s.audited(entering(p), "sign_in.begin", x.ID, told))
}

// SignOut ends a sign-in. It is no error if it has ended already.
func (s *Access) SignOut(ctx context.Context, p tenant.Principal, x engine.SignIn) error {
	told := detail{Before: fields{"name": x.Name, "role": string(x.Role)}}
	err := s.store.EndSignIn(ctx, x.Hash, s.audited(entering(p), "sign_in.end", x.ID, told))
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	return err
}

// SignIns lists the tenant's active sign-ins; f determines which have ended.
func (s *Access) SignIns(ctx context.Context, p tenant.Principal, f engine.SignInFilter, page engine.Page) (engine.Listed[engine.SignIn], error) {
	if err := allow(p, tenant.Manage); err != nil {
		return engine.Listed[engine.SignIn]{}, err
	}
	f.Tenant = p.Tenant
	return s.store.FindSignIns(ctx, f, page)
}

// EndSignIn ends one of the tenant's sign-ins by its id. Servers refuse its browser within a few seconds.
func (s *Access) EndSignIn(ctx context.Context, p tenant.Principal, f engine.SignInFilter, id string) (x engine.SignIn, err error) {
	f.ID = id
	found, err := s.SignIns(ctx, p, f, engine.Page{Limit: 1, Uncounted: true})
	if err != nil {
		return x, err
	}
	if len(found.Rows) == 0 || id == "" {
		return x, engine.ErrNotFound
	}
	if x = found.Rows[0]; !p.Role.Gives(x.Role) {
		return x, &NotDone{"end", fmt.Sprintf("A sign-in of the role %s is ended by one of the role system.", x.Role)}
	}
	told := detail{Before: fields{"name": x.Name, "role": string(x.Role)}}
	if err = s.store.EndSignIn(ctx, x.Hash, s.audited(p, "sign_in.end", id, told)); errors.Is(err, engine.ErrNotFound) { // it has ended meanwhile
		err = nil
	}
	return x, err
}

// entering returns the principal in the tenant whose log records it: for a key for all tenants, the first.
func entering(p tenant.Principal) tenant.Principal {
	if p.Tenant == "" {
		p.Tenant = tenant.Default
	}
	return p
}
