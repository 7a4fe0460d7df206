package sqlite

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// lateSQL finds executions that never started and no longer may.
const lateSQL = "SELECT tenant, id FROM live INDEXED BY live_expires WHERE expires_at IS NOT NULL AND expires_at <= ? AND started_at IS NULL AND lease <= 0 ORDER BY expires_at"

// inTime selects executions that may still start: they have started before, or their time to start has not passed.
const inTime = "(expires_at IS NULL OR expires_at > ? OR started_at IS NOT NULL)"

// expired is the end of executions that did not start in time.
var expired = engine.EncodeEnd(engine.ExpiredInTime(), nil)

// Expire ends executions that never started and whose time to start has passed, as EXPIRED.
func (s *leases) Expire(ctx context.Context, limit int) (ended []engine.Ended, err error) {
	if limit <= 0 {
		return nil, nil
	}
	err = s.write(ctx, "expire executions", func(c *conn, now int64) error {
		type late struct {
			tenant tenant.ID
			id     job.ExecutionID
		}
		var ls []late
		_, err := c.prepare(lateSQL).int(now).until(func(r *row) (bool, error) {
			ls = append(ls, late{tenant.ID(r.text()), r.id()})
			return len(ls) >= limit, nil
		})
		if err != nil {
			return err
		}
		h := telling(c, now)
		for _, l := range ls {
			if _, err := h.endAlone(l.tenant, l.id, job.Expired, expired); err != nil {
				return err
			}
		}
		ended = h.told
		return h.tally()
	})
	if err != nil {
		return nil, err
	}
	return ended, nil
}
