package workflow

import (
	"fmt"
	"slices"
	"strings"
)

// named bounds how many nodes a sentence lists by name.
const named = 5

// Explain says why a node stands where it does, in one sentence without a name at its beginning; "" if its execution says
// more than its state.
func Explain(g *Graph, s *State, n int) string {
	c, x := &s.cells[n], &g.nodes[n]
	switch c.status {
	case Waiting:
		return explainWaiting(g, s, x, c)
	case Running:
		return explainRunning(g, s, n)
	case Skipped:
		return explainSkipped(g, s, x, c)
	case NotRun:
		return explainNotRun(g, s, n)
	case Succeeded:
		switch c.reason {
		case ByHand:
			return "marked as succeeded by hand"
		case ByTimeout:
			return "succeeded because nothing released the wait in time, and on_timeout is succeed"
		}
	case Cancelled, Cancelling:
		return map[Reason]string{ByCancel: "cancelled with the run", ByRunTimeout: "cancelled because the run took too long", ByTimeout: "cancelled because it took too long"}[c.reason]
	case Failed, TimedOut:
		return explainFailed(s, x, c, n)
	}
	return ""
}

func explainWaiting(g *Graph, s *State, x *node, c *cell) string {
	switch {
	case c.held:
		return "held: the run is paused"
	case x.finally && !s.cleanup:
		return fmt.Sprintf("finally: waits until the other nodes have ended (%d have not)", s.open)
	}
	var open []string
	for _, p := range x.parents {
		if !s.cells[p].status.Final() {
			open = append(open, g.nodes[p].key)
		}
	}
	if len(open) == 0 {
		return ""
	}
	text := "waits for parent " + open[0]
	if len(open) > 1 {
		text = "waits for parents " + list(open)
	}
	if x.trigger.Eager() && len(x.parents) > 1 {
		text += fmt.Sprintf(" (trigger %s: one of them is enough)", x.trigger)
	}
	return text
}

// list joins names, the first few of many.
func list(names []string) string {
	if more := len(names) - named; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:named], ", "), more)
	}
	return strings.Join(names, ", ")
}

func explainRunning(g *Graph, s *State, n int) string {
	x := &g.nodes[n]
	if m := s.maps[int32(n)]; m != nil {
		text := fmt.Sprintf("%d of %d items ended, %d running", m.good+m.failed+m.skipped, m.width, m.live)
		switch {
		case m.lost():
			text += fmt.Sprintf("; no further item starts: %d failed, %d are tolerated", m.failed, m.tolerate.Of(m.width))
		case s.paused && m.cursor < m.width:
			text += "; no further item starts: the run is paused"
		}
		return text
	}
	switch w := x.wait; {
	case w == nil:
		return ""
	case w.Approval != nil:
		return "waits for an approval"
	case w.Event != "":
		return fmt.Sprintf("waits for the event %q", w.Event)
	case !x.timerAt.IsZero():
		return "waits until " + w.Timer
	default:
		return fmt.Sprintf("waits for %s from its start", w.Timer)
	}
}

func explainSkipped(g *Graph, s *State, x *node, c *cell) string {
	switch c.reason {
	case ByIf:
		return fmt.Sprintf("skipped because `if` was false: %s", x.cond)
	case ByHandler:
		return "skipped: what ran said so"
	case ByHand:
		return "skipped by hand"
	case ByTimeout:
		return "skipped because nothing released the wait in time, and on_timeout is skip"
	}
	var gone []string
	for _, p := range x.parents {
		if s.cells[p].status == Skipped {
			gone = append(gone, g.nodes[p].key)
		}
	}
	switch {
	case x.trigger == OneFailed || x.trigger == AllFailed:
		return fmt.Sprintf("skipped because its trigger %s handles failures, and not enough of its parents failed", x.trigger)
	case len(gone) == 1:
		return fmt.Sprintf("skipped because parent %s was skipped (trigger %s)", gone[0], x.trigger)
	}
	return fmt.Sprintf("skipped because parents %s were skipped (trigger %s)", list(gone), x.trigger)
}

