package schedule

import "time"

// HerdAhead is how early executions of plain schedules may be prepared if more are due at once than can be fired
// within the look-ahead. They never run early.
const HerdAhead = time.Minute
