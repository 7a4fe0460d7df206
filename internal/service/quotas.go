package service

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/ratelimit"
	"github.com/carillon-jobs/carillon/internal/workflows"
)

// OverQuota is the error that a tenant's quota is exceeded.
type OverQuota struct {
	What    string // in a sentence
	Quota   string // its name in the API; "": it is not a quota of the tier
	Field   string // of the request; "": the request as a whole
	Limit   int64
	Current int64         // that it has, or would have
	Size    bool          // the request is too large
	Wait    time.Duration // the request is too early: when to retry
}

func (o *OverQuota) Error() string { return o.What }

// quotaAge is how long a server caches quotas.
const quotaAge = 2 * time.Second

// quotas holds those of all tenants, as last read.
type quotas struct {
	reading chan struct{} // a buffer of one: whoever fills it rereads them
	known   atomic.Pointer[knownQuotas]
}

type knownQuotas struct {
	of    map[tenant.ID]tenant.Tenant
	holds []tenant.Hold
	at    time.Time
}

// forget makes them be read again.
func (q *quotas) forget() { q.known.Store(nil) }

// find returns the cached settings of a tenant, and whether they are fresh.
func (q *quotas) find(t tenant.ID, now time.Time) (x tenant.Tenant, known, fresh bool) {
	k := q.known.Load()
	if k == nil {
		return x, false, false
	}
	x, known = k.of[t]
	age := now.Sub(k.at)
	return x, known, known && age >= 0 && age <= quotaAge
}

// Quota returns the quota of the caller's tenant.
func (s *shared) Quota(ctx context.Context, p tenant.Principal) (tenant.Quota, error) {
	if p.Internal || p.Tenant == tenant.Default || s.cfg.Unmetered {
		return tenant.Unlimited(), nil
	}
	t, err := s.settings(ctx, p.Tenant)
	if err != nil {
		return tenant.Quota{}, err
	}
	return s.QuotaOf(t), nil
}

// QuotaOf returns the quota of a tenant with these settings.
func (s *shared) QuotaOf(t tenant.Tenant) tenant.Quota { return t.QuotaWithin(s.cfg.KeepDays) }

// RunLimits returns a tenant's quotas for its runs.
func (s *shared) RunLimits(ctx context.Context, id tenant.ID) (workflows.Limits, error) {
	if s.cfg.Unmetered {
		return workflows.Limits{Payload: tenant.NoLimit}, nil
	}
	t, err := s.settings(ctx, id)
	if err != nil {
		return workflows.Limits{}, err
	}
	l := workflows.Limits{Width: t.Tier.MapWidth(), Live: t.Tier.LiveNodes(), Payload: t.Quota().PayloadBytes}
	if id == tenant.Default {
		l.Live, l.Payload = 0, tenant.NoLimit
	}
	return l, nil
}

// settings returns those of a tenant, as the store had them at most 2 s ago; older ones only while they are being
// reread, or cannot be. An unknown tenant has those of the free tier: others check whether it exists.
func (s *shared) settings(ctx context.Context, id tenant.ID) (tenant.Tenant, error) {
	q := &s.quotas
	t, known, fresh := q.find(id, s.clock.Now())
	if fresh {
		return t, nil
	}
	select {
	case q.reading <- struct{}{}:
	default:
		if known {
			return t, nil
		}
		select {
		case q.reading <- struct{}{}:
		case <-ctx.Done():
			return tenant.Tenant{}, ctx.Err()
		}
	}
	defer func() { <-q.reading }()
	if x, _, fresh := q.find(id, s.clock.Now()); fresh {
		return x, nil
	}
	ts, err := s.store.Tenants(engine.Unconfined(ctx))
	var hs []tenant.Hold
	if err == nil {
		hs, err = s.store.Holds(engine.Unconfined(ctx), "")
	}
	if err != nil {
		if known {
			return t, nil
		}
		return tenant.Tenant{}, err
	}
	now := &knownQuotas{of: make(map[tenant.ID]tenant.Tenant, len(ts)), holds: hs, at: s.clock.Now()}
	for _, t := range ts {
		now.of[t.ID] = t
	}
	q.known.Store(now)
	if t, known = now.of[id]; !known {
		return tenant.Tenant{ID: id, Tier: tenant.Free}, nil
	}
	return t, nil
}

