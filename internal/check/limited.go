package check

// Concurrency checks that a leased execution runs with no more of its group than its own job allows, as the store
// records it: a lease counts from the commit that creates it to the one that ends it.
func Concurrency(h *History) []Violation {
	live := map[string][]Event{}
	var out []Violation
	for _, e := range h.Events() {
		key := e.Tenant + "/" + e.Group
		switch {
		case is(Commit, Leased)(e) && e.Group != "":
			live[key] = append(live[key], e)
			if n := len(live[key]); e.Max > 0 && n > e.Max {
				out = append(out, violation("concurrency", live[key][:n:n], "%d of the group %s run at once, and %s may run with %d", n, key, e.Execution, e.Max))
			}
		case is(Commit, Ended)(e):
			ended(live, e)
		}
	}
	return out
}

// Quotas checks that the number of concurrent leases of a tenant, or of one of its queues, never exceeds the greatest
// limit requested so far; runs of workflows do not count, their nodes do. A lease from before a limit was
// acknowledged does not count against it. The check is valid if one server runs at a time.
func Quotas(h *History) []Violation {
	live, most, free, set := map[string][]Event{}, map[string]int{}, map[string]bool{}, map[string]bool{}
	scope := func(e Event) string { return e.Tenant + "/" + e.Queue }
	var out []Violation
	for _, e := range h.Events() {
		switch {
		case is(Invoke, Limited)(e):
			most[scope(e)] = max(most[scope(e)], e.Max)
			free[scope(e)] = free[scope(e)] || e.Max == 0
		case is(OK, Limited)(e):
			set[scope(e)] = true
		case is(Commit, Leased)(e) && !e.Parks:
			for _, key := range []string{e.Tenant + "/", scope(e)} {
				live[key] = append(live[key], e)
				n, limit := len(live[key]), most[key]
				free[key] = free[key] || !set[key]
				if !free[key] && n > limit {
					out = append(out, violation("quotas", live[key][:n:n], "%d of %s run at once, and the greatest limit so far is %d", n, key, limit))
				}
			}
		case is(Commit, Ended)(e):
			ended(live, e)
		}
	}
	return out
}

// ended removes the lease that an event ends from the live ones.
func ended(live map[string][]Event, e Event) {
	for key, all := range live {
		for i, l := range all {
			if l.Tenant == e.Tenant && l.Execution == e.Execution && l.Token == e.Token {
				live[key] = append(all[:i:i], all[i+1:]...)
				break
			}
		}
	}
}

// Keys checks that at most one execution with a unique key is unfinished at any time.
func Keys(h *History) []Violation {
	var out []Violation
	holder, key := map[string]Event{}, map[string]string{}
	for _, e := range h.Events() {
		name := e.Tenant + "/" + e.Execution
		switch {
		case is(Commit, Added)(e) && e.Unique != "":
			k := e.Tenant + "/" + e.Unique
			if was, ok := holder[k]; ok {
				out = append(out, violation("keys", []Event{was, e}, "%s was added with the unique key %s, which %s has", e.Execution, e.Unique, was.Execution))
			}
			holder[k], key[name] = e, k
		case (is(Commit, Withdrawn)(e) || is(Commit, Became)(e) && final(e.Result)) && holder[key[name]].Execution == e.Execution:
			delete(holder, key[name])
		}
	}
	return out
}

// handedBack lists the ends of leases after which an execution has not started.
var handedBack = map[string]bool{"released": true, "left": true, "disowned": true}

// Expiry checks that an EXPIRED execution never started: its leases were all handed back.
func Expiry(h *History) []Violation {
	var out []Violation
	all := byExecution(h)
	for _, n := range all.names {
		es := all.of[n]
		expired := pick(es, func(e Event) bool { return is(Commit, Became)(e) && e.Result == "EXPIRED" })
		if len(expired) == 0 {
			continue
		}
		leases := map[int64]bool{}
		for _, e := range pick(es, is(Commit, Leased)) {
			leases[e.Token] = true
		}
		for _, e := range pick(es, is(Commit, Ended)) {
			if handedBack[e.Result] {
				delete(leases, e.Token)
			}
		}
		if len(leases) > 0 {
			out = append(out, violation("expiry", es, "%s has expired although it had started", n))
		}
	}
	return out
}
