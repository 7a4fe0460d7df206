package postgres

import (
	"context"
	"fmt"
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
	), h AS MATERIALIZED (
		SELECT u.id, d.lease FROM d CROSS JOIN LATERAL unnest(d.ids) u(id) ORDER BY u.id, d.lease
	)
	UPDATE live v SET lease = -v.lease, attempt = v.attempt - 1
	FROM h WHERE v.id = ANY (ARRAY[h.id]) AND v.lease = h.lease
	RETURNING ` + readyColumns

// Leave ends a session at once and returns what it held to the queue, uncharged.
func (s *Store) Leave(ctx context.Context, w job.WorkerID) ([]job.Ready, error) {
	var out []job.Ready
	err := s.write(ctx, "end a session", func(ctx context.Context, c *pgxpool.Conn) (err error) {
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
	return out, err
}

// Disown returns to the queue, uncharged, what a session holds under other tokens than those to keep.
func (s *Store) Disown(ctx context.Context, w job.WorkerID, keep []job.Token) ([]job.Ready, error) {
	kept := bigints(len(keep))
	for _, t := range keep {
		kept.int8(int64(t))
	}
	var out []job.Ready
	err := s.write(ctx, "disown leases", func(ctx context.Context, c *pgxpool.Conn) (err error) {
		out, err = collectReady(c.Query(ctx, handBackSQL, [16]byte(w), kept))
		return err
	})
	return out, err
}

const (
	deposeSQL = `
		UPDATE sessions SET deposed = true
		WHERE id = ANY (ARRAY(SELECT id FROM sessions WHERE expires_at < now() AND NOT deposed ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED))`
	// On every pass, so that a lease committed while its session was deposed is found by the next.
	deadSQL = `
		SELECT l.lease, l.worker, s.host, l.size
		FROM sessions s CROSS JOIN LATERAL (SELECT lease, worker, cardinality(ids) AS size FROM leases WHERE worker = s.id ORDER BY lease LIMIT $1 FOR UPDATE SKIP LOCKED) l
		WHERE s.deposed LIMIT $1`
	reapSQL = `
		WITH d AS MATERIALIZED (
			SELECT l.lease, l.worker, l.ids, r.ending FROM unnest($1::int8[], $2::bytea[]) r(lease, ending)
			CROSS JOIN LATERAL (SELECT lease, worker, ids FROM leases WHERE lease = r.lease OFFSET 0) l
		), h AS MATERIALIZED (
			SELECT u.id, d.lease, d.worker, d.ending FROM d CROSS JOIN LATERAL unnest(d.ids) u(id) ORDER BY u.id, d.lease
		), v AS (
			UPDATE live v SET lease = -v.lease, lost = v.lost + 1
			FROM h WHERE v.id = ANY (ARRAY[h.id]) AND v.lease = h.lease
			RETURNING v.id, v.tenant, v.part, v.priority, v.due_at, v.attempt, v.leased_at, h.lease AS token, h.worker, h.ending
		), past AS (
			INSERT INTO attempts (execution, token, tenant, number, worker, started_at, ended_at, lost, ending)
			SELECT id, token, tenant, attempt, worker, leased_at, now(), true, ending FROM v
			ON CONFLICT (execution, token) DO NOTHING
		), gone AS (
			DELETE FROM leases l USING unnest($1::int8[]) r(lease) WHERE l.lease = ANY (ARRAY[r.lease])
		)
		SELECT ` + readyColumns + ` FROM v`
)

// reaped is how many executions of dead workers come back in one pass, unless one lease alone has more.
const reaped = 20_000

// Reap ends sessions that have expired and returns what they held to the queue
// as lost attempts: of up to limit leases, each of many executions.
func (s *Store) Reap(ctx context.Context, limit int) ([]job.Ready, error) {
	var out []job.Ready
	err := s.write(ctx, "reap", func(ctx context.Context, c *pgxpool.Conn) error {
		out = nil
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			b := &pgx.Batch{}
			b.Queue(deposeSQL, limit)
			b.Queue(deadSQL, limit)
			r := tx.SendBatch(ctx, b)
			defer r.Close()
			if _, err := r.Exec(); err != nil {
				return err
			}
			leases, endings := bigints(0), byteas(0)
			var lease int64
			var w job.WorkerID
			var host string
			var size, sum int
			rows, err := r.Query()
			if err != nil {
				return err
			}
			dead, err := pgx.ForEachRow(rows, []any{&lease, (*[16]byte)(&w), &host, &size}, func() error {
				if sum += size; sum > reaped && sum > size {
					return nil
				}
				leases.int8(lease)
				endings.bytes(engine.EncodeEnd(&job.Error{
					Type: job.LeaseLost, Message: fmt.Sprintf("worker %s on %s stopped answering, and its lease ended", w, host),
				}, nil))
				return nil
			})
			if err != nil {
				return err
			}
			if err := r.Close(); err != nil || dead.RowsAffected() == 0 {
				return err
			}
			out, err = collectReady(tx.Query(ctx, reapSQL, leases, endings))
			return err
		})
	})
	return out, err
}
