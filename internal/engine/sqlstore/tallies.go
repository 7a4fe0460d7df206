package sqlstore

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	keepMinuteSQL = `
		INSERT INTO minutes (at, server, started, completed, failed, again, waited, wait_us, max_wait_us, fired, delay_us, max_delay_us)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
		ON CONFLICT (at, server) DO UPDATE SET started = excluded.started, completed = excluded.completed, failed = excluded.failed, again = excluded.again,
			waited = excluded.waited, wait_us = excluded.wait_us, max_wait_us = excluded.max_wait_us,
			fired = excluded.fired, delay_us = excluded.delay_us, max_delay_us = excluded.max_delay_us`
	minutesSQL = `
		SELECT at, CAST(sum(started) AS bigint), CAST(sum(completed) AS bigint), CAST(sum(failed) AS bigint), CAST(sum(again) AS bigint),
			CAST(sum(waited) AS bigint), CAST(sum(wait_us) AS bigint), max(max_wait_us), CAST(sum(fired) AS bigint), CAST(sum(delay_us) AS bigint), max(max_delay_us)
		FROM minutes WHERE at >= $1 GROUP BY at ORDER BY at`

	tenantMinutesSQL = "SELECT at, counts FROM tenant_minutes WHERE tenant = $1 AND at >= $2 ORDER BY at"
	keepDepthsSQL    = "INSERT INTO depths (tenant, at, queues) VALUES ($1, $2, $3) ON CONFLICT (tenant, at) DO NOTHING"
	depthsSQL        = "SELECT at, queues FROM depths WHERE tenant = $1 AND at >= $2 ORDER BY at"
	jobMonthsSQL     = "SELECT month, days FROM job_months WHERE tenant = $1 AND job = $2 AND month BETWEEN $3 AND $4 ORDER BY month"

	failureColumns = "f.hour, f.fingerprint, f.job, f.failed, f.retried, f.first_at, f.last_at, f.execution, p.type, p.message, p.sample"
	// named looks up the fingerprint of each failure, instead of joining all.
	named = ` LEFT JOIN /*postgres: LATERAL (SELECT type, message, sample FROM fingerprints WHERE tenant = f.tenant AND fingerprint = f.fingerprint OFFSET 0) p ON true*/
		/*sqlite: fingerprints p ON p.tenant = f.tenant AND p.fingerprint = f.fingerprint*/ ORDER BY f.hour DESC`
	failuresSQL    = "SELECT " + failureColumns + " FROM (SELECT * FROM failures WHERE tenant = $1 AND hour >= $2 ORDER BY hour DESC LIMIT $3) f" + named
	jobFailuresSQL = "SELECT " + failureColumns + ` FROM (SELECT * FROM failures /*sqlite: INDEXED BY failures_job*/
		WHERE tenant = $1 AND hour >= $2 AND job IN ($4, $5) ORDER BY hour DESC LIMIT $3) f` + named
)

// KeepMinutes stores a server's counts of whole minutes, replacing its earlier ones.
func (s tallies) KeepMinutes(ctx context.Context, by engine.ServerID, ms []engine.Minute) error {
	var rows [][]any
	for _, m := range ms {
		rows = append(rows, []any{m.At.Truncate(time.Minute), [16]byte(by), m.Started, m.Completed, m.Failed, m.Again,
			m.Waited, m.Wait.Microseconds(), m.MaxWait.Microseconds(), m.Fired, m.Delay.Microseconds(), m.MaxDelay.Microseconds()})
	}
	return s.db.Write(ctx, "keep counts", func(tx Tx) error { return tx.ExecEach(keepMinuteSQL, rows) })
}

// Minutes adds up the counts of all servers, minute by minute.
func (s tallies) Minutes(ctx context.Context, from time.Time) ([]engine.Minute, error) {
	return readAll(ctx, s.db, "read counts", func(r Row) (m engine.Minute, err error) {
		var wait, maxWait, delay, maxDelay int64
		err = r.Scan(&m.At, &m.Started, &m.Completed, &m.Failed, &m.Again, &m.Waited, &wait, &maxWait, &m.Fired, &delay, &maxDelay)
		m.Wait, m.MaxWait = time.Duration(wait)*time.Microsecond, time.Duration(maxWait)*time.Microsecond
		m.Delay, m.MaxDelay = time.Duration(delay)*time.Microsecond, time.Duration(maxDelay)*time.Microsecond
		return m, err
	}, minutesSQL, since(from.Truncate(time.Minute)))
}

