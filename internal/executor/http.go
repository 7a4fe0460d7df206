package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

const (
	maxRedirects     = 3
	redirectBodySize = 2 << 10 // read of a redirect's body, to keep its connection
)

var methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"}

// call is an attempt's way from its URL, through redirects, to a response.
type call struct {
	attempt client.Attempt
	method  string
	url     *url.URL
	body    []byte
	foreign bool // a redirect left the origin that the user's headers are for
	secure  bool // it may go over https only
	altered bool // a redirect dropped the body, so its signature no longer matches
}

// callback calls the attempt's URL and judges the response. Once any of the request was sent it is never sent again
// within the attempt: a second arrival at a target always has a recorded reason.
func (e *Executor) callback(ctx context.Context, a client.Attempt) client.Outcome {
	c, err := newCall(a)
	if err != nil {
		return failed(typeInternal, false, err.Error())
	}
	c.secure = e.secure || a.CallbackHTTPSOnly
	if c.url.Scheme != "https" {
		switch {
		case e.secure:
			return failed(typeBlocked, false, "this server makes callbacks over https only (callbacks.https_only), and the callback URL begins with http://")
		case a.CallbackHTTPSOnly:
			return failed(typeBlocked, false, "callbacks of this tenant go over https only (callbacks_https_only), and the callback URL begins with http://")
		}
	}
	t, off := e.turn(c, turn{})
	if off != nil {
		return *off
	}
	defer func() { t.end() }()
	if e.breaker == nil {
		return e.follow(ctx, c, &t)
	}
	host := circuitKey{a.TenantID, origin(c.url)}
	if wait, why := e.breaker.enter(host, time.Now()); wait > 0 {
		e.countPutOff(byBreaker)
		return snoozed(wait, why)
	}
	o := client.Outcome{} // a panic shows nothing about the host
	defer func() { e.breaker.leave(host, time.Now(), judged(o), o.Error) }()
	o = e.follow(ctx, c, &t)
	return o
}

// turn is a call's slot at a host. The zero turn belongs to a host without limits.
type turn struct {
	paces        *paces
	host, tenant string
}

func (t turn) end() {
	if t.paces != nil {
		t.paces.leave(t.host, t.tenant, time.Now())
	}
}

// turn takes a slot at the host of a call, replacing the one it has, or returns that the call is postponed.
func (e *Executor) turn(c *call, has turn) (turn, *client.Outcome) {
	host, now := hostport(c.url), time.Now()
	switch {
	case e.paces == nil || e.guard.named(c.url.Hostname()):
		has.end()
		return turn{}, nil
	case has.host == host:
		has.paces.again(host, now)
		return has, nil
	}
	has.end()
	if wait, why := e.paces.enter(host, c.attempt.TenantID, now); wait > 0 {
		o := snoozed(wait, why)
		return turn{}, &o
	}
	return turn{e.paces, host, c.attempt.TenantID}, nil
}

func snoozed(wait time.Duration, why *client.Error) client.Outcome {
	return client.Outcome{Status: client.Snoozed, RetryAfterMS: max(1, wait.Milliseconds()), Error: why}
}

// follow makes the call, and follows redirects, taking a slot at each host.
func (e *Executor) follow(ctx context.Context, c *call, t *turn) client.Outcome {
	transport := e.transport
	if allow := c.attempt.CallbackAllow; len(allow) > 0 {
		transport = e.reaches.of(allow)
	}
	for hops := 0; ; hops++ {
		req, err := c.request(ctx, e.agent)
		if err != nil {
			return failed(typeInternal, false, err.Error())
		}
		resp, err := transport.RoundTrip(req)
		if err == nil {
			err = failpoint.Hit("worker.duringEffect")
		}
		if err != nil {
			return c.unanswered(ctx, err)
		}
		next, err := c.redirect(resp, hops)
		if next == nil {
			return c.judge(ctx, resp, err)
		}
		_, _ = io.CopyN(io.Discard, resp.Body, redirectBodySize) // an error does not matter any more
		_ = resp.Body.Close()
		var off *client.Outcome
		if *t, off = e.turn(next, *t); off != nil {
			off.Error.Message = fmt.Sprintf("%s was answered with a redirect, and %s", c, off.Error.Message)
			return *off
		}
		c = next
	}
}

func newCall(a client.Attempt) (*call, error) {
	c := &call{attempt: a, method: a.Execution.Method}
	if c.method == "" {
		c.method = http.MethodPost
	}
	if !slices.Contains(methods, c.method) {
		return nil, fmt.Errorf("%q is no method that a callback may use", excerpt(c.method))
	}
	u, err := url.Parse(a.Execution.CallbackURL)
	if err != nil || !callable(u) {
		// The error of url.Parse repeats the URL with its secrets.
		return nil, errors.New("the callback URL is not an absolute http or https URL")
	}
	c.url = plain(u)
	if c.method != http.MethodGet && c.method != http.MethodHead {
		c.body = a.Payload
	}
	return c, nil
}

