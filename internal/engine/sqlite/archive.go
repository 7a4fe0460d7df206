package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlstore"
)

const (
	// mayMove holds for executions that nothing live refers to and that leave with their day.
	mayMove = ` NOT EXISTS (SELECT 1 FROM dead_letters d WHERE d.execution = v.id) AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.execution = v.id)
		AND NOT EXISTS (SELECT 1 FROM run_attempts r WHERE r.execution = v.id) AND NOT EXISTS (SELECT 1 FROM run_members m WHERE m.execution = v.id)
		AND NOT EXISTS (SELECT 1 FROM job_retentions k WHERE k.tenant = v.tenant AND k.job = v.job)`
	inDay     = " FROM executions v NOT INDEXED WHERE v.finished_at >= ? AND v.finished_at < ? AND"
	daysSQL   = "SELECT DISTINCT v.finished_at / 86400000000 FROM executions v NOT INDEXED WHERE v.finished_at < ? AND" + mayMove + " ORDER BY 1"
	daySQL    = "SELECT v.rowid" + inDay + mayMove + " ORDER BY v.tenant, v.job, v.finished_at, v.id"
	dayRowSQL = "SELECT " + pastColumns + " FROM executions v WHERE v.rowid = ?"
	daySumSQL = "SELECT count(*), coalesce(sum((v.finished_at % 86400000000 + v.token) & 4294967295), 0)" + inDay + mayMove
	dayJobSQL = "SELECT name, tags FROM jobs WHERE tenant = ? AND id = ?"
	dayLogSQL = "SELECT token, attempt, first, upto, data FROM logs WHERE execution = ? ORDER BY token, first"
	dayBatch  = 500
	oneDay    = 24 * time.Hour
	// tellLateSQL notes in the statistics of a one-off job when its own fire finished, if that was on a later day than it was made: its
	// job stays for as long as files keep it. It does not count there.
	tellLateSQL = `
		INSERT INTO job_stats (tenant, job, total, succeeded, timed, sum_us, last_status, last_finished_at, last_run_at)
		SELECT tenant, job, 0, 0, 0, 0, status, finished_at, started_at FROM executions WHERE id = ? AND id = job AND finished_at >= ? ` + mergeStats
	dropEventSQL = "DELETE FROM events WHERE execution = ? AND at <= ?"
)

// aside runs f in a snapshot on a connection of its own: it may take long, and sorts on disk.
func (s *upkeep) aside(ctx context.Context, doing string, f func(*conn) error) error {
	if !s.ready.Load() {
		return s.unready(doing)
	}
	return peekWith(ctx, s.path, doing, f, "cache_size = -8192", "temp_store = FILE")
}

// FinishedDays lists the days that have executions which may move. It reads the whole table.
func (s *upkeep) FinishedDays(ctx context.Context, before time.Time) (out []time.Time, err error) {
	err = s.aside(ctx, "list the days of history", func(c *conn) error {
		return c.prepare(daysSQL).at(before).each(func(r *row) error {
			out = append(out, time.Unix(r.int64()*int64(oneDay/time.Second), 0).UTC())
			return nil
		})
	})
	return out, err
}

// ReadDay reads the executions of a day that may move. It sorts their numbers, not their content.
func (s *upkeep) ReadDay(ctx context.Context, day time.Time, to engine.DaySink) error {
	return s.aside(ctx, "read a day of history", func(c *conn) error {
		var fs []engine.Finished
		err := c.prepare(daySQL).at(day).at(day.Add(oneDay)).each(func(r *row) error {
			f, err := finished(c, r.int64())
			if err != nil {
				return err
			}
			if fs = append(fs, f); len(fs) < dayBatch {
				return nil
			}
			err = hand(c, fs, to)
			fs = nil
			return err
		})
		if err != nil || len(fs) == 0 {
			return err
		}
		return hand(c, fs, to)
	})
}

// finished reads a row of history, and what belongs to it.
func finished(c *conn, number int64) (f engine.Finished, err error) {
	_, err = c.prepare(dayRowSQL).int(number).first(func(r *row) (err error) {
		f.Execution, err = readExecution(r)
		return err
	})
	if err != nil {
		return f, err
	}
	e := &f.Execution
	if _, err := c.prepare(dayJobSQL).text(string(e.Tenant)).id(e.Job).first(func(r *row) error {
		e.JobName = r.text()
		return r.texts(&f.Tags)
	}); err != nil {
		return f, err
	}
	if f.Attempts, err = attempts(c, e.Tenant, e.ID); err != nil {
		return f, err
	}
	f.Events, err = events(c, e.Tenant, e.ID)
	return f, err
}

// hand hands executions on, and then their logs.
func hand(c *conn, fs []engine.Finished, to engine.DaySink) error {
	if err := to.Executions(fs); err != nil {
		return err
	}
	for i := range fs {
		err := c.prepare(dayLogSQL).id(fs[i].Execution.ID).each(func(r *row) error {
			return to.Log(i, engine.LogChunk{Token: job.Token(r.int64()), Attempt: r.int(), From: r.int(), To: r.int(), Data: r.bytes()})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// LeaveDay makes the proved files of a day answer for its executions. It counts these in a snapshot before: the writer would have to wait
// for that. Nothing can be lost by it, because DropArchived drops by id what the files have, and nothing else.
func (s *upkeep) LeaveDay(ctx context.Context, t engine.ArchiveTurn, day time.Time) error {
	var has, adds int64
	err := s.aside(ctx, "count a day of history", func(c *conn) error {
		_, err := c.prepare(daySumSQL).at(day).at(day.Add(oneDay)).first(func(r *row) error { has, adds = r.int64(), r.int64(); return nil })
		return err
	})
	if err != nil {
		return err
	}
	return s.write(ctx, "leave a day of history to its files", func(c *conn, now int64) error {
		on := transaction{c, now}
		if err := sqlstore.HoldTurn(on, t); err != nil {
			return err
		}
		rows, check, err := sqlstore.ProvedSum(on, day)
		if err != nil {
			return err
		}
		if rows != has || check != uint32(adds) {
			return fmt.Errorf("%w: the executions of %s are no longer those that were written", engine.ErrConflict, day.Format(time.DateOnly))
		}
		return sqlstore.AnswerDay(on, day)
	})
}

// DropArchived drops executions of which files answer.
func (s *upkeep) DropArchived(ctx context.Context, ids []job.ExecutionID, until time.Time) error {
	return s.write(ctx, "drop what is archived", func(c *conn, _ int64) error {
		for _, id := range ids {
			if _, err := c.prepare(tellLateSQL).id(id).at(id.At().Truncate(oneDay).Add(oneDay)).exec(); err != nil {
				return err
			}
			for _, sql := range dropArchived {
				if _, err := c.prepare(sql).id(id).exec(); err != nil {
					return err
				}
			}
			if _, err := c.prepare(dropEventSQL).id(id).at(until).exec(); err != nil {
				return err
			}
		}
		return nil
	})
}

var dropArchived = []string{"DELETE FROM executions WHERE id = ?", "DELETE FROM attempts WHERE execution = ?", "DELETE FROM logs WHERE execution = ?"}

// LateEvents lists the events that the store has of an execution.
func (s *reads) LateEvents(ctx context.Context, t tenant.ID, id job.ExecutionID) (out []job.Event, err error) {
	err = s.look(ctx, "list events", func(c *conn) error {
		out, err = events(c, t, id)
		return err
	})
	return out, err
}
