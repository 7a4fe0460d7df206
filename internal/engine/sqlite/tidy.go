package sqlite

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	tidyRows  = 1000                // of a table that one Tidy drops at most
	sweepIDs  = 20_000              // of the directory that one Tidy examines, approximately
	young     = time.Minute         // the age below which most executions of a lease still run
	keepOps   = 30 * 24 * time.Hour // how long a finished operation is kept
	afterlife = time.Hour           // how long an ended session is kept, so that it does not begin again, and an order of kind lost
)

const (
	oldKeysSQL = `
		DELETE FROM idempotency WHERE (tenant, key) IN
			(SELECT tenant, key FROM idempotency INDEXED BY idempotency_expired WHERE expires_at <= ? LIMIT ?)`
	oldSessionsSQL = `
		DELETE FROM sessions WHERE id IN (SELECT id FROM sessions s WHERE deposed <> 0 AND expires_at < ?
			AND NOT EXISTS (SELECT 1 FROM leases WHERE worker = s.id) LIMIT ?)`
	oldOperationsSQL = `
		DELETE FROM operations WHERE id IN
			(SELECT id FROM operations INDEXED BY operations_finished WHERE finished_at IS NOT NULL AND finished_at <= ? LIMIT ?)`
	fullBucketsSQL = "DELETE FROM buckets WHERE bucket IN (SELECT bucket FROM buckets INDEXED BY buckets_age WHERE full_us <= ? LIMIT ?)"
)

// Tidy drops expired idempotency keys, orders and sessions, operations that finished long ago, full buckets, expired
// pauses, logs of executions that are gone, and entries that the directory no longer needs.
func (s *upkeep) Tidy(ctx context.Context) (more bool, err error) {
	gs, more, err := s.sweep(ctx)
	if err != nil {
		return false, err
	}
	err = s.write(ctx, "tidy", func(c *conn, now int64) error {
		for _, g := range gs {
			if err := g.shrink(c); err != nil {
				return err
			}
		}
		for _, old := range []struct {
			sql    string
			before int64
		}{
			{oldKeysSQL, now}, {lostOrdersSQL, now - afterlife.Microseconds()}, {oldSessionsSQL, now - afterlife.Microseconds()},
			{oldOperationsSQL, now - keepOps.Microseconds()}, {fullBucketsSQL, now}, {oldPausesSQL, now}, {oldSecretsSQL, now}, {oldPastSecretsSQL, now - engine.PastLife.Microseconds()},
			{oldMinutesSQL, now - engine.MinutesKept.Microseconds()}, {oldTracesSQL, now - engine.TracesKept.Microseconds()},
		} {
			n, err := c.prepare(old.sql).int(old.before).int(tidyRows).exec()
			if err != nil {
				return err
			}
			more = more || n == tidyRows
		}
		for sql, life := range oldTallies {
			n, err := c.prepare(sql).int(now - life.Microseconds()).int(tidyRows).exec()
			if err != nil {
				return err
			}
			more = more || n == tidyRows
		}
		// Of jobs that were inactive for so long that no new month replaced the oldest.
		months, err := c.prepare(idleMonthsSQL).int(int64(engine.Month(time.UnixMicro(now)) - engine.MonthsKept + 1)).int(tidyRows).exec()
		if err != nil {
			return err
		}
		more = more || months == tidyRows
		if err := s.tidyRevisions(c, now); err != nil {
			return err
		}
		seals, err := tidyAudit(c, now)
		if err != nil {
			return err
		}
		left, err := s.tidyLogs(c)
		more = more || left || seals
		return err
	})
	if err != nil {
		return false, err
	}
	return more, nil
}

// sweep examines the next part of the directory and returns the rows to shrink, with the ids that still carry their
// token. It only reads: an id that has lost a token never carries it again.
func (s *upkeep) sweep(ctx context.Context) (shrunk []grant, more bool, err error) {
	var gs []grant
	err = s.look(ctx, "sweep the directory", func(c *conn) error {
		seen := 0
		_, err := c.prepare("SELECT lease, ids FROM leases WHERE lease > ? AND at < ? ORDER BY lease").int(s.swept.Load()).int(s.now() - young.Microseconds()).until(func(r *row) (bool, error) {
			g := grant{token: job.Token(r.int64()), ids: r.bytes()}
			gs = append(gs, g)
			seen += len(g.ids) / 16
			more = seen >= sweepIDs
			return more, nil
		})
		if err != nil {
			return err
		}
		q := c.prepare("SELECT 1 FROM live WHERE id = ? AND lease = ?")
		for _, g := range gs {
			kept := grant{token: g.token}
			err := g.each(func(l job.Lease) error {
				carries, err := q.id(l.Execution).int(int64(l.Token)).first(nothing)
				if carries {
					kept.ids = append(kept.ids, l.Execution[:]...)
				}
				return err
			})
			if err != nil {
				return err
			}
			if len(kept.ids)*4 < len(g.ids) {
				shrunk = append(shrunk, kept)
			}
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	var next int64 // from the beginning
	if more {
		next = int64(gs[len(gs)-1].token)
	}
	s.swept.Store(next)
	return shrunk, more, nil
}

// shrink leaves only the ids of g in its row of the directory, or no row.
func (g *grant) shrink(c *conn) error {
	if len(g.ids) == 0 {
		return g.forget(c)
	}
	_, err := c.prepare("UPDATE leases SET ids = ? WHERE lease = ?").bytes(g.ids).int(int64(g.token)).exec()
	return err
}

const (
	oldTracesSQL = "DELETE FROM traces WHERE of IN (SELECT of FROM traces INDEXED BY traces_at WHERE at < ? LIMIT ?)"
)

// oldPausesSQL drops the rows of expired pauses that have no limit.
const oldPausesSQL = "DELETE FROM limits WHERE (tenant, queue) IN (SELECT tenant, queue FROM limits WHERE paused_until <= ? AND max_concurrent = 0 AND rate_count = 0 LIMIT ?)"
