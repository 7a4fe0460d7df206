package schedule

import (
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// Late is how long after its instant a fire still counts as on time.
const Late = time.Minute

// maxMissed limits how many missed instants are examined at once; the rest follows from the next instant on.
const maxMissed = 10_000

// Owed describes what a schedule must fire, now or soon.
type Owed struct {
	Fires   []time.Time  // in order
	Caught  bool         // they are late: they are caught up
	Skipped *job.Stretch // instants before them that are not caught up; nil: none
	Why     job.SkipReason
	Next    time.Time // the instant after all of these, or when to look again; zero: none
	Spare   time.Time // likewise, if these are the last runs: a skipped one leaves a run for it
	Looked  int       // how many instants were computed
}

// Terms holds a job's policy for missed instants.
type Terms struct {
	Policy  job.CatchUp
	Limit   int       // of CatchUpAll
	Runs    int64     // how many more there may be; less than 0: unlimited
	Most    int       // how many fire at once: Next is the first of the rest, which is still owed; 0: unlimited
	Paused  time.Time // when its last pause began; zero: unknown
	Resumed time.Time // when it ended; zero: there was none
}

// Owe returns what a plan owes as of an instant, where at is the planned instant. If that is in the future, it alone
// is owed: it is staged. The terms decide which past instants are caught up. Instants that passed in a pause and are
// not caught up are returned separately, however late they are: later ones are owed from Next on.
func Owe(p Plan, at, now time.Time, terms Terms) Owed {
	if at.After(now) {
		return p.close(Owed{Fires: []time.Time{at}, Looked: 1}, at, now, terms)
	}
	policy, limit, until := terms.Policy, terms.Limit, now
	if policy == job.CatchUpNone && at.Before(terms.Resumed) {
		if !at.Before(terms.Paused) {
			return p.paused(at, now, terms.Resumed)
		}
		if paused := terms.Paused.Add(-1); paused.Before(until) { // first the instants before the pause
			until = paused
		}
	}
	// A ring of the last due instants, as many as may be caught up.
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
	end, looked := at, 0
	for t, ok := at, true; ok && !t.After(until); t, ok = p.Next(t) {
		looked++
		if last = append(last, t); len(last) > keep {
			skip(last[0])
			if last = last[1:]; missed.Count == maxMissed {
				return Owed{Skipped: &missed, Why: terms.why(missed), Next: last[0], Looked: looked}
			}
		}
		end = t
	}
	o := Owed{Fires: last, Looked: looked, Caught: missed.Count > 0 || len(last) > 1 || now.Sub(end) > Late}
	if policy == job.CatchUpNone && now.Sub(end) > Late {
		for _, t := range last {
			skip(t)
		}
		o.Fires = nil
	}
	if missed.Count > 0 {
		o.Skipped, o.Why = &missed, terms.why(missed)
	}
	return p.close(o, end, now, terms)
}

// why returns the reason why a stretch of instants is skipped.
func (t Terms) why(s job.Stretch) job.SkipReason {
	if !s.From.Before(t.Paused) && s.To.Before(t.Resumed) {
		return job.SkipPause
	}
	return job.SkipMissed
}

// paused returns the instants that a plan must skip because they passed in a pause.
func (p Plan) paused(at, now, resumed time.Time) Owed {
	s := job.Stretch{From: at}
	for t, ok := at, true; ok && t.Before(resumed) && !t.After(now) && s.Count < maxMissed; t, ok = p.Next(t) {
		s.To, s.Count = t, s.Count+1
	}
	o := Owed{Skipped: &s, Why: job.SkipPause, Looked: int(s.Count)}
	o.Next, _ = p.Cursor(s.To, now)
	return o
}

// close sets what comes after, and respects the remaining number of runs and the number at once.
func (p Plan) close(o Owed, end, now time.Time, terms Terms) Owed {
	runs, most := terms.Runs, terms.Most
	if most > 0 && len(o.Fires) > most && (runs < 0 || runs > int64(most)) {
		o.Fires, o.Next = o.Fires[:most], o.Fires[most]
		return o
	}
	if runs >= 0 && int64(len(o.Fires)) >= runs {
		if o.Spare, _ = p.Cursor(end, now); int64(len(o.Fires)) > runs {
			o.Spare = o.Fires[runs]
		}
		o.Fires = o.Fires[:runs]
		return o
	}
	o.Next, _ = p.Cursor(end, now)
	return o
}
