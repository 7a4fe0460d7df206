package job

import "time"

// FirstDue returns when an instant of a job could first fire: at its scheduled time, or when its job was created, if that came
// later. All delays are counted from it, so that a job that is created for an instant in the past is not late by years.
func FirstDue(j ID, scheduled time.Time) time.Time {
	scheduled = scheduled.Truncate(time.Millisecond) // as ids are
	const version = 7                                // an id of another tells no time
	if made := j.At(); j[6]>>4 == version && made.After(scheduled) {
		return made
	}
	return scheduled
}

// Delay returns how late an execution fired; 0 if it was prepared early.
func Delay(j ID, x ExecutionID, scheduled time.Time) time.Duration {
	return max(0, x.At().Sub(FirstDue(j, scheduled)))
}

// Begins returns when the time from an execution's instant to its end starts: when it could first fire, or, where it was
// made up for later (a missed run, a backfill), when that was done.
func Begins(j ID, x ExecutionID, by Trigger, scheduled time.Time) time.Time {
	at := FirstDue(j, scheduled)
	if by == ByCatchUp || by == ByBackfill {
		if fired := x.At(); fired.After(at) {
			return fired
		}
	}
	return at
}

// TriggerDelay returns how late the execution fired; 0 if it was prepared early.
func (e Execution) TriggerDelay() time.Duration { return Delay(e.Job, e.ID, e.ScheduledAt) }

// OneOffTrigger returns why a one-off job fires that was planned for an instant: one that passed in a pause, or before a change
// of the job that planned it, is caught up.
func (j *Job) OneOffTrigger(at time.Time) Trigger {
	if at.Before(j.ResumedAt) || j.UpdatedAt.After(j.CreatedAt) && at.Before(j.UpdatedAt) {
		return ByCatchUp
	}
	return BySchedule
}
