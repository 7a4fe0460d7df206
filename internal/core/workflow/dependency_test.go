package workflow

import (
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

func TestDependencies(t *testing.T) {
	a, b, c := job.ID{1}, job.ID{2}, job.ID{3}
	edges := map[job.ID][]job.ID{b: {a}}
	of := func(id job.ID) []job.ID { return edges[id] }
	name := func(id job.ID) string { return map[job.ID]string{a: "a", b: "b", c: "c"}[id] }
	for want, d := range map[string]Dependencies{
		"condition: done is not valid; want one of success, failure, always": {Parents: []job.ID{a}, Condition: "done"},
		"depends_on: no jobs is not valid; want at least one job":            {},
		"each job only once": {Parents: []job.ID{a, a}},
		"c → c":              {Parents: []job.ID{c}},
		"depends_on: 101 jobs is not valid; want at most 100": {Parents: make([]job.ID, MaxParents+1)},
	} {
		if v := d.Check(c, of, name); len(v) != 1 || !strings.Contains(v.Error(), want) {
			t.Errorf("got %v; want %s", v, want)
		}
	}
	d := Dependencies{Parents: []job.ID{b}, Condition: OnEnd}
	const want = "a → b → a"
	if v := d.Check(a, of, name); len(v) != 1 || v[0].Field != "depends_on" || v[0].Value != job.Show(want) {
		t.Errorf("got %v; want %s", v, want)
	}
	d = Dependencies{Parents: []job.ID{a, b}}
	if v := d.Check(c, of, name); v != nil {
		t.Errorf("got %v", v)
	}
}

func TestFold(t *testing.T) {
	a, b, c := job.ID{1}, job.ID{2}, job.ID{3}
	d := Dependencies{Parents: []job.ID{a, b}, Condition: OnSuccess}
	n := byte(0)
	end := func(parent job.ID, s job.Status) End {
		n++
		return End{Parent: parent, Status: s, Token: Token{Execution: job.ExecutionID{n}}}
	}
	tokens := Tokens{}
	if fires := d.Fold(tokens, []End{end(c, job.Succeeded), end(a, job.Failed), end(a, job.Skipped)}, -1); fires != nil || len(tokens) != 0 {
		t.Errorf("what leaves no token left %v, and it fires by %v", tokens, fires)
	}
	d.Fold(tokens, []End{end(a, job.Succeeded), end(a, job.Succeeded)}, -1)
	if missing := d.Missing(tokens); len(missing) != 1 || missing[0] != b || tokens[a].Execution != (job.ExecutionID{5}) {
		t.Errorf("missing are %v; the tokens are %v", missing, tokens)
	}
	fires := d.Fold(tokens, []End{end(b, job.Succeeded), end(b, job.Succeeded), end(a, job.Succeeded), end(a, job.Succeeded)}, -1)
	if len(fires) != 2 || fires[0][a].Execution != (job.ExecutionID{5}) || fires[0][b].Execution != (job.ExecutionID{6}) || fires[1][a].Execution != (job.ExecutionID{8}) {
		t.Errorf("it fires by %v", fires)
	}
	if len(tokens) != 1 || tokens[a].Execution != (job.ExecutionID{9}) {
		t.Errorf("left are %v", tokens)
	}
	if fires := d.Fold(tokens, []End{end(b, job.Succeeded), end(b, job.Succeeded)}, 0); fires != nil || tokens[b].Execution != (job.ExecutionID{11}) {
		t.Errorf("while it may not fire, it fires by %v; the tokens are %v", fires, tokens)
	}
	if fires := d.Fold(tokens, nil, 1); len(fires) != 1 || len(tokens) != 0 {
		t.Errorf("when it may fire again, it fires by %v; left are %v", fires, tokens)
	}
	if fires := (Dependencies{}).Fold(tokens, nil, -1); fires != nil {
		t.Errorf("a job without parents fires by %v", fires)
	}
}

func TestConditions(t *testing.T) {
	for _, s := range job.Statuses() {
		good := s == job.Succeeded
		bad := s == job.Failed || s == job.TimedOut || s == job.Expired || s == job.Cancelled
		for c, want := range map[Condition]bool{"": good, OnSuccess: good, OnFailed: bad, OnEnd: good || bad} {
			if c.Leaves(s) != want {
				t.Errorf("%q after %s: %t", c, s, !want)
			}
		}
	}
}

// A workflow runs a job as a node, and may not depend on it, directly or not.
func TestACircleThroughAWorkflow(t *testing.T) {
	a, b, w := job.ID{1}, job.ID{2}, job.ID{3}
	name := func(id job.ID) string { return map[job.ID]string{a: "a", b: "b", w: "w"}[id] }
	for want, x := range map[string]struct {
		child job.ID
		on    job.ID
		above map[job.ID][]job.ID
	}{
		"w → a → w":     {w, a, map[job.ID][]job.ID{a: {w}}},
		"w → a → b → w": {w, b, map[job.ID][]job.ID{a: {w}, b: {a}}},
		"b → a → w → b": {b, w, map[job.ID][]job.ID{w: {a}, a: {b}}},
		"":              {b, w, map[job.ID][]job.ID{a: {w}}},
	} {
		v := Dependencies{Parents: []job.ID{x.on}}.Check(x.child, func(id job.ID) []job.ID { return x.above[id] }, name)
		if (want == "") != (v == nil) || v != nil && v[0].Value != job.Show(want) {
			t.Errorf("got %v; want %q", v, want)
		}
	}
}
