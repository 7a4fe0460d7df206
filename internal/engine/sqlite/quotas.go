package sqlite

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	findCountSQL = "SELECT active, counted_at FROM job_counts WHERE tenant = ?"
	addCountSQL  = "UPDATE job_counts SET active = active + ? WHERE tenant = ? AND active + ? <= ?"
	keepCountSQL = `
		INSERT INTO job_counts (tenant, active, counted_at) VALUES (?, ?, ?)
		ON CONFLICT (tenant) DO UPDATE SET active = excluded.active, counted_at = excluded.counted_at`
	// The jobs that have an unfinished execution, in a partition, and those that are planned, or wait to be triggered
	// (5).
	liveJobsSQL    = "SELECT DISTINCT job FROM live INDEXED BY live_lane WHERE part = ? AND tenant = ?"
	plannedJobsSQL = `SELECT j.id FROM jobs j INDEXED BY jobs_planned CROSS JOIN schedules s
		WHERE j.tenant = ?1 AND j.kind <> 1 AND j.state < 4 AND s.job = j.id AND s.next_run_at IS NOT NULL
		UNION ALL SELECT j.id FROM jobs j INDEXED BY jobs_kind WHERE j.tenant = ?1 AND j.kind = 5 AND j.kind <> 1 AND j.state <> 5 AND j.state < 4`
)

// takeRoom adds the jobs of a creation to the count of its tenant, if that does not exceed the maximum.
func takeRoom(c *conn, x *prepared) (bool, error) {
	n := int64(len(x.jobs))
	if x.Most <= 0 || n == 0 {
		return true, nil
	}
	if stored, err := exists(c, "SELECT 1 FROM jobs WHERE tenant = ? AND id = ?", x.Tenant, x.jobs[0].ID); err != nil || stored {
		return stored, err // this very call was made before
	}
	changed, err := c.prepare(addCountSQL).int(n).text(string(x.Tenant)).int(n).int(x.Most).exec()
	return changed > 0, err
}

// CountJobs recounts the active jobs of a tenant, unless that was just done. It counts in pieces while others write:
// what they create meanwhile is added to the count, even if a piece has seen it.
func (s *leases) CountJobs(ctx context.Context, t tenant.ID) (n int64, err error) {
	var before, at int64
	var known, fresh bool
	err = s.look(ctx, "count jobs", func(c *conn) (err error) {
		known, err = c.prepare(findCountSQL).text(string(t)).first(func(r *row) error {
			before, at = r.int64(), r.int64()
			return nil
		})
		fresh = known && s.now()-at < engine.CountAge(before).Microseconds()
		return err
	})
	if err != nil || fresh {
		return before, err
	}
	active := map[job.ID]struct{}{}
	for p := range job.Partition(job.Partitions + 1) {
		err := s.look(ctx, "count jobs", func(c *conn) error {
			q := c.prepare(plannedJobsSQL)
			if p < job.Partitions {
				q = c.prepare(liveJobsSQL).int(int64(p))
			}
			return q.text(string(t)).each(func(r *row) error {
				if id := job.ID(r.id()); !id.OfNode() {
					active[id] = struct{}{}
				}
				return nil
			})
		})
		if err != nil {
			return 0, err
		}
	}
	counted := int64(len(active))
	err = s.write(ctx, "count jobs", func(c *conn, now int64) error {
		var since int64
		n = counted
		is, err := c.prepare(findCountSQL).text(string(t)).first(func(r *row) error {
			n, since = r.int64(), r.int64()
			return nil
		})
		if err != nil || is && (!known || since != at) { // another count came first
			return err
		}
		if is {
			n = counted + max(0, n-before)
		}
		_, err = c.prepare(keepCountSQL).text(string(t)).int(n).int(now).exec()
		return err
	})
	return n, err
}

// Charge adds usage to buckets.
func (s *leases) Charge(ctx context.Context, cs []engine.Charge) ([]time.Duration, error) {
	if len(cs) == 0 {
		return nil, nil
	}
	out := make([]time.Duration, len(cs))
	err := s.write(ctx, "charge buckets", func(c *conn, now int64) error {
		for i, x := range cs {
			full := int64(0)
			if _, err := c.prepare(bucketSQL).text(x.Bucket).first(func(r *row) error { full = r.int64(); return nil }); err != nil {
				return err
			}
			if full = max(full, now-x.Ago.Microseconds()); x.N > 0 {
				full += int64(x.N) * x.Rate.Interval().Microseconds()
				if _, err := c.prepare(fillSQL).text(x.Bucket).int(full).exec(); err != nil {
					return err
				}
			}
			out[i] = time.Duration(max(0, full-now)) * time.Microsecond
		}
		return nil
	})
	return out, err
}
