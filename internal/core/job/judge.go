package job

import "github.com/carillon-jobs/carillon/internal/core/tenant"

// Past is a store's record of a lease that no longer holds.
type Past struct {
	Tenant  tenant.ID // of the execution; "": there is none
	Status  Status    // how the execution ended under this lease; 0: it did not
	Failed  bool      // the attempt failed
	Lost    bool      // the attempt ended without a result
	Snoozed bool      // the attempt was snoozed
	Holder  WorkerID  // the worker that had the lease; zero: no longer known
	Serves  tenant.ID // the only tenant that the reporting worker serves; "": all of them
}

// Judge returns the verdict on a result that cannot be applied, because its lease has ended or never existed. A
// repeat of the same result is accepted again. Any other result is refused: as stale or, if the worker never had the
// lease or may not see the execution, as unknown.
func Judge(p Past, f *Finish) Verdict {
	v := Verdict{Execution: f.Outcome.Execution}
	foreign := f.Worker != WorkerID{} && (p.Holder != WorkerID{} && p.Holder != f.Worker || p.Serves != "" && p.Serves != p.Tenant)
	switch {
	case p.Tenant == "" || foreign:
		v.Reason = RefusedUnknown
	case !p.Repeats(f.Outcome.Status):
		v.Reason = RefusedStale
	default:
		v.Accepted, v.Repeated = true, true
		switch then := f.Then.Status; {
		case p.Status.Final() && p.Status != then:
			v.Ended = p.Status
		case p.Status == 0 && then.Final() && p.Failed:
			v.Ended = Retrying
		case p.Status == 0 && then.Final() && p.Snoozed:
			v.Ended = Pending
		}
	}
	return v
}

// Repeats reports whether an outcome is the one that ended the lease.
func (p Past) Repeats(o OutcomeStatus) bool {
	switch {
	case p.Lost:
		return false
	case o == OutcomeSucceeded:
		return p.Status == Succeeded
	case o == OutcomeFailed: // however its execution continued
		return p.Failed
	case o == OutcomeCancelled:
		return p.Status == Cancelled && !p.Failed && !p.Snoozed
	case o == OutcomeSkipped:
		return p.Status == Skipped && !p.Failed && !p.Snoozed
	case o == OutcomeSnoozed:
		return p.Snoozed
	case o == OutcomeParked: // its target was quicker
		return p.Status != 0 || p.Failed || p.Snoozed
	}
	return false
}

// JobDeleted is the error of an execution that is CANCELLED because its job was deleted.
var JobDeleted = &Error{Type: CancelledError, Message: "its job was deleted"}

// FailedAttempt reports whether the finish ends a failed attempt, which is recorded as one. A snooze does not.
func (f *Finish) FailedAttempt() bool {
	return f.Outcome.Status != OutcomeSnoozed && (f.Then.Move == Again || f.Then.Status == Failed || f.Then.Status == TimedOut)
}

// IfDeleted returns the final status of an execution that was to be retried, if its job was deleted meanwhile.
func (f *Finish) IfDeleted() Status {
	switch e := f.Outcome.Error; {
	case f.Outcome.Status == OutcomeSnoozed:
		return Cancelled
	case e != nil && e.Type == TimeoutError:
		return TimedOut
	}
	return Failed
}

// Ending returns the error that an execution has if the finish ends it. A snooze that is not out of time ends it only
// if its job was deleted.
func (f *Finish) Ending() *Error {
	if f.Outcome.Status == OutcomeSnoozed && f.Then.Status != TimedOut {
		return JobDeleted
	}
	return f.Outcome.Error
}
