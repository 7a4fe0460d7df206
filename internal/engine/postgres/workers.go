package postgres

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	registerSQL = `
		INSERT INTO sessions (id, tenant, host, version, capacity, started_at, running, completed, failed, draining, beat_at, expires_at,
			secret, labels, queues, targets, kinds, memory_used, memory_limit)
		VALUES ($1, nullif($2, ''), $3, $4, $5, $6, $7, $8, $9, $10, now(), now() + $11, $12, $13, $14, $15, $16, $17, $18)
		ON CONFLICT (id) DO UPDATE SET tenant = EXCLUDED.tenant, host = EXCLUDED.host, version = EXCLUDED.version, capacity = EXCLUDED.capacity,
			started_at = EXCLUDED.started_at, running = EXCLUDED.running, completed = EXCLUDED.completed, failed = EXCLUDED.failed,
			draining = EXCLUDED.draining, beat_at = EXCLUDED.beat_at, expires_at = EXCLUDED.expires_at,
			secret = EXCLUDED.secret, labels = EXCLUDED.labels, queues = EXCLUDED.queues, targets = EXCLUDED.targets, kinds = EXCLUDED.kinds,
			memory_used = EXCLUDED.memory_used, memory_limit = EXCLUDED.memory_limit
		WHERE NOT sessions.deposed`
	advanceSQL = `
		UPDATE live v SET progress = a.progress, progress_at = now()
		FROM unnest($1::uuid[], $2::int8[], $3::bytea[], $4::uuid[]) a(id, token, progress, worker)
		WHERE v.id = ANY (ARRAY[a.id]) AND v.lease = a.token AND v.lease > 0 AND v.worker = a.worker
		RETURNING v.id, v.lease, v.worker`
	drainSQL = `
		UPDATE sessions SET drain = true WHERE id = $2 AND (tenant IS NULL OR tenant = $1) AND NOT deposed AND expires_at > now()`
	cordonSQL = `
		UPDATE sessions SET cordoned = $3 WHERE id = $2 AND (tenant IS NULL OR tenant = $1) AND NOT deposed AND expires_at > now()`
	// A row for each renewed session, or one for each of its orders. A heartbeat that omits its memory leaves it as
	// it was.
	renewSQL = `
		WITH renewed AS (
			UPDATE sessions s SET beat_at = now(), expires_at = now() + $6, running = r.running, completed = r.completed, failed = r.failed, draining = r.draining,
				memory_used = coalesce(nullif(r.used, 0), s.memory_used), memory_limit = coalesce(nullif(r.most, 0), s.memory_limit)
			FROM unnest($1::uuid[], $2::int[], $3::int8[], $4::int8[], $5::bool[], $7::int8[], $8::int8[]) r(id, running, completed, failed, draining, used, most)
			WHERE s.id = ANY (ARRAY[r.id]) AND NOT s.deposed
			RETURNING s.id, s.drain
		)
		SELECT r.id, r.drain, o.execution, coalesce(o.token, 0), coalesce(o.kind, 0) FROM renewed r
		LEFT JOIN LATERAL (
			SELECT o.execution, o.token, o.kind FROM orders o
			LEFT JOIN LATERAL (SELECT true AS held FROM live WHERE id = o.execution AND lease = o.token OFFSET 0) v ON true
			WHERE o.worker = r.id AND (o.kind = 1 AND v.held OR o.kind = 2 AND o.at > now() - interval '1 hour') OFFSET 0
		) o ON true`
	workerSQL = `
		SELECT id, tenant, host, version, capacity, started_at, running, completed, failed, draining, beat_at, expires_at, deposed, cordoned,
			secret, labels, queues, targets, kinds, memory_used, memory_limit
		FROM sessions`
	// people is the condition that a session is not the server's own, under which it begins workflow runs: that one
	// is never listed or counted.
	people     = "targets IS DISTINCT FROM '{workflow}'"
	workersSQL = workerSQL + `
		WHERE ` + people + ` AND (tenant IS NULL OR tenant = $1) AND expires_at > now() - interval '1 hour' AND id > $2
		ORDER BY id LIMIT $3`
)

// Register begins a worker's session, which lives for ttl from now; an ended one does not begin again.
func (s *sessions) Register(ctx context.Context, w job.Worker, ttl time.Duration) error {
	var secret []byte
	if w.Secret != [32]byte{} {
		secret = w.Secret[:]
	}
	return s.write(ctx, "register a worker", func(ctx context.Context, c *pgxpool.Conn) error {
		done, err := c.Exec(ctx, registerSQL, [16]byte(w.ID), string(w.Tenant), w.Host, w.Version, w.Capacity, w.StartedAt,
			w.Running, w.Completed, w.Failed, w.Draining, ttl, secret, listOrNil(w.Labels), listOrNil(w.Queues), listOrNil(w.Targets), listOrNil(w.Kinds),
			w.Memory.Used, w.Memory.Limit)
		if err == nil && done.RowsAffected() == 0 {
			return engine.ErrSession
		}
		return err
	})
}

