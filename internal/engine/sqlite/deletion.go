package sqlite

import (
	"cmp"
	"context"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlstore"
)

const (
	deleteJobSQL = "UPDATE jobs SET state = 4, revision = revision + 1, updated_at = ? WHERE tenant = ? AND id = ? AND state <> 4"
	unplanSQL    = "UPDATE schedules SET next_run_at = NULL, active = 0, revision = revision + 1 WHERE tenant = ? AND job = ?"
	isDeletedSQL = "SELECT 1 FROM jobs WHERE tenant = ? AND id = ? AND state = 4"
	restSQL      = "SELECT id FROM operations WHERE tenant = ? AND kind = ? AND spec = ? AND finished_at IS NULL ORDER BY created_at LIMIT 1"
	leftSQL      = "SELECT count(*) FROM (SELECT 1 FROM live WHERE job = ? AND id <> job AND tenant = ? AND lease <= 0 LIMIT ?)"
)

// DeleteJob marks a job deleted, cancels as many of its waiting executions as one transaction may, and leaves running
// ones alone.
func (s *jobs) DeleteJob(ctx context.Context, t tenant.ID, d engine.Deletion) (engine.Deleted, error) {
	var out engine.Deleted
	err := s.write(ctx, "delete a job", func(c *conn, now int64) error {
		out = engine.Deleted{}
		if _, err := c.prepare(deleteJobSQL).at(d.AsOf).text(string(t)).id(d.Job).exec(); err != nil {
			return err
		}
		if err := sqlstore.Unheld(transaction{c, now}, t, d.Job); err != nil {
			return err
		}
		if err := sqlstore.Unused(transaction{c, now}, t, d.Job); err != nil {
			return err
		}
		if _, err := c.prepare(unplanSQL).text(string(t)).id(d.Job).exec(); err != nil {
			return err
		}
		if _, err := c.prepare(stayDeadSQL).text(string(t)).id(d.Job).exec(); err != nil {
			return err
		}
		if _, err := c.prepare(outliveJobSQL).int(now + engine.PastLife.Microseconds()).text(string(t)).id(d.Job).exec(); err != nil {
			return err
		}
		most := cmp.Or(d.Most, engine.CancelsAtOnce)
		var err error
		if out.Ended, err = cancelWaiting(c, now, t, d.Job, most); err != nil {
			return err
		}
		if d.Rest != nil && len(out.Ended) == most {
			if out.Rest, err = addRest(c, t, d); err != nil {
				return err
			}
		}
		if out.Job, err = findJob(c, t, engine.Ref{ID: d.Job}); err != nil {
			return err
		}
		return record(c, d.Entry)
	})
	if err != nil {
		return engine.Deleted{}, err
	}
	return out, nil
}

// addRest adds the operation of a deletion if more executions wait, unless it is running already.
func addRest(c *conn, t tenant.ID, d engine.Deletion) (rest job.OperationID, err error) {
	o := *d.Rest
	if _, err := c.prepare(leftSQL).id(d.Job).text(string(t)).int(engine.WaitingCounted).first(func(r *row) error {
		o.Total = r.int64()
		return nil
	}); err != nil || o.Total == 0 {
		return rest, err
	}
	runs, err := c.prepare(restSQL).text(string(t)).text(string(o.Kind)).args([]any{o.Spec}).first(func(r *row) error {
		rest = r.id()
		return nil
	})
	if err != nil || runs {
		return rest, err
	}
	return o.ID, sqlstore.AddOperation(transaction{c: c}, &o)
}

// CancelWaiting cancels waiting executions of a deleted job.
func (s *jobs) CancelWaiting(ctx context.Context, t tenant.ID, of job.ID, limit int) (ended []engine.Ended, err error) {
	err = s.write(ctx, "cancel what waits of a deleted job", func(c *conn, now int64) error {
		deleted, err := c.prepare(isDeletedSQL).text(string(t)).id(of).first(nothing)
		if err != nil || !deleted {
			return err
		}
		ended, err = cancelWaiting(c, now, t, of, max(limit, 0))
		return err
	})
	if err != nil {
		return nil, err
	}
	return ended, nil
}

// cancelWaiting ends up to most waiting executions of a job.
func cancelWaiting(c *conn, now int64, t tenant.ID, of job.ID, most int) ([]engine.Ended, error) {
	h := telling(c, now)
	if err := h.cancelWaiting(t, of, most); err != nil {
		return nil, err
	}
	return h.told, h.tally()
}
