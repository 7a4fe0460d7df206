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

// OperationKind is what an operation does to each of its items.
type OperationKind string

// The kinds of operations.
const (
	OpRedrive OperationKind = "redrive"
	OpDiscard OperationKind = "discard"

	OpBackfill OperationKind = "backfill"
	OpReplan   OperationKind = "replan" // reschedules jobs after a change of their calendar

	OpPause   OperationKind = "pause"
	OpResume  OperationKind = "resume"
	OpDelete  OperationKind = "delete"
	OpTrigger OperationKind = "trigger"
	OpTag     OperationKind = "tag"
	OpUntag   OperationKind = "untag"

	OpCancelExecutions OperationKind = "cancel_executions"
	OpRetryExecutions  OperationKind = "retry_executions"

	OpCancelWaiting OperationKind = "cancel_waiting" // cancels the remaining waiting executions of a deleted job
)

// JobActions lists the kinds that apply to each job of a selection.
func JobActions() []OperationKind {
	return []OperationKind{OpPause, OpResume, OpDelete, OpTrigger, OpTag, OpUntag}
}

// Dead reports whether the items are dead letters.
func (k OperationKind) Dead() bool { return k == OpRedrive || k == OpDiscard }

// OverJobs reports whether it applies to each job of a selection.
func (k OperationKind) OverJobs() bool { return slices.Contains(JobActions(), k) }

// OverExecutions reports whether it applies to each execution of a selection.
func (k OperationKind) OverExecutions() bool {
	return k == OpCancelExecutions || k == OpRetryExecutions
}

// Cancellable reports whether an operation of the kind may be cancelled. The rest of a deletion may not: the
// executions left waiting would never start or end.
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

// Operation is a bulk action, run in the background by whichever server takes it.
type Operation struct {
	ID         OperationID
	Tenant     tenant.ID
	Kind       OperationKind
	State      OperationState
	Spec       []byte  // its selection; the kind determines the format
	Rate       float64 // items a second; 0: unlimited
	Total      int64   // items, as counted when it began
	Done       int64
	Passed     int64  // items that no longer existed or could not be changed
	Error      string // why it failed or, if it succeeded, why it skipped some items
	By         string
	CreatedAt  time.Time
	UpdatedAt  time.Time
	FinishedAt time.Time // zero: it runs
	Version    int       // grows with each change
}
