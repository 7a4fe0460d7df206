package sqlite

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	findCountSQL = "SELECT active, counted_at FROM job_counts WHERE tenant = ?"
	addCountSQL  = "UPDATE job_counts SET active = active + ? WHERE tenant = ? AND active + ? <= ?"
	keepCountSQL = `
		INSERT INTO job_counts (tenant, active, counted_at) VALUES (?, ?, ?)
		ON CONFLICT (tenant) DO UPDATE SET active = excluded.active, counted_at = excluded.counted_at`
	// countJobsSQL names the partitions, so that only what is the tenant's is read of live_lane.
	countJobsSQL = `
		WITH RECURSIVE parts (n) AS (VALUES (0) UNION ALL SELECT n + 1 FROM parts WHERE n < 63)
		SELECT count(*) FROM (
			SELECT v.job FROM parts CROSS JOIN live v INDEXED BY live_lane WHERE v.part = parts.n AND v.tenant = ?1
			UNION
			SELECT j.id FROM jobs j INDEXED BY jobs_planned CROSS JOIN schedules s
			WHERE j.tenant = ?1 AND j.kind <> 1 AND j.state <> 4 AND s.job = j.id AND s.next_run_at IS NOT NULL
		)`
)

// takeRoom adds the jobs of a creation to what its tenant has, if that is not more than it may have.
func takeRoom(c *conn, x *prepared) (bool, error) {
	n := int64(len(x.jobs))
	if x.Most <= 0 || n == 0 {
		return true, nil
	}
	if stored, err := exists(c, "SELECT 1 FROM jobs WHERE tenant = ? AND id = ?", x.Tenant, x.jobs[0].ID); err != nil || stored {
		return stored, err // this very call has been here before
	}
	changed, err := c.prepare(addCountSQL).int(n).text(string(x.Tenant)).int(n).int(x.Most).exec()
	return changed > 0, err
}

// CountJobs counts the active jobs of a tenant again, unless that was done just now.
func (s *Store) CountJobs(ctx context.Context, t tenant.ID) (n int64, err error) {
	err = s.write(ctx, "count jobs", func(c *conn, now int64) error {
		var at int64
		known, err := c.prepare(findCountSQL).text(string(t)).first(func(r *row) error {
			n, at = r.int64(), r.int64()
			return nil
		})
		if err != nil || known && now-at < engine.CountAge(n).Microseconds() {
			return err
		}
		if _, err := c.prepare(countJobsSQL).text(string(t)).first(func(r *row) error { n = r.int64(); return nil }); err != nil {
			return err
		}
		_, err = c.prepare(keepCountSQL).text(string(t)).int(n).int(now).exec()
		return err
	})
	return n, err
}

// Charge adds what was used to buckets.
func (s *Store) Charge(ctx context.Context, cs []engine.Charge) ([]time.Duration, error) {
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
