//go:build unix

package faults

import (
	"sync"
	"time"

	judge "github.com/carillon-jobs/carillon/internal/check"
)

// trails keep what was recorded, by execution. Of one that was claimed once and then completed, as nearly all are, they keep only
// when: a long run has millions.
type trails struct {
	mu      sync.Mutex
	calls   map[int]judge.Event // guarded by mu: claims that are not answered
	of      map[string]*trail   // guarded by mu
	workers map[string]int      // guarded by mu: which worker a session is of
	events  int                 // guarded by mu
	refused int                 // guarded by mu: results that were not taken
	unknown int                 // guarded by mu: calls without an answer
	ended   int                 // guarded by mu: results that were taken
}

// trail holds what is known of one execution.
type trail struct {
	events []judge.Event
	holder string // the session that was given it last; "": it is over
	token  int64

	short bool // claimed once and completed: events are gone
	at    [4]time.Duration
}

func newTrails() *trails {
	return &trails{calls: map[int]judge.Event{}, of: map[string]*trail{}, workers: map[string]int{}}
}

// is notes which worker a session is of.
func (t *trails) is(session string, worker int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.workers[session] = worker
}

// add takes an event of the recorder.
func (t *trails) add(e judge.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events++
	if e.Kind == judge.Unknown {
		t.unknown++
	}
	if e.Op == judge.Claim {
		begin := t.calls[e.Call]
		switch {
		case e.Kind == judge.Invoke:
			t.calls[e.Call] = e
			return
		case e.Kind != judge.OK:
			delete(t.calls, e.Call)
			return
		}
		// Claims that came with nothing leave their question behind; there are few, and sweep takes them.
		begin.Execution, begin.Token = e.Execution, e.Token
		t.put(begin)
	}
	x := t.put(e)
	switch {
	case e.Op == judge.Claim && e.Token > x.token:
		x.holder, x.token = e.Proc, e.Token
	case e.Op == judge.Complete && e.Kind == judge.OK && e.Result == "refused":
		t.refused++
	case e.Op == judge.Complete && e.Kind == judge.OK:
		t.ended++
		if e.Token == x.token {
			x.holder = ""
		}
		x.shorten()
	case e.Op == judge.Release && e.Kind == judge.OK && e.Token == x.token:
		x.holder = ""
	}
}

// sweep forgets claims that were answered long ago, or never.
func (t *trails) sweep(before time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c, e := range t.calls {
		if e.At < before {
			delete(t.calls, c)
		}
	}
}

// put adds an event to the trail of its execution.
func (t *trails) put(e judge.Event) *trail {
	x := t.of[e.Execution]
	if x == nil {
		x = &trail{}
		t.of[e.Execution] = x
	}
	if x.short { // something else happened after all
		x.events, x.short = x.long(e.Execution), false
	}
	x.events = append(x.events, e)
	return x
}

// shorten drops the events of a trail that is a claim, beats and a success.
func (x *trail) shorten() {
	var at [4]time.Duration
	for _, e := range x.events {
		switch {
		case e.Op == judge.Beat && e.Result != "lost" && e.Token == x.token:
		case e.Token != x.token || e.Kind != judge.Invoke && e.Kind != judge.OK:
			return
		case e.Op == judge.Claim && e.Kind == judge.Invoke && at[0] == 0:
			at[0] = e.At
		case e.Op == judge.Claim && e.Kind == judge.OK && at[1] == 0:
			at[1] = e.At
		case e.Op == judge.Complete && e.Kind == judge.Invoke && e.Result == "SUCCEEDED" && at[2] == 0:
			at[2] = e.At
		case e.Op == judge.Complete && e.Kind == judge.OK && e.Result == "accepted" && at[3] == 0:
			at[3] = e.At
		default:
			return
		}
	}
	if at[0] == 0 || at[1] == 0 || at[2] < at[1] || at[3] == 0 {
		return
	}
	x.events, x.short, x.at = nil, true, at
}

// long returns what shorten dropped, except for the heartbeats.
func (x *trail) long(execution string) []judge.Event {
	e := judge.Event{Execution: execution, Token: x.token}
	out := make([]judge.Event, 4)
	for i, f := range []struct {
		kind   judge.Kind
		op     judge.Op
		result string
	}{{judge.Invoke, judge.Claim, ""}, {judge.OK, judge.Claim, ""}, {judge.Invoke, judge.Complete, "SUCCEEDED"}, {judge.OK, judge.Complete, "accepted"}} {
		e.At, e.Kind, e.Op, e.Result, e.Call = x.at[i], f.kind, f.op, f.result, -1
		out[i] = e
	}
	return out
}

// held are the executions that a worker holds, as far as it was told, with their tokens.
func (t *trails) held(worker int) map[string]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[string]int64{}
	for id, x := range t.of {
		if w, known := t.workers[x.holder]; known && x.holder != "" && w == worker {
			out[id] = x.token
		}
	}
	return out
}

// over reports whether a lease is known to have ended.
func (t *trails) over(id string, token int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.of[id]
	return x.token != token || x.holder == ""
}

// completed returns how many results were accepted so far.
func (t *trails) completed() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}
