package sqlite

import (
	"context"
	"strconv"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	statsSQL      = "SELECT total, succeeded, timed, sum_us, last_status, last_finished_at, last_run_at FROM job_stats WHERE tenant = ? AND job = ?"
	lastStatusSQL = "SELECT last_status, last_finished_at FROM job_stats WHERE tenant = ? AND job = ?"
	durationsSQL  = "SELECT bucket, n FROM job_durations WHERE tenant = ? AND job = ?"
	// ownFireSQL finds the outcome of a one-off job's own fire, which job_stats omits.
	ownFireSQL = "SELECT status, started_at, finished_at FROM executions INDEXED BY executions_id WHERE tenant = ? AND id = ? AND job = id"
)

// runningSQL finds when the last of the unfinished executions started. There may be very many, so it examines them
// from either end. Running ones are at the beginning, where their turn came, or at the end, where they went before
// backfills of past instants. No LIMIT ?, as in readySQL.
var runningSQL = `
	SELECT max(coalesce((SELECT started_at FROM live WHERE tenant = ?1 AND id = ?2 AND job = id), 0),
		coalesce((SELECT max(started_at) FROM (SELECT started_at FROM live INDEXED BY live_fire WHERE job = ?2 AND id <> job AND tenant = ?1 ORDER BY scheduled_at LIMIT ` + strconv.Itoa(engine.StatsLook) + `)), 0),
		coalesce((SELECT max(started_at) FROM (SELECT started_at FROM live INDEXED BY live_fire WHERE job = ?2 AND id <> job AND tenant = ?1 ORDER BY scheduled_at DESC LIMIT ` + strconv.Itoa(engine.StatsLook) + `)), 0))`

// Stats reads the statistics of jobs of one tenant, in the requested order.
func (s *jobs) Stats(ctx context.Context, t tenant.ID, ids []job.ID) ([]job.Stats, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	out := make([]job.Stats, len(ids))
	err := s.look(ctx, "read statistics", func(c *conn) error {
		for i, id := range ids {
			all, err := readSums(c, t, id)
			if err != nil {
				return err
			}
			out[i] = all.stats()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func readSums(c *conn, t tenant.ID, id job.ID) (*sums, error) {
	all := &sums{durations: map[int]int64{}}
	_, err := c.prepare(statsSQL).text(string(t)).id(id).first(func(r *row) error {
		all.total, all.succeeded, all.timed, all.took = r.int64(), r.int64(), r.int64(), time.Duration(r.int64())*time.Microsecond
		all.lastStatus, all.lastFinished, all.lastRun = job.Status(r.int()), r.at(), r.at()
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = c.prepare(durationsSQL).text(string(t)).id(id).each(func(r *row) error {
		bucket := r.int()
		all.durations[bucket] = r.int64()
		return nil
	})
	if err != nil {
		return nil, err
	}
	_, err = c.prepare(ownFireSQL).text(string(t)).id(id).first(func(r *row) error {
		all.add(job.Status(r.int()), r.at(), r.at())
		return nil
	})
	if err != nil {
		return nil, err
	}
	_, err = c.prepare(runningSQL).text(string(t)).id(id).first(func(r *row) error {
		if at := r.int64(); at != 0 {
			all.ran(time.UnixMicro(at).UTC())
		}
		return nil
	})
	return all, err
}

// LastStatus returns how the latest finished execution of each job ended.
func (s *jobs) LastStatus(ctx context.Context, t tenant.ID, ids []job.ID, since time.Time) ([]job.Status, error) {
	out := make([]job.Status, len(ids))
	err := s.look(ctx, "read how jobs did last", func(c *conn) error {
		for i, id := range ids {
			var last sums
			_, err := c.prepare(lastStatusSQL).text(string(t)).id(id).first(func(r *row) error {
				last.lastStatus, last.lastFinished = job.Status(r.int()), r.at()
				return nil
			})
			if err != nil {
				return err
			}
			_, err = c.prepare(ownFireSQL).text(string(t)).id(id).first(func(r *row) error {
				if status, started, finished := job.Status(r.int()), r.at(), r.at(); !finished.Before(since) {
					last.add(status, started, finished)
				}
				return nil
			})
			if err != nil {
				return err
			}
			out[i] = last.lastStatus
		}
		return nil
	})
	return out, err
}
