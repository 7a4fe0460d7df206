package client

import (
	"encoding/json"
	"time"
)

// LimitRequest sets a limit over all executions of a tenant, or over those of one of its queues. With neither field
// set, the limit is removed.
type LimitRequest struct {
	MaxConcurrent *int       `json:"max_concurrent,omitempty" doc:"How many may run at once, 1 to 1000000; null for no limit."`
	RateLimit     *RateLimit `json:"rate_limit,omitempty" doc:"How many may start in a period; null for no limit."`
}

// Limit is a limit as returned by the API.
type Limit struct {
	Queue         *string    `json:"queue" doc:"null for the whole tenant."`
	MaxConcurrent *int       `json:"max_concurrent"`
	RateLimit     *RateLimit `json:"rate_limit"`
	Pause         *Pause     `json:"pause" doc:"The pause of a queue, during which nothing in it starts; null if it is not paused."`
}

// Limits is all limits of a tenant, its own before those of its queues.
type Limits struct {
	Limits     []Limit    `json:"limits"`
	Pagination Pagination `json:"pagination"`
}

// TenantRequest is the body of a request to create a tenant.
type TenantRequest struct {
	Name string `json:"name" doc:"1 to 255 characters; tenant_id is derived from it."`
	Tier string `json:"tier,omitempty" enum:"free,pro,enterprise" doc:"free when omitted."`
}

// TenantChange is the body of a request to change a tenant; what is left out stays.
type TenantChange struct {
	Name   *string      `json:"name,omitempty"`
	Tier   *string      `json:"tier,omitempty" enum:"free,pro,enterprise"`
	Quotas *QuotaChange `json:"quotas,omitempty" doc:"Overrides the tier's quotas: a number, -1 for no limit, or null to restore the tier's. Quotas that you leave out stay as they are."`

	CallbacksAllow *[]string `json:"callbacks_allow,omitempty" doc:"Replaces the list of private address ranges that this tenant's callbacks may reach, such as 10.1.0.0/16; up to 100. A metadata service must be listed by its exact address."`

	CallbacksHTTPSOnly *bool `json:"callbacks_https_only,omitempty" doc:"Refuse this tenant's callbacks over plain http, both when a job is created or changed and when it is called."`
}

// QuotaChange overrides the quotas that a tier gives one tenant.
type QuotaChange struct {
	ActiveJobs          *int64 `json:"active_jobs,omitempty"`
	ExecutionsPerMinute *int   `json:"executions_per_minute,omitempty"`
	ExecutionsBurst     *int   `json:"executions_burst,omitempty" doc:"Default: twice executions_per_minute, if that is set."`
	PayloadBytes        *int   `json:"payload_bytes,omitempty"`
	HistoryDays         *int   `json:"history_days,omitempty"`
	MaxRetries          *int   `json:"max_retries,omitempty"`
	ShortestIntervalMS  *int64 `json:"shortest_interval_ms,omitempty"`
	BestPriority        *int   `json:"best_priority,omitempty"`
	DeadLetters         *bool  `json:"dead_letters,omitempty"`
	NotificationRules   *bool  `json:"notification_rules,omitempty"`
	RequestsPerSecond   *int   `json:"requests_per_second,omitempty"`
	Weight              *int   `json:"weight,omitempty"`

	// Reset names quotas to reset to the tier's: active_jobs, executions_per_minute, …
	Reset []string `json:"-"`
}

// MarshalJSON writes the quotas to reset as null.
func (q QuotaChange) MarshalJSON() ([]byte, error) {
	type plain QuotaChange
	b, err := json.Marshal(plain(q))
	if err != nil || len(q.Reset) == 0 {
		return b, err
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, err
	}
	for _, name := range q.Reset {
		all[name] = json.RawMessage("null")
	}
	return json.Marshal(all)
}

// Quotas limit what a tenant may have and do; -1 is no limit.
type Quotas struct {
	ActiveJobs          int64 `json:"active_jobs"`
	ExecutionsPerMinute int   `json:"executions_per_minute"`
	ExecutionsBurst     int   `json:"executions_burst"`
	PayloadBytes        int   `json:"payload_bytes"`
	HistoryDays         int   `json:"history_days"`
	MaxRetries          int   `json:"max_retries"`
	ShortestIntervalMS  int64 `json:"shortest_interval_ms" doc:"0 means no minimum."`
	BestPriority        int   `json:"best_priority"`
	DeadLetters         bool  `json:"dead_letters"`
	NotificationRules   bool  `json:"notification_rules"`
	RequestsPerSecond   int   `json:"requests_per_second"`
	Weight              int   `json:"weight"`
}

// Usage counts what a tenant has against its quotas.
type Usage struct {
	ActiveJobs *int64 `json:"active_jobs" doc:"Jobs with a planned instant or an unfinished execution; null if there is no limit, because they are not counted then."`
}

// Allowance holds the quotas and the usage of the credential's tenant.
type Allowance struct {
	TenantID   string   `json:"tenant_id"`
	Tier       string   `json:"tier" enum:"free,pro,enterprise"`
	Quotas     Quotas   `json:"quotas"`
	Overridden []string `json:"overridden" doc:"The quotas that differ from the tier's."`
	Usage      Usage    `json:"usage"`
}

// Tenant is a tenant as returned by the API.
type Tenant struct {
	TenantID   string    `json:"tenant_id"`
	Name       string    `json:"name"`
	Tier       string    `json:"tier" enum:"free,pro,enterprise"`
	Quotas     Quotas    `json:"quotas"`
	Overridden []string  `json:"overridden" doc:"The quotas that differ from the tier's."`
	Usage      *Usage    `json:"usage,omitempty" doc:"Only when you read a single tenant."`
	CreatedAt  time.Time `json:"created_at"`

	CallbacksAllow []string `json:"callbacks_allow" doc:"Private address ranges that this tenant's callbacks may reach, in addition to those that all tenants' may."`

	CallbacksHTTPSOnly bool `json:"callbacks_https_only" doc:"Whether its callbacks use https only. If the server sets callbacks.https_only, all callbacks do."`
}

// Tenants is all tenants in order of their ids.
type Tenants struct {
	Tenants    []Tenant   `json:"tenants"`
	Pagination Pagination `json:"pagination"`
}

// Scaling counts the pending work, for autoscalers.
type Scaling struct {
	Waiting        int            `json:"waiting" doc:"Due executions that wait in queues that are not paused; a very large number is exact enough to scale by."`
	Paused         int            `json:"paused" doc:"Due executions that wait because their queue is paused."`
	Running        int            `json:"running"`
	Slots          int            `json:"slots" doc:"Slots of active workers, in the queue that has the most."`
	DesiredWorkers int            `json:"desired_workers" doc:"One for every 10 waiting executions, at most 1000."`
	Queues         []QueueScaling `json:"queues"`
}

// QueueScaling counts the work in one queue.
type QueueScaling struct {
	Queue          string `json:"queue"`
	Waiting        int    `json:"waiting"`
	Paused         int    `json:"paused"`
	Running        int    `json:"running"`
	Slots          int    `json:"slots" doc:"Slots of workers that serve the queue; a worker may serve several queues."`
	DesiredWorkers int    `json:"desired_workers"`
}
