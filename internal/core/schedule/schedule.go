// Package schedule computes when jobs fire. It is pure: instants in, instants out; the caller provides the function
// that loads zones.
//
// A cron expression is compiled once (Parse, or Cache.Cron, which shares what it compiled), and then answers Next. A
// Plan adds what stands around an expression or an interval: anchor, start, end and a Calendar of exclusions. Its
// Next, Preview and Lint work on nominal instants; Jitter says how long after one the job fires.
//
// The flow of Next: the zone's table gives the offset and how long it holds; masks give the next local second that
// matches; only when that second lies beyond the offset's end are the rules for gaps and overlaps asked.
//
// A schedule of one instant (First and Next of a job.Schedule) has a first and nothing after it.
package schedule

import (
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// First returns the instant at which a schedule created at the given instant fires first.
func First(s job.Schedule, created time.Time) time.Time {
	if s.Type == job.OneTime {
		return s.At
	}
	return created
}

// Next returns the instant after the given one, and false if there is none.
func Next(s job.Schedule, after time.Time) (time.Time, bool) {
	if s.Type == job.OneTime && after.Before(s.At) {
		return s.At, true
	}
	return time.Time{}, false
}
