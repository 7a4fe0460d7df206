package postgres

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/pick"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

var _ engine.Owners = (*Store)(nil)

// A server that missed its time is deposed, by whoever sees it first, for good: its row stays for an hour, so that it
// learns of it. The rows of partitions change only when one moves or is wanted, and never while a lease or a fire
// that names them in its fence has not committed. There is one row per partition and duty; a server has one duty.
const (
	attendSQL = `
		INSERT INTO servers AS s (id, duty, host, waiting, slots, started_at, expires_at) VALUES ($1, $6, $2, $3, $7, $4, now() + $5)
		ON CONFLICT (id) DO UPDATE SET host = EXCLUDED.host, waiting = EXCLUDED.waiting, slots = EXCLUDED.slots, started_at = EXCLUDED.started_at, expires_at = EXCLUDED.expires_at
		WHERE NOT s.deposed AND s.duty = EXCLUDED.duty`
	// Of two that would depose each other, neither waits.
	deposeServersSQL = `
		UPDATE servers SET deposed = true
		WHERE id = ANY (ARRAY(SELECT id FROM servers WHERE expires_at < now() AND NOT deposed AND id <> $1 ORDER BY id FOR UPDATE SKIP LOCKED))`
	// The shares of a deposed server are freed once it owns nothing.
	freeSharesSQL   = `DELETE FROM limit_shares WHERE server = ANY (ARRAY(SELECT s.id FROM servers s WHERE ` + gone + `))`
	dropServersSQL  = `DELETE FROM servers s WHERE ` + gone + ` AND s.expires_at < now() - interval '1 hour'`
	gone            = `s.deposed AND NOT EXISTS (SELECT 1 FROM partitions p WHERE p.owner = s.id)`
	aliveServersSQL = `SELECT id, duty, host, waiting, slots, started_at FROM servers WHERE duty = $1 AND NOT deposed AND expires_at > now() ORDER BY id`
	partitionsSQL   = `SELECT part, owner, epoch, wanted FROM partitions WHERE duty = $1 ORDER BY part`

	takeSQL = `
		UPDATE partitions p SET owner = $1, epoch = p.epoch + 1, wanted = NULL
		FROM (SELECT part, ` + dutyOf + ` AS duty FROM unnest($2::int2[]) u(part) OFFSET 0) u
		WHERE p.duty = ANY (ARRAY[u.duty]) AND p.part = ANY (ARRAY[u.part]) AND (p.owner IS NULL OR NOT EXISTS (SELECT 1 FROM servers s WHERE s.id = p.owner AND ` + serves + `))
			AND EXISTS (SELECT 1 FROM servers s WHERE s.id = $1 AND ` + serves + `)`
	giveSQL = `
		UPDATE partitions p SET owner = $2, epoch = p.epoch + 1, wanted = NULL
		FROM (SELECT part, ` + dutyOf + ` AS duty FROM unnest($3::int2[]) u(part) OFFSET 0) u
		WHERE p.duty = ANY (ARRAY[u.duty]) AND p.part = ANY (ARRAY[u.part]) AND p.owner = $1 AND EXISTS (SELECT 1 FROM servers s WHERE s.id = $2 AND s.duty = u.duty AND ` + serves + `)`
	// The first server to ask stays recorded until it gets the partition, is gone, or has no waiting worker any more.
	wantSQL = `
		UPDATE partitions p SET wanted = $1
		FROM (SELECT part, ` + dutyOf + ` AS duty FROM unnest($2::int2[]) u(part) OFFSET 0) u
		WHERE p.duty = ANY (ARRAY[u.duty]) AND p.part = ANY (ARRAY[u.part]) AND p.owner <> $1 AND p.wanted IS DISTINCT FROM $1
			AND NOT EXISTS (SELECT 1 FROM servers s WHERE s.id = p.wanted AND s.waiting AND ` + serves + `)`
	serves = `NOT s.deposed AND s.expires_at > now()`
	dutyOf = `(SELECT duty FROM servers WHERE id = $1)`

	retireSQL = `UPDATE servers SET deposed = true, expires_at = least(expires_at, now()) WHERE id = $1 AND NOT deposed`
)

