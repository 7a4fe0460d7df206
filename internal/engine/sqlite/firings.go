package sqlite

import (
	"context"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

const (
	dueSQL = "SELECT " + definitionColumns + `, j.target FROM schedules s INDEXED BY schedules_due CROSS JOIN jobs j
		WHERE s.active = 1 AND s.next_run_at IS NOT NULL AND s.next_run_at >= ? AND s.next_run_at <= ? AND j.tenant = s.tenant AND j.id = s.job ORDER BY s.next_run_at` // no LIMIT ?, as in readySQL
	// aheadSQL covers every partition: the only process of this store asks for all.
	aheadSQL = `SELECT next_run_at FROM schedules INDEXED BY schedules_due
		WHERE active = 1 AND next_run_at IS NOT NULL AND next_run_at > ? AND next_run_at < ? ORDER BY next_run_at` // no LIMIT ?, as in readySQL
	// asGiven selects the job of a firing if it is as the firing has it.
	asGiven    = " WHERE tenant = ? AND job = ? AND next_run_at = ? AND revision = ? AND active = 1"
	asGivenSQL = "SELECT 1 FROM schedules" + asGiven
	moveSQL    = "UPDATE schedules SET next_run_at = ?, runs = runs + ?" + asGiven
	// spareSQL is for a firing of which some executions were not created: those are not runs.
	spareSQL = "UPDATE schedules SET next_run_at = coalesce(?, next_run_at), runs = runs - ? WHERE job = ?"
	oneFire  = " ON CONFLICT (job, scheduled_at, nonce) WHERE id <> job DO NOTHING"
)

// Due lists the jobs that a filter selects, earliest next instant first. Others are skipped one by one: the only
// process of this store asks for all.
func (s *leases) Due(ctx context.Context, f engine.DueFilter) ([]engine.Due, error) {
	if f.Limit <= 0 {
		return nil, nil
	}
	var out []engine.Due
	skip := f.Skip
	err := s.look(ctx, "find what is due", func(c *conn) error {
		_, err := c.prepare(dueSQL).int(f.From.UnixMicro()).int(f.Until.UnixMicro()).until(func(r *row) (bool, error) {
			j, err := readColumns(r)
			if err != nil || len(f.Partitions) > 0 && !slices.Contains(f.Partitions, job.PartitionOf(j.ID)) || slices.Contains(f.Without, j.Tenant) {
				return false, err
			}
			if skip > 0 {
				skip--
				return false, nil
			}
			err = s.memo.Decode(r.bytes(), r.bytes(), &j)
			out = append(out, engine.Due{Job: j, Revision: j.Revision})
			return len(out) >= f.Limit, err
		})
		return err
	})
	return out, err
}

// Ahead counts the next instants, second by second, in all partitions.
func (s *leases) Ahead(ctx context.Context, _ []job.Partition, from time.Time, seconds, limit int) ([]int, error) {
	out := make([]int, seconds)
	at, until := from.UnixMicro(), from.Add(time.Duration(seconds)*time.Second).UnixMicro()
	err := s.look(ctx, "count what is next", func(c *conn) error {
		clear(out)
		counted := 0
		_, err := c.prepare(aheadSQL).int(at).int(until).until(func(r *row) (bool, error) {
			out[(r.int64()-at)/1_000_000]++
			counted++
			return counted >= limit, nil
		})
		return err
	})
	return out, err
}

// Fire moves each job's next instant by compare-and-set and stores the executions of those that moved. The fence lets
// everything through: no other process uses this store.
func (s *leases) Fire(ctx context.Context, fs []engine.Firing, _ engine.Fence) (engine.Fired, error) {
	var out engine.Fired
	if len(fs) == 0 {
		return out, nil
	}
	for begun := time.Now(); ; {
		x, err := s.fire(ctx, fs)
		if err != nil && len(out.Ready)+len(out.Ended) == 0 {
			return engine.Fired{}, err
		}
		if err != nil {
			return out, nil // what was stored and replaced is committed; the next call meets the error
		}
		out.Ready, out.Ended = append(out.Ready, x.ready...), append(out.Ended, x.told...)
		if fs = x.left; len(fs) == 0 || time.Since(begun) > replaceTime {
			return out, nil
		}
	}
}

// replaceTime is how long Fire continues to replace waiting executions, if there are very many; it leaves the rest to
// its next call.
const replaceTime = time.Second

// fire stores a volley in one transaction.
func (s *leases) fire(ctx context.Context, fs []engine.Firing) (x volley, err error) {
	err = s.write(ctx, "fire", func(c *conn, now int64) error {
		x = volley{history: telling(c, now), move: c.prepare(moveSQL), into: inserting(c, oneFire), room: engine.CancelsAtOnce}
		for i := range fs {
			if err := x.fire(&fs[i]); err != nil {
				return err
			}
		}
		if err := x.flush(); err != nil {
			return err
		}
		if err := x.tally(); err != nil {
			return err
		}
		return failpoint.Hit("sched.afterInsertBeforeCommit")
	})
	return x, err
}

// volley is firings that are stored together.
type volley struct {
	*history
	move  *stmt
	into  inserter
	plain []*engine.Firing // moved, with one plain execution each, all of one tenant, still to be stored
	ready []job.Ready
	room  int             // for how many waiting executions that are replaced
	left  []engine.Firing // did not fire: more executions must be replaced than there is room for
}

// fire moves a job's next instant and stores what fires. Waiting executions that it replaces go first, with their
// unique keys.
func (x *volley) fire(f *engine.Firing) error {
	if replaces(f) {
		as, err := x.prepare(asGivenSQL).text(string(f.Tenant)).id(f.Job).at(f.Was).int(int64(f.Revision)).first(nothing)
		if err != nil || !as {
			return err
		}
		n, err := x.replaceWaiting(f, x.room)
		if err != nil {
			return err
		}
		if x.room -= n; x.room <= 0 {
			x.left = append(x.left, *f)
			return nil
		}
	}
	moved, err := x.move.at(f.Next).int(f.Runs).text(string(f.Tenant)).id(f.Job).at(f.Was).int(int64(f.Revision)).exec()
	if err != nil || moved == 0 {
		return err
	}
	if isPlain(f) {
		if len(x.plain) > 0 && x.plain[0].Tenant != f.Tenant {
			if err := x.flush(); err != nil {
				return err
			}
		}
		if x.plain = append(x.plain, f); len(x.plain) == bulk {
			return x.flush()
		}
		return nil
	}
	if err := x.flush(); err != nil { // in order: a unique key goes to the first
		return err
	}
	return x.judge(f)
}

// isPlain reports whether a firing needs no judging: it has one execution without special fields.
func isPlain(f *engine.Firing) bool {
	return (f.Overlap == job.OverlapAllow || f.Overlap == "") && len(f.Skips) == 0 && len(f.Executions) == 1 && !isRich(&f.Executions[0])
}

// flush stores plain executions, many per statement.
func (x *volley) flush() error {
	for len(x.plain) > 0 {
		sql, n := fireLivesSQL.upTo(len(x.plain), insertLiveSQL+oneFire)
		q := x.prepare(sql).text(string(x.plain[0].Tenant))
		for _, f := range x.plain[:n] {
			q.execution(&f.Executions[0])
		}
		stored, err := q.exec()
		if err != nil {
			return err
		}
		for _, f := range x.plain[:n] {
			fired := 1
			if stored < n { // some fired before
				is, err := exists(x.conn, "SELECT 1 FROM live WHERE tenant = ? AND id = ?", f.Tenant, f.Executions[0].ID)
				if err != nil {
					return err
				}
				if !is {
					fired = 0
				}
			}
			if err := x.fired(f, f.Executions[:fired]...); err != nil {
				return err
			}
		}
		x.plain = x.plain[n:]
	}
	return nil
}

// fired records which executions of a firing were created.
func (x *volley) fired(f *engine.Firing, es ...job.Execution) error {
	for i := range es {
		r := es[i].Ready()
		r.Tenant, r.DueAt = f.Tenant, r.DueAt.UTC().Truncate(time.Microsecond)
		x.ready = append(x.ready, r)
	}
	lacking := f.Runs - int64(len(es))
	if lacking <= 0 {
		return nil
	}
	_, err := x.prepare(spareSQL).at(f.Spare).int(lacking).id(f.Job).exec()
	return err
}

// judge stores executions as their overlap policy and unique keys allow, and skipped ones.
func (x *volley) judge(f *engine.Firing) error {
	if err := x.record(f); err != nil {
		return err
	}
	busy, err := overlaps(x.conn, f)
	if err != nil {
		return err
	}
	var fired []job.Execution
	for n := range f.Executions {
		e := &f.Executions[n]
		stored, err := x.store(x.into, f, e, busy)
		if err != nil {
			return err
		}
		if stored {
			busy = f.Overlap == job.OverlapSkip || f.Overlap == job.OverlapQueue
			fired = append(fired, *e)
		}
	}
	if len(fired) > 0 {
		if err := x.replaceRunning(f); err != nil {
			return err
		}
	}
	return x.fired(f, fired...)
}

// store stores an execution of a firing, and reports whether it waits to be leased. It does not if it exists already;
// and if an earlier fire is in its way, or another holds its unique key, it ends as SKIPPED.
func (h *history) store(into inserter, f *engine.Firing, e *job.Execution, busy bool) (stored bool, err error) {
	if busy {
		return false, h.skip(into, f, e, engine.Overlapped())
	}
	if e.UniqueKey == "" {
		return into.insert(f.Tenant, e)
	}
	_, taken, err := holder(h.conn, f.Tenant, e.UniqueKey)
	if err != nil {
		return false, err
	}
	if !taken {
		return into.insert(f.Tenant, e)
	}
	return false, h.skip(into, f, e, engine.EncodeEnd(engine.HeldUnique(e.UniqueKey), nil))
}
