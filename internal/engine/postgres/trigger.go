package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// The lock on the job makes a deletion wait for the new row, or this wait for
// the deletion. An execution that has been here before is not stored again.
const (
	triggerHead = `
		WITH j AS MATERIALIZED (
			SELECT id FROM jobs WHERE tenant = $1 AND id = $2 AND state <> 4 FOR SHARE
		), i AS (`
	triggerTail = `
		), v AS (
			INSERT INTO live (tenant, job, id, part, class, priority, due_at, scheduled_at, nonce, trigger, max_attempts, hold, retry_of, payload)
			SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14 FROM i
			WHERE NOT EXISTS (SELECT 1 FROM executions WHERE id = $3)
			ON CONFLICT (id) DO NOTHING
		)
		SELECT (SELECT count(*) FROM j) > 0, (SELECT count(*) FROM i) > 0`
	triggerSQL      = triggerHead + `SELECT 1 FROM j` + triggerTail
	triggerKeyedSQL = triggerHead + `
			INSERT INTO idempotency (tenant, key, hash, answer, expires_at) SELECT $1, $15, $16, $17, $18 FROM j
			ON CONFLICT (tenant, key) DO UPDATE SET hash = EXCLUDED.hash, answer = EXCLUDED.answer, expires_at = EXCLUDED.expires_at
			WHERE idempotency.expires_at <= now()
			RETURNING 1` + triggerTail
)

// Trigger adds one execution to an existing job.
func (s *Store) Trigger(ctx context.Context, t tenant.ID, e job.Execution, i engine.Idempotency) (engine.Created, error) {
	sql := triggerSQL
	args := []any{
		string(t), [16]byte(e.Job), [16]byte(e.ID), int16(e.Partition), string(e.Class), int16(e.Priority), e.DueAt, e.ScheduledAt, e.Nonce(), int16(e.Trigger),
		int32(e.MaxAttempts), int16(hold(&e)), orNil(e.RetryOf), e.Payload,
	}
	if i.Key != "" {
		sql = triggerKeyedSQL
		args = append(args, i.Key, i.Hash[:], notNil(i.Answer), i.Until)
	}
	var out engine.Created
	err := s.write(ctx, "trigger", func(ctx context.Context, c *pgxpool.Conn) error {
		for range races {
			out = engine.Created{}
			var exists, stored bool
			if err := c.QueryRow(ctx, sql, args...).Scan(&exists, &stored); err != nil {
				return err
			}
			if stored {
				return nil
			}
			if i.Key != "" {
				var hash, answer []byte
				err := c.QueryRow(ctx, "SELECT hash, answer FROM idempotency WHERE tenant = $1 AND key = $2 AND expires_at > now()", string(t), i.Key).Scan(&hash, &answer)
				switch {
				case err == nil && [32]byte(hash) == i.Hash:
					out.Replay = notNil(answer)
					return nil
				case err == nil:
					out.Reused = true
					return nil
				case !errors.Is(err, pgx.ErrNoRows):
					return err
				}
			}
			if !exists {
				return engine.ErrNotFound
			}
			// The key was in the way and has expired since.
		}
		return engine.ErrConflict
	})
	return out, err
}

func orNil[T ~[16]byte](u T) any {
	if [16]byte(u) == [16]byte{} {
		return nil
	}
	return [16]byte(u)
}
