package sqlite

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	// oldPastSQL uses the scheduled time, for which there is an index: executions scheduled later have not finished
	// before.
	oldPastSQL = `
		SELECT rowid, id, scheduled_at, finished_at FROM executions INDEXED BY executions_tenant
		WHERE tenant = ?1 AND scheduled_at < ?2 AND status > 0 AND (scheduled_at, id) > (?3, ?4) ORDER BY scheduled_at, id LIMIT ?5`
	forgetPastSQL = "DELETE FROM executions WHERE rowid = ?"
)

// forgetWith lists what is deleted with an execution.
var forgetWith = []string{
	"DELETE FROM attempts WHERE execution = ?", "DELETE FROM events WHERE execution = ?", "DELETE FROM logs WHERE execution = ?", "DELETE FROM dead_letters WHERE execution = ?",
}

// ForgetHistory drops executions of a tenant that finished before an instant. Executions scheduled before and
// finished later are skipped, and not examined again until all others were.
func (s *upkeep) ForgetHistory(ctx context.Context, t tenant.ID, before time.Time, limit int) (engine.Forgot, error) {
	type past struct {
		row int64
		id  job.ExecutionID
	}
	var out engine.Forgot
	var from engine.Place
	if p, ok := s.forgotten.Load(t); ok {
		from = p.(engine.Place)
	}
	var last engine.Place
	err := s.write(ctx, "forget history", func(c *conn, _ int64) error {
		out, last = engine.Forgot{}, engine.Place{}
		var old []past
		start := int64(-1 << 62)
		if !from.IsZero() {
			start = from.At.UnixMicro()
		}
		seen := 0
		err := c.prepare(oldPastSQL).text(string(t)).int(before.UnixMicro()).int(start).id(from.ID).int(int64(limit)).each(func(r *row) error {
			seen++
			x := past{r.int64(), r.id()}
			last = engine.Place{At: r.at(), ID: x.id}
			if r.at().Before(before) {
				old = append(old, x)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if seen < limit {
			last = engine.Place{} // from the start, next time
		}
		out.More = seen == limit
		for _, x := range old {
			if _, err := c.prepare(forgetPastSQL).int(x.row).exec(); err != nil {
				return err
			}
			for _, sql := range forgetWith {
				if _, err := c.prepare(sql).id(x.id).exec(); err != nil {
					return err
				}
			}
		}
		out.N = len(old)
		return nil
	})
	if err != nil {
		return engine.Forgot{}, err
	}
	s.forgotten.Store(t, last)
	return out, nil
}
