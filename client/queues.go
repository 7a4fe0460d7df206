package client

import (
	"context"
	"iter"
	"time"
)

// Pause describes a paused queue: none of its executions start.
type Pause struct {
	At     time.Time  `json:"at" doc:"When it started."`
	Until  *time.Time `json:"until" doc:"When it ends by itself; null: when someone resumes the queue."`
	By     string     `json:"by" doc:"Who paused it, or changed the pause last."`
	Reason *string    `json:"reason"`
}

// Queue is one of the tenant's queues: how much work it has, and what holds it back.
type Queue struct {
	Queue                string     `json:"queue"`
	Waiting              int        `json:"waiting" doc:"Executions of the tenant that are due and wait, whether or not the queue is paused; exact up to 10000."`
	Running              int        `json:"running"`
	Slots                int        `json:"slots" doc:"Slots of workers that serve it; a worker may serve several queues."`
	OldestWaitingSeconds *float64   `json:"oldest_waiting_seconds" doc:"null if nothing waits."`
	MaxConcurrent        *int       `json:"max_concurrent"`
	RateLimit            *RateLimit `json:"rate_limit"`
	Pause                *Pause     `json:"pause" doc:"null if it is not paused."`
}

// Queues is a page of the tenant's queues.
type Queues struct {
	Queues     []Queue    `json:"queues"`
	Pagination Pagination `json:"pagination"`
}

// QueueHead lists the executions of a queue that start next.
type QueueHead struct {
	Executions []Execution `json:"executions" doc:"In the order in which they start."`
}

// Queue reads a queue of the tenant.
func (c *Client) Queue(ctx context.Context, queue string) (Queue, error) {
	return get[Queue](ctx, c, "/queues/"+seg(queue))
}

// ListQueues reads a page of the tenant's queues: those with work, a limit or a pause, and the default one.
func (c *Client) ListQueues(ctx context.Context, p Page) (Queues, error) {
	return get[Queues](ctx, c, p.params().on("/queues"))
}

// Queues iterates over the tenant's queues.
func (c *Client) Queues(ctx context.Context) iter.Seq2[Queue, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]Queue, Pagination, error) {
		page, err := c.ListQueues(ctx, p)
		return page.Queues, page.Pagination, err
	})
}

// QueueHead reads the next n executions of a queue that will start; 0 means 20.
func (c *Client) QueueHead(ctx context.Context, queue string, limit int) (QueueHead, error) {
	q := params{}
	q.number("limit", limit)
	return get[QueueHead](ctx, c, q.on("/queues/"+seg(queue)+"/waiting"))
}

// PauseQueue keeps the executions of a queue from starting, until the instant of the request or until it is resumed.
func (c *Client) PauseQueue(ctx context.Context, queue string, r PauseRequest) (Queue, error) {
	return post[Queue](ctx, c, "/queues/"+seg(queue)+"/pause", r)
}

// ResumeQueue ends the pause of a queue.
func (c *Client) ResumeQueue(ctx context.Context, queue string) (Queue, error) {
	return post[Queue](ctx, c, "/queues/"+seg(queue)+"/resume", nil)
}
