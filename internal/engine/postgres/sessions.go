package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Register begins a worker's session, alive for ttl from now; one that has ended does not begin again.
func (s *Store) Register(ctx context.Context, w job.Worker, ttl time.Duration) error {
	return s.write(ctx, "register a worker", func(ctx context.Context, c *pgxpool.Conn) error {
		done, err := c.Exec(ctx, `
			INSERT INTO sessions (id, tenant, host, version, capacity, started_at, beat_at, expires_at)
			VALUES ($1, nullif($2, ''), $3, $4, $5, $6, now(), now() + $7)
			ON CONFLICT (id) DO UPDATE SET tenant = EXCLUDED.tenant, host = EXCLUDED.host, version = EXCLUDED.version, capacity = EXCLUDED.capacity,
				started_at = EXCLUDED.started_at, beat_at = EXCLUDED.beat_at, expires_at = EXCLUDED.expires_at
			WHERE NOT sessions.deposed`,
			[16]byte(w.ID), string(w.Tenant), w.Host, w.Version, w.Capacity, w.StartedAt, ttl)
		if err == nil && done.RowsAffected() == 0 {
			return engine.ErrSession
		}
		return err
	})
}

const renewSQL = `
	UPDATE sessions s SET beat_at = now(), expires_at = now() + $2 FROM unnest($1::uuid[]) r(id)
	WHERE s.id = ANY (ARRAY[r.id]) AND NOT s.deposed
	RETURNING s.id`

// Renew keeps sessions alive for ttl more, and names those that have ended.
func (s *Store) Renew(ctx context.Context, ws []job.WorkerID, ttl time.Duration) ([]job.WorkerID, error) {
	if len(ws) == 0 {
		return nil, nil
	}
	alive := map[job.WorkerID]bool{}
	err := s.write(ctx, "renew sessions", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, err := c.Query(ctx, renewSQL, sortedIDs(ws), ttl)
		if err != nil {
			return err
		}
		var w job.WorkerID
		_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&w)}, func() error { alive[w] = true; return nil })
		return err
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(ws), func(w job.WorkerID) bool { return alive[w] }), nil
}

// handBackSQL takes rows out of the directory and returns what still carries
// their tokens to the queue, uncharged.
const handBackSQL = `
	WITH d AS MATERIALIZED (
		DELETE FROM leases WHERE worker = $1 AND lease <> ALL ($2::int8[]) RETURNING lease, ids
	), asked AS MATERIALIZED (
		SELECT v.id, v.tenant, v.job, d.lease AS token FROM d CROSS JOIN LATERAL unnest(d.ids) u(id)
		CROSS JOIN LATERAL (SELECT id, tenant, job FROM live WHERE id = u.id AND lease = d.lease OFFSET 0) v
		ORDER BY v.id
	), ` + backSQL

// Leave ends a session at once and returns what it held to the queue, uncharged.
func (s *Store) Leave(ctx context.Context, w job.WorkerID) ([]job.Ready, error) {
	var out []job.Ready
	err := s.write(ctx, "end a session", func(ctx context.Context, c *pgxpool.Conn) error {
		return withDays(ctx, c, func() (err error) {
			b := &pgx.Batch{}
			b.Queue("UPDATE sessions SET deposed = true, expires_at = least(expires_at, now()) WHERE id = $1 AND NOT deposed", [16]byte(w))
			b.Queue(handBackSQL, [16]byte(w), bigints(0))
			r := c.SendBatch(ctx, b)
			defer r.Close()
			if _, err := r.Exec(); err != nil {
				return err
			}
			if out, err = collectReady(r.Query()); err != nil {
				return err
			}
			return r.Close()
		})
	})
	return out, err
}

// Disown returns to the queue, uncharged, what a session holds under other tokens than those to keep.
func (s *Store) Disown(ctx context.Context, w job.WorkerID, keep []job.Token) ([]job.Ready, error) {
	kept := bigints(len(keep))
	for _, t := range keep {
		kept.int8(int64(t))
	}
	var out []job.Ready
	err := s.write(ctx, "disown leases", func(ctx context.Context, c *pgxpool.Conn) error {
		return withDays(ctx, c, func() (err error) {
			out, err = collectReady(c.Query(ctx, handBackSQL, [16]byte(w), kept))
			return err
		})
	})
	return out, err
}
