package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// heldBySQL lists the leases of a session, except those to keep.
const heldBySQL = "SELECT lease FROM leases WHERE worker = $1 AND lease <> ALL ($2::int8[]) AND ($3::timestamptz IS NULL OR at < $3) FOR UPDATE"

// handBackSQL removes rows from the directory and returns what still carries their tokens to the queue, uncharged.
const handBackSQL = `
	WITH d AS MATERIALIZED (
		DELETE FROM leases WHERE worker = $1 AND lease = ANY ($2::int8[]) RETURNING lease, ids
	), asked AS MATERIALIZED (
		SELECT v.id, v.tenant, v.job, d.lease AS token FROM d CROSS JOIN LATERAL unnest(d.ids) u(id)
		CROSS JOIN LATERAL (SELECT id, tenant, job FROM live WHERE id = u.id AND lease = d.lease OFFSET 0) v
		ORDER BY v.id
	), ` + backSQL

// Leave ends a session at once and returns its executions to the queue, uncharged, in one transaction: otherwise they
// would look lost. Reap finds a lease that commits meanwhile.
func (s *sessions) Leave(ctx context.Context, w job.WorkerID) (engine.Requeued, error) {
	return s.handBack(ctx, "end a session", w, bigints(0), time.Time{}, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE sessions SET deposed = true, expires_at = least(expires_at, now()) WHERE id = $1 AND NOT deposed", [16]byte(w))
		return err
	})
}

// Disown returns to the queue, uncharged, executions that a session was given before an instant and holds under
// tokens other than those to keep.
func (s *sessions) Disown(ctx context.Context, w job.WorkerID, keep []job.Token, before time.Time) (engine.Requeued, error) {
	kept := bigints(len(keep))
	for _, t := range keep {
		kept.int8(int64(t))
	}
	return s.handBack(ctx, "disown leases", w, kept, before, func(context.Context, pgx.Tx) error { return nil })
}

// handBack locks the directory's rows before bundles, like Reap.
func (s *sessions) handBack(ctx context.Context, doing string, w job.WorkerID, kept *array, before time.Time, first func(context.Context, pgx.Tx) error) (engine.Requeued, error) {
	var out engine.Requeued
	err := s.write(ctx, doing, func(ctx context.Context, c *pgxpool.Conn) error {
		return withDays(ctx, c, func() error {
			return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
				out = engine.Requeued{}
				if err := first(ctx, tx); err != nil {
					return err
				}
				rows, _ := tx.Query(ctx, heldBySQL, [16]byte(w), kept, orNever(before))
				leases := bigints(0)
				var lease int64
				if _, err := pgx.ForEachRow(rows, []any{&lease}, func() error { leases.int8(lease); return nil }); err != nil || len(leases.cells) == 0 {
					return err
				}
				if err := s.unpackLeases(ctx, tx, leases); err != nil {
					return err
				}
				var err error
				out.Ready, out.Ended, err = collectBack(tx.Query(ctx, handBackSQL, [16]byte(w), leases, jobDeleted))
				return err
			})
		})
	})
	if err != nil {
		return engine.Requeued{}, err
	}
	return out, nil
}
