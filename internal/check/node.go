package check

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Graph is the definition that a run of a workflow is judged by. Parents come before children.
type Graph struct {
	Nodes []Node `json:"nodes"`
}

// Node is the part of a node's definition that runs are judged by.
type Node struct {
	Key       string   `json:"key"`
	After     []string `json:"after,omitempty"`
	Trigger   string   `json:"trigger,omitempty"`    // empty: all_success
	OnFailure string   `json:"on_failure,omitempty"` // its own, or the workflow's
	Finally   bool     `json:"finally,omitempty"`
	Never     bool     `json:"never,omitempty"` // its `if` is false
	Map       bool     `json:"map,omitempty"`
	Parallel  int      `json:"parallel,omitempty"` // 0: as many as there are
	Tolerate  string   `json:"tolerate,omitempty"` // a number, or a percentage such as 50%
	Wait      string   `json:"wait,omitempty"`     // timer, approval or event; empty: it is an execution
	Timeout   bool     `json:"timeout,omitempty"`  // it has one of its own
}

func (n Node) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s(", n.Key)
	if n.Finally {
		b.WriteString("finally ")
	}
	fmt.Fprintf(&b, "%s %s %s", strings.Join(n.After, "+"), n.Trigger, n.OnFailure)
	for _, word := range []string{n.Wait, n.Tolerate} {
		if word != "" {
			b.WriteString(" " + word)
		}
	}
	if n.Never {
		b.WriteString(" never")
	}
	if n.Map {
		fmt.Fprintf(&b, " map/%d", n.Parallel)
	}
	return b.String() + ")"
}

// handles reports whether the node runs because something failed.
func (n Node) handles() bool { return n.Trigger == "one_failed" || n.Trigger == "all_failed" }

// tolerated returns how many of n items may fail.
func (n Node) tolerated(width int) int {
	if share, ok := strings.CutSuffix(n.Tolerate, "%"); ok {
		f, _ := strconv.ParseFloat(share, 64)
		return int(math.Floor(float64(width) * f / 100))
	}
	count, _ := strconv.Atoi(n.Tolerate)
	return count
}

// ends counts how the parents of a node ended, in the four classes of the contract.
type ends struct{ good, skipped, stopped, bad, open int }

func failure(status string) bool {
	return status == "FAILED" || status == "TIMED_OUT" || status == "EXPIRED" || status == "CANCELLED"
}

func hasEnded(status string) bool {
	return failure(status) || status == "SUCCEEDED" || status == "SKIPPED" || status == "NOT_RUN"
}

func (x *ends) add(status, reason, onFailure string) {
	switch {
	case !hasEnded(status):
		x.open++
	case status == "SUCCEEDED", failure(status) && onFailure == "ignore":
		x.good++
	case status == "SKIPPED":
		x.skipped++
	case status == "NOT_RUN" && reason == "STOPPED":
		x.stopped++
	default:
		x.bad++
	}
}

// The verdicts of a trigger on a node.
const (
	undecided = "undecided"
	runs      = "runs"
	skips     = "SKIPPED"
	notRun    = "NOT_RUN"
	isStopped = "NOT_RUN because the run was stopped"
)

// verdict returns the verdict of the contract's table for a trigger and the ends of the parents.
func (x ends) verdict(trigger string) string {
	otherwise := func() string { // as all_success has it
		switch {
		case x.bad > 0:
			return notRun
		case x.stopped > 0:
			return isStopped
		}
		return skips
	}
	first := func(any int, none string) string { // decided at the first
		switch {
		case any > 0:
			return runs
		case x.open > 0:
			return undecided
		}
		return none
	}
	all := x.good + x.skipped + x.stopped + x.bad
	last := func(holds bool, none string) string { // decided when all have ended
		switch {
		case x.open > 0:
			return undecided
		case holds:
			return runs
		}
		return none
	}
	switch trigger {
	case "", "all_success", "success":
		return last(x.good == all, otherwise())
	case "none_failed":
		return last(x.bad+x.stopped == 0, otherwise())
	case "none_failed_min_one_success":
		return last(x.bad+x.stopped == 0 && x.good > 0, otherwise())
	case "any_success":
		return last(x.good > 0, otherwise())
	case "all_done", "always":
		return last(true, "")
	case "all_failed":
		return last(x.bad == all, skips)
	case "one_success":
		return first(x.good, otherwise())
	case "one_done":
		return first(x.good+x.bad, skips)
	case "one_failed", "failure":
		return first(x.bad, skips)
	}
	return "no verdict: there is no trigger " + trigger
}
