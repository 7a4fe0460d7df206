package check

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// seen builds a history of calls, one after the other unless said otherwise.
type seen struct {
	at    time.Duration
	calls int
	out   []Event
}

func (s *seen) tick() time.Duration { s.at += time.Second; return s.at }

// call is a request with its answer; Unknown as the kind is one without.
func (s *seen) call(k Kind, op Op, proc string, token int64, outcome, answer string) *seen {
	s.calls++
	e := Event{Proc: proc, Call: s.calls, Op: op, Execution: "x", Token: token}
	begin, end := e, e
	begin.Kind, begin.At, begin.Result = Invoke, s.tick(), outcome
	if op == Claim {
		begin.Execution, begin.Token = "", 0
	}
	end.Kind, end.At, end.Result = k, s.tick(), answer
	s.out = append(s.out, begin, end)
	return s
}

func (s *seen) claim(proc string, token int64) *seen { return s.call(OK, Claim, proc, token, "", "") }

func (s *seen) complete(proc string, token int64, outcome, answer string) *seen {
	return s.call(OK, Complete, proc, token, outcome, answer)
}

// record adds the final state of the product to the history.
func (s *seen) record(op Op, token int64, result string) *seen {
	s.out = append(s.out, Event{At: s.tick(), Kind: Final, Op: op, Execution: "x", Token: token, Result: result})
	return s
}

// ends is the last look.
func (s *seen) ends(status string) []Event {
	return append(s.out, Event{At: s.tick(), Kind: Final, Op: Execution, Execution: "x", Result: status})
}

func TestLinearHistories(t *testing.T) {
	for name, es := range map[string][]Event{
		"it succeeds": new(seen).claim("a", 1).call(OK, Beat, "a", 1, "", "kept").complete("a", 1, "SUCCEEDED", "accepted").ends("SUCCEEDED"),
		"the same result again": new(seen).claim("a", 1).complete("a", 1, "FAILED", "accepted").claim("b", 2).complete("a", 1, "FAILED", "accepted").
			complete("b", 2, "SUCCEEDED", "accepted").complete("b", 2, "SUCCEEDED", "accepted").ends("SUCCEEDED"),
		"a worker dies, and is refused when it comes back": new(seen).claim("a", 1).record(Ended, 1, "LOST").claim("b", 2).complete("a", 1, "SUCCEEDED", "refused").
			call(OK, Beat, "a", 1, "", "lost").complete("b", 2, "SUCCEEDED", "accepted").ends("SUCCEEDED"),
		"a result without an answer was taken": new(seen).claim("a", 1).call(Unknown, Complete, "a", 1, "SUCCEEDED", "").record(Ended, 1, "SUCCEEDED").ends("SUCCEEDED"),
		"a result without an answer was not":   new(seen).claim("a", 1).call(Unknown, Complete, "a", 1, "SUCCEEDED", "").record(Ended, 1, "LOST").claim("b", 2).complete("b", 2, "FAILED", "accepted").ends("FAILED"),
		"a claim without an answer":            new(seen).record(Leased, 1, "").record(Ended, 1, "RELEASED").claim("b", 3).complete("b", 3, "SUCCEEDED", "accepted").ends("SUCCEEDED"),
		"a worker inside the server":           append([]Event{{At: 1, Kind: Arrive, Op: Execute, Execution: "x", Token: 1}}, new(seen).record(Leased, 1, "").record(Ended, 1, "SUCCEEDED").ends("SUCCEEDED")...),
		"cancelled while it waits":             new(seen).call(OK, Cancel, "u", 0, "", "CANCELLED").call(Fail, Cancel, "u", 0, "", "").ends("CANCELLED"),
		"cancelled while it runs":              new(seen).claim("a", 1).call(OK, Cancel, "u", 0, "", "CANCELLING").call(OK, Look, "u", 0, "", "CANCELLING").complete("a", 1, "CANCELLED", "accepted").ends("CANCELLED"),
		"it was quicker than the cancel":       new(seen).claim("a", 1).call(OK, Cancel, "u", 0, "", "CANCELLING").complete("a", 1, "SUCCEEDED", "accepted").ends("SUCCEEDED"),
		"it is handed back, and taken by others": new(seen).claim("a", 1).call(OK, Release, "a", 1, "", "").call(OK, Look, "u", 0, "", "PENDING").claim("b", 2).call(OK, Look, "u", 0, "", "RUNNING").
			complete("b", 2, "SUCCEEDED", "accepted").ends("SUCCEEDED"),
		"it fails for good": new(seen).claim("a", 1).complete("a", 1, "FAILED", "accepted").ends("FAILED"),
	} {
		for _, v := range Linear(NewHistory(es...)) {
			t.Errorf("%s: %s", name, v)
		}
	}
}

