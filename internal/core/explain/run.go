package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
)

// The reasons for the state of a run of a workflow.
const (
	Approval  Code = "AWAITING_APPROVAL"
	RunPaused Code = "RUN_PAUSED"
)

// Run is the known state of a run of a workflow.
type Run struct {
	ID    job.ExecutionID
	Graph *workflow.Graph
	State *workflow.State
	Waits []NodeWait
	Left  map[int]*job.Error // errors that nodes left behind
}

// NodeWait describes since when and until when a node waits for an instant, a person or an event.
type NodeWait struct {
	Node  int
	Begun time.Time
	Until time.Time // zero: for as long as it takes
}

// Node identifies the node of a run that an execution belongs to.
type Node struct {
	Run  job.ExecutionID
	Key  string
	Item int // of its map; -1: it has none
}

// NodeWhy explains the state of a node of a run.
type NodeWhy struct {
	Key    string
	Status workflow.Status
	Text   string    // without the node's name
	Since  time.Time // zero: not known
}

// The most nodes that an explanation lists, and names in its sentence.
const (
	nodesListed = 50
	nodesNamed  = 3
)

// nodes explains the nodes of a run that have not simply succeeded, unfinished ones first.
func (r *Run) nodes() []NodeWhy {
	waits := map[int]NodeWait{}
	for _, w := range r.Waits {
		waits[w.Node] = w
	}
	var open, over []NodeWhy
	for n := range r.Graph.Len() {
		status, _ := r.State.Node(n)
		x := NodeWhy{Key: r.Graph.Node(n).Key, Status: status, Text: workflow.Explain(r.Graph, r.State, n)}
		if e := workflow.ErrorOf(r.Graph, r.State, n, r.Left[n]); e != nil {
			x.Text = workflow.Failing(e)
		}
		if w, ok := waits[n]; ok && !status.Final() {
			x.Since = w.Begun
			x.Text += " since " + instant(w.Begun)
			if !w.Until.IsZero() {
				x.Text += ", until " + instant(w.Until)
			}
		}
		switch {
		case status == workflow.Succeeded && x.Text == "":
		case status.Final():
			over = append(over, x)
		default:
			open = append(open, x)
		}
	}
	slices.SortStableFunc(open, func(a, b NodeWhy) int { return rank(a) - rank(b) })
	all := append(open, over...)
	return all[:min(len(all), nodesListed)]
}

// rank puts what a run waits for first.
func rank(x NodeWhy) int {
	switch {
	case !x.Since.IsZero():
		return 0
	case x.Status != workflow.Waiting:
		return 1
	}
	return 2
}

// clause describes in a clause what a node is doing.
func (x NodeWhy) clause() string {
	switch {
	case x.Text == "":
		return x.Key + " is " + x.Status.String()
	case x.Text[0] >= '0' && x.Text[0] <= '9' || strings.Contains(x.Text, ":"):
		return x.Key + ": " + x.Text
	}
	return x.Key + " " + x.Text
}

// goes explains an unfinished run of a workflow.
func (w *Why) goes(s *Situation) {
	r, e := s.Run, &s.Execution
	w.Facts.Run, w.Facts.Nodes = r.ID, r.nodes()
	w.Since = e.StartedAt
	ended, busy := 0, false
	var asked []NodeWhy
	for n := range r.Graph.Len() {
		status, _ := r.State.Node(n)
		wait := r.Graph.Node(n).Wait
		switch {
		case status.Final():
			ended++
		case status == workflow.Waiting:
		case wait == nil || wait.Approval == nil:
			busy = true
		}
	}
	for _, x := range w.Facts.Nodes {
		if n, _ := r.Graph.Number(x.Key); !x.Since.IsZero() && r.Graph.Node(n).Wait != nil && r.Graph.Node(n).Wait.Approval != nil {
			asked = append(asked, x)
		}
	}
	progress := fmt.Sprintf("%d of %d nodes have ended", ended, r.Graph.Len())
	switch {
	case r.State.Status == workflow.Paused:
		w.say(RunPaused, "The run is paused: no node starts until it is unpaused; %s", progress)
	case r.State.Status == workflow.Cancelling || e.Status == job.Cancelling:
		w.say(Cancelling, "The run is being cancelled: what runs is asked to stop, and finally nodes still run; %s", progress)
	case len(asked) > 0 && !busy:
		w.Since = asked[0].Since
		var of []string
		for _, x := range asked[:min(len(asked), nodesNamed)] {
			of = append(of, x.Key+" since "+instant(x.Since))
		}
		text := strings.Join(of, " and of ")
		if more := len(asked) - len(of); more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		w.say(Approval, "The run waits for approval of %s; %s.", text, progress)
		return
	default:
		w.say(Running, "The run has run for %s: %s", about(s.Now.Sub(e.StartedAt)), progress)
	}
	for i, x := range w.Facts.Nodes {
		if i == nodesNamed || x.Status.Final() {
			break
		}
		w.Text += "; " + x.clause()
	}
	w.Text = sentence(w.Text)
}

// within adds the node and the run that an execution belongs to.
func (w *Why) within(n *Node) {
	w.Facts.Run, w.Facts.Node = n.Run, n.Key
	what := "node " + n.Key
	if n.Item >= 0 {
		w.Facts.Item = &n.Item
		what = fmt.Sprintf("item %d of %s", n.Item, what)
	}
	w.Text += fmt.Sprintf(" It is %s of run %s.", what, n.Run)
}
