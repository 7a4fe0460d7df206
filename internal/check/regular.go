package check

import "time"

// JobPauses checks that nothing that the schedule of a job fired is leased while the job is paused. A pause counts
// from its response until it expires, or anybody requests something else. begun is when the history began, by the
// clock that pauses end by.
func JobPauses(h *History, begun time.Time) []Violation {
	type pause struct {
		until time.Duration // 0: until it is resumed
		event Event
	}
	paused, asked, fired := map[string]pause{}, map[string]int{}, map[string]bool{}
	var out []Violation
	for _, e := range h.Events() {
		key := e.Tenant + "/" + e.Job
		switch {
		case is(Commit, Added)(e) && e.Tag == "" && !e.Redrive && e.Run == "":
			fired[e.Tenant+"/"+e.Execution] = true
		case is(Invoke, JobPaused)(e):
			asked[key]++
			delete(paused, key)
		case e.Op == JobPaused && e.Kind != Unknown:
			if asked[key]--; e.Kind == OK && asked[key] == 0 && e.Tag == Pause {
				p := pause{event: e}
				if !e.SchedAt.IsZero() {
					p.until = e.SchedAt.Sub(begun)
				}
				paused[key] = p
			}
		case is(Commit, Leased)(e) && fired[e.Tenant+"/"+e.Execution]:
			if p, ok := paused[key]; ok && (p.until == 0 || e.At < p.until) {
				out = append(out, violation("job pauses", []Event{p.event, e}, "%s was leased %v after its job %s had been paused", e.Execution, e.At-p.event.At, key))
			}
		}
	}
	return out
}

// Changes checks that executions that a schedule fires after an acknowledged change follow the changed job, or a
// later change.
func Changes(h *History) []Violation {
	var out []Violation
	done := map[string]Event{}
	for _, e := range h.Events() {
		key := e.Tenant + "/" + e.Job
		switch {
		case is(OK, Change)(e) && e.Version > done[key].Version:
			done[key] = e
		case is(Commit, Added)(e) && e.Tag == "" && !e.Redrive && e.Run == "" && e.Version < done[key].Version:
			out = append(out, violation("changes", []Event{done[key], e}, "%s fired as version %d after %s had been changed to version %d", e.Execution, e.Version, key, done[key].Version))
		}
	}
	return out
}

// Punctuality checks that what a schedule fires is added no later than late after its instant, if that is more than
// settled after the last fault and after the last pause of its job. begun is when the history began, by the clock
// that schedules go by.
func Punctuality(h *History, begun time.Time, settled, late time.Duration) []Violation {
	var out []Violation
	var quiet *Event
	paused := map[string]time.Duration{} // until when
	events := h.Events()
	for i, e := range events {
		key := e.Tenant + "/" + e.Job
		switch {
		case is(Fault, Quiet)(e):
			quiet = &events[i]
		case e.Op == JobPaused:
			if paused[key] = max(paused[key], e.At); !e.SchedAt.IsZero() {
				paused[key] = max(paused[key], e.SchedAt.Sub(begun))
			}
		case quiet != nil && is(Commit, Added)(e) && e.Tag == "" && !e.Redrive && e.Run == "" && !e.SchedAt.IsZero():
			if due := e.SchedAt.Sub(begun); due > max(quiet.At, paused[key])+settled && e.At > due+late {
				out = append(out, violation("punctuality", []Event{*quiet, e}, "%s was fired %v after its instant", e.Execution, e.At-due))
			}
		}
	}
	return out
}

// Losses checks that long after the last fault no worker loses a lease.
func Losses(h *History, after time.Duration) []Violation {
	var out []Violation
	var quiet *Event
	events := h.Events()
	for i, e := range events {
		switch {
		case is(Fault, Quiet)(e):
			quiet = &events[i]
		case quiet != nil && is(Commit, Ended)(e) && e.Result == "lost" && e.At > quiet.At+after:
			out = append(out, violation("losses", []Event{*quiet, e}, "%s was lost, %v after the last fault", e.Execution, e.At-quiet.At))
		}
	}
	return out
}

// Kept checks that an execution that its target took over stays with its target, even if the worker that began it
// goes.
func Kept(h *History) []Violation {
	type lease struct {
		execution string
		token     int64
	}
	parked := map[lease]Event{}
	var out []Violation
	for _, e := range h.Events() {
		k := lease{e.Tenant + "/" + e.Execution, e.Token}
		switch {
		case is(Commit, Parked)(e):
			parked[k] = e
		case is(Commit, Ended)(e) && (e.Result == "lost" || handedBack[e.Result]):
			if p, ok := parked[k]; ok {
				out = append(out, violation("kept", []Event{p, e}, "%s was parked, and taken back as %s", e.Execution, e.Result))
			}
		}
	}
	return out
}

// Rates checks that no bucket gives more than its burst and its inflow, by the store's clock. A bucket whose rate
// changes starts over.
func Rates(h *History) []Violation {
	type bucket struct {
		first Event
		given int
		debt  float64 // tokens missing from a full bucket
		at    time.Time
	}
	all := map[string]bucket{}
	var out []Violation
	for _, e := range h.Events() {
		if !is(Commit, Drawn)(e) || e.Max == 0 {
			continue
		}
		b, known := all[e.Group]
		if !known || b.first.Rate != e.Rate || b.first.Burst != e.Burst {
			b = bucket{first: e, at: e.SchedAt}
		}
		b.debt = max(0, b.debt-e.Rate*e.SchedAt.Sub(b.at).Seconds()) + float64(e.Max)
		b.given, b.at = b.given+e.Max, e.SchedAt
		if all[e.Group] = b; b.debt > float64(e.Burst)+0.01 {
			out = append(out, violation("rates", []Event{b.first, e}, "the bucket %s gave %d within %v, at %g a second and %d at once", e.Group, b.given, e.SchedAt.Sub(b.first.SchedAt), e.Rate, e.Burst))
		}
	}
	return out
}
