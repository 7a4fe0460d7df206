package client

import (
	"context"
	"io"
	"iter"
	"net/http"
	"time"
)

// ExecutionFilter selects executions; an empty field matches everything.
type ExecutionFilter struct {
	Status        []string  // any of these
	From          time.Time // scheduled at or after it
	Until         time.Time // scheduled before it
	FinishedAfter time.Time // finished at or after it
	Trigger       []string  // any of these
	Job           string    // the id of a job, or key:…
	JobName       string    // of jobs of exactly this name
	Tag           string    // of jobs with this tag
	Worker        string    // the worker that holds it, or held it last
	Q             string    // text in the job's name or in the error, or an id
}

func (f ExecutionFilter) params(p Page) params {
	q := p.params()
	q.list("status", f.Status)
	q.instant("start_date", f.From)
	q.instant("end_date", f.Until)
	return q
}

func (f ExecutionFilter) search(p Page) params {
	q := f.params(p)
	q.instant("finished_after", f.FinishedAfter)
	q.list("trigger", f.Trigger)
	q.text("job_id", f.Job)
	q.text("job_name", f.JobName)
	q.text("tag", f.Tag)
	q.text("worker_id", f.Worker)
	q.text("q", f.Q)
	return q
}

// ListExecutions reads a page of the tenant's executions, latest scheduled time first.
func (c *Client) ListExecutions(ctx context.Context, f ExecutionFilter, p Page) (Executions, error) {
	return get[Executions](ctx, c, f.search(p).on("/executions"))
}

// Executions iterates over the tenant's executions, latest scheduled time first.
func (c *Client) Executions(ctx context.Context, f ExecutionFilter) iter.Seq2[Execution, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]Execution, Pagination, error) {
		page, err := c.ListExecutions(ctx, f, p)
		return page.Executions, page.Pagination, err
	})
}

// ListJobExecutions reads a page of one job's executions, latest scheduled time first. It uses only status and times
// of the filter.
func (c *Client) ListJobExecutions(ctx context.Context, job string, f ExecutionFilter, p Page) (Executions, error) {
	return get[Executions](ctx, c, f.params(p).on("/jobs/"+seg(job)+"/executions"))
}

// JobExecutions iterates over one job's executions, latest scheduled time first. It uses only status and times of the
// filter.
func (c *Client) JobExecutions(ctx context.Context, job string, f ExecutionFilter) iter.Seq2[Execution, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]Execution, Pagination, error) {
		page, err := c.ListJobExecutions(ctx, job, f, p)
		return page.Executions, page.Pagination, err
	})
}

// ExportExecutions reads all executions that a filter selects, as csv, jsonl (the default) or parquet. The result is
// a stream, which breaks off with an error if it cannot be completed.
func (c *Client) ExportExecutions(ctx context.Context, format string, f ExecutionFilter) (io.ReadCloser, error) {
	q := f.search(Page{})
	q.text("format", format)
	return c.open(ctx, q.on("/executions:export"), "")
}

// Explain returns why an execution waits, what it is doing, or how it ended.
func (c *Client) Explain(ctx context.Context, id string) (Explanation, error) {
	return get[Explanation](ctx, c, "/executions/"+seg(id)+"/explain")
}

// ListAttempts reads a page of the attempts of an execution, running and ended, oldest first.
func (c *Client) ListAttempts(ctx context.Context, id string, p Page) (ExecutionAttempts, error) {
	return get[ExecutionAttempts](ctx, c, p.params().on("/executions/"+seg(id)+"/attempts"))
}

// Attempts iterates over the attempts of an execution, running and ended, oldest first.
func (c *Client) Attempts(ctx context.Context, id string) iter.Seq2[ExecutionAttempt, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]ExecutionAttempt, Pagination, error) {
		page, err := c.ListAttempts(ctx, id, p)
		return page.Attempts, page.Pagination, err
	})
}

// ListEvents reads a page of the events of an execution, oldest first.
func (c *Client) ListEvents(ctx context.Context, id string, p Page) (Events, error) {
	return get[Events](ctx, c, p.params().on("/executions/"+seg(id)+"/events"))
}

// Events iterates over the events of an execution, oldest first.
func (c *Client) Events(ctx context.Context, id string) iter.Seq2[Event, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]Event, Pagination, error) {
		page, err := c.ListEvents(ctx, id, p)
		return page.Events, page.Pagination, err
	})
}

// ExecutionReport sums up an execution: how it ended, and where its time went.
func (c *Client) ExecutionReport(ctx context.Context, id string) (Report, error) {
	return get[Report](ctx, c, "/executions/"+seg(id)+"/report")
}

// CancelExecution cancels an execution. A running one is asked to stop, and is CANCELLING until it has.
func (c *Client) CancelExecution(ctx context.Context, id string, r CancelRequest) (Execution, error) {
	return post[Execution](ctx, c, "/executions/"+seg(id)+"/cancel", r)
}

