package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Limits lists the limits of the tenant, its own before those of its queues.
func (s *Settings) Limits(ctx context.Context, p tenant.Principal) ([]job.Limit, error) {
	if err := allow(p, tenant.Read); err != nil {
		return nil, err
	}
	return s.store.Limits(ctx, p.Tenant)
}

// SetLimit sets a limit of the tenant, or of one of its queues; an empty one removes it.
func (s *Settings) SetLimit(ctx context.Context, p tenant.Principal, l job.Limit) error {
	if err := allow(p, tenant.Manage); err != nil {
		return err
	}
	var v job.Invalids
	if l.Queue != "" {
		v = CheckQueue(l.Queue)
	}
	job.CheckAtOnce(l.Max, "max_concurrent", &v)
	l.Rate.Check("rate_limit", &v)
	if err := v.Err(); err != nil {
		return err
	}
	l.Tenant = p.Tenant
	told := detail{After: fields{"max_concurrent": fmt.Sprint(l.Max), "rate_limit": l.Rate.String()}}
	if err := s.store.SetLimit(ctx, l, s.audited(p, "limit.set", l.Queue, told)); err != nil {
		return err
	}
	s.cfg.Refresh()
	return nil
}

// Tenants lists all tenants in order of their ids.
func (s *shared) Tenants(ctx context.Context, p tenant.Principal) ([]tenant.Tenant, error) {
	if err := allow(p, tenant.Run); err != nil {
		return nil, err
	}
	return s.store.Tenants(ctx)
}

// CreateTenant creates a tenant, whose id is derived from its name. With an idempotency key the id is derived from
// that, too, so that the same request again finds what it created.
func (s *shared) Tenant(ctx context.Context, p tenant.Principal, id tenant.ID) (tenant.Tenant, error) {
	all, err := s.Tenants(ctx, p)
	if err != nil {
		return tenant.Tenant{}, err
	}
	i := slices.IndexFunc(all, func(t tenant.Tenant) bool { return t.ID == id })
	if i < 0 {
		return tenant.Tenant{}, engine.ErrNotFound
	}
	return all[i], nil
}

// CreateTenant adds a tenant, whose id is made of its name. With an idempotency key the id is made of that, too, so
// that the same request again finds what it made.
func (s *Settings) CreateTenant(ctx context.Context, p tenant.Principal, name string, tier tenant.Tier, once Once[tenant.Tenant]) (t tenant.Tenant, replay []byte, err error) {
	if err := allow(p, tenant.Run); err != nil {
		return t, nil, err
	}
	t = tenant.Tenant{Name: name, Tier: tier, CreatedAt: s.now()}
	if err := checkTenant(t); err != nil {
		return t, nil, err
	}
	base := slug(name)
	if once.Key != "" {
		sum := sha256.Sum256(append([]byte(once.Key), once.Hash[:]...))
		t.ID = tenant.ID(base + "-" + hex.EncodeToString(sum[:4]))
		replay, err := keep(ctx, s.shared, p, t, once)
		if err != nil {
			return t, nil, err
		}
		if err := s.store.CreateTenant(ctx, t, s.audited(of(p, t.ID), "tenant.create", string(t.ID), detail{After: describedTenant(t)})); err != nil && !isConflict(err) {
			return t, nil, err // the same request again comes here again
		}
		return t, replay, s.access.seedSigningSecret(ctx, of(p, t.ID))
	}
	for n := 1; n <= maxSuffix; n++ {
		t.ID = tenant.ID(base)
		if n > 1 {
			t.ID = tenant.ID(fmt.Sprintf("%s-%d", base, n))
		}
		err := s.store.CreateTenant(ctx, t, s.audited(of(p, t.ID), "tenant.create", string(t.ID), detail{After: describedTenant(t)}))
		if err == nil {
			err = s.access.seedSigningSecret(ctx, of(p, t.ID))
		}
		if !errors.Is(err, engine.ErrConflict) {
			return t, nil, err
		}
	}
	return t, nil, job.Invalids{{Field: "name", Value: job.Show(name), Want: fmt.Sprintf("another name: %d tenants have this one", maxSuffix)}}
}

