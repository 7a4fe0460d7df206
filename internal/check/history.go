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

// Kind says who speaks in an event.
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
	Fault   Kind = "fault"   // something was broken, or mended
	Final   Kind = "final"   // what was there in the end
)

// Op says what an event is about.
type Op string

// What clients ask for. The Tag of Create and Trigger names what is asked for: a job's name, or an execution.
const (
	Create  Op = "create"
	Trigger Op = "trigger"
	Cancel  Op = "cancel"
	Delete  Op = "delete"
	Limited Op = "limited" // the tenant, or its Queue, to Max at once
	Paused  Op = "paused"  // its Queue, until SchedAt, or, where that is zero, resumed
	Look    Op = "look"    // at an execution: its status is Result

	Change    Op = "change"     // of a job, which makes it Version
	JobPaused Op = "job paused" // Pause or Resume, as the Tag says; a pause until SchedAt, or until it is resumed
)

// What workers ask for, as it was seen between them and their servers. Events of one request have the same Call.
const (
	Claim    Op = "claim"    // OK: for each execution that came
	Beat     Op = "beat"     // for each execution that it names; OK: kept or lost
	Complete Op = "complete" // for each outcome; OK: accepted or refused
	Release  Op = "release"  // for each execution
)

// What a store commits. As Final events, Leased and Ended are what the product's own record says in the end: At is when it
// says that it happened, and Result of Ended is an outcome, LOST or RELEASED.
const (
	Added    Op = "added"    // an execution; with the Tag of its trigger, or none where a schedule fired it
	Leased   Op = "leased"   // to Proc, under Token
	Finished Op = "finished" // the outcome Result under Token was accepted
	Refused  Op = "refused"  // the outcome Result under Token was refused
	Ended    Op = "ended"    // the lease under Token, by the move Result
	Became   Op = "became"   // the execution's status is now Result

	Withdrawn Op = "withdrawn" // the execution, which had not begun, is gone: its job was changed, and fires it again
	Parked    Op = "parked"    // under Token: its target completes it
	Drawn     Op = "drawn"     // Max tokens out of the bucket Group, that fills at Rate up to Burst, at SchedAt by the store's clock
)

// What arrives, what breaks, and what is there in the end.
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
	Queue     string        `json:"queue,omitempty"`   // of what is leased
	Group     string        `json:"group,omitempty"`   // of what is leased: what shares its limit
	Max       int           `json:"max,omitempty"`     // what is leased may run with so many of its group, itself among them; 0: any number
	Unique    string        `json:"unique,omitempty"`  // of what is added: the key that only one live execution has
	Redrive   bool          `json:"redrive,omitempty"` // it runs a dead letter again, by itself
	Version   int           `json:"version,omitempty"` // of its job, from 0
	Many      bool          `json:"many,omitempty"`    // of a job: it fires repeatedly
	Rate      float64       `json:"rate,omitempty"`    // tokens a second
	Burst     int           `json:"burst,omitempty"`
}

// String is the event on one line, for people.
func (e Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%10.3fs  %-12s %-7s %-9s", e.At.Seconds(), e.Proc, e.Kind, e.Op)
	for _, f := range []struct{ name, value string }{
		{"job", e.Job}, {"execution", e.Execution}, {"tag", e.Tag}, {"result", e.Result},
		{"queue", e.Queue}, {"group", e.Group}, {"unique", e.Unique},
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
	if !e.SchedAt.IsZero() {
		fmt.Fprintf(&b, " sched_at=%s", e.SchedAt.Format("15:04:05.000000"))
	}
	return b.String()
}

// History is a list of events that only grows. It is safe for use by many goroutines.
type History struct {
	mu     sync.Mutex
	events []Event // guarded by mu
}

// NewHistory is a history of the given events.
func NewHistory(events ...Event) *History { return &History{events: events} }

// Add appends an event.
func (h *History) Add(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// Events are the events so far; the caller does not change them.
func (h *History) Events() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.events[:len(h.events):len(h.events)]
}

// Write writes the events, one JSON object a line.
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

// maxLine bounds a line of a history.
const maxLine = 1 << 20

// Read reads what Write wrote.
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
