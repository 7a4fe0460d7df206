package client

import (
	"context"
	"iter"
	"time"
)

// BadgeRequest is the body of a request to make a badge.
type BadgeRequest struct {
	JobID string  `json:"job_id" doc:"The id of a job, or its key as key:…"`
	Label *string `json:"label,omitempty" doc:"Shown instead of the job's name, 1 to 80 characters; null for the job's name."`
}

// Badge is an address that shows anybody the state of a job.
type Badge struct {
	BadgeID   string    `json:"badge_id"`
	JobID     string    `json:"job_id"`
	JobName   string    `json:"job_name"`
	Label     *string   `json:"label" doc:"Shown instead of the job's name; null for the job's name."`
	CreatedAt time.Time `json:"created_at"`
	SVG       *string   `json:"svg,omitempty" doc:"The URL of the image, on any server. Only in the response that creates it."`
	JSON      *string   `json:"json,omitempty" doc:"The URL of the state as JSON. Only in the response that creates it."`
}

// Badges is a page of them, newest first.
type Badges struct {
	Badges     []Badge    `json:"badges"`
	Pagination Pagination `json:"pagination"`
}

// BadgeState is the state of a badge as JSON.
type BadgeState struct {
	Label string `json:"label"`
	State string `json:"state" enum:"up,late,down,paused,unknown"`
}

// AddBadge makes a badge for a job.
func (c *Client) AddBadge(ctx context.Context, r BadgeRequest) (Badge, error) {
	return post[Badge](ctx, c, "/badges", r)
}

// ListBadges reads a page of badges.
func (c *Client) ListBadges(ctx context.Context, p Page) (Badges, error) {
	return get[Badges](ctx, c, p.params().on("/badges"))
}

// Badges iterates over all badges.
func (c *Client) Badges(ctx context.Context) iter.Seq2[Badge, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]Badge, Pagination, error) {
		page, err := c.ListBadges(ctx, p)
		return page.Badges, page.Pagination, err
	})
}

// DeleteBadge revokes a badge.
func (c *Client) DeleteBadge(ctx context.Context, id string) (Badge, error) {
	return drop[Badge](ctx, c, "/badges/"+seg(id))
}
