package tenant

import "time"

// NoLimit means unlimited in a number of a Quota.
const NoLimit = -1

// Quota limits what a tenant may have and do. Numbers may be NoLimit.
type Quota struct {
	ActiveJobs          int64
	ExecutionsPerMinute int // that start, and that requests create; runs that are nodes do not count, their nodes do
	ExecutionsBurst     int // of them at once
	PayloadBytes        int
	HistoryDays         int
	MaxRetries          int
	ShortestInterval    time.Duration // of recurring schedules; 0: any
	BestPriority        int           // 1 is the best of all
	DeadLetters         bool          // may list, redrive and discard them
	NotificationRules   bool          // may have some of its own
	RequestsPerSecond   int           // of the API
	Weight              int           // its share of the workers, relative to other tenants with waiting work
}

// MapWidth returns how many items a map of a workflow may have.
func (t Tier) MapWidth() int {
	switch t {
	case Enterprise:
		return 100_000
	case Pro:
		return 10_000
	case Free:
	}
	return 1000
}

// LiveNodes returns how many executions of nodes and items may be live at once of a run that a trigger began, and likewise
// of all runs at each depth below it.
func (t Tier) LiveNodes() int {
	switch t {
	case Enterprise:
		return 100_000
	case Pro:
		return 10_000
	case Free:
	}
	return 1000
}

// Unlimited is the quota of the tenant that exists from the start.
func Unlimited() Quota {
	return Quota{
		ActiveJobs: NoLimit, ExecutionsPerMinute: NoLimit, ExecutionsBurst: NoLimit, PayloadBytes: NoLimit, HistoryDays: NoLimit, MaxRetries: NoLimit,
		BestPriority: 1, DeadLetters: true, NotificationRules: true, RequestsPerSecond: NoLimit, Weight: Enterprise.Weight(),
	}
}

// Quota returns the quota of a tier.
func (t Tier) Quota() Quota {
	switch t {
	case Enterprise:
		return Quota{
			ActiveJobs: 1_000_000, ExecutionsPerMinute: 10_000, ExecutionsBurst: 20_000, PayloadBytes: 100 << 10, HistoryDays: 365, MaxRetries: 10,
			ShortestInterval: time.Second, BestPriority: 1, DeadLetters: true, NotificationRules: true, RequestsPerSecond: 1000, Weight: 10,
		}
	case Pro:
		return Quota{
			ActiveJobs: 100_000, ExecutionsPerMinute: 1000, ExecutionsBurst: 2000, PayloadBytes: 10 << 10, HistoryDays: 180, MaxRetries: 5,
			ShortestInterval: 10 * time.Second, BestPriority: 3, DeadLetters: true, NotificationRules: true, RequestsPerSecond: 100, Weight: 3,
		}
	case Free:
	}
	return Quota{
		ActiveJobs: 10_000, ExecutionsPerMinute: 100, ExecutionsBurst: 200, PayloadBytes: 1 << 10, HistoryDays: 30, MaxRetries: 3,
		ShortestInterval: time.Minute, BestPriority: 8, RequestsPerSecond: 10, Weight: 1,
	}
}

// Priority returns the default priority of a job: the usual one, or the best allowed one if that is lower.
func (q Quota) Priority(usual int) int { return max(usual, q.BestPriority) }

// Overrides holds quotas that an operator has set for one tenant in place of its tier's; nil: the tier's. They are
// stored as JSON under these names, which are also those of the API.
type Overrides struct {
	ActiveJobs          *int64 `json:"active_jobs,omitempty"`
	ExecutionsPerMinute *int   `json:"executions_per_minute,omitempty"`
	ExecutionsBurst     *int   `json:"executions_burst,omitempty"`
	PayloadBytes        *int   `json:"payload_bytes,omitempty"`
	HistoryDays         *int   `json:"history_days,omitempty"`
	MaxRetries          *int   `json:"max_retries,omitempty"`
	ShortestIntervalMS  *int64 `json:"shortest_interval_ms,omitempty"`
	BestPriority        *int   `json:"best_priority,omitempty"`
	DeadLetters         *bool  `json:"dead_letters,omitempty"`
	NotificationRules   *bool  `json:"notification_rules,omitempty"`
	RequestsPerSecond   *int   `json:"requests_per_second,omitempty"`
	Weight              *int   `json:"weight,omitempty"`
}

