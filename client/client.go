package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// ErrSession means that the server has ended the worker's session.
var ErrSession = errors.New("the worker session has ended")

// ErrEncoding means that a request cannot be written as JSON; retrying does not help.
var ErrEncoding = errors.New("the request cannot be encoded")

// ErrTooLarge means that a response was larger than the client reads.
var ErrTooLarge = fmt.Errorf("the answer is larger than %d MiB", maxAnswer>>20)

// ErrNoServer means that a client was made without the address of a server.
var ErrNoServer = errors.New("the client knows no server: New wants an address such as https://carillon.example")

// Client calls one of several servers; if one does not answer, it tries the next. It is safe for concurrent use.
type Client struct {
	servers []string
	token   string
	tenant  string
	agent   string
	retries Retries
	http    *http.Client
	at      atomic.Int64 // the server that answered last
}

// Option configures a client.
type Option func(*Client)

// WithTenant makes every request act in a tenant, as the role system may.
func WithTenant(id string) Option { return func(c *Client) { c.tenant = id } }

// WithUserAgent names the program in every request.
func WithUserAgent(name string) Option { return func(c *Client) { c.agent = name } }

// WithHTTPClient sends requests with another HTTP client, such as one with its own certificates.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithRetries sets the number and the timing of retries.
func WithRetries(r Retries) Option { return func(c *Client) { c.retries = r } }

// New makes a client of the servers at the given addresses, such as https://carillon.example, with an API key.
func New(servers []string, token string, options ...Option) *Client {
	c := &Client{token: token, agent: "carillon-go", retries: DefaultRetries, http: &http.Client{
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			MaxIdleConnsPerHost: 16, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second, Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
		},
		// A redirected POST would arrive as a GET, and would leak the key.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	for _, s := range servers {
		c.servers = append(c.servers, strings.TrimRight(s, "/"))
	}
	for _, o := range options {
		o(c)
	}
	return c
}

// prefix is the common prefix of the API's paths.
const prefix = "/api/v1"

// request is one call, independent of the server it goes to.
type request struct {
	method  string
	path    string // from the root, with the query
	session string // of a worker
	key     string // makes it safe to send again
	token   string // in place of the client's
	header  http.Header
	body    []byte
}

// encode writes the body of a request.
func encode(in any) ([]byte, error) {
	if in == nil {
		return nil, nil
	}
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false) // so that a result keeps the length that was measured
	if err := e.Encode(in); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEncoding, err)
	}
	return body.Bytes(), nil
}

// do sends a request of the worker protocol to the server that answered last, or, if it is unavailable, to the others
// in turn. in and out may be nil.
func (c *Client) do(ctx context.Context, method, path, session string, in, out any) error {
	body, err := encode(in)
	if err != nil {
		return err
	}
	_, err = c.round(ctx, request{method: method, path: prefix + path, session: session, body: body}, out, always)
	return err
}

func always(error) bool { return true }

// round sends a request to each server until one answers, or until an error is not worth continuing.
func (c *Client) round(ctx context.Context, r request, out any, goOn func(error) bool) (head http.Header, err error) {
	if len(c.servers) == 0 {
		return nil, ErrNoServer
	}
	first := c.at.Load()
	for n := range int64(len(c.servers)) {
		i := (first + n) % int64(len(c.servers))
		var gone bool
		head, gone, err = c.try(ctx, c.servers[i], r, out)
		if !gone {
			c.at.Store(i)
			return head, err
		}
		if ctx.Err() != nil || !goOn(err) {
			break
		}
	}
	return head, err
}

// maxAnswer limits how much of a response is read.
const maxAnswer = 64 << 20

// try sends a request to one server. gone reports that it did not answer, or cannot serve requests just now.
func (c *Client) try(ctx context.Context, server string, r request, out any) (_ http.Header, gone bool, err error) {
	req, err := http.NewRequestWithContext(ctx, r.method, server+r.path, bytes.NewReader(r.body))
	if err != nil {
		return nil, false, err
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	c.sign(req, r.token)
	if len(r.body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.session != "" {
		req.Header.Set("X-Worker-Session", r.session)
	}
	if r.key != "" {
		req.Header.Set("X-Idempotency-Key", r.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, true, &away{err}
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, true, &away{fmt.Errorf("%s %s: the answer broke off: %w", r.method, req.URL.Path, err)}
	case len(data) > maxAnswer:
		return nil, false, fmt.Errorf("%s %s: %w", r.method, req.URL.Path, ErrTooLarge)
	case resp.StatusCode >= 300:
		return resp.Header, resp.StatusCode >= 500, problem(resp, data)
	case out == nil:
		return resp.Header, false, nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return resp.Header, false, fmt.Errorf("%s %s: the answer is not what a Carillon server sends (%s): %w", r.method, req.URL.Path, resp.Header.Get("Content-Type"), err)
	}
	return resp.Header, false, nil
}

// sign adds the credentials to a request.
func (c *Client) sign(req *http.Request, token string) {
	if token == "" {
		token = c.token
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if c.tenant != "" && req.Header.Get("X-Tenant-ID") == "" {
		req.Header.Set("X-Tenant-ID", c.tenant)
	}
	req.Header.Set("User-Agent", c.agent)
}

// problem returns the error in a response; a response that is not a problem document keeps its status.
func problem(resp *http.Response, data []byte) *Problem {
	p := &Problem{Status: resp.StatusCode, Detail: http.StatusText(resp.StatusCode)}
	if to := resp.Header.Get("Location"); resp.StatusCode < 400 && to != "" {
		p.Detail = "The server sends its callers to another address; use that one: " + to
	}
	_ = json.Unmarshal(data, p)
	p.Status = resp.StatusCode
	if p.RequestID == "" {
		p.RequestID = resp.Header.Get("X-Request-ID")
	}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 && n <= 1<<20 {
		p.RetryAfter = time.Duration(n) * time.Second
	}
	return p
}

// send sends a request to one server whose response is read as a stream; an error response is a *Problem.
func (c *Client) send(req *http.Request) (*http.Response, error) {
	c.sign(req, "")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, &away{err}
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	data, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return nil, problem(resp, data)
}

// server returns the server that answered last.
func (c *Client) server() (string, error) {
	if len(c.servers) == 0 {
		return "", ErrNoServer
	}
	return c.servers[int(uint64(c.at.Load())%uint64(len(c.servers)))], nil
}
