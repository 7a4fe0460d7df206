package check

// Durability checks that acknowledged requests took effect once, and that refused ones did not; those with an unknown
// outcome may have done either.
func Durability(h *History) []Violation {
	const name = "durability"
	var out []Violation
	tags := group(h.Events(), func(e Event) string {
		switch {
		case e.Tag == "":
			return ""
		case e.Op == Create, e.Kind == Final && e.Op == Job:
			return e.Tenant + "/job/" + e.Tag
		case e.Op == Trigger, e.Kind == Final && e.Op == Execution:
			return e.Tenant + "/execution/" + e.Tag
		}
		return ""
	})
	for _, n := range tags.names {
		es := tags.of[n]
		there := len(pick(es, func(e Event) bool { return e.Kind == Final }))
		count := func(k Kind) int { return len(pick(es, func(e Event) bool { return e.Kind == k })) }
		switch {
		case count(OK) > 0 && there == 0:
			out = append(out, violation(name, es, "%s was acknowledged and is lost", n))
		case count(Fail) > 0 && count(OK)+count(Unknown) == 0 && there > 0:
			out = append(out, violation(name, es, "%s was refused and is there", n))
		case count(Invoke) == 0:
			out = append(out, violation(name, es, "%s is there, and nobody asked for it", n))
		case there > 1:
			out = append(out, violation(name, es, "%s is there %d times", n, there))
		}
	}
	return out
}

// Answers checks that what clients and workers were told about an end matches how it ended.
func Answers(h *History) []Violation {
	const name = "answers"
	var out []Violation
	all := byExecution(h)
	for _, n := range all.names {
		es := all.of[n]
		finals := pick(es, is(Final, Execution))
		if len(finals) == 0 {
			continue
		}
		last := finals[len(finals)-1]
		for _, e := range es {
			slice := []Event{e, last}
			switch {
			case e.Kind == OK && e.Op == Cancel && final(e.Result) && e.Result != last.Result:
				out = append(out, violation(name, slice, "a cancel of %s was answered with %s, and it ended as %s", n, e.Result, last.Result))
			case e.Kind == Fail && e.Op == Cancel && last.Result == "CANCELLED":
				out = append(out, violation(name, slice, "a cancel of %s was refused, and it ended as CANCELLED", n))
			case e.Kind == Commit && e.Op == Finished && e.Result == "SUCCEEDED" && last.Result != "SUCCEEDED":
				out = append(out, violation(name, slice, "a success of %s was accepted, and it ended as %s", n, last.Result))
			}
		}
	}
	jobs := byJob(h)
	for _, n := range jobs.names {
		es := jobs.of[n]
		deleted, finals := pick(es, is(OK, Delete)), pick(es, is(Final, Job))
		if len(deleted) > 0 && len(finals) > 0 && finals[0].Result != "DELETED" {
			out = append(out, violation(name, []Event{deleted[0], finals[0]}, "the job %s was deleted, and is %s", n, finals[0].Result))
		}
	}
	return out
}

// Uniqueness checks that an instant of a job fires at most once.
func Uniqueness(h *History) []Violation {
	var out []Violation
	gone := withdrawn(h)
	fired := group(h.Events(), func(e Event) string {
		if e.Tag != "" || e.Redrive || e.Run != "" || e.SchedAt.IsZero() || gone[e.Tenant+"/"+e.Execution] || !is(Commit, Added)(e) && !is(Final, Execution)(e) {
			return ""
		}
		return e.Tenant + "/" + e.Job + " at " + e.SchedAt.UTC().Format("2006-01-02T15:04:05.000000Z")
	})
	for _, n := range fired.names {
		var slice []Event
		seen := map[string]bool{}
		for _, e := range fired.of[n] {
			if !seen[e.Execution] {
				seen[e.Execution] = true
				slice = append(slice, e)
			}
		}
		if len(slice) > 1 {
			out = append(out, violation("uniqueness", slice, "%s fired %d times", n, len(slice)))
		}
	}
	return out
}

// Completeness checks that an acknowledged job that nobody asked to delete has fired, at the requested instant.
func Completeness(h *History) []Violation {
	const name = "completeness"
	var out []Violation
	jobs := byJob(h)
	for _, n := range jobs.names {
		es := jobs.of[n]
		made := pick(es, is(OK, Create))
		if len(made) == 0 || made[0].Many || len(pick(es, is(Invoke, Delete))) > 0 {
			continue
		}
		fired := pick(es, func(e Event) bool { return is(Final, Execution)(e) && e.Tag == "" && !e.Redrive && e.Run == "" })
		switch {
		case len(fired) != 1:
			out = append(out, violation(name, append(made, fired...), "the job %s fired %d times, and is owed one", n, len(fired)))
		case !made[0].SchedAt.IsZero() && !made[0].SchedAt.Equal(fired[0].SchedAt):
			out = append(out, violation(name, append(made, fired...), "the job %s fired for another instant than it was asked to", n))
		}
	}
	return out
}

// Deletion checks that nothing of a job is leased after its delete was acknowledged.
func Deletion(h *History) []Violation {
	var out []Violation
	jobs := byJob(h)
	for _, n := range jobs.names {
		var deleted *Event
		for i, e := range jobs.of[n] {
			switch {
			case deleted == nil && is(OK, Delete)(e):
				deleted = &jobs.of[n][i]
			case deleted != nil && is(Commit, Leased)(e):
				out = append(out, violation("deletion", []Event{*deleted, e}, "the job %s was deleted, and ran after it", n))
			}
		}
	}
	return out
}

// withdrawn returns the executions that were taken back before they began.
func withdrawn(h *History) map[string]bool {
	out := map[string]bool{}
	for _, e := range h.Events() {
		if is(Commit, Withdrawn)(e) {
			out[e.Tenant+"/"+e.Execution] = true
		}
	}
	return out
}

// byJob groups events by their job.
func byJob(h *History) groups {
	return group(h.Events(), func(e Event) string {
		if e.Job == "" {
			return ""
		}
		return e.Tenant + "/" + e.Job
	})
}
