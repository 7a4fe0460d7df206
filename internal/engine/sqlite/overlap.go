package sqlite

import (
	"math"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	// ofSchedule selects unfinished executions that the schedule of a job fired.
	ofSchedule = "(id = ?1 OR job = ?1 AND id <> job) AND job = ?1 AND tenant = ?2 AND nonce = 0"

	anyFireSQL  = "SELECT 1 FROM live WHERE " + ofSchedule
	freeFireSQL = anyFireSQL + " AND lease <= 0 AND tries = 0 AND started_at IS NULL" // one that started and is retried counts as running

	// replacedSQL lists the waiting and running executions that a job's schedule fired for earlier instants.
	replacedSQL = "SELECT id FROM live WHERE " + ofSchedule + " AND trigger IN (1, 3) AND scheduled_at < ?3 AND (lease > 0) = ?4"

	// recordSQL stores a record of instants that did not fire: an execution that was never live.
	recordSQL = `
		INSERT INTO executions (id, job, status, token, finished_at, scheduled_at, due_at, attempt, tries, lost, max_attempts, part, priority, trigger, tenant,
			payload, ending)
		VALUES (?, ?, ?, 0, ?, ?, ?, 0, 0, 0, ?, ?, ?, ?, ?, ?, ?)`
)

// overlaps reports whether, under the job's overlap policy, an earlier fire blocks a firing.
func overlaps(c *conn, f *engine.Firing) (bool, error) {
	sql := ""
	switch f.Overlap {
	case job.OverlapSkip:
		sql = anyFireSQL
	case job.OverlapQueue:
		sql = freeFireSQL
	default: // executions run concurrently, or the earlier ones are replaced
		return false, nil
	}
	return c.prepare(sql).id(f.Job).text(string(f.Tenant)).first(nothing)
}

// replaces reports whether a firing replaces what its job fired before.
func replaces(f *engine.Firing) bool { return f.Overlap == job.OverlapReplace && len(f.Executions) > 0 }

// replaceWaiting cancels up to room of the waiting executions that a firing replaces, and returns how many it
// cancelled.
func (h *history) replaceWaiting(f *engine.Firing, most int) (int, error) {
	return h.replaced(f, false, most, func(id job.ExecutionID, why string) error {
		_, err := h.endAlone(f.Tenant, id, job.Cancelled, askedToStop(why))
		return err
	})
}

// replaceRunning asks the running ones to stop.
func (h *history) replaceRunning(f *engine.Firing) error {
	if !replaces(f) {
		return nil
	}
	_, err := h.replaced(f, true, math.MaxInt, func(id job.ExecutionID, why string) error {
		_, err := ask(h, f.Tenant, id, why)
		return err
	})
	return err
}

// replaced calls do with up to limit of the running, or of the waiting, executions that a firing replaces.
func (h *history) replaced(f *engine.Firing, running bool, most int, do func(id job.ExecutionID, why string) error) (int, error) {
	if most <= 0 {
		return 0, nil
	}
	before := f.Executions[0].ScheduledAt
	var ids []job.ExecutionID
	_, err := h.prepare(replacedSQL).id(f.Job).text(string(f.Tenant)).at(before).bool(running).until(func(r *row) (bool, error) {
		ids = append(ids, r.id())
		return len(ids) >= most, nil
	})
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		if err := do(id, engine.ReplacedBy(before)); err != nil {
			return 0, err
		}
	}
	return len(ids), nil
}

// skip stores an execution of a firing as SKIPPED, unless it exists already. It drops its unique key, which another
// may hold.
func (h *history) skip(into inserter, f *engine.Firing, e *job.Execution, ending []byte) error {
	keyless := *e
	keyless.UniqueKey = ""
	stored, err := into.insert(f.Tenant, &keyless)
	if err != nil || !stored {
		return err
	}
	_, err = h.endAlone(f.Tenant, e.ID, job.Skipped, ending)
	return err
}

// record stores the records of a firing's instants that did not fire, unchanged.
func (h *history) record(f *engine.Firing) error {
	for i := range f.Skips {
		e := &f.Skips[i]
		_, err := h.prepare(recordSQL).id(e.ID).id(f.Job).int(int64(e.Status)).at(e.FinishedAt).at(e.ScheduledAt).at(e.DueAt).
			int(int64(e.MaxAttempts)).int(int64(e.Partition)).int(int64(e.Priority)).int(int64(e.Trigger)).text(string(f.Tenant)).
			bytes(e.Payload).bytes(engine.EncodeSkip(e.Metadata)).exec()
		if err != nil {
			return err
		}
		h.told = append(h.told, engine.Ended{Owned: engine.Owned{Execution: e.ID, Tenant: f.Tenant, Job: f.Job, Trigger: e.Trigger, ScheduledAt: e.ScheduledAt}, Status: e.Status})
	}
	return nil
}
