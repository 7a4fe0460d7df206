package sqlite

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

const (
	readySQL = "SELECT " + readyColumns + ` FROM live INDEXED BY live_lane
		WHERE part = ? AND tenant = ? AND class = ? AND group_key = ? AND priority = ? AND (due_at, id) > (?, ?) AND due_at <= ? AND lease <= 0 AND hold = 0
			AND ` + inTime + `
		ORDER BY due_at, id` // no LIMIT ?: binding one makes SQLite prepare the statement again

	// countDueSQL reads only the index.
	countDueSQL = "SELECT tenant, class, priority, count(*) FROM live INDEXED BY live_lane WHERE due_at <= ? GROUP BY part, tenant, class, group_key, priority"

	// countHeldSQL counts what the pauses of jobs hold back, and what waits for the jobs that its own depends on. CROSS JOIN keeps the order.
	countHeldSQL = `SELECT v.tenant, v.class, v.priority, count(*) FROM tenants t CROSS JOIN jobs j ON j.tenant = t.id AND j.state = 2 AND j.state IN (2, 4)
		CROSS JOIN live v ON (v.id = j.id OR v.job = j.id AND v.id <> v.job) AND v.job = j.id AND v.tenant = j.tenant
		WHERE v.hold = 1 AND v.lease <= 0 AND v.due_at <= ?1 GROUP BY v.tenant, v.class, v.priority
		UNION ALL
		SELECT tenant, class, priority, count(*) FROM live INDEXED BY live_dependent WHERE hold = 2 AND lease <= 0 AND due_at <= ?1 GROUP BY tenant, class, priority`

	readyColumns = "id, tenant, part, class, priority, due_at, " + groupColumns
	groupColumns = "group_key, group_limits"
)

// nextLaneSQLs find the lane after one, each if the one before finds none. One comparison of all columns would walk
// through the lane: SQLite seeks only by the first of them.
var nextLaneSQLs = func() (sqls []string) {
	const columns = "part, tenant, class, group_key, priority"
	names := strings.Split(columns, ", ")
	for n := len(names) - 1; n >= 0; n-- {
		same := ""
		for _, name := range names[:n] {
			same += name + " = ? AND "
		}
		sqls = append(sqls, "SELECT "+columns+" FROM live INDEXED BY live_lane WHERE "+same+names[n]+" > ? ORDER BY "+columns+" LIMIT 1")
	}
	return sqls
}()

func readReady(r *row) job.Ready {
	return job.Ready{
		ID: r.id(), Tenant: tenant.ID(r.text()), Partition: job.Partition(r.int()), Class: job.Class(r.text()), Priority: r.int(), DueAt: r.at(), Group: readGroup(r),
	}
}

func readGroup(r *row) job.Group {
	g := job.Group{Key: job.GroupKey(r.int64())}
	if g.Key == 0 { // as of most
		r.n++
		return g
	}
	var n [32]byte
	copy(n[:], r.bytes())
	limit := func(i int) int64 { return int64(binary.BigEndian.Uint64(n[8*i:])) }
	g.Max = int(limit(0))
	g.Rate = job.Rate{Count: int(limit(1)), Per: time.Duration(limit(2)) * time.Microsecond, Burst: int(limit(3))}
	return g
}

// group binds a group, or none.
func (q *stmt) group(g *job.Group) *stmt {
	if g.Key == 0 {
		return q.int(0).null()
	}
	return q.int(int64(g.Key)).bytes(groupLimits(g))
}

// groupLimits returns the stored limits of a group.
func groupLimits(g *job.Group) (n []byte) {
	for _, limit := range []int64{int64(g.Max), int64(g.Rate.Count), g.Rate.Per.Microseconds(), int64(g.Rate.Burst)} {
		n = binary.BigEndian.AppendUint64(n, uint64(limit))
	}
	return n
}

// lane binds a lane.
func (q *stmt) lane(l job.Lane) *stmt {
	return q.int(int64(l.Partition)).text(string(l.Tenant)).text(string(l.Class)).int(int64(l.Group)).int(int64(l.Priority))
}

// nextLane finds the lane after one.
func nextLane(c *conn, l job.Lane) (next job.Lane, found bool, err error) {
	bind := []func(q *stmt){
		number(int64(l.Partition)), text(string(l.Tenant)), text(string(l.Class)), number(int64(l.Group)), number(int64(l.Priority)),
	}
	for i, sql := range nextLaneSQLs {
		q := c.prepare(sql)
		for _, b := range bind[:len(bind)-i] {
			b(q)
		}
		found, err = q.first(func(r *row) error {
			next = job.Lane{
				Partition: job.Partition(r.int()), Tenant: tenant.ID(r.text()), Class: job.Class(r.text()), Group: job.GroupKey(r.int64()), Priority: r.int(),
			}
			return nil
		})
		if err != nil || found {
			return next, found, err
		}
	}
	return next, false, nil
}

