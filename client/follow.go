package client

import (
	"bufio"
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

// LogOptions selects the part of a log to read.
type LogOptions struct {
	Attempt int    // its number; 0: all
	After   string // the id of a line: return only later ones
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

// FollowLog calls f for each line of an execution's log, as it is written, until the execution has finished, f fails
// or ctx ends. A stream that breaks is resumed where it was, possibly at another server. It returns the execution's
// last status.
func (c *Client) FollowLog(ctx context.Context, id string, o LogOptions, f func(LoggedLine) error) (status string, err error) {
	q := params{"follow": {"true"}}
	q.number("attempt", o.Attempt)
	last := o.After
	err = c.follow(ctx, q.on("/executions/"+seg(id)+"/logs"), &last, func(e event) (end bool, err error) {
		switch e.name {
		case "line":
			var l LoggedLine
			if err := e.decode(&l); err != nil {
				return false, err
			}
			return false, own(f(l))
		case "end":
			var x LogEnd
			err := e.decode(&x)
			status = x.Status
			return err == nil, err
		}
		return false, nil
	})
	return status, err
}

// event is one of a stream of server-sent events.
type event struct{ name, id, data string }

func (e event) decode(v any) error {
	if err := json.Unmarshal([]byte(e.data), v); err != nil {
		return fmt.Errorf("read the event %s of a stream: %w", e.name, err)
	}
	return nil
}

// stop wraps an error of the reader, not of the stream.
type stop struct{ error }

func (s stop) Unwrap() error { return s.error }

// own marks an error of the reader.
func own(err error) error {
	if err == nil {
		return nil
	}
	return stop{err}
}

// follow reads a stream, and resumes it after the last event if it breaks, until on reports that it has ended.
func (c *Client) follow(ctx context.Context, path string, last *string, on func(event) (end bool, err error)) error {
	for fails := 0; ; {
		before := *last
		end, err := c.stream(ctx, path, last, on)
		var r *Problem
		var reader stop
		switch {
		case end:
			return nil
		case errors.As(err, &reader):
			return reader.error
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &r) && r.Status < 500 && r.Status != http.StatusTooManyRequests:
			return err
		}
		if fails++; *last != before {
			fails = 1
		}
		if fails > 10 && err != nil {
			return err
		}
		c.at.Add(1) // another server may have it
		if !pause(ctx, min(5*time.Second, 100*time.Millisecond<<min(fails, 6))) {
			return ended(ctx)
		}
	}
}

// silence limits the time a stream may stay silent before it counts as broken. Servers send a heartbeat every five seconds.
const silence = 40 * time.Second

var errSilent = fmt.Errorf("nothing came of the stream for %v", silence)

// stream reads a stream until its end, or until it breaks or hangs.
func (c *Client) stream(ctx context.Context, path string, last *string, on func(event) (bool, error)) (end bool, err error) {
	server, err := c.server()
	if err != nil {
		return false, stop{err}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	hangs := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer hangs.Stop()
	req, err := http.NewRequestWithContext(ctx, "GET", server+prefix+path, nil)
	if err != nil {
		return false, stop{err}
	}
	req.Header.Set("Accept", "text/event-stream")
	if *last != "" {
		req.Header.Set("Last-Event-ID", *last)
	}
	resp, err := c.send(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	in := bufio.NewScanner(resp.Body)
	in.Buffer(make([]byte, 0, 64<<10), 4<<20)
	var e event
	for in.Scan() {
		hangs.Reset(silence)
		text := in.Text()
		if strings.HasPrefix(text, ":") {
			continue // a comment: a sign of life
		}
		field, value, _ := strings.Cut(text, ": ")
		switch field {
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			e.data = value
		case "":
			if e.data == "" {
				e = event{}
				continue
			}
			hangs.Stop() // the reader may take its time
			if end, err := on(e); end || err != nil {
				return end, err
			}
			hangs.Reset(silence)
			if e.id != "" {
				*last = e.id
			}
			e = event{}
		}
	}
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		return false, cause
	}
	return false, in.Err()
}
