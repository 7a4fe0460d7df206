package workflow

import (
	"fmt"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// Status is the status of a node or a run. Numbers below 16 are those of job.Status.
type Status uint8

// The states of nodes and runs. Their numbers are stored; never renumber them. In a State, a node that is an
// execution is never Running or Retrying: it is Pending, and the execution has the details.
const (
	Waiting    Status = 1
	Pending    Status = 2
	Running    Status = 3
	Retrying   Status = 4
	Cancelling Status = 5
	Paused     Status = 6 // of a run
	Succeeded  Status = 10
	Failed     Status = 11
	TimedOut   Status = 12
	Cancelled  Status = 13
	Skipped    Status = 14
	Expired    Status = 15
	NotRun     Status = 16 // of a node: something above it failed, or the run was stopped, cancelled or timed out
)

var statusNames = map[Status]string{
	Waiting: "WAITING", Pending: "PENDING", Running: "RUNNING", Retrying: "RETRYING", Cancelling: "CANCELLING", Paused: "PAUSED",
	Succeeded: "SUCCEEDED", Failed: "FAILED", TimedOut: "TIMED_OUT", Cancelled: "CANCELLED", Skipped: "SKIPPED", Expired: "EXPIRED", NotRun: "NOT_RUN",
}

func (s Status) String() string {
	if n, ok := statusNames[s]; ok {
		return n
	}
	return fmt.Sprintf("Status(%d)", uint8(s))
}

// Final reports whether a node or run in this state has ended.
func (s Status) Final() bool { return s >= Succeeded }

// Failed reports whether a node ended in a way that counts as a failure.
func (s Status) Failed() bool {
	return s == Failed || s == TimedOut || s == Expired || s == Cancelled
}

// Reason is the reason for a node's status, if the status alone does not tell.
type Reason uint8

// The reasons. Their numbers are stored; never renumber them.
const (
	NoReason       Reason = 0
	ByTrigger      Reason = 1  // SKIPPED or NOT_RUN: its trigger did not hold
	ByStop         Reason = 2  // NOT_RUN: another failure stopped the run
	ByCancel       Reason = 3  // NOT_RUN or CANCELLED with the run
	ByRunTimeout   Reason = 4  // likewise: the run's timeout
	ByIf           Reason = 5  // SKIPPED: `if` was false
	ByHandler      Reason = 6  // SKIPPED: what ran said so
	ByHand         Reason = 7  // a person skipped or marked it
	ByTimeout      Reason = 8  // its own timeout
	BadExpression  Reason = 9  // FAILED: if, map, match or a template had no value
	MapNotAList    Reason = 10 // FAILED
	MapTooWide     Reason = 11 // FAILED
	MapFailed      Reason = 12 // FAILED: more items failed than are tolerated
	Rejected       Reason = 13 // FAILED: an approval was refused
	ResultTooLarge Reason = 14 // FAILED
	InputTooLarge  Reason = 15 // FAILED: everything it reads is too large together
)

var reasonCodes = [...]string{
	"", "TRIGGER", "STOPPED", "RUN_CANCELLED", "RUN_TIMED_OUT", "IF_FALSE", "HANDLER", "BY_HAND", "TIMEOUT",
	"EXPRESSION", "MAP_NOT_A_LIST", "MAP_TOO_WIDE", "MAP_FAILED", "REJECTED", "RESULT_TOO_LARGE", "INPUT_TOO_LARGE",
}

// RejectedError is the type of the error of an approval that was rejected.
var RejectedError = job.ErrorType(Rejected.String())

// String returns the reason as the API has it.
func (r Reason) String() string {
	if int(r) < len(reasonCodes) {
		return reasonCodes[r]
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}
