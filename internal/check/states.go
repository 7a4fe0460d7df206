package check

import (
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

var statuses = func() map[string]job.Status {
	out := map[string]job.Status{}
	for _, s := range job.Statuses() {
		out[s.String()] = s
	}
	return out
}()

// final reports whether a status never changes again.
func final(name string) bool { return statuses[name].Final() }

// allowed reports whether one move leads from a status to another.
func allowed(from, to job.Status) bool {
	for _, m := range job.Moves() {
		for tries := range 2 {
			next, ok := job.Apply(from, m, tries)
			if ok && next == to {
				return true
			}
			// What ends its lease while its job is paused is held in the same commit.
			if held, also := job.Apply(next, job.Hold, tries); ok && also && held == to {
				return true
			}
		}
	}
	return false
}

// Moves checks that an execution moves as the state machine allows.
func Moves(h *History) []Violation {
	const name = "moves"
	var out []Violation
	all := byExecution(h)
	for _, n := range all.names {
		var at *Event
		for i, e := range all.of[n] {
			if !is(Commit, Added)(e) && !is(Commit, Became)(e) {
				continue
			}
			to, known := statuses[e.Result]
			switch {
			case !known:
				out = append(out, violation(name, []Event{e}, "%s is in a state that does not exist", n))
			case at == nil && e.Op == Became:
				out = append(out, violation(name, []Event{e}, "%s moved before it was added", n))
			case at != nil && e.Op == Added:
				out = append(out, violation(name, []Event{*at, e}, "%s was added twice", n))
			case at != nil && !allowed(statuses[at.Result], to):
				out = append(out, violation(name, []Event{*at, e}, "%s went from %s to %s", n, at.Result, e.Result))
			}
			at = &all.of[n][i]
		}
	}
	return out
}

// Terminal checks that an execution ends once, and that its final status is the one it ended with.
func Terminal(h *History) []Violation {
	const name = "terminal"
	var out []Violation
	all := byExecution(h)
	for _, n := range all.names {
		ends := pick(all.of[n], func(e Event) bool { return is(Commit, Became)(e) && final(e.Result) })
		if len(ends) > 1 {
			out = append(out, violation(name, ends, "%s ended %d times", n, len(ends)))
		}
		for _, f := range pick(all.of[n], is(Final, Execution)) {
			if len(ends) > 0 && ends[0].Result != f.Result {
				out = append(out, violation(name, []Event{ends[0], f}, "%s ended as %s and is %s", n, ends[0].Result, f.Result))
			}
		}
	}
	return out
}

// Liveness checks that every execution has ended, and none later than within after the last fault.
func Liveness(h *History, within time.Duration) []Violation {
	const name = "liveness"
	var out []Violation
	var quiet Event
	for _, e := range pick(h.Events(), is(Fault, Quiet)) {
		quiet = e
	}
	all := byExecution(h)
	for _, n := range all.names {
		es := all.of[n]
		finals := pick(es, is(Final, Execution))
		added := pick(es, is(Commit, Added))
		if len(added) > 0 && len(finals) == 0 && len(pick(es, is(Commit, Withdrawn))) == 0 {
			out = append(out, violation(name, es, "%s is gone", n))
		}
		for _, f := range finals {
			if !final(f.Result) {
				out = append(out, violation(name, es, "%s has not ended: it is %s", n, f.Result))
			}
		}
		for _, e := range es {
			if is(Commit, Became)(e) && final(e.Result) && e.At > quiet.At+within {
				out = append(out, violation(name, []Event{quiet, e}, "%s ended %v after the last fault", n, e.At-quiet.At))
			}
		}
	}
	return out
}
