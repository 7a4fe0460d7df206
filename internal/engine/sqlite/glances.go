package sqlite

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	liveRun = "SELECT v.id, " + liveStatus + ", v.scheduled_at, v.started_at, NULL FROM live v"
	pastRun = "SELECT v.id, v.status, v.scheduled_at, v.started_at, v.finished_at FROM executions v"
	ofJob   = " WHERE v.job = ?1 AND v.id <> v.job AND v.tenant = ?2 AND v.scheduled_at >= ?3"
	ownRun  = " WHERE v.id = ?1 AND v.id = v.job AND v.tenant = ?2 AND v.scheduled_at >= ?3"
	lately  = " AND v.finished_at >= ?3"
	lastN   = " ORDER BY v.scheduled_at DESC, v.id DESC LIMIT ?4"
	oneRun  = " LIMIT ?4"

	whoseLiveSQL = "SELECT tenant, job, trigger, scheduled_at FROM live WHERE id = ?"
	whosePastSQL = "SELECT tenant, job, trigger, scheduled_at FROM executions INDEXED BY executions_id WHERE id = ? AND finished_at >= ? LIMIT 1"

	nameSQL = "SELECT name FROM jobs WHERE tenant = ? AND id = ?"

	// Those of other tenants are examined, too, but no more than countedLate.
	lateSchedulesSQL = "SELECT tenant, job FROM schedules INDEXED BY schedules_due WHERE active = 1 AND next_run_at IS NOT NULL AND next_run_at < ? ORDER BY next_run_at" // no LIMIT ?, as in readySQL
	lateJobSQL       = "SELECT " + definitionColumns + " FROM jobs j CROSS JOIN schedules s WHERE j.tenant = ? AND j.id = ? AND s.job = j.id AND s.next_run_at IS NOT NULL"
	countedLate      = 10_000

	deadErrorColumns = "d.execution, d.job, d.reason, d.at, d.message, v.ending"
)

// recentRuns are the statements that together find a job's last executions.
var recentRuns = []string{
	liveRun + " INDEXED BY live_fire" + ofJob + lastN, liveRun + ownRun + oneRun,
	pastRun + " INDEXED BY executions_job" + ofJob + lately + lastN, pastRun + " INDEXED BY executions_id" + ownRun + lately + oneRun,
}

// Recent lists the last executions of each job.
func (s *reads) Recent(ctx context.Context, t tenant.ID, ids []job.ID, n int, since time.Time) ([][]engine.Run, error) {
	out := make([][]engine.Run, len(ids))
	err := s.look(ctx, "list the last executions", func(c *conn) error {
		for i, of := range ids {
			var all []engine.Run
			for _, sql := range recentRuns {
				err := c.prepare(sql).id(of).text(string(t)).int(since.UnixMicro()).int(int64(n)).each(func(r *row) error {
					all = append(all, engine.Run{ID: r.id(), Status: job.Status(r.int()), ScheduledAt: r.at(), StartedAt: r.at(), FinishedAt: r.at()})
					return nil
				})
				if err != nil {
					return err
				}
			}
			slices.SortFunc(all, func(a, b engine.Run) int {
				return cmp.Or(b.ScheduledAt.Compare(a.ScheduledAt), slices.Compare(b.ID[:], a.ID[:]))
			})
			out[i] = all[:min(n, len(all))]
		}
		return nil
	})
	return out, err
}

// Whose returns the tenants and jobs of executions.
func (s *reads) Whose(ctx context.Context, ids []job.ExecutionID, since time.Time) ([]engine.Owned, error) {
	var out []engine.Owned
	err := s.look(ctx, "find whose executions are", func(c *conn) error {
		for _, id := range ids {
			read := func(r *row) error {
				out = append(out, engine.Owned{Execution: id, Tenant: tenant.ID(r.text()), Job: r.id(), Trigger: job.Trigger(r.int()), ScheduledAt: r.at()})
				return nil
			}
			lives, err := c.prepare(whoseLiveSQL).id(id).first(read)
			if err == nil && !lives {
				_, err = c.prepare(whosePastSQL).id(id).int(since.UnixMicro()).first(read)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// Names returns the names of jobs.
func (s *reads) Names(ctx context.Context, t tenant.ID, ids []job.ID) (map[job.ID]string, error) {
	out := make(map[job.ID]string, len(ids))
	err := s.look(ctx, "read names", func(c *conn) error {
		for _, id := range ids {
			_, err := c.prepare(nameSQL).text(string(t)).id(id).first(func(r *row) error {
				out[id] = r.text()
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// LateJobs lists the tenant's jobs that are due but have not fired.
func (s *reads) LateJobs(ctx context.Context, t tenant.ID, before time.Time, limit int) (engine.JobPage, error) {
	var out engine.JobPage
	err := s.look(ctx, "list jobs that are late", func(c *conn) error {
		seen := 0
		var ids []job.ID
		_, err := c.prepare(lateSchedulesSQL).int(before.UnixMicro()).until(func(r *row) (bool, error) {
			if tenant.ID(r.text()) == t {
				if out.Total.Count++; len(ids) < limit {
					ids = append(ids, r.id())
				}
			}
			seen++
			return seen >= countedLate, nil
		})
		if err != nil {
			return err
		}
		out.Total.Estimate = seen >= countedLate
		for _, id := range ids {
			_, err := c.prepare(lateJobSQL).text(string(t)).id(id).first(func(r *row) error {
				j, err := readDefinition(r)
				out.Jobs = append(out.Jobs, j)
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// DeadErrors lists the errors of the latest dead letters.
func (s *reads) DeadErrors(ctx context.Context, f engine.DeadLetterFilter, p engine.Page) (engine.Listed[engine.DeadError], error) {
	var out engine.Listed[engine.DeadError]
	p.Uncounted = true
	err := s.look(ctx, "list what died of what", func(c *conn) (err error) {
		out, err = engine.List(p, deadListing(c, f, deadErrorColumns, func(r *row) (engine.DeadError, error) {
			d := engine.DeadError{Execution: r.id(), Job: r.id(), Reason: job.DeadReason(r.text()), At: r.at()}
			message := r.text()
			var err error
			if d.Error, _, err = engine.DecodeEnd(r.bytes()); d.Error == nil && message != "" {
				d.Error = &job.Error{Message: message}
			}
			return d, err
		}), func(d *engine.DeadError) engine.Place { return engine.Place{At: d.At, ID: d.Execution} })
		return err
	})
	return out, err
}
