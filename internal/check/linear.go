package check

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Linear: leases and completions of each execution are linearizable. Every call of a client or a worker took effect,
// or had none, at one instant between request and response, and all responses are those of the register below, for
// some order of these instants. A call without a response may take effect at any later time, or never.
//
// It judges executions one by one, since each is a register of its own: no call depends on two.
func Linear(h *History) []Violation {
	all := byExecution(withCalls(h))
	broken := make([]*Violation, len(all.names))
	var wg sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				broken[i] = linear(all.names[i], all.of[all.names[i]])
			}
		})
	}
	for i := range all.names {
		next <- i
	}
	close(next)
	wg.Wait()
	var out []Violation
	for _, v := range broken {
		if v != nil {
			out = append(out, *v)
		}
	}
	return out
}

// decideWithin limits the search for one execution. Observed ones take less than a millisecond.
const decideWithin = 10 * time.Second

func linear(name string, events []Event) *Violation {
	ops := operations(events)
	if porcupine.CheckOperationsTimeout(lease, ops, decideWithin) == porcupine.Ok {
		return nil
	}
	verdict, info := porcupine.CheckOperationsVerbose(lease, ops, decideWithin)
	v := violation("linearizability", events, "%s", stuck(name, ops, info))
	if verdict == porcupine.Unknown {
		v.What = fmt.Sprintf("%s: %d calls could not be put in order within %v", name, len(ops), decideWithin)
	}
	return &v
}

// stuck returns the longest consistent order of the calls, and the calls that fit nowhere after it.
func stuck(name string, ops []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var best []int
	for _, partition := range info.PartialLinearizations() {
		for _, order := range partition {
			if len(order) > len(best) {
				best = order
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: the answers fit no order of the calls. As far as they do:", name)
	state := any(register{})
	placed := map[int]bool{}
	for _, i := range best {
		_, state = lease.Step(state, ops[i].Input, nil)
		placed[i] = true
		fmt.Fprintf(&b, "\n        %-64s then it is %s", ops[i].Input, state)
	}
	b.WriteString("\n      and then none of these can follow:")
	left := int64(1<<63 - 1) // a call that returned before another began cannot come after it
	for i, o := range ops {
		if !placed[i] {
			left = min(left, o.Return)
		}
	}
	for i, o := range ops {
		if !placed[i] && o.Call <= left {
			fmt.Fprintf(&b, "\n        %s", o.Input)
		}
	}
	return b.String()
}

// withCalls adds the execution to the events that begin requests, since only the response names one.
func withCalls(h *History) *History {
	began := map[int]Event{}
	var out []Event
	for _, e := range h.Events() {
		if e.Op == Claim && e.Kind == Invoke {
			began[e.Call] = e
			continue
		}
		if e.Op == Claim && e.Kind == OK {
			if b, ok := began[e.Call]; ok {
				b.Execution, b.Tenant, b.Token = e.Execution, e.Tenant, e.Token
				out = append(out, b)
			}
		}
		out = append(out, e)
	}
	return NewHistory(out...)
}

// slack is the tolerance for the instants in the product's own record.
const slack = 200 * time.Millisecond

// operations returns the calls of one execution.
func operations(events []Event) []porcupine.Operation {
	var end time.Duration
	for _, e := range events {
		end = max(end, e.At)
	}
	end += slack
	type key struct {
		call  int
		op    Op
		token int64
	}
	began, arrived, leased, accepted := map[key]Event{}, map[int64]time.Duration{}, map[int64]bool{}, map[int64]bool{}
	for _, e := range events {
		switch {
		case e.Kind == Invoke:
			began[key{e.Call, e.Op, e.Token}] = e
		case e.Kind == Arrive:
			if _, ok := arrived[e.Token]; !ok {
				arrived[e.Token] = e.At
			}
		case is(OK, Claim)(e):
			leased[e.Token] = true
		case is(OK, Complete)(e) && e.Result == "accepted":
			accepted[e.Token] = true
		}
	}
	var ops []porcupine.Operation
	open := map[call]bool{}
	add := func(c call, from, to time.Duration) {
		c.from, c.to = from, to
		ops = append(ops, porcupine.Operation{Input: c, Call: int64(from), Return: int64(to)})
	}
	guess := func(e Event) { // a lease whose claim nobody saw answered
		if !leased[e.Token] {
			leased[e.Token] = true
			to, seen := arrived[e.Token]
			if !seen {
				to = end
			}
			from := time.Duration(0)
			if e.Op == Leased {
				from = min(max(0, e.At-slack), to)
			}
			add(call{op: Claim, token: e.Token}, from, to)
		}
	}
	for _, e := range events {
		b := began[key{e.Call, e.Op, e.Token}]
		c := call{op: e.Op, proc: e.Proc, token: e.Token, outcome: b.Result, answer: e.Result}
		switch {
		case is(Final, Leased)(e):
			guess(e)
		case is(Final, Ended)(e):
			guess(e)
			if !accepted[e.Token] || e.Result == "LOST" || e.Result == "RELEASED" { // otherwise it is what a worker was told
				add(call{op: Ended, token: e.Token, outcome: e.Result}, max(0, e.At-slack), end)
			}
		case is(Final, Execution)(e):
			add(call{op: Look, proc: e.Proc, answer: e.Result}, e.At, e.At)
		case e.Kind == OK && (e.Op == Claim || e.Op == Beat || e.Op == Complete || e.Op == Release || e.Op == Cancel || e.Op == Look),
			is(Fail, Cancel)(e):
			c.refused = e.Kind == Fail
			add(c, b.At, e.At)
		case e.Kind == Unknown && (e.Op == Complete || e.Op == Release || e.Op == Cancel):
			c.unknown = true
			if !open[c] { // a repeat could do no more than the first, which may happen as late
				open[c] = true
				add(c, b.At, end)
			}
		}
	}
	for _, e := range events {
		if e.Kind == Arrive {
			guess(e)
		}
	}
	slices.SortStableFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	return ops
}
