package sqlite

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	askSQL = `
		UPDATE live SET cancel_at = ?, cancel_reason = ? WHERE id = ? AND tenant = ? AND lease > 0 AND cancel_at IS NULL
		RETURNING worker, lease, attempt, parked_until IS NOT NULL, class = 'workflow'`
	// stopRunSQL tells a workflow run that it should be cancelled.
	stopRunSQL = `
		INSERT INTO run_marks (execution, run, place, tenant, status, finished_at) VALUES (?1, coalesce((SELECT id FROM runs WHERE execution = ?1), ?1), -1, ?2, 5, ?3)
		ON CONFLICT (execution, place) DO NOTHING`
	askedSQL = "SELECT cancel_reason FROM live" + held + " AND cancel_at IS NOT NULL"
	orderSQL = `
		INSERT INTO orders (worker, execution, token, kind, at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (worker, execution, token) DO UPDATE SET kind = excluded.kind, at = excluded.at`

	// overdueSQL lists old cancels, and what they refer to if it still runs.
	overdueSQL = `
		SELECT o.worker, o.execution, o.token, v.id IS NOT NULL, v.cancel_reason, v.attempt, v.tenant FROM orders o INDEXED BY orders_age
		LEFT JOIN live v ON v.id = o.execution AND v.lease = o.token
		WHERE o.kind = 1 AND o.at <= ? ORDER BY o.at`
	thisOrder     = " WHERE worker = ? AND execution = ? AND token = ?"
	dropOrderSQL  = "DELETE FROM orders" + thisOrder
	lostOrdersSQL = `
		DELETE FROM orders WHERE (worker, execution, token) IN
			(SELECT worker, execution, token FROM orders INDEXED BY orders_age WHERE kind = 2 AND at <= ? LIMIT ?)`
)

// jobDeleted is the end of executions that are CANCELLED because their job was deleted.
var jobDeleted = engine.EncodeEnd(job.JobDeleted, nil)

// askedToStop is the end of executions that were cancelled by request.
func askedToStop(reason string) []byte {
	return engine.EncodeEnd(&job.Error{Type: job.CancelledError, Message: reason}, nil)
}

// Cancel ends a waiting execution as CANCELLED, and asks a running one to stop.
func (s *leases) Cancel(ctx context.Context, t tenant.ID, id job.ExecutionID, reason string, e *audit.Entry) (out engine.Cancelled, err error) {
	err = s.write(ctx, "cancel an execution", func(c *conn, now int64) error {
		h := telling(c, now)
		ended, err := h.endAlone(t, id, job.Cancelled, askedToStop(reason))
		if err != nil {
			return err
		}
		if ended {
			out.Status = job.Cancelled
		} else if out.Status, err = ask(h, t, id, reason); err != nil {
			return err
		}
		out.Ended = h.told
		if err := h.tally(); err != nil {
			return err
		}
		return record(c, e)
	})
	if err != nil {
		return engine.Cancelled{}, err
	}
	return out, nil
}

// ask asks a running execution to stop, once, and returns its status. A parked one ends at once: there is nobody to
// ask. A workflow run ends when its nodes have.
func ask(h *history, t tenant.ID, id job.ExecutionID, reason string) (job.Status, error) {
	c, now := h.conn, h.now
	e := job.Event{Kind: job.EventAsked, Note: reason}
	parked, run := false, false
	asked, err := c.prepare(askSQL).int(now).text(reason).id(id).text(string(t)).first(func(r *row) error {
		e.Worker, e.Token, e.Attempt, parked, run = r.id(), job.Token(r.int64()), r.int(), r.bool(), r.bool()
		return nil
	})
	if err != nil {
		return 0, err
	}
	if run {
		if _, err := c.prepare(stopRunSQL).id(id).text(string(t)).int(now).exec(); err != nil {
			return 0, err
		}
		return job.Cancelling, tell(c, now, t, id, e)
	}
	if parked {
		_, err := cancelled(h, job.Lease{Execution: id, Token: e.Token}, 0, nil)
		return job.Cancelled, err
	}
	if asked {
		if err := order(c, now, job.Order{Worker: e.Worker, Lease: job.Lease{Execution: id, Token: e.Token}, Kind: job.OrderCancel}); err != nil {
			return 0, err
		}
		return job.Cancelling, tell(c, now, t, id, e)
	}
	if before, err := exists(c, "SELECT 1 FROM live WHERE tenant = ? AND id = ?", t, id); err != nil || before {
		return job.Cancelling, err
	}
	var status job.Status
	_, err = c.prepare("SELECT status FROM executions WHERE tenant = ? AND id = ?").text(string(t)).id(id).first(func(r *row) error {
		status = job.Status(r.int())
		return nil
	})
	switch {
	case err != nil:
		return 0, err
	case status == 0:
		return 0, engine.ErrNotFound
	case status != job.Cancelled:
		return 0, engine.ErrConflict
	}
	return status, nil
}

