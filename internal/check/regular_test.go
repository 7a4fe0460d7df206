package check

import (
	"testing"
	"time"
)

// Each of these histories breaks one promise, and is sound without the last event that is marked.
func TestBadHistoriesOfSchedules(t *testing.T) {
	const s = time.Second
	quiet := Event{At: 10 * s, Kind: Fault, Op: Quiet}
	fired := func(at time.Duration, execution string, version int) Event {
		return Event{At: at, Kind: Commit, Op: Added, Job: "a", Execution: execution, SchedAt: noon.Add(at), Version: version, Result: "PENDING"}
	}
	pause := func(k Kind, at time.Duration, tag string, until time.Time) Event {
		return Event{At: at, Kind: k, Op: JobPaused, Job: "a", Tag: tag, SchedAt: until}
	}
	leased := func(at time.Duration) Event {
		return Event{At: at, Kind: Commit, Op: Leased, Job: "a", Execution: "x", Token: 1}
	}
	drawn := func(at time.Duration, n int) Event {
		return Event{At: at, Kind: Commit, Op: Drawn, Group: "b", Max: n, Rate: 2, Burst: 3, SchedAt: noon.Add(at)}
	}
	for name, c := range map[string]struct {
		check  func(*History) []Violation
		sound  []Event
		broken Event
	}{
		"a lease in a pause": {
			func(h *History) []Violation { return JobPauses(h, noon) },
			[]Event{fired(1*s, "x", 0), pause(Invoke, 2*s, Pause, time.Time{}), leased(2 * s), pause(OK, 3*s, Pause, time.Time{})}, leased(4 * s),
		},
		"a lease before a pause ends by itself": {
			func(h *History) []Violation { return JobPauses(h, noon) },
			[]Event{fired(1*s, "x", 0), pause(Invoke, 2*s, Pause, noon.Add(9*s)), pause(OK, 3*s, Pause, noon.Add(9*s)), leased(10 * s)}, leased(8 * s),
		},
		"a fire as before a change": {
			Changes,
			[]Event{fired(1*s, "x", 0), {At: 2 * s, Kind: OK, Op: Change, Job: "a", Version: 2}, fired(3*s, "y", 2), fired(4*s, "z", 3)}, fired(5*s, "v", 1),
		},
		"a late fire": {
			func(h *History) []Violation { return Punctuality(h, noon, 5*s, 3*s) },
			[]Event{quiet, {At: 19 * s, Kind: Commit, Op: Added, Job: "a", Execution: "x", SchedAt: noon.Add(16 * s)}, {At: 30 * s, Kind: Commit, Op: Added, Job: "a", Execution: "y", SchedAt: noon.Add(12 * s)}},
			Event{At: 30 * s, Kind: Commit, Op: Added, Job: "a", Execution: "z", SchedAt: noon.Add(26 * s)},
		},
		"what is parked is lost": {
			Kept,
			[]Event{leased(1 * s), {At: 2 * s, Kind: Commit, Op: Parked, Execution: "x", Token: 1}, {At: 2 * s, Kind: Commit, Op: Ended, Execution: "y", Token: 1, Result: "lost"}},
			Event{At: 3 * s, Kind: Commit, Op: Ended, Execution: "x", Token: 1, Result: "lost"},
		},
		"a loss without a fault": {
			func(h *History) []Violation { return Losses(h, 5*s) },
			[]Event{quiet, {At: 14 * s, Kind: Commit, Op: Ended, Execution: "x", Token: 1, Result: "lost"}, {At: 20 * s, Kind: Commit, Op: Ended, Execution: "x", Token: 2, Result: "finished"}},
			Event{At: 20 * s, Kind: Commit, Op: Ended, Execution: "x", Token: 3, Result: "lost"},
		},
		"a bucket that gives too much": {
			Rates,
			[]Event{drawn(1*s, 3), drawn(2*s, 2), drawn(3*s, 2)}, drawn(3*s, 1),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if vs := c.check(NewHistory(c.sound...)); len(vs) > 0 {
				t.Errorf("sound, and yet: %v", vs)
			}
			if vs := c.check(NewHistory(append(c.sound, c.broken)...)); len(vs) != 1 {
				t.Errorf("broken, and found: %v", vs)
			}
		})
	}
}

// What was taken back before it began is not lost, and fires again.
func TestWhatWasWithdrawn(t *testing.T) {
	es := append(good(), Event{At: 24, Kind: Commit, Op: Added, Job: "a", Execution: "w", SchedAt: noon, Unique: "u", Result: "PENDING"})
	for _, c := range []Check{Uniqueness, func(h *History) []Violation { return Liveness(h, 20) }} {
		if vs := c(NewHistory(es...)); len(vs) == 0 {
			t.Error("it was not noticed that something fired twice, or is gone")
		}
	}
	for _, v := range All(NewHistory(append(es, Event{At: 25, Kind: Commit, Op: Withdrawn, Job: "a", Execution: "w"})...), 20) {
		t.Error(v)
	}
}
