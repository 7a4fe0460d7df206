package tenant

import (
	"reflect"
	"testing"
	"time"
)

func TestTiersGiveMore(t *testing.T) {
	tiers := Tiers()
	for i, tier := range tiers {
		q := tier.Quota()
		if q.Weight != tier.Weight() {
			t.Errorf("%s: a weight of %d and of %d", tier, q.Weight, tier.Weight())
		}
		if i == 0 {
			continue
		}
		less := tiers[i-1].Quota()
		if q.ActiveJobs <= less.ActiveJobs || q.ExecutionsPerMinute <= less.ExecutionsPerMinute || q.ExecutionsBurst != 2*q.ExecutionsPerMinute || q.PayloadBytes <= less.PayloadBytes ||
			q.HistoryDays <= less.HistoryDays || q.MaxRetries <= less.MaxRetries || q.ShortestInterval >= less.ShortestInterval || q.BestPriority >= less.BestPriority ||
			q.RequestsPerSecond <= less.RequestsPerSecond || !q.DeadLetters || !q.NotificationRules {
			t.Errorf("%s: %+v", tier, q)
		}
	}
	if q := Free.Quota(); q.DeadLetters || q.NotificationRules || q.Priority(5) != 8 || Pro.Quota().Priority(5) != 5 {
		t.Errorf("free: %+v", q)
	}
}

func TestOverrides(t *testing.T) {
	free := Tenant{ID: "a", Tier: Free}
	if got := free.Quota(); got != Free.Quota() {
		t.Errorf("%+v", got)
	}
	free.Overrides = Overrides{ExecutionsPerMinute: new(7), ShortestIntervalMS: new(int64(1500)), MaxRetries: new(0)}
	got := free.Quota()
	if got.ExecutionsPerMinute != 7 || got.ExecutionsBurst != 14 || got.ShortestInterval != 1500*time.Millisecond || got.MaxRetries != 0 || got.ActiveJobs != 10_000 {
		t.Errorf("%+v", got)
	}
	// Every field of a quota can be set.
	all := Overrides{
		ActiveJobs: new(int64(1)), ExecutionsPerMinute: new(2), ExecutionsBurst: new(3), PayloadBytes: new(4), HistoryDays: new(5), MaxRetries: new(6), ShortestIntervalMS: new(int64(7)),
		BestPriority: new(9), DeadLetters: new(true), NotificationRules: new(true), RequestsPerSecond: new(11), Weight: new(12),
	}
	if v := reflect.ValueOf(all); v.NumField() != reflect.TypeFor[Quota]().NumField() {
		t.Fatal("a quota that cannot be set")
	}
	free.Overrides = all
	want := Quota{1, 2, 3, 4, 5, 6, 7 * time.Millisecond, 9, true, true, 11, 12}
	if got := free.Quota(); got != want {
		t.Errorf("%+v", got)
	}
	first := Tenant{ID: Default, Tier: Pro, Overrides: all}
	if got := first.Quota(); got.ActiveJobs != NoLimit || got.Weight != 3 {
		t.Errorf("the tenant default: %+v", got)
	}
}

func TestHistoryOfAnInstallation(t *testing.T) {
	for _, c := range []struct {
		t    Tenant
		days int
		want int
	}{
		{Tenant{ID: Default}, 365, 365},
		{Tenant{ID: Default}, 0, NoLimit},
		{Tenant{ID: Default}, NoLimit, NoLimit},
		{Tenant{ID: Default, Overrides: Overrides{HistoryDays: new(7)}}, 365, 7},
		{Tenant{ID: "a", Tier: Free}, 365, 30},
		{Tenant{ID: "a", Tier: Free}, 7, 7},
		{Tenant{ID: "a", Tier: Free}, NoLimit, 30},
		{Tenant{ID: "a", Tier: Free, Overrides: Overrides{HistoryDays: new(NoLimit)}}, 7, NoLimit},
		{Tenant{ID: "a", Tier: Free, Overrides: Overrides{HistoryDays: new(400)}}, 365, 400},
	} {
		if got := c.t.QuotaWithin(c.days).HistoryDays; got != c.want {
			t.Errorf("%+v, where %d days are kept: %d, want %d", c.t, c.days, got, c.want)
		}
	}
}

func TestDropsBefore(t *testing.T) {
	now := time.Date(2026, 3, 31, 5, 0, 0, 0, time.UTC)
	lately, days := now.Add(-CutGrace+time.Second), 20
	for name, c := range map[string]struct {
		t    Tenant
		in   Installation
		want int // days; 0: nothing may be deleted
	}{
		"its tier's":                         {Tenant{ID: "t", Tier: Free}, Installation{Days: 40, CutAt: lately}, 30},
		"the installation's":                 {Tenant{ID: "t", Tier: Free}, Installation{Days: 10, CutAt: now.Add(-CutGrace)}, 10},
		"the installation's, lowered lately": {Tenant{ID: "t", Tier: Free}, Installation{Days: 10, CutAt: lately}, 0},
		"its own":                            {Tenant{ID: "t", Tier: Free, Overrides: Overrides{HistoryDays: &days}}, Installation{Days: 10, CutAt: lately}, 20},
		"its own, lowered lately":            {Tenant{ID: "t", Tier: Free, CutAt: lately, Overrides: Overrides{HistoryDays: &days}}, Installation{Days: 10}, 0},
		"for ever":                           {Tenant{ID: Default}, Installation{Days: NoLimit}, 0},
	} {
		before, ok := c.t.DropsBefore(c.in, now)
		if ok != (c.want > 0) || ok && !before.Equal(now.AddDate(0, 0, -c.want).Truncate(24*time.Hour)) {
			t.Errorf("%s: %v, %v", name, before, ok)
		}
	}
}
