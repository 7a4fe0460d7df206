// Package schedule says when jobs fire. It is pure: instants in, instants out.
//
// A schedule of one instant has a first and nothing after it; recurring
// schedules will compile here to something with a Next.
package schedule

import (
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// First is the instant at which a schedule created at the given instant fires first.
func First(s job.Schedule, created time.Time) time.Time {
	if s.Type == job.OneTime {
		return s.At
	}
	return created
}

// Next is the instant after the given one, and false when there is none.
func Next(s job.Schedule, after time.Time) (time.Time, bool) {
	if s.Type == job.OneTime && after.Before(s.At) {
		return s.At, true
	}
	return time.Time{}, false
}