// maxSuffix limits how many tenants may have one name, or names that yield the same id.
const maxSuffix = 100

// TenantChange holds the changes of a tenant; nil leaves a field as it is.
type TenantChange struct {
	Name   *string
	Tier   *tenant.Tier
	Quotas func(tenant.Overrides) tenant.Overrides // from those that were
	Reach  *[]string                               // address ranges

	HTTPSOnly *bool
}

// UpdateTenant changes a tenant's name, tier, quota overrides, or callback rules. Every server obeys it within 5 s. A
// tenant keeps what it has, even what it could no longer create; but history that is too old is hidden from then on,
// and dropped after tenant.CutGrace.
func (s *Settings) UpdateTenant(ctx context.Context, p tenant.Principal, id tenant.ID, c TenantChange) (tenant.Tenant, error) {
	t, err := s.Tenant(ctx, p, id)
	if err != nil {
		return t, err
	}
	was, kept := describedTenant(t), s.QuotaOf(t)
	if c.Name != nil {
		t.Name = *c.Name
	}
	if c.Tier != nil {
		t.Tier = *c.Tier
	}
	if c.Quotas != nil {
		t.Overrides = c.Quotas(t.Overrides)
	}
	if c.Reach != nil {
		if t.Reach, err = checkReach(*c.Reach); err != nil {
			return t, err
		}
	}
	if c.HTTPSOnly != nil {
		t.HTTPSOnly = *c.HTTPSOnly
	}
	if err := checkTenant(t); err != nil {
		return t, err
	}
	if s.QuotaOf(t).Shorter(kept) {
		t.CutAt = s.now()
	}
	told := differing(was, describedTenant(t))
	if err := s.store.UpdateTenant(ctx, t, s.audited(of(p, id), "tenant.update", string(id), told)); err != nil {
		return t, err
	}
	s.quotas.forget()
	s.cfg.Refresh()
	return t, nil
}

func checkTenant(t tenant.Tenant) error {
	var v job.Invalids
	if n := utf8.RuneCountInString(t.Name); n < 1 || n > 255 || !utf8.ValidString(t.Name) || strings.TrimSpace(t.Name) == "" || strings.ContainsFunc(t.Name, unicode.IsControl) {
		v.Add("name", t.Name, "1 to 255 characters, not blank, without control characters")
	}
	if !slices.Contains(tenant.Tiers(), t.Tier) {
		v.Add("tier", t.Tier, "one of free, pro, enterprise")
	}
	checkOverrides(t.Overrides, &v)
	if t.ID == tenant.Default && t.Overrides != (tenant.Overrides{}) {
		v.Add("quotas", "(some)", "nothing: the tenant default has no limits")
	}
	return v.Err()
}

// maxReach limits how many private address ranges a tenant's callbacks may reach.
const maxReach = 100

// checkReach validates address ranges and returns their stored form.
func checkReach(ranges []string) (string, error) {
	var v job.Invalids
	if n := len(ranges); n > maxReach {
		v.Add("callbacks_allow", fmt.Sprintf("%d ranges", n), fmt.Sprintf("at most %d", maxReach))
		return "", v
	}
	var out []string
	for i, text := range ranges {
		p, err := netip.ParsePrefix(text)
		if a, bad := netip.ParseAddr(text); bad == nil && a.Zone() == "" { // one address
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			v.Add(fmt.Sprintf("callbacks_allow[%d]", i), text, "an address range such as 10.0.0.0/8, or one address")
			continue
		}
		if s := p.Masked().String(); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ","), v.Err()
}

// slug derives an id from a name: lower-case letters, digits and single dashes.
func slug(name string) string {
	var b strings.Builder
	dash := false
	for _, r := range strings.ToLower(name) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			if dash && b.Len() > 0 {
				b.WriteByte('-')
			}
			b.WriteRune(r)
			dash = false
		} else {
			dash = true
		}
		if b.Len() >= 40 {
			break
		}
	}
	if b.Len() == 0 {
		return "tenant"
	}
	return b.String()
}
