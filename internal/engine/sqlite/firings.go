package sqlite

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

const (
	dueSQL = "SELECT " + definitionColumns + `, j.target FROM jobs j INDEXED BY jobs_due
		WHERE j.next_run_at IS NOT NULL AND j.next_run_at <= ? AND j.state = 1 ORDER BY j.next_run_at` // no LIMIT ?, as in readySQL
	moveSQL = "UPDATE jobs SET next_run_at = ? WHERE tenant = ? AND id = ? AND next_run_at = ? AND revision = ? AND state = 1"
	oneFire = " ON CONFLICT (job, scheduled_at, nonce) WHERE id <> job DO NOTHING"
)

// Due lists jobs whose next instant is at or before until, the earliest first.
func (s *Store) Due(ctx context.Context, until time.Time, limit int) ([]engine.Due, error) {
	if limit <= 0 {
		return nil, nil
	}
	var out []engine.Due
	err := s.look(ctx, "find what is due", func(c *conn) error {
		_, err := c.prepare(dueSQL).int(until.UnixMicro()).until(func(r *row) (bool, error) {
			j, err := readDefinition(r)
			if err != nil {
				return false, err
			}
			j.Target, err = engine.DecodeTarget(r.bytes())
			out = append(out, engine.Due{Job: j, Revision: j.Revision})
			return len(out) >= limit, err
		})
		return err
	})
	return out, err
}

// Fire moves each job's next instant by compare-and-set and stores the executions of those that moved.
func (s *Store) Fire(ctx context.Context, fs []engine.Firing) ([]job.Ready, error) {
	if len(fs) == 0 {
		return nil, nil
	}
	var out []job.Ready
	err := s.write(ctx, "fire", func(c *conn, now int64) error {
		move, into, h := c.prepare(moveSQL), inserting(c, oneFire), newHistory(c, now)
		for i := range fs {
			f := &fs[i]
			moved, err := move.at(f.Next).text(string(f.Tenant)).id(f.Job).at(f.Was).int(int64(f.Revision)).exec()
			if err != nil {
				return err
			}
			if moved == 0 {
				continue
			}
			for n := range f.Executions {
				e := &f.Executions[n]
				stored, err := h.fire(into, f, e)
				if err != nil {
					return err
				}
				if stored {
					r := e.Ready()
					r.Tenant, r.DueAt = f.Tenant, e.DueAt.UTC().Truncate(time.Microsecond)
					out = append(out, r)
				}
			}
		}
		if err := h.tally(); err != nil {
			return err
		}
		return failpoint.Hit("sched.afterInsertBeforeCommit")
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// fire stores an execution of a firing, and reports whether it waits to be leased: not where it is there already, and where
// another holds its unique key it ends as SKIPPED.
func (h *history) fire(into inserter, f *engine.Firing, e *job.Execution) (stored bool, err error) {
	if e.UniqueKey == "" {
		return into.insert(f.Tenant, e)
	}
	_, taken, err := holder(h.conn, f.Tenant, e.UniqueKey)
	if err != nil {
		return false, err
	}
	if !taken {
		return into.insert(f.Tenant, e)
	}
	keyless := *e
	keyless.UniqueKey = ""
	if stored, err = into.insert(f.Tenant, &keyless); err != nil || !stored {
		return false, err
	}
	_, err = h.endAlone(f.Tenant, e.ID, job.Skipped, engine.EncodeEnd(engine.HeldUnique(e.UniqueKey), nil))
	return false, err
}