// Renew keeps sessions alive for another ttl, and stores the workers' reports and the progress of their executions.
// It returns those that have ended, those that should drain, and the orders for all that have not ended.
func (s *sessions) Renew(ctx context.Context, rs []engine.Renewal, ttl time.Duration) (engine.Orders, error) {
	if len(rs) == 0 {
		return engine.Orders{}, nil
	}
	n := len(rs)
	ids, running, completed, failed, draining := uuids(n), ints(n), bigints(n), bigints(n), newArray(pgtype.BoolOID, n, 1)
	used, most := bigints(n), bigints(n)
	for _, r := range sortedBy(rs, func(r engine.Renewal) [16]byte { return r.Worker }) {
		ids.uuid(r.Worker)
		running.int4(r.Running)
		completed.int8(r.Completed)
		failed.int8(r.Failed)
		draining.bool(r.Draining)
		used.int8(r.Memory.Used)
		most.int8(r.Memory.Limit)
	}
	advances := newAdvances(rs)
	var out engine.Orders
	err := s.write(ctx, "renew sessions", func(ctx context.Context, c *pgxpool.Conn) error {
		if err := unpack(ctx, s.database, c, advances.executions()...); err != nil {
			return err
		}
		b := &pgx.Batch{}
		b.Queue(renewSQL, ids, running, completed, failed, draining, ttl, used, most)
		if len(advances) > 0 {
			b.Queue(advanceSQL, advances.args()...)
		}
		r := c.SendBatch(ctx, b)
		defer r.Close()
		var alive map[job.WorkerID]bool
		var err error
		if out, alive, err = collectOrders(r); err != nil {
			return err
		}
		for _, x := range rs {
			if !alive[x.Worker] {
				out.Ended = append(out.Ended, x.Worker)
			}
		}
		if len(advances) > 0 {
			stale, err := advances.stale(r)
			if err != nil {
				return err
			}
			for _, o := range stale {
				if alive[o.Worker] && !slices.Contains(out.Orders, o) {
					out.Orders = append(out.Orders, o)
				}
			}
		}
		return r.Close()
	})
	if err != nil {
		return engine.Orders{}, err
	}
	return out, nil
}

// collectOrders reads the result of renewSQL, and who was renewed.
func collectOrders(r pgx.BatchResults) (out engine.Orders, alive map[job.WorkerID]bool, err error) {
	alive = map[job.WorkerID]bool{}
	var o job.Order
	var drain bool
	rows, err := r.Query()
	if err != nil {
		return out, alive, err
	}
	to := []any{(*[16]byte)(&o.Worker), &drain, (*id)(&o.Execution), (*int64)(&o.Token), (*uint8)(&o.Kind)}
	_, err = pgx.ForEachRow(rows, to, func() error {
		if drain && !alive[o.Worker] {
			out.Drain = append(out.Drain, o.Worker)
		}
		alive[o.Worker] = true
		if o.Kind != 0 {
			out.Orders = append(out.Orders, o)
		}
		return nil
	})
	return out, alive, err
}

// advance is progress, and its reporter.
type advance struct {
	job.Advance
	worker job.WorkerID
}

// advances are sorted, and the last of each lease and worker.
type advances []advance

// holder is a lease and the worker that claims to hold it.
type holder struct {
	job.Lease
	worker job.WorkerID
}

func newAdvances(rs []engine.Renewal) advances {
	var all advances
	places := map[holder]int{}
	for _, r := range rs {
		for _, a := range r.Advances {
			by := holder{a.Lease, r.Worker}
			if i, ok := places[by]; ok {
				all[i] = advance{a, r.Worker}
				continue
			}
			places[by] = len(all)
			all = append(all, advance{a, r.Worker})
		}
	}
	return sortedBy(all, func(a advance) [16]byte { return a.Execution })
}

func (as advances) executions() []job.ExecutionID {
	out := make([]job.ExecutionID, len(as))
	for i := range as {
		out[i] = as[i].Execution
	}
	return out
}

func (as advances) args() []any {
	ids, tokens, progress, workers := uuids(len(as)), bigints(len(as)), byteas(len(as)), uuids(len(as))
	for _, a := range as {
		ids.uuid(a.Execution)
		tokens.int8(int64(a.Token))
		progress.bytes(engine.EncodeProgress(a.Percent, a.Message))
		workers.uuid(a.worker)
	}
	return []any{ids, tokens, progress, workers}
}