// Lanes lists up to limit lanes that hold any execution, after one, with a few index lookups each.
func (s *leases) Lanes(ctx context.Context, after *job.Lane, limit int) ([]job.Lane, error) {
	var out []job.Lane
	err := s.look(ctx, "list lanes", func(c *conn) error {
		last := job.Lane{Partition: -1}
		if after != nil {
			last = *after
		}
		for len(out) < limit {
			next, found, err := nextLane(c, last)
			if err != nil || !found {
				return err
			}
			out, last = append(out, next), next
		}
		return nil
	})
	return out, err
}

// Ready lists, for each cursor, up to perLane free and due executions after it, in due order.
func (s *leases) Ready(ctx context.Context, cs []engine.LaneCursor, perLane int) ([]job.Ready, error) {
	if len(cs) == 0 {
		return nil, nil
	}
	var out []job.Ready
	err := s.look(ctx, "find what is ready", func(c *conn) error {
		now := s.now()
		q := c.prepare(readySQL)
		for _, x := range cs {
			var behind int64
			if !x.DueAt.IsZero() {
				behind = x.DueAt.UnixMicro()
			}
			n := 0
			_, err := q.lane(x.Lane).int(behind).id(x.After).int(now).int(now).until(func(r *row) (bool, error) {
				out = append(out, readReady(r))
				n++
				return n >= perLane, nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// Unpack does nothing: each execution has its own row.
func (s *leases) Unpack(context.Context, []job.ExecutionID) error { return nil }

// CountDue counts all executions that are due, not held back, and unfinished.
func (s *leases) CountDue(ctx context.Context) (map[engine.DueKey]int, error) {
	var out map[engine.DueKey]int
	err := s.look(ctx, "count what is due", func(c *conn) error {
		out = map[engine.DueKey]int{} // a repeated query starts over
		now := s.now()
		for sql, sign := range map[string]int{countDueSQL: 1, countHeldSQL: -1} {
			err := c.prepare(sql).int(now).each(func(r *row) error {
				k := engine.DueKey{Tenant: tenant.ID(r.text()), Class: job.Class(r.text()), Priority: r.int()}
				out[k] += sign * r.int()
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

const (
	aliveSQL     = "SELECT coalesce(tenant, '') FROM sessions WHERE id = ? AND deposed = 0 AND expires_at > ?"
	tokenSQL     = "UPDATE tokens SET next = next + 1 RETURNING next - 1"
	directorySQL = "INSERT INTO leases (lease, worker, at, ids) VALUES (?, ?, ?, ?)"
)

var (
	// freeSQL reads what attempts need of those executions that may be leased, in the order of the ids.
	freeSQL = inSizes(`
		SELECT v.id, v.job, j.name, v.tenant, v.trigger, v.attempt + 1, v.max_attempts, v.scheduled_at, v.due_at, v.started_at, j.target,
			coalesce(v.payload, j.payload)
		FROM (VALUES `, "(?)", `) f CROSS JOIN live v CROSS JOIN jobs j
		WHERE v.id = f.column1 AND v.lease <= 0 AND v.lease > -(SELECT next FROM tokens) AND v.hold = 0 AND v.due_at <= ?
			AND (v.expires_at IS NULL OR v.expires_at > ? OR v.started_at IS NOT NULL)
			AND j.tenant = v.tenant AND j.id = v.job AND j.state <> 4 AND NOT (`+unreached+`)`)
	// leaseSQL leases what freeSQL has found.
	leaseSQL = inSizes(`
		UPDATE OR ROLLBACK live SET lease = ?1, worker = ?2, leased_at = ?3, started_at = coalesce(started_at, ?3), attempt = attempt + 1, progress_at = NULL, progress = NULL
		WHERE id IN (`, "?", ")")
)

// Lease gives each session the executions it requests, in one commit and in the requested order. The fence lets
// everything through: no other process uses this store.
func (s *leases) Lease(ctx context.Context, gs []engine.Grant, _ engine.Fence) ([]job.Attempt, error) {
	if len(gs) == 0 {
		return nil, nil
	}
	wishes := 0
	for _, g := range gs {
		wishes += len(g.Executions)
	}
	var out []job.Attempt
	err := s.write(ctx, "lease", func(c *conn, now int64) error {
		out = make([]job.Attempt, 0, wishes)
		l := leaser{conn: c, now: now, targets: map[string]job.Target{}}
		alive := 0
		for i := range gs {
			var serves tenant.ID
			ok, err := c.prepare(aliveSQL).id(gs[i].Worker).int(now).first(func(r *row) error { serves = tenant.ID(r.text()); return nil })
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			alive++
			if out, err = l.grant(out, &gs[i], serves); err != nil {
				return err
			}
		}
		if alive == 0 {
			return engine.ErrSession
		}
		if err := memberTargets(c, out); err != nil {
			return err
		}
		return failpoint.Hit("claim.beforeCommit")
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// leaser leases executions within one transaction.
type leaser struct {
	*conn
	now     int64
	targets map[string]job.Target // one batch often has one target
}

// grant leases what one session requests, under one token, and records it in the directory.
func (l *leaser) grant(out []job.Attempt, g *engine.Grant, serves tenant.ID) ([]job.Attempt, error) {
	var token job.Token
	before := len(out)
	for ids := range slices.Chunk(g.Executions, bulk) {
		from := len(out)
		var err error
		if out, err = l.find(out, ids, serves); err != nil {
			return out, err
		}
		if len(out) == from {
			continue
		}
		if token == 0 { // drawn late: a call that finds nothing writes nothing
			if token, err = l.draw(); err != nil {
				return out, err
			}
		}
		if err := l.lease(out[from:], token, g.Worker); err != nil {
			return out, err
		}
	}
	if len(out) == before {
		return out, nil
	}
	ids := make([]byte, 0, 16*(len(out)-before))
	for i := range out[before:] {
		ids = append(ids, out[before+i].Execution[:]...)
	}
	_, err := l.prepare(directorySQL).int(int64(token)).id(g.Worker).int(l.now).bytes(ids).exec()
	return out, err
}

// find adds those of the executions that may be leased, each once.
func (l *leaser) find(out []job.Attempt, ids []job.ExecutionID, serves tenant.ID) ([]job.Attempt, error) {
	from, at := len(out), time.UnixMicro(l.now).UTC()
	q := l.prepare(freeSQL.of(len(ids)))
	for _, id := range ids {
		q.id(id)
	}
	err := q.nulls(size(len(ids)) - len(ids)).int(l.now).int(l.now).each(func(r *row) error {
		a := job.Attempt{Lease: job.Lease{Execution: r.id()}, LeasedAt: at, StartedAt: at}
		if err := l.read(r, &a); err != nil {
			return err
		}
		if serves != "" && serves != a.Tenant {
			return nil
		}
		for i := from; i < len(out); i++ { // not with range, which copies each
			if out[i].Execution == a.Execution {
				return nil
			}
		}
		out = append(out, a)
		return nil
	})
	return out, err
}

// lease leases what find has found.
func (l *leaser) lease(as []job.Attempt, token job.Token, w job.WorkerID) error {
	q := l.prepare(leaseSQL.of(len(as))).int(int64(token)).id(w).int(l.now)
	for i := range as {
		as[i].Token = token
		q.id(as[i].Execution)
	}
	n, err := q.nulls(size(len(as)) - len(as)).exec()
	if err == nil && n != len(as) {
		err = fmt.Errorf("%d executions of %d could be leased", n, len(as))
	}
	return err
}

func (l *leaser) draw() (token job.Token, err error) {
	_, err = l.prepare(tokenSQL).first(func(r *row) error { token = job.Token(r.int64()); return nil })
	return token, err
}

func (l *leaser) read(r *row, a *job.Attempt) error {
	a.Job, a.JobName, a.Tenant, a.Trigger = r.id(), r.text(), tenant.ID(r.text()), job.Trigger(r.int())
	a.Number, a.MaxAttempts, a.ScheduledAt, a.DueAt = r.int(), r.int(), r.at(), r.at()
	if first := r.at(); !first.IsZero() {
		a.StartedAt = first
	}
	target := r.text()
	a.Payload = r.bytes()
	t, ok := l.targets[target]
	if !ok {
		var err error
		if t, err = engine.DecodeTarget([]byte(target)); err != nil {
			return err
		}
		l.targets[target] = t
	}
	a.Target = t
	a.Target.Headers, a.Target.ExpectStatus = maps.Clone(t.Headers), slices.Clone(t.ExpectStatus)
	return nil
}

const leasedSQL = `
	SELECT v.leased_at, v.job, j.name, v.tenant, v.trigger, v.attempt, v.max_attempts, v.scheduled_at, v.due_at, v.started_at, j.target, coalesce(v.payload, j.payload)
	FROM live v CROSS JOIN jobs j
	WHERE v.id = ? AND v.lease = ? AND v.lease > 0 AND v.worker = ? AND v.parked_until IS NULL AND v.cancel_at IS NULL AND j.tenant = v.tenant AND j.id = v.job AND j.state <> 4`

// Leased reads again what Lease returned, for workers that still hold it.
func (s *leases) Leased(ctx context.Context, hs []engine.HeldBy) ([]*job.Attempt, error) {
	if len(hs) == 0 {
		return nil, nil
	}
	var out []*job.Attempt
	err := s.look(ctx, "read what was leased", func(c *conn) error {
		out = make([]*job.Attempt, len(hs)) // a repeated query starts over
		l := leaser{conn: c, targets: map[string]job.Target{}}
		q := c.prepare(leasedSQL)
		for i, h := range hs {
			as := []job.Attempt{{Lease: h.Lease}}
			held, err := q.id(h.Execution).int(int64(h.Token)).id(h.Worker).first(func(r *row) error {
				as[0].LeasedAt = r.at()
				return l.read(r, &as[0])
			})
			if err == nil && held {
				out[i], err = &as[0], memberTargets(c, as)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

const heldSQL = "SELECT " + liveColumns + `, j.name, j.spec, j.state FROM live v CROSS JOIN jobs j
	WHERE v.id = ? AND v.lease = ? AND v.lease > 0 AND j.tenant = v.tenant AND j.id = v.job`

// Held reads what deciding an outcome needs, for those leases that still hold.
func (s *leases) Held(ctx context.Context, ls []job.Lease) ([]job.Held, error) {
	if len(ls) == 0 {
		return nil, nil
	}
	var out []job.Held
	err := s.look(ctx, "read what is held", func(c *conn) error {
		q := c.prepare(heldSQL)
		for _, l := range ls {
			h, held, err := readHeld(q, l)
			if err != nil {
				return err
			}
			if held {
				out = append(out, h)
			}
		}
		return nil
	})
	return out, err
}

// readHeld reads what a lease holds with heldSQL, if it still does.
func readHeld(q *stmt, l job.Lease) (h job.Held, held bool, err error) {
	held, err = q.id(l.Execution).int(int64(l.Token)).first(func(r *row) (err error) {
		if h.Execution, err = readExecution(r); err != nil {
			return err
		}
		h.JobName = r.text()
		err = engine.DecodeHeld(r.bytes(), &h)
		h.JobState = job.State(r.int())
		return err
	})
	return h, held, err
}

// An execution leased only this once has then never started; a snoozed one has.
const releaseSQL = "UPDATE live SET lease = -lease, attempt = attempt - 1, started_at = CASE WHEN attempt = 1 AND started_at = leased_at THEN NULL ELSE started_at END, hold = " + heldBack + heldBy + unparked + takenBack

// Release returns executions that the worker holds to the queue, uncharged; it skips other leases.
func (s *leases) Release(ctx context.Context, w job.WorkerID, ls []job.Lease) (engine.Requeued, error) {
	var out engine.Requeued
	if len(ls) == 0 {
		return out, nil
	}
	err := s.write(ctx, "release", func(c *conn, now int64) (err error) {
		h := telling(c, now)
		for _, l := range ls {
			if out.Ready, err = release(h, out.Ready, w, l); err != nil {
				return err
			}
		}
		out.Ended = h.told
		return h.tally()
	})
	if err != nil {
		return engine.Requeued{}, err
	}
	return out, nil
}

// release takes a lease back and returns the execution to the queue or, if it must not run again, ends it.
func release(h *history, out []job.Ready, w job.WorkerID, l job.Lease) ([]job.Ready, error) {
	back, err := takeBack(h.prepare(releaseSQL).id(l.Execution).int(int64(l.Token)).idOrNull(w))
	if err != nil || back == nil {
		return out, err
	}
	e := job.Event{Kind: job.EventReleased, Token: l.Token, Attempt: back.attempt + 1, Worker: back.worker} // 1: it no longer counts
	switch err := tell(h.conn, h.now, back.Tenant, l.Execution, e); {
	case err != nil:
		return out, err
	case back.over:
		return out, h.endFreed(l, job.Cancelled, back.ending)
	default:
		return append(out, back.Ready), nil
	}
}

// takenBack holds what takeBack reads of an execution whose lease it ended.
const takenBack = " RETURNING " + readyColumns + ", " + deleted + ", cancel_at, cancel_reason, attempt, worker"

type taken struct {
	job.Ready
	over    bool   // it is CANCELLED: it was asked to stop, or its job is deleted
	ending  []byte // why, where it is over
	attempt int
	worker  job.WorkerID // who held it
}

// takeBack runs a statement that ends a lease, and returns what it took back: nil if the lease no longer held.
func takeBack(q *stmt) (back *taken, err error) {
	_, err = q.first(func(r *row) error {
		back = &taken{Ready: readReady(r), over: r.bool()}
		if back.over {
			back.ending = jobDeleted
		}
		if at, reason := r.at(), r.text(); !at.IsZero() {
			back.over, back.ending = true, askedToStop(reason)
		}
		back.attempt, back.worker = r.int(), r.id()
		return nil
	})
	return back, err
}
