package workflow

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// Dependencies are the edges from existing jobs to one: it fires when each of its parents has left a token.
type Dependencies struct {
	Parents   []job.ID
	Condition Condition
}

// Condition says which ends of a parent's execution leave a token.
type Condition string

// The conditions. A SKIPPED execution never ran and leaves none.
const (
	OnSuccess Condition = "success"
	OnFailed  Condition = "failure" // FAILED, TIMED_OUT, EXPIRED or CANCELLED
	OnEnd     Condition = "always"  // either
)

// Check says what is wrong with the dependencies of a job. parentsOf lists those of any other job.
func (d Dependencies) Check(child job.ID, parentsOf func(job.ID) []job.ID) job.Invalids {
	var v job.Invalids
	switch d.Condition {
	case "", OnSuccess, OnFailed, OnEnd:
	default:
		v.Add("condition", d.Condition, "one of success, failure, always")
	}
	if len(d.Parents) == 0 {
		v.Add("depends_on", "no jobs", "at least one job; DELETE removes the dependencies")
	}
	ids := map[string]job.ID{child.String(): child}
	for i, p := range d.Parents {
		field := fmt.Sprintf("depends_on[%d]", i)
		if slices.Contains(d.Parents[:i], p) {
			v.Add(field, p, "each job only once")
		}
		ids[p.String()] = p
	}
	cycle := Cycle(child.String(), func(name string) (out []string) {
		parents := d.Parents
		if id := ids[name]; id != child {
			parents = parentsOf(id)
		}
		for _, p := range parents {
			ids[p.String()] = p
			out = append(out, p.String())
		}
		return out
	})
	if cycle != nil {
		slices.Reverse(cycle) // from parents to children
		v.Add("depends_on", strings.Join(cycle, " → "), "jobs that do not depend on each other in a cycle")
	}
	return v
}

// Leaves reports whether an execution that ended so leaves a token.
func (c Condition) Leaves(s job.Status) bool {
	failed := s == job.Failed || s == job.TimedOut || s == job.Expired || s == job.Cancelled
	switch c {
	case OnFailed:
		return failed
	case OnEnd:
		return failed || s == job.Succeeded
	case OnSuccess:
	}
	return s == job.Succeeded
}

// Tokens are what the parents of a job have left: of each the latest execution.
type Tokens map[job.ID]job.ExecutionID

// Put adds a token. When every parent has one, they are consumed: fires is true, and what is returned is what the child
// fires by. Otherwise the tokens wait.
func (d Dependencies) Put(t Tokens, parent job.ID, e job.ExecutionID) (fires bool, by Tokens) {
	if !slices.Contains(d.Parents, parent) {
		return false, nil
	}
	t[parent] = e
	if len(d.Missing(t)) > 0 {
		return false, nil
	}
	by = maps.Clone(t)
	clear(t)
	return true, by
}

// Missing lists the parents that have left no token.
func (d Dependencies) Missing(t Tokens) (out []job.ID) {
	for _, p := range d.Parents {
		if _, ok := t[p]; !ok {
			out = append(out, p)
		}
	}
	return out
}
