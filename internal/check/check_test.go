package check

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

// good is a history in which all is well: a job that fails once, is lost once and succeeds; one that is cancelled while
// it waits; one deleted; one refused; and one of which nobody knows.
func good() []Event {
	const x, y, z = "x1", "x2", "x3"
	return []Event{
		{At: 1, Proc: "c1", Kind: Invoke, Op: Create, Job: "a", Tag: "a", SchedAt: noon},
		{At: 2, Proc: "store", Kind: Commit, Op: Added, Job: "a", Execution: x, SchedAt: noon, Result: "PENDING"},
		{At: 3, Proc: "c1", Kind: OK, Op: Create, Job: "a", Tag: "a", SchedAt: noon},
		{At: 4, Proc: "w1", Kind: Commit, Op: Leased, Job: "a", Execution: x, Token: 1, Attempt: 1},
		{At: 4, Proc: "store", Kind: Commit, Op: Became, Job: "a", Execution: x, Result: "RUNNING"},
		{At: 5, Proc: "w1", Kind: Arrive, Op: Execute, Job: "a", Execution: x, Token: 1},
		{At: 6, Proc: "w1", Kind: Reply, Op: Execute, Job: "a", Execution: x, Token: 1, Result: "FAILED"},
		{At: 7, Proc: "w1", Kind: Commit, Op: Finished, Job: "a", Execution: x, Token: 1, Result: "FAILED"},
		{At: 7, Proc: "store", Kind: Commit, Op: Ended, Job: "a", Execution: x, Token: 1, Result: "again"},
		{At: 7, Proc: "store", Kind: Commit, Op: Became, Job: "a", Execution: x, Result: "RETRYING"},
		{At: 8, Proc: "w2", Kind: Commit, Op: Leased, Job: "a", Execution: x, Token: 2, Attempt: 2},
		{At: 8, Proc: "store", Kind: Commit, Op: Became, Job: "a", Execution: x, Result: "RUNNING"},
		{At: 8, Proc: "w1", Kind: Commit, Op: Finished, Job: "a", Execution: x, Token: 1, Result: "FAILED"}, // the same again
		{At: 9, Proc: "w2", Kind: Arrive, Op: Execute, Job: "a", Execution: x, Token: 2},
		{At: 10, Proc: "store", Kind: Commit, Op: Ended, Job: "a", Execution: x, Token: 2, Result: "lost"},
		{At: 10, Proc: "store", Kind: Commit, Op: Became, Job: "a", Execution: x, Result: "RETRYING"},
		{At: 11, Proc: "w1", Kind: Commit, Op: Leased, Job: "a", Execution: x, Token: 5, Attempt: 3},
		{At: 11, Proc: "store", Kind: Commit, Op: Became, Job: "a", Execution: x, Result: "RUNNING"},
		{At: 11, Proc: "w1", Kind: Arrive, Op: Execute, Job: "a", Execution: x, Token: 5},
		{At: 12, Proc: "w2", Kind: Commit, Op: Refused, Job: "a", Execution: x, Token: 2, Result: "SUCCEEDED"},
		{At: 13, Proc: "w1", Kind: Commit, Op: Finished, Job: "a", Execution: x, Token: 5, Result: "SUCCEEDED"},
		{At: 13, Proc: "store", Kind: Commit, Op: Ended, Job: "a", Execution: x, Token: 5, Result: "done"},
		{At: 13, Proc: "store", Kind: Commit, Op: Became, Job: "a", Execution: x, Result: "SUCCEEDED"},

		{At: 14, Proc: "c1", Kind: Invoke, Op: Trigger, Job: "a", Tag: "t1"},
		{At: 15, Proc: "store", Kind: Commit, Op: Added, Job: "a", Execution: y, Tag: "t1", SchedAt: noon, Result: "PENDING"},
		{At: 15, Proc: "c1", Kind: OK, Op: Trigger, Job: "a", Execution: y, Tag: "t1"},
		{At: 16, Proc: "c1", Kind: Invoke, Op: Cancel, Job: "a", Execution: y},
		{At: 17, Proc: "store", Kind: Commit, Op: Became, Job: "a", Execution: y, Result: "CANCELLED"},
		{At: 18, Proc: "c1", Kind: OK, Op: Cancel, Job: "a", Execution: y, Result: "CANCELLED"},
		{At: 18, Proc: "c1", Kind: Invoke, Op: Cancel, Job: "a", Execution: x},
		{At: 18, Proc: "c1", Kind: Fail, Op: Cancel, Job: "a", Execution: x, Result: "SUCCEEDED"},

		{At: 19, Proc: "c2", Kind: Invoke, Op: Create, Job: "b", Tag: "b"},
		{At: 19, Proc: "store", Kind: Commit, Op: Added, Job: "b", Execution: z, SchedAt: noon, Result: "PENDING"},
		{At: 19, Proc: "c2", Kind: Unknown, Op: Create, Job: "b", Tag: "b"},
		{At: 20, Proc: "c2", Kind: Invoke, Op: Delete, Job: "b"},
		{At: 20, Proc: "store", Kind: Commit, Op: Became, Job: "b", Execution: z, Result: "CANCELLED"},
		{At: 21, Proc: "c2", Kind: OK, Op: Delete, Job: "b"},
		{At: 22, Proc: "c2", Kind: Invoke, Op: Create, Job: "c", Tag: "c"},
		{At: 22, Proc: "c2", Kind: Fail, Op: Create, Job: "c", Tag: "c"},
		{At: 23, Proc: "c2", Kind: Invoke, Op: Create, Job: "d", Tag: "d"},
		{At: 23, Proc: "c2", Kind: Unknown, Op: Create, Job: "d", Tag: "d"},

		{At: 10, Proc: "nemesis", Kind: Fault, Op: Quiet},
		{At: 30, Proc: "reader", Kind: Final, Op: Job, Job: "a", Tag: "a", Result: "COMPLETED"},
		{At: 30, Proc: "reader", Kind: Final, Op: Execution, Job: "a", Execution: x, SchedAt: noon, Result: "SUCCEEDED"},
		{At: 30, Proc: "reader", Kind: Final, Op: Execution, Job: "a", Execution: y, SchedAt: noon, Tag: "t1", Result: "CANCELLED"},
		{At: 30, Proc: "reader", Kind: Final, Op: Job, Job: "b", Tag: "b", Result: "DELETED"},
		{At: 30, Proc: "reader", Kind: Final, Op: Execution, Job: "b", Execution: z, SchedAt: noon, Result: "CANCELLED"},
	}
}

