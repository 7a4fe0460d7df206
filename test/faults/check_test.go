//go:build unix

package faults

import (
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

// sound is a history in which an execution was lost once and then succeeded.
func sound() history {
	return history{
		creations: []*creation{{key: "k", unknown: 1, job: "j"}},
		jobs:      []string{"j"},
		ended:     []ended{{"e", "j", "SUCCEEDED", []client.ExecutionAttempt{{AttemptNumber: 1, FencingToken: 4, Status: "LOST"}, {AttemptNumber: 2, FencingToken: 7, Status: "SUCCEEDED"}}}},
		arrivals:  []harness.Arrival{{Execution: "e", Attempt: 1, Token: 4, Key: "x"}, {Execution: "e", Attempt: 2, Token: 7, Key: "x"}},
	}
}

// The checker is itself checked: each of these is wrong, and it says so.
func TestCheckerTurnsRed(t *testing.T) {
	if wrong := check(sound()); len(wrong) != 0 {
		t.Fatalf("a sound history: %v", wrong)
	}
	for say, spoil := range map[string]func(*history){
		"I1: job j was accepted":              func(h *history) { h.jobs = nil },
		"I1: job j2 is there, and no request": func(h *history) { h.jobs = append(h.jobs, "j2") },
		"I1: job j is there 2 times":          func(h *history) { h.jobs = append(h.jobs, "j") },
		"I1: nobody knows":                    func(h *history) { h.creations[0].job = "" },
		"I2: job j has no execution":          func(h *history) { h.ended, h.arrivals = nil, nil },
		"I2: it never arrived":                func(h *history) { h.arrivals = nil },
		"I2: the target saw execution f":      func(h *history) { h.arrivals = append(h.arrivals, harness.Arrival{Execution: "f"}) },
		"I3: job j was fired 2 times":         func(h *history) { h.ended = append(h.ended, ended{id: "f", job: "j", status: "SUCCEEDED"}) },
		"I3: execution e is there twice":      func(h *history) { h.ended = append(h.ended, h.ended[0]) },
		"I4: token 3 won although 7":          func(h *history) { h.arrivals = []harness.Arrival{{Execution: "e", Token: 3, Key: "x"}} },
		"I4: it succeeded, and every attempt": func(h *history) { h.arrivals = h.arrivals[:1] },
		"I5: token 4 arrived after 7":         func(h *history) { h.arrivals[0], h.arrivals[1] = h.arrivals[1], h.arrivals[0] },
		"I5: the attempt under token 4 came":  func(h *history) { h.ended[0].past = append(h.ended[0].past, h.ended[0].past[0]) },
		"I7: token 7 arrived twice":           func(h *history) { h.arrivals = append(h.arrivals, h.arrivals[1]) },
		"I7: 2 arrivals have no recorded":     func(h *history) { h.ended[0].past = nil },
		"I7: the keys differ":                 func(h *history) { h.arrivals[1].Key = "y" },
		"I12: execution e is RUNNING":         func(h *history) { h.ended[0].status = "RUNNING" },
	} {
		h := sound()
		spoil(&h)
		if wrong := strings.Join(check(h), "\n"); !strings.Contains(wrong, say) {
			t.Errorf("want %q, got:\n%s", say, wrong)
		}
	}
}
