package sqlite

import (
	"context"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

const (
	dueSQL = "SELECT " + definitionColumns + `, j.target FROM jobs j INDEXED BY jobs_due
		WHERE j.next_run_at IS NOT NULL AND j.next_run_at <= ? AND j.state = 1 ORDER BY j.next_run_at`
	moveSQL = "UPDATE jobs SET next_run_at = ?, runs = runs + ? WHERE tenant = ? AND id = ? AND next_run_at = ? AND revision = ? AND state = 1 RETURNING fires_at"
	oneFire = " ON CONFLICT (job, scheduled_at, nonce) DO NOTHING"
)

// Due lists jobs of the partitions (none: of all) whose next instant is at or before until, the earliest first. Others are
// passed over one by one: whoever has this store alone asks for all.
func (s *Store) Due(ctx context.Context, ps []job.Partition, until time.Time, limit int) ([]engine.Due, error) {
	if limit <= 0 {
		return nil, nil
	}
	var out []engine.Due
	err := s.look(ctx, "find what is due", func(c *conn) error {
		_, err := c.prepare(dueSQL).int(until.UnixMicro()).until(func(r *row) (bool, error) {
			j, err := readDefinition(r)
			if err != nil || len(ps) > 0 && !slices.Contains(ps, job.PartitionOf(j.ID)) {
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

// Fire moves each job's next instant by compare-and-set and stores the executions of those that moved. The fence lets
// everything through: this process has the store alone.
func (s *Store) Fire(ctx context.Context, fs []engine.Firing, _ engine.Fence) ([]job.Ready, error) {
	if len(fs) == 0 {
		return nil, nil
	}
	var out []job.Ready
	err := s.write(ctx, "fire", func(c *conn, now int64) error {
		move, into, h := c.prepare(moveSQL), inserting(c, oneFire), newHistory(c, now)
		for i := range fs {
			f := &fs[i]
			var fires time.Time
			moved, err := move.at(f.Next).int(f.Runs).text(string(f.Tenant)).id(f.Job).at(f.Was).int(int64(f.Revision)).first(func(r *row) error {
				fires = r.at()
				return nil
			})
			if err != nil {
				return err
			}
			if !moved {
				continue
			}
			if err := h.record(f, fires); err != nil {
				return err
			}
			busy, err := overlaps(c, f)
			if err != nil {
				return err
			}
			for n := range f.Executions {
				e := &f.Executions[n]
				stored, err := h.fire(into, f, e, fires, busy)
				if err != nil {
					return err
				}
				if stored {
					busy = f.Overlap == job.OverlapSkip || f.Overlap == job.OverlapQueue
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
// an earlier fire is in its way, or another holds its unique key, it ends as SKIPPED.
func (h *history) fire(into inserter, f *engine.Firing, e *job.Execution, fires time.Time, busy bool) (stored bool, err error) {
	if busy {
		return false, h.skip(into, f, e, fires, engine.Overlapped())
	}
	if e.UniqueKey == "" {
		return into.insert(f.Tenant, f.Job, e, fires)
	}
	_, taken, err := holder(h.conn, f.Tenant, e.UniqueKey)
	if err != nil {
		return false, err
	}
	if !taken {
		return into.insert(f.Tenant, f.Job, e, fires)
	}
	return false, h.skip(into, f, e, fires, engine.EncodeEnd(engine.HeldUnique(e.UniqueKey), nil))
}
