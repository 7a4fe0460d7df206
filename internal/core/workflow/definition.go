package workflow

import (
	"encoding/json"
	"errors"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/strictjson"
)

// Definition is the graph as its author wrote it, under the names of the API. A version of a workflow is stored as
// its JSON.
type Definition struct {
	OnFailure   OnFailure       `json:"on_failure,omitempty"`
	Timeout     string          `json:"timeout,omitempty"`
	InputSchema json.RawMessage `json:"input_schema,omitempty"`
	Output      string          `json:"output,omitempty"`
	Nodes       []Node          `json:"nodes"`
}

// Node is one node as its author wrote it. It has exactly one of Execution, JobID and Wait.
type Node struct {
	Key       string    `json:"key"`
	DependsOn []string  `json:"depends_on,omitempty"`
	Trigger   string    `json:"trigger,omitempty"`
	Condition string    `json:"condition,omitempty"` // another name of Trigger
	If        string    `json:"if,omitempty"`
	OnFailure OnFailure `json:"on_failure,omitempty"`
	Finally   bool      `json:"finally,omitempty"`

	Map         json.RawMessage `json:"map,omitempty"` // an expression, a list or a number
	MaxParallel int             `json:"max_parallel,omitempty"`
	Tolerate    json.RawMessage `json:"tolerate,omitempty"` // a count such as 3, or a share such as "1%"

	Execution       json.RawMessage `json:"execution,omitempty"` // as of a job; its payload, headers, URL and command are templates
	RetryPolicy     json.RawMessage `json:"retry_policy,omitempty"`
	JobID           string          `json:"job_id,omitempty"`           // an existing job or workflow: an id, or key:…
	PayloadOverride json.RawMessage `json:"payload_override,omitempty"` // a template, with JobID: the input of a sub-workflow
	Wait            *Wait           `json:"wait,omitempty"`

	Timeout   string    `json:"timeout,omitempty"`
	OnTimeout OnTimeout `json:"on_timeout,omitempty"` // with Wait
}

// Wait describes what a node waits for. It has exactly one of Timer, Approval and Event.
type Wait struct {
	Timer    string          `json:"timer,omitempty"` // a duration such as 2h, or an instant
	Approval *Approval       `json:"approval,omitempty"`
	Event    string          `json:"event,omitempty"`
	Match    json.RawMessage `json:"match,omitempty"` // with Event: an expression, or a value that is not a string
}

// Approval describes who decides, how many must agree, and what data they provide.
type Approval struct {
	Roles  []string        `json:"roles,omitempty"` // none: operators and admins
	Min    int             `json:"min,omitempty"`   // 0: one
	Schema json.RawMessage `json:"schema,omitempty"`
}

// OnFailure is the consequence of a node's failure for the rest of the run.
type OnFailure string

// The failure policies. A workflow has Continue or Stop; a node has any of them.
const (
	Continue OnFailure = "continue" // only descendants are affected; the run fails
	Stop     OnFailure = "stop"     // nothing else becomes ready; the run fails
	Handle   OnFailure = "handle"   // triggers see the failure, but the run does not fail because of it
	Ignore   OnFailure = "ignore"   // it counts as good
)

// OnTimeout is how a wait ends that was not released in time.
type OnTimeout string

// The outcomes of a wait that took too long.
const (
	TimeoutFails    OnTimeout = "fail" // TIMED_OUT
	TimeoutSkips    OnTimeout = "skip"
	TimeoutSucceeds OnTimeout = "succeed"
)

// Decode reads the JSON of a definition: unknown fields, repeated keys and wrong types are refused. Its error is
// job.Invalids, with the path of each field.
func Decode(doc []byte) (Definition, error) {
	var d Definition
	err := strictjson.Unmarshal(doc, &d)
	var bad *strictjson.Error
	if !errors.As(err, &bad) {
		return d, err
	}
	var v job.Invalids
	for _, p := range bad.Problems {
		field := p.Field
		if field == "" {
			field = "definition"
		}
		v = append(v, job.Invalid{Field: field, Value: p.Value, Want: p.Want})
	}
	return Definition{}, v
}

// Limits are limits on a definition and its runs.
type Limits struct {
	Nodes    int
	Edges    int
	MapWidth int
	FanOut   int // how many items one decision starts; 0: FanOut
	Live     int // how many items of a map without max_parallel are live at once; 0: 2 000
}

// DefaultLimits are those of the contract, with the width of the largest tier.
func DefaultLimits() Limits { return Limits{Nodes: 1000, Edges: 10_000, MapWidth: 100_000} }

// MaxValue limits, in bytes of JSON, the result of a node, everything that a node reads together, and the value of an
// expression.
const MaxValue = 1 << 20

// MaxNesting limits how deep workflows may use each other.
const MaxNesting = 8
