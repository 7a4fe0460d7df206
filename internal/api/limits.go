package api

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/service"
)

// limits reads the concurrency limits and rates of a request. Values that mean "none" in a definition are refused if
// they were written.
func limits(r client.JobRequest, d *job.Definition, v *job.Invalids) {
	d.MaxConcurrent, d.Rate = readLimit(r.MaxConcurrent, r.RateLimit, v)
	text := func(field string, p *string, want string) string {
		if p != nil && *p == "" {
			v.Add(field, "", want+", or null for none")
		}
		return deref(p, "")
	}
	d.ConcurrencyKey = text("concurrency_key", r.ConcurrencyKey, "an expression over payload, such as payload.customer_id")
	d.UniqueKey = text("unique_key", r.UniqueKey, "1 to 255 characters")
	if d.ConcurrencyKey != "" && r.MaxConcurrent == nil && r.RateLimit == nil {
		d.MaxConcurrent = 1
	}
	const span = "a duration from 1ms to 720h (30 days), such as 90s or 1h30m"
	d.ExpiresAfter = duration("expires_after", r.ExpiresAfter, span, v)
	d.AutoRedriveAfter = duration("auto_redrive_after", r.AutoRedriveAfter, span, v)
	d.Retention = retention(r.Retention, v)
	for field, n := range map[string]*int64{"execution.stall_timeout_seconds": r.Execution.StallTimeoutSeconds, "execution.total_timeout_seconds": r.Execution.TotalTimeoutSeconds} {
		if n != nil && *n == 0 {
			v.Add(field, 0, "a whole number, 1 or more, or null for none")
		}
	}
}

// retention reads how long a job keeps its history.
func retention(r *client.Retention, v *job.Invalids) job.Retention {
	if r == nil {
		return job.Retention{}
	}
	out := job.Retention{Days: r.Days, FailedDays: deref(r.FailedDays, r.Days)}
	if out.Days == 0 {
		v.Add("retention.days", 0, job.WantRetentionDays)
	}
	if r.FailedDays != nil && out.FailedDays == 0 {
		v.Add("retention.failed_days", 0, job.WantRetentionDays+", or null for as many as days")
	}
	return out
}

func wireRetention(r job.Retention) *client.Retention {
	if r.IsZero() {
		return nil
	}
	return &client.Retention{Days: r.Days, FailedDays: &r.FailedDays}
}

// readLimit reads a concurrency limit and a rate.
func readLimit(most *int, rate *client.RateLimit, v *job.Invalids) (int, job.Rate) {
	if most != nil && *most == 0 {
		v.Add("max_concurrent", 0, job.WantAtOnce)
	}
	if rate == nil {
		return deref(most, 0), job.Rate{}
	}
	r := job.Rate{Count: rate.Count}
	if rate.Per == "" {
		v.Add("rate_limit.per", "", job.WantPer)
	} else {
		r.Per = duration("rate_limit.per", &rate.Per, job.WantPer, v)
	}
	if r.Count < 1 {
		v.Add("rate_limit.count", r.Count, "a whole number from 1 to 1000000")
	}
	if rate.Burst != nil {
		if r.Burst = *rate.Burst; r.Burst == 0 {
			v.Add("rate_limit.burst", 0, "a whole number from 1 to 1000000, or null for a tenth of a second's worth")
		}
	} else if r.Count > 0 && r.Per > 0 {
		r.Burst = min(r.DefaultBurst(), job.MaxAtOnce)
	}
	return deref(most, 0), r
}

// duration parses a Go duration.
func duration(field string, p *string, want string, v *job.Invalids) time.Duration {
	if p == nil {
		return 0
	}
	d, err := time.ParseDuration(*p)
	if err != nil || d == 0 {
		v.Add(field, *p, want)
		return 0
	}
	return d
}

