package check

import (
	"strings"
	"testing"
)

// Edges sees what is lost, doubled, or fired too often or not at all.
func TestEdges(t *testing.T) {
	depends := func(on ...string) Event {
		return Event{Kind: Commit, Op: Depends, Job: "child", Tag: "success", Parents: strings.Join(on, ",")}
	}
	end := func(x, status string) Event {
		parent, _, _ := strings.Cut(x, "/")
		return Event{Kind: Commit, Op: Became, Job: parent, Execution: x, Result: status}
	}
	taken := func(x string) Event { return Event{Kind: Commit, Op: Taken, Job: "child", Execution: x} }
	folded := func(state string, fires int) Event {
		return Event{Kind: Commit, Op: Folded, Job: "child", Result: state, Max: fires}
	}
	for name, x := range map[string]struct {
		events []Event
		want   string
	}{
		"once for each set":   {[]Event{depends("a", "b"), end("a/1", "SUCCEEDED"), end("a/2", "SUCCEEDED"), end("b/1", "SUCCEEDED"), taken("a/1"), taken("a/2"), taken("b/1"), folded("ACTIVE", 1)}, ""},
		"two sets at once":    {[]Event{depends("a", "b"), end("a/1", "SUCCEEDED"), end("b/1", "SUCCEEDED"), end("b/2", "SUCCEEDED"), end("a/2", "SUCCEEDED"), taken("a/1"), taken("b/1"), taken("b/2"), taken("a/2"), folded("ACTIVE", 2)}, ""},
		"what does not count": {[]Event{end("a/0", "SUCCEEDED"), depends("a"), end("a/1", "FAILED"), end("a/2", "SKIPPED")}, ""},
		"a pause":             {[]Event{depends("a"), end("a/1", "SUCCEEDED"), taken("a/1"), folded("PAUSED", 0), folded("ACTIVE", 1), folded("ACTIVE", 0)}, ""},
		"another parent":      {[]Event{depends("a", "b"), end("a/1", "SUCCEEDED"), end("b/1", "SUCCEEDED"), taken("a/1"), folded("ACTIVE", 0), depends("a", "c"), end("c/1", "SUCCEEDED"), taken("c/1"), folded("ACTIVE", 1)}, ""},
		"lost":                {[]Event{depends("a"), end("a/1", "SUCCEEDED")}, "never taken in"},
		"twice":               {[]Event{depends("a"), end("a/1", "SUCCEEDED"), taken("a/1"), folded("ACTIVE", 1), taken("a/1"), folded("ACTIVE", 1)}, "twice"},
		"too early":           {[]Event{depends("a"), taken("a/1"), folded("ACTIVE", 0)}, "before it ended"},
		"not consumed":        {[]Event{depends("a", "b"), end("a/1", "SUCCEEDED"), end("b/1", "SUCCEEDED"), taken("a/1"), taken("b/1"), folded("ACTIVE", 1), end("b/2", "SUCCEEDED"), taken("b/2"), folded("ACTIVE", 1)}, "fired 1 times, and should have 0 times"},
		"not fired":           {[]Event{depends("a"), end("a/1", "SUCCEEDED"), taken("a/1"), folded("ACTIVE", 0)}, "fired 0 times, and should have 1 times"},
	} {
		var got []string
		for _, v := range Edges(NewHistory(x.events...)) {
			got = append(got, v.What)
		}
		if all := strings.Join(got, "; "); x.want == "" && all != "" || !strings.Contains(all, x.want) {
			t.Errorf("%s: %q; want %q", name, all, x.want)
		}
	}
}
