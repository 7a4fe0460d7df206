package check

import (
	"cmp"
	"slices"
	"time"
)

// Interval is the time for which something is held: from Start until just before End.
type Interval struct {
	Key        string
	Start, End time.Duration
	By         Event // what holds it
}

// Limit checks that at most limit intervals with one key overlap at any instant.
func Limit(all []Interval, limit int) []Violation {
	byKey := map[string][]Interval{}
	for _, i := range all {
		if i.End > i.Start { // an empty interval is held at no instant
			byKey[i.Key] = append(byKey[i.Key], i)
		}
	}
	var out []Violation
	keys := make([]string, 0, len(byKey))
	for k := range byKey {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		if slice := crowd(byKey[k], limit); slice != nil {
			out = append(out, violation("limit", slice, "%d hold %s at once, and the limit is %d", len(slice), k, limit))
		}
	}
	return out
}

// crowd returns the holders at the first instant at which there are more than limit.
func crowd(all []Interval, limit int) []Event {
	slices.SortStableFunc(all, func(a, b Interval) int { return cmp.Compare(a.Start, b.Start) })
	var open []Interval
	for _, i := range all {
		open = slices.DeleteFunc(open, func(o Interval) bool { return o.End <= i.Start })
		open = append(open, i)
		if len(open) > limit {
			var slice []Event
			for _, o := range open {
				slice = append(slice, o.By)
			}
			return slice
		}
	}
	return nil
}

// Leases returns the times for which executions were held, by the key that f returns for the lease; "" leaves one
// out. Unfinished leases are held until the last event.
func Leases(h *History, f func(Event) string) []Interval {
	events := h.Events()
	var out []Interval
	type lease struct {
		execution string
		token     int64
	}
	open := map[lease]int{}
	for _, e := range events {
		l := lease{e.Tenant + "/" + e.Execution, e.Token}
		switch {
		case is(Commit, Leased)(e):
			if key := f(e); key != "" {
				open[l] = len(out)
				out = append(out, Interval{Key: key, Start: e.At, End: events[len(events)-1].At, By: e})
			}
		case is(Commit, Ended)(e):
			if i, ok := open[l]; ok {
				out[i].End = e.At
				delete(open, l)
			}
		}
	}
	return out
}
