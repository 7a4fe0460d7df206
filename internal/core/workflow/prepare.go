package workflow

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/expression"
)

// Run is what expressions see of a run besides its nodes.
type Run struct {
	ID        string
	Key       string // the workflow's
	Input     json.RawMessage
	Scheduled time.Time
	Width     int // how many items a map that begins may have, in addition to the limit of its graph; 0: no further limit
}

// Values provides the results and errors of ended nodes.
type Values interface {
	// Result returns the result of a node; of a map, the list of its items' results, null for failed ones. Nil: none.
	Result(node int) json.RawMessage
	// Error returns the error that a node left behind. Nil: none.
	Error(node int) *job.Error
}

// Failure is the reason why a node, or an item of a map, fails before it starts.
type Failure struct {
	Reason Reason
	Text   string
}

func (f *Failure) Error() string { return f.Reason.String() + ": " + f.Text }

// Prepared holds what a node starts with.
type Prepared struct {
	Event     *Event          // for Advance, unless nil: the node is skipped, fails, or is a map with its number of items
	Failure   *Failure        // why it fails
	Execution json.RawMessage // of an inline node without map: its execution, rendered
	Payload   json.RawMessage // of an existing job without map: its payload_override, rendered; nil: it keeps its own
	Items     *ItemList       // of a map
	Wait      *OpenWait       // of a wait
}

// OpenWait is a wait that begins.
type OpenWait struct {
	For      time.Duration // a timer: so long from now
	Until    time.Time     // a timer: this instant
	Approval *Approval
	Event    string
	Match    json.RawMessage // what an event must carry, as encoded by Encode; nil: anything
	Timeout  time.Duration   // 0: none
}

// Prepare evaluates what a starting node needs: its if, its map, what it waits for, its templates. It reads only the
// results of g.Reads(n).
func Prepare(g *Graph, s *State, n int, r Run, v Values) Prepared {
	x, d := &g.nodes[n], &g.def.Nodes[n]
	values, f := g.values(s, x.reads, r, v)
	if f != nil {
		return failing(n, f)
	}
	if x.cond != nil {
		holds, f := evalIf(x.cond, values)
		switch {
		case f != nil:
			return failing(n, f)
		case !holds:
			return Prepared{Event: &Event{Kind: NodeEnded, Node: n, Status: Skipped, Reason: ByIf}}
		}
	}
	switch {
	case x.wait != nil:
		return x.openWait(n, values)
	case x.mapped:
		list, f := g.items(n, values)
		if f != nil {
			return failing(n, f)
		}
		if r.Width > 0 && list.Len() > r.Width {
			return failing(n, &Failure{MapTooWide, fmt.Sprintf("map: %d items; at most %d are allowed", list.Len(), r.Width)})
		}
		return Prepared{Event: &Event{Kind: Expanded, Node: n, Width: list.Len()}, Items: list}
	}
	doc, err := x.execution(d, values)
	if err != nil {
		return failing(n, expressionFailure(d.rendered(), err))
	}
	if d.JobID != "" {
		return Prepared{Payload: doc}
	}
	return Prepared{Execution: doc}
}

func failing(n int, f *Failure) Prepared {
	return Prepared{Event: &Event{Kind: NodeEnded, Node: n, Status: Failed, Reason: f.Reason}, Failure: f}
}

// rendered names the member of a node that is rendered when it starts.
func (d *Node) rendered() string {
	if d.JobID != "" {
		return "payload_override"
	}
	return "execution"
}

func expressionFailure(what string, err error) *Failure {
	return &Failure{BadExpression, what + ": " + err.Error()}
}

func evalIf(p *expression.Program, values map[string]any) (bool, *Failure) {
	v, err := p.Value(values)
	if err != nil {
		return false, expressionFailure(fmt.Sprintf("if: `%s`", p), err)
	}
	switch v := v.(type) {
	case nil:
		return false, nil
	case bool:
		return v, nil
	}
	return false, &Failure{BadExpression, fmt.Sprintf("if: `%s` gives %s; want true, false or null", p, describe(v))}
}

// describe names the kind of a value, and the value itself if it is short.
func describe(v any) string {
	doc, err := expression.Encode(v)
	if err != nil || len(doc) > 40 {
		doc = nil
	}
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return string(doc)
	case string:
		return "the string " + string(doc)
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "the number " + string(doc)
}

func (x *node) openWait(n int, values map[string]any) Prepared {
	w := &OpenWait{For: x.timer, Until: x.timerAt, Approval: x.wait.Approval, Event: x.wait.Event, Timeout: x.timeout}
	to := x.matchTo
	if x.match != nil {
		v, err := x.match.Value(values)
		if err != nil {
			return failing(n, expressionFailure("wait.match", err))
		}
		to = v
	}
	if x.match != nil || to != nil {
		doc, err := encode(to)
		if err != nil {
			return failing(n, expressionFailure("wait.match", err))
		}
		w.Match = doc
	}
	return Prepared{Wait: w}
}

// Matches reports whether an event with this match releases the wait.
func (w *OpenWait) Matches(event string, match json.RawMessage) bool {
	if w.Event == "" || w.Event != event {
		return false
	}
	if w.Match == nil {
		return true
	}
	v, err := expression.Decode(match)
	if err != nil {
		return false
	}
	doc, err := expression.Encode(v)
	return err == nil && string(doc) == string(w.Match)
}

// ItemList holds the items of a map, and everything needed to render them.
type ItemList struct {
	node   *node
	def    *Node
	values map[string]any
	list   []any
	count  int // of a map over a number
}