func TestGoodHistory(t *testing.T) {
	for _, v := range All(NewHistory(good()...), 20) {
		t.Error(v)
	}
}

// without drops the events that f wants dropped.
func without(f func(Event) bool) func([]Event) []Event {
	return func(es []Event) []Event { return slices.DeleteFunc(es, f) }
}

// insert puts events before the first of the final ones.
func insert(more ...Event) func([]Event) []Event {
	return func(es []Event) []Event {
		at := slices.IndexFunc(es, func(e Event) bool { return e.Kind == Fault })
		return slices.Insert(es, at, more...)
	}
}

// change changes the events that f wants changed.
func change(f func(*Event)) func([]Event) []Event {
	return func(es []Event) []Event {
		for i := range es {
			f(&es[i])
		}
		return es
	}
}

// Every mutation of the good history breaks one promise, and the check of that promise says so.
func TestBadHistories(t *testing.T) {
	for name, c := range map[string]struct {
		check string
		what  string
		spoil func([]Event) []Event
	}{
		"an acknowledged job is lost": {"durability", "job/a was acknowledged and is lost", without(func(e Event) bool {
			return e.Kind == Final && e.Op == Job && e.Job == "a"
		})},
		"an acknowledged trigger is lost": {"durability", "execution/t1 was acknowledged and is lost", without(func(e Event) bool {
			return e.Kind == Final && e.Tag == "t1"
		})},
		"a refused job is there":           {"durability", "job/c was refused and is there", insert(Event{Kind: Final, Op: Job, Job: "c", Tag: "c", Result: "ACTIVE"})},
		"a job is there twice":             {"durability", "job/a is there 2 times", insert(Event{Kind: Final, Op: Job, Job: "a", Tag: "a", Result: "ACTIVE"})},
		"a job that nobody asked for":      {"durability", "nobody asked for it", insert(Event{Kind: Final, Op: Job, Job: "q", Tag: "q", Result: "ACTIVE"})},
		"a cancel is answered, and not so": {"answers", "ended as FAILED", change(func(e *Event) { swap(e, "x2", "CANCELLED", "FAILED") })},
		"a cancel is refused, and done": {"answers", "was refused, and it ended as CANCELLED", insert(
			Event{Kind: Fail, Op: Cancel, Execution: "x2"})},
		"an accepted success is undone": {"answers", "a success of /x1 was accepted", change(func(e *Event) {
			if e.Execution == "x1" && e.Kind == Final {
				e.Result = "FAILED"
			}
		})},
		"a deleted job is active": {"answers", "was deleted, and is ACTIVE", change(func(e *Event) {
			if e.Result == "DELETED" {
				e.Result = "ACTIVE"
			}
		})},
		"an instant fires twice": {"uniqueness", "fired 2 times", insert(
			Event{Kind: Commit, Op: Added, Job: "a", Execution: "x9", SchedAt: noon, Result: "PENDING"})},
		"a job never fires": {"completeness", "fired 0 times", without(func(e Event) bool { return e.Execution == "x1" })},
		"a job fires for another instant": {"completeness", "another instant", change(func(e *Event) {
			if e.Execution == "x1" && e.Kind == Final {
				e.SchedAt = noon.Add(time.Minute)
			}
		})},
		"a deleted job runs": {"deletion", "ran after it", insert(
			Event{Kind: Commit, Op: Leased, Job: "b", Execution: "x3", Token: 9})},
		"too many of a group run": {"concurrency", "2 of the group /g run at once, and x2 may run with 1", insert(
			Event{Kind: Commit, Op: Leased, Execution: "x1", Token: 7, Group: "g", Max: 2}, Event{Kind: Commit, Op: Leased, Execution: "x2", Token: 7, Group: "g", Max: 1})},
		"a unique key is had twice": {"keys", "which x7 has", insert(
			Event{Kind: Commit, Op: Added, Execution: "x7", Unique: "u", Result: "PENDING"}, Event{Kind: Commit, Op: Added, Execution: "x8", Unique: "u", Result: "PENDING"})},
		"what has started expires": {"expiry", "although it had started", insert(
			Event{Kind: Commit, Op: Leased, Execution: "x7", Token: 8}, Event{Kind: Commit, Op: Ended, Execution: "x7", Token: 8, Result: "lost"},
			Event{Kind: Commit, Op: Became, Execution: "x7", Result: "EXPIRED"})},
		"two hold one execution": {"exclusion", "while w1 held it", without(func(e Event) bool { return e.Op == Ended && e.Token == 1 })},
		"a token is issued twice": {"fencing", "under token 1 after token 1", change(func(e *Event) {
			if e.Token == 2 {
				e.Token = 1
			}
		})},
		"a stale outcome is accepted": {"fencing", "accepted under token 2", change(func(e *Event) {
			if e.Op == Refused {
				e.Op = Finished
			}
		})},
		"an outcome under a token of the future": {"fencing", "accepted under token 7", change(func(e *Event) {
			if e.Token == 5 && e.Op == Finished {
				e.Token = 7
			}
		})},
		"an arrival under no lease":       {"arrivals", "never issued", insert(Event{Kind: Arrive, Op: Execute, Execution: "x1", Token: 4})},
		"two arrivals under one lease":    {"arrivals", "arrived twice", insert(Event{Kind: Arrive, Op: Execute, Execution: "x1", Token: 5})},
		"an arrival that nothing excuses": {"arrivals", "without a recorded reason", without(func(e Event) bool { return e.Op == Ended && e.Token == 2 })},
		"an illegal move": {"moves", "from RETRYING to SUCCEEDED", without(func(e Event) bool {
			return e.Op == Became && e.Result == "RUNNING" && e.At == 11
		})},
		"a state that does not exist": {"moves", "does not exist", insert(Event{Kind: Commit, Op: Became, Execution: "x2", Result: "LIMBO"})},
		"a move before the beginning": {"moves", "before it was added", without(func(e Event) bool { return e.Op == Added && e.Execution == "x2" })},
		"added twice":                 {"moves", "added twice", insert(Event{Kind: Commit, Op: Added, Execution: "x2", Result: "PENDING"})},
		"two ends":                    {"terminal", "ended 2 times", insert(Event{Kind: Commit, Op: Became, Execution: "x1", Result: "FAILED"})},
		"another end than the one recorded": {"terminal", "ended as CANCELLED and is FAILED", change(func(e *Event) {
			if e.Execution == "x3" && e.Kind == Final {
				e.Result = "FAILED"
			}
		})},
		"an execution never ends": {"liveness", "it is RUNNING", change(func(e *Event) { swap(e, "x1", "SUCCEEDED", "RUNNING") })},
		"an execution is gone":    {"liveness", "/x3 is gone", without(func(e Event) bool { return e.Kind == Final && e.Execution == "x3" })},
		"an execution ends late": {"liveness", "after the last fault", change(func(e *Event) {
			if e.Execution == "x1" && e.At == 13 {
				e.At = 31
			}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			found := All(NewHistory(c.spoil(good())...), 20)
			for _, v := range found {
				if v.Check == c.check && strings.Contains(v.What, c.what) {
					if len(v.Slice) == 0 && c.check != "completeness" {
						t.Error("it comes without events")
					}
					return
				}
			}
			t.Errorf("want a violation of %s with %q, got %v", c.check, c.what, found)
		})
	}
}

// swap changes how an execution ends, in all events but the answers to clients.
func swap(e *Event, execution, from, to string) {
	if e.Execution == execution && e.Result == from && e.Kind != OK {
		e.Result = to
	}
}

func TestLimit(t *testing.T) {
	i := func(key string, start, end int) Interval {
		return Interval{Key: key, Start: time.Duration(start), End: time.Duration(end)}
	}
	for name, c := range map[string]struct {
		all   []Interval
		limit int
		bad   int
	}{
		"none":                       {nil, 1, 0},
		"one after the other":        {[]Interval{i("k", 5, 9), i("k", 0, 5)}, 1, 0},
		"overlap":                    {[]Interval{i("k", 0, 5), i("k", 4, 9)}, 1, 1},
		"as many as allowed":         {[]Interval{i("k", 0, 5), i("k", 4, 9), i("k", 5, 6)}, 2, 0},
		"one too many":               {[]Interval{i("k", 0, 5), i("k", 4, 9), i("k", 4, 6)}, 2, 1},
		"different keys":             {[]Interval{i("k", 0, 5), i("l", 0, 5)}, 1, 0},
		"two keys are crowded":       {[]Interval{i("k", 0, 5), i("k", 0, 5), i("l", 0, 5), i("l", 1, 2)}, 1, 2},
		"a long one over short ones": {[]Interval{i("k", 0, 100), i("k", 1, 2), i("k", 3, 4)}, 2, 0},
		"empty":                      {[]Interval{i("k", 3, 3), i("k", 0, 5)}, 1, 0},
	} {
		if got := Limit(c.all, c.limit); len(got) != c.bad {
			t.Errorf("%s: got %v, want %d violations", name, got, c.bad)
		}
	}
	all := Leases(NewHistory(good()...), func(e Event) string { return e.Job })
	if len(all) != 3 || all[0].Start != 4 || all[0].End != 7 || all[2].End != 13 {
		t.Errorf("leases: got %v", all)
	}
	if got := Limit(all, 1); len(got) != 0 {
		t.Errorf("the leases of one execution overlap: %v", got)
	}
}

func TestLimitsThatHold(t *testing.T) {
	leased := func(x string, token int64, max int) Event {
		return Event{Kind: Commit, Op: Leased, Execution: x, Token: token, Queue: "q", Group: "g", Max: max}
	}
	ended := func(x string, token int64, how string) Event {
		return Event{Kind: Commit, Op: Ended, Execution: x, Token: token, Result: how}
	}
	added := func(x string) Event {
		return Event{Kind: Commit, Op: Added, Execution: x, Unique: "u", Result: "PENDING"}
	}
	limited := func(queue string, max int) Event {
		return Event{Kind: Invoke, Op: Limited, Queue: queue, Max: max}
	}
	answered := func(queue string) Event { return Event{Kind: OK, Op: Limited, Queue: queue} }
	for name, c := range map[string]struct {
		check Check
		all   []Event
		bad   int
	}{
		"one after the other":            {Concurrency, []Event{leased("x", 1, 1), ended("x", 1, "lost"), leased("y", 2, 1)}, 0},
		"another lease has ended":        {Concurrency, []Event{leased("x", 2, 1), ended("x", 1, "lost"), leased("y", 3, 1)}, 1},
		"each by its own number":         {Concurrency, []Event{leased("x", 1, 1), leased("y", 1, 2), leased("z", 1, 0)}, 0},
		"a key that is free again":       {Keys, []Event{added("x"), {Kind: Commit, Op: Became, Execution: "x", Result: "FAILED"}, added("y")}, 0},
		"a key while it is tried again":  {Keys, []Event{added("x"), {Kind: Commit, Op: Became, Execution: "x", Result: "RETRYING"}, added("y")}, 1},
		"handed back, then expired":      {Expiry, []Event{leased("x", 1, 0), ended("x", 1, "released"), {Kind: Commit, Op: Became, Execution: "x", Result: "EXPIRED"}}, 0},
		"expired under its lease":        {Expiry, []Event{leased("x", 1, 0), {Kind: Commit, Op: Became, Execution: "x", Result: "EXPIRED"}}, 1},
		"as many as a tenant may":        {Quotas, []Event{limited("", 2), answered(""), leased("x", 1, 0), leased("y", 1, 0), ended("y", 1, "finished"), leased("z", 2, 0)}, 0},
		"more than a tenant may":         {Quotas, []Event{limited("", 1), answered(""), leased("x", 1, 0), leased("y", 1, 0)}, 1},
		"more than a queue may":          {Quotas, []Event{limited("q", 1), answered("q"), leased("x", 1, 0), leased("y", 1, 0)}, 1},
		"a limit that was greater":       {Quotas, []Event{limited("q", 2), limited("q", 1), answered("q"), leased("x", 1, 0), leased("y", 1, 0)}, 0},
		"what ran before there was one":  {Quotas, []Event{leased("x", 1, 0), limited("", 1), answered(""), leased("y", 1, 0)}, 0},
		"a limit that was removed again": {Quotas, []Event{limited("", 1), limited("", 0), answered(""), leased("x", 1, 0), leased("y", 1, 0)}, 0},
		"a limit that nobody heard of":   {Quotas, []Event{limited("", 1), leased("x", 1, 0), leased("y", 1, 0)}, 0},
	} {
		if got := c.check(NewHistory(c.all...)); len(got) != c.bad {
			t.Errorf("%s: got %v, want %d violations", name, got, c.bad)
		}
	}
}

func TestReadWrite(t *testing.T) {
	h := NewHistory(good()...)
	h.Add(Event{Kind: Fault, Op: "kill", Proc: "w1"})
	var b bytes.Buffer
	if err := h.Write(&b); err != nil {
		t.Fatal(err)
	}
	again, err := Read(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(h.Events(), again.Events()) {
		t.Errorf("got %v, want %v", again.Events(), h.Events())
	}
	for _, bad := range []string{"{", `{"proc": 1}`, `{"colour": "red"}`} {
		if _, err := Read(strings.NewReader("{}\n" + bad)); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: got %v, want an error that names line 2", bad, err)
		}
	}
}

func TestPausesHold(t *testing.T) {
	begun := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	pause := func(kind Kind, at, until time.Duration) Event {
		e := Event{At: at, Proc: "c", Kind: kind, Op: Paused, Tenant: "t", Queue: "slow"}
		if until > 0 {
			e.SchedAt = begun.Add(until)
		}
		return e
	}
	lease := func(at time.Duration, queue string) Event {
		return Event{At: at, Proc: "w", Kind: Commit, Op: Leased, Tenant: "t", Queue: queue, Execution: "x", Token: 1}
	}
	on := []Event{pause(Invoke, time.Second, time.Minute), pause(OK, 2*time.Second, time.Minute)}
	for name, c := range map[string]struct {
		more []Event
		want int
	}{
		"while it lasts":         {[]Event{lease(20*time.Second, "slow")}, 1},
		"before it is learned":   {[]Event{lease(5*time.Second, "slow")}, 0},
		"of another queue":       {[]Event{lease(20*time.Second, "fast")}, 0},
		"after it has ended":     {[]Event{lease(2*time.Minute, "slow")}, 0},
		"while it may be ended":  {[]Event{pause(Invoke, 10*time.Second, 0), lease(20*time.Second, "slow")}, 0},
		"after it was not ended": {[]Event{pause(Invoke, 10*time.Second, 0), pause(Unknown, 11*time.Second, 0), lease(20*time.Second, "slow")}, 0},
	} {
		if got := Pauses(NewHistory(append(slices.Clone(on), c.more...)...), begun, 8*time.Second); len(got) != c.want {
			t.Errorf("leased %s: %v, want %d", name, got, c.want)
		}
	}
}

func TestWhatIsLeasedIsHeardOf(t *testing.T) {
	lease := Event{At: time.Second, Proc: "w", Kind: Commit, Op: Leased, Execution: "x", Token: 1}
	at := func(kind Kind, op Op, after time.Duration) Event {
		return Event{At: lease.At + after, Kind: kind, Op: op, Execution: "x", Token: 1}
	}
	for name, c := range map[string]struct {
		then Event
		want int
	}{
		"soon":         {at(Arrive, Execute, time.Second), 0},
		"taken back":   {at(Commit, Ended, 40*time.Second), 0},
		"late":         {at(Arrive, Execute, time.Minute), 1},
		"ended late":   {at(Commit, Ended, time.Minute), 1},
		"another's":    {Event{At: time.Hour, Kind: Arrive, Op: Execute, Execution: "y", Token: 1}, 1},
		"under a next": {Event{At: time.Hour, Kind: Arrive, Op: Execute, Execution: "x", Token: 2}, 1},
	} {
		if got := Heard(NewHistory(lease, c.then), 48*time.Second); len(got) != c.want {
			t.Errorf("%s: %v, want %d", name, got, c.want)
		}
	}
}
