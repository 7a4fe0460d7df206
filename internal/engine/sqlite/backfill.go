package sqlite

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Backfill adds executions of one existing job for instants of its schedule, and returns those that exist.
func (s *jobs) Backfill(ctx context.Context, t tenant.ID, of job.ID, es []job.Execution) ([]job.ExecutionID, error) {
	var out []job.ExecutionID
	err := s.write(ctx, "backfill", func(c *conn, _ int64) error {
		ok, err := exists(c, "SELECT 1 FROM jobs WHERE tenant = ? AND id = ? AND state <> 4", t, of)
		if err != nil {
			return err
		}
		if !ok {
			return engine.ErrNotFound
		}
		into := inserting(c, oneFire)
		for i := range es {
			e := &es[i]
			there, err := knows(c, t, e.ID)
			if err == nil && !there {
				there, err = fillIn(c, into, t, e)
			}
			if err != nil {
				return err
			}
			if there {
				out = append(out, e.ID)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// fillIn adds an execution, and reports whether nothing conflicted with it.
func fillIn(c *conn, into inserter, t tenant.ID, e *job.Execution) (bool, error) {
	if e.UniqueKey != "" {
		if _, taken, err := holder(c, t, e.UniqueKey); err != nil || taken {
			return false, err
		}
	}
	return into.insert(t, e)
}
