// Package workflow builds workflows in Go.
//
// New takes the settings of a workflow as in the API: name, key, schedule, timeout. Node adds a node and returns a
// handle. Handles declare dependencies, and expressions use them to refer to results, so the compiler finds a
// mistyped node. A function of this package, such as Handler, HTTP or Approval, sets what a node does.
//
//	f := workflow.New(client.WorkflowRequest{Name: "Nightly ETL", Key: new("etl")})
//	list := f.Node("list", workflow.Handler("list", map[string]any{"day": workflow.Input("day")}))
//	load := f.Node("load", workflow.Handler("load", map[string]any{"file": workflow.Item})).After(list).Map(list.Result("files")).MaxParallel(20)
//	f.Output(load.Result())
//	w, err := f.Apply(ctx, c)
//
// A builder only describes a workflow. The server validates the whole when it receives it, and reports mistakes as
// for any other client.
package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// Builder builds one workflow. It is not safe for concurrent use.
type Builder struct {
	request client.WorkflowRequest
	nodes   []*Node
	wrong   []error
}

// New begins a workflow with these settings. Their nodes come before those of the builder.
func New(settings client.WorkflowRequest) *Builder {
	settings.Nodes = slices.Clone(settings.Nodes)
	return &Builder{request: settings}
}

// Node adds a node with an action, under a key that is unique in the workflow.
func (b *Builder) Node(key string, does Does) *Node {
	n := &Node{of: b, n: client.WorkflowNode{Key: key}}
	if does == nil {
		b.refuse(key, errors.New("it does nothing; want Handler, HTTP, Job, Approval or another function of this package"))
	} else if err := does(&n.n); err != nil {
		b.refuse(key, err)
	}
	b.nodes = append(b.nodes, n)
	return n
}

// Finally adds a node that runs when all others have ended, also after a cancel or a timeout.
func (b *Builder) Finally(key string, does Does) *Node {
	n := b.Node(key, does)
	n.n.Finally = true
	return n
}

// Output makes an expression the result of a run.
func (b *Builder) Output(e Expr) *Builder {
	b.request.Output = string(e)
	return b
}

// InputSchema checks the input of runs against a JSON Schema, given as a value that encodes to it.
func (b *Builder) InputSchema(schema any) *Builder {
	doc, err := document(schema)
	if err != nil {
		b.wrong = append(b.wrong, fmt.Errorf("the input schema: %w", err))
	}
	b.request.InputSchema = doc
	return b
}

// Request returns the definition in the form of the API. Its error lists all mistakes that the builder found.
func (b *Builder) Request() (client.WorkflowRequest, error) {
	r := b.request
	r.Nodes = slices.Clone(r.Nodes)
	for _, n := range b.nodes {
		r.Nodes = append(r.Nodes, n.n)
	}
	return r, errors.Join(b.wrong...)
}

// Apply creates or replaces the server's workflow with the same key. If nothing differs, nothing changes.
func (b *Builder) Apply(ctx context.Context, c *client.Client) (client.Workflow, error) {
	r, err := b.Request()
	if err != nil {
		return client.Workflow{}, err
	}
	if r.Key == nil || *r.Key == "" {
		return client.Workflow{}, errors.New("the workflow has no key, by which Apply finds it again; use CreateWorkflow for one without")
	}
	w, err := c.ReplaceWorkflow(ctx, "key:"+*r.Key, r, 0)
	if !errors.Is(err, client.ErrNotFound) {
		return w, err
	}
	w, err = c.CreateWorkflow(ctx, r)
	if errors.Is(err, client.ErrConflict) { // another client was faster
		if again, late := c.ReplaceWorkflow(ctx, "key:"+*r.Key, r, 0); late == nil {
			return again, nil
		}
	}
	return w, err
}

func (b *Builder) refuse(node string, err error) {
	b.wrong = append(b.wrong, fmt.Errorf("node %s: %w", node, err))
}

// Node is a node of a workflow that is being built.
type Node struct {
	of *Builder
	n  client.WorkflowNode
}

