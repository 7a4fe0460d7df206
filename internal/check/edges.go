package check

import (
	"maps"
	"slices"
	"strings"
)

// Edges judges jobs that depend on others: each end of a parent that counts is taken in, and once only; and the job fires exactly as often
// as all of its parents have ended since it last fired. A paused job keeps what its parents have left.
func Edges(h *History) []Violation {
	j := &edgeJudge{children: map[string]*child{}, ends: map[string]Event{}}
	for _, e := range h.Events() {
		j.take(e)
	}
	for _, name := range slices.Sorted(maps.Keys(j.children)) {
		c := j.children[name]
		for _, x := range slices.Sorted(maps.Keys(c.pending)) {
			j.wrong([]Event{j.ends[x]}, "%s ended as %s depends on it, and that was never taken in", x, name)
		}
	}
	return j.out
}

// edgeJudge holds what jobs depend on, and what has ended.
type edgeJudge struct {
	children map[string]*child
	ends     map[string]Event // by execution
	out      []Violation
}

// child is a job that depends on others.
type child struct {
	parents   []string
	condition string
	pending   map[string]string // ends that count and were not taken in yet, with their jobs
	taken     map[string]bool
	now       []Event           // taken in by the present commit
	tokens    map[string]string // by parent
}

func (j *edgeJudge) wrong(slice []Event, format string, args ...any) {
	j.out = append(j.out, violation("edges", slice, format, args...))
}

func (j *edgeJudge) take(e Event) {
	if e.Kind != Commit {
		return
	}
	key, execution := e.Tenant+"/"+e.Job, e.Tenant+"/"+e.Execution
	c := j.children[key]
	switch {
	case e.Op == Depends:
		if c == nil {
			c = &child{pending: map[string]string{}, taken: map[string]bool{}, tokens: map[string]string{}}
			j.children[key] = c
		}
		c.depend(e)
	case e.Op == Became && final(e.Result):
		j.ends[execution] = e
		for _, c := range j.children {
			if slices.Contains(c.parents, key) && c.counts(e.Result) {
				c.pending[execution] = key
			}
		}
	case c == nil:
	case e.Op == Taken:
		if end, ok := j.ends[execution]; !ok {
			j.wrong([]Event{e}, "%s was taken in for %s before it ended", execution, key)
		} else if c.taken[execution] {
			j.wrong([]Event{end, e}, "%s was taken in for %s twice", execution, key)
		}
		c.taken[execution] = true
		delete(c.pending, execution)
		c.now = append(c.now, j.ends[execution])
	case e.Op == Folded:
		had := maps.Clone(c.tokens)
		if want := c.fires(e.Result != "PAUSED"); want != e.Max {
			j.wrong(append(c.now, e), "%s fired %d times, and should have %d times: before, it had %v of its parents %v", key, e.Max, want, had, c.parents)
		}
		c.now = nil
	}
}

// depend gives a job other parents. What those that stay have left is kept.
func (c *child) depend(e Event) {
	c.parents, c.condition = nil, e.Tag
	for p := range strings.FieldsFuncSeq(e.Parents, func(r rune) bool { return r == ',' }) {
		c.parents = append(c.parents, e.Tenant+"/"+p)
	}
	gone := func(p string) bool { return !slices.Contains(c.parents, p) }
	maps.DeleteFunc(c.tokens, func(p, _ string) bool { return gone(p) })
	maps.DeleteFunc(c.pending, func(_, p string) bool { return gone(p) })
}

// counts reports whether an execution of a parent with this end leaves a token.
func (c *child) counts(status string) bool {
	switch status {
	case "SUCCEEDED":
		return c.condition != "failure"
	case "FAILED", "TIMED_OUT", "EXPIRED", "CANCELLED":
		return c.condition != "success"
	}
	return false
}

// fires takes in what has ended, and counts how often the job fires by that, if it may.
func (c *child) fires(may bool) (n int) {
	if len(c.parents) == 0 {
		return 0
	}
	consume := func() {
		if may && len(c.tokens) == len(c.parents) {
			clear(c.tokens)
			n++
		}
	}
	consume()
	for _, e := range c.now {
		if p := e.Tenant + "/" + e.Job; slices.Contains(c.parents, p) && c.counts(e.Result) {
			c.tokens[p] = e.Execution
			consume()
		}
	}
	return n
}
