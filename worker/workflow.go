package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/carillon-jobs/carillon/client"
)

// Nodes is a Source that can describe the workflow that an attempt belongs to.
type Nodes interface {
	AttemptNode(ctx context.Context, s client.Session, h client.Held) (client.AttemptNode, error)
	NodeResult(ctx context.Context, s client.Session, r client.NodeResultRequest) (client.NodeResult, error)
}

// ErrNoNode means that an attempt is not a node of a workflow.
var ErrNoNode = errors.New("the attempt is not a node of a workflow")

// ErrNoResult means that a node of a workflow has not succeeded, so it has no result.
var ErrNoResult = errors.New("the node has no result")

// nodes lets an attempt query its node, and results of others.
type nodes interface {
	node(ctx context.Context, a client.Attempt) (client.AttemptNode, error)
	result(ctx context.Context, a client.Attempt, node string) (client.NodeResult, error)
}

// ResultOf returns the result of another node of the workflow run that ctx is part of: of an ancestor or, in a
// finally node, of any node that is not one. The result of a map is the list of its items' results. It is read from
// the server and not cached: call it once. The error is ErrNoResult for a node that failed, was skipped or has not
// ended, and ErrNoNode outside a workflow. A result that does not fit T is a failure that is not retried, and so is a
// node that is not an ancestor.
func ResultOf[T any](ctx context.Context, node string) (T, error) {
	var out T
	r, err := ask(ctx, func(n nodes, a client.Attempt) (client.NodeResult, error) { return n.result(ctx, a, node) })
	if err != nil {
		return out, fmt.Errorf("read the result of the node %s: %w", node, err)
	}
	if r.Status != client.Succeeded && (len(r.Result) == 0 || string(r.Result) == "null") {
		why := r.Status
		if r.Error != nil {
			why += ": " + r.Error.Message
		}
		return out, fmt.Errorf("%w: %s is %s", ErrNoResult, node, why)
	}
	return out, fits(r.Result, &out, "the result of the node "+node)
}

// ItemOf returns the item of a map that the attempt of ctx runs for, and its index in the list, from 0. The error is
// ErrNoNode for an attempt that is not an item of a map.
func ItemOf[T any](ctx context.Context) (item T, index int, err error) {
	n, err := NodeOf(ctx)
	if err == nil && n.Index == nil {
		err = fmt.Errorf("%w that has map", ErrNoNode)
	}
	if err != nil {
		return item, 0, err
	}
	return item, *n.Index, fits(n.Item, &item, "the item")
}

// NodeOf returns which node of which workflow run the attempt of ctx is, and for which item of a map it runs.
func NodeOf(ctx context.Context) (client.AttemptNode, error) {
	n, err := ask(ctx, func(n nodes, a client.Attempt) (client.AttemptNode, error) { return n.node(ctx, a) })
	if err != nil {
		return n, fmt.Errorf("read the node of the attempt: %w", err)
	}
	return n, nil
}

func ask[T any](ctx context.Context, do func(n nodes, a client.Attempt) (T, error)) (out T, err error) {
	r := runningOf(ctx)
	switch {
	case r == nil:
		return out, errors.New("ctx is not that of an attempt")
	case r.nodes == nil:
		return out, ErrNoNode
	}
	out, err = do(r.nodes, r.attempt)
	var p *client.Problem
	switch {
	case !errors.As(err, &p):
	case p.Code == client.CodeNoNode:
		return out, ErrNoNode
	case p.Status == 422:
		return out, Never(err)
	}
	return out, err
}

// fits decodes JSON into the wanted type.
func fits(doc json.RawMessage, into any, what string) error {
	if len(bytes.TrimSpace(doc)) == 0 {
		return nil
	}
	if err := json.Unmarshal(doc, into); err != nil {
		return Never(fmt.Errorf("%s does not fit %T: %w", what, into, err))
	}
	return nil
}

// asked queries a server under a session.
type asked struct {
	src     Nodes
	session client.Session
}

func (n asked) node(ctx context.Context, a client.Attempt) (client.AttemptNode, error) {
	return n.src.AttemptNode(ctx, n.session, client.Held{ExecutionID: a.ExecutionID, FencingToken: a.FencingToken})
}

func (n asked) result(ctx context.Context, a client.Attempt, node string) (client.NodeResult, error) {
	return n.src.NodeResult(ctx, n.session, client.NodeResultRequest{ExecutionID: a.ExecutionID, FencingToken: a.FencingToken, Node: node})
}

// InWorkflow returns a context for a test that runs a handler without a server, with Worker.Execute: ResultOf, ItemOf
// and NodeOf return what is given here. Results are encoded as JSON; a node without one has not succeeded.
func InWorkflow(ctx context.Context, a client.Attempt, node client.AttemptNode, results map[string]any) context.Context {
	return context.WithValue(ctx, runningKey{}, &running{attempt: a, progress: progress{hurry: func() {}}, nodes: given{node, results}})
}

// given holds a node and results that a test provides.
type given struct {
	own     client.AttemptNode
	results map[string]any
}

func (g given) node(context.Context, client.Attempt) (client.AttemptNode, error) { return g.own, nil }

func (g given) result(_ context.Context, _ client.Attempt, node string) (client.NodeResult, error) {
	out := client.NodeResult{Node: node, Status: "NOT_RUN"}
	result, ok := g.results[node]
	if !ok {
		return out, nil
	}
	doc, err := json.Marshal(result)
	out.Status, out.Result = client.Succeeded, doc
	return out, err
}
