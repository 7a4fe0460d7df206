package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	logHead = "SELECT l.upto, l.bytes, l.cut FROM logs l WHERE l.execution = a.execution AND l.token = a.token ORDER BY l.first DESC LIMIT 1"
	// appendLogsSQL stores chunks while their leases are held and the logs end where they begin, always in the same
	// order, so that concurrent appends do not deadlock.
	appendLogsSQL = `
		WITH asked AS MATERIALIZED (
			SELECT * FROM unnest($1::uuid[], $2::int8[], $3::uuid[], $4::int4[], $5::int4[], $6::int8[], $7::bool[], $8::bytea[])
				WITH ORDINALITY a(execution, token, worker, first, upto, bytes, cut, data, n)
		), stored AS (
			INSERT INTO logs (execution, token, first, upto, bytes, cut, attempt, tenant, data)
			SELECT a.execution, a.token, a.first, a.upto, a.bytes, a.cut, v.attempt, v.tenant, a.data
			FROM asked a CROSS JOIN LATERAL (SELECT attempt, tenant FROM live WHERE id = a.execution AND lease = a.token AND worker = a.worker OFFSET 0) v
			LEFT JOIN LATERAL (` + logHead + `) h ON true
			WHERE a.first = coalesce(h.upto, 0)
			ORDER BY a.execution, a.token, a.first
			ON CONFLICT (execution, token, first) DO NOTHING
			RETURNING execution, token, first, upto, bytes, cut
		)
		SELECT DISTINCT ON (a.n) a.n FROM asked a JOIN stored s USING (execution, token, first, upto, bytes, cut)`
	logHeadsSQL = `
		SELECT a.n, EXISTS (SELECT 1 FROM live WHERE id = a.execution AND lease = a.token AND worker = a.worker),
			coalesce(h.upto, 0), coalesce(h.bytes, 0), coalesce(h.cut, false)
		FROM unnest($1::uuid[], $2::int8[], $3::uuid[]) WITH ORDINALITY a(execution, token, worker, n)
		LEFT JOIN LATERAL (` + logHead + `) h ON true`
	readLogsSQL = `
		SELECT token, attempt, first, upto, data FROM logs
		WHERE execution = $1 AND (token, first) >=
			($3, coalesce((SELECT l.first FROM logs l WHERE l.execution = $1 AND l.token = $3 AND l.first <= $4 ORDER BY l.first DESC LIMIT 1), 0))
			AND tenant = $2 AND NOT (token = $3 AND upto <= $4) AND ($5 = 0 OR attempt = $5)
		ORDER BY token, first LIMIT $6`
	logLinesSQL = `
		WITH RECURSIVE ends AS (
			(SELECT token, upto, attempt FROM logs WHERE execution = $1 AND tenant = $2 ORDER BY token DESC, first DESC LIMIT 1)
			UNION ALL
			SELECT n.token, n.upto, n.attempt FROM ends e CROSS JOIN LATERAL (
				SELECT token, upto, attempt FROM logs WHERE execution = $1 AND tenant = $2 AND token < e.token ORDER BY token DESC, first DESC LIMIT 1
			) n
		)
		SELECT coalesce(sum(upto), 0)::int8 FROM ends WHERE $3 = 0 OR attempt = $3`
	// tidyLogsSQL examines the logs of some executions, and drops those of unknown executions.
	tidyLogsSQL = `
		WITH RECURSIVE seen AS (
			(SELECT execution FROM logs WHERE execution > $1 ORDER BY execution LIMIT 1)
			UNION ALL
			SELECT n.execution FROM seen s CROSS JOIN LATERAL (SELECT execution FROM logs WHERE execution > s.execution ORDER BY execution LIMIT 1) n
		), looked AS MATERIALIZED (
			SELECT execution FROM seen LIMIT $2
		), gone AS MATERIALIZED (
			SELECT s.execution FROM looked s
			WHERE NOT EXISTS (SELECT 1 FROM live WHERE id = s.execution) AND NOT EXISTS (SELECT 1 FROM executions WHERE id = s.execution)
		), dropped AS (
			DELETE FROM logs l USING gone g WHERE l.execution = g.execution
		)
		SELECT count(*), (SELECT execution FROM looked ORDER BY execution DESC LIMIT 1) FROM looked`
	tidiedLogs = 50 // executions; each is looked up in every day of history
)

