package secret

import (
	"slices"
	"strings"
)

// hidden returns the parts of a text that indexes find, in order and disjoint.
func hidden(s string, indexes ...*index) []hit {
	if len(s) < shortest || !slices.ContainsFunc(indexes, func(x *index) bool { return x != nil }) {
		return nil
	}
	var hits []hit
	for _, f := range views(s) {
		for _, x := range indexes {
			hits = append(hits, x.find(f)...)
		}
	}
	for _, x := range indexes {
		if x != nil {
			x.rest.find(s, func(start, end int) { hits = append(hits, hit{start, end}) })
		}
	}
	if len(hits) < 2 {
		return hits
	}
	slices.SortFunc(hits, func(a, b hit) int { return a.start - b.start })
	out := hits[:1]
	for _, h := range hits[1:] {
		if last := &out[len(out)-1]; h.start < last.end {
			last.end = max(last.end, h.end)
		} else {
			out = append(out, h)
		}
	}
	return out
}

// redact returns a text in which Hidden replaces what indexes find.
func redact(s string, indexes ...*index) string {
	hits := hidden(s, indexes...)
	if len(hits) == 0 {
		return s
	}
	return replace(s, 0, hits)
}

// replace replaces parts of a text with Hidden; the text begins at an offset of the one in which they were found.
func replace(s string, at int, hits []hit) string {
	var b strings.Builder
	done := 0
	for _, h := range hits {
		start, end := max(h.start-at, 0), min(h.end-at, len(s))
		if start >= len(s) {
			break
		}
		if start >= end {
			continue
		}
		b.WriteString(s[done:start])
		b.WriteString(Hidden)
		done = end
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// redactLines does the same with consecutive lines: values that span several lines are found, too.
func redactLines(all []string, indexes ...*index) {
	whole := strings.Join(all, "\n")
	hits := hidden(whole, indexes...)
	at := 0
	for i, line := range all {
		for len(hits) > 0 && hits[0].end <= at {
			hits = hits[1:]
		}
		if len(hits) == 0 {
			return
		}
		if hits[0].start < at+len(line) {
			all[i] = replace(line, at, hits)
		}
		at += len(line) + 1
	}
}

// clean removes from a text what an index finds.
func (x *index) clean(s string) string { return redact(s, x) }
