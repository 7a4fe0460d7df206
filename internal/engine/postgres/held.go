package postgres

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	heldSQL = `
		SELECT ` + executionColumns + `, j.spec, j.state
		FROM unnest($1::uuid[], $2::int8[]) c(id, token)
		CROSS JOIN LATERAL (` + liveRow + ` WHERE v.id = c.id AND v.lease = c.token AND v.lease > 0
			UNION ALL ` + packedRow + `(` + memberOf + `c.id` + inBundle + `) v WHERE v.lease = c.token AND v.lease > 0) v
		CROSS JOIN LATERAL (SELECT name, spec, state FROM jobs WHERE tenant = v.tenant AND id = v.job OFFSET 0) j`

	// Running executions are found through the directory: live has no index by lease.
	runningSQL = `
		SELECT ` + readyColumns + `, v.lease FROM leases l CROSS JOIN LATERAL unnest(l.ids) u(id)
		CROSS JOIN LATERAL (SELECT ` + readyColumns + `, v.lease FROM live v WHERE v.id = u.id AND v.lease = l.lease AND v.parked_until IS NULL OFFSET 0) v
		WHERE ($1::int2[] IS NULL OR v.part = ANY ($1)) AND ($2::text IS NULL OR v.tenant = $2) AND l.lease > $3 AND l.lease <= $4
		UNION ALL
		SELECT ` + readyColumns + `, v.lease FROM leases l CROSS JOIN LATERAL unnest(l.keys) k(key)
		CROSS JOIN LATERAL (SELECT * FROM bundles WHERE key = k.key AND lease = l.lease AND ($1::int2[] IS NULL OR part = ANY ($1)) AND ($2::text IS NULL OR tenant = $2) OFFSET 0) b
		CROSS JOIN LATERAL (SELECT ` + memberColumns + ` FROM unnest(b.ids) u(id) WHERE ` + isOpen + `) v
		WHERE l.lease > $3 AND l.lease <= $4`
	// pieceSQL finds the lease at which a piece of the directory ends.
	pieceSQL     = "SELECT lease FROM leases WHERE lease > $1 ORDER BY lease OFFSET $2 LIMIT 1"
	runParkedSQL = `
		SELECT ` + readyColumns + `, v.lease FROM live v WHERE v.parked_until > '-infinity' AND v.lease > 0 AND ($1::int2[] IS NULL OR v.part = ANY ($1)) AND ($2::text IS NULL OR v.tenant = $2)`

	// Executions that were asked to stop are left to Force.
	overrunSQL = `
		SELECT ` + executionColumns + `, j.spec, j.state, NOT ` + overtime + `
		FROM leases l
		CROSS JOIN LATERAL (SELECT id FROM sessions WHERE id = l.worker AND NOT deposed AND expires_at > now() OFFSET 0) s
		CROSS JOIN LATERAL unnest(l.ids) u(id)
		CROSS JOIN LATERAL (` + liveRow + ` WHERE v.id = u.id AND v.lease = l.lease AND v.cancel_at IS NULL AND v.parked_until IS NULL AND (` + overtime + `
			OR v.stall_ms > 0 AND greatest(v.leased_at, v.progress_at) + v.stall_ms * interval '1 millisecond' < now()) OFFSET 0) v
		CROSS JOIN LATERAL (SELECT name, spec, state FROM jobs WHERE tenant = v.tenant AND id = v.job OFFSET 0) j
		WHERE l.lease = ANY ($3::int8[]) LIMIT $2`
	// givenSQL lists a number of leases after one, except those of the last second.
	givenSQL = "SELECT lease, now() FROM leases WHERE lease > $1 AND at < now() - interval '1 second' ORDER BY lease LIMIT $2"
	// watchSQL returns when the first of what is still held under leases may overrun.
	watchSQL = `
		SELECT l.lease, min(v.at) FROM leases l
		CROSS JOIN LATERAL unnest(l.ids) u(id)
		CROSS JOIN LATERAL (
			SELECT least(v.leased_at + nullif(v.timeout_ms, 0) * interval '1 millisecond', greatest(v.leased_at, v.progress_at) + nullif(v.stall_ms, 0) * interval '1 millisecond') AS at
			FROM live v WHERE v.id = u.id AND v.lease = l.lease AND v.parked_until IS NULL OFFSET 0
		) v
		WHERE l.lease = ANY ($1::int8[]) GROUP BY l.lease
		UNION ALL
		SELECT l.lease, min(b.leased_at + nullif(b.timeout_ms, 0) * interval '1 millisecond') FROM leases l
		CROSS JOIN LATERAL unnest(l.keys) k(key) CROSS JOIN LATERAL (SELECT leased_at, timeout_ms FROM bundles WHERE key = k.key AND lease = l.lease OFFSET 0) b
		WHERE l.lease = ANY ($1::int8[]) GROUP BY l.lease`
	// overdueBundlesSQL lists bundles under overdue leases.
	overdueBundlesSQL = `
		SELECT b.key FROM leases l CROSS JOIN LATERAL unnest(l.keys) k(key)
		CROSS JOIN LATERAL (SELECT key FROM bundles WHERE key = k.key AND lease = l.lease AND timeout_ms > 0 AND leased_at + timeout_ms * interval '1 millisecond' + $1::interval < now() OFFSET 0) b
		WHERE l.lease = ANY ($2::int8[]) LIMIT $3`
	overdueParkedSQL = `
		SELECT ` + executionColumns + `, j.spec, j.state
		FROM (` + liveRow + ` WHERE v.parked_until < now() AND v.lease > 0 AND v.cancel_at IS NULL ORDER BY v.parked_until LIMIT $1) v
		CROSS JOIN LATERAL (SELECT name, spec, state FROM jobs WHERE tenant = v.tenant AND id = v.job OFFSET 0) j`
	overtime = `(v.timeout_ms > 0 AND v.leased_at + v.timeout_ms * interval '1 millisecond' + $1::interval < now())`
)

