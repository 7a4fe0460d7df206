package client

import (
	"context"
	"iter"
	"time"
)

// HoldRequest is the body of a request to hold history. It names a job or a tenant.
type HoldRequest struct {
	JobID    *string `json:"job_id,omitempty" doc:"The id of a job, or its key as key:…"`
	TenantID *string `json:"tenant_id,omitempty" doc:"The id of a tenant, to hold all that it has. It takes the role system."`
	Reason   string  `json:"reason" doc:"1 to 500 characters, such as the number of a case."`
}

// Hold keeps history from being purged.
type Hold struct {
	HoldID   string    `json:"hold_id"`
	TenantID string    `json:"tenant_id"`
	JobID    *string   `json:"job_id" doc:"null: the whole tenant is held."`
	JobName  *string   `json:"job_name"`
	Reason   string    `json:"reason"`
	By       string    `json:"by" doc:"Who asked for it."`
	At       time.Time `json:"at"`
}

// Holds is a page of them, oldest first.
type Holds struct {
	Holds      []Hold     `json:"holds"`
	Pagination Pagination `json:"pagination"`
}

// PutHold holds the history of a job, or of a tenant.
func (c *Client) PutHold(ctx context.Context, r HoldRequest) (Hold, error) {
	return put[Hold](ctx, c, "/holds", r)
}

// ListHolds reads a page of holds.
func (c *Client) ListHolds(ctx context.Context, p Page) (Holds, error) {
	return get[Holds](ctx, c, p.params().on("/holds"))
}

// Holds iterates over all holds.
func (c *Client) Holds(ctx context.Context) iter.Seq2[Hold, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]Hold, Pagination, error) {
		page, err := c.ListHolds(ctx, p)
		return page.Holds, page.Pagination, err
	})
}

// DeleteHold ends a hold.
func (c *Client) DeleteHold(ctx context.Context, id string) (Hold, error) {
	return drop[Hold](ctx, c, "/holds/"+seg(id))
}
