package sqlite

import (
	"context"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	registerSQL = `
		INSERT INTO sessions (id, tenant, secret, host, version, labels, queues, targets, kinds, capacity, started_at,
			running, completed, failed, draining, memory_used, memory_limit, beat_at, expires_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET tenant = excluded.tenant, secret = excluded.secret, host = excluded.host, version = excluded.version,
			labels = excluded.labels, queues = excluded.queues, targets = excluded.targets, kinds = excluded.kinds, capacity = excluded.capacity,
			started_at = excluded.started_at, running = excluded.running, completed = excluded.completed, failed = excluded.failed,
			draining = excluded.draining, memory_used = excluded.memory_used, memory_limit = excluded.memory_limit, beat_at = excluded.beat_at, expires_at = excluded.expires_at
		WHERE sessions.deposed = 0`
	// A heartbeat that omits its memory leaves it as it was.
	renewSQL = `
		UPDATE sessions SET running = ?, completed = ?, failed = ?, draining = ?,
			memory_used = coalesce(nullif(?, 0), memory_used), memory_limit = coalesce(nullif(?, 0), memory_limit), beat_at = ?, expires_at = ?
		WHERE id = ? AND deposed = 0 RETURNING drain`
	advanceSQL = "UPDATE live SET progress_at = ?4, progress = ?5" + heldBy
	drainSQL   = "UPDATE sessions SET drain = 1 WHERE id = ? AND (tenant IS NULL OR tenant = ?) AND deposed = 0"
	cordonSQL  = "UPDATE sessions SET cordoned = ? WHERE id = ? AND (tenant IS NULL OR tenant = ?) AND deposed = 0"
	// workerSQL selects what readWorker reads.
	workerSQL = `
		SELECT id, tenant, secret, host, version, labels, queues, targets, kinds, capacity, started_at,
			running, completed, failed, draining, memory_used, memory_limit, beat_at, expires_at, deposed, cordoned FROM sessions`
	// people is the condition that a session is not the server's own, under which it begins workflow runs: that one
	// is never listed or counted.
	people       = `targets IS NOT '["workflow"]'`
	oneWorkerSQL = workerSQL + " WHERE id = ?"
	workersSQL   = workerSQL + `
		WHERE ` + people + ` AND (tenant IS NULL OR tenant = ?) AND (deposed = 0 OR expires_at > ?) ORDER BY started_at DESC, id DESC`

	// staleOrdersSQL drops the orders that a session no longer needs.
	staleOrdersSQL = `
		DELETE FROM orders WHERE worker = ?
			AND (kind = 2 AND at <= ? OR kind = 1 AND NOT EXISTS (SELECT 1 FROM live v WHERE v.id = orders.execution AND v.lease = orders.token))`
	ordersSQL = "SELECT execution, token, kind FROM orders WHERE worker = ?"
)

// Register begins a worker's session, which lives for ttl from now; an ended one does not begin again.
func (s *sessions) Register(ctx context.Context, w job.Worker, ttl time.Duration) error {
	var secret []byte // NULL for none
	if w.Secret != [32]byte{} {
		secret = w.Secret[:]
	}
	return s.write(ctx, "register a worker", func(c *conn, now int64) error {
		q := c.prepare(registerSQL).id(w.ID).textOrNull(string(w.Tenant)).bytes(secret).text(w.Host).text(w.Version).
			texts(w.Labels).texts(w.Queues).texts(w.Targets).texts(w.Kinds).int(int64(w.Capacity)).at(w.StartedAt)
		n, err := q.beat(&w.Beat).int(now).int(now + ttl.Microseconds()).exec()
		if err == nil && n == 0 {
			return engine.ErrSession
		}
		return err
	})
}

// beat binds a worker's report about itself.
func (q *stmt) beat(b *job.Beat) *stmt {
	return q.int(int64(b.Running)).int(b.Completed).int(b.Failed).bool(b.Draining).int(b.Memory.Used).int(b.Memory.Limit)
}

// Renew keeps sessions alive for another ttl, and stores the workers' reports and their progress. It returns those
// that have ended, those that should drain, and the orders for all live ones.
func (s *sessions) Renew(ctx context.Context, rs []engine.Renewal, ttl time.Duration) (engine.Orders, error) {
	if len(rs) == 0 {
		return engine.Orders{}, nil
	}
	var out engine.Orders
	err := s.write(ctx, "renew sessions", func(c *conn, now int64) error {
		for i := range rs {
			w := rs[i].Worker
			drain := false
			lives, err := c.prepare(renewSQL).beat(&rs[i].Beat).int(now).int(now + ttl.Microseconds()).id(w).first(func(r *row) error {
				drain = r.bool()
				return nil
			})
			if err != nil {
				return err
			}
			if !lives {
				out.Ended = append(out.Ended, w)
				continue
			}
			if drain {
				out.Drain = append(out.Drain, w)
			}
			orders, err := orders(c, now, w)
			if err != nil {
				return err
			}
			if orders, err = advance(c, now, orders, &rs[i]); err != nil {
				return err
			}
			out.Orders = append(out.Orders, orders...)
		}
		return nil
	})
	if err != nil {
		return engine.Orders{}, err
	}
	return out, nil
}

