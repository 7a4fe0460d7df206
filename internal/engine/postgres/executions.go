package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	// executionColumns lists the columns that stored reads, of v (liveRow or pastRow) and the job j.
	executionColumns = `v.id, v.job, j.name, v.tenant, v.status, v.trigger, v.scheduled_at, v.due_at, v.started_at, v.finished_at, v.attempt, v.tries, v.lost,
		v.max_attempts, v.priority, v.part, v.worker, v.token, v.retry_of, v.payload, v.result, v.ending, v.cancel_at, v.class,
		v.leased_at, v.unique_key, v.expires_at, v.timeout_ms, v.stall_ms, v.progress, v.progress_at, ` + groupColumns

	// liveStatus is job.Queued, or RUNNING, or CANCELLING.
	liveStatus = `(CASE WHEN v.lease > 0 AND v.cancel_at IS NOT NULL THEN 5 WHEN v.lease > 0 THEN 3 WHEN v.hold <> 0 THEN 1 WHEN v.tries > 0 THEN 4 ELSE 2 END)::int2`

	liveColumns = `v.id, v.job, v.tenant, ` + liveStatus + ` AS status, v.trigger, v.scheduled_at, v.due_at, v.started_at, NULL::timestamptz AS finished_at,
		v.attempt, v.tries, v.lost, v.max_attempts, v.priority, v.part, v.worker, abs(v.lease) AS token, v.retry_of, v.payload, NULL::bytea AS result, NULL::bytea AS ending,
		v.cancel_at, v.class, CASE WHEN v.started_at IS NOT NULL THEN v.leased_at END AS leased_at,
		v.unique_key, v.expires_at, v.timeout_ms, v.stall_ms, v.progress, v.progress_at, ` + groupColumns
	liveRow     = "SELECT " + liveColumns + " FROM live v"
	packedRow   = "SELECT " + liveColumns + " FROM " // packed executions
	pastColumns = `v.id, v.job, v.tenant, v.status, v.trigger, v.scheduled_at, v.due_at, v.started_at, v.finished_at,
		v.attempt, v.tries, v.lost, v.max_attempts, v.priority, v.part, v.worker, v.token, v.retry_of, v.payload, v.result, v.ending,
		NULL::timestamptz AS cancel_at, NULL::text AS class, coalesce(v.leased_at, v.started_at) AS leased_at,
		NULL::text AS unique_key, NULL::timestamptz AS expires_at, NULL::int8 AS timeout_ms, NULL::int8 AS stall_ms, NULL::bytea AS progress, NULL::timestamptz AS progress_at,
		NULL::int8 AS group_key, NULL::int4 AS group_max, NULL::int4 AS rate_count, NULL::int8 AS rate_us, NULL::int4 AS rate_burst`
	pastRow = "SELECT " + pastColumns + " FROM executions v"
)

// stored receives the columns of an execution.
type stored struct {
	e          job.Execution
	ending     []byte
	progress   []byte
	progressAt time.Time
}

func (s *stored) targets() []any {
	e := &s.e
	return append([]any{
		(*[16]byte)(&e.ID), (*[16]byte)(&e.Job), (*text)(&e.JobName), (*string)(&e.Tenant), (*uint8)(&e.Status), (*uint8)(&e.Trigger),
		at(&e.ScheduledAt), at(&e.DueAt), at(&e.StartedAt), at(&e.FinishedAt), &e.Attempt, &e.Tries, &e.Lost, &e.MaxAttempts, &e.Priority, (*int16)(&e.Partition),
		(*id)(&e.Worker), (*int64)(&e.Token), (*id)(&e.RetryOf), &e.Payload, &e.Result, &s.ending, at(&e.CancelAt), (*text)(&e.Class),
		at(&e.LeasedAt), (*text)(&e.UniqueKey), at(&e.ExpiresAt), span{&e.Timeout, time.Millisecond}, span{&e.Stall, time.Millisecond}, &s.progress, at(&s.progressAt),
	}, groupTargets(&e.Group)...)
}

func (s *stored) decode() (job.Execution, error) {
	var err error
	if s.e.Progress, err = engine.DecodeProgress(s.progress, s.progressAt); err != nil {
		return s.e, err
	}
	if s.e.Status == job.Skipped {
		s.e.Metadata = engine.DecodeMetadata(s.ending)
	}
	s.e.Error, s.e.Response, err = engine.DecodeEnd(s.ending)
	return s.e, err
}

func scanExecution(row pgx.CollectableRow) (job.Execution, error) {
	var x stored
	if err := row.Scan(x.targets()...); err != nil {
		return job.Execution{}, err
	}
	return x.decode()
}

// One statement is one snapshot: an execution that finishes meanwhile is in exactly one of the two.
const executionSQL = `
	SELECT ` + executionColumns + `
	FROM (` + liveRow + ` WHERE v.id = $2 AND v.tenant = $1 UNION ALL ` + packedRow + `(` + memberOf + `$2::uuid` + inBundle + `) v WHERE v.tenant = $1 UNION ALL ` + pastRow + ` WHERE v.id = $2 AND v.tenant = $1) v
	LEFT JOIN jobs j ON j.tenant = v.tenant AND j.id = v.job
	LIMIT 1`

// Execution finds one execution, wherever it is.
func (s *reads) Execution(ctx context.Context, t tenant.ID, id job.ExecutionID) (job.Execution, error) {
	var out job.Execution
	err := s.look(ctx, "find an execution", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, executionSQL, string(t), [16]byte(id))
		var err error
		out, err = pgx.CollectExactlyOneRow(rows, scanExecution)
		return found(err)
	})
	return out, err
}

// attemptColumns lists the columns that scanAttempt reads.
const attemptColumns = "execution, token, number, worker, started_at, ended_at, ending"

// Attempts lists the failed and lost attempts of an execution, earliest first.
func (s *reads) Attempts(ctx context.Context, t tenant.ID, id job.ExecutionID) ([]job.PastAttempt, error) {
	var out []job.PastAttempt
	err := s.look(ctx, "list attempts", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, `
			SELECT `+attemptColumns+` FROM attempts WHERE execution = $1 AND tenant = $2 ORDER BY token`,
			[16]byte(id), string(t))
		var err error
		out, err = pgx.CollectRows(rows, scanAttempt)
		if err != nil || len(out) > 0 {
			return err
		}
		return exists(ctx, c, t, id)
	})
	return out, err
}

// exists returns ErrNotFound if the tenant has no such execution.
func exists(ctx context.Context, c *pgxpool.Conn, t tenant.ID, id job.ExecutionID) error {
	var has bool
	err := c.QueryRow(ctx, `
		SELECT EXISTS (SELECT 1 FROM live WHERE id = $1 AND tenant = $2 UNION ALL SELECT 1 FROM executions WHERE id = $1 AND tenant = $2
			UNION ALL SELECT 1 FROM (`+memberOf+`$1::uuid`+inBundle+`) v WHERE v.tenant = $2)`,
		[16]byte(id), string(t)).Scan(&has)
	if err == nil && !has {
		return engine.ErrNotFound
	}
	return err
}

func scanAttempt(row pgx.CollectableRow) (job.PastAttempt, error) {
	var a job.PastAttempt
	var ending []byte
	err := row.Scan((*[16]byte)(&a.Execution), (*int64)(&a.Token), &a.Number, (*id)(&a.Worker), at(&a.StartedAt), at(&a.EndedAt), &ending)
	if err != nil {
		return a, err
	}
	e, _, err := engine.DecodeEnd(ending)
	if e != nil {
		a.Error = *e
	}
	return a, err
}
