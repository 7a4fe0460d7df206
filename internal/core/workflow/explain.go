package workflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// named limits how many nodes a sentence lists by name.
const named = 5

// Explain explains the state of a node, in one sentence without its name at the beginning; "" if its execution says
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
	case Cancelling:
		return explainCancelled(c)
	case Failed, TimedOut, Expired, Cancelled:
		if e := ErrorOf(g, s, n, nil); e != nil {
			return Failing(e)
		}
	}
	return ""
}

// Failing says in a line why a node failed: the type of its error, which programs may look for, and how the message begins.
func Failing(e *job.Error) string {
	first, _, _ := strings.Cut(strings.TrimSpace(e.Message), "\n")
	if text := []rune(first); len(text) > longestReason {
		first = string(text[:longestReason]) + "…"
	}
	return strings.TrimSuffix(string(e.Type)+": "+first, ": ")
}

// longestReason bounds the message in a reason, in characters. The error has all of it.
const longestReason = 500

// ExplainRun says where a run stands, in a sentence.
func ExplainRun(g *Graph, s *State) string {
	var ended, live []string
	var worst []string // that failed
	for _, i := range g.order {
		c := &s.cells[i]
		switch {
		case c.status.Final():
			ended = append(ended, g.nodes[i].key)
			if Fails(g, int(i), c.status) {
				worst = append(worst, fmt.Sprintf("%s (%s)", g.nodes[i].key, c.status))
			}
		case c.live():
			live = append(live, g.nodes[i].key)
		}
	}
	if s.Status.Final() {
		text := fmt.Sprintf("The run has ended as %s.", s.Status)
		if len(worst) > 0 {
			text = fmt.Sprintf("The run has ended as %s: %s.", s.Status, list(worst))
		}
		return text
	}
	text := fmt.Sprintf("%d of %d nodes have ended", len(ended), len(g.nodes))
	if len(live) > 0 {
		text += ", under way: " + list(live)
	}
	if len(worst) > 0 {
		text += "; failed: " + list(worst)
	}
	switch s.Status {
	case Paused:
		return "The run is paused, and no node starts. " + text + "."
	case Cancelling:
		return fmt.Sprintf("The run ends as %s. %s.", s.ending, text)
	}
	return "The run is under way. " + text + "."
}

func explainWaiting(g *Graph, s *State, x *node, c *cell) string {
	switch {
	case c.held && !s.paused && s.crowded(g):
		return s.waitsForRoom()
	case c.held && !s.paused:
		return "starts shortly: more nodes start than one commit takes"
	case c.held:
		return "held: the run is paused"
	case x.finally && !s.cleanup:
		return fmt.Sprintf("finally: waits until the other nodes have ended (open: %d)", s.open)
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

// list joins the first few of many names.
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
		case m.cursor < m.width && m.live < m.window(g.limits) && s.crowded(g):
			text += "; the next one " + s.waitsForRoom()
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
		if culprits := g.culprits(s, func(i int32) bool { return g.nodes[i].policy == Stop && s.cells[i].status.Failed() }); len(culprits) > 0 {
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
	culprits := g.culprits(s, func(i int32) bool { return above[i] && s.cells[i].status.Failed() })
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
		return fmt.Sprintf("%d of %d items failed, %d are tolerated", m.failed, m.width, m.tolerate.Of(m.width))
	case Rejected:
		return "the approval was rejected"
	case ByTimeout:
		if x.wait != nil {
			return fmt.Sprintf("nothing released the wait within its timeout of %s", x.timeout)
		}
		return fmt.Sprintf("it took longer than its timeout of %s", x.timeout)
	case BadExpression:
		return "an expression had no value"
	case MapNotAList:
		return fmt.Sprintf("map: `%s` gave no list", x.mapExpr)
	case MapTooWide:
		return "map gave too many items"
	case ResultTooLarge:
		return fmt.Sprintf("its result has more than %d bytes", MaxValue)
	case InputTooLarge:
		return fmt.Sprintf("what it reads has more than %d bytes together", MaxValue)
	}
	return ""
}

// ErrorOf says why a node failed: with the error that it left behind, if there is one, else with what the state knows. Nil: it
// has not failed.
func ErrorOf(g *Graph, s *State, n int, left *job.Error) *job.Error {
	c, x := &s.cells[n], &g.nodes[n]
	switch {
	case !c.status.Failed():
		return nil
	case c.status == TimedOut && c.reason == ByTimeout: // what ran says only that it was cancelled
		return &job.Error{Type: job.TimeoutError, Message: explainFailed(s, x, c, n)}
	case left != nil:
		return left
	case c.status == Cancelled:
		return &job.Error{Type: job.CancelledError, Message: explainCancelled(c)}
	case c.status == TimedOut:
		return &job.Error{Type: job.TimeoutError, Message: "it took too long"}
	case c.status == Failed && c.reason != NoReason:
		return &job.Error{Type: job.ErrorType(c.reason.String()), Message: explainFailed(s, x, c, n)}
	}
	return nil
}

func explainCancelled(c *cell) string {
	switch c.reason {
	case ByCancel:
		return "cancelled with the run"
	case ByRunTimeout:
		return "cancelled because the run took too long"
	case ByTimeout:
		return "cancelled because it took too long"
	}
	return "cancelled"
}

// Warning is what is likely not meant in a definition that is valid.
type Warning struct {
	Node string
	Text string
}

// Lint lists probable mistakes: joins that a skipped parent skips.
func Lint(g *Graph) []Warning {
	var out []Warning
	gates := g.gates()
	for _, i := range g.order {
		x := &g.nodes[i]
		if x.trigger != AllSuccess || len(x.parents) < 2 {
			continue
		}
		var maybe []string
		together := true // the parents are skipped for the same reasons, so all of them or none
		for _, p := range x.parents {
			if slices.ContainsFunc(gates[p], func(bits uint64) bool { return bits != 0 }) {
				maybe = append(maybe, g.nodes[p].key)
			}
			together = together && slices.Equal(gates[p], gates[x.parents[0]])
		}
		if len(maybe) == 0 || together {
			continue
		}
		out = append(out, Warning{Node: x.key, Text: fmt.Sprintf("%s joins %s, which may be skipped, and is skipped then, too; with the trigger none_failed it would run", x.key, list(maybe))})
	}
	return out
}

// gates says for each node what may have it skipped: conditions, and nodes that are skipped unless something fails or comes too late. Each
// is a bit. A skip passes on through all_success.
func (g *Graph) gates() [][]uint64 {
	number := map[string]int{}
	own := make([][]int, len(g.nodes))
	for i := range g.nodes {
		x := &g.nodes[i]
		var names []string
		if x.cond != nil {
			names = append(names, "if "+g.def.Nodes[i].If)
		}
		if x.trigger.handles() || x.onTimeout == TimeoutSkips {
			names = append(names, "node "+x.key)
		}
		for _, name := range names {
			if _, known := number[name]; !known {
				number[name] = len(number)
			}
			own[i] = append(own[i], number[name])
		}
	}
	out := make([][]uint64, len(g.nodes))
	for _, i := range g.order {
		x, of := &g.nodes[i], make([]uint64, (len(number)+63)/64)
		for _, k := range own[i] {
			of[k/64] |= 1 << (k % 64)
		}
		if x.trigger == AllSuccess {
			for _, p := range x.parents {
				for k, bits := range out[p] {
					of[k] |= bits
				}
			}
		}
		out[i] = of
	}
	return out
}
