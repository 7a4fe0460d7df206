package sqlite

import (
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	// ofSchedule chooses what the schedule of a job has fired and has not finished.
	ofSchedule = "job = ? AND tenant = ? AND nonce = 0"

	anyFireSQL  = "SELECT 1 FROM live INDEXED BY live_fire WHERE " + ofSchedule
	freeFireSQL = anyFireSQL + " AND lease <= 0"

	// recordSQL stores a record of instants that did not fire: an execution that was never live.
	recordSQL = `
		INSERT INTO executions (id, job, status, token, finished_at, scheduled_at, due_at, attempt, tries, lost, max_attempts, part, priority, trigger, tenant,
			payload, ending)
		VALUES (?, ?, ?, 0, ?, ?, ?, 0, 0, 0, ?, ?, ?, ?, ?, ?, ?)`
)

// overlaps reports whether an earlier fire of the job is in the way of a firing, by its overlap policy.
func overlaps(c *conn, f *engine.Firing) (bool, error) {
	sql := ""
	switch f.Overlap {
	case job.OverlapSkip:
		sql = anyFireSQL
	case job.OverlapQueue:
		sql = freeFireSQL
	default: // executions run at once, or the earlier ones are cancelled by whoever fires
		return false, nil
	}
	return c.prepare(sql).id(f.Job).text(string(f.Tenant)).first(nothing)
}

// skip stores an execution of a firing as SKIPPED, unless it is there already. It has no unique key, which another may hold.
func (h *history) skip(into inserter, f *engine.Firing, e *job.Execution, fires time.Time, ending []byte) error {
	keyless := *e
	keyless.UniqueKey = ""
	stored, err := into.insert(f.Tenant, f.Job, &keyless, fires)
	if err != nil || !stored {
		return err
	}
	_, err = h.endAlone(f.Tenant, e.ID, job.Skipped, ending)
	return err
}

// record stores the records of a firing's instants that did not fire, as they are.
func (h *history) record(f *engine.Firing, fires time.Time) error {
	for i := range f.Skips {
		e := &f.Skips[i]
		_, err := h.prepare(recordSQL).id(e.ID).id(f.Job).int(int64(e.Status)).at(e.FinishedAt).at(e.ScheduledAt).at(e.DueAt).
			int(int64(e.MaxAttempts)).int(int64(e.Partition)).int(int64(e.Priority)).int(int64(e.Trigger)).text(string(f.Tenant)).
			bytes(e.Payload).bytes(engine.EncodeSkip(e.Metadata)).exec()
		if err != nil {
			return err
		}
		if !own(e, fires) {
			h.of(jobRef{f.Tenant, f.Job}).add(e.Status, time.Time{}, e.FinishedAt)
		}
	}
	return nil
}
