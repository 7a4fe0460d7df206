package workflow

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/expression"
	"github.com/carillon-jobs/carillon/internal/jsonschema"
)

// Graph is a checked definition, ready to run. It is immutable and safe for concurrent use. Nodes are numbered by
// their position in the definition.
type Graph struct {
	def     Definition
	timeout time.Duration
	schema  *jsonschema.Schema  // of the input; nil: any
	output  *expression.Program // nil: none
	nodes   []node
	index   map[string]int32
	order   []int32 // parents before children
	finally []int32 // in that order
	limits  Limits
	cost    int // approximate bytes of the compiled expressions
}

// Cost returns the approximate size of the graph in bytes, besides its definition.
func (g *Graph) Cost() int { return g.cost + 1024*len(g.nodes) }

// node is a compiled node.
type node struct {
	key       string
	trigger   Trigger
	policy    OnFailure
	finally   bool
	goesOn    bool // it runs although the run was stopped
	read      bool // something reads its result
	parents   []int32
	children  []int32
	reads     []int32 // nodes whose result or error it reads
	cond      *expression.Program
	mapped    bool
	mapExpr   *expression.Program
	mapList   []any // a literal list
	mapCount  int   // a literal number
	parallel  int   // 0: as many as a map may have
	tolerate  Tolerance
	templates []*template
	payload   *template // of payload_override
	hasInput  bool      // an inline node without a payload: it gets the input of the run
	match     *expression.Program
	matchTo   any // a literal
	wait      *Wait
	timer     time.Duration
	timerAt   time.Time
	approval  *jsonschema.Schema
	timeout   time.Duration
	onTimeout OnTimeout
}

// maxInvalids limits how many mistakes Compile lists.
const maxInvalids = 20

// FinallyTimeout is the timeout of a finally node that names none.
const FinallyTimeout = 10 * time.Minute

// Compile checks a definition and compiles it to a graph. Its error is job.Invalids: each names the field, its value
// and what would be valid.
func Compile(d Definition, l Limits) (*Graph, error) {
	c := &compiler{def: d, g: &Graph{def: d, index: make(map[string]int32, len(d.Nodes)), nodes: make([]node, len(d.Nodes)), limits: l}}
	if c.size(); len(c.bad) > 0 {
		return nil, c.bad
	}
	c.workflow()
	c.keys()
	c.edges()
	if len(c.bad) == 0 {
		c.sort()
	}
	if len(c.bad) == 0 { // the rest needs a graph without cycles
		c.inherit()
		c.details()
	}
	if len(c.bad) > 0 {
		return nil, c.bad[:min(len(c.bad), maxInvalids)]
	}
	return c.g, nil
}

type compiler struct {
	def Definition
	g   *Graph
	bad job.Invalids

	programs map[string]*expression.Program // by text

	above []bits // of each node: its ancestors; see ancestors
	sure  []bits // of each node: the ancestors that have certainly ended when it starts
}

func (c *compiler) refuse(field string, value any, want string) { c.bad.Add(field, value, want) }

func (c *compiler) size() {
	edges := 0
	for i := range c.def.Nodes {
		edges += len(c.def.Nodes[i].DependsOn)
	}
	switch l := c.g.limits; {
	case l.Nodes > math.MaxUint16: // a node counts its parents in 16 bits
		c.refuse("nodes", fmt.Sprintf("a limit of %d nodes", l.Nodes), "at most 65535")
	case len(c.def.Nodes) == 0:
		c.refuse("nodes", "no nodes", "at least one node")
	case len(c.def.Nodes) > l.Nodes:
		c.refuse("nodes", fmt.Sprintf("%d nodes", len(c.def.Nodes)), fmt.Sprintf("at most %d nodes; use a map or a sub-workflow for more", l.Nodes))
	case edges > l.Edges:
		c.refuse("nodes", fmt.Sprintf("%d edges", edges), fmt.Sprintf("at most %d entries of depends_on together", l.Edges))
	}
}

