package workflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// Cycle finds a cycle reachable from a name, as its names in the order of the edges, the first one repeated at the
// end; nil: there is none. It serves nodes, workflows that use each other, and jobs that depend on each other.
func Cycle(from string, next func(name string) []string) []string {
	const open, done = 1, 2
	type frame struct {
		name string
		rest []string
	}
	state := map[string]int{from: open}
	stack := []frame{{from, next(from)}}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if len(top.rest) == 0 {
			state[top.name] = done
			stack = stack[:len(stack)-1]
			continue
		}
		to := top.rest[0]
		top.rest = top.rest[1:]
		switch state[to] {
		case open:
			var names []string
			for i := slices.IndexFunc(stack, func(f frame) bool { return f.name == to }); i < len(stack); i++ {
				names = append(names, stack[i].name)
			}
			return append(names, to)
		case done:
		default:
			state[to] = open
			stack = append(stack, frame{to, next(to)})
		}
	}
	return nil
}

// Nesting returns how deep a workflow uses others, itself counted; the error names a cycle. uses lists the workflows
// that one uses directly, and is asked at most twice for each.
func Nesting(name string, uses func(name string) []string) (int, error) {
	if cycle := Cycle(name, uses); cycle != nil {
		return 0, job.Invalid{Field: "nodes", Value: strings.Join(cycle, " → "), Want: "workflows that do not use themselves"}
	}
	depth := map[string]int{}
	var measure func(name string) int
	measure = func(name string) int {
		if d, ok := depth[name]; ok {
			return d
		}
		deepest := 0
		for _, used := range uses(name) {
			deepest = max(deepest, measure(used))
		}
		depth[name] = deepest + 1
		return deepest + 1
	}
	return measure(name), nil
}

// CheckNesting checks how deep workflows are nested.
func CheckNesting(deep int) error {
	if deep > MaxNesting {
		return job.Invalid{Field: "nodes", Value: fmt.Sprintf("workflows nested %d deep", deep), Want: fmt.Sprintf("at most %d", MaxNesting)}
	}
	return nil
}