// Key returns the key of the node.
func (n *Node) Key() string { return n.n.Key }

// After makes the node wait for others.
func (n *Node) After(parents ...*Node) *Node {
	for _, p := range parents {
		if p == nil || p.of != n.of {
			n.of.refuse(n.n.Key, errors.New("After names a node that is not of this workflow"))
			continue
		}
		n.n.DependsOn = append(n.n.DependsOn, p.n.Key)
	}
	return n
}

// When sets which ends of its parents let the node run; the default is AllSuccess.
func (n *Node) When(t Trigger) *Node {
	n.n.Trigger = string(t)
	return n
}

// If skips the node unless an expression is true.
func (n *Node) If(e Expr) *Node {
	n.n.If = string(e)
	return n
}

// Map runs the node once for each item of the list that an expression yields, or, if it yields a number, that many
// times.
func (n *Node) Map(e Expr) *Node { return n.over(string(e)) }

// MapOver runs the node once for each item of a slice or an array.
func (n *Node) MapOver(list any) *Node { return n.over(list) }

// Times runs the node n times.
func (n *Node) Times(count int) *Node { return n.over(count) }

func (n *Node) over(list any) *Node {
	doc, err := document(list)
	if err != nil {
		n.of.refuse(n.n.Key, fmt.Errorf("its map: %w", err))
	}
	n.n.Map = doc
	return n
}

// MaxParallel bounds how many items of a map run at once.
func (n *Node) MaxParallel(items int) *Node {
	n.n.MaxParallel = items
	return n
}

// Tolerate sets how many items of a map may fail.
func (n *Node) Tolerate(items int) *Node {
	n.n.Tolerate = fmt.Append(nil, items)
	return n
}

// ToleratePercent sets which percentage of the items of a map may fail.
func (n *Node) ToleratePercent(percent float64) *Node {
	n.n.Tolerate = fmt.Appendf(nil, `"%v%%"`, percent)
	return n
}

// OnFailure sets what a failure of the node means for the run; the default is the workflow's setting.
func (n *Node) OnFailure(p Policy) *Node {
	n.n.OnFailure = string(p)
	return n
}

// Retry sets whether and when a failed attempt of the node is retried.
func (n *Node) Retry(p client.RetryPolicy) *Node {
	n.n.RetryPolicy = &p
	return n
}

// Timeout limits all attempts of the node together.
func (n *Node) Timeout(d time.Duration) *Node {
	n.n.Timeout = d.String()
	return n
}

// OnTimeout sets how a wait that takes too long ends; by default it fails.
func (n *Node) OnTimeout(e TimeoutEnd) *Node {
	n.n.OnTimeout = string(e)
	return n
}

// Trigger is the condition on its parents' ends under which a node runs.
type Trigger string

// The triggers.
const (
	AllSuccess              Trigger = "all_success"
	NoneFailed              Trigger = "none_failed"
	NoneFailedMinOneSuccess Trigger = "none_failed_min_one_success"
	AnySuccess              Trigger = "any_success"
	AllDone                 Trigger = "all_done"
	AllFailed               Trigger = "all_failed"
	OneSuccess              Trigger = "one_success"
	OneDone                 Trigger = "one_done"
	OneFailed               Trigger = "one_failed"
)

// Policy is the consequence of a node's failure for its run.
type Policy string

// The policies.
const (
	Continue Policy = "continue" // only descendants suffer
	Stop     Policy = "stop"     // nothing else starts
	Handle   Policy = "handle"   // triggers see the failure, but the run does not fail because of it
	Ignore   Policy = "ignore"   // it counts as a success
)

// TimeoutEnd is the outcome of a wait that takes too long.
type TimeoutEnd string

// The ends.
const (
	Fail    TimeoutEnd = "fail"
	Skip    TimeoutEnd = "skip"
	Succeed TimeoutEnd = "succeed"
)

// document encodes a value, without escapes for HTML.
func document(v any) (json.RawMessage, error) {
	if raw, ok := v.(json.RawMessage); ok {
		return raw, nil
	}
	return encode(v)
}
