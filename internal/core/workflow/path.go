package workflow

import (
	"slices"
	"time"
)

// Span is when a node started and ended; zero: it has not.
type Span struct{ Start, End time.Time }

// CriticalPath returns the nodes that determined how long the run took, earliest first: from the one that ended last,
// back each time to the parent that ended last before it. spans has one entry per node; nodes without an end are left
// out.
func CriticalPath(g *Graph, spans []Span) []int {
	all := make([]int32, len(g.nodes))
	for i := range all {
		all[i] = int32(i)
	}
	var path []int
	at := latest(spans, all)
	for at >= 0 {
		path = append(path, int(at))
		before := g.nodes[at].parents
		if g.nodes[at].finally && len(before) == 0 { // it waited for all others
			before = slices.DeleteFunc(slices.Clone(all), func(n int32) bool { return g.nodes[n].finally })
		}
		at = latest(spans, before)
	}
	slices.Reverse(path)
	return path
}

// latest returns which of the nodes ended last, the first of those that ended together; -1: none has.
func latest(spans []Span, nodes []int32) int32 {
	last := int32(-1)
	for _, n := range nodes {
		if end := spans[n].End; !end.IsZero() && (last < 0 || end.After(spans[last].End)) {
			last = n
		}
	}
	return last
}
