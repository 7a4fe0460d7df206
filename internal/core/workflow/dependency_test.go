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
	for want, d := range map[string]Dependencies{
		"condition: done is not valid; want one of success, failure, always": {Parents: []job.ID{a}, Condition: "done"},
		"depends_on: no jobs is not valid; want at least one job":            {},
		"each job only once":            {Parents: []job.ID{a, a}},
		c.String() + " → " + c.String(): {Parents: []job.ID{c}},
	} {
		if v := d.Check(c, of); len(v) != 1 || !strings.Contains(v.Error(), want) {
			t.Errorf("got %v; want %s", v, want)
		}
	}
	d := Dependencies{Parents: []job.ID{b}, Condition: OnEnd}
	want := a.String() + " → " + b.String() + " → " + a.String()
	if v := d.Check(a, of); len(v) != 1 || v[0].Field != "depends_on" || v[0].Value != job.Show(want) {
		t.Errorf("got %v; want %s", v, want)
	}
	d = Dependencies{Parents: []job.ID{a, b}}
	if v := d.Check(c, of); v != nil {
		t.Errorf("got %v", v)
	}

	tokens := Tokens{}
	first, second, third := job.ExecutionID{1}, job.ExecutionID{2}, job.ExecutionID{3}
	if fires, _ := d.Put(tokens, c, first); fires || len(tokens) != 0 {
		t.Error("a job that is no parent left a token")
	}
	d.Put(tokens, a, first)
	if fires, _ := d.Put(tokens, a, second); fires {
		t.Error("two tokens of one parent are one")
	}
	if missing := d.Missing(tokens); len(missing) != 1 || missing[0] != b {
		t.Errorf("missing are %v", missing)
	}
	if fires, by := d.Put(tokens, b, third); !fires || by[a] != second || by[b] != third || len(tokens) != 0 {
		t.Errorf("fires: %t, by %v; left are %v", fires, by, tokens)
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
