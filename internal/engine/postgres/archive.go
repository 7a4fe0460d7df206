package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlstore"
)

const (
	// mayMove holds for executions that nothing live refers to and that leave with their day, as in carillon_leave_day.
	mayMove = `NOT (EXISTS (SELECT 1 FROM dead_letters d WHERE d.execution = v.id) OR EXISTS (SELECT 1 FROM runs r WHERE r.execution = v.id)
		OR EXISTS (SELECT 1 FROM run_attempts r WHERE r.execution = v.id) OR EXISTS (SELECT 1 FROM run_members m WHERE m.execution = v.id)
		OR EXISTS (SELECT 1 FROM job_retentions k WHERE k.tenant = v.tenant AND k.job = v.job))`
	dayTablesSQL = `
		SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'executions'::regclass AND c.relname < $1 ORDER BY c.relname`
	attemptsOfSQL = "SELECT " + attemptColumns + " FROM attempts WHERE execution = ANY ($1) ORDER BY execution, token"
	eventsOfSQL   = "SELECT execution, at, kind, attempt, token, worker, note FROM events WHERE execution = ANY ($1) ORDER BY execution, at, token, kind"
	logsOfSQL     = `
		SELECT u.n::int - 1, l.token, l.attempt, l.first, l.upto, l.data FROM unnest($1::uuid[]) WITH ORDINALITY u(id, n)
		CROSS JOIN LATERAL (SELECT * FROM logs WHERE execution = u.id ORDER BY token, first) l ORDER BY u.n, l.token, l.first`
	// tellLateSQL notes in the statistics of one-off jobs when their own fires finished, of those that finished on a later day than they were
	// made: their jobs stay for as long as files keep these. They do not count there.
	tellLateSQL = `
		INSERT INTO job_stats AS s (tenant, job, total, succeeded, timed, sum_us, last_status, last_finished_at, last_run_at)
		SELECT v.tenant, v.job, 0, 0, 0, 0, v.status, v.finished_at, v.started_at FROM executions v
		WHERE v.finished_at >= $1 AND v.finished_at < $2 AND v.id < $3 AND NOT v.tally AND ` + mayMove + ` ORDER BY v.tenant, v.job ` + mergeStats
	dropArchivedSQL = `
		WITH a AS (
			DELETE FROM attempts WHERE execution = ANY ($1)
		), l AS (
			DELETE FROM logs WHERE execution = ANY ($1)
		)
		DELETE FROM events WHERE execution = ANY ($1) AND at <= $2`
	dayBatch  = 500              // executions that are read at once
	leaveWait = time.Second      // for the table of a day; readers of it wait behind
	dayCounts = 10 * time.Minute // how long comparing a day may take
)

// aside runs f on a connection of its own, on which statements may take long.
func (s *upkeep) aside(ctx context.Context, doing string, f func(context.Context, *pgx.Conn) error) error {
	cfg := s.admin.Copy()
	cfg.RuntimeParams["statement_timeout"] = setting(dayCounts)
	cfg.RuntimeParams["lock_timeout"] = setting(leaveWait)
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return translate(doing, err)
	}
	defer c.Close(context.WithoutCancel(ctx))
	registerArrays(c)
	return translate(doing, f(ctx, c))
}

// FinishedDays lists the days that have executions which may move. It looks at the tables of days.
func (s *upkeep) FinishedDays(ctx context.Context, before time.Time) (out []time.Time, err error) {
	err = s.aside(ctx, "list the days of history", func(ctx context.Context, c *pgx.Conn) error {
		rows, _ := c.Query(ctx, dayTablesSQL, dayTable(before.UTC()))
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		for _, name := range names {
			day, err := time.Parse("20060102", strings.TrimPrefix(name, "executions_"))
			if err != nil {
				continue
			}
			var some bool
			if err := c.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM executions v WHERE v.finished_at >= $1 AND v.finished_at < $2 AND "+mayMove+")", day, day.AddDate(0, 0, 1)).Scan(&some); err != nil {
				return err
			}
			if some {
				out = append(out, day)
			}
		}
		return nil
	})
	return out, err
}

