package sqlite

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	parkSQL = "UPDATE live SET parked_until = ?4" + heldBy + " RETURNING tenant, attempt, worker, cancel_at IS NOT NULL AND class <> 'workflow'"
)

// Park leaves executions to their targets, under their leases.
func (s *leases) Park(ctx context.Context, ps []engine.Parking) ([]job.Verdict, error) {
	out := make([]job.Verdict, len(ps))
	err := s.write(ctx, "park", func(c *conn, now int64) error {
		h := newHistory(c, now)
		for i := range ps {
			p := &ps[i]
			var t tenant.ID
			asked := false
			e := job.Event{Kind: job.EventParked, Token: p.Token}
			parked, err := c.prepare(parkSQL).id(p.Execution).int(int64(p.Token)).idOrNull(p.Worker).int(p.Until.UnixMicro()).first(func(r *row) error {
				t, e.Attempt, e.Worker, asked = tenant.ID(r.text()), r.int(), r.id(), r.bool()
				return nil
			})
			if err != nil {
				return err
			}
			if out[i] = (job.Verdict{Execution: p.Execution, Accepted: true}); parked {
				err = tell(c, now, t, p.Execution, e)
				if err == nil && asked {
					_, err = cancelled(h, p.Lease, 0, nil)
				}
			} else {
				out[i], err = judge(h, &job.Finish{Outcome: p.Outcome, Worker: p.Worker})
			}
			if err != nil {
				return err
			}
		}
		return h.tally()
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