// partitions returns a sorted array of partitions.
func partitions(ps []job.Partition) *array {
	a := smallints(len(ps))
	for _, p := range slices.Sorted(slices.Values(ps)) {
		a.int2(int(p))
	}
	return a
}

// Attend keeps a server alive for ttl, and returns the other servers with its duty and the owners of partitions.
func (s *servers) Attend(ctx context.Context, me engine.Server, ttl time.Duration) (engine.Roster, error) {
	if me.Duty != engine.Dispatching && me.Duty != engine.Scheduling {
		return engine.Roster{}, fmt.Errorf("attend: the server's duty is %d; want %d (dispatching) or %d (scheduling)", me.Duty, engine.Dispatching, engine.Scheduling)
	}
	var out engine.Roster
	err := s.write(ctx, "attend", func(ctx context.Context, c *pgxpool.Conn) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			done, err := tx.Exec(ctx, attendSQL, [16]byte(me.ID), plain(me.Host), me.Waiting, me.StartedAt, ttl, int16(me.Duty), me.Slots)
			if err != nil {
				return err
			}
			if done.RowsAffected() == 0 {
				return engine.ErrSession
			}
			out, err = roster(ctx, tx, me)
			return err
		})
	})
	if err != nil {
		return engine.Roster{}, err
	}
	return out, nil
}

// roster deposes servers that missed their time, drops what they left, and reads the live ones.
func roster(ctx context.Context, tx pgx.Tx, me engine.Server) (out engine.Roster, err error) {
	b := &pgx.Batch{}
	b.Queue(deposeServersSQL, [16]byte(me.ID))
	b.Queue(freeSharesSQL)
	b.Queue(dropServersSQL)
	b.Queue(aliveServersSQL, int16(me.Duty))
	b.Queue(partitionsSQL, int16(me.Duty))
	r := tx.SendBatch(ctx, b)
	defer r.Close()
	for range 3 {
		if _, err := r.Exec(); err != nil {
			return out, err
		}
	}
	alive := map[engine.ServerID]bool{}
	rows, _ := r.Query()
	out.Servers, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (x engine.Server, err error) {
		err = row.Scan((*[16]byte)(&x.ID), (*uint8)(&x.Duty), &x.Host, &x.Waiting, &x.Slots, at(&x.StartedAt))
		alive[x.ID] = true
		return x, err
	})
	if err != nil {
		return out, err
	}
	rows, _ = r.Query()
	out.Partitions, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (p engine.Partition, err error) {
		err = row.Scan((*int16)(&p.Part), (*id)(&p.Owner), &p.Epoch, (*id)(&p.Wanted))
		for _, x := range []*engine.ServerID{&p.Owner, &p.Wanted} {
			if !alive[*x] {
				*x = engine.ServerID{}
			}
		}
		return p, err
	})
	if err != nil {
		return out, err
	}
	return out, r.Close()
}

// takePatience is how long a lease of a server that is gone may block the one that takes its partitions.
const takePatience = time.Second

// Take makes the server the owner of those partitions that no live server owns.
func (s *servers) Take(ctx context.Context, me engine.ServerID, ps []job.Partition) error {
	if len(ps) == 0 {
		return nil
	}
	return s.write(ctx, "take partitions", func(ctx context.Context, c *pgxpool.Conn) error {
		var pid int
		if err := c.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			return err
		}
		done := make(chan struct{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.unblock(ctx, pid, done)
		}()
		_, err := c.Exec(ctx, takeSQL, [16]byte(me), partitions(ps))
		close(done)
		<-ended
		return err
	})
}

// unblock ends connections that block another for too long: a server that stopped while it read the answer to its
// lease holds the locks of its fence for as long as its connection lasts.
func (s *servers) unblock(ctx context.Context, pid int, done <-chan struct{}) {
	select {
	case <-done:
	case <-ctx.Done():
	case <-time.After(takePatience):
		// If it may not, the waiting one fails at its own time limit.
		_, _ = s.read.Exec(ctx, "SELECT pg_terminate_backend(b) FROM unnest(pg_blocking_pids($1)) b", pid)
	}
}