// RetryExecution runs a finished execution again, as a new one.
func (c *Client) RetryExecution(ctx context.Context, id string, r TriggerRequest) (Triggered, error) {
	return post[Triggered](ctx, c, "/executions/"+seg(id)+"/retry", r)
}

// CompleteExecution completes an execution whose callback was answered with 202, given the Carillon-Callback-Token of
// that callback. Its execution_id and fencing_token may be left out.
func (c *Client) CompleteExecution(ctx context.Context, id, callbackToken string, o Outcome) (v Verdict, err error) {
	_, err = c.ask(ctx, request{method: http.MethodPost, path: prefix + "/executions/" + seg(id) + "/complete", token: callbackToken}, o, &v)
	return v, err
}

// Final reports whether an execution keeps a status for good.
func Final(status string) bool {
	switch status {
	case "SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED", "SKIPPED", "EXPIRED":
		return true
	}
	return false
}

// WaitForExecution reads an execution, at most twice a second, until it has finished or ctx ends. told, unless nil,
// is called with each state read.
func (c *Client) WaitForExecution(ctx context.Context, id string, told func(Execution)) (Execution, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		e, err := c.Execution(ctx, id)
		if err != nil {
			return e, err
		}
		if told != nil {
			told(e)
		}
		if Final(e.Status) {
			return e, nil
		}
		if !pause(ctx, wait) {
			return e, ended(ctx)
		}
	}
}

// ended returns why a wait ended.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return context.DeadlineExceeded
}

// deadLetterParams returns the parameters of a filter.
func (f DeadLetterFilter) params(p Page) params {
	q := p.params()
	q.text("job_id", f.JobID)
	q.text("reason", f.Reason)
	q.text("q", f.Q)
	q.text("start_date", f.StartDate)
	q.text("end_date", f.EndDate)
	return q
}

// ListDeadLetters reads a page of dead letters, newest first.
func (c *Client) ListDeadLetters(ctx context.Context, f DeadLetterFilter, p Page) (DeadLetters, error) {
	return get[DeadLetters](ctx, c, f.params(p).on("/dead-letters"))
}

// DeadLetters iterates over all dead letters, newest first.
func (c *Client) DeadLetters(ctx context.Context, f DeadLetterFilter) iter.Seq2[DeadLetter, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]DeadLetter, Pagination, error) {
		page, err := c.ListDeadLetters(ctx, f, p)
		return page.DeadLetters, page.Pagination, err
	})
}

// RedriveDeadLetter runs a dead letter again, as a new execution.
func (c *Client) RedriveDeadLetter(ctx context.Context, executionID string) (Triggered, error) {
	return post[Triggered](ctx, c, "/dead-letters/"+seg(executionID)+"/redrive", nil)
}

// RedriveDeadLetters runs many dead letters again, in the background.
func (c *Client) RedriveDeadLetters(ctx context.Context, r DeadLetterRequest) (Begun, error) {
	return post[Begun](ctx, c, "/dead-letters:redrive", r)
}

// Discarding is the outcome of a request to discard dead letters. By ids, or in a dry run, it is complete; by a
// filter, an operation has begun.
type Discarding struct {
	Discarded int // by ids
	Begun         // for a filter, or the count of a dry run
}

// DiscardDeadLetters discards dead letters; their executions stay in history.
func (c *Client) DiscardDeadLetters(ctx context.Context, r DeadLetterRequest) (Discarding, error) {
	var got struct {
		Discarded
		Begun
	}
	err := c.call(ctx, http.MethodPost, "/dead-letters:discard", r, &got)
	return Discarding{got.Discarded.Discarded, got.Begun}, err
}

// Operation returns an operation and its progress.
func (c *Client) Operation(ctx context.Context, id string) (Operation, error) {
	return get[Operation](ctx, c, "/operations/"+seg(id))
}

// ListOperations reads a page of operations, newest first.
func (c *Client) ListOperations(ctx context.Context, p Page) (Operations, error) {
	return get[Operations](ctx, c, p.params().on("/operations"))
}

// Operations iterates over all operations, newest first.
func (c *Client) Operations(ctx context.Context) iter.Seq2[Operation, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]Operation, Pagination, error) {
		page, err := c.ListOperations(ctx, p)
		return page.Operations, page.Pagination, err
	})
}

// CancelOperation stops an operation; what it has done stays.
func (c *Client) CancelOperation(ctx context.Context, id string) (Operation, error) {
	return post[Operation](ctx, c, "/operations/"+seg(id)+"/cancel", nil)
}

// WaitForOperation reads an operation, at most twice a second, until it or ctx has ended. told, unless nil, is called
// with each state read.
func (c *Client) WaitForOperation(ctx context.Context, id string, told func(Operation)) (Operation, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		o, err := c.Operation(ctx, id)
		if err != nil {
			return o, err
		}
		if told != nil {
			told(o)
		}
		if o.State != "RUNNING" {
			return o, nil
		}
		if !pause(ctx, wait) {
			return o, ended(ctx)
		}
	}
}