// Each of these breaks the promise, and the report says where.
func TestHistoriesThatAreNotLinear(t *testing.T) {
	lost := func() *seen { return new(seen).claim("a", 1).record(Ended, 1, "LOST").claim("b", 2) }
	for name, c := range map[string]struct {
		es   []Event
		says []string
	}{
		"a stale result is taken": {lost().complete("a", 1, "SUCCEEDED", "accepted").ends("SUCCEEDED"),
			[]string{"then it is held under token 2 by b", "none of these can follow", "a complete token=1 SUCCEEDED -> accepted"}},
		"a stale failure is taken": {lost().complete("a", 1, "FAILED", "accepted").complete("b", 2, "SUCCEEDED", "accepted").ends("SUCCEEDED"), []string{"a complete token=1 FAILED -> accepted"}},
		"a stale result is taken before the next lease": {new(seen).claim("a", 1).record(Ended, 1, "LOST").call(OK, Look, "u", 0, "", "PENDING").complete("a", 1, "SUCCEEDED", "accepted").ends("SUCCEEDED"),
			[]string{"a complete token=1 SUCCEEDED -> accepted"}},
		"it is completed twice": {new(seen).claim("a", 1).complete("a", 1, "SUCCEEDED", "accepted").claim("b", 2).complete("b", 2, "SUCCEEDED", "accepted").ends("SUCCEEDED"),
			[]string{"then it is over: SUCCEEDED", "b claim token=2"}},
		"one lease has two results":            {new(seen).claim("a", 1).complete("a", 1, "FAILED", "accepted").complete("a", 1, "SUCCEEDED", "accepted").ends("SUCCEEDED"), []string{"SUCCEEDED -> accepted"}},
		"a token is used again":                {new(seen).claim("a", 2).complete("a", 2, "FAILED", "accepted").claim("b", 2).complete("b", 2, "SUCCEEDED", "accepted").ends("SUCCEEDED"), []string{"b claim token=2"}},
		"a token is smaller":                   {new(seen).claim("a", 2).complete("a", 2, "FAILED", "accepted").claim("b", 1).complete("b", 1, "SUCCEEDED", "accepted").ends("SUCCEEDED"), []string{"b claim token=1"}},
		"two hold it":                          {new(seen).claim("a", 1).claim("b", 2).complete("b", 2, "SUCCEEDED", "accepted").ends("SUCCEEDED"), []string{"then it is held under token 1 by a", "b claim token=2"}},
		"another than the holder completes it": {new(seen).claim("a", 1).complete("b", 1, "SUCCEEDED", "accepted").ends("SUCCEEDED"), []string{"b complete token=1"}},
		"a result in time is refused":          {new(seen).claim("a", 1).complete("a", 1, "SUCCEEDED", "refused").ends("RUNNING"), []string{"a complete token=1 SUCCEEDED -> refused"}},
		"a result is taken and forgotten":      {new(seen).claim("a", 1).complete("a", 1, "SUCCEEDED", "accepted").ends("PENDING"), []string{"look -> PENDING"}},
		"what was seen as over goes on":        {new(seen).claim("a", 1).complete("a", 1, "FAILED", "accepted").call(OK, Look, "u", 0, "", "FAILED").claim("b", 2).ends("RUNNING"), []string{"b claim token=2"}},
		"a lease is lost that lives":           {lost().call(OK, Beat, "a", 1, "", "kept").ends("RUNNING"), []string{"a beat token=1 -> kept"}},
		"a lease that lives is called lost":    {new(seen).claim("a", 1).call(OK, Beat, "a", 1, "", "lost").complete("a", 1, "SUCCEEDED", "accepted").ends("SUCCEEDED"), []string{"a beat token=1 -> lost"}},
		"a cancel is answered, and not so":     {new(seen).call(OK, Cancel, "u", 0, "", "CANCELLED").claim("a", 1).ends("RUNNING"), []string{"a claim token=1"}},
		"what was asked to stop is tried again": {new(seen).claim("a", 1).call(OK, Cancel, "u", 0, "", "CANCELLING").complete("a", 1, "FAILED", "accepted").claim("b", 2).ends("RUNNING"),
			[]string{"b claim token=2"}},
		"it ended, and nobody knows how": {new(seen).ends("SUCCEEDED"), []string{"look -> SUCCEEDED"}},
	} {
		vs := Linear(NewHistory(c.es...))
		if len(vs) != 1 {
			t.Errorf("%s: %d violations, want one", name, len(vs))
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(vs[0].String(), s) {
				t.Errorf("%s: the report does not say %q:\n%s", name, s, vs[0])
			}
		}
	}
}

// Many executions, with long histories and calls that nobody answered, are judged in little time.
func TestLinearIsQuick(t *testing.T) {
	var all []Event
	for i := range 1000 {
		s := new(seen)
		for token := int64(1); token < 6; token++ {
			s.claim("a", token).call(OK, Beat, "a", token, "", "kept")
			for range 20 { // a worker sends it repeatedly
				s.call(Unknown, Complete, "a", token, "SUCCEEDED", "")
			}
			s.record(Ended, token, "LOST")
		}
		s.calls += 1000 * i
		for _, e := range s.claim("b", 9).complete("b", 9, "SUCCEEDED", "accepted").ends("SUCCEEDED") {
			e.Call += 1000 * i
			if e.Execution != "" {
				e.Execution = fmt.Sprint("x", i)
			}
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b Event) int { return int(a.At - b.At) })
	began := time.Now()
	if vs := Linear(NewHistory(all...)); len(vs) > 0 {
		t.Fatal(vs[0])
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	} else {
		t.Logf("%v", took)
	}
}
