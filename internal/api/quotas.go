package api

import (
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/service"
)

// quotaRoutes returns the routes of tenants and quotas.
func (s settingsAPI) quotaRoutes() []route {
	return []route{{
		method: "GET", path: "/api/v1/quotas", needs: tenant.Read, group: "Limits and tenants", summary: "Read the tenant's quotas and usage",
		detail: "Quotas come from the tier, unless the operator set them for this tenant.", status: 200, answer: of[client.Allowance](), handle: s.getQuotas,
	}}
}

func (s settingsAPI) getQuotas(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	a, err := s.service.Allowance(r.Context(), p)
	if err != nil {
		return err
	}
	return reply(w, 200, client.Allowance{
		TenantID: string(a.ID), Tier: a.Tier.String(), Quotas: wireQuota(a.Quota), Overridden: overridden(a.Overrides), Usage: wireUsage(a.Usage),
	})
}

func wireQuota(q tenant.Quota) client.Quotas {
	return client.Quotas{
		ActiveJobs: q.ActiveJobs, ExecutionsPerMinute: q.ExecutionsPerMinute, ExecutionsBurst: q.ExecutionsBurst, PayloadBytes: q.PayloadBytes,
		HistoryDays: q.HistoryDays, MaxRetries: q.MaxRetries, ShortestIntervalMS: q.ShortestInterval.Milliseconds(), BestPriority: q.BestPriority,
		DeadLetters: q.DeadLetters, NotificationRules: q.NotificationRules, RequestsPerSecond: q.RequestsPerSecond, Weight: q.Weight,
	}
}

func wireUsage(u service.Usage) client.Usage {
	if u.ActiveJobs < 0 {
		return client.Usage{}
	}
	return client.Usage{ActiveJobs: &u.ActiveJobs}
}

// overridden lists the overrides of a tier's quotas.
func overridden(o tenant.Overrides) []string {
	names := []string{}
	v := reflect.ValueOf(o)
	for i := range v.NumField() {
		if !v.Field(i).IsNil() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}

// changed returns the overrides of a tier's quotas after a change; given holds the members of the request.
func changed(was tenant.Overrides, to client.QuotaChange, given members) tenant.Overrides {
	out, from := reflect.ValueOf(&was).Elem(), reflect.ValueOf(to)
	for i := range out.NumField() {
		name, _, _ := strings.Cut(out.Type().Field(i).Tag.Get("json"), ",")
		if _, ok := given[name]; ok {
			out.Field(i).Set(from.Field(i))
		}
	}
	return was
}

// usualPriority is the priority of a job whose request sets none.
func (s *Server) usualPriority(r *http.Request, p tenant.Principal) (int, error) {
	q, err := s.service.Quota(r.Context(), p)
	return q.Priority(job.DefaultPriority), err
}

// overQuota returns the response to an exceeded quota.
func overQuota(o *service.OverQuota) client.Problem {
	status, code := 403, "over_quota"
	switch {
	case o.Size:
		status, code = 413, "too_large"
	case o.Wait > 0:
		status, code = 429, "rate_limited"
	}
	p := made(status, code, o.What)
	if o.Quota == "" {
		return p
	}
	p.Quota = &client.QuotaProblem{Name: o.Quota, Limit: o.Limit, Current: o.Current, RetryAfterMS: roundUp(o.Wait, time.Millisecond)}
	if o.Field != "" {
		want := fmt.Sprintf("at most %d", o.Limit)
		if o.Limit > o.Current {
			want = fmt.Sprintf("at least %d", o.Limit)
		}
		p.Errors = []client.FieldProblem{{Field: o.Field, Value: fmt.Sprint(o.Current), Want: want}}
	}
	return p
}

func roundUp(d, unit time.Duration) int64 { return int64((d + unit - 1) / unit) }

// retryAfter sets the header of that name, in whole seconds.
func retryAfter(p client.Problem) string {
	if p.Quota == nil {
		return "1"
	}
	return strconv.FormatInt(max(1, roundUp(time.Duration(p.Quota.RetryAfterMS)*time.Millisecond, time.Second)), 10)
}