func callable(u *url.URL) bool {
	return (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}

// plain returns the URL without what is never sent: user and fragment.
func plain(u *url.URL) *url.URL {
	v := *u
	v.User, v.Fragment, v.RawFragment = nil, "", ""
	return &v
}

func (c *call) request(ctx context.Context, agent string) (*http.Request, error) {
	var body io.Reader = http.NoBody
	if len(c.body) > 0 {
		body = bytes.NewReader(c.body)
	}
	req, err := http.NewRequestWithContext(ctx, c.method, "", body)
	if err != nil {
		return nil, fmt.Errorf("build the request: %w", err)
	}
	req.URL, req.Host = c.url, c.url.Host
	if c.method == http.MethodGet || c.method == http.MethodHead {
		req.Body = io.NopCloser(strings.NewReader("")) // net/http retries these by itself, unless there may be a body
	}
	h, a := req.Header, c.attempt
	h.Set("User-Agent", agent)
	if len(c.body) > 0 {
		h.Set("Content-Type", "application/json")
	}
	if !c.foreign {
		for name, value := range a.Execution.Headers {
			if strings.EqualFold(name, "Idempotency-Key") {
				h["Idempotency-KEY"] = []string{value} // see below
			} else {
				h.Set(name, value)
			}
		}
	}
	// Last, so that no user header replaces one of ours.
	h.Set("X-Job-ID", a.JobID)
	h.Set("X-Execution-ID", a.ExecutionID)
	h.Set("X-Attempt-Number", strconv.Itoa(a.AttemptNumber))
	h["X-Idempotency-KEY"] = []string{a.IdempotencyKey} // net/http treats the usual spelling as permission to repeat the request
	h.Set("X-Scheduled-Time", a.ScheduledTime.UTC().Format(time.RFC3339Nano))
	h.Set("X-Fencing-Token", strconv.FormatInt(a.FencingToken, 10))
	for name, value := range a.CallbackHeaders {
		if c.sends(name) {
			h.Set(name, value)
		}
	}
	return req, nil
}

// sends reports whether a header that the server made is sent with the call: headers that prove something go only to
// the origin and with the body that they were made for.
func (c *call) sends(name string) bool {
	if strings.EqualFold(name, "traceparent") {
		return true
	}
	return !c.foreign && !(c.altered && strings.EqualFold(name, "webhook-signature"))
}

// redirect returns the call that the response redirects to, nil if the response itself is to be judged; an error says
// why a redirect is not followed.
func (c *call) redirect(resp *http.Response, hops int) (*call, error) {
	location := resp.Header.Get("Location")
	if !redirects(resp.StatusCode) || location == "" {
		return nil, nil
	}
	to, err := c.url.Parse(location)
	if err != nil || !callable(to) {
		return nil, errors.New("with a Location that is not an http or https URL")
	}
	switch {
	case !c.attempt.Execution.FollowRedirects:
		return nil, fmt.Errorf("with the Location %s; set follow_redirects to follow it", shown(to))
	case hops >= maxRedirects:
		return nil, fmt.Errorf("as redirect number %d; at most %d are followed", hops+1, maxRedirects)
	case c.url.Scheme == "https" && to.Scheme == "http":
		return nil, fmt.Errorf("with the Location %s; a redirect from https to http is not followed", shown(to))
	}
	next := *c
	next.url = plain(to)
	next.foreign = c.foreign || origin(c.url) != origin(to)
	if drops := resp.StatusCode <= http.StatusSeeOther; !drops && next.foreign && c.attempt.PayloadSecret && len(c.body) > 0 {
		return nil, fmt.Errorf("with the Location %s at another origin; a payload with secrets is not sent there", shown(to))
	}
	if resp.StatusCode <= http.StatusSeeOther && c.method != http.MethodHead {
		next.method, next.body, next.altered = http.MethodGet, nil, c.altered || len(c.body) > 0
	}
	return &next, nil
}

func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// String names the call for people, without secrets.
func (c *call) String() string { return c.method + " " + shown(c.url) }

// shown returns a URL without user, query and fragment, which may hold secrets.
func shown(u *url.URL) string {
	return excerpt((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String())
}

// hostport returns the host and port of a URL.
func hostport(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

func origin(u *url.URL) string { return u.Scheme + "://" + hostport(u) }
