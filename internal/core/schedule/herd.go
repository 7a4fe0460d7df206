package schedule

import "time"

// HerdAhead is how early executions of plain schedules are staged at the most, where more is due at once than can be
// fired within the look-ahead. They never run early.
const HerdAhead = time.Minute
