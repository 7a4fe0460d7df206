package job

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"time"
)

// OutcomeStatus is the way an attempt ended.
type OutcomeStatus uint8

// The ways an attempt ends.
const (
	OutcomeSucceeded OutcomeStatus = iota + 1
	OutcomeFailed
	OutcomeCancelled
	OutcomeSnoozed // to be retried after RetryAfter, without a failure
	OutcomeParked  // not ended: its target has taken it over and will complete it
	OutcomeSkipped // there was nothing to do
)

func (s OutcomeStatus) String() string {
	switch s {
	case OutcomeSucceeded:
		return "SUCCEEDED"
	case OutcomeFailed:
		return "FAILED"
	case OutcomeCancelled:
		return "CANCELLED"
	case OutcomeSnoozed:
		return "SNOOZED"
	case OutcomeParked:
		return "PARKED"
	case OutcomeSkipped:
		return "SKIPPED"
	}
	return "UNKNOWN"
}

// Outcome is the result of an attempt, as its worker reports it.
type Outcome struct {
	Lease
	Status     OutcomeStatus
	Result     []byte // JSON
	Error      *Error
	Response   *Response
	Retryable  bool
	RetryAfter time.Duration // 0: as the policy says
}

// Held holds what Decide needs to know about a leased execution.
type Held struct {
	Execution
	Retry       RetryPolicy
	Total       time.Duration // of all attempts; 0: unbounded
	AutoRedrive time.Duration // 0: never
	JobState    State
}

// Transition is the consequence of an outcome.
type Transition struct {
	Move   Move
	Status Status
	DueAt  time.Time // of the next attempt; zero if the status is final
	Tries  int       // charged failures so far; if the store's own count is greater, it keeps that

	OutOfTime bool      // the next attempt would have come after the total timeout
	RedriveAt time.Time // when the dead letter is redriven automatically; zero: never
}

// Decide returns the consequence of an outcome. For an outcome that needs no policy, such as a success, Held may be
// zero except for its status.
func Decide(h Held, o Outcome, asOf time.Time) Transition {
	tries := h.Tries
	var m Move
	var due time.Time
	outOfTime := false
	switch o.Status {
	case OutcomeSucceeded:
		m = Done
	case OutcomeCancelled:
		m = Stopped
	case OutcomeSkipped:
		m = Skip
	case OutcomeSnoozed:
		m, due = Snoozed, asOf.Add(min(o.RetryAfter, MaxRetryDelay))
		if h.over(due) {
			m, due = Late, time.Time{}
		}
		if h.Status == Cancelling || h.JobState == Deleted {
			m, due = Stopped, time.Time{}
		}
	default:
		tries++
		m = Died
		if o.Error != nil && o.Error.Type == TimeoutError {
			m = Late
		}
		if h.Status != Cancelling && h.JobState != Deleted && o.Retryable && tries < h.MaxAttempts {
			next := asOf.Add(h.Retry.Delay(h.ID, tries, o.RetryAfter))
			if h.over(next) {
				m, outOfTime = Late, true
			} else {
				m, due = Again, next
			}
		}
	}
	next, ok := Apply(h.Status, m, tries)
	if !ok {
		// A store hands out only leased executions, so this cannot happen; ending it is better than leaving it
		// without an owner.
		next, due = Failed, time.Time{}
	}
	t := Transition{Move: m, Status: next, DueAt: due, Tries: tries, OutOfTime: outOfTime}
	if (next == Failed || next == TimedOut) && h.AutoRedrive > 0 && h.Trigger != ByRedrive {
		t.RedriveAt = asOf.Add(h.AutoRedrive) // once: if it dies again after a redrive, it waits for a person
	}
	return t
}

// Explain returns the error of an outcome, with a note about the total timeout if that made it the last. The
// outcome's own error is unchanged, as an outcome may be decided again.
func (h Held) Explain(o Outcome, t Transition) *Error {
	switch {
	case t.Move == Late && o.Error == nil:
		return &Error{Type: TimeoutError, Message: "the execution ran out of its total time"}
	case !t.OutOfTime:
		return o.Error
	}
	e := *o.Error
	const why = "the next try would come after the total timeout of "
	if e.Message != "" {
		e.Message += "; "
	}
	e.Message += why + h.Total.String()
	return &e
}

