package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// fields describe an object in the audit log: plain text, digests where it may be long or private, never a secret.
type fields map[string]string

// detail holds the fields before and after a change; nil if there was, or is, nothing.
type detail struct {
	Before fields `json:"before,omitempty"`
	After  fields `json:"after,omitempty"`
}

// entry returns the audit entry of a change.
func (s *shared) entry(p tenant.Principal, action, object string, d detail) audit.Entry {
	e := audit.Entry{
		Tenant: p.Tenant, At: s.now(), By: p.Name, Role: p.Role, Key: p.Key, From: p.From, Request: p.Asked, Action: action, Object: object, Count: 1,
	}
	if d.Before != nil || d.After != nil {
		e.Detail, _ = json.Marshal(d) // of texts only
	}
	return e
}

// audited returns the entry that the store writes with a change. It is nil for changes of the product itself, which
// someone has requested before.
func (s *shared) audited(p tenant.Principal, action, object string, d detail) *audit.Entry {
	if p.Internal {
		return nil
	}
	return new(s.entry(p, action, object, d))
}

// of returns the principal as it acts in another tenant, in whose log the change belongs.
func of(p tenant.Principal, t tenant.ID) tenant.Principal {
	p.Tenant = t
	return p
}

// digest replaces what is too long, or too private, to be shown.
func digest(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:16])
}

func digestOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil || string(b) == "null" || string(b) == "{}" || string(b) == "[]" {
		return ""
	}
	return digest(b)
}

// brief describes a new job in the audit log.
func brief(j *job.Job) fields {
	f := fields{"name": j.Name, "target": string(j.Target.Kind), "schedule": planOf(j)}
	if j.Target.Kind == job.Workflow {
		f["version"] = strconv.Itoa(j.Target.Version)
	}
	return f
}

// planOf describes when a job fires, in a few words.
func planOf(j *job.Job) string {
	kind := j.Schedule.Type.String()
	switch j.Schedule.Type {
	case job.Cron:
		return kind + " " + j.Schedule.Cron
	case job.Interval:
		return kind + " " + j.Schedule.Every.String()
	case job.Immediate, job.OneTime, job.Manual:
	}
	return kind
}

// described returns all fields of a job, to find changes.
func described(j *job.Job) fields {
	s := j.Schedule
	f := brief(j)
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339Nano)
	}
	for name, value := range map[string]string{
		"status": j.State.String(), "pause_reason": j.PauseNote, "paused_until": at(j.PausedTill),
		"description": digest([]byte(j.Description)), "owner": j.Owner, "runbook": j.Runbook, "key": j.Key, "priority": strconv.Itoa(j.Priority), "queue": j.Queue,
		"tags": strings.Join(j.Tags, ","), "labels": strings.Join(j.Labels, ","),
		"scheduled_time": at(s.At), "timezone": s.Zone, "day": s.Day, "jitter": s.Jitter.String(), "start_at": at(s.Start), "end_at": at(s.End),
		"max_runs": fmt.Sprint(s.MaxRuns), "calendar": s.Calendar,
		"callback_url": digest([]byte(j.Target.URL)), "execution": digestOf(j.Target), "headers": digestOf(j.Target.Headers), "payload": digest(j.Payload),
		"timeout": j.Target.Timeout.String(), "retry_policy": fmt.Sprintf("%d %s %s %s", j.Retry.MaxRetries, j.Retry.Backoff, j.Retry.InitialDelay, j.Retry.MaxDelay),
		"overlap": string(j.Overlap), "catch_up": fmt.Sprintf("%s %d", j.CatchUp, j.CatchUpLimit),
		"max_concurrent": strconv.Itoa(j.MaxConcurrent), "concurrency_key": j.ConcurrencyKey, "rate_limit": j.Rate.String(), "unique_key": j.UniqueKey,
		"expires_after": j.ExpiresAfter.String(), "auto_redrive_after": j.AutoRedriveAfter.String(),
		"retention": retained(j.Retention), "depends_on": listed(j.DependsOn), "depends_on_condition": j.DependsIf,
	} {
		f[name] = value
	}
	return f
}

func retained(r job.Retention) string {
	if r.IsZero() {
		return ""
	}
	return fmt.Sprintf("days %d, failed_days %d", r.Days, r.FailedDays)
}

func listed(ids []job.ID) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	return strings.Join(texts, ",")
}

// differing returns the fields that differ.
func differing(before, after fields) detail {
	d := detail{Before: fields{}, After: fields{}}
	for name, was := range before {
		if is := after[name]; is != was {
			d.Before[name], d.After[name] = was, is
		}
	}
	for name, is := range after {
		if _, ok := before[name]; !ok && is != "" {
			d.Before[name], d.After[name] = "", is
		}
	}
	return d
}

// created returns the entry of a creation: one per request, however many jobs it creates.
func (s *shared) created(p tenant.Principal, made []NewJob, stored int) *audit.Entry {
	if p.Internal || s.cfg.Unmetered || stored == 0 {
		return nil
	}
	j := made[slices.IndexFunc(made, func(n NewJob) bool { return !n.Instead })].Job
	return &audit.Entry{
		Tenant: p.Tenant, At: j.CreatedAt, By: p.Name, Role: p.Role, Key: p.Key, From: p.From, Request: p.Asked, Action: "job.create", Object: j.ID.String(),
		Count: stored, Detail: brieflyMade(j),
	}
}

