package job

import "time"

// PastAttempt is the record of an attempt that failed or was lost.
type PastAttempt struct {
	Execution ExecutionID
	Token     Token
	Number    int
	Worker    WorkerID
	StartedAt time.Time
	EndedAt   time.Time
	Error     Error
}

// AttemptStatus is the state or outcome of an attempt.
type AttemptStatus string

// The statuses of an attempt. An attempt that was handed back or snoozed does not count as one; see Timeline for those.
const (
	AttemptRunning   AttemptStatus = "RUNNING"
	AttemptParked    AttemptStatus = "PARKED" // its target completes it later; no worker holds it
	AttemptSucceeded AttemptStatus = "SUCCEEDED"
	AttemptFailed    AttemptStatus = "FAILED"
	AttemptTimedOut  AttemptStatus = "TIMED_OUT"
	AttemptCancelled AttemptStatus = "CANCELLED"
	AttemptSkipped   AttemptStatus = "SKIPPED" // there was nothing to do
	AttemptLost      AttemptStatus = "LOST"    // its lease ended without a result
)

// Tried is one attempt of an execution, running or ended.
type Tried struct {
	Token     Token
	Number    int
	Worker    WorkerID
	Status    AttemptStatus
	StartedAt time.Time
	EndedAt   time.Time // zero: it has not ended
	Error     *Error
}

// Duration returns how long the attempt took, or has taken by an instant.
func (a Tried) Duration(now time.Time) time.Duration {
	if !a.EndedAt.IsZero() {
		now = a.EndedAt
	}
	return max(0, now.Sub(a.StartedAt))
}

// Tried returns the record as one of an execution's attempts.
func (a PastAttempt) Tried() Tried {
	status := AttemptFailed
	switch a.Error.Type {
	case LeaseLost:
		status = AttemptLost
	case TimeoutError:
		status = AttemptTimedOut
	}
	return Tried{a.Token, a.Number, a.Worker, status, a.StartedAt, a.EndedAt, &a.Error}
}

// Attempts lists every attempt of an execution, oldest first: those that failed or were lost, which stores record,
// and the running or last one, which is derived from the execution's own row and records.
func (e Execution) Attempts(past []PastAttempt, kept []Event) []Tried {
	out := make([]Tried, 0, len(past)+1)
	for _, a := range past {
		out = append(out, a.Tried())
	}
	if !e.newest(past) {
		return out
	}
	a := Tried{Token: e.Token, Number: e.Attempt, Worker: e.Worker, Status: AttemptRunning, StartedAt: e.LeasedAt}
	if e.Status.Final() {
		a.EndedAt, a.Error = e.FinishedAt, e.Error
	}
	switch e.Status {
	case Succeeded:
		a.Status = AttemptSucceeded
	case TimedOut:
		a.Status = AttemptTimedOut
	case Cancelled:
		a.Status = AttemptCancelled
	case Skipped:
		a.Status = AttemptSkipped
	case Running, Cancelling:
		for _, k := range kept {
			if k.Kind == EventParked && k.Token == e.Token {
				a.Status = AttemptParked
			}
		}
	default:
		a.Status = AttemptFailed
	}
	return append(out, a)
}

// newest reports whether past omits the execution's newest attempt, because it is running or was the last. An attempt
// that was handed back or snoozed raised no number, so it does not count.
func (e Execution) newest(past []PastAttempt) bool {
	if e.LeasedAt.IsZero() || !e.holds() {
		return false
	}
	last := 0
	for _, a := range past {
		if a.Token == e.Token {
			return false
		}
		last = max(last, a.Number)
	}
	return e.Attempt > last
}

// holds reports whether the newest lease is still held, or was held to the end.
func (e Execution) holds() bool {
	return e.Status == Running || e.Status == Cancelling || e.Status.Final() && !e.StartedAt.IsZero()
}
