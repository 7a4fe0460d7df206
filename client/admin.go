package client

import "time"

// LimitRequest sets a limit over all executions of a tenant, or over those of one of its queues. With neither, it is removed.
type LimitRequest struct {
	MaxConcurrent *int       `json:"max_concurrent,omitempty" doc:"How many run at once, 1 to 1000000; null for any number."`
	RateLimit     *RateLimit `json:"rate_limit,omitempty" doc:"How many may start in a time; null for any number."`
}

// Limit is a limit as answered.
type Limit struct {
	Queue         *string    `json:"queue" doc:"null: the whole tenant."`
	MaxConcurrent *int       `json:"max_concurrent"`
	RateLimit     *RateLimit `json:"rate_limit"`
}

// Limits is all limits of a tenant, its own before those of its queues.
type Limits struct {
	Limits     []Limit    `json:"limits"`
	Pagination Pagination `json:"pagination"`
}

// TenantRequest is the body of a request to create a tenant.
type TenantRequest struct {
	Name string `json:"name" doc:"1 to 255 characters; tenant_id is made of it."`
	Tier string `json:"tier,omitempty" enum:"free,pro,enterprise" doc:"free when omitted."`
}

// TenantChange is the body of a request to change a tenant; what is left out stays.
type TenantChange struct {
	Name *string `json:"name,omitempty"`
	Tier *string `json:"tier,omitempty" enum:"free,pro,enterprise"`
}

// Tenant is a tenant as answered.
type Tenant struct {
	TenantID  string    `json:"tenant_id"`
	Name      string    `json:"name"`
	Tier      string    `json:"tier" enum:"free,pro,enterprise"`
	CreatedAt time.Time `json:"created_at"`
}

// Tenants is all tenants in order of their ids.
type Tenants struct {
	Tenants    []Tenant   `json:"tenants"`
	Pagination Pagination `json:"pagination"`
}

// Scaling is how much there is to do, for whatever starts and stops workers.
type Scaling struct {
	Waiting        int            `json:"waiting" doc:"Due executions that wait; of very many, enough to scale by."`
	Running        int            `json:"running"`
	Slots          int            `json:"slots" doc:"Of workers that live and take more, in the queue that has the most."`
	DesiredWorkers int            `json:"desired_workers" doc:"One for every 10 that wait, at most 1000."`
	Queues         []QueueScaling `json:"queues"`
}

// QueueScaling is how much there is to do in one queue.
type QueueScaling struct {
	Queue          string `json:"queue"`
	Waiting        int    `json:"waiting"`
	Running        int    `json:"running"`
	Slots          int    `json:"slots" doc:"Of workers that serve the queue; a worker may serve several."`
	DesiredWorkers int    `json:"desired_workers"`
}
