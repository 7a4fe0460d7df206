package job

import "time"

// FirstDue returns when an instant of a job could first fire: at its scheduled time, or when its job was created, if
// that was later. All delays are counted from it, so that a job created for a past instant is not years late.
func FirstDue(j ID, scheduled time.Time) time.Time {
	scheduled = scheduled.Truncate(time.Millisecond) // as ids are
	const version = 7                                // an id of another version contains no time
	if made := j.At(); j[6]>>4 == version && made.After(scheduled) {
		return made
	}
	return scheduled
}

// Delay returns how late an execution fired; 0 if it was prepared early.
func Delay(j ID, x ExecutionID, scheduled time.Time) time.Duration {
	return max(0, x.At().Sub(FirstDue(j, scheduled)))
}

// Begins returns the start of the time that an execution took from its instant to its end: when it could first fire
// or, for a late execution (a missed run, a backfill), when that was created.
func Begins(j ID, x ExecutionID, by Trigger, scheduled time.Time) time.Time {
	at := FirstDue(j, scheduled)
	if by == ByCatchUp || by == ByBackfill {
		if fired := x.At(); fired.After(at) {
			return fired
		}
	}
	return at
}

// TriggerDelay returns how late the execution fired; 0 if it was prepared early. If a caught-up instant precedes the
// creation of its job, a change assigned it just before it fired, so there is no delay.
func (e Execution) TriggerDelay() time.Duration {
	if e.Trigger == ByCatchUp && !FirstDue(e.Job, e.ScheduledAt).Equal(e.ScheduledAt.Truncate(time.Millisecond)) {
		return 0
	}
	return Delay(e.Job, e.ID, e.ScheduledAt)
}

// OneOffTrigger returns the trigger of a one-off job at an instant: catch-up if the instant passed during a pause, or
// before the change of the job that planned it.
func (j *Job) OneOffTrigger(at time.Time) Trigger {
	if at.Before(j.ResumedAt) || j.UpdatedAt.After(j.CreatedAt) && at.Before(j.UpdatedAt) {
		return ByCatchUp
	}
	return BySchedule
}
