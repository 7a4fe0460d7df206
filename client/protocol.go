package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// sessionEnded reports whether a response means that the session has ended.
func sessionEnded(err error) error {
	var r *Problem
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

// claimWait bounds the wait of a claim at the server.
const claimWait = 20

// Claim waits until there is work for the worker, or ctx ends. Attempts that name secrets come without the values, and
// have LateSecrets set: call Start when you begin them.
func (c *Client) Claim(ctx context.Context, s Session, limit int) ([]Attempt, error) {
	for ctx.Err() == nil {
		var out Claimed
		err := c.do(ctx, "POST", "/workers/"+s.WorkerID+"/claim", s.Session, ClaimRequest{Max: min(limit, MaxClaim), WaitSeconds: new(claimWait), LateSecrets: true}, &out)
		if err != nil && ctx.Err() != nil {
			return nil, nil
		}
		if err != nil || len(out.Attempts) > 0 {
			return out.Attempts, sessionEnded(err)
		}
	}
	return nil, nil
}

// Start returns an attempt that was claimed with LateSecrets, with the values of its secrets as they are now. A *Problem
// with a status from 400 to 499, except 408, 425 and 429, means that it may not begin.
func (c *Client) Start(ctx context.Context, s Session, h Held) (Attempt, error) {
	body, err := encode(StartRequest{FencingToken: h.FencingToken})
	if err != nil {
		return Attempt{}, err
	}
	r := request{method: http.MethodPost, path: prefix + "/executions/" + h.ExecutionID + "/start", session: s.Session, header: http.Header{}, body: body}
	r.header.Set("X-Worker-ID", s.WorkerID)
	var a Attempt
	_, err = c.round(ctx, r, &a, always)
	return a, sessionEnded(err)
}

// Beat keeps the session alive.
func (c *Client) Beat(ctx context.Context, s Session, b Beat) (Orders, error) {
	var o Orders
	err := c.do(ctx, "POST", "/workers/"+s.WorkerID+"/beat", s.Session, b, &o)
	return o, sessionEnded(err)
}

// Report reports outcomes.
func (c *Client) Report(ctx context.Context, s Session, outcomes []Outcome) ([]Verdict, error) {
	var v Verdicts
	err := c.do(ctx, "POST", "/workers/"+s.WorkerID+"/complete", s.Session, CompleteRequest{Outcomes: outcomes}, &v)
	return v.Verdicts, sessionEnded(err)
}

// Logs adds lines to the log of an attempt. A *Problem with the code CodeStaleToken means that the lease is lost.
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

// AttemptNode returns which node of a workflow an attempt runs, or a problem with CodeNoNode if it runs none.
func (c *Client) AttemptNode(ctx context.Context, s Session, h Held) (AttemptNode, error) {
	var n AttemptNode
	err := c.do(ctx, "POST", "/workers/"+s.WorkerID+"/node", s.Session, NodeRequest{ExecutionID: h.ExecutionID, FencingToken: h.FencingToken}, &n)
	return n, sessionEnded(err)
}

// NodeResult reads the result of an ancestor of an attempt's node.
func (c *Client) NodeResult(ctx context.Context, s Session, r NodeResultRequest) (NodeResult, error) {
	var n NodeResult
	err := c.do(ctx, "POST", "/workers/"+s.WorkerID+"/result", s.Session, r, &n)
	return n, sessionEnded(err)
}
