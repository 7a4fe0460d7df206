package job

import (
	"testing"

	"pgregory.net/rapid"
)

func TestStatusNames(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Statuses() {
		if seen[s.String()] || s.Final() != (s >= Succeeded) {
			t.Errorf("%v stands twice, or is final by mistake", s)
		}
		seen[s.String()] = true
	}
	if len(seen) != 11 {
		t.Errorf("%d states, want the contract's 11", len(seen))
	}
	if got := Status(99).String(); got != "Status(99)" {
		t.Errorf("got %q", got)
	}
}

// The table is closed: every state it leads to is a state, final ones lead
// nowhere, and every other one can still end.
func TestTableIsClosed(t *testing.T) {
	known := map[Status]bool{}
	for _, s := range Statuses() {
		known[s] = true
	}
	for _, s := range Statuses() {
		for _, m := range Moves() {
			next, ok := Apply(s, m, 0)
			switch {
			case ok && s.Final():
				t.Errorf("%v is final, yet %v leads to %v", s, m, next)
			case ok && !known[next]:
				t.Errorf("%v by %v leads to %v, which is no state", s, m, next)
			case !ok && next != 0:
				t.Errorf("%v by %v is refused, yet leads to %v", s, m, next)
			}
		}
	}
	for _, s := range Statuses() {
		if !s.Final() && !reachesFinal(s, map[Status]bool{}) {
			t.Errorf("%v never ends", s)
		}
	}
}

func reachesFinal(s Status, seen map[Status]bool) bool {
	if s.Final() {
		return true
	}
	if seen[s] {
		return false
	}
	seen[s] = true
	for _, m := range Moves() {
		if next, ok := Apply(s, m, 0); ok && reachesFinal(next, seen) {
			return true
		}
	}
	return false
}

// No path of moves leaves the table, leaves a final state, or reaches one that is not its own.
func TestNoPathLeavesTheTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, tries := Pending, 0
		for range rapid.IntRange(1, 60).Draw(t, "moves") {
			m := rapid.SampledFrom(Moves()).Draw(t, "move")
			if m == Again {
				tries++
			}
			next, ok := Apply(s, m, tries)
			if !ok {
				if next != 0 {
					t.Fatalf("%v by %v: refused, yet %v", s, m, next)
				}
				continue
			}
			if s.Final() {
				t.Fatalf("%v is final and became %v", s, next)
			}
			if next == Pending && tries > 0 || next == Retrying && tries == 0 {
				t.Fatalf("%v by %v with %d tries became %v", s, m, tries, next)
			}
			s = next
		}
	})
}
