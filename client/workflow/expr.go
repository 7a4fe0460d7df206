package workflow

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
)

// Expr is an expression that the server evaluates, such as run.input.day. As a part of a payload it is encoded as a template, and
// replaced by its value when the node starts.
type Expr string

// The expressions that every node may use. Item and Index are for the nodes of a map.
const (
	Item          Expr = "item"
	Index         Expr = "index"
	RunID         Expr = "run.id"
	ScheduledTime Expr = "run.scheduled_time"
	Attempt       Expr = "run.attempt"
	RunStatus     Expr = "run.status" // in finally nodes and the output
	RunFailed     Expr = "run.failed" // likewise
)

// Input returns the input of the run, or a field of it.
func Input(path ...string) Expr { return Expr("run.input").Field(path...) }

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Field returns a field, or a nested field, of an expression's value.
func (e Expr) Field(path ...string) Expr {
	for _, name := range path {
		if plainName.MatchString(name) {
			e += "." + Expr(name)
		} else {
			e += Expr("[" + strconv.Quote(name) + "]")
		}
	}
	return e
}

// String returns the expression as a template, for a payload field of type string. A template that stands alone
// yields the value with its type; inside text it yields text.
func (e Expr) String() string { return "{{ " + string(e) + " }}" }

// MarshalJSON encodes the expression as a template.
func (e Expr) MarshalJSON() ([]byte, error) { return encode(e.String()) }

// Result returns the result of the node, or a field of it.
func (n *Node) Result(path ...string) Expr { return n.part("result").Field(path...) }

// Status returns the status of the node.
func (n *Node) Status() Expr { return n.part("status") }

// Error returns the error of the node, or a field of it: type or message.
func (n *Node) Error(path ...string) Expr { return n.part("error").Field(path...) }

// Items counts the items of a map: total, succeeded, failed, skipped or running.
func (n *Node) Items(count string) Expr { return n.part("items").Field(count) }

func (n *Node) part(name string) Expr { return Expr("nodes." + n.n.Key + "." + name) }

// encode encodes a value as JSON, without escapes for HTML.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
