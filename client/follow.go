package client

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// LogOptions says which part of a log to read.
type LogOptions struct {
	Attempt int    // its number; 0: all
	After   string // the id of a line: only what comes behind it
	Limit   int    // 0: 50
}

func (o LogOptions) query() url.Values {
	q := url.Values{}
	if o.Attempt > 0 {
		q.Set("attempt", strconv.Itoa(o.Attempt))
	}
	if o.After != "" {
		q.Set("after", o.After)
	}
	if o.Limit > 0 {
		q.Set("limit", strconv.Itoa(o.Limit))
	}
	return q
}

// Execution reads an execution.
func (c *Client) Execution(ctx context.Context, id string) (Execution, error) {
	return get[Execution](ctx, c, "/executions/"+seg(id))
}

// Log reads a part of an execution's log.
func (c *Client) Log(ctx context.Context, id string, o LogOptions) (Log, error) {
	return get[Log](ctx, c, "/executions/"+seg(id)+"/logs?"+o.query().Encode())
}

// FollowLog calls f for each line of an execution's log, as they come, until the execution has finished, f fails or ctx
// ends. A stream that breaks is taken up where it was, also at another server. It answers with the execution's last status.
func (c *Client) FollowLog(ctx context.Context, id string, o LogOptions, f func(LoggedLine) error) (status string, err error) {
	o.Limit = 0
	for fails := 0; ; {
		before := o.After
		status, err = c.stream(ctx, id, &o, f)
		var r *Problem
		switch {
		case status != "":
			return status, nil
		case ctx.Err() != nil:
			return "", ctx.Err()
		case errors.As(err, &r) && r.Status < 500 && r.Status != http.StatusTooManyRequests, errors.As(err, new(stop)):
			return "", err
		}
		if fails++; o.After != before {
			fails = 1
		}
		if fails > 10 && err != nil {
			return "", err
		}
		c.at.Add(1) // another server may have it
		if !pause(ctx, min(5*time.Second, 100*time.Millisecond<<min(fails, 6))) {
			return "", cmp.Or(ctx.Err(), context.DeadlineExceeded)
		}
	}
}

// stop is an error of who reads, not of the stream.
type stop struct{ error }

func (s stop) Unwrap() error { return s.error }

// stream reads a log until its end, or until the stream breaks.
func (c *Client) stream(ctx context.Context, id string, o *LogOptions, f func(LoggedLine) error) (status string, err error) {
	q := o.query()
	q.Set("follow", "true")
	server, err := c.server()
	if err != nil {
		return "", stop{err}
	}
	req, err := http.NewRequestWithContext(ctx, "GET", server+prefix+"/executions/"+seg(id)+"/logs?"+q.Encode(), nil)
	if err != nil {
		return "", stop{err}
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := c.send(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	in := bufio.NewScanner(resp.Body)
	in.Buffer(make([]byte, 0, 64<<10), 1<<20)
	name := ""
	for in.Scan() {
		field, value, _ := strings.Cut(in.Text(), ": ")
		switch {
		case field == "event":
			name = value
		case field == "data" && name == "line":
			var l LoggedLine
			if err := json.Unmarshal([]byte(value), &l); err != nil {
				return "", fmt.Errorf("read a line of the log: %w", err)
			}
			if err := f(l); err != nil {
				return "", stop{err}
			}
			o.After = l.ID
		case field == "data" && name == "end":
			var e LogEnd
			if err := json.Unmarshal([]byte(value), &e); err != nil {
				return "", fmt.Errorf("read the end of the log: %w", err)
			}
			return e.Status, nil
		}
	}
	return "", in.Err()
}