// AppendLogs stores chunks of logs under the leases that wrote them.
func (s *reads) AppendLogs(ctx context.Context, as []engine.LogAppend) ([]engine.LogAppended, error) {
	if len(as) == 0 {
		return nil, nil
	}
	n := len(as)
	ids, tokens, workers, firsts, uptos, sizes, cuts, data := uuids(n), bigints(n), uuids(n), ints(n), ints(n), bigints(n), newArray(pgtype.BoolOID, n, 1), byteas(n)
	logged := make([]job.ExecutionID, n)
	for i, a := range as {
		logged[i] = a.Execution
		ids.uuid(a.Execution)
		tokens.int8(int64(a.Token))
		workers.uuid(a.Worker)
		firsts.int4(a.From)
		uptos.int4(a.To.Lines)
		sizes.int8(a.To.Bytes)
		cuts.bool(a.To.Cut)
		data.bytes(a.Data)
	}
	var out []engine.LogAppended
	err := s.write(ctx, "append logs", func(ctx context.Context, c *pgxpool.Conn) error {
		out = make([]engine.LogAppended, n)
		if err := unpack(ctx, s.database, c, logged...); err != nil {
			return err
		}
		rows, _ := c.Query(ctx, appendLogsSQL, ids, tokens, workers, firsts, uptos, sizes, cuts, data)
		stored, err := pgx.CollectRows(rows, pgx.RowTo[int])
		if err != nil {
			return err
		}
		for _, i := range stored {
			out[i-1] = engine.LogAppended{Stored: true, Held: true, Head: as[i-1].To}
		}
		if len(stored) == n {
			return nil
		}
		rows, _ = c.Query(ctx, logHeadsSQL, ids, tokens, workers)
		var i int
		var a engine.LogAppended
		_, err = pgx.ForEachRow(rows, []any{&i, &a.Held, &a.Head.Lines, &a.Head.Bytes, &a.Head.Cut}, func() error {
			if !out[i-1].Stored {
				out[i-1] = a
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Logs reads the log of an execution from a position on.
func (s *reads) Logs(ctx context.Context, t tenant.ID, x job.ExecutionID, q engine.LogQuery) ([]engine.LogChunk, error) {
	var out []engine.LogChunk
	err := s.look(ctx, "read logs", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, readLogsSQL, [16]byte(x), string(t), int64(q.From.Token), q.From.Line, q.Attempt, q.Chunks)
		var err error
		out, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (l engine.LogChunk, err error) {
			err = r.Scan((*int64)(&l.Token), &l.Attempt, &l.From, &l.To, &l.Data)
			return l, err
		})
		if err != nil || len(out) > 0 {
			return err
		}
		return exists(ctx, c, t, x)
	})
	return out, err
}

// LogLines counts the lines of an execution's log: the end of each attempt's, added up.
func (s *reads) LogLines(ctx context.Context, t tenant.ID, x job.ExecutionID, attempt int) (int64, error) {
	var total int64
	err := s.look(ctx, "count log lines", func(ctx context.Context, c *pgxpool.Conn) error {
		return c.QueryRow(ctx, logLinesSQL, [16]byte(x), string(t), attempt).Scan(&total)
	})
	return total, err
}

// tidyLogs drops logs of unknown executions; each call examines the next few.
func (s *upkeep) tidyLogs(ctx context.Context, c *pgxpool.Conn) error {
	var from, last [16]byte
	if p := s.logged.Load(); p != nil {
		from = *p
	}
	var seen int
	if err := c.QueryRow(ctx, tidyLogsSQL, from, tidiedLogs).Scan(&seen, (*id)(&last)); err != nil {
		return err
	}
	if seen < tidiedLogs {
		last = [16]byte{} // from the start, next time
	}
	s.logged.Store(&last)
	return nil
}