// ReadDay reads the executions of a day that may move, through a cursor.
func (s *upkeep) ReadDay(ctx context.Context, day time.Time, to engine.DaySink) error {
	const instant = "2006-01-02 15:04:05+00"
	cursor := fmt.Sprintf(`
		DECLARE day NO SCROLL CURSOR FOR SELECT %s, j.tags FROM (%s WHERE v.finished_at >= '%s' AND v.finished_at < '%s' AND %s) v
		LEFT JOIN jobs j ON j.tenant = v.tenant AND j.id = v.job ORDER BY v.tenant, v.job, v.finished_at, v.id`,
		executionColumns, pastRow, day.UTC().Format(instant), day.UTC().AddDate(0, 0, 1).Format(instant), mayMove)
	return s.aside(ctx, "read a day of history", func(ctx context.Context, c *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, cursor); err != nil {
				return err
			}
			for {
				rows, _ := tx.Query(ctx, fmt.Sprintf("FETCH %d FROM day", dayBatch))
				fs, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (f engine.Finished, err error) {
					var x stored
					if err := r.Scan(append(x.targets(), &f.Tags)...); err != nil {
						return f, err
					}
					f.Execution, err = x.decode()
					return f, err
				})
				if err != nil || len(fs) == 0 {
					return err
				}
				if err := complete(ctx, tx, fs, to); err != nil {
					return err
				}
			}
		})
	})
}

// complete adds attempts and events to executions, and hands them on, and then their logs.
func complete(ctx context.Context, tx pgx.Tx, fs []engine.Finished, to engine.DaySink) error {
	ids := uuids(len(fs))
	at := make(map[job.ExecutionID]*engine.Finished, len(fs))
	for i := range fs {
		ids.uuid(fs[i].Execution.ID)
		at[fs[i].Execution.ID] = &fs[i]
	}
	rows, _ := tx.Query(ctx, attemptsOfSQL, ids)
	past, err := pgx.CollectRows(rows, scanAttempt)
	if err != nil {
		return err
	}
	for _, a := range past {
		f := at[a.Execution]
		f.Attempts = append(f.Attempts, a)
	}
	var of [16]byte
	var e job.Event
	rows, _ = tx.Query(ctx, eventsOfSQL, ids)
	_, err = pgx.ForEachRow(rows, []any{&of, (*instant)(&e.At), (*string)(&e.Kind), &e.Attempt, (*int64)(&e.Token), (*id)(&e.Worker), &e.Note}, func() error {
		f := at[of]
		f.Events = append(f.Events, e)
		return nil
	})
	if err != nil {
		return err
	}
	if err := to.Executions(fs); err != nil {
		return err
	}
	var i int
	var c engine.LogChunk
	rows, _ = tx.Query(ctx, logsOfSQL, ids)
	_, err = pgx.ForEachRow(rows, []any{&i, (*int64)(&c.Token), &c.Attempt, &c.From, &c.To, &c.Data}, func() error { return to.Log(i, c) })
	return err
}

// LeaveDay makes the proved files of a day answer for its executions, and drops these.
func (s *upkeep) LeaveDay(ctx context.Context, t engine.ArchiveTurn, day time.Time) error {
	return s.aside(ctx, "drop a day of history", func(ctx context.Context, c *pgx.Conn) error {
		// What is counted must be of after the lock, so not of the transaction's first snapshot, which another default would give.
		return pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			on := transaction{ctx, tx, s.database}
			if err := sqlstore.HoldTurn(on, t); err != nil {
				return err
			}
			rows, check, err := sqlstore.ProvedSum(on, day)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, tellLateSQL, day, day.AddDate(0, 0, 1), [16]byte(engine.FirstID(day))); err != nil {
				return err
			}
			var same bool
			if err := tx.QueryRow(ctx, "SELECT carillon_leave_day($1, $2, $3)", day, rows, int64(check)).Scan(&same); err != nil {
				return err
			}
			if !same {
				return fmt.Errorf("%w: the executions of %s are no longer those that were written", engine.ErrConflict, day.Format(time.DateOnly))
			}
			return sqlstore.AnswerDay(on, day)
		})
	})
}

// DropArchived drops what is left of executions of which files answer.
func (s *upkeep) DropArchived(ctx context.Context, ids []job.ExecutionID, until time.Time) error {
	if len(ids) == 0 {
		return nil
	}
	return s.write(ctx, "drop what is archived", func(ctx context.Context, c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, dropArchivedSQL, sortedIDs(ids), until)
		return err
	})
}

// LateEvents lists the events that the store has of an execution.
func (s *reads) LateEvents(ctx context.Context, t tenant.ID, x job.ExecutionID) ([]job.Event, error) {
	var out []job.Event
	err := s.look(ctx, "list events", func(ctx context.Context, c *pgxpool.Conn) (err error) {
		out, err = eventsOf(ctx, c, t, x)
		return err
	})
	return out, err
}