// wireSpan formats a duration without zero units: 1h, not 1h0m0s.
func wireSpan(d time.Duration) *string {
	if d == 0 {
		return nil
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return &s
}

func wireRate(r job.Rate) *client.RateLimit {
	if r.IsZero() {
		return nil
	}
	return &client.RateLimit{Count: r.Count, Per: *wireSpan(r.Per), Burst: new(r.Burst)}
}

func atOnce(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

func wholeSeconds(d time.Duration) *int64 {
	if d == 0 {
		return nil
	}
	return new(int64(d / time.Second))
}

func wireLimit(l job.Limit) client.Limit {
	return client.Limit{Queue: optional(l.Queue), MaxConcurrent: atOnce(l.Max), RateLimit: wireRate(l.Rate), Pause: wirePause(l.Pause)}
}

func (s settingsAPI) listLimits(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	all, page, err := paged(r, func() ([]job.Limit, error) { return s.service.Limits(r.Context(), p) })
	if err != nil {
		return err
	}
	out := client.Limits{Limits: make([]client.Limit, len(all)), Pagination: page}
	for i, l := range all {
		out.Limits[i] = wireLimit(l)
	}
	return reply(w, 200, out)
}

func (s settingsAPI) setTenantLimit(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	return s.setLimit(w, r, p, "")
}

func (s settingsAPI) setQueueLimit(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	queue, err := queueName(r)
	if err != nil {
		return err
	}
	return s.setLimit(w, r, p, queue)
}

func (s settingsAPI) setLimit(w http.ResponseWriter, r *http.Request, p tenant.Principal, queue string) error {
	data, err := body(w, r, maxBody)
	if err != nil {
		return err
	}
	var req client.LimitRequest
	if err := decode(data, &req); err != nil {
		return err
	}
	var v job.Invalids
	l := job.Limit{Queue: queue}
	l.Max, l.Rate = readLimit(req.MaxConcurrent, req.RateLimit, &v)
	if err := v.Err(); err != nil {
		return err
	}
	if err := s.service.SetLimit(r.Context(), p, l); err != nil {
		return err
	}
	if queue != "" {
		now, err := s.service.QueueLimit(r.Context(), p, queue)
		if err != nil {
			return err
		}
		l.Pause = now.Pause
	}
	return reply(w, 200, wireLimit(l))
}

func wireTenant(t tenant.Tenant, q tenant.Quota) client.Tenant {
	out := client.Tenant{TenantID: string(t.ID), Name: t.Name, Tier: t.Tier.String(), Quotas: wireQuota(q), Overridden: overridden(t.Overrides), CreatedAt: t.CreatedAt, CallbacksAllow: []string{}, CallbacksHTTPSOnly: t.HTTPSOnly}
	if t.Reach != "" {
		out.CallbacksAllow = strings.Split(t.Reach, ",")
	}
	return out
}

// tier parses a tier in any case; an invalid one is passed on for the service to refuse.
func tier(s string) tenant.Tier {
	if t, ok := oneOf(s, tenant.Tiers()); ok {
		return t
	}
	return tenant.Tier(s)
}

func (s settingsAPI) listTenants(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	all, page, err := paged(r, func() ([]tenant.Tenant, error) { return s.service.Tenants(r.Context(), p) })
	if err != nil {
		return err
	}
	out := client.Tenants{Tenants: make([]client.Tenant, len(all)), Pagination: page}
	for i, t := range all {
		out.Tenants[i] = wireTenant(t, s.service.QuotaOf(t))
	}
	return reply(w, 200, out)
}

func (s settingsAPI) createTenant(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	data, o, err := read(w, r, maxBody)
	if err != nil {
		return err
	}
	var req client.TenantRequest
	if err := decode(data, &req); err != nil {
		return err
	}
	if req.Tier == "" {
		req.Tier = tenant.Free.String()
	}
	t, replay, err := s.service.CreateTenant(r.Context(), p, req.Name, tier(req.Tier), service.Once[tenant.Tenant]{
		Key: o.key, Hash: o.hash, Encode: func(t tenant.Tenant) []byte { return encoded(wireTenant(t, s.service.QuotaOf(t))) },
	})
	if err != nil {
		return err
	}
	if replay != nil {
		return again(w, 201, replay)
	}
	w.Header().Set("Location", fmt.Sprintf("/api/v1/tenants/%s", t.ID))
	return reply(w, 201, wireTenant(t, s.service.QuotaOf(t)))
}

func (s settingsAPI) getTenant(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	a, err := s.service.AllowanceOf(r.Context(), p, tenant.ID(r.PathValue("id")))
	if err != nil {
		return err
	}
	out := wireTenant(a.Tenant, a.Quota)
	out.Usage = new(wireUsage(a.Usage))
	return reply(w, 200, out)
}

func (s settingsAPI) changeTenant(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id := tenant.ID(r.PathValue("id"))
	if _, err := s.service.Tenant(r.Context(), p, id); err != nil {
		return err // before the body is judged
	}
	data, err := body(w, r, maxBody)
	if err != nil {
		return err
	}
	var req client.TenantChange
	if err := decode(data, &req); err != nil {
		return err
	}
	change := service.TenantChange{Name: req.Name}
	if req.Tier != nil {
		change.Tier = new(tier(*req.Tier))
	}
	if given := objectOf(objectOf(data)["quotas"]); given != nil {
		change.Quotas = func(was tenant.Overrides) tenant.Overrides { return changed(was, *req.Quotas, given) }
	}
	if _, given := objectOf(data)["callbacks_allow"]; given { // null is none, as [] is
		change.Reach = new(deref(req.CallbacksAllow, nil))
	}
	change.HTTPSOnly = req.CallbacksHTTPSOnly
	t, err := s.service.UpdateTenant(r.Context(), p, id, change)
	if err != nil {
		return err
	}
	return reply(w, 200, wireTenant(t, s.service.QuotaOf(t)))
}