// stale reads the result of advanceSQL, and orders workers that no longer hold what they reported on to drop it.
func (as advances) stale(r pgx.BatchResults) ([]job.Order, error) {
	rows, err := r.Query()
	if err != nil {
		return nil, err
	}
	kept := map[holder]bool{}
	var l holder
	if _, err := pgx.ForEachRow(rows, []any{(*[16]byte)(&l.Execution), (*int64)(&l.Token), (*id)(&l.worker)}, func() error { kept[l] = true; return nil }); err != nil {
		return nil, err
	}
	var out []job.Order
	for _, a := range as {
		if !kept[holder{a.Lease, a.worker}] {
			out = append(out, job.Order{Worker: a.worker, Lease: a.Lease, Kind: job.OrderLost})
		}
	}
	return out, nil
}

// Drain asks a session that may serve the tenant to take no more work.
func (s *sessions) Drain(ctx context.Context, t tenant.ID, w job.WorkerID, e *audit.Entry) error {
	return s.change(ctx, "drain a worker", e, func(ctx context.Context, c writer) error {
		done, err := c.Exec(ctx, drainSQL, string(t), [16]byte(w))
		if err == nil && done.RowsAffected() == 0 {
			return engine.ErrNotFound
		}
		return err
	})
}

// Cordon cordons or uncordons a session that may serve the tenant.
func (s *sessions) Cordon(ctx context.Context, t tenant.ID, w job.WorkerID, on bool, e *audit.Entry) error {
	return s.change(ctx, "cordon a worker", e, func(ctx context.Context, c writer) error {
		done, err := c.Exec(ctx, cordonSQL, string(t), [16]byte(w), on)
		if err == nil && done.RowsAffected() == 0 {
			return engine.ErrNotFound
		}
		return err
	})
}

// Cordoned lists the sessions that have not ended and are cordoned.
func (s *sessions) Cordoned(ctx context.Context) (out []job.WorkerID, err error) {
	err = s.look(ctx, "list cordoned workers", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, "SELECT id FROM sessions WHERE cordoned AND NOT deposed")
		out, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (w job.WorkerID, err error) { return w, r.Scan((*[16]byte)(&w)) })
		return err
	})
	return out, err
}

// Worker finds a session, even one that has ended lately.
func (s *sessions) Worker(ctx context.Context, w job.WorkerID) (job.Worker, error) {
	var out job.Worker
	err := s.look(ctx, "find a worker", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, workerSQL+" WHERE id = $1", [16]byte(w))
		var err error
		out, err = pgx.CollectExactlyOneRow(rows, scanWorker)
		return found(err)
	})
	return out, err
}

// Workers lists the sessions that may serve the tenant, newest first, including those that ended within the last
// hour.
func (s *sessions) Workers(ctx context.Context, t tenant.ID) ([]job.Worker, error) {
	var out, some []job.Worker
	var after job.WorkerID
	for {
		err := s.look(ctx, "list workers", func(ctx context.Context, c *pgxpool.Conn) error {
			rows, _ := c.Query(ctx, workersSQL, string(t), after, workersAtOnce)
			var err error
			some, err = pgx.CollectRows(rows, scanWorker)
			return err
		})
		if err != nil {
			return nil, err
		}
		if out = append(out, some...); len(some) < workersAtOnce {
			break
		}
		after = some[len(some)-1].ID
	}
	slices.SortFunc(out, func(a, b job.Worker) int {
		return cmp.Or(b.StartedAt.Compare(a.StartedAt), bytes.Compare(b.ID[:], a.ID[:]))
	})
	return out, nil
}

// workersAtOnce limits the sessions that one statement lists.
const workersAtOnce = 10_000

// scanWorker reads what workerSQL selects.
func scanWorker(r pgx.CollectableRow) (w job.Worker, err error) {
	err = r.Scan((*[16]byte)(&w.ID), (*text)(&w.Tenant), &w.Host, &w.Version, &w.Capacity, at(&w.StartedAt),
		&w.Running, &w.Completed, &w.Failed, &w.Draining, at(&w.BeatAt), at(&w.ExpiresAt), &w.Ended, &w.Cordoned,
		(*digest)(&w.Secret), &w.Labels, &w.Queues, &w.Targets, &w.Kinds, &w.Memory.Used, &w.Memory.Limit)
	return w, err
}

// listOrNil turns an empty list into nil, which is stored as NULL.
func listOrNil(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return list
}