// Give hands partitions that the server owns to another live server.
func (s *servers) Give(ctx context.Context, from, to engine.ServerID, ps []job.Partition) error {
	return s.write(ctx, "give partitions", func(ctx context.Context, c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, giveSQL, [16]byte(from), [16]byte(to), partitions(ps))
		return err
	})
}

// Want records that the server asks for partitions of others.
func (s *servers) Want(ctx context.Context, me engine.ServerID, ps []job.Partition) error {
	return s.write(ctx, "want partitions", func(ctx context.Context, c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, wantSQL, [16]byte(me), partitions(ps))
		return err
	})
}

// Retire ends a server at once.
func (s *servers) Retire(ctx context.Context, me engine.ServerID) error {
	return s.write(ctx, "retire", func(ctx context.Context, c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, retireSQL, [16]byte(me))
		return err
	})
}

// All borrowers of a limit first lock the row of nobody; each of these statements sees what was committed before it.
const (
	nobodySQL = `
		INSERT INTO limit_shares (tenant, queue, server, share, want) SELECT tenant, queue, '00000000-0000-0000-0000-000000000000', 0, 0
		FROM unnest($1::text[], $2::text[]) w(tenant, queue)
		ON CONFLICT (tenant, queue, server) DO NOTHING`
	lockSharesSQL = `
		SELECT count(*) FROM unnest($1::text[], $2::text[]) w(tenant, queue)
		CROSS JOIN LATERAL (
			SELECT 1 FROM limit_shares WHERE tenant = w.tenant AND queue = w.queue AND server = '00000000-0000-0000-0000-000000000000' OFFSET 0 FOR UPDATE
		) l`
	// Of a server that is gone, and whose partitions have no other owner yet, the share counts but the wish does not.
	sharesSQL = `
		SELECT w.n, l.server, l.share, CASE WHEN l.serves THEN l.want ELSE 0 END, l.turns, l.turn_at, now()
		FROM unnest($1::text[], $2::text[]) WITH ORDINALITY w(tenant, queue, n)
		CROSS JOIN LATERAL (
			SELECT l.server, l.share, l.want, l.turns, l.turn_at, EXISTS (SELECT 1 FROM servers s WHERE s.id = l.server AND ` + serves + `) AS serves FROM limit_shares l
			WHERE l.tenant = w.tenant AND l.queue = w.queue AND NOT EXISTS (SELECT 1 FROM servers s WHERE s.id = l.server AND ` + gone + `)
		) l
		ORDER BY w.n, l.server`
	borrowSQL = `
		INSERT INTO limit_shares (tenant, queue, server, share, want, turns, turn_at)
		SELECT w.tenant, w.queue, $1, w.share, w.want, w.turns, w.turn_at
		FROM unnest($2::text[], $3::text[], $4::int8[], $5::int8[], $6::int8[], $7::timestamptz[]) w(tenant, queue, share, want, turns, turn_at)
		ON CONFLICT (tenant, queue, server) DO UPDATE SET share = EXCLUDED.share, want = EXCLUDED.want, turns = EXCLUDED.turns, turn_at = EXCLUDED.turn_at`
	lentSQL = `
		SELECT l.queue, l.server, s.host, l.share, ARRAY(SELECT p.part FROM partitions p WHERE p.duty = 1 AND p.owner = l.server ORDER BY p.part)
		FROM limit_shares l JOIN servers s ON s.id = l.server
		WHERE l.tenant = $1 AND l.share > 0 AND NOT (` + gone + `) ORDER BY l.queue, l.server`
)

