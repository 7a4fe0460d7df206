package check

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Kind is the source of an event.
type Kind string

// The kinds of events. A client's call begins with Invoke and ends with one of the three after it.
const (
	Invoke  Kind = "invoke"
	OK      Kind = "ok"
	Fail    Kind = "fail"    // definitely without effect
	Unknown Kind = "unknown" // it may have happened or not
	Commit  Kind = "commit"  // the store changed something
	Arrive  Kind = "arrive"  // an attempt reached its target
	Reply   Kind = "reply"   // the target answered
	Fault   Kind = "fault"   // something was broken, or repaired
	Final   Kind = "final"   // the final state
)

// Op is the subject of an event.
type Op string

// The requests of clients. The Tag of Create and Trigger names the requested job or execution.
const (
	Create  Op = "create"
	Trigger Op = "trigger"
	Cancel  Op = "cancel"
	Delete  Op = "delete"
	Limited Op = "limited" // sets the limit of the tenant, or of its Queue, to Max
	Paused  Op = "paused"  // pauses its Queue until SchedAt; if that is zero, resumes it
	Look    Op = "look"    // reads an execution: its status is Result

	Change    Op = "change"     // changes a job, which becomes Version
	JobPaused Op = "job paused" // pauses or resumes a job, as the Tag says; a pause lasts until SchedAt, or until it is resumed
)

// The requests of workers, as seen between them and their servers. Events of one request have the same Call.
const (
	Claim    Op = "claim"    // OK: for each execution received
	Beat     Op = "beat"     // for each execution listed; OK: kept or lost
	Complete Op = "complete" // for each outcome; OK: accepted or refused
	Release  Op = "release"  // for each execution
)

// The commits of a store. As Final events, Leased and Ended are the product's own final record: At is the recorded
// time, and Result of Ended is an outcome, LOST or RELEASED.
const (
	Added    Op = "added"    // an execution; with the Tag of its trigger, or none if a schedule fired it
	Leased   Op = "leased"   // to Proc, under Token
	Finished Op = "finished" // the outcome Result under Token was accepted
	Refused  Op = "refused"  // the outcome Result under Token was refused
	Ended    Op = "ended"    // the lease under Token, by the move Result
	Became   Op = "became"   // the execution's status is now Result

	Withdrawn Op = "withdrawn" // the execution, which had not begun, is gone: its job was changed, and will fire it again
	Parked    Op = "parked"    // under Token: its target completes it
	Drawn     Op = "drawn"     // Max tokens from the bucket Group, which fills at Rate up to Burst, at SchedAt by the store's clock
)

// A store's commits to a run of a workflow. Those of one commit come in a consistent order.
const (
	RunBegan    Op = "run began"    // with its Graph; Tag is the workflow's timeout, if it has one
	RunAgain    Op = "run again"    // its next attempt, Attempt
	RunBecame   Op = "run became"   // the run's status is now Result
	NodeBecame  Op = "node became"  // the status of Node is now Result, for the reason Tag; Counts are those of a map
	NodeStarted Op = "node started" // Node, or Item of its map, is Execution
	Act         Op = "act"          // a client applies Tag to the run, or to Node
	EventSent   Op = "event"        // a client sends the event Tag
	RunLeft     Op = "run left"     // as Final: Tag of a run that has ended is still there
)

// What is about jobs that run after others.
const (
	Depend  Op = "depend"  // a client has a job depend on others
	Depends Op = "depends" // as Commit: a job depends on those in Parents, as the Tag says: success, failure or always
	Taken   Op = "taken"   // as Commit: the end of Execution was taken in for Job, in the order of the events
	Folded  Op = "folded"  // as Commit: after that, Job, whose state is Result, fired Max times for what its parents have left
)

// Arrivals, faults and the final state.
const (
	Execute   Op = "execute"
	Quiet     Op = "quiet"     // the last fault is over
	Job       Op = "job"       // with its state in Result
	Execution Op = "execution" // with its status in Result
)

// The tags of JobPaused.
const (
	Pause  = "pause"
	Resume = "resume"
)

