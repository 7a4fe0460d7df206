package workflow

import (
	"errors"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// Does is an action that a node can have.
type Does func(*client.WorkflowNode) error

// Handler runs a worker's handler of a kind, with a payload that is encoded as JSON. Expressions in it are evaluated
// when the node starts. If the payload is nil, the handler gets the input of the run.
func Handler(kind string, payload any) Does {
	return Run(client.Target{Target: "worker", Kind: kind}, payload)
}

// HTTP calls a URL, with a payload as in Handler.
func HTTP(url string, payload any) Does {
	return Run(client.Target{Target: "http", CallbackURL: url}, payload)
}

// Command runs a program with these arguments.
func Command(program string, args ...string) Does {
	return Run(client.Target{Target: "command", Command: append([]string{program}, args...)}, nil)
}

// Run runs any target, with a payload as in Handler; nil means the target's own.
func Run(t client.Target, payload any) Does {
	return func(n *client.WorkflowNode) error {
		t := t
		if payload != nil {
			doc, err := document(payload)
			if err != nil {
				return fmt.Errorf("its payload: %w", err)
			}
			t.Payload = doc
		}
		n.Execution = &t
		return nil
	}
}

// Job runs an existing job or workflow, by its id or as key:…, with a payload that replaces its own; nil keeps it.
func Job(ref string, payload any) Does {
	return func(n *client.WorkflowNode) error {
		if ref == "" {
			return errors.New("no job is named; want its id or key:…")
		}
		n.JobID = ref
		if payload == nil {
			return nil
		}
		doc, err := document(payload)
		if err != nil {
			return fmt.Errorf("its payload: %w", err)
		}
		n.PayloadOverride = doc
		return nil
	}
}

// Approval waits until somebody with one of these roles approves; with none, operators and admins may.
func Approval(roles ...string) Does {
	return Decision(client.WorkflowApproval{Roles: roles})
}

// Decision waits for an approval of any form: by several people, or with data that fits a schema.
func Decision(a client.WorkflowApproval) Does {
	return wait(client.WorkflowWait{Approval: &a})
}

// Sleep waits for a while.
func Sleep(d time.Duration) Does { return wait(client.WorkflowWait{Timer: d.String()}) }

// Until waits for an instant.
func Until(t time.Time) Does {
	return wait(client.WorkflowWait{Timer: t.UTC().Format(time.RFC3339Nano)})
}

// Event waits for an event with any payload.
func Event(name string) Does { return wait(client.WorkflowWait{Event: name}) }

// EventMatching waits for an event with this match: an Expr, or a value that encodes to JSON.
func EventMatching(name string, match any) Does {
	return func(n *client.WorkflowNode) error {
		switch m := match.(type) {
		case Expr: // an expression is used as it is
			match = string(m)
		case string: // a plain string would be read as an expression
			quoted, err := encode(m)
			if err != nil {
				return fmt.Errorf("its match: %w", err)
			}
			match = string(quoted)
		}
		doc, err := document(match)
		if err != nil {
			return fmt.Errorf("its match: %w", err)
		}
		return wait(client.WorkflowWait{Event: name, Match: doc})(n)
	}
}

func wait(w client.WorkflowWait) Does {
	return func(n *client.WorkflowNode) error {
		n.Wait = &w
		return nil
	}
}