// scanHeld reads an execution, its job's spec and state, and further columns.
func scanHeld(r pgx.CollectableRow, more ...any) (h job.Held, err error) {
	var x stored
	var spec []byte
	if err := r.Scan(append(append(x.targets(), &spec, (*uint8)(&h.JobState)), more...)...); err != nil {
		return h, err
	}
	if err := engine.DecodeHeld(spec, &h); err != nil {
		return h, err
	}
	h.Execution, err = x.decode()
	return h, err
}

// Held reads what deciding an outcome needs, for those leases that still hold.
func (s *leases) Held(ctx context.Context, ls []job.Lease) ([]job.Held, error) {
	if len(ls) == 0 {
		return nil, nil
	}
	ids, tokens := pairs(ls)
	var out []job.Held
	err := s.ask(ctx, "read what is held", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, heldSQL, ids, tokens)
		var err error
		out, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (job.Held, error) { return scanHeld(r) })
		return err
	})
	return out, err
}

// Running lists the leases in the partitions; all, if none is named. A lease holds executions of several tenants, so
// row-level security hides all of them: within a confined context the statement itself selects the tenant's.
func (s *leases) Running(ctx context.Context, ps []job.Partition) ([]engine.Running, error) {
	var of *string
	if t, confined := engine.Confined(ctx); confined {
		of = (*string)(&t)
	}
	ctx = engine.Unconfined(ctx)
	var parts *array
	if len(ps) > 0 {
		parts = partitions(ps)
	}
	read := func(ctx context.Context, c *pgxpool.Conn, sql string, args ...any) ([]engine.Running, error) {
		rows, _ := c.Query(ctx, sql, args...)
		return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r engine.Running, err error) {
			err = row.Scan(append(readyTargets(&r.Ready), (*int64)(&r.Token))...)
			return r, err
		})
	}
	var out []engine.Running
	size := runningFirst
	for from, last := int64(0), false; !last; {
		var found []engine.Running
		var until int64
		err := s.ask(ctx, "list what runs", func(ctx context.Context, c *pgxpool.Conn) error {
			err := c.QueryRow(ctx, pieceSQL, from, size-1).Scan(&until)
			if last = errors.Is(err, pgx.ErrNoRows); last {
				until, err = math.MaxInt64, nil
			}
			if err == nil {
				found, err = read(ctx, c, runningSQL, parts, of, from, until)
			}
			if err != nil || !last {
				return err
			}
			parked, err := read(ctx, c, runParkedSQL, parts, of) // last: what is parked meanwhile is listed twice, rather than missed
			found = append(found, parked...)
			return err
		})
		if err != nil {
			return nil, err
		}
		out, from = append(out, found...), until
		switch n := len(found); { // a lease may have given one execution or a thousand
		case n < runningPiece/4:
			size = min(2*size, runningPiece)
		case n > runningPiece:
			size = max(1, size/2)
		}
	}
	return engine.Newest(out), nil
}

// Running reads this many leases in its first statement, and later as many as have about this many executions.
const (
	runningFirst = 1000
	runningPiece = 20_000
)

// Overrun lists up to limit executions that live workers hold for too long, or without progress for too long.
func (s *leases) Overrun(ctx context.Context, slack time.Duration, limit int) ([]engine.Overrun, error) {
	var out []engine.Overrun
	err := s.ask(ctx, "find what overruns", func(ctx context.Context, c *pgxpool.Conn) error {
		begun := time.Now()
		late, now, err := s.watch.late(ctx, c)
		if err != nil {
			return err
		}
		if out, err = overdueParked(ctx, c, limit); err != nil || len(late) == 0 {
			return err
		}
		piece := watchedFirst
		for first := true; len(late) > 0 && len(out) < limit && (first || time.Since(begun) < watchTime); first = false {
			n, since := min(piece, len(late)), time.Now()
			found, err := s.overrunning(ctx, c, slack, limit-len(out), late[:n], now)
			if err != nil {
				return err
			}
			out, late = append(out, found...), late[n:]
			switch took := time.Since(since); {
			case took < pieceTime/4:
				piece *= 2
			case took > pieceTime:
				piece = max(1, piece/2)
			}
		}
		return nil
	})
	return out, err
}