// brieflyMade returns the detail of a new job, like brief, but encoded directly, because every job has one.
func brieflyMade(j *job.Job) []byte {
	b := append(make([]byte, 0, 64+len(j.Name)+len(j.Schedule.Cron)), `{"after":{"name":`...)
	b = audit.AppendText(b, j.Name)
	b = audit.AppendText(append(b, `,"schedule":`...), planOf(j))
	b = audit.AppendText(append(b, `,"target":`...), string(j.Target.Kind))
	return append(b, "}}"...)
}

// describedTenant describes a tenant in the audit log.
func describedTenant(t tenant.Tenant) fields {
	f := fields{"name": t.Name, "tier": t.Tier.String()}
	if o := engine.EncodeOverrides(t.Overrides); o != "" {
		f["quotas"] = o
	}
	if t.Reach != "" {
		f["callbacks_allow"] = t.Reach
	}
	if t.HTTPSOnly {
		f["callbacks_https_only"] = "true"
	}
	return f
}

// AuditEntries lists the tenant's audit entries, newest first.
func (s *Access) AuditEntries(ctx context.Context, p tenant.Principal, f engine.AuditFilter, page engine.Page) (engine.AuditPage, error) {
	if err := allow(p, tenant.Manage); err != nil {
		return engine.AuditPage{}, err
	}
	f.Tenant = p.Tenant
	return s.store.AuditEntries(ctx, f, page)
}

// Verification describes how far a chain was checked, and the findings.
type Verification struct {
	Seals, Entries int64
	Unsealed       int64         // entries that are not in the chain yet
	First          int64         // the number of the first stored seal; 0: there is none
	Head           audit.Seal    // the last that was checked
	Broken         *audit.Broken // nil: all is as it was sealed
	More           bool          // it stopped here; the next one continues
}

// Limits on the work of one verification.
const (
	sealsAtOnce = 20
	verifyTime  = 10 * time.Second
)

// VerifyAudit checks the tenant's audit chain from after a seal (0: from the first stored one), for as long as a
// request may take. hash is the sum of that seal, if the caller knows it.
func (s *Access) VerifyAudit(ctx context.Context, p tenant.Principal, after audit.Seal) (v Verification, err error) {
	if err := allow(p, tenant.Manage); err != nil {
		return v, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*verifyTime)
	defer cancel()
	began := time.Now()
	if v.Unsealed, err = s.store.Unsealed(ctx, p.Tenant); err != nil {
		return v, err
	}
	prev := after
	last := int64(-1) // position of the last entry checked; -1: none was
	for time.Since(began) < verifyTime {
		some, err := s.store.AuditSeals(ctx, p.Tenant, prev.Number, sealsAtOnce)
		if err != nil {
			return v, err
		}
		if len(some) == 0 {
			return v, s.stray(ctx, p.Tenant, last, after, &v)
		}
		for _, x := range some {
			if v.First == 0 && after.Number == 0 { // older seals have expired
				v.First, prev = x.Number, audit.Seal{Number: x.Number - 1, Hash: x.Prev}
				if x.Number == 1 {
					prev = audit.Seal{}
				}
			}
			if v.Broken = audit.Verify(prev, x.Seal, x.Entries); v.Broken != nil {
				return v, nil
			}
			v.Seals, v.Entries, v.Head, prev, last = v.Seals+1, v.Entries+int64(len(x.Marks)), x.Seal, x.Seal, x.Last()
		}
	}
	v.More = true
	return v, nil
}

// Noted records a change of a process, which is not in the store.
func (s *Access) Noted(ctx context.Context, p tenant.Principal, action, object, before, after string) error {
	if err := allow(p, tenant.Run); err != nil {
		return err
	}
	return s.store.Record(ctx, s.entry(p, action, object, detail{Before: fields{object: before}, After: fields{object: after}}))
}

// Denied writes an entry about requests whose caller could not be authenticated.
func (s *Access) Denied(ctx context.Context, e audit.Entry) error { return s.store.Record(ctx, e) }

// BundleRead records that someone read the support bundle of a host.
func (s *Access) BundleRead(ctx context.Context, p tenant.Principal, host string) error {
	if err := allow(p, tenant.Run); err != nil {
		return err
	}
	return s.store.Record(ctx, s.entry(p, "support.read", host, detail{}))
}

// stray looks after the last seal for entries that should have been sealed by now.
func (s *Access) stray(ctx context.Context, t tenant.ID, last int64, after audit.Seal, v *Verification) error {
	if last < 0 && after.Number > 0 { // it continued after a seal whose entries were not read now
		return nil
	}
	sealed, err := s.store.StrayEntry(ctx, t, max(last, 0))
	if err != nil || sealed == 0 {
		return err
	}
	fresh, err := s.store.AuditSeals(ctx, t, v.Head.Number, 1) // sealed since the check
	if err != nil || len(fresh) > 0 {
		return err
	}
	v.Broken = &audit.Broken{Seal: v.Head.Number, Seq: sealed, Why: "the entry was put in later"}
	return nil
}
