package workflows

import (
	"errors"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/expression"
	"github.com/carillon-jobs/carillon/internal/wire"
)

// start adds the execution of a node, or of an item of a map. If it cannot start, it returns the event that says so.
func (t *Turn) start(x workflow.Execution) *workflow.Event {
	m, err := t.member(x)
	if err == nil {
		t.next.Members = append(t.next.Members, m)
		t.deadline(x.Node)
		return nil
	}
	var no *refusal
	if !errors.As(err, &no) {
		t.err = err // the store's fault, not the node's: the turn is tried again
		return nil
	}
	t.keep(engine.RunResult{Place: engine.PlaceOf(x.Node, x.Item), Error: &job.Error{Type: no.reason, Message: no.text}})
	e := workflow.Event{Kind: workflow.NodeEnded, Node: x.Node, Status: workflow.Failed}
	if no.reason == badExpression {
		e.Reason = workflow.BadExpression
	}
	if x.Item >= 0 {
		e.Kind, e.Item = workflow.ItemEnded, x.Item
	}
	return &e
}

// badExpression is the type of errors of expressions and templates.
var badExpression = job.ErrorType(workflow.BadExpression.String())

// refusal says why an execution cannot start.
type refusal struct {
	reason job.ErrorType
	text   string
}

func (r *refusal) Error() string { return r.text }

// refuse says why what was to start cannot.
func (t *Turn) refuse(x workflow.Execution, why job.ErrorType, format string, args ...any) error {
	what := "node " + t.Graph.Node(x.Node).Key
	if x.Item >= 0 {
		what = fmt.Sprintf("item %d of %s", x.Item, what)
	}
	return &refusal{why, what + ": " + fmt.Sprintf(format, args...)}
}

// member makes the execution.
func (t *Turn) member(x workflow.Execution) (engine.NewMember, error) {
	m := engine.NewMember{Place: engine.PlaceOf(x.Node, x.Item)}
	j, err := t.job(t.version.jobs[x.Node])
	switch {
	case errors.Is(err, engine.ErrNotFound) || err == nil && j.State == job.Deleted:
		return m, t.refuse(x, "JOB_DELETED", "its job was deleted; retry the run with a version of the workflow that names another")
	case err != nil:
		return m, err
	}
	payload := []byte(x.Payload)
	if x.Execution != nil {
		target, rendered, err := wire.Rendered(x.Execution)
		if err != nil {
			return m, t.refuse(x, badExpression, "the rendered execution is not valid: %s", err)
		}
		if t.Graph.RendersTarget(x.Node) {
			m.Target = engine.EncodeTarget(&target)
		}
		payload = rendered
		switch {
		case rendered == nil:
			payload = t.next.Input
		case !t.Graph.RendersPayload(x.Node):
			payload = nil // the job's own, byte by byte as it was given
		}
	}
	rendered := x.Execution == nil || t.Graph.RendersPayload(x.Node) // the input was checked when the run was triggered
	if most := t.limits.Payload; rendered && most >= 0 && len(payload) > most {
		return m, t.refuse(x, "PAYLOAD_TOO_LARGE", "the rendered payload has %d bytes; payloads of this tenant have at most %d: pass large values as artifacts", len(payload), most)
	}
	if refuse := t.runner.cfg.Refuse; payload != nil && refuse != nil {
		if err := refuse(*j, payload); err != nil {
			return m, t.refuse(x, job.HandlerError, "%s", err)
		}
	}
	id := job.ExecutionID(newID())
	if x.Item < 0 {
		id = job.NodeExecutionID(id)
	}
	e := j.Fire(id, t.View.Now, t.View.Now)
	e.Trigger, e.Payload, e.UniqueKey = job.ByWorkflow, payload, ""
	if now := t.runner.clock.Now().Truncate(time.Microsecond); now.Before(e.DueAt) {
		e.DueAt = now // by the clock of who hands it out, which may be a little behind the store's: else it would wait until that says so, too
	}
	if payload != nil && j.ConcurrencyKey != "" {
		p, err := expression.Compile(j.ConcurrencyKey)
		if err != nil {
			return m, err
		}
		key, err := p.Eval(payload)
		if err != nil {
			return m, t.refuse(x, badExpression, "concurrency_key: %s", err)
		}
		e.Join(j.GroupOf(key))
	}
	m.Execution = e
	return m, nil
}
