package client

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Retries sets the number and the timing of retries of calls that no server answered, or that were answered with 429
// or 503.
type Retries struct {
	Max     int           // how often; 0: never
	First   time.Duration // the longest wait before the first retry; each further wait may be twice as long …
	Longest time.Duration // … up to this. If Retry-After asks for a longer wait, the call fails at once.
}

// DefaultRetries lasts for a few seconds: as long as a server takes to be started again.
var DefaultRetries = Retries{Max: 5, First: 200 * time.Millisecond, Longest: 10 * time.Second}

// wait returns how long to wait before the n-th retry, and whether to retry at all.
func (r Retries) wait(n int, err error) (time.Duration, bool) {
	if n > r.Max {
		return 0, false
	}
	most := min(r.Longest, r.First<<min(n-1, 20))
	d := most/2 + mathrand.N(most/2+1) // spread the retries of callers that failed together
	var p *Problem
	if errors.As(err, &p) && p.RetryAfter > 0 {
		if p.RetryAfter > r.Longest {
			return 0, false
		}
		d = p.RetryAfter + mathrand.N(min(p.RetryAfter, time.Second))
	}
	return d, true
}

type keyInContext struct{}

// WithIdempotencyKey returns a context that gives a POST your own idempotency key, of 1 to 255 printable ASCII
// characters. A program that repeats the request with the same key within 24 hours, even after a restart, gets the
// first response again.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyInContext{}, key)
}

// patience limits the time of one try; a server answers within 30 s.
const patience = 40 * time.Second

// call sends a request, and retries it if that is safe. in and out may be nil.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	_, err := c.ask(ctx, request{method: method, path: prefix + path}, in, out)
	return err
}

func (c *Client) ask(ctx context.Context, r request, in, out any) (http.Header, error) {
	var err error
	if r.body, err = encode(in); err != nil {
		return nil, err
	}
	if r.method == http.MethodPost {
		if r.key, _ = ctx.Value(keyInContext{}).(string); r.key == "" {
			r.key = rand.Text()
		}
	}
	again := always
	if r.method == http.MethodPatch || r.method == http.MethodDelete || r.header.Get("If-Match") != "" {
		again = undone
	}
	for n := 1; ; n++ {
		head, err := c.patiently(ctx, r, out, again)
		if err == nil || ctx.Err() != nil || !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrLimited) || !again(err) {
			return head, err
		}
		d, ok := c.retries.wait(n, err)
		if !ok || !pause(ctx, d) {
			return head, err
		}
	}
}

// patiently makes one round with a time limit.
func (c *Client) patiently(ctx context.Context, r request, out any, again func(error) bool) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, patience*time.Duration(max(1, len(c.servers))))
	defer cancel()
	return c.round(ctx, r, out, again)
}

// undone reports whether an error means that the request surely had no effect: no connection was made, or the server
// refused to begin.
func undone(err error) bool {
	var op *net.OpError
	return errors.Is(err, ErrLimited) || errors.As(err, &op) && op.Op == "dial"
}

// pause waits; it returns false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
		return false // the wait would be for nothing
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// get sends a GET request.
func get[T any](ctx context.Context, c *Client, path string) (v T, err error) {
	err = c.call(ctx, http.MethodGet, path, nil, &v)
	return v, err
}

// post sends a POST request.
func post[T any](ctx context.Context, c *Client, path string, in any) (v T, err error) {
	err = c.call(ctx, http.MethodPost, path, in, &v)
	return v, err
}

// put sends a PUT request.
func put[T any](ctx context.Context, c *Client, path string, in any) (v T, err error) {
	err = c.call(ctx, http.MethodPut, path, in, &v)
	return v, err
}

// drop sends a DELETE request.
func drop[T any](ctx context.Context, c *Client, path string) (v T, err error) {
	err = c.call(ctx, http.MethodDelete, path, nil, &v)
	return v, err
}

// seg escapes one segment of a path.
func seg(s string) string { return url.PathEscape(s) }