// workflow checks the settings of the workflow as a whole.
func (c *compiler) workflow() {
	switch c.def.OnFailure {
	case "", Continue, Stop:
	default:
		c.refuse("on_failure", c.def.OnFailure, "continue or stop; handle and ignore are for single nodes")
	}
	c.g.timeout = c.duration("timeout", c.def.Timeout)
	if len(c.def.InputSchema) > 0 && string(c.def.InputSchema) != "null" {
		s, err := jsonschema.Compile(c.def.InputSchema)
		if err != nil {
			c.refuse("input_schema", string(c.def.InputSchema), "a JSON Schema: "+err.Error())
		}
		c.g.schema = s
	}
}

const (
	minTimeout = time.Second
	maxTimeout = 366 * 24 * time.Hour
)

func (c *compiler) duration(field, text string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < minTimeout || d > maxTimeout {
		c.refuse(field, text, "a duration from 1s to 8784h, such as 90s or 2h")
		return 0
	}
	return d
}

// ValidKey reports whether s may be the key of a node.
func ValidKey(s string) bool {
	if len(s) < 1 || len(s) > 64 || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_') {
			return false
		}
	}
	return true
}

const wantKey = "1 to 64 of a-z, 0-9 and '_', beginning with a letter"

func (c *compiler) keys() {
	for i := range c.def.Nodes {
		key := c.def.Nodes[i].Key
		if !ValidKey(key) {
			c.refuse(fmt.Sprintf("nodes[%d].key", i), key, wantKey)
			continue
		}
		if first, ok := c.g.index[key]; ok {
			c.refuse(fmt.Sprintf("nodes[%d].key", i), key, fmt.Sprintf("a key that no other node has; nodes[%d] has it", first))
			continue
		}
		c.g.index[key] = int32(i)
		c.g.nodes[i].key = key
	}
}

// edges sets parents and children, and checks which edges a node may have.
func (c *compiler) edges() {
	for i := range c.def.Nodes {
		d, n := &c.def.Nodes[i], &c.g.nodes[i]
		n.finally = d.Finally
		n.parents = make([]int32, 0, len(d.DependsOn))
		for k, key := range d.DependsOn {
			field := fmt.Sprintf("nodes[%d].depends_on[%d]", i, k)
			p, ok := c.g.index[key]
			switch {
			case !ok:
				c.refuse(field, key, "the key of a node of this workflow"+c.similar(key))
			case int(p) == i:
				c.refuse(field, key, fmt.Sprintf("another node: %s → %s is a cycle", key, key))
			case slices.Contains(n.parents, p):
				c.refuse(field, key, "each parent only once")
			case d.Finally && !c.def.Nodes[p].Finally:
				c.refuse(field, key, "a finally node: finally nodes start when all others have ended, and may depend only on each other")
			case !d.Finally && c.def.Nodes[p].Finally:
				c.refuse(field, key, "a node without finally: finally nodes start only when all others have ended")
			default:
				n.parents = append(n.parents, p)
				c.g.nodes[p].children = append(c.g.nodes[p].children, int32(i))
			}
		}
	}
}

// similar returns the key that an unknown one was likely meant to be.
func (c *compiler) similar(key string) string {
	folded := strings.ToLower(strings.ReplaceAll(key, "-", "_"))
	if _, ok := c.g.index[folded]; ok && folded != key {
		return fmt.Sprintf("; did you mean %q?", folded)
	}
	return ""
}

// sort puts parents before children, or names a cycle.
func (c *compiler) sort() {
	unmet := make([]int, len(c.g.nodes))
	order := make([]int32, 0, len(c.g.nodes))
	for i := range c.g.nodes {
		if unmet[i] = len(c.g.nodes[i].parents); unmet[i] == 0 {
			order = append(order, int32(i))
		}
	}
	for at := 0; at < len(order); at++ {
		for _, child := range c.g.nodes[order[at]].children {
			if unmet[child]--; unmet[child] == 0 {
				order = append(order, child)
			}
		}
	}
	c.g.order = order
	if len(order) == len(c.g.nodes) {
		for _, i := range order {
			if c.g.nodes[i].finally {
				c.g.finally = append(c.g.finally, i)
			}
		}
		return
	}
	at := int32(slices.IndexFunc(unmet, func(n int) bool { return n > 0 })) // it is on a cycle, or below one
	cycle := Cycle(c.g.nodes[at].key, func(key string) (parents []string) {
		for _, p := range c.g.nodes[c.g.index[key]].parents {
			if unmet[p] > 0 {
				parents = append(parents, c.g.nodes[p].key)
			}
		}
		return parents
	})
	slices.Reverse(cycle) // from parents to children
	c.refuse("nodes", strings.Join(cycle, " → "), "a graph without cycles")
}

