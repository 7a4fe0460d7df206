package job

import (
	"strconv"
	"time"
)

// SkipReason is the reason why an instant did not fire.
type SkipReason string

// The reasons why instants do not fire.
const (
	SkipOverlap SkipReason = "overlap" // an earlier fire had not finished
	SkipMissed  SkipReason = "missed"  // it passed while no server was running, and is not caught up
	SkipPause   SkipReason = "pause"   // it passed while the job was paused, and is not caught up
	SkipUnique  SkipReason = "unique"  // another execution held its unique key
)

// Stretch is a run of instants of one schedule.
type Stretch struct {
	From, To time.Time // both among them
	Count    int64
}

// Skip is the record of instants that did not fire: an execution that has finished as SKIPPED at an instant.
func (j Job) Skip(id ExecutionID, s Stretch, why SkipReason, now time.Time) Execution {
	e := j.Fire(id, s.From, now)
	e.Status, e.DueAt, e.FinishedAt, e.Metadata = Skipped, s.From, now, map[string]string{"reason": string(why)}
	if s.Count > 1 {
		e.Metadata["from"], e.Metadata["to"] = s.From.UTC().Format(time.RFC3339), s.To.UTC().Format(time.RFC3339)
		e.Metadata["count"] = strconv.FormatInt(s.Count, 10)
	}
	return e
}
