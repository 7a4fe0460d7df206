package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// ErrSession says that the server has ended the worker's session.
var ErrSession = errors.New("the worker session has ended")

// ErrEncoding says that a request cannot be written as JSON: sending it again is of no use.
var ErrEncoding = errors.New("the request cannot be encoded")

// ErrTooLarge says that an answer was larger than a client reads.
var ErrTooLarge = fmt.Errorf("the answer is larger than %d MiB", maxAnswer>>20)

// Refusal is an error answer of the server.
type Refusal struct{ Problem }

func (r *Refusal) Error() string {
	return fmt.Sprintf("%d %s: %s", r.Status, r.Code, r.Detail)
}

// Client speaks to one of several servers; where one does not answer, it turns to the next.
type Client struct {
	servers []string
	token   string
	http    *http.Client
	at      atomic.Int64 // the server that answered last
}

// New makes a client of the servers at the given addresses, such as https://carillon.example, with an API key.
func New(servers []string, token string) *Client {
	c := &Client{token: token, http: &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 16, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second, Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
	}}}
	for _, s := range servers {
		c.servers = append(c.servers, strings.TrimRight(s, "/")+"/api/v1")
	}
	return c
}

// do sends a request to the server that answered last, or, where it is away, to the others in turn. in and out may be nil.
func (c *Client) do(ctx context.Context, method, path, session string, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		e := json.NewEncoder(&body)
		e.SetEscapeHTML(false) // a result is as long on the way as it was measured
		if err := e.Encode(in); err != nil {
			return fmt.Errorf("%w: %w", ErrEncoding, err)
		}
	}
	first := c.at.Load()
	var last error
	for n := range int64(len(c.servers)) {
		i := (first + n) % int64(len(c.servers))
		away, err := c.try(ctx, method, c.servers[i]+path, session, body.Bytes(), out)
		if !away {
			c.at.Store(i)
			return err
		}
		last = err
		if ctx.Err() != nil {
			break
		}
	}
	return last
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 20

func (c *Client) try(ctx context.Context, method, url, session string, body []byte, out any) (away bool, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	if session != "" {
		req.Header.Set("X-Worker-Session", session)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return true, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return true, err
	case len(data) > maxAnswer:
		return false, fmt.Errorf("%s %s: %w", method, req.URL.Path, ErrTooLarge)
	}
	if resp.StatusCode >= 400 {
		r := &Refusal{Problem{Status: resp.StatusCode, Detail: http.StatusText(resp.StatusCode)}}
		_ = json.Unmarshal(data, &r.Problem) // what is no problem document keeps the status
		return resp.StatusCode >= 500, r
	}
	if out == nil {
		return false, nil
	}
	return false, json.Unmarshal(data, out)
}

// sessionEnded tells an answer that means that the session is over from others.
func sessionEnded(err error) error {
	var r *Refusal
	if errors.As(err, &r) && (r.Status == http.StatusNotFound || r.Code == "session_ended") {
		return fmt.Errorf("%w: %w", ErrSession, err)
	}
	return err
}

// Register begins a worker's session.
func (c *Client) Register(ctx context.Context, r Registration) (Session, error) {
	var s Session
	return s, c.do(ctx, "POST", "/workers", "", r, &s)
}

// claimWait is how long a claim waits at the server.
const claimWait = 20

// Claim waits until there is something for the worker, or ctx ends.
func (c *Client) Claim(ctx context.Context, s Session, limit int) ([]Attempt, error) {
	for ctx.Err() == nil {
		var out Claimed
		err := c.do(ctx, "POST", "/workers/"+s.WorkerID+"/claim", s.Session, ClaimRequest{Max: min(limit, MaxClaim), WaitSeconds: new(claimWait)}, &out)
		if err != nil && ctx.Err() != nil {
			return nil, nil
		}
		if err != nil || len(out.Attempts) > 0 {
			return out.Attempts, sessionEnded(err)
		}
	}
	return nil, nil
}

// Beat keeps the session alive.
func (c *Client) Beat(ctx context.Context, s Session, b Beat) (Orders, error) {
	var o Orders
	err := c.do(ctx, "POST", "/workers/"+s.WorkerID+"/beat", s.Session, b, &o)
	return o, sessionEnded(err)
}

// Report passes outcomes on.
func (c *Client) Report(ctx context.Context, s Session, outcomes []Outcome) ([]Verdict, error) {
	var v Verdicts
	err := c.do(ctx, "POST", "/workers/"+s.WorkerID+"/complete", s.Session, CompleteRequest{Outcomes: outcomes}, &v)
	return v.Verdicts, sessionEnded(err)
}

// Logs adds lines to the log of an attempt. A *Refusal with the code CodeStaleToken says that the lease is lost.
func (c *Client) Logs(ctx context.Context, s Session, r LogRequest) (LogAnswer, error) {
	var a LogAnswer
	err := c.do(ctx, "POST", "/workers/"+s.WorkerID+"/logs", s.Session, r, &a)
	return a, sessionEnded(err)
}

// Release hands executions back.
func (c *Client) Release(ctx context.Context, s Session, held []Held) error {
	return sessionEnded(c.do(ctx, "POST", "/workers/"+s.WorkerID+"/release", s.Session, ReleaseRequest{Executions: held}, nil))
}

// Leave ends the session.
func (c *Client) Leave(ctx context.Context, s Session) error {
	return sessionEnded(c.do(ctx, "DELETE", "/workers/"+s.WorkerID, s.Session, nil, nil))
}
