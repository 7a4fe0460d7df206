package sqlite

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Trigger adds one execution to an existing job. An execution that has been here before is not stored again.
func (s *Store) Trigger(ctx context.Context, t tenant.ID, e job.Execution, i engine.Idempotency) (engine.Created, error) {
	var out engine.Created
	err := s.write(ctx, "trigger", func(c *conn, now int64) error {
		var known bool
		var err error
		if out, known, err = recall(c, t, &i, now); err != nil || known {
			engine.Unchanged(ctx)
			return err
		}
		ok, err := exists(c, "SELECT 1 FROM jobs WHERE tenant = ? AND id = ? AND state <> 4", t, e.Job)
		if err != nil {
			return err
		}
		if !ok {
			return engine.ErrNotFound
		}
		past, err := exists(c, "SELECT 1 FROM executions WHERE tenant = ? AND id = ?", t, e.ID)
		if err != nil {
			return err
		}
		if e.UniqueKey != "" && !past {
			in, taken, err := holder(c, t, e.UniqueKey)
			if err != nil {
				return err
			}
			if taken && in.Execution != e.ID {
				out.Unique = []engine.Incumbent{in}
				engine.Unchanged(ctx)
				return nil
			}
		}
		if err := remember(c, t, &i); err != nil || past {
			return err
		}
		_, err = inserting(c, " ON CONFLICT (id) DO NOTHING").insert(t, &e)
		return err
	})
	return out, err
}
