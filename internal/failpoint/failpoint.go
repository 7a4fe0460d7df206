// Package failpoint defines the places at which a test may kill, stop, slow
// or fail a process.
//
// A place is one line, err := failpoint.Hit("claim.beforeCommit"). In an
// ordinary build Hit is empty and is inlined to nothing. Built with -tags
// failpoint, it does what CARILLON_FAILPOINTS says:
//
//	CARILLON_FAILPOINTS="api.afterCommitBeforeReply=kill@3;worker.beforeHeartbeat=stop(9s)@2-4"
//
// Without an @ an action happens at every hit, with @n at the n-th hit only, with @n-m at the hits from n to m. The
// actions are kill (SIGKILL to this process), stop(d) (SIGSTOP, and SIGCONT from outside after d), sleep(d), error,
// and commitThenError, which lets the commit happen and fails the hit after it.
//
// The code around the place handles an injected error like any other.
package failpoint

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrInjected is the error of an injected failure.
var ErrInjected = errors.New("injected by a failpoint")

// Variable is the environment variable that sets the actions.
const Variable = "CARILLON_FAILPOINTS"

// Points names every place, in the order of a job's life.
var Points = []string{
	"migrate.midStep",
	"api.beforeTx", "api.beforeCommit", "api.afterCommitBeforeReply",
	"sched.afterInsertBeforeCommit", "sched.afterCommitBeforeNotify",
	"claim.beforeCommit", "claim.afterCommitBeforeReply",
	"worker.afterClaim", "worker.beforeEffect", "worker.duringEffect", "worker.afterEffectBeforeComplete", "worker.afterCompleteBeforeAck", "worker.beforeHeartbeat",
	"workflow.beforeBegin", "workflow.afterBeginBeforeHint", "workflow.beforeCommit", "workflow.afterCommitBeforeHint", "workflow.midExpand",
	"reap.afterSelectBeforeUpdate",
	"shutdown.midDrain",
}

// commits maps each place before a commit to the place after it.
var commits = map[string]string{
	"api.beforeCommit":              "api.afterCommitBeforeReply",
	"sched.afterInsertBeforeCommit": "sched.afterCommitBeforeNotify",
	"claim.beforeCommit":            "claim.afterCommitBeforeReply",
	"workflow.beforeBegin":          "workflow.afterBeginBeforeHint",
	"workflow.beforeCommit":         "workflow.afterCommitBeforeHint",
}

// BeforeCommit reports whether a point is one before a commit, at which commitThenError is possible.
func BeforeCommit(point string) bool { return commits[point] != "" }

// The actions.
const (
	kill            = "kill"
	stop            = "stop"
	sleep           = "sleep"
	fail            = "error"
	commitThenError = "commitThenError"
)

// rule is the action at a place.
type rule struct {
	action      string
	length      time.Duration // of stop and sleep
	first, last int           // the hits at which it happens
}

// parse reads a specification.
func parse(spec string) (map[string]rule, error) {
	rules := map[string]rule{}
	for part := range strings.SplitSeq(spec, ";") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		name, what, ok := strings.Cut(part, "=")
		if !ok {
			return nil, fmt.Errorf("%q: want POINT=ACTION, such as claim.beforeCommit=kill@3", part)
		}
		if !slices.Contains(Points, name) {
			return nil, fmt.Errorf("%q: there is no point %q; want one of %s", part, name, strings.Join(Points, ", "))
		}
		if _, twice := rules[name]; twice {
			return nil, fmt.Errorf("%q: the point %q stands there already; want each once", part, name)
		}
		r, err := parseRule(what)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", part, err)
		}
		if _, ok := commits[name]; r.action == commitThenError && !ok {
			return nil, fmt.Errorf("%q: %s goes with a point before a commit only: %s", part, commitThenError, strings.Join(slices.Sorted(maps.Keys(commits)), ", "))
		}
		rules[name] = r
	}
	return rules, nil
}

const forever = int(^uint(0) >> 1)

func parseRule(what string) (rule, error) {
	r := rule{first: 1, last: forever}
	action, at, limited := strings.Cut(what, "@")
	if limited {
		from, to, span := strings.Cut(at, "-")
		var err, err2 error
		r.first, err = strconv.Atoi(from)
		if r.last = r.first; span {
			r.last, err2 = strconv.Atoi(to)
		}
		if err != nil || err2 != nil || r.first < 1 || r.last < r.first {
			return r, fmt.Errorf("@%s is not a number of hits; want @3 or @2-5", at)
		}
	}
	name, rest, timed := strings.Cut(action, "(")
	r.action = name
	switch {
	case timed && (name == stop || name == sleep):
		text, closed := strings.CutSuffix(rest, ")")
		d, err := time.ParseDuration(text)
		if err != nil || !closed || d <= 0 {
			return r, fmt.Errorf("%q is not a time; want %s(2s), %s(150ms) or the like", "("+rest, name, name)
		}
		r.length = d
		return r, nil
	case !timed && (name == kill || name == fail || name == commitThenError):
		return r, nil
	}
	return r, fmt.Errorf("%q is no action; want kill, stop(DURATION), sleep(DURATION), error or commitThenError", action)
}
