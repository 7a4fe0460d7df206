package workflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carillon-jobs/carillon/internal/expression"
)

// bits is a set of nodes.
type bits []uint64

func (b bits) has(i int32) bool { return b[i/64]>>(i%64)&1 != 0 }
func (b bits) add(i int32)      { b[i/64] |= 1 << (i % 64) }
func (b bits) union(o bits) {
	for i := range b {
		b[i] |= o[i]
	}
}
func (b bits) intersect(o bits) {
	for i := range b {
		b[i] &= o[i]
	}
}

// Scope returns the names that expressions of workflows may use.
var scope = &expression.Scope{
	Names: []string{"run", "nodes", "item", "index"}, MaxLength: 4096, MaxNodes: 800, MaxMade: MaxValue, MaxSteps: 1_000_000,
}

var (
	runFields  = []string{"input", "id", "key", "scheduled_time", "attempt", "status", "failed"}
	nodeFields = []string{"status", "result", "error", "items"}
)

// place is where an expression occurs, which determines what it may read.
type place struct {
	field string
	node  int32 // -1: the workflow's output
	item  bool  // it may read item and index
	cond  bool  // it is an if
}

// maxExpressions limits how many different expressions a workflow has: each takes some kilobytes when compiled.
const maxExpressions = 5000

// expression compiles an expression and checks what it reads; nil if it is refused.
func (c *compiler) expression(at place, text string) *expression.Program {
	if len(c.bad) >= maxInvalids {
		return nil // enough is said
	}
	p := c.programs[text]
	if p == nil {
		if len(c.programs) == maxExpressions {
			c.refuse(at.field, text, fmt.Sprintf("at most %d different expressions in a workflow", maxExpressions))
			return nil
		}
		var err error
		if p, err = scope.Compile(text); err != nil {
			c.refuse(at.field, text, "an expression such as nodes.list.result.files: "+err.Error())
			return nil
		}
		if c.programs == nil {
			c.programs = map[string]*expression.Program{}
		}
		c.programs[text] = p
		c.g.cost += 3<<10 + 40*len(text)
	}
	for _, path := range p.Paths() {
		if want := c.reads(at, path); want != "" {
			c.refuse(at.field, text, want)
			return nil
		}
	}
	return p
}

// reads records that an expression reads a path, or reports what it should read instead.
func (c *compiler) reads(at place, path []string) (want string) {
	switch path[0] {
	case "item", "index":
		if !at.item {
			return path[0] + " only in the execution of a node with map"
		}
	case "run":
		if len(path) < 2 || !slices.Contains(runFields, path[1]) {
			return fmt.Sprintf("one of run.%s, not %s", strings.Join(runFields, ", run."), strings.Join(path, "."))
		}
		if (path[1] == "status" || path[1] == "failed") && at.node >= 0 && !c.g.nodes[at.node].finally {
			return fmt.Sprintf("no %s here: only finally nodes and the output know how the run ends", strings.Join(path[:2], "."))
		}
	case "nodes":
		return c.readsNode(at, path)
	}
	return ""
}

func (c *compiler) readsNode(at place, path []string) (want string) {
	if len(path) < 2 {
		return "nodes.<key> with the key of a node, written out"
	}
	to, ok := c.g.index[path[1]]
	if !ok {
		return fmt.Sprintf("the key of a node of this workflow, not %q%s", path[1], c.similar(path[1]))
	}
	if len(path) < 3 || !slices.Contains(nodeFields, path[2]) {
		return fmt.Sprintf("one of nodes.%s.%s", path[1], strings.Join(nodeFields, ", nodes."+path[1]+"."))
	}
	if at.node >= 0 {
		if want := c.mayRead(at, to); want != "" {
			return want
		}
		n := &c.g.nodes[at.node]
		if !slices.Contains(n.reads, to) {
			n.reads = append(n.reads, to)
		}
	}
	c.g.nodes[to].read = c.g.nodes[to].read || path[2] == "result"
	return ""
}

// mayRead returns why a node may not read another; "": it may.
func (c *compiler) mayRead(at place, to int32) (want string) {
	n, key := &c.g.nodes[at.node], c.g.nodes[to].key
	if n.finally && !c.g.nodes[to].finally {
		return "" // all of them have ended
	}
	c.ancestors()
	switch {
	case !c.above[at.node].has(to):
		return fmt.Sprintf("only ancestors of %s; %s is none: add it to depends_on", n.key, key)
	case at.cond && n.trigger.Eager() && slices.Contains(n.parents, to):
		return fmt.Sprintf("no parents in if beside the trigger %s, which does not wait for all of them: the answer would depend on who ends first; use another trigger", n.trigger)
	case at.cond && !c.sure[at.node].has(to):
		return fmt.Sprintf("only nodes that have ended for certain when %s starts; an eager trigger above it does not wait for %s", n.key, key)
	}
	return ""
}

// ancestors finds, for each node, the nodes above it, and which of them have certainly ended when it starts: an eager
// trigger waits for one parent only.
func (c *compiler) ancestors() {
	if c.above != nil {
		return
	}
	words := (len(c.g.nodes) + 63) / 64
	c.above, c.sure = make([]bits, len(c.g.nodes)), make([]bits, len(c.g.nodes))
	for _, i := range c.g.order {
		n := &c.g.nodes[i]
		above, sure := make(bits, words), make(bits, words)
		for k, p := range n.parents {
			above.union(c.above[p])
			above.add(p)
			ended := slices.Clone(c.sure[p])
			ended.add(p)
			if n.trigger.Eager() && k > 0 {
				sure.intersect(ended)
			} else {
				sure.union(ended)
			}
		}
		c.above[i], c.sure[i] = above, sure
	}
}
