package check

import (
	"strings"
	"testing"
	"time"
)

// Each of these runs breaks one rule by its last event, and is sound without it.
func TestBadRuns(t *testing.T) {
	at := time.Duration(0)
	ev := func(e Event) Event {
		at += time.Second
		if e.Run, e.At = "r", at; e.Kind == "" {
			e.Kind = Commit
		}
		return e
	}
	graph := func(nodes ...Node) Event { return ev(Event{Op: RunBegan, Graph: &Graph{nodes}}) }
	node := func(key, status, reason string) Event {
		return ev(Event{Op: NodeBecame, Node: key, Result: status, Tag: reason})
	}
	start := func(key string, item int, execution string) Event {
		return ev(Event{Op: NodeStarted, Node: key, Item: item, Execution: execution})
	}
	end := func(execution, status string) Event {
		at += time.Second
		return Event{At: at, Kind: Commit, Op: Became, Execution: execution, Result: status}
	}
	run := func(status string) Event { return ev(Event{Op: RunBecame, Result: status}) }
	act := func(k Kind, act, key string) Event {
		return ev(Event{Kind: k, Proc: "c", Op: Act, Tag: act, Node: key})
	}
	counts := func(e Event, counts ...int) Event {
		e.Many = true
		copy(e.Counts[:], counts)
		return e
	}
	a, b := Node{Key: "a", OnFailure: "continue"}, Node{Key: "b", After: []string{"a"}, OnFailure: "continue"}
	with := func(n Node, change func(*Node)) Node { change(&n); return n }
	all := func(ess ...[]Event) (out []Event) {
		for _, es := range ess {
			out = append(out, es...)
		}
		return out
	}
	ran := func(key, execution, status string) []Event {
		return []Event{node(key, "PENDING", ""), start(key, 0, execution), end(execution, status), node(key, status, "")}
	}
	for name, c := range map[string]struct {
		sound  []Event
		broken Event
	}{
		"a node starts before its parent ended":        {[]Event{graph(a, b), node("a", "PENDING", ""), start("a", 0, "x")}, node("b", "PENDING", "")},
		"a node starts below one that failed":          {all([]Event{graph(a, b)}, ran("a", "x", "FAILED")), node("b", "PENDING", "")},
		"a node is skipped below one that failed":      {all([]Event{graph(a, b)}, ran("a", "x", "FAILED")), node("b", "SKIPPED", "TRIGGER")},
		"a node ran twice":                             {all([]Event{graph(a, b)}, ran("a", "x", "SUCCEEDED"), []Event{node("b", "PENDING", ""), start("b", 0, "y"), end("y", "FAILED")}), start("b", 0, "z")},
		"a success although the execution failed":      {[]Event{graph(a), node("a", "PENDING", ""), start("a", 0, "x"), end("x", "FAILED")}, node("a", "SUCCEEDED", "")},
		"a success although a node failed":             {all([]Event{graph(a)}, ran("a", "x", "FAILED")), run("SUCCEEDED")},
		"a failure although it was handled":            {all([]Event{graph(with(a, func(n *Node) { n.OnFailure = "handle" }))}, ran("a", "x", "FAILED")), run("FAILED")},
		"a run that ends with a node under way":        {[]Event{graph(a), node("a", "PENDING", ""), start("a", 0, "x")}, run("FAILED")},
		"a run that nobody cancelled":                  {all([]Event{graph(a)}, ran("a", "x", "SUCCEEDED")), run("CANCELLED")},
		"a start in a pause":                           {[]Event{graph(a), node("a", "PENDING", ""), run("PAUSED")}, start("a", 0, "x")},
		"a pause that is not one":                      {[]Event{graph(a), act(Invoke, "pause", "")}, act(OK, "pause", "")},
		"an approval that does not count":              {[]Event{graph(with(a, func(n *Node) { n.Wait, n.Timeout = "approval", true })), act(Invoke, "approve", "a"), node("a", "RUNNING", ""), node("a", "TIMED_OUT", "TIMEOUT")}, act(OK, "approve", "a")},
		"an approval that nobody gave":                 {[]Event{graph(with(a, func(n *Node) { n.Wait = "approval" })), node("a", "RUNNING", "")}, node("a", "SUCCEEDED", "")},
		"a finally node that does not wait":            {[]Event{graph(a, Node{Key: "f", Finally: true}), node("a", "PENDING", ""), start("a", 0, "x")}, node("f", "PENDING", "")},
		"a finally node that a cancel skips":           {[]Event{graph(a, Node{Key: "f", Finally: true}), act(Invoke, "cancel", ""), node("a", "NOT_RUN", "RUN_CANCELLED")}, node("f", "NOT_RUN", "RUN_CANCELLED")},
		"a node that starts after a cancel":            {[]Event{graph(a), act(Invoke, "cancel", ""), node("a", "PENDING", ""), run("CANCELLING")}, start("a", 0, "x")},
		"a retry that runs a good node":                {all([]Event{graph(a, Node{Key: "c"})}, ran("a", "x", "FAILED"), ran("c", "y", "SUCCEEDED"), []Event{run("FAILED"), ev(Event{Op: RunAgain, Attempt: 2})}), node("c", "PENDING", "")},
		"an `if` that is false":                        {[]Event{graph(with(a, func(n *Node) { n.Never = true }))}, node("a", "PENDING", "")},
		"more items at once than may":                  {[]Event{graph(with(a, func(n *Node) { n.Map, n.Parallel = true, 1 })), node("a", "RUNNING", ""), start("a", 1, "x")}, start("a", 2, "y")},
		"a map that counts wrongly":                    {[]Event{graph(with(a, func(n *Node) { n.Map = true })), node("a", "RUNNING", ""), start("a", 1, "x"), end("x", "SUCCEEDED")}, counts(node("a", "SUCCEEDED", ""), 2, 2)},
		"a map that fails more often than it may":      {[]Event{graph(with(a, func(n *Node) { n.Map, n.Tolerate = true, "1%" })), node("a", "RUNNING", ""), start("a", 1, "x"), end("x", "FAILED")}, counts(node("a", "SUCCEEDED", ""), 1, 0, 1)},
		"a node that is stopped although nothing does": {all([]Event{graph(a, b)}, ran("a", "x", "SUCCEEDED")), node("b", "NOT_RUN", "STOPPED")},
		"a run that does not end":                      {[]Event{graph(a)}, ev(Event{Kind: Final, Op: RunBecame, Result: "RUNNING"})},
		"something is left":                            {[]Event{graph(a)}, ev(Event{Kind: Final, Op: RunLeft, Tag: "a wait"})},
	} {
		if v := Runs(NewHistory(c.sound...)); len(v) > 0 {
			t.Errorf("%s: the history is sound, and %s", name, v[0])
		}
		if v := Runs(NewHistory(append(c.sound, c.broken)...)); len(v) == 0 {
			t.Errorf("%s: nothing was found", name)
		} else if !strings.HasPrefix(v[0].String(), "runs: ") {
			t.Errorf("%s: %s", name, v[0])
		}
	}
}