// order stores an order for a worker, replacing an earlier one for the same lease.
func order(c *conn, now int64, o job.Order) error {
	_, err := c.prepare(orderSQL).id(o.Worker).id(o.Execution).int(int64(o.Token)).int(int64(o.Kind)).int(now).exec()
	return err
}

// cancelled ends an execution held under the lease if it was asked to stop, and reports whether it did.
func cancelled(h *history, l job.Lease, tries int, result []byte) (applied bool, err error) {
	var reason string
	asked, err := h.prepare(askedSQL).id(l.Execution).int(int64(l.Token)).first(func(r *row) error {
		reason = r.text()
		return nil
	})
	if err != nil || !asked {
		return false, err
	}
	return h.finish(l, job.Cancelled, tries, result, askedToStop(reason))
}

// Force ends executions that were asked to stop longer than grace ago and still run, and orders their workers to drop
// them.
func (s *leases) Force(ctx context.Context, grace time.Duration, limit int) (forced []engine.Ended, err error) {
	err = s.write(ctx, "force cancels", func(c *conn, now int64) error {
		held, over, err := overdue(c, now-grace.Microseconds(), limit)
		if err != nil {
			return err
		}
		for _, o := range over {
			if _, err := c.prepare(dropOrderSQL).id(o.Worker).id(o.Execution).int(int64(o.Token)).exec(); err != nil {
				return err
			}
		}
		h := telling(c, now)
		for _, o := range held {
			ended, err := h.finish(o.Lease, job.Cancelled, 0, nil, askedToStop(o.reason))
			if err != nil {
				return err
			}
			if !ended {
				continue
			}
			o.Kind = job.OrderLost
			if err := order(c, now, o.Order); err != nil {
				return err
			}
			if err := tell(c, now, o.tenant, o.Execution, job.Event{Kind: job.EventForced, Token: o.Token, Attempt: o.attempt, Worker: o.Worker}); err != nil {
				return err
			}
		}
		forced = h.told
		return h.tally()
	})
	if err != nil {
		return nil, err
	}
	return forced, nil
}

// cancelOrder is an order to stop, with its reason.
type cancelOrder struct {
	job.Order
	reason  string
	attempt int
	tenant  tenant.ID
}

// overdue lists the cancels requested by then: up to limit of executions that still run, and those met on the way
// whose lease is over.
func overdue(c *conn, then int64, limit int) (held, over []cancelOrder, err error) {
	if limit <= 0 {
		return nil, nil, nil
	}
	_, err = c.prepare(overdueSQL).int(then).until(func(r *row) (bool, error) {
		o := cancelOrder{Order: job.Order{Worker: r.id(), Lease: job.Lease{Execution: r.id(), Token: job.Token(r.int64())}, Kind: job.OrderCancel}}
		if runs := r.bool(); runs {
			o.reason, o.attempt, o.tenant = r.text(), r.int(), tenant.ID(r.text())
			held = append(held, o)
		} else {
			over = append(over, o)
		}
		return len(held) >= limit, nil
	})
	return held, over, err
}