// Len returns the number of items.
func (l *ItemList) Len() int {
	if l.list != nil {
		return len(l.list)
	}
	return l.count
}

// Prepare renders what one item runs: the execution of an inline node, or the payload for an existing job.
func (l *ItemList) Prepare(item int) (json.RawMessage, *Failure) {
	values := maps.Clone(l.values)
	values["item"], values["index"] = any(item), item
	if l.list != nil {
		values["item"] = l.list[item]
	}
	doc, err := l.node.execution(l.def, values)
	if err != nil {
		return nil, expressionFailure(fmt.Sprintf("%s of item %d", l.def.rendered(), item), err)
	}
	return doc, nil
}

// items evaluates a map.
func (g *Graph) items(n int, values map[string]any) (*ItemList, *Failure) {
	x := &g.nodes[n]
	l := &ItemList{node: x, def: &g.def.Nodes[n], values: values, list: x.mapList, count: x.mapCount}
	if x.mapExpr == nil {
		return l, nil
	}
	v, err := x.mapExpr.Value(values)
	if err != nil {
		return nil, expressionFailure(fmt.Sprintf("map: `%s`", x.mapExpr), err)
	}
	switch v := v.(type) {
	case []any:
		l.list = v
	case int:
		l.count = v
	case float64:
		if l.count = -1; v == math.Trunc(v) && v >= 0 && v <= math.MaxInt32 {
			l.count = int(v)
		}
	default:
		l.count = -1
	}
	if l.count < 0 {
		return nil, &Failure{MapNotAList, fmt.Sprintf("map: `%s` gives %s; want a list, or a whole number of items", x.mapExpr, describe(v))}
	}
	if n := l.Len(); n > g.limits.MapWidth {
		return nil, &Failure{MapTooWide, fmt.Sprintf("map: `%s` gives %d items; at most %d are allowed", x.mapExpr, n, g.limits.MapWidth)}
	}
	return l, nil
}

// PrepareItems evaluates the map of a node again, for items that start later: it returns the same list as when the
// node started.
func PrepareItems(g *Graph, s *State, n int, r Run, v Values) (*ItemList, *Failure) {
	values, f := g.values(s, g.nodes[n].reads, r, v)
	if f != nil {
		return nil, f
	}
	return g.items(n, values)
}

// Output evaluates the output of a run that has ended; nil: it has none.
func Output(g *Graph, s *State, r Run, v Values) (json.RawMessage, *Failure) {
	if g.output == nil {
		return nil, nil
	}
	var reads []int32
	for _, path := range g.output.Paths() {
		if path[0] == "nodes" {
			reads = append(reads, g.index[path[1]])
		}
	}
	values, f := g.values(s, reads, r, v)
	if f != nil {
		return nil, f
	}
	out, err := g.output.Value(values)
	if err != nil {
		return nil, expressionFailure("output", err)
	}
	doc, err := encode(out)
	if err != nil {
		return nil, &Failure{ResultTooLarge, "output: " + err.Error()}
	}
	return doc, nil
}

// CheckResult returns an error if a node may not have this result.
func CheckResult(result json.RawMessage) *Failure {
	if len(result) <= MaxValue {
		return nil
	}
	return &Failure{ResultTooLarge, fmt.Sprintf(`the result has %d bytes; at most %d are allowed: store it as an artifact and answer {"$artifact": "…"}`, len(result), MaxValue)}
}

// errorDocument is the JSON of an error, as the API shows it; nil: none.
func errorDocument(e *job.Error) json.RawMessage {
	if e == nil {
		return nil
	}
	doc := map[string]any{"type": string(e.Type), "message": e.Message}
	if e.HTTPStatus != 0 {
		doc["http_status"] = e.HTTPStatus
	}
	b, _ := json.Marshal(doc) // of texts and numbers, which always have a form
	return b
}

// values makes what expressions see: the run, and those nodes.
func (g *Graph) values(s *State, reads []int32, r Run, v Values) (map[string]any, *Failure) {
	size := len(r.Input)
	nodes := make(map[string]any, len(reads))
	for _, n := range reads {
		key, c := g.nodes[n].key, &s.cells[n]
		fields := map[string]any{"status": c.status.String()}
		if c.status.Final() {
			result, failure := v.Result(int(n)), errorDocument(ErrorOf(g, s, int(n), v.Error(int(n))))
			if size += len(result) + len(failure); size > MaxValue {
				return nil, &Failure{InputTooLarge, fmt.Sprintf("what the node reads has more than %d bytes together, with the result of %s: pass large results as artifacts", MaxValue, key)}
			}
			for name, doc := range map[string]json.RawMessage{"result": result, "error": failure} {
				x, err := expression.Decode(doc)
				if err != nil {
					return nil, expressionFailure("nodes."+key+"."+name, err)
				}
				fields[name] = x
			}
		}
		if m, ok := s.Map(int(n)); ok {
			fields["items"] = map[string]any{"total": m.Total, "succeeded": m.Succeeded, "failed": m.Failed, "skipped": m.Skipped, "running": m.Running}
		}
		nodes[key] = fields
	}
	input, err := expression.Decode(r.Input)
	if err != nil {
		return nil, expressionFailure("run.input", err)
	}
	verdict := s.Verdict()
	run := map[string]any{
		"input": input, "id": r.ID, "key": r.Key, "attempt": s.Attempt,
		"status": verdict.String(), "failed": verdict == Failed || verdict == TimedOut,
	}
	if !r.Scheduled.IsZero() {
		run["scheduled_time"] = r.Scheduled.UTC().Format(time.RFC3339Nano)
	}
	return map[string]any{"run": run, "nodes": nodes}, nil
}