// The table of triggers.
func TestTheVerdictOfTriggers(t *testing.T) {
	for _, c := range []struct {
		trigger string
		ends    ends
		want    string
	}{
		{"", ends{good: 2}, runs}, {"", ends{good: 1, bad: 1}, notRun}, {"", ends{good: 1, stopped: 1}, isStopped}, {"", ends{good: 1, skipped: 1}, skips}, {"", ends{bad: 1, open: 1}, undecided},
		{"none_failed", ends{skipped: 2}, runs}, {"none_failed", ends{skipped: 1, bad: 1}, notRun},
		{"none_failed_min_one_success", ends{skipped: 2}, skips}, {"none_failed_min_one_success", ends{skipped: 1, good: 1}, runs},
		{"any_success", ends{good: 1, bad: 1}, runs}, {"any_success", ends{good: 1, open: 1}, undecided}, {"any_success", ends{bad: 1}, notRun},
		{"always", ends{bad: 2}, runs}, {"all_done", ends{open: 1}, undecided},
		{"all_failed", ends{bad: 2}, runs}, {"all_failed", ends{bad: 1, good: 1}, skips},
		{"one_success", ends{good: 1, open: 1}, runs}, {"one_success", ends{bad: 1}, notRun}, {"one_success", ends{skipped: 1}, skips},
		{"one_done", ends{bad: 1, open: 1}, runs}, {"one_done", ends{skipped: 1, stopped: 1}, skips},
		{"failure", ends{bad: 1, open: 1}, runs}, {"one_failed", ends{good: 1, open: 1}, undecided}, {"one_failed", ends{good: 2}, skips},
	} {
		if got := c.ends.verdict(c.trigger); got != c.want {
			t.Errorf("%q over %+v: %s, want %s", c.trigger, c.ends, got, c.want)
		}
	}
}