// orders lists the orders for a session, and drops those that it no longer needs.
func orders(c *conn, now int64, w job.WorkerID) (out []job.Order, err error) {
	if _, err := c.prepare(staleOrdersSQL).id(w).int(now - afterlife.Microseconds()).exec(); err != nil {
		return nil, err
	}
	err = c.prepare(ordersSQL).id(w).each(func(r *row) error {
		l := job.Lease{Execution: r.id(), Token: job.Token(r.int64())}
		out = append(out, job.Order{Worker: w, Lease: l, Kind: job.OrderKind(r.int())})
		return nil
	})
	return out, err
}

// advance stores the progress of what a session holds, and adds an order for leases that it no longer holds, unless
// there is one.
func advance(c *conn, now int64, orders []job.Order, r *engine.Renewal) ([]job.Order, error) {
	known := len(orders)
	for _, a := range r.Advances {
		n, err := c.prepare(advanceSQL).id(a.Execution).int(int64(a.Token)).id(r.Worker).int(now).bytes(engine.EncodeProgress(a.Percent, a.Message)).exec()
		if err != nil {
			return nil, err
		}
		lost := job.Order{Worker: r.Worker, Lease: a.Lease, Kind: job.OrderLost}
		if n == 0 && !slices.Contains(orders[:known], lost) {
			orders = append(orders, lost)
		}
	}
	return orders, nil
}

// Drain asks a session that may serve the tenant to take no more work.
func (s *sessions) Drain(ctx context.Context, t tenant.ID, w job.WorkerID, e *audit.Entry) error {
	return s.write(ctx, "drain a worker", func(c *conn, _ int64) error {
		n, err := c.prepare(drainSQL).id(w).text(string(t)).exec()
		if err == nil && n == 0 {
			err = engine.ErrNotFound
		}
		if err != nil {
			return err
		}
		return record(c, e)
	})
}

// Cordon cordons or uncordons a session that may serve the tenant.
func (s *sessions) Cordon(ctx context.Context, t tenant.ID, w job.WorkerID, on bool, e *audit.Entry) error {
	return s.write(ctx, "cordon a worker", func(c *conn, _ int64) error {
		n, err := c.prepare(cordonSQL).bool(on).id(w).text(string(t)).exec()
		if err == nil && n == 0 {
			err = engine.ErrNotFound
		}
		if err != nil {
			return err
		}
		return record(c, e)
	})
}

// Cordoned lists the sessions that have not ended and are cordoned.
func (s *sessions) Cordoned(ctx context.Context) (out []job.WorkerID, err error) {
	err = s.look(ctx, "list cordoned workers", func(c *conn) error {
		return c.prepare("SELECT id FROM sessions WHERE cordoned <> 0 AND deposed = 0").each(func(r *row) error {
			out = append(out, r.id())
			return nil
		})
	})
	return out, err
}

// Worker finds a session, even one that has ended lately.
func (s *sessions) Worker(ctx context.Context, id job.WorkerID) (job.Worker, error) {
	var out job.Worker
	err := s.look(ctx, "find a worker", func(c *conn) error {
		found, err := c.prepare(oneWorkerSQL).id(id).first(func(r *row) (err error) {
			out, err = readWorker(r)
			return err
		})
		if err == nil && !found {
			return engine.ErrNotFound
		}
		return err
	})
	return out, err
}

func readWorker(r *row) (job.Worker, error) {
	w := job.Worker{ID: r.id(), Tenant: tenant.ID(r.text())}
	copy(w.Secret[:], r.bytes())
	w.Host, w.Version = r.text(), r.text()
	for _, v := range []*[]string{&w.Labels, &w.Queues, &w.Targets, &w.Kinds} {
		if err := r.texts(v); err != nil {
			return w, err
		}
	}
	w.Capacity, w.StartedAt = r.int(), r.at()
	w.Beat = job.Beat{Running: r.int(), Completed: r.int64(), Failed: r.int64(), Draining: r.bool(), Memory: job.Memory{Used: r.int64(), Limit: r.int64()}}
	w.BeatAt, w.ExpiresAt, w.Ended, w.Cordoned = r.at(), r.at(), r.bool(), r.bool()
	return w, nil
}

// Workers lists the sessions that may serve the tenant, newest first, including those that ended within the last
// hour.
func (s *sessions) Workers(ctx context.Context, t tenant.ID) ([]job.Worker, error) {
	var out []job.Worker
	err := s.look(ctx, "list workers", func(c *conn) error {
		return c.prepare(workersSQL).text(string(t)).int(s.now() - afterlife.Microseconds()).each(func(r *row) error {
			w, err := readWorker(r)
			out = append(out, w)
			return err
		})
	})
	return out, err
}