// allowed returns *OverQuota if a tenant's quota does not include a feature.
func (s *shared) allowed(ctx context.Context, p tenant.Principal, name, what string, has func(tenant.Quota) bool) error {
	q, err := s.Quota(ctx, p)
	if err != nil || has(q) {
		return err
	}
	return &OverQuota{What: what + " not part of the tenant's quota; a higher tier has them.", Quota: name}
}

func (s *shared) deadLetters(ctx context.Context, p tenant.Principal) error {
	return s.allowed(ctx, p, "dead_letters", "Dead letters are", func(q tenant.Quota) bool { return q.DeadLetters })
}

// fits returns *OverQuota if the payload of a definition, which may replace another, is longer than the quota allows.
// It is called before anything reads the payload.
func fits(q tenant.Quota, d, was *job.Definition) error {
	if n := len(d.Payload); q.PayloadBytes >= 0 && n > q.PayloadBytes && (was == nil || n > len(was.Payload)) {
		return tooLong("execution.payload", n, q)
	}
	return nil
}

// overrideFits is fits for a payload that replaces the job's for one execution.
func (s *shared) overrideFits(ctx context.Context, p tenant.Principal, payload []byte) error {
	return s.valueFits(ctx, p, "payload_override", payload)
}

// valueFits returns *OverQuota if the value of a field is longer than payloads may be.
func (s *shared) valueFits(ctx context.Context, p tenant.Principal, field string, value []byte) error {
	if len(value) == 0 {
		return nil
	}
	q, err := s.Quota(ctx, p)
	if err == nil && q.PayloadBytes >= 0 && len(value) > q.PayloadBytes {
		err = tooLong(field, len(value), q)
	}
	return err
}

// metered returns *OverQuota if a definition, whose payload fits, exceeds the quota. If it replaces another, only
// changes count: a tenant keeps what it has.
func (s *Jobs) metered(ctx context.Context, q tenant.Quota, ps *plans, d, was *job.Definition) error {
	if n := d.Retry.MaxRetries; q.MaxRetries >= 0 && n > q.MaxRetries && (was == nil || n > was.Retry.MaxRetries) {
		return &OverQuota{
			What:  fmt.Sprintf("Jobs of this tenant are retried %d times at most; this one would be %d times.", q.MaxRetries, n),
			Quota: "max_retries", Field: "retry_policy.max_retries", Limit: int64(q.MaxRetries), Current: int64(n),
		}
	}
	if n := d.Priority; n < q.BestPriority && (was == nil || n < was.Priority) {
		return &OverQuota{
			What:  fmt.Sprintf("The best priority for this tenant is %d; this job would have %d.", q.BestPriority, n),
			Quota: "best_priority", Field: "priority", Limit: int64(q.BestPriority), Current: int64(n),
		}
	}
	if !d.Schedule.Type.Recurs() || q.ShortestInterval <= 0 || was != nil && d.Schedule == was.Schedule {
		return nil
	}
	cal, err := ps.calendar(ctx, d.Schedule.Calendar)
	if err != nil {
		return err
	}
	plan, err := s.cfg.Schedules.Plan(d.Schedule, ps.at, cal)
	if err != nil {
		return err
	}
	if gap, closer := plan.Closer(q.ShortestInterval); closer {
		field := "schedule.every"
		if d.Schedule.Type == job.Cron {
			field = "schedule.cron_expression"
		}
		return &OverQuota{
			What:  fmt.Sprintf("Jobs of this tenant fire every %s at most; this one would fire after %s.", q.ShortestInterval, gap),
			Quota: "shortest_interval_ms", Field: field, Limit: q.ShortestInterval.Milliseconds(), Current: gap.Milliseconds(),
		}
	}
	return nil
}