// Deadline returns when the attempt must have ended: by its own timeout, or by that of the whole execution.
func (h Held) Deadline() time.Time {
	if h.Class == Class(Workflow) {
		return Forever // its nodes end it
	}
	if h.Timeout <= 0 { // of a row from before timeouts were stored
		h.Timeout = MaxRetryDelay
	}
	d := h.LeasedAt.Add(h.Timeout)
	if h.Total > 0 && h.StartedAt.Add(h.Total).Before(d) {
		return h.StartedAt.Add(h.Total)
	}
	return d
}

// Forever is later than any instant that a store acts on.
var Forever = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)

// over reports whether the whole execution will have run out of time at an instant.
func (h Held) over(at time.Time) bool {
	return h.Total > 0 && !h.StartedAt.IsZero() && !at.Before(h.StartedAt.Add(h.Total))
}

// Delay returns how long to wait before the attempt after the n-th charged failure: the policy's delay with ±25 %
// jitter, capped, and never less than the target asked for. The jitter is the same for the same execution and n, so
// that two servers decide alike.
func (p RetryPolicy) Delay(id ExecutionID, n int, asked time.Duration) time.Duration {
	d := float64(p.InitialDelay)
	switch p.Backoff {
	case Linear:
		d *= float64(n)
	case Exponential:
		d *= math.Pow(2, float64(n-1))
	case Fixed:
	}
	d *= 0.75 + 0.5*roll(id, n)
	if p.MaxDelay > 0 {
		d = math.Min(d, float64(p.MaxDelay))
	}
	d = math.Min(d, float64(MaxRetryDelay))
	return max(time.Duration(d), min(asked, MaxRetryDelay))
}

// MaxRetryDelay limits every wait between two attempts.
const MaxRetryDelay = 30 * 24 * time.Hour

// roll returns a number in [0, 1) that depends only on its arguments.
func roll(id ExecutionID, n int) float64 {
	h := fnv.New64a()
	h.Write(id[:])
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	h.Write(b[:])
	// FNV's high bits barely move with the last bytes; a multiply spreads them.
	x := h.Sum64()
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	return float64(x>>11) / (1 << 53)
}

// Finish is an outcome and what follows it, for the store to apply under the lease's token.
type Finish struct {
	Outcome Outcome
	Then    Transition
	Worker  WorkerID // the worker that reports it, which must hold the lease; zero: whoever holds it, since a target or a server reports
	Expel   bool     // the worker does not know: it is ordered to drop the lease
}

// Verdict reports whether a finish was applied.
type Verdict struct {
	Execution ExecutionID
	Accepted  bool
	Reason    string      // why it was refused
	Ended     Status      // how its execution ended, or that it continues, where that is not as the finish says; 0: it is
	Repeated  bool        // it is accepted since it was applied before, and changed nothing
	Run       ExecutionID // of the run of a workflow that the execution belonged to and that must hear of its end; zero: none
	Tokens    bool        // jobs that depend on its job must hear of its end
}

// Came returns the status after an applied finish: the finish's own, unless its execution was to continue but ended,
// because meanwhile its job was deleted or it was asked to stop. A repeated finish came to what it did the first time.
func (f *Finish) Came(v *Verdict) Transition {
	t := f.Then
	if v.Ended == 0 {
		return t
	}
	t.Status, t.DueAt = v.Ended, time.Time{}
	switch v.Ended {
	case Cancelled:
		t.Move = Stopped
	case TimedOut:
		t.Move = Late
	case Expired:
		t.Move = Expire
	case Retrying:
		t.Move = Again
	case Pending:
		t.Move = Snoozed
	default:
		t.Move = Died
	}
	return t
}

// The reasons for refusing a finish.
const (
	RefusedStale   = "stale_token"
	RefusedUnknown = "unknown_execution"
)
