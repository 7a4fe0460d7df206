package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// The lock on the job makes a deletion wait for the new row, or this wait for the deletion. An execution added by an
// earlier call is not stored again; nor is one whose unique key another holds.
var (
	triggerSQL      = triggering(`SELECT 1 FROM j WHERE NOT EXISTS (SELECT 1 FROM held)`)
	triggerKeyedSQL = triggering(`
			INSERT INTO idempotency (tenant, key, hash, answer, expires_at) SELECT $tenant, $key, $hash, $answer, $until FROM j WHERE NOT EXISTS (SELECT 1 FROM held)
			ON CONFLICT (tenant, key) DO UPDATE SET hash = EXCLUDED.hash, answer = EXCLUDED.answer, expires_at = EXCLUDED.expires_at
			WHERE idempotency.expires_at <= now()
			RETURNING 1`)
)

// triggering builds the statement; may yields a row if the execution is to be stored. The execution's columns come
// before the other parameters.
func triggering(may string) string {
	sql := `
		WITH j AS MATERIALIZED (
			SELECT id FROM jobs WHERE tenant = $tenant AND id = $job AND state <> 4 FOR SHARE
		), held AS MATERIALIZED (
			SELECT job, id FROM live WHERE tenant = $tenant AND unique_key = $unique AND unique_key IS NOT NULL AND id IS DISTINCT FROM $id
		), i AS (` + may + `
		), v AS (
			INSERT INTO live (` + liveTable.columns + `) SELECT ` + liveTable.values + ` FROM i CROSS JOIN ` + liveTable.rows + `
			WHERE NOT EXISTS (SELECT 1 FROM executions WHERE id = $id)
			ON CONFLICT (id) DO NOTHING
		)
		SELECT (SELECT count(*) FROM j) > 0, (SELECT count(*) FROM i) > 0, (SELECT job FROM held), (SELECT id FROM held)`
	var names []string
	for i, p := range []string{"$tenant", "$job", "$id", "$unique", "$key", "$hash", "$answer", "$until"} {
		names = append(names, p, fmt.Sprintf("$%d", len(liveTable.fields)+i+1))
	}
	return strings.NewReplacer(names...).Replace(sql)
}

// Trigger adds one execution to an existing job.
func (s *jobs) Trigger(ctx context.Context, t tenant.ID, x job.Execution, i engine.Idempotency, e *audit.Entry) (engine.Created, error) {
	row := liveTable.arrays()
	row.execution(t, &x, true)
	sql, args := triggerSQL, append(row.args(), string(t), [16]byte(x.Job), [16]byte(x.ID), orNone(x.UniqueKey))
	if i.Key != "" {
		sql = triggerKeyedSQL
		args = append(args, i.Key, i.Hash[:], notNil(i.Answer), i.Until)
	}
	var out engine.Created
	err := s.write(ctx, "trigger", func(ctx context.Context, c *pgxpool.Conn) error {
		for range races {
			out = engine.Created{}
			var found, stored bool
			in := engine.Incumbent{Key: x.UniqueKey}
			err := tryTrigger(ctx, c, x.ID, e, sql, args, &found, &stored, (*id)(&in.Job), (*id)(&in.Execution))
			switch {
			case isHeld(err):
				continue // another came in between, and is seen the next time
			case err != nil || stored:
				return err
			}
			if out, err = answeredBefore(ctx, c, t, i); err != nil || out.Replay != nil || out.Reused {
				return err
			}
			if !found {
				return engine.ErrNotFound
			}
			if !in.Execution.IsZero() {
				out.Unique = []engine.Incumbent{in}
				return nil
			}
			// The key was in the way and has expired since.
		}
		return engine.ErrConflict
	})
	return out, err
}

// tryTrigger runs the statement, in one round trip with the audit entry, which is written if the execution was
// stored.
func tryTrigger(ctx context.Context, c *pgxpool.Conn, of job.ExecutionID, e *audit.Entry, sql string, args []any, into ...any) error {
	if e == nil {
		return c.QueryRow(ctx, sql, args...).Scan(into...)
	}
	row := auditTable.arrays()
	row.entry(e)
	q := &pgx.Batch{}
	q.Queue(sql, args...)
	q.Queue(fmt.Sprintf("%s WHERE EXISTS (SELECT 1 FROM live WHERE id = $%d)", auditTable.insert, len(auditTable.fields)+1), append(row.args(), [16]byte(of))...)
	r := c.SendBatch(ctx, q)
	err := r.QueryRow().Scan(into...)
	if closed := r.Close(); err == nil {
		err = closed
	}
	return err
}

// answeredBefore returns the earlier answer to the key, or the zero value.
func answeredBefore(ctx context.Context, c *pgxpool.Conn, t tenant.ID, i engine.Idempotency) (engine.Created, error) {
	if i.Key == "" {
		return engine.Created{}, nil
	}
	var hash, answer []byte
	err := c.QueryRow(ctx, "SELECT hash, answer FROM idempotency WHERE tenant = $1 AND key = $2 AND expires_at > now()", string(t), i.Key).Scan(&hash, &answer)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return engine.Created{}, nil
	case err != nil:
		return engine.Created{}, err
	case [32]byte(hash) == i.Hash:
		return engine.Created{Replay: notNil(answer)}, nil
	}
	return engine.Created{Reused: true}, nil
}

// orNone turns the empty text into NULL.
func orNone(s string) any {
	if s == "" {
		return nil
	}
	return s
}
