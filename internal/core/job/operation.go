package job

import (
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// OperationID names an operation.
type OperationID [16]byte

// ParseOperationID reads an operation's id in the usual UUID form.
func ParseOperationID(s string) (OperationID, error) {
	u, err := parseUUID(s)
	return OperationID(u), err
}

func (i OperationID) String() string { return formatUUID(i) }

// OperationKind says what an operation does to each of its items.
type OperationKind string

// The kinds of operations.
const (
	OpRedrive OperationKind = "redrive"
	OpDiscard OperationKind = "discard"

	OpBackfill OperationKind = "backfill"
	OpReplan   OperationKind = "replan" // jobs follow a change of their calendar

	OpPause   OperationKind = "pause"
	OpResume  OperationKind = "resume"
	OpDelete  OperationKind = "delete"
	OpTrigger OperationKind = "trigger"
	OpTag     OperationKind = "tag"
	OpUntag   OperationKind = "untag"

	OpCancelExecutions OperationKind = "cancel_executions"
	OpRetryExecutions  OperationKind = "retry_executions"

	OpCancelWaiting OperationKind = "cancel_waiting" // the rest of what waited for a job when it was deleted
)

// JobActions are the kinds that do the same to each job of a selection.
func JobActions() []OperationKind {
	return []OperationKind{OpPause, OpResume, OpDelete, OpTrigger, OpTag, OpUntag}
}

// Dead reports whether the items are dead letters.
func (k OperationKind) Dead() bool { return k == OpRedrive || k == OpDiscard }

// OverJobs reports whether it does the same to each job of a selection.
func (k OperationKind) OverJobs() bool { return slices.Contains(JobActions(), k) }

// OverExecutions reports whether it does the same to each execution of a selection.
func (k OperationKind) OverExecutions() bool {
	return k == OpCancelExecutions || k == OpRetryExecutions
}

// Cancellable reports whether an operation of the kind may be cancelled. The rest of a deletion may not: what it leaves
// waiting would never start nor end.
func (k OperationKind) Cancellable() bool { return k != OpCancelWaiting }

// OperationState is the state of an operation.
type OperationState string

// The states of an operation.
const (
	OpRunning   OperationState = "RUNNING"
	OpSucceeded OperationState = "SUCCEEDED"
	OpFailed    OperationState = "FAILED"
	OpCancelled OperationState = "CANCELLED"
)

// Operation is work over many things, done in the background by whichever server takes it.
type Operation struct {
	ID         OperationID
	Tenant     tenant.ID
	Kind       OperationKind
	State      OperationState
	Spec       []byte  // what it is over; its kind knows the form
	Rate       float64 // items a second; 0: as fast as it goes
	Total      int64   // items, as counted when it began
	Done       int64
	Passed     int64  // items that were no longer there, or not to be had
	Error      string // why it failed, or, where it succeeded, why it passed some over
	By         string
	CreatedAt  time.Time
	UpdatedAt  time.Time
	FinishedAt time.Time // zero: it runs
	Version    int       // grows with each change
}
