package sqlite

import (
	"context"
	"math"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Running executions, like those of dead sessions, are found through the directory: live has no index on leases,
// because every lease would have to update it.

const (
	runningLeaseSQL = "SELECT " + readyColumns + " FROM live" + held + unparked
	allGrantsSQL    = "SELECT lease, ids FROM leases WHERE lease > ? ORDER BY lease"
	parkedSQL       = "SELECT " + readyColumns + ", lease FROM live INDEXED BY live_parked WHERE parked_until IS NOT NULL"
)

// Running lists the leases in the partitions; all, if none is named.
func (s *leases) Running(ctx context.Context, ps []job.Partition) ([]engine.Running, error) {
	wanted := map[job.Partition]bool{}
	for _, p := range ps {
		wanted[p] = true
	}
	var out []engine.Running
	for from, last := int64(0), false; !last; {
		var found []engine.Running
		next := from
		err := s.look(ctx, "list what runs", func(c *conn) error {
			q, looked := c.prepare(runningLeaseSQL), 0
			found = nil
			_, err := c.prepare(allGrantsSQL).int(from).until(func(r *row) (bool, error) {
				g := grant{token: job.Token(r.int64()), ids: r.bytes()}
				next, looked = int64(g.token), looked+len(g.ids)/16
				return looked >= runningPiece, g.each(func(l job.Lease) error {
					_, err := q.id(l.Execution).int(int64(l.Token)).first(func(r *row) error {
						if x := readReady(r); len(ps) == 0 || wanted[x.Partition] {
							found = append(found, engine.Running{Ready: x, Token: l.Token})
						}
						return nil
					})
					return err
				})
			})
			if last = looked < runningPiece; err != nil || !last {
				return err
			}
			return c.prepare(parkedSQL).each(func(r *row) error { // last: what is parked meanwhile is listed twice, rather than missed
				if x := readReady(r); len(ps) == 0 || wanted[x.Partition] {
					found = append(found, engine.Running{Ready: x, Token: job.Token(r.int64())})
				}
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
		out, from = append(out, found...), next
	}
	return engine.Newest(out), nil
}

// runningPiece is how many executions Running reads at once.
const runningPiece = 20_000

const (
	// settled is the age from which a lease is checked for lasting too long: most have ended by then.
	settled = time.Second

	// watchTime limits how long one look reads the directory: a starting process knows of nothing yet.
	watchTime = time.Second
	// watchedPage is how many leases one look covers; the next one continues after them.
	watchedPage = 100_000

	settledGrantsSQL = `
		SELECT l.lease, l.ids FROM leases l CROSS JOIN sessions s WHERE l.at < ?1 AND s.id = l.worker AND s.deposed = 0 AND s.expires_at > ?2 AND l.lease > ?3
		ORDER BY l.lease`
	clockSQL         = "SELECT leased_at, timeout_ms, coalesce(stall_ms, 0), max(leased_at, coalesce(progress_at, 0)) FROM live" + held + " AND cancel_at IS NULL" + unparked
	overdueParkedSQL = "SELECT id, lease FROM live INDEXED BY live_parked WHERE parked_until IS NOT NULL AND parked_until < ? AND cancel_at IS NULL ORDER BY parked_until"
)

// never is an instant that does not come.
const never = math.MaxInt64

// Overrun lists executions that live workers have held for longer than their attempt's timeout and slack, or without
// progress for longer than their stall timeout.
func (s *leases) Overrun(ctx context.Context, slack time.Duration, limit int) ([]engine.Overrun, error) {
	if limit <= 0 {
		return nil, nil
	}
	var out []engine.Overrun
	err := s.look(ctx, "find what runs for too long", func(c *conn) error {
		now := s.now()
		begun := time.Now()
		alarms, seen, from := s.alarms.Load(), map[job.Token]int64{}, s.watched.Load()
		token, n := job.Token(0), 0
		_, err := c.prepare(settledGrantsSQL).int(now - settled.Microseconds()).int(now).int(from).until(func(r *row) (bool, error) {
			if n++; n > watchedPage {
				return true, nil
			}
			token = job.Token(r.int64())
			if alarms != nil && (*alarms)[token] > now { // which saves reading everything it gave
				seen[token] = (*alarms)[token]
				return false, nil
			}
			if time.Since(begun) > watchTime {
				return false, nil // the next look sees it
			}
			g := grant{token: token, ids: r.bytes()}
			var err error
			seen[token], out, err = overruns(c, out, &g, now, slack, limit)
			return len(out) >= limit, err
		})
		if until := int64(token); n > watchedPage { // the next look continues after it; what is known of the others stays
			s.watched.Store(until)
			s.keepAlarms(alarms, seen, from, until)
		} else {
			s.watched.Store(0)
			s.keepAlarms(alarms, seen, from, math.MaxInt64)
		}
		s.alarms.Store(&seen)
		if err == nil {
			out, err = overdueParked(c, out, now, limit)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// keepAlarms keeps what is known of the leases that a look did not reach.
func (s *leases) keepAlarms(known *map[job.Token]int64, seen map[job.Token]int64, from, until int64) {
	if known == nil {
		return
	}
	for t, at := range *known {
		if int64(t) <= from || int64(t) > until {
			seen[t] = at
		}
	}
}

// overruns adds the overrun executions of a grant, and returns when the first of the others may overrun. Progress
// only postpones that.
func overruns(c *conn, out []engine.Overrun, g *grant, now int64, slack time.Duration, limit int) (alarm int64, _ []engine.Overrun, err error) {
	alarm = never
	look, read := c.prepare(clockSQL), c.prepare(heldSQL)
	err = g.each(func(l job.Lease) error {
		over, stalled := int64(never), int64(never)
		_, err := look.id(l.Execution).int(int64(l.Token)).first(func(r *row) error {
			leased, timeout, stall, moved := r.int64(), r.ms(), r.ms(), r.int64()
			if timeout > 0 {
				over = leased + timeout.Microseconds()
			}
			if stall > 0 {
				stalled = moved + stall.Microseconds()
			}
			return nil
		})
		if err != nil {
			return err
		}
		alarm = min(alarm, over, stalled)
		late := over < now-slack.Microseconds()
		if len(out) >= limit || !late && stalled >= now {
			return nil
		}
		h, held, err := readHeld(read, l)
		if err == nil && held {
			out = append(out, engine.Overrun{Held: h, Stalled: !late})
		}
		return err
	})
	return alarm, out, err
}

// overdueParked adds executions that their targets did not complete in time.
func overdueParked(c *conn, out []engine.Overrun, now int64, limit int) ([]engine.Overrun, error) {
	var late []job.Lease
	if len(out) >= limit {
		return out, nil
	}
	_, err := c.prepare(overdueParkedSQL).int(now).until(func(r *row) (bool, error) {
		late = append(late, job.Lease{Execution: r.id(), Token: job.Token(r.int64())})
		return len(out)+len(late) >= limit, nil
	})
	if err != nil {
		return out, err
	}
	read := c.prepare(heldSQL)
	for _, l := range late {
		h, held, err := readHeld(read, l)
		if err != nil {
			return out, err
		}
		if held {
			out = append(out, engine.Overrun{Held: h, Parked: true})
		}
	}
	return out, nil
}
