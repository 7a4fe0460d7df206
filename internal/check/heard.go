package check

import "time"

// Pauses checks that nothing of a queue is leased while it is paused, except within the time that servers may take to
// learn of the pause. A pause counts from its response until it expires, or anybody requests something else. begun is
// when the history began.
func Pauses(h *History, begun time.Time, learn time.Duration) []Violation {
	type pause struct {
		since, until time.Duration
		event        Event
	}
	paused, asked := map[string]pause{}, map[string]int{}
	var out []Violation
	for _, e := range h.Events() {
		key := e.Tenant + "/" + e.Queue
		switch {
		case is(Invoke, Paused)(e):
			asked[key]++
			delete(paused, key)
		case e.Op == Paused && e.Kind != Unknown:
			if asked[key]--; e.Kind == OK && asked[key] == 0 && !e.SchedAt.IsZero() {
				paused[key] = pause{e.At, e.SchedAt.Sub(begun), e}
			}
		case is(Commit, Leased)(e):
			if p, ok := paused[key]; ok && e.At > p.since+learn && e.At < p.until {
				out = append(out, violation("pauses", []Event{p.event, e}, "%s was leased %v after its queue %s had been paused, and %v before that ends", e.Execution, e.At-p.since, key, p.until-e.At))
			}
		}
	}
	return out
}

// Heard checks that every lease reaches its target, or ends, within a time: a live worker that never received an
// execution does not keep it.
func Heard(h *History, within time.Duration) []Violation {
	type lease struct {
		execution string
		token     int64
	}
	open := map[lease]Event{}
	var out []Violation
	late := func(e Event, at time.Duration) {
		if at-e.At > within {
			out = append(out, violation("heard", []Event{e}, "%s was leased, and its worker did not begin with it for %v", e.Execution, at-e.At))
		}
	}
	var last time.Duration
	for _, e := range h.Events() {
		last = max(last, e.At)
		k := lease{e.Execution, e.Token}
		switch {
		case is(Commit, Leased)(e) && !e.Parks:
			open[k] = e
		case is(Commit, Ended)(e), is(Arrive, Execute)(e):
			if l, ok := open[k]; ok {
				late(l, e.At)
				delete(open, k)
			}
		}
	}
	for _, l := range open {
		late(l, last)
	}
	return out
}
