package schedule

import "time"

// HerdAhead limits how early executions of plain schedules are prepared, where more is due at once than can be
// fired within the look-ahead. They never run early.
const HerdAhead = time.Minute
