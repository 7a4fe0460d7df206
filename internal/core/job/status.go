package job

import (
	"fmt"
	"slices"
)

// Status is the state of an execution.
type Status uint8

// The states of an execution. Their numbers are stored; never renumber them.
const (
	Waiting    Status = 1 // for parents or overlap
	Pending    Status = 2
	Running    Status = 3
	Retrying   Status = 4 // waiting for the next attempt after a failed one
	Cancelling Status = 5 // running, asked to stop
	Succeeded  Status = 10
	Failed     Status = 11
	TimedOut   Status = 12
	Cancelled  Status = 13
	Skipped    Status = 14
	Expired    Status = 15
)

var statusNames = map[Status]string{
	Waiting: "WAITING", Pending: "PENDING", Running: "RUNNING", Retrying: "RETRYING", Cancelling: "CANCELLING",
	Succeeded: "SUCCEEDED", Failed: "FAILED", TimedOut: "TIMED_OUT", Cancelled: "CANCELLED", Skipped: "SKIPPED", Expired: "EXPIRED",
}

func (s Status) String() string {
	if n, ok := statusNames[s]; ok {
		return n
	}
	return fmt.Sprintf("Status(%d)", uint8(s))
}

// Final reports whether an execution in this state never changes again.
func (s Status) Final() bool { return s >= Succeeded }

// Unsuccessful reports whether an execution ended without its work being done, though nobody asked for that.
func (s Status) Unsuccessful() bool { return s == Failed || s == TimedOut || s == Expired }

// Statuses lists every state in the order of their numbers.
func Statuses() []Status {
	all := make([]Status, 0, len(statusNames))
	for s := range statusNames {
		all = append(all, s)
	}
	slices.Sort(all)
	return all
}

// Move is a transition of an execution.
type Move uint8

// The moves of the state machine.
const (
	Hold    Move = iota + 1 // it must wait for parents or overlap
	Free                    // what it waited for has ended
	Leased                  // a worker took it
	Done                    // the worker says it succeeded
	Again                   // an attempt failed and another follows
	Snoozed                 // the worker asks to retry it later
	Died                    // it failed for good
	Late                    // its last attempt, or the whole execution, timed out
	Lost                    // the lease ended without a result
	Release                 // the worker handed it back
	Cancel                  // someone asked to cancel it
	Stopped                 // the worker stopped it as asked, or the grace period is over
	Skip                    // its policy forbids to run it, or its worker found nothing to do
	Expire                  // it did not start in time
)

var moveNames = map[Move]string{
	Hold: "hold", Free: "free", Leased: "leased", Done: "done", Again: "again", Snoozed: "snoozed", Died: "died", Late: "late",
	Lost: "lost", Release: "release", Cancel: "cancel", Stopped: "stopped", Skip: "skip", Expire: "expire",
}

func (m Move) String() string { return moveNames[m] }

// Moves lists every move.
func Moves() []Move {
	all := make([]Move, 0, len(moveNames))
	for m := range moveNames {
		all = append(all, m)
	}
	slices.Sort(all)
	return all
}

// table is the whole state machine: any other move is illegal.
var table = map[Status]map[Move]Status{
	Waiting:    {Free: Pending, Cancel: Cancelled, Skip: Skipped, Expire: Expired},
	Pending:    {Hold: Waiting, Leased: Running, Cancel: Cancelled, Skip: Skipped, Expire: Expired, Died: Failed},
	Retrying:   {Hold: Waiting, Leased: Running, Cancel: Cancelled, Expire: Expired, Late: TimedOut, Died: Failed},
	Running:    {Done: Succeeded, Again: Retrying, Snoozed: Pending, Died: Failed, Late: TimedOut, Lost: Pending, Release: Pending, Cancel: Cancelling, Stopped: Cancelled, Skip: Skipped},
	Cancelling: {Done: Succeeded, Died: Failed, Late: TimedOut, Lost: Cancelled, Release: Cancelled, Cancel: Cancelling, Stopped: Cancelled, Skip: Skipped},
}

// Apply returns the state after the move, and false if the move is illegal. A queued execution is PENDING before, and
// RETRYING after, its first charged failure, which tries counts.
func Apply(s Status, m Move, tries int) (Status, bool) {
	next, ok := table[s][m]
	if next == Pending && tries > 0 {
		next = Retrying
	}
	return next, ok
}
