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

// Retries sets the number and the timing of retries of calls that no server answered, or that were told to come again.
type Retries struct {
	Max     int           // how often; 0: never
	First   time.Duration // the longest wait before the first; each further may be twice as long …
	Longest time.Duration // … up to this. Where the server asks for more with Retry-After, the call fails at once.
}

// DefaultRetries lasts for a few seconds: as long as a server takes to be started again.
var DefaultRetries = Retries{Max: 5, First: 200 * time.Millisecond, Longest: 10 * time.Second}

// wait returns how long to wait before the n-th retry, and whether to retry at all.
func (r Retries) wait(n int, err error) (time.Duration, bool) {
	if n > r.Max {
		return 0, false
	}
	most := min(r.Longest, r.First<<min(n-1, 20))
	d := most/2 + mathrand.N(most/2+1) // callers that failed together do not come again together
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

// WithIdempotencyKey gives the POST that is made with the context a key of the caller's own, of 1 to 255 printable ASCII
// characters: a program that is started again with the same key, within 24 hours, gets the first answer again.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyInContext{}, key)
}

// patience limits the time of one try; a server answers within 30 s.
const patience = 40 * time.Second

// call sends a request, repeatedly where that can do no harm. in and out may be nil.
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

// patiently makes one round with a bound.
func (c *Client) patiently(ctx context.Context, r request, out any, again func(error) bool) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, patience*time.Duration(max(1, len(c.servers))))
	defer cancel()
	return c.round(ctx, r, out, again)
}

// undone tells an error after which surely nothing was done: no connection came about, or the server refused to begin.
func undone(err error) bool {
	var op *net.OpError
	return errors.Is(err, ErrLimited) || errors.As(err, &op) && op.Op == "dial"
}

// pause waits; false says that ctx ended first.
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

// get reads one thing.
func get[T any](ctx context.Context, c *Client, path string) (v T, err error) {
	err = c.call(ctx, http.MethodGet, path, nil, &v)
	return v, err
}

// post asks for something.
func post[T any](ctx context.Context, c *Client, path string, in any) (v T, err error) {
	err = c.call(ctx, http.MethodPost, path, in, &v)
	return v, err
}

// put keeps something.
func put[T any](ctx context.Context, c *Client, path string, in any) (v T, err error) {
	err = c.call(ctx, http.MethodPut, path, in, &v)
	return v, err
}

// drop deletes something.
func drop[T any](ctx context.Context, c *Client, path string) (v T, err error) {
	err = c.call(ctx, http.MethodDelete, path, nil, &v)
	return v, err
}

// seg is one part of a path.
func seg(s string) string { return url.PathEscape(s) }
