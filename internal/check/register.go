package check

import (
	"fmt"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// register is the state of an execution that its clients can know: whether it is held, by whom, under which token,
// and how it ended.
type register struct {
	phase  phase
	token  int64  // the newest
	holder string // "": not known
	asked  bool   // it was asked to stop while it was held
	final  string // in phase over: how it ended; "": not known, but not successfully
	past   string // how leases ended, each as " token:outcome"
}

type phase string

const (
	free  phase = ""      // it waits
	held  phase = "held"  // under token
	loose phase = "loose" // an attempt failed or was lost: it waits for the next one, or that was the last
	over  phase = "over"
)

func (r register) String() string {
	s := map[phase]string{free: "waiting", loose: "waiting or over", over: "over: " + r.final, held: fmt.Sprintf("held under token %d", r.token)}[r.phase]
	if r.phase == held && r.holder != "" {
		s += " by " + r.holder
	}
	if r.asked {
		s += ", asked to stop"
	}
	return s
}

// call is one call of a client or a worker or, for Ended, a change that the product made by itself.
type call struct {
	op       Op
	proc     string
	token    int64
	outcome  string // Complete, Ended
	answer   string
	refused  bool // Cancel: it has ended
	unknown  bool // no answer came
	from, to time.Duration
}

func (c call) String() string {
	answer := c.answer
	switch {
	case c.unknown:
		answer = "no answer"
	case c.refused:
		answer = "refused"
	case c.op == Ended:
		answer = "by its record"
	}
	s := fmt.Sprintf("%.3f-%.3fs %s %s", c.from.Seconds(), c.to.Seconds(), c.proc, c.op)
	if c.token != 0 {
		s += fmt.Sprintf(" token=%d", c.token)
	}
	if c.outcome != "" {
		s += " " + c.outcome
	}
	if answer != "" {
		s += " -> " + answer
	}
	return s
}

// lease is the register as porcupine's model.
var lease = porcupine.Model{
	Init:              func() any { return register{} },
	Step:              func(state, input, _ any) (bool, any) { ok, r := state.(register).step(input.(call)); return ok, r },
	DescribeOperation: func(input, _ any) string { return input.(call).String() },
	DescribeState:     func(state any) string { return state.(register).String() },
}

// step reports whether the register allows a response, and returns the register after it.
func (r register) step(c call) (bool, register) {
	switch c.op {
	case Claim: // the claim gets the newest token, and nobody holds it
		if r.phase != free && r.phase != loose || c.token <= r.token {
			return false, r
		}
		return true, register{phase: held, token: c.token, holder: c.proc, past: r.past}
	case Beat: // an answered heartbeat keeps the session, so none of its leases can have been lost before
		if c.answer == "lost" {
			return !(r.phase == held && r.token == c.token), r
		}
		return c.token <= r.token && !r.ended(c.token, "LOST"), r
	case Complete:
		took, after := r.end(c.token, c.outcome, c.proc)
		switch {
		case c.unknown && !took:
			return true, r
		case c.unknown || c.answer == "accepted":
			return took, after
		default:
			return !took, r
		}
	case Ended:
		return r.end(c.token, c.outcome, "")
	case Release:
		if took, after := r.end(c.token, "RELEASED", c.proc); took {
			return true, after
		}
		return true, r
	case Cancel:
		return r.cancel(c)
	case Look:
		return r.look(c.answer)
	}
	return false, r
}

// ended reports whether a lease ended by an outcome.
func (r register) ended(token int64, outcome string) bool {
	return strings.Contains(r.past+" ", fmt.Sprintf(" %d:%s ", token, outcome))
}

// end is the end of a lease: of the newest, by its holder, or a repeat.
func (r register) end(token int64, outcome, by string) (bool, register) {
	if r.ended(token, outcome) {
		return true, r
	}
	if r.phase != held || r.token != token || by != "" && r.holder != "" && by != r.holder {
		return false, r
	}
	if outcome == "PARKED" { // its target continues it under the token
		return true, r
	}
	n := r
	n.past += fmt.Sprintf(" %d:%s", token, outcome)
	n.holder, n.asked = "", false
	switch {
	case outcome == "SUCCEEDED" || outcome == "SKIPPED":
		n.phase, n.final = over, outcome
	case r.asked:
		n.phase = over
	case outcome == "RELEASED" || outcome == "SNOOZED":
		n.phase = free
	default:
		n.phase = loose
	}
	return true, n
}

// cancel ends a waiting execution, and asks a held one to stop. The response may say which; "" does not.
func (r register) cancel(c call) (bool, register) {
	n := r
	switch r.phase {
	case over:
		return c.unknown || c.refused || c.answer != "CANCELLING" && (r.final == "" || r.final == "CANCELLED"), r
	case held:
		n.asked = true
		return c.unknown || !c.refused && c.answer != "CANCELLED", n
	}
	n.phase, n.final = over, "CANCELLED"
	if r.phase == loose && c.refused {
		n.final = ""
		return true, n
	}
	return c.unknown || !c.refused && c.answer != "CANCELLING", n
}

// look is an observed status.
func (r register) look(status string) (bool, register) {
	n := r
	switch status {
	case "WAITING", "PENDING", "RETRYING":
		n.phase = free
		return r.phase == free || r.phase == loose, n
	case "RUNNING":
		return r.phase == held && !r.asked, r
	case "CANCELLING":
		return r.phase == held && r.asked, r
	}
	n.phase, n.final = over, status
	switch r.phase {
	case over:
		return r.final == status || r.final == "" && status != "SUCCEEDED", n
	case loose:
		return status == "FAILED" || status == "TIMED_OUT" || status == "EXPIRED" || status == "CANCELLED" && strings.HasSuffix(r.past, ":CANCELLED"), n
	case free:
		return status == "SKIPPED" || status == "EXPIRED" || status == "TIMED_OUT", n
	}
	return false, r
}