// How much of the directory one look for overruns reads: a starting server knows of nothing yet, and others may hold
// very much. Each statement covers some leases, of which each may name a thousand executions; the next look continues
// where this one runs out of time.
const (
	watchedFirst = 20
	pieceTime    = 200 * time.Millisecond
	watchTime    = time.Second
	watchedPage  = 100_000 // leases whose existence one look checks; the next one continues after them
)

// overrunning lists what overruns under leases, and records when to check them again.
func (s *leases) overrunning(ctx context.Context, c *pgxpool.Conn, slack time.Duration, limit int, late []int64, now time.Time) ([]engine.Overrun, error) {
	tokens := bigints(len(late))
	for _, t := range late {
		tokens.int8(t)
	}
	if err := s.unpackOverdue(ctx, c, slack, tokens); err != nil {
		return nil, err
	}
	rows, _ := c.Query(ctx, overrunSQL, slack, limit, tokens)
	held, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (o engine.Overrun, err error) {
		o.Held, err = scanHeld(r, &o.Stalled)
		return o, err
	})
	if err != nil {
		return nil, err
	}
	return held, s.watch.look(ctx, c, late, tokens, now)
}

// overdueParked lists up to limit executions that their targets did not complete in time.
func overdueParked(ctx context.Context, c *pgxpool.Conn, limit int) ([]engine.Overrun, error) {
	rows, _ := c.Query(ctx, overdueParkedSQL, max(limit, 0))
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (o engine.Overrun, err error) {
		o.Parked = true
		o.Held, err = scanHeld(r)
		return o, err
	})
}

// watch records when the first execution under each lease may overrun, so that checking costs nothing for those that
// end in time. It is filled by this server's leases, and by looking for those of others.
type watch struct {
	mu   sync.Mutex
	at   map[int64]time.Time // guarded by mu: by token; zero: nothing of it is held any more
	from int64               // guarded by mu: the directory is next read after this lease
}

// given records new leases.
func (w *watch) given(first map[job.Token]time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at == nil {
		w.at = map[int64]time.Time{}
	}
	for t, at := range first {
		w.at[int64(t)] = at
	}
}

// late lists the leases under which something may overrun by now, or that are unknown here. It reads a page of the
// directory; other known leases stay as they are until their page is read.
func (w *watch) late(ctx context.Context, c *pgxpool.Conn) (late []int64, now time.Time, err error) {
	w.mu.Lock()
	from, knows := w.from, len(w.at) > 0
	w.mu.Unlock()
	until := int64(math.MaxInt64)
	there := map[int64]bool{}
	var token int64
	rows, _ := c.Query(ctx, givenSQL, from, watchedPage)
	if _, err = pgx.ForEachRow(rows, []any{&token, &now}, func() error { there[token] = true; return nil }); err != nil {
		return nil, now, err
	}
	switch len(there) {
	case 0:
		if !knows {
			return nil, now, nil
		}
		if err := c.QueryRow(ctx, "SELECT now()").Scan(&now); err != nil {
			return nil, now, err
		}
	case watchedPage:
		until = token
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.from = until; until == math.MaxInt64 {
		w.from = 0
	}
	var unknown []int64
	for t := range there {
		if _, ok := w.at[t]; !ok {
			unknown = append(unknown, t)
		}
	}
	for t, at := range w.at {
		switch seen := t > from && t <= until; {
		case seen && !there[t]: // it was tidied away, or is too new to be listed
			if !at.After(now.Add(-time.Minute)) {
				delete(w.at, t)
			}
		case !at.IsZero() && !at.After(now):
			late = append(late, t)
		}
	}
	slices.Sort(late)
	slices.Sort(unknown)
	return append(late, unknown...), now, nil // leases known to be late come first
}

// look determines when to check leases again.
func (w *watch) look(ctx context.Context, c *pgxpool.Conn, late []int64, tokens *array, now time.Time) error {
	next := make(map[int64]time.Time, len(late))
	rows, _ := c.Query(ctx, watchSQL, tokens)
	var token int64
	var at *time.Time
	_, err := pgx.ForEachRow(rows, []any{&token, &at}, func() error {
		when := now.Add(unbound) // held, and bound by nothing
		if at != nil {
			when = *at
		}
		if was, ok := next[token]; !ok || when.Before(was) {
			next[token] = when
		}
		return nil
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at == nil {
		w.at = map[int64]time.Time{}
	}
	for _, t := range late {
		w.at[t] = next[t]
	}
	return nil
}
