package sqlite

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Trigger adds one execution to an existing job. An execution added by an earlier call is not stored again.
func (s *jobs) Trigger(ctx context.Context, t tenant.ID, x job.Execution, i engine.Idempotency, e *audit.Entry) (engine.Created, error) {
	var out engine.Created
	err := s.write(ctx, "trigger", func(c *conn, now int64) error {
		var known bool
		var err error
		if out, known, err = recall(c, t, &i, now); err != nil || known {
			return err
		}
		ok, err := exists(c, "SELECT 1 FROM jobs WHERE tenant = ? AND id = ? AND state <> 4", t, x.Job)
		if err != nil {
			return err
		}
		if !ok {
			return engine.ErrNotFound
		}
		past, err := exists(c, "SELECT 1 FROM executions WHERE tenant = ? AND id = ?", t, x.ID)
		if err != nil {
			return err
		}
		if x.UniqueKey != "" && !past {
			in, taken, err := holder(c, t, x.UniqueKey)
			if err != nil {
				return err
			}
			if taken && in.Execution != x.ID {
				out.Unique = []engine.Incumbent{in}
				return nil
			}
		}
		if err := remember(c, t, &i); err != nil {
			return err
		}
		if !past {
			if _, err = inserting(c, " ON CONFLICT (id) DO NOTHING").insert(t, &x); err != nil {
				return err
			}
		}
		return record(c, e)
	})
	return out, err
}
