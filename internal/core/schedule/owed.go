package schedule

import (
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// Late is how long after its instant a fire still counts as one in time.
const Late = time.Minute

// maxMissed is how many missed instants are looked at in one go; the rest is owed from the next instant on.
const maxMissed = 10_000

// Owed is what a schedule owes, whose planned instant has come or comes soon.
type Owed struct {
	Fires   []time.Time  // in order
	Caught  bool         // they come late: they are caught up
	Skipped *job.Stretch // instants before them that are not caught up; nil: none
	Next    time.Time    // the instant after all of these; zero: none
	Spare   time.Time    // the instant after these, where they are the last runs; one that is skipped leaves a run for it
}

// Owe says what is owed of a plan as of an instant, where at is the one that is planned. One that has not come is owed
// alone: it is staged. Of those that have, the policy says which are caught up; runs are how many more there may be, less
// than 0 for any number.
func Owe(p Plan, at, now time.Time, policy job.CatchUp, limit int, runs int64) Owed {
	if at.After(now) {
		return p.close(Owed{Fires: []time.Time{at}}, at, runs)
	}
	// A ring of the last instants that have come, as many as may be caught up.
	keep := 1
	if policy == job.CatchUpAll {
		keep = max(1, limit)
	}
	var last []time.Time
	var missed job.Stretch
	skip := func(t time.Time) {
		if missed.Count == 0 {
			missed.From = t
		}
		missed.To, missed.Count = t, missed.Count+1
	}
	end := at
	for t, ok := at, true; ok && !t.After(now); t, ok = p.Next(t) {
		if last = append(last, t); len(last) > keep {
			skip(last[0])
			if last = last[1:]; missed.Count == maxMissed {
				return Owed{Skipped: &missed, Next: last[0]}
			}
		}
		end = t
	}
	o := Owed{Fires: last, Caught: missed.Count > 0 || len(last) > 1 || now.Sub(end) > Late}
	if policy == job.CatchUpNone && now.Sub(end) > Late {
		for _, t := range last {
			skip(t)
		}
		o.Fires = nil
	}
	if missed.Count > 0 {
		o.Skipped = &missed
	}
	return p.close(o, end, runs)
}

// close says what comes after, and keeps to the number of runs that are left.
func (p Plan) close(o Owed, end time.Time, runs int64) Owed {
	if runs >= 0 && int64(len(o.Fires)) >= runs {
		if o.Spare, _ = p.Next(end); int64(len(o.Fires)) > runs {
			o.Spare = o.Fires[runs]
		}
		o.Fires = o.Fires[:runs]
		return o
	}
	o.Next, _ = p.Next(end)
	return o
}
