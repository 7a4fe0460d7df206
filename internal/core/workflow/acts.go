package workflow

import (
	"fmt"
	"strings"
)

// Conflict means that an action does not fit the state of a run or node. The API answers it with 409.
type Conflict struct {
	Act    string
	Node   string // empty: the run
	Status Status
	Want   string
}

func (c *Conflict) Error() string {
	if c.Node == "" {
		return fmt.Sprintf("cannot %s a run that is %s; want %s", c.Act, c.Status, c.Want)
	}
	return fmt.Sprintf("cannot %s node %s, which is %s; want %s", c.Act, c.Node, c.Status, c.Want)
}

func conflict(act, node string, status Status, want string) error {
	return &Conflict{Act: act, Node: node, Status: status, Want: want}
}

// Pause keeps nodes and items from starting. Running ones continue, and so do waits. Pausing a paused run changes
// nothing.
func Pause(g *Graph, s *State) (Decisions, error) {
	if s.Status != Running && s.Status != Paused {
		return Decisions{}, conflict("pause", "", s.Status, "a run that is RUNNING")
	}
	s.paused = true
	return (&advance{g: g, s: s}).settle(), nil
}

// Unpause starts what a pause held back. On a RUNNING run it changes nothing.
func Unpause(g *Graph, s *State) (Decisions, error) {
	if s.Status != Running && s.Status != Paused {
		return Decisions{}, conflict("unpause", "", s.Status, "a run that is PAUSED")
	}
	s.paused = false
	a := &advance{g: g, s: s}
	for _, n := range g.order {
		a.resume(n)
	}
	return a.settle(), nil
}

// Cancel cancels running nodes and does not run the rest; then the finally nodes run. With force it skips them, which
// requires that the run is already being cancelled.
func Cancel(g *Graph, s *State, force bool) (Decisions, error) {
	a := &advance{g: g, s: s}
	switch {
	case s.Status.Final():
		return Decisions{}, conflict("cancel", "", s.Status, "a run that has not ended")
	case force && s.ending == 0:
		return Decisions{}, conflict("cancel with force", "", s.Status, "a run that is CANCELLING: cancel it first, so that its finally nodes can run")
	case force && !s.forced:
		s.forced = true
		a.endRun(s.ending)
	case s.ending == 0:
		a.endRun(Cancelled)
	default:
		return Decisions{Ignored: true}, nil
	}
	return a.settle(), nil
}

// Skip skips a node that has not started, waits, or did not succeed, and judges again what depends on it. On a
// finished run it begins a new attempt.
func Skip(g *Graph, s *State, n int) (Decisions, error) { return override(g, s, n, "skip", Skipped) }

// Mark marks such a node as SUCCEEDED. The caller stores its result.
func Mark(g *Graph, s *State, n int) (Decisions, error) { return override(g, s, n, "mark", Succeeded) }

func override(g *Graph, s *State, n int, act string, status Status) (Decisions, error) {
	if n < 0 || n >= len(g.nodes) {
		return Decisions{}, errNoNode
	}
	c, x := &s.cells[n], &g.nodes[n]
	switch {
	case s.ending != 0 && !s.Status.Final():
		return Decisions{}, conflict(act, x.key, c.status, "a run that is not being cancelled")
	case s.cleanup && !s.Status.Final() && !x.finally:
		return Decisions{}, conflict(act, x.key, c.status, "to wait until the run's finally nodes have ended")
	case c.status == Succeeded || c.status == Skipped && status == Skipped:
		return Decisions{}, conflict(act, x.key, c.status, "a node that has not ended well")
	case c.live() && x.wait == nil:
		return Decisions{}, conflict(act, x.key, c.status, "a node that has no execution under way: cancel its execution first")
	}
	a := &advance{g: g, s: s}
	if s.Status.Final() {
		s.Attempt++
		s.ending, s.forced, s.paused = 0, false, false
	}
	if c.live() {
		a.d.Closed = append(a.d.Closed, n)
	}
	ended := c.status.Final()
	c.status, c.reason, c.held = status, ByHand, false
	a.d.Ended = append(a.d.Ended, n)
	delete(s.maps, int32(n))
	if ended {
		a.again(int32(n))
	}
	s.recount(g)
	if s.open > 0 && s.cleanup {
		a.reopen()
	}
	a.judgeAll()
	return a.settle(), nil
}

// reopen has the run continue, and be cleaned up after it once more. If nothing runs that did not before, its finally
// nodes stay as they are.
func (a *advance) reopen() {
	g, s := a.g, a.s
	was := s.Clone()
	s.cleanup = false
	for _, f := range g.finally {
		if s.cells[f].status.Final() && s.cells[f].reason != ByHand {
			s.reset(f)
		}
	}
	s.recount(g)
	a.judgeAll()
	a.tell()
	if s.open > 0 {
		return
	}
	for _, f := range g.finally {
		s.cells[f] = was.cells[f]
		if m := was.maps[f]; m != nil {
			s.maps[f] = m
		}
	}
	s.recount(g)
}

// again resets the nodes whose end may change when a node's does: all that were not run, and the skipped ones below
// them and below the node. Nodes that ran, or were skipped by hand, stay.
func (a *advance) again(n int32) {
	below := make([]bool, len(a.g.nodes))
	below[n] = true
	for _, i := range a.g.order {
		c := &a.s.cells[i]
		for _, p := range a.g.nodes[i].parents {
			below[i] = below[i] || below[p]
		}
		if c.status == NotRun {
			below[i] = true
		}
		if i != n && (c.status == NotRun || below[i] && c.status == Skipped && (c.reason == ByTrigger || c.reason == ByIf)) {
			a.s.reset(i)
		}
	}
}

// reset makes a node wait as if it had never run.
func (s *State) reset(n int32) {
	s.cells[n].status, s.cells[n].reason, s.cells[n].held = Waiting, NoReason, false
	delete(s.maps, n)
}

// Change is the effect of an action or an event on one node.
type Change struct {
	Node     string
	From, To Status // 0: the version has no such node
	Items    int    // of a map that continues: how many of its items run again, or for the first time
}

// Changes lists the differences between two states, in the order of the second graph; nodes that only the first one
// has come last. A dry run is an action on a clone, followed by Changes.
func Changes(before *Graph, s *State, after *Graph, t *State) []Change {
	var out []Change
	for i := range after.nodes {
		key := after.nodes[i].key
		c := Change{Node: key, To: t.cells[i].status}
		old, ok := before.index[key]
		if ok {
			c.From = s.cells[old].status
		}
		if m := t.maps[int32(i)]; m != nil && t.cells[i].status == Running && ok && c.From.Final() {
			c.Items = m.width - m.good - m.skipped
		}
		if c.From != c.To || c.Items > 0 {
			out = append(out, c)
		}
	}
	for i := range before.nodes {
		if _, ok := after.index[before.nodes[i].key]; !ok {
			out = append(out, Change{Node: before.nodes[i].key, From: s.cells[i].status})
		}
	}
	return out
}

// String describes the change in a line.
func (c Change) String() string {
	var b strings.Builder
	b.WriteString(c.Node + ": ")
	switch {
	case c.From == 0:
		fmt.Fprintf(&b, "new, %s", c.To)
	case c.To == 0:
		fmt.Fprintf(&b, "%s, removed", c.From)
	default:
		fmt.Fprintf(&b, "%s → %s", c.From, c.To)
	}
	if c.Items > 0 {
		fmt.Fprintf(&b, " (%d items)", c.Items)
	}
	return b.String()
}
