package workflow

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// MaxParents limits how many jobs one depends on, and MaxDependants how many depend on one: the commit that ends an execution of it
// leaves a mark for each.
const (
	MaxParents    = 100
	MaxDependants = 1000
)

// WantNoCircle is what is wanted where jobs would have each other run for ever.
const WantNoCircle = "jobs that do not depend on each other, or run each other as nodes, in a cycle"

// Circle finds a way from a job to itself, as the labels of the jobs on it, each before the one that it has run; nil: there is none.
func Circle(of job.ID, above func(job.ID) []job.ID, label func(job.ID) string) []string {
	ids := map[string]job.ID{of.String(): of}
	circle := Cycle(of.String(), func(name string) (out []string) {
		for _, id := range above(ids[name]) {
			ids[id.String()] = id
			out = append(out, id.String())
		}
		return out
	})
	slices.Reverse(circle)
	for i, id := range circle {
		circle[i] = label(ids[id])
	}
	return circle
}

// Dependencies are the edges from existing jobs to one: it fires when each of its parents has left a token.
type Dependencies struct {
	Parents   []job.ID
	Condition Condition
}

// DependenciesOf are those of a job.
func DependenciesOf(d *job.Definition) Dependencies {
	return Dependencies{Parents: d.DependsOn, Condition: Condition(d.DependsIf)}
}

// Condition says which ends of a parent's execution leave a token.
type Condition string

// The conditions. A SKIPPED execution never ran and leaves none.
const (
	OnSuccess Condition = "success"
	OnFailed  Condition = "failure" // FAILED, TIMED_OUT, EXPIRED or CANCELLED
	OnEnd     Condition = "always"  // either
)

// Check says what is wrong with the dependencies of a job. above lists what may have any other job run: what it depends on, and the
// workflows whose node it is. label is what people know a job by.
func (d Dependencies) Check(child job.ID, above func(job.ID) []job.ID, label func(job.ID) string) job.Invalids {
	var v job.Invalids
	switch d.Condition {
	case "", OnSuccess, OnFailed, OnEnd:
	default:
		v.Add("condition", d.Condition, "one of success, failure, always")
	}
	if len(d.Parents) == 0 {
		v.Add("depends_on", "no jobs", "at least one job; DELETE removes the dependencies")
	}
	if n := len(d.Parents); n > MaxParents {
		v.Add("depends_on", fmt.Sprintf("%d jobs", n), fmt.Sprintf("at most %d", MaxParents))
		return v
	}
	for i, p := range d.Parents {
		if slices.Contains(d.Parents[:i], p) {
			v.Add(fmt.Sprintf("depends_on[%d]", i), label(p), "each job only once")
		}
	}
	circle := Circle(child, func(id job.ID) []job.ID {
		if id == child {
			return d.Parents
		}
		return above(id)
	}, label)
	if circle != nil {
		v.Add("depends_on", strings.Join(circle, " → "), WantNoCircle)
	}
	return v
}

// Leaves reports whether an execution with this end leaves a token.
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

// Token says that an execution of a parent has ended as the condition asks.
type Token struct {
	Execution job.ExecutionID
	At        time.Time // when it ended
}

// Tokens are what the parents of a job have left: of each the newest.
type Tokens map[job.ID]Token

// End is the end of an execution of a parent.
type End struct {
	Parent job.ID
	Status job.Status
	Token
}

// Fold takes in what has ended, in order. Each time that every parent has a token, they are consumed and the child fires: Fold returns
// by what. It fires at most so many times (negative: any number); tokens that it may not fire by stay, and of each parent only the newest.
func (d Dependencies) Fold(t Tokens, ends []End, most int) (fires []Tokens) {
	take := func() {
		if most == 0 || len(d.Parents) == 0 || len(d.Missing(t)) > 0 {
			return
		}
		fires = append(fires, maps.Clone(t))
		clear(t)
		most--
	}
	take()
	for _, e := range ends {
		if slices.Contains(d.Parents, e.Parent) && d.Condition.Leaves(e.Status) {
			t[e.Parent] = e.Token
			take()
		}
	}
	return fires
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
