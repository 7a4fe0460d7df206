package job

import "time"

// Retention says for how many days finished executions of a job are kept. The tenant's own retention ends them
// earlier, if it is shorter, and alone decides where this is zero.
type Retention struct {
	Days       int
	FailedDays int // of those that failed, timed out or expired
}

// MaxRetentionDays limits the days of a Retention.
const MaxRetentionDays = 36_500

// WantRetentionDays describes a valid number of days.
const WantRetentionDays = "a whole number of days from 1 to 36500"

// IsZero reports whether the job leaves it to its tenant.
func (r Retention) IsZero() bool { return r == Retention{} }

// For returns the number of days for executions that ended like this.
func (r Retention) For(s Status) int {
	if s.Unsuccessful() {
		return r.FailedDays
	}
	return r.Days
}

// KeptSince returns the beginning of the first day whose executions that ended like this are kept.
func (r Retention) KeptSince(now time.Time, s Status) time.Time {
	return now.UTC().AddDate(0, 0, -r.For(s)).Truncate(24 * time.Hour)
}

// Until returns the instant from which on all executions are kept, however they ended.
func (r Retention) Until(now time.Time) time.Time {
	return Retention{Days: min(r.Days, r.FailedDays)}.KeptSince(now, Succeeded)
}

// Hides reports whether an execution that has finished is no longer kept. Those of nodes are kept as long as the run
// of their workflow.
func (r Retention) Hides(now time.Time, t Trigger, s Status, finished time.Time) bool {
	return !r.IsZero() && t != ByWorkflow && finished.Before(r.KeptSince(now, s))
}

// check validates a retention; the zero one is none.
func (r Retention) check(v *Invalids) {
	if r.IsZero() {
		return
	}
	for field, days := range map[string]int{"retention.days": r.Days, "retention.failed_days": r.FailedDays} {
		if days < 1 || days > MaxRetentionDays {
			v.Add(field, days, WantRetentionDays)
		}
	}
}

// EndsWithHistory reports whether a job goes with the last of its history: a one-off job, which can only be over then,
// and a deleted one. A job that somebody may trigger again stays, and so does that of a workflow's inline node, which
// goes with its workflow. A one-off job with a key stays, too: it is what keeps a file that is applied again from
// running the job a second time.
func EndsWithHistory(s State, t ScheduleType, keyed bool) bool {
	return s == Deleted || s != Inline && t.OneOff() && !keyed
}