func explainNotRun(g *Graph, s *State, n int) string {
	switch s.cells[n].reason {
	case ByCancel:
		return "not run: the run was cancelled"
	case ByRunTimeout:
		return "not run: the run took too long"
	case ByStop:
		if culprits := g.culprits(s, func(i int32) bool { return g.nodes[i].policy == Stop && s.cells[i].status.failed() }); len(culprits) > 0 {
			return fmt.Sprintf("not run: the failure of %s stopped the run (on_failure is stop)", list(culprits))
		}
		return "not run: a failure stopped the run"
	}
	above := make([]bool, len(g.nodes)) // what failed above it, through nodes that were not run
	todo := []int32{int32(n)}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, p := range g.nodes[at].parents {
			if c := &s.cells[p]; above[p] || !c.status.Final() || g.classOf(p, c) != bad {
				continue
			}
			above[p] = true
			if s.cells[p].status == NotRun {
				todo = append(todo, p)
			}
		}
	}
	culprits := g.culprits(s, func(i int32) bool { return above[i] && s.cells[i].status.failed() })
	if len(culprits) == 0 {
		return fmt.Sprintf("not run: its trigger %s did not hold", g.nodes[n].trigger)
	}
	return fmt.Sprintf("not run because of %s (trigger %s)", list(culprits), g.nodes[n].trigger)
}

// culprits names nodes with how they ended, in the order of the graph.
func (g *Graph) culprits(s *State, is func(n int32) bool) (out []string) {
	for _, i := range g.order {
		if is(i) {
			out = append(out, fmt.Sprintf("%s (%s)", g.nodes[i].key, s.cells[i].status))
		}
	}
	return out
}

func explainFailed(s *State, x *node, c *cell, n int) string {
	switch c.reason {
	case MapFailed:
		m := s.maps[int32(n)]
		return fmt.Sprintf("failed: %d of %d items failed, %d are tolerated", m.failed, m.width, m.tolerate.Of(m.width))
	case Rejected:
		return "failed: the approval was rejected"
	case ByTimeout:
		return fmt.Sprintf("timed out after %s", x.timeout)
	case BadExpression:
		return "failed: an expression had no value"
	case MapNotAList:
		return fmt.Sprintf("failed: map gave no list: %s", x.mapExpr)
	case MapTooWide:
		return "failed: map gave too many items"
	case ResultTooLarge:
		return fmt.Sprintf("failed: its result has more than %d bytes", MaxValue)
	case InputTooLarge:
		return fmt.Sprintf("failed: what it reads has more than %d bytes together", MaxValue)
	}
	return ""
}

// Warning is what is likely not meant in a definition that is valid.
type Warning struct {
	Node string
	Text string
}

// Lint lists what is likely not meant: joins that a skipped parent skips.
func Lint(g *Graph) []Warning {
	var out []Warning
	for _, i := range g.order {
		x := &g.nodes[i]
		if x.trigger != AllSuccess || len(x.parents) < 2 {
			continue
		}
		var maybe []string
		for _, p := range x.parents {
			if y := &g.nodes[p]; y.cond != nil || y.trigger.handles() || y.onTimeout == TimeoutSkips {
				maybe = append(maybe, y.key)
			}
		}
		if len(maybe) == 0 || len(maybe) == len(x.parents) && sameCondition(g, x.parents) {
			continue
		}
		out = append(out, Warning{Node: x.key, Text: fmt.Sprintf("%s joins %s, which may be skipped, and is skipped then, too; with the trigger none_failed it would run", x.key, list(maybe))})
	}
	return out
}

// sameCondition reports whether all these nodes have one and the same if.
func sameCondition(g *Graph, nodes []int32) bool {
	first := g.def.Nodes[nodes[0]].If
	return first != "" && !slices.ContainsFunc(nodes, func(n int32) bool { return g.def.Nodes[n].If != first })
}