// TenantMinutes adds up the counts of all servers of a tenant, minute by minute.
func (s tallies) TenantMinutes(ctx context.Context, t tenant.ID, from time.Time) (out []engine.TenantMinute, err error) {
	err = s.db.Read(ctx, "read counts", func(tx Tx) error {
		out = nil
		return tx.Query(func(r Row) error {
			var at time.Time
			var data []byte
			if err := r.Scan(&at, &data); err != nil {
				return err
			}
			m, err := engine.DecodeMinute(data)
			m.Tenant, m.At = t, at
			out = engine.SumMinutes(out, m)
			return err
		}, tenantMinutesSQL, string(t), since(from.Truncate(time.Minute)))
	})
	return out, err
}

// KeepDepths stores how many executions waited and ran in a minute, unless another server has, and reports whether it
// did.
func (s tallies) KeepDepths(ctx context.Context, at time.Time, ds []engine.TenantDepths) (kept bool, err error) {
	minute := at.Truncate(time.Minute)
	var total []engine.QueueDepth
	var rows [][]any
	for _, d := range ds {
		if d.Tenant == "" {
			total = d.Queues
		} else if len(d.Queues) > 0 {
			rows = append(rows, []any{string(d.Tenant), minute, engine.EncodeDepths(d.Queues)})
		}
	}
	err = s.db.Write(ctx, "keep depths", func(tx Tx) error {
		n, err := tx.Exec(keepDepthsSQL, "", minute, engine.EncodeDepths(total))
		if kept = err == nil && n > 0; !kept {
			return err
		}
		return tx.ExecEach(keepDepthsSQL, rows)
	})
	return kept && err == nil, err
}

// Depths lists how many executions of a tenant waited and ran.
func (s tallies) Depths(ctx context.Context, t tenant.ID, from time.Time) (out []engine.DepthMinute, err error) {
	err = s.db.Read(ctx, "read depths", func(tx Tx) error {
		out = nil
		return tx.Query(func(r Row) error {
			var m engine.DepthMinute
			var data []byte
			err := r.Scan(&m.At, &data)
			if err != nil {
				return err
			}
			if m.Queues, err = engine.DecodeDepths(data); len(m.Queues) > 0 {
				out = append(out, m)
			}
			return err
		}, depthsSQL, string(t), since(from.Truncate(time.Minute)))
	})
	return out, err
}

// JobDays lists how a job's executions ended, day by day.
func (s tallies) JobDays(ctx context.Context, t tenant.ID, j job.ID, from, until time.Time) (out []engine.JobDay, err error) {
	err = s.db.Read(ctx, "read a calendar", func(tx Tx) error {
		out = nil
		return tx.Query(func(r Row) error {
			var month int
			var data []byte
			if err := r.Scan(&month, &data); err != nil {
				return err
			}
			m, err := engine.DecodeMonth(data)
			out = append(out, m.Days(month, t, j, from, until)...)
			return err
		}, jobMonthsSQL, string(t), [16]byte(j), engine.Month(from), engine.Month(until))
	})
	return out, err
}

// Failures lists failures, latest hours first.
func (s tallies) Failures(ctx context.Context, f engine.FailureFilter, limit int) ([]engine.Failure, error) {
	sql, args := failuresSQL, []any{string(f.Tenant), since(f.From.Truncate(time.Hour)), limit}
	if !f.Job.IsZero() {
		sql, args = jobFailuresSQL, append(args, [16]byte(f.Job), [16]byte{}) // the zero id stands for jobs that are not distinguished
	}
	return readAll(ctx, s.db, "list failures", func(r Row) (x engine.Failure, err error) {
		x.Tenant = f.Tenant
		var print []byte
		err = r.Scan(&x.Hour, &print, (*[16]byte)(&x.Job), &x.Failed, &x.Retried, &x.First, &x.Last, (*[16]byte)(&x.Execution),
			(*string)(&x.Type), &x.Message, &x.Sample)
		copy(x.Fingerprint[:], print)
		return x, err
	}, sql, args...)
}
