package job

import "time"

// DeadLetter is an execution that failed permanently and waits for someone to rerun or discard it.
type DeadLetter struct {
	Execution
	Reason DeadReason
	At     time.Time
	Errors []PastAttempt // the whole history, oldest attempt first
}

// DeadReason is the reason why an execution is a dead letter.
type DeadReason string

// The reasons why an execution is a dead letter.
const (
	DeadExhausted DeadReason = "ATTEMPTS_EXHAUSTED"
	DeadForGood   DeadReason = "NOT_RETRYABLE"
	DeadPoison    DeadReason = "POISON"
)

func (r DeadReason) String() string { return string(r) }

// DeadReasons lists all reasons.
func DeadReasons() []DeadReason { return []DeadReason{DeadExhausted, DeadForGood, DeadPoison} }

// Dead reports whether an execution with this end is a dead letter, and why.
func Dead(s Status, e *Error, tries, maxAttempts int) (DeadReason, bool) {
	switch {
	case s != Failed && s != TimedOut:
		return "", false
	case e != nil && e.Type == Poison:
		return DeadPoison, true
	case tries >= maxAttempts:
		return DeadExhausted, true
	}
	return DeadForGood, true
}
