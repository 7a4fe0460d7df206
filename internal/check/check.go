package check

import (
	"fmt"
	"strings"
	"time"
)

// Violation is a broken promise, and the events that prove it.
type Violation struct {
	Check string
	What  string
	Slice []Event
}

func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", v.Check, v.What)
	for _, e := range v.Slice {
		fmt.Fprintf(&b, "\n    %s", e)
	}
	return b.String()
}

// Check judges a history.
type Check func(*History) []Violation

// All runs every check; everything must have ended within the given time after the last fault.
func All(h *History, within time.Duration) []Violation {
	var all []Violation
	for _, c := range []Check{Durability, Answers, Uniqueness, Completeness, Exclusion, Fencing, Arrivals, Moves, Terminal, Deletion, Concurrency, Keys, Expiry, Runs, Edges} {
		all = append(all, c(h)...)
	}
	return append(all, Liveness(h, within)...)
}

// groups holds events by name, in the order of the first of each.
type groups struct {
	names []string
	of    map[string][]Event
}

// group sorts events by the name that f returns; "" leaves one out.
func group(events []Event, f func(Event) string) groups {
	g := groups{of: map[string][]Event{}}
	for _, e := range events {
		name := f(e)
		if name == "" {
			continue
		}
		if _, known := g.of[name]; !known {
			g.names = append(g.names, name)
		}
		g.of[name] = append(g.of[name], e)
	}
	return g
}

// byExecution groups events by their execution.
func byExecution(h *History) groups {
	return group(h.Events(), func(e Event) string {
		if e.Execution == "" {
			return ""
		}
		return e.Tenant + "/" + e.Execution
	})
}

// pick returns the events that f selects.
func pick(events []Event, f func(Event) bool) []Event {
	var out []Event
	for _, e := range events {
		if f(e) {
			out = append(out, e)
		}
	}
	return out
}

// is returns a filter for events of a kind and an op.
func is(k Kind, o Op) func(Event) bool { return func(e Event) bool { return e.Kind == k && e.Op == o } }

func violation(check string, slice []Event, format string, args ...any) Violation {
	return Violation{Check: check, What: fmt.Sprintf(format, args...), Slice: slice}
}