func tooLong(field string, n int, q tenant.Quota) error {
	return &OverQuota{
		What:  fmt.Sprintf("Payloads of this tenant have at most %d bytes; this one has %d.", q.PayloadBytes, n),
		Quota: "payload_bytes", Field: field, Limit: int64(q.PayloadBytes), Current: int64(n), Size: true,
	}
}

// takeExecutions takes n executions of a request out of the tenant's rate, or returns *OverQuota with the time at
// which there is enough.
func (s *shared) takeExecutions(q tenant.Quota, t tenant.ID, n int) error {
	if q.ExecutionsPerMinute < 0 || n == 0 {
		return nil
	}
	rate := job.Rate{Count: q.ExecutionsPerMinute, Per: time.Minute, Burst: q.ExecutionsBurst}
	a := s.cfg.Limiter.Take("executions/"+string(t), rate, n)
	switch {
	case a.OK:
		return nil
	case a.Wait == ratelimit.Never:
		return &OverQuota{
			What:  fmt.Sprintf("One request may begin %d executions at most, what the tenant may begin at once; this one would begin %d.", rate.Burst, n),
			Quota: "executions_burst", Limit: int64(rate.Burst), Current: int64(n),
		}
	}
	return &OverQuota{
		What: fmt.Sprintf("The tenant may begin %d executions a minute, and %d at once; %d are left now, and this request would begin %d. Try again in %s.",
			rate.Count, rate.Burst, a.Left, n, a.Wait.Round(time.Millisecond)),
		Quota: "executions_per_minute", Limit: int64(rate.Count), Current: int64(rate.Burst - a.Left + n), Wait: a.Wait,
	}
}

// beginOne is takeExecutions for one execution.
func (s *shared) beginOne(ctx context.Context, p tenant.Principal) error {
	q, err := s.Quota(ctx, p)
	if err != nil {
		return err
	}
	return s.takeExecutions(q, p.Tenant, 1)
}

// crowded returns *OverQuota if the tenant has the maximum number of jobs, after counting them again.
func (s *shared) crowded(ctx context.Context, t tenant.ID, n int, most int64) error {
	has, err := s.store.CountJobs(ctx, t)
	if err != nil {
		return err
	}
	if has+int64(n) <= most {
		return nil
	}
	return &OverQuota{
		What:  fmt.Sprintf("The tenant may have %d active jobs; it has %d, and this request would add %d. Jobs that are over, or deleted, make room.", most, has, n),
		Quota: "active_jobs", Limit: most, Current: has,
	}
}

// Usage counts a tenant's usage of its quota.
type Usage struct {
	ActiveJobs int64 // tenant.NoLimit: not counted, as there is no limit
}

// Allowance is a tenant with its quota and usage.
type Allowance struct {
	tenant.Tenant
	Quota tenant.Quota
	Usage Usage
}

// Allowance returns the quota and usage of the caller's tenant.
func (s *shared) Allowance(ctx context.Context, p tenant.Principal) (Allowance, error) {
	if err := allow(p, tenant.Read); err != nil {
		return Allowance{}, err
	}
	t, err := s.tenant(ctx, p.Tenant)
	if err != nil {
		return Allowance{}, err
	}
	return s.allowance(ctx, t)
}

// AllowanceOf returns that of any tenant.
func (s *shared) AllowanceOf(ctx context.Context, p tenant.Principal, id tenant.ID) (Allowance, error) {
	t, err := s.Tenant(ctx, p, id)
	if err != nil {
		return Allowance{}, err
	}
	return s.allowance(ctx, t)
}

