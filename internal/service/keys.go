package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// maxKeys limits how many unrevoked keys a tenant may have.
const maxKeys = 1000

// AllTenants stands for every tenant, of a worker's key.
const AllTenants = "*"

// Keys lists the tenant's API keys.
func (s *Access) Keys(ctx context.Context, p tenant.Principal) ([]engine.Key, error) {
	if err := allow(p, tenant.Manage); err != nil {
		return nil, err
	}
	own, err := s.store.Keys(ctx, p.Tenant)
	if err != nil || p.Role != tenant.System {
		return own, err
	}
	all, err := s.store.Keys(ctx, "") // of workers for all tenants
	return append(own, all...), err
}

// AddKey stores an API key, given in k except for its creation time. named is the requested tenant, or "".
func (s *Access) AddKey(ctx context.Context, p tenant.Principal, named string, k engine.Key, once Once[engine.Key]) (engine.Key, []byte, error) {
	return s.addKey(ctx, p, named, k, nil, once)
}

// addKey stores a key, replacing another one if that is given.
func (s *Access) addKey(ctx context.Context, p tenant.Principal, named string, k engine.Key, old *engine.Replaced, once Once[engine.Key]) (engine.Key, []byte, error) {
	if err := allow(p, tenant.Manage); err != nil {
		return k, nil, err
	}
	k.CreatedAt, k.Tenant = s.now(), p.Tenant
	v := checkKey(k)
	switch {
	case named == "" || named == string(p.Tenant):
	case p.Role != tenant.System:
		v.Add("tenant_id", named, "the credential's own tenant: another one needs the role system")
	case named == AllTenants:
		if k.Tenant = ""; k.Role != tenant.Worker {
			v.Add("tenant_id", named, "one tenant: only the role worker may be for all")
		}
	default:
		k.Tenant = tenant.ID(named)
		ok, err := s.store.HasTenant(ctx, k.Tenant)
		if err != nil {
			return k, nil, err
		}
		if !ok {
			v.Add("tenant_id", named, "the id of a tenant that exists")
		}
	}
	if len(v) == 0 && !p.Role.Gives(k.Role) {
		v.Add("role", string(k.Role), fmt.Sprintf("a role that %s may give: none with more rights than it has itself", p.Role))
	}
	if len(v) > 0 {
		return k, nil, v
	}
	told := fields{"name": k.Name, "role": string(k.Role)}
	if !k.ExpiresAt.IsZero() {
		told["expires_at"] = k.ExpiresAt.Format(time.RFC3339)
	}
	in := p
	if k.Tenant != "" {
		in = of(p, k.Tenant)
	}
	entry := s.audited(in, "api_key.create", k.ID, detail{After: told})
	var out engine.Created
	var err error
	if old == nil {
		out, err = s.store.AddKey(ctx, p.Tenant, k, maxKeys, once.with(k, k.CreatedAt), entry)
	} else {
		out, err = s.store.RotateKey(ctx, p.Tenant, k, maxKeys, *old, once.with(k, k.CreatedAt), entry)
	}
	if isConflict(err) {
		return k, nil, &OverQuota{What: fmt.Sprintf("A tenant has at most %d API keys that are not revoked; revoke those that nobody uses.", maxKeys)}
	}
	if err != nil {
		return k, nil, fmt.Errorf("store a key: %w", err)
	}
	replay, err := outcome(out)
	return k, replay, err
}

func checkKey(k engine.Key) (v job.Invalids) {
	if n := utf8.RuneCountInString(k.Name); n < 1 || n > 255 || !utf8.ValidString(k.Name) || strings.TrimSpace(k.Name) == "" || strings.ContainsFunc(k.Name, unicode.IsControl) {
		v.Add("name", k.Name, "1 to 255 characters, not blank, without control characters")
	}
	if !slices.Contains(tenant.Roles(), k.Role) {
		v.Add("role", string(k.Role), "one of viewer, operator, admin, worker, system")
	}
	if !k.ExpiresAt.IsZero() && !k.ExpiresAt.After(k.CreatedAt) {
		v.Add("expires_at", k.ExpiresAt.Format(time.RFC3339), "an instant to come, or null for never")
	}
	return v
}

// RotateKey replaces one of the tenant's keys, which continues to work for a while.
func (s *Access) RotateKey(ctx context.Context, p tenant.Principal, id string, k engine.Key, overlap time.Duration, once Once[engine.Key]) (engine.Key, []byte, error) {
	old, err := s.KeyOf(ctx, p, id)
	if err != nil {
		return k, nil, err
	}
	k.Name, k.Role = old.Name, old.Role
	if k.ExpiresAt.IsZero() {
		k.ExpiresAt = old.ExpiresAt // an expiring key is not replaced by one that never expires
	}
	if !old.Works(s.now()) {
		return k, nil, &NotDone{"rotate", "The key has expired or was revoked; make a new one."}
	}
	named := string(old.Tenant)
	if named == "" {
		named = AllTenants
	}
	until := s.now().Add(overlap)
	in := p
	if old.Tenant != "" {
		in = of(p, old.Tenant)
	}
	told := detail{Before: fields{"name": old.Name}, After: fields{"name": old.Name, "expires_at": until.UTC().Format(time.RFC3339), "replaced_by": k.ID}}
	return s.addKey(ctx, p, named, k, &engine.Replaced{Tenant: old.Tenant, ID: id, Until: until, Entry: s.entry(in, "api_key.expire", id, told)}, once)
}

// KeyOf finds one of the tenant's API keys.
func (s *Access) KeyOf(ctx context.Context, p tenant.Principal, id string) (engine.Key, error) {
	if err := allow(p, tenant.Manage); err != nil {
		return engine.Key{}, err
	}
	k, err := s.store.KeyOf(ctx, p.Tenant, id)
	if p.Role == tenant.System && errors.Is(err, engine.ErrNotFound) {
		return s.store.KeyOf(ctx, "", id)
	}
	return k, err
}

// RevokeKey revokes one of the tenant's API keys. Servers refuse it within a few seconds.
func (s *Access) RevokeKey(ctx context.Context, p tenant.Principal, id string) (engine.Key, error) {
	k, err := s.KeyOf(ctx, p, id)
	if err != nil {
		return k, err
	}
	if !p.Role.Gives(k.Role) {
		return k, &NotDone{"revoke", fmt.Sprintf("A key of the role %s is revoked by one of the role system.", k.Role)}
	}
	err = s.store.RevokeKey(ctx, k.Tenant, id, s.now(), s.audited(p, "api_key.revoke", id, detail{Before: fields{"name": k.Name, "role": string(k.Role)}}))
	if isConflict(err) {
		return k, &NotDone{"revoke", "It is the last key of the role system that works: make another one first."}
	}
	if err != nil {
		return k, err
	}
	return s.store.KeyOf(ctx, k.Tenant, id)
}
