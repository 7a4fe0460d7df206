package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// handBackSQL takes rows out of the directory and returns what still carries
// their tokens to the queue, uncharged.
const handBackSQL = `
	WITH d AS MATERIALIZED (
		DELETE FROM leases WHERE worker = $1 AND lease <> ALL ($2::int8[]) AND ($4::timestamptz IS NULL OR at < $4) RETURNING lease, ids
	), asked AS MATERIALIZED (
		SELECT v.id, v.tenant, v.job, d.lease AS token FROM d CROSS JOIN LATERAL unnest(d.ids) u(id)
		CROSS JOIN LATERAL (SELECT id, tenant, job FROM live WHERE id = u.id AND lease = d.lease OFFSET 0) v
		ORDER BY v.id
	), ` + backSQL

// Leave ends a session at once and returns what it held to the queue, uncharged.
func (s *Store) Leave(ctx context.Context, w job.WorkerID) ([]job.Ready, error) {
	var out []job.Ready
	var ended []engine.Ended
	err := s.write(ctx, "end a session", func(ctx context.Context, c *pgxpool.Conn) error {
		return withDays(ctx, c, func() (err error) {
			b := &pgx.Batch{}
			b.Queue("UPDATE sessions SET deposed = true, expires_at = least(expires_at, now()) WHERE id = $1 AND NOT deposed", [16]byte(w))
			b.Queue(handBackSQL, [16]byte(w), bigints(0), jobDeleted, nil)
			r := c.SendBatch(ctx, b)
			defer r.Close()
			if _, err := r.Exec(); err != nil {
				return err
			}
			if out, ended, err = collectBack(r.Query()); err != nil {
				return err
			}
			return r.Close()
		})
	})
	if err != nil {
		return nil, err
	}
	engine.TellEnds(ctx, ended)
	return out, nil
}

// Disown returns to the queue, uncharged, what a session was given before an instant and holds under other tokens than those to keep.
func (s *Store) Disown(ctx context.Context, w job.WorkerID, keep []job.Token, before time.Time) ([]job.Ready, error) {
	kept := bigints(len(keep))
	for _, t := range keep {
		kept.int8(int64(t))
	}
	var out []job.Ready
	var ended []engine.Ended
	err := s.write(ctx, "disown leases", func(ctx context.Context, c *pgxpool.Conn) error {
		return withDays(ctx, c, func() (err error) {
			out, ended, err = collectBack(c.Query(ctx, handBackSQL, [16]byte(w), kept, jobDeleted, orNever(before)))
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	engine.TellEnds(ctx, ended)
	return out, nil
}