// Event is one thing that happened.
type Event struct {
	At        time.Duration `json:"t"` // since the history began
	Proc      string        `json:"proc"`
	Call      int           `json:"call,omitempty"` // which request
	Kind      Kind          `json:"kind"`
	Op        Op            `json:"op"`
	Tenant    string        `json:"tenant,omitempty"`
	Job       string        `json:"job,omitempty"`
	SchedAt   time.Time     `json:"sched_at,omitzero"`
	Execution string        `json:"execution,omitempty"`
	Attempt   int           `json:"attempt,omitempty"`
	Token     int64         `json:"token,omitempty"`
	Result    string        `json:"result,omitempty"`
	Tag       string        `json:"tag,omitempty"`
	Queue     string        `json:"queue,omitempty"`   // of a lease
	Group     string        `json:"group,omitempty"`   // of a lease: the group that shares a limit
	Max       int           `json:"max,omitempty"`     // of a lease: how many of its group may run, including itself; 0: any number
	Unique    string        `json:"unique,omitempty"`  // of an added execution: the key that only one live execution may have
	Redrive   bool          `json:"redrive,omitempty"` // it is an automatic redrive of a dead letter
	Version   int           `json:"version,omitempty"` // of its job, from 0
	Many      bool          `json:"many,omitempty"`    // of a job: it recurs; of a map: its list is known
	Rate      float64       `json:"rate,omitempty"`    // tokens a second
	Burst     int           `json:"burst,omitempty"`
	Run       string        `json:"run,omitempty"`     // of a workflow; of an execution: the run whose node it is, or ByTokens
	Parks     bool          `json:"parks,omitempty"`   // the execution is a run: it only waits for its nodes
	Node      string        `json:"node,omitempty"`    // of a retry: several, separated by commas
	Item      int           `json:"item,omitempty"`    // of a map, from 1
	Graph     *Graph        `json:"graph,omitempty"`   // of a run that begins
	Counts    [4]int        `json:"counts,omitzero"`   // of a map with a known list (Many): all items, succeeded, failed, skipped
	Parents   string        `json:"parents,omitempty"` // of Depends: their names, separated by commas
}

// ByTokens stands as the run of an execution that began because the jobs on which its own depends have ended.
const ByTokens = "tokens"

// String returns the event on one line, for people.
func (e Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%10.3fs  %-12s %-7s %-9s", e.At.Seconds(), e.Proc, e.Kind, e.Op)
	for _, f := range []struct{ name, value string }{
		{"job", e.Job}, {"execution", e.Execution}, {"tag", e.Tag}, {"result", e.Result},
		{"queue", e.Queue}, {"group", e.Group}, {"unique", e.Unique}, {"run", e.Run}, {"node", e.Node}, {"parents", e.Parents},
	} {
		if f.value != "" {
			fmt.Fprintf(&b, " %s=%s", f.name, f.value)
		}
	}
	if e.Token != 0 {
		fmt.Fprintf(&b, " token=%d", e.Token)
	}
	if e.Max != 0 {
		fmt.Fprintf(&b, " max=%d", e.Max)
	}
	if e.Attempt != 0 {
		fmt.Fprintf(&b, " attempt=%d", e.Attempt)
	}
	if e.Item != 0 {
		fmt.Fprintf(&b, " item=%d", e.Item)
	}
	if e.Op == NodeBecame && e.Many {
		fmt.Fprintf(&b, " counts=%v", e.Counts)
	}
	if e.Graph != nil {
		for _, n := range e.Graph.Nodes {
			fmt.Fprintf(&b, " %s", n)
		}
	}
	if !e.SchedAt.IsZero() {
		fmt.Fprintf(&b, " sched_at=%s", e.SchedAt.Format("15:04:05.000000"))
	}
	return b.String()
}

// History is an append-only list of events. It is safe for concurrent use.
type History struct {
	mu     sync.Mutex
	events []Event // guarded by mu
}

// NewHistory returns a history of the given events.
func NewHistory(events ...Event) *History { return &History{events: events} }

// Add appends an event.
func (h *History) Add(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// Events returns the events so far; the caller must not change them.
func (h *History) Events() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.events[:len(h.events):len(h.events)]
}

// Write writes the events, one JSON object per line.
func (h *History) Write(w io.Writer) error {
	b := bufio.NewWriter(w)
	enc := json.NewEncoder(b)
	for _, e := range h.Events() {
		if err := enc.Encode(e); err != nil {
			return fmt.Errorf("write a history: %w", err)
		}
	}
	return b.Flush()
}

// maxLine limits the length of a line of a history.
const maxLine = 1 << 20

// Read reads the format of Write.
func Read(r io.Reader) (*History, error) {
	h := &History{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		var e Event
		dec := json.NewDecoder(strings.NewReader(lines.Text()))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&e); err != nil {
			return nil, fmt.Errorf("read a history: line %d: %w; want one event as a JSON object", n, err)
		}
		h.events = append(h.events, e)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read a history: %w", err)
	}
	return h, nil
}
