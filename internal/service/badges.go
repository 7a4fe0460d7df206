package service

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// maxBadges limits how many badges a tenant may have.
const maxBadges = 1000

// Condition is the state of a job in one word, for people who know nothing else about it.
type Condition string

// The conditions of a job. The first that holds is shown.
const (
	Paused  Condition = "paused"  // somebody has paused it
	Down    Condition = "down"    // its last execution failed, or did not start in time
	Late    Condition = "late"    // it is due, and has not fired
	Up      Condition = "up"      // its last execution succeeded
	Unknown Condition = "unknown" // it has had none yet, or the last was cancelled
)

// BadgeOf is a badge and the name of its job.
type BadgeOf struct {
	engine.Badge
	Name string
}

// AddBadge makes a badge for a job, with the label and the hash in b.
func (s *Settings) AddBadge(ctx context.Context, p tenant.Principal, ref engine.Ref, b engine.Badge, once Once[BadgeOf]) (out BadgeOf, replay []byte, err error) {
	if err := allow(p, tenant.Write); err != nil {
		return out, nil, err
	}
	if b.Label != "" && !validLabel(b.Label) {
		return out, nil, job.Invalids{{Field: "label", Value: job.Show(b.Label), Want: "1 to 80 characters, not blank, without control characters, or null for the job's name"}}
	}
	j, err := s.find(ctx, p.Tenant, ref)
	if err == nil && j.State == job.Deleted {
		err = engine.ErrNotFound
	}
	if err != nil {
		return out, nil, err
	}
	b.ID, b.Tenant, b.Job, b.CreatedAt = uuid.UUID(newID()).String(), p.Tenant, j.ID, s.now()
	out = BadgeOf{b, j.Name}
	told := fields{"job": j.ID.String()}
	if b.Label != "" {
		told["label"] = b.Label
	}
	made, err := s.store.AddBadge(ctx, b, maxBadges, once.with(out, b.CreatedAt), s.audited(p, "badge.create", b.ID, detail{After: told}))
	if isConflict(err) {
		return out, nil, &OverQuota{What: fmt.Sprintf("A tenant has at most %d badges; revoke those that are shown nowhere.", maxBadges)}
	}
	if err != nil {
		return out, nil, fmt.Errorf("store a badge: %w", err)
	}
	replay, err = outcome(made)
	return out, replay, err
}

func validLabel(s string) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= 80 && strings.TrimSpace(s) != "" && !strings.ContainsFunc(s, unicode.IsControl)
}

// Badges lists the tenant's badges, newest first.
func (s *Settings) Badges(ctx context.Context, p tenant.Principal, page engine.Page) (out engine.Listed[BadgeOf], err error) {
	if err := allow(p, tenant.Read); err != nil {
		return out, err
	}
	found, err := s.store.FindBadges(ctx, p.Tenant, page)
	if err != nil {
		return out, err
	}
	out.Next, out.Total = found.Next, found.Total
	out.Rows, err = s.withNames(ctx, p.Tenant, found.Rows)
	return out, err
}

// withNames adds the names of the jobs.
func (s *Settings) withNames(ctx context.Context, t tenant.ID, bs []engine.Badge) ([]BadgeOf, error) {
	if len(bs) == 0 {
		return nil, nil
	}
	ids, out := make([]job.ID, len(bs)), make([]BadgeOf, len(bs))
	for i, b := range bs {
		ids[i] = b.Job
	}
	names, err := s.store.Names(ctx, t, ids)
	for i, b := range bs {
		out[i] = BadgeOf{b, names[b.Job]}
	}
	return out, err
}

// DeleteBadge revokes a badge of the tenant.
func (s *Settings) DeleteBadge(ctx context.Context, p tenant.Principal, id string) (BadgeOf, error) {
	if err := allow(p, tenant.Write); err != nil {
		return BadgeOf{}, err
	}
	b, err := s.store.DeleteBadge(ctx, p.Tenant, id, s.audited(p, "badge.revoke", id, detail{}))
	if err != nil {
		return BadgeOf{}, err
	}
	out, err := s.withNames(ctx, p.Tenant, []engine.Badge{b})
	if err != nil {
		return BadgeOf{}, err
	}
	return out[0], nil
}

// Shown returns what a badge shows to anyone who has its URL: the label or the name of a job, and its state.
// ErrNotFound if there is no such badge, or its job is deleted. Since anybody can trigger it, it only reads three
// rows by key.
func (s *Settings) Shown(ctx context.Context, hash [32]byte) (label string, is Condition, err error) {
	b, err := s.store.Badge(ctx, hash)
	if err != nil {
		return "", "", err
	}
	ctx = engine.Confine(ctx, b.Tenant)
	j, err := s.store.Job(ctx, b.Tenant, engine.Ref{ID: b.Job})
	if err == nil && j.State == job.Deleted {
		err = engine.ErrNotFound
	}
	if err != nil {
		return "", "", err
	}
	last, err := s.store.LastStatus(ctx, b.Tenant, []job.ID{j.ID}, j.CreatedAt.Add(-time.Hour)) // none of its executions finished before that
	if err != nil {
		return "", "", err
	}
	if label = b.Label; label == "" {
		label = j.Name
	}
	return label, s.condition(j, last[0]), nil
}

func (s *Settings) condition(j job.Job, last job.Status) Condition {
	switch {
	case j.State == job.Paused:
		return Paused
	case last == job.Failed || last == job.TimedOut || last == job.Expired:
		return Down
	case j.State == job.Active && !j.NextRunAt.IsZero() && j.NextRunAt.Before(s.now().Add(-OverdueAfter)):
		return Late
	case last == job.Succeeded:
		return Up
	}
	return Unknown
}
