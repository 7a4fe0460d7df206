package layout

import (
	"encoding/json"
	"fmt"

	"github.com/carillon-jobs/carillon/internal/core/workflow"
)

// Of lists the nodes of a definition, with a few words about what each one runs.
func Of(d workflow.Definition) []Node {
	out := make([]Node, len(d.Nodes))
	for i, n := range d.Nodes {
		out[i] = Node{Key: n.Key, After: n.DependsOn, Finally: n.Finally, Marks: marks(n)}
		out[i].Kind, out[i].Text = describe(n)
	}
	return out
}

func describe(n workflow.Node) (kind, text string) {
	switch w := n.Wait; {
	case w != nil && w.Approval != nil:
		if w.Approval.Min > 1 {
			return "approval", fmt.Sprintf("%d approvals", w.Approval.Min)
		}
		return "approval", "approval"
	case w != nil && w.Event != "":
		return "event", "event " + w.Event
	case w != nil:
		return "timer", "timer " + w.Timer
	case n.JobID != "":
		return "job", "job " + n.JobID
	}
	var e struct {
		Target string `json:"target"`
		Kind   string `json:"kind"`
	}
	if json.Unmarshal(n.Execution, &e) != nil || e.Target == "" {
		return "job", ""
	}
	if e.Kind != "" {
		return e.Target, e.Target + " " + e.Kind
	}
	return e.Target, e.Target
}

// marks lists how a node differs from one that runs once, after all its parents have succeeded.
func marks(n workflow.Node) (out []string) {
	if len(n.Map) > 0 {
		out = append(out, "map")
	}
	if n.If != "" {
		out = append(out, "if")
	}
	name := n.Trigger
	if name == "" {
		name = n.Condition
	}
	if t, ok := workflow.ParseTrigger(name); ok && t != workflow.AllSuccess {
		out = append(out, t.String())
	}
	return out
}