// Quota returns the quota of the tenant. The first tenant has no limits, whatever its tier, except that its history
// may have one.
func (t Tenant) Quota() Quota {
	if t.ID == Default {
		q := Unlimited()
		q.Weight = t.Tier.Weight()
		put(&q.HistoryDays, t.Overrides.HistoryDays)
		return q
	}
	q, o := t.Tier.Quota(), t.Overrides
	put(&q.ActiveJobs, o.ActiveJobs)
	put(&q.ExecutionsPerMinute, o.ExecutionsPerMinute)
	if put(&q.ExecutionsBurst, o.ExecutionsBurst); o.ExecutionsBurst == nil && o.ExecutionsPerMinute != nil {
		q.ExecutionsBurst = q.ExecutionsPerMinute // the tier's burst may be more or less than fits a small rate
		if q.ExecutionsPerMinute > 0 {
			q.ExecutionsBurst *= 2
		}
	}
	put(&q.PayloadBytes, o.PayloadBytes)
	put(&q.HistoryDays, o.HistoryDays)
	put(&q.MaxRetries, o.MaxRetries)
	if o.ShortestIntervalMS != nil {
		q.ShortestInterval = time.Duration(*o.ShortestIntervalMS) * time.Millisecond
	}
	put(&q.BestPriority, o.BestPriority)
	put(&q.DeadLetters, o.DeadLetters)
	put(&q.NotificationRules, o.NotificationRules)
	put(&q.RequestsPerSecond, o.RequestsPerSecond)
	put(&q.Weight, o.Weight)
	return q
}

// QuotaWithin returns the quota of the tenant in an installation that keeps history for some days; none or fewer: for
// ever. A number that an operator set for the tenant holds as it is, NoLimit too. Otherwise the shorter one of its
// tier's and the installation's does.
func (t Tenant) QuotaWithin(days int) Quota {
	q := t.Quota()
	if t.Overrides.HistoryDays == nil && days > 0 && (q.HistoryDays < 0 || q.HistoryDays > days) {
		q.HistoryDays = days
	}
	return q
}

func put[T any](to *T, v *T) {
	if v != nil {
		*to = *v
	}
}

// CutGrace is how long history that a change made too old is hidden but kept.
const CutGrace = 7 * 24 * time.Hour

// Shorter reports whether it keeps less history than another quota.
func (q Quota) Shorter(than Quota) bool {
	return q.HistoryDays >= 0 && (than.HistoryDays < 0 || q.HistoryDays < than.HistoryDays)
}

// KeptSince returns the beginning of the first day whose history is kept; false if all of it is.
func (q Quota) KeptSince(now time.Time) (time.Time, bool) {
	if q.HistoryDays < 0 {
		return time.Time{}, false
	}
	return now.UTC().AddDate(0, 0, -q.HistoryDays).Truncate(24 * time.Hour), true
}

// Installation says for how many days history is kept of tenants without a shorter or an explicit limit: none or fewer
// is for ever.
type Installation struct {
	Days  int
	CutAt time.Time // when that was last lowered; zero: never
}

// DropsBefore returns the instant before which history of the tenant may be deleted; false if none may be now, because
// it is kept for ever or was shortened lately.
func (t Tenant) DropsBefore(in Installation, now time.Time) (time.Time, bool) {
	q := t.QuotaWithin(in.Days)
	before, limited := q.KeptSince(now)
	cut := now.Sub(t.CutAt) < CutGrace
	if q.HistoryDays != t.Quota().HistoryDays { // the installation decides
		cut = cut || now.Sub(in.CutAt) < CutGrace
	}
	return before, limited && !cut
}