// Borrow sets each limit's share of the server, and answers in order.
func (s *servers) Borrow(ctx context.Context, me engine.ServerID, bs []engine.Share) ([]int, error) {
	if len(bs) == 0 {
		return nil, nil
	}
	order := make([]int, len(bs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(bs[a].Tenant, bs[b].Tenant), cmp.Compare(bs[a].Queue, bs[b].Queue))
	})
	tenants, queues := texts(len(bs)), texts(len(bs))
	for _, i := range order {
		tenants.text(string(bs[i].Tenant))
		queues.text(bs[i].Queue)
	}
	out := make([]int, len(bs))
	err := s.write(ctx, "borrow", func(ctx context.Context, c *pgxpool.Conn) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			done, err := tx.Exec(ctx, "SELECT 1 FROM servers s WHERE s.id = $1 AND "+serves+" FOR SHARE", [16]byte(me))
			if err != nil {
				return err
			}
			if done.RowsAffected() == 0 {
				return engine.ErrSession // nobody could return the share of one that is gone
			}
			all, err := sharesOf(ctx, tx, me, tenants, queues, len(bs))
			if err != nil {
				return err
			}
			shares, wants, turns, since := bigints(len(bs)), bigints(len(bs)), bigints(len(bs)), make([]*time.Time, len(bs))
			for n, i := range order {
				var mine pick.Lent
				out[i], mine = all[n].allot(bs[i])
				shares.int8(int64(mine.Share))
				wants.int8(int64(mine.Want))
				turns.int8(mine.Turns)
				if !mine.Turn.IsZero() {
					since[n] = &mine.Turn
				}
			}
			_, err = tx.Exec(ctx, borrowSQL, [16]byte(me), tenants, queues, shares, wants, turns, since)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// borrowed holds the servers' shares of and wishes for a limit, in order of their ids.
type borrowed struct {
	all []pick.Lent
	me  int // index of the calling server; -1: it has no row
	at  time.Time
}

// allot returns what a server may use of it, and what is reserved for it.
func (o *borrowed) allot(b engine.Share) (may int, mine pick.Lent) {
	o.all[o.me].Want = b.Want
	return pick.Allot(b.Max, o.all, o.me, b.Used, o.at)
}

// sharesOf locks limits, given in order, and reads the servers' shares of each.
func sharesOf(ctx context.Context, tx pgx.Tx, me engine.ServerID, tenants, queues *array, n int) ([]borrowed, error) {
	b := &pgx.Batch{}
	b.Queue(nobodySQL, tenants, queues)
	b.Queue(lockSharesSQL, tenants, queues)
	b.Queue(sharesSQL, tenants, queues)
	r := tx.SendBatch(ctx, b)
	defer r.Close()
	for range 2 {
		if _, err := r.Exec(); err != nil {
			return nil, err
		}
	}
	rows, err := r.Query()
	if err != nil {
		return nil, err
	}
	out := make([]borrowed, n)
	for i := range out {
		out[i].me = -1
	}
	var k int64
	var server [16]byte
	var l pick.Lent
	var now time.Time
	_, err = pgx.ForEachRow(rows, []any{&k, &server, &l.Share, &l.Want, &l.Turns, at(&l.Turn), at(&now)}, func() error { // the row of nobody is always there
		o := &out[k-1]
		o.at = now
		switch c := bytes.Compare(server[:], me[:]); {
		case c == 0:
			o.me = len(o.all)
		case c > 0 && o.me < 0:
			o.me, o.all = len(o.all), append(o.all, pick.Lent{})
		}
		o.all = append(o.all, l)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range out {
		if o := &out[i]; o.me < 0 {
			o.me, o.all = len(o.all), append(o.all, pick.Lent{})
		}
	}
	return out, r.Close()
}

// Lent lists the servers' shares of a tenant's limits.
func (s *servers) Lent(ctx context.Context, t tenant.ID) ([]engine.Lending, error) {
	var out []engine.Lending
	err := s.ask(ctx, "list shares of limits", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, lentSQL, string(t))
		var err error
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (l engine.Lending, err error) {
			err = row.Scan(&l.Queue, (*[16]byte)(&l.Server), &l.Host, &l.Share, &l.Parts)
			return l, err
		})
		return err
	})
	return out, err
}
