package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	registerSQL = `
		INSERT INTO sessions (id, tenant, host, version, capacity, started_at, running, completed, failed, draining, beat_at, expires_at,
			secret, labels, queues, targets, kinds)
		VALUES ($1, nullif($2, ''), $3, $4, $5, $6, $7, $8, $9, $10, now(), now() + $11, $12, $13, $14, $15, $16)
		ON CONFLICT (id) DO UPDATE SET tenant = EXCLUDED.tenant, host = EXCLUDED.host, version = EXCLUDED.version, capacity = EXCLUDED.capacity,
			started_at = EXCLUDED.started_at, running = EXCLUDED.running, completed = EXCLUDED.completed, failed = EXCLUDED.failed,
			draining = EXCLUDED.draining, beat_at = EXCLUDED.beat_at, expires_at = EXCLUDED.expires_at,
			secret = EXCLUDED.secret, labels = EXCLUDED.labels, queues = EXCLUDED.queues, targets = EXCLUDED.targets, kinds = EXCLUDED.kinds
		WHERE NOT sessions.deposed`
	// A row for each session that was renewed, or one for each of its orders.
	renewSQL = `
		WITH renewed AS (
			UPDATE sessions s SET beat_at = now(), expires_at = now() + $6, running = r.running, completed = r.completed, failed = r.failed, draining = r.draining
			FROM unnest($1::uuid[], $2::int[], $3::int8[], $4::int8[], $5::bool[]) r(id, running, completed, failed, draining)
			WHERE s.id = ANY (ARRAY[r.id]) AND NOT s.deposed
			RETURNING s.id
		)
		SELECT r.id, o.execution, coalesce(o.token, 0), coalesce(o.kind, 0) FROM renewed r
		LEFT JOIN LATERAL (
			SELECT o.execution, o.token, o.kind FROM orders o
			LEFT JOIN LATERAL (SELECT true AS held FROM live WHERE id = o.execution AND lease = o.token OFFSET 0) v ON true
			WHERE o.worker = r.id AND (o.kind = 1 AND v.held OR o.kind = 2 AND o.at > now() - interval '1 hour') OFFSET 0
		) o ON true`
	workerSQL = `
		SELECT id, tenant, host, version, capacity, started_at, running, completed, failed, draining, beat_at, expires_at, deposed,
			secret, labels, queues, targets, kinds
		FROM sessions`
	workersSQL = workerSQL + `
		WHERE (tenant IS NULL OR tenant = $1) AND expires_at > now() - interval '1 hour'
		ORDER BY started_at DESC, id DESC`
)

// Register begins a worker's session, alive for ttl from now; one that has ended does not begin again.
func (s *Store) Register(ctx context.Context, w job.Worker, ttl time.Duration) error {
	var secret []byte
	if w.Secret != [32]byte{} {
		secret = w.Secret[:]
	}
	return s.write(ctx, "register a worker", func(ctx context.Context, c *pgxpool.Conn) error {
		done, err := c.Exec(ctx, registerSQL, [16]byte(w.ID), string(w.Tenant), w.Host, w.Version, w.Capacity, w.StartedAt,
			w.Running, w.Completed, w.Failed, w.Draining, ttl, secret, listOrNil(w.Labels), listOrNil(w.Queues), listOrNil(w.Targets), listOrNil(w.Kinds))
		if err == nil && done.RowsAffected() == 0 {
			return engine.ErrSession
		}
		return err
	})
}

// Renew keeps sessions alive for ttl more and notes how they do. It names those that have ended, and the orders for the others.
func (s *Store) Renew(ctx context.Context, rs []engine.Renewal, ttl time.Duration) (engine.Orders, error) {
	if len(rs) == 0 {
		return engine.Orders{}, nil
	}
	n := len(rs)
	ids, running, completed, failed, draining := uuids(n), ints(n), bigints(n), bigints(n), newArray(pgtype.BoolOID, n, 1)
	for _, r := range sortedBy(rs, func(r engine.Renewal) [16]byte { return r.Worker }) {
		ids.uuid(r.Worker)
		running.int4(r.Running)
		completed.int8(r.Completed)
		failed.int8(r.Failed)
		draining.bool(r.Draining)
	}
	var out engine.Orders
	err := s.write(ctx, "renew sessions", func(ctx context.Context, c *pgxpool.Conn) error {
		out = engine.Orders{}
		alive := make(map[job.WorkerID]bool, n)
		rows, err := c.Query(ctx, renewSQL, ids, running, completed, failed, draining, ttl)
		if err != nil {
			return err
		}
		var o job.Order
		to := []any{(*[16]byte)(&o.Worker), (*id)(&o.Execution), (*int64)(&o.Token), (*uint8)(&o.Kind)}
		_, err = pgx.ForEachRow(rows, to, func() error {
			alive[o.Worker] = true
			if o.Kind != 0 {
				out.Orders = append(out.Orders, o)
			}
			return nil
		})
		for _, r := range rs {
			if !alive[r.Worker] {
				out.Ended = append(out.Ended, r.Worker)
			}
		}
		return err
	})
	if err != nil {
		return engine.Orders{}, err
	}
	return out, nil
}

// Worker finds a session, also one that has ended lately.
func (s *Store) Worker(ctx context.Context, w job.WorkerID) (job.Worker, error) {
	var out job.Worker
	err := s.look(ctx, "find a worker", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, workerSQL+" WHERE id = $1", [16]byte(w))
		var err error
		out, err = pgx.CollectExactlyOneRow(rows, scanWorker)
		return found(err)
	})
	return out, err
}

// Workers lists the sessions that may serve the tenant, the latest first; those that have ended for an hour more.
func (s *Store) Workers(ctx context.Context, t tenant.ID) ([]job.Worker, error) {
	var out []job.Worker
	err := s.look(ctx, "list workers", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, workersSQL, string(t))
		var err error
		out, err = pgx.CollectRows(rows, scanWorker)
		return err
	})
	return out, err
}

// scanWorker reads what workerSQL selects.
func scanWorker(r pgx.CollectableRow) (w job.Worker, err error) {
	err = r.Scan((*[16]byte)(&w.ID), (*text)(&w.Tenant), &w.Host, &w.Version, &w.Capacity, at(&w.StartedAt),
		&w.Running, &w.Completed, &w.Failed, &w.Draining, at(&w.BeatAt), at(&w.ExpiresAt), &w.Ended,
		(*digest)(&w.Secret), &w.Labels, &w.Queues, &w.Targets, &w.Kinds)
	return w, err
}

// listOrNil makes of an empty list none, which is stored as NULL.
func listOrNil(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return list
}
