package check

import "strconv"

// Exclusion checks that one lease of an execution ends before the next begins.
func Exclusion(h *History) []Violation {
	var out []Violation
	all := byExecution(h)
	for _, n := range all.names {
		var held *Event
		for i, e := range all.of[n] {
			switch {
			case is(Commit, Leased)(e):
				if held != nil {
					out = append(out, violation("exclusion", []Event{*held, e}, "%s was leased to %s while %s held it", n, e.Proc, held.Proc))
				}
				held = &all.of[n][i]
			case is(Commit, Ended)(e) && held != nil && e.Token == held.Token:
				held = nil
			}
		}
	}
	return out
}

// Fencing checks that the tokens of an execution grow, and that no outcome is accepted under a token after a greater
// one was issued, unless the same outcome was accepted under it before.
func Fencing(h *History) []Violation {
	const name = "fencing"
	var out []Violation
	all := byExecution(h)
	for _, n := range all.names {
		var newest Event
		accepted := map[string]bool{}
		for _, e := range all.of[n] {
			outcome := e.Result + " " + strconv.FormatInt(e.Token, 10)
			switch {
			case is(Commit, Leased)(e):
				if e.Token <= newest.Token {
					out = append(out, violation(name, []Event{newest, e}, "%s was leased under token %d after token %d", n, e.Token, newest.Token))
				}
				newest = e
			case is(Commit, Finished)(e):
				if e.Token != newest.Token && !accepted[outcome] {
					out = append(out, violation(name, []Event{newest, e}, "an outcome of %s was accepted under token %d, and the newest is %d", n, e.Token, newest.Token))
				}
				accepted[outcome] = true
			}
		}
	}
	return out
}

// Arrivals checks that an attempt reaches its target once, under its lease, and that another attempt does so only
// after a failure, a loss or a release of the one before was recorded.
func Arrivals(h *History) []Violation {
	const name = "arrivals"
	var out []Violation
	all := byExecution(h)
	for _, n := range all.names {
		leased, ended, arrived := map[int64]Event{}, map[int64]bool{}, map[int64]Event{}
		var open []Event // leases that have arrived but not ended
		for _, e := range all.of[n] {
			switch {
			case is(Commit, Leased)(e):
				leased[e.Token] = e
				for _, o := range open {
					if !ended[o.Token] {
						out = append(out, violation(name, []Event{o, e}, "%s is given to another worker without a recorded reason", n))
					}
				}
			case is(Commit, Ended)(e):
				ended[e.Token] = true
			case e.Kind == Arrive:
				if _, ok := leased[e.Token]; !ok {
					out = append(out, violation(name, []Event{e}, "%s arrived under token %d, which was never issued", n, e.Token))
				}
				if before, ok := arrived[e.Token]; ok {
					out = append(out, violation(name, []Event{leased[e.Token], before, e}, "%s arrived twice under token %d", n, e.Token))
				}
				arrived[e.Token] = e
				open = append(open, e)
			}
		}
	}
	return out
}
