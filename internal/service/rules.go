package service

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/notice"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Rules lists the tenant's notification rules.
func (s *Settings) Rules(ctx context.Context, p tenant.Principal) ([]notice.Rule, error) {
	if err := allow(p, tenant.Read); err != nil {
		return nil, err
	}
	return s.store.Rules(ctx, p.Tenant)
}

// Rule finds one of the tenant's notification rules.
func (s *Settings) Rule(ctx context.Context, p tenant.Principal, name string) (notice.Rule, error) {
	if err := allow(p, tenant.Read); err != nil {
		return notice.Rule{}, err
	}
	return s.store.Rule(ctx, p.Tenant, name)
}

// Blocked returns why notifications of a rule may no longer go to its URL, as far as the URL shows; "" if they may.
func (s *Settings) Blocked(ctx context.Context, r notice.Rule) (string, error) {
	v, err := s.barredURL(ctx, r.Tenant, "callback_url", r.URL)
	if err != nil || len(v) == 0 {
		return "", err
	}
	return fmt.Sprintf("It must be %s.", v[0].Want), nil
}

// PutRule creates or replaces a notification rule. refs are its jobs: existing jobs, or jobs that the existing rule
// covers already, so that a rule can be changed and silenced after one of its jobs was deleted.
func (s *Settings) PutRule(ctx context.Context, p tenant.Principal, r notice.Rule, refs []engine.Ref) (notice.Rule, error) {
	if err := allow(p, tenant.Manage); err != nil {
		return r, err
	}
	err := s.allowed(ctx, p, "notification_rules", "Notification rules are", func(q tenant.Quota) bool { return q.NotificationRules })
	if err != nil {
		return r, err
	}
	now := s.now()
	r.Tenant, r.CreatedAt, r.UpdatedAt = p.Tenant, now, now
	v := r.Check()
	if len(refs) > notice.MaxListed {
		v.Add("jobs", fmt.Sprintf("%d jobs", len(refs)), fmt.Sprintf("at most %d jobs; tags choose more", notice.MaxListed))
		refs = nil
	}
	var had notice.Rule
	if job.ValidKey(r.Name) {
		if had, err = s.store.Rule(ctx, p.Tenant, r.Name); err != nil && !errors.Is(err, engine.ErrNotFound) {
			return r, err
		}
	}
	if r.URL != had.URL || !r.Silent(now) { // a rule whose URL may no longer be called can still be silenced
		barred, err := s.barredURL(ctx, p.Tenant, "callback_url", r.URL)
		if err != nil {
			return r, err
		}
		v = append(v, barred...)
	}
	for i, ref := range refs {
		j, err := s.find(ctx, p.Tenant, ref)
		if errors.Is(err, engine.ErrNotFound) || err == nil && j.State == job.Deleted {
			if ref.Key == "" && slices.Contains(had.Jobs, ref.ID) {
				r.Jobs = append(r.Jobs, ref.ID)
				continue
			}
			shown := "key:" + ref.Key
			if ref.Key == "" {
				shown = ref.ID.String()
			}
			v.Add(fmt.Sprintf("jobs[%d]", i), shown, "the id of a job, or key: and its key")
			continue
		}
		if err != nil {
			return r, err
		}
		r.Jobs = append(r.Jobs, j.ID)
	}
	if len(v) > 0 {
		return r, v
	}
	told := fields{"events": fmt.Sprint(r.Events), "jobs": fmt.Sprint(len(r.Jobs)), "tags": strings.Join(r.Tags, ","), "callback_url": digest([]byte(r.URL))}
	err = s.store.PutRule(ctx, r, notice.MaxRules, s.audited(p, "notification_rule.put", r.Name, detail{After: told}))
	if isConflict(err) {
		return r, &OverQuota{What: fmt.Sprintf("A tenant has at most %d notification rules.", notice.MaxRules)}
	}
	if err != nil {
		return r, err
	}
	return s.store.Rule(ctx, p.Tenant, r.Name)
}

// DeleteRule forgets a notification rule.
func (s *Settings) DeleteRule(ctx context.Context, p tenant.Principal, name string) (notice.Rule, error) {
	if err := allow(p, tenant.Manage); err != nil {
		return notice.Rule{}, err
	}
	r, err := s.store.Rule(ctx, p.Tenant, name)
	if err != nil {
		return r, err
	}
	return r, s.store.DeleteRule(ctx, p.Tenant, name, s.audited(p, "notification_rule.delete", name, detail{}))
}

// TestRule sends a sample notification of a rule, and returns the execution that delivers it.
func (s *Settings) TestRule(ctx context.Context, p tenant.Principal, name string, payload func(notice.Rule, time.Time) []byte) (NewJob, error) {
	if err := allow(p, tenant.Manage); err != nil {
		return NewJob{}, err
	}
	r, err := s.store.Rule(ctx, p.Tenant, name)
	if err != nil {
		return NewJob{}, err
	}
	if err := s.store.Record(ctx, s.entry(p, "notification_rule.test", name, detail{})); err != nil { // first, so that none is sent without an entry
		return NewJob{}, err
	}
	return s.notify(ctx, r, "", payload(r, s.now()))
}

// Notify creates the job that delivers a notification of a rule, one for each key.
func (s *Settings) Notify(ctx context.Context, r notice.Rule, key string, payload []byte) error {
	_, err := s.notify(ctx, r, key, payload)
	return err
}

func (s *Settings) notify(ctx context.Context, r notice.Rule, key string, payload []byte) (NewJob, error) {
	d := r.Job()
	// A notification may repeat text of a target or a worker: nothing in it names a secret, whatever it looks like.
	d.Payload = bytes.ReplaceAll(payload, []byte("${secret:"), []byte(`\u0024{secret:`))
	var once Once[[]NewJob]
	if key != "" {
		sum := sha256.Sum256([]byte(key))
		once = Once[[]NewJob]{Key: key, Hash: sum, Encode: func([]NewJob) []byte { return []byte("{}") }}
	}
	p := tenant.Principal{Tenant: r.Tenant, Role: tenant.System, Name: "notification rule " + r.Name, Internal: true}
	made, _, err := s.jobs.CreateJob(ctx, p, d, once)
	return made, err
}

// tenant finds one.
func (s *shared) tenant(ctx context.Context, id tenant.ID) (tenant.Tenant, error) {
	all, err := s.store.Tenants(ctx)
	if err != nil {
		return tenant.Tenant{}, err
	}
	for _, t := range all {
		if t.ID == id {
			return t, nil
		}
	}
	return tenant.Tenant{}, engine.ErrNotFound
}