func (s *shared) allowance(ctx context.Context, t tenant.Tenant) (a Allowance, err error) {
	a = Allowance{Tenant: t, Quota: s.QuotaOf(t), Usage: Usage{ActiveJobs: tenant.NoLimit}}
	if a.Quota.ActiveJobs >= 0 {
		a.Usage.ActiveJobs, err = s.store.CountJobs(ctx, t.ID)
	}
	return a, err
}

// checkOverrides validates overrides of a tier's quotas.
func checkOverrides(o tenant.Overrides, v *job.Invalids) {
	number := func(name string, n *int, least, most int, none bool) {
		if n == nil || *n >= least && *n <= most || none && *n == tenant.NoLimit {
			return
		}
		want := fmt.Sprintf("a whole number from %d to %d", least, most)
		if none {
			want += ", -1 for no limit"
		}
		v.Add("quotas."+name, *n, want+", or null for what the tier gives")
	}
	const many = 1_000_000
	if n := o.ActiveJobs; n != nil && *n != tenant.NoLimit && (*n < 0 || *n > 1e12) {
		v.Add("quotas.active_jobs", *n, "a whole number from 0 to 1000000000000, -1 for no limit, or null for what the tier gives")
	}
	number("executions_per_minute", o.ExecutionsPerMinute, 1, 60*many, true)
	number("executions_burst", o.ExecutionsBurst, 1, 60*many, false)
	number("payload_bytes", o.PayloadBytes, 0, 16<<20, true)
	number("history_days", o.HistoryDays, 1, 36500, true)
	number("max_retries", o.MaxRetries, 0, 1000, true)
	number("best_priority", o.BestPriority, 1, 10, false)
	number("requests_per_second", o.RequestsPerSecond, 1, many, true)
	number("weight", o.Weight, 1, 1000, false)
	if n := o.ShortestIntervalMS; n != nil && (*n < 0 || *n > 31*24*3600_000) {
		v.Add("quotas.shortest_interval_ms", *n, "a whole number from 0 to 2678400000 (31 days), or null for what the tier gives")
	}
}

// registering limits the rate at which a tenant's worker sessions start: after a restart a whole fleet does at once.
var registering = job.Rate{Count: 50, Per: time.Second, Burst: 1000}

// TakeRegistration takes one new worker session out of the tenant's rate, or returns *OverQuota with the time at
// which there is room.
func (s *shared) TakeRegistration(p tenant.Principal) error {
	a := s.cfg.Limiter.Take("registrations/"+string(p.Tenant), registering, 1)
	if a.OK {
		return nil
	}
	return &OverQuota{
		What:  fmt.Sprintf("The tenant's workers may begin %d sessions a second, and %d at once. Try again in %s.", registering.Count, registering.Burst, a.Wait.Round(time.Millisecond)),
		Limit: int64(registering.Count), Current: int64(registering.Count + 1), Wait: a.Wait,
	}
}

// TakeRequest takes one request out of the tenant's rate of requests, and returns that rate (tenant.NoLimit:
// unlimited) and what is left; *OverQuota if it is one too many.
func (s *shared) TakeRequest(ctx context.Context, p tenant.Principal) (limit int, a ratelimit.Answer, err error) {
	q, err := s.Quota(ctx, p)
	if err != nil || q.RequestsPerSecond < 0 {
		return q.RequestsPerSecond, a, err
	}
	rate := job.Rate{Count: q.RequestsPerSecond, Per: time.Second, Burst: q.RequestsPerSecond}
	if a = s.cfg.Limiter.Take("requests/"+string(p.Tenant), rate, 1); !a.OK {
		err = &OverQuota{
			What:  fmt.Sprintf("The tenant may send %d requests a second. Try again in %s.", rate.Count, a.Wait.Round(time.Millisecond)),
			Quota: "requests_per_second", Limit: int64(rate.Count), Current: int64(rate.Count + 1), Wait: a.Wait,
		}
	}
	return rate.Count, a, err
}