// inherit fills in what a node inherits from the workflow and from its ancestors.
func (c *compiler) inherit() {
	for i := range c.g.nodes {
		d, n := &c.def.Nodes[i], &c.g.nodes[i]
		field := fmt.Sprintf("nodes[%d]", i)
		name, at := d.Trigger, ".trigger"
		if name == "" {
			name, at = d.Condition, ".condition"
		} else if d.Condition != "" {
			c.refuse(field+".condition", d.Condition, "no condition beside trigger: they are two names of the same thing")
		}
		t, ok := ParseTrigger(name)
		if !ok {
			c.refuse(field+at, name, wantTrigger)
		} else if t.needsParents() && len(d.DependsOn) == 0 {
			c.refuse(field+at, name, "depends_on with at least one node: without parents it would never run")
		}
		n.trigger = t
		switch d.OnFailure {
		case "":
			n.policy = Continue
			if c.def.OnFailure != "" {
				n.policy = c.def.OnFailure
			}
		case Continue, Stop, Handle, Ignore:
			n.policy = d.OnFailure
		default:
			c.refuse(field+".on_failure", d.OnFailure, "one of continue, stop, handle, ignore")
		}
	}
	follows := make([]bool, len(c.g.nodes)) // a handler
	for _, i := range c.g.order {
		n := &c.g.nodes[i]
		for _, p := range n.parents {
			follows[i] = follows[i] || follows[p] || c.g.nodes[p].trigger.handles()
		}
		n.goesOn = n.finally || follows[i] || n.trigger.handles() || n.trigger == AllDone
	}
}

// CheckInput validates the input of a run against the workflow's input_schema. Its error is job.Invalids.
func (g *Graph) CheckInput(input []byte) error {
	if g.schema == nil {
		return nil
	}
	return misfits("input", g.schema, input).Err()
}

// CheckInput validates the input of a run of a stored definition, without compiling all of it. Its error is
// job.Invalids.
func (d *Definition) CheckInput(input []byte) error {
	c := &compiler{def: Definition{InputSchema: d.InputSchema}, g: &Graph{}}
	if c.workflow(); len(c.bad) > 0 {
		return c.bad
	}
	return c.g.CheckInput(input)
}

// misfits returns the problems of a value, as fields below a name.
func misfits(name string, s *jsonschema.Schema, value []byte) (v job.Invalids) {
	for _, p := range s.Check(value) {
		field := name
		if p.Path != "" {
			field += strings.TrimSuffix("."+p.Path, ".")
		}
		at := value
		if p.Value != nil && len(value) > 0 {
			at = p.Value
		}
		v.Add(strings.ReplaceAll(field, ".[", "["), string(at), "a value that fits the schema: "+p.Want)
	}
	return v
}

var errNoNode = errors.New("no such node")

// Len returns the number of nodes.
func (g *Graph) Len() int { return len(g.nodes) }

// Definition returns the definition the graph was made from.
func (g *Graph) Definition() Definition { return g.def }

// Timeout returns the timeout of a run; 0: none.
func (g *Graph) Timeout() time.Duration { return g.timeout }

// Node returns the definition of a node.
func (g *Graph) Node(n int) *Node { return &g.def.Nodes[n] }

// Number returns the number of the node with a key.
func (g *Graph) Number(key string) (int, bool) {
	n, ok := g.index[key]
	return int(n), ok
}

// Mapped reports whether a node is a map.
func (g *Graph) Mapped(n int) bool { return g.nodes[n].mapped }

// NodeTimeout returns the timeout of a node over all its attempts; 0: none.
func (g *Graph) NodeTimeout(n int) time.Duration { return g.nodes[n].timeout }

// Reads returns the nodes whose result or error a node reads when it starts.
func (g *Graph) Reads(n int) []int32 { return g.nodes[n].reads }

// ResultRead reports whether any node, or the output, reads a node's result, so that it must be kept until the run ends.
func (g *Graph) ResultRead(n int) bool { return g.nodes[n].read }
