package sqlite

import (
	"math"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	held     = " WHERE id = ? AND lease = ? AND lease > 0"
	heldBy   = " WHERE id = ?1 AND lease = ?2 AND lease > 0 AND (?3 IS NULL OR worker = ?3)" // by that worker; by any, if it is NULL
	unparked = " AND parked_until IS NULL"                                                   // parked executions are left to their targets
	freed    = " WHERE id = ? AND lease = -?"                                                // no longer held, under no token since
	waiting  = " WHERE id IN (SELECT id FROM live WHERE job = ? AND id <> job AND tenant = ? AND lease <= 0 ORDER BY scheduled_at, nonce LIMIT ?)"
	alone    = " WHERE id = ? AND tenant = ? AND lease <= 0"

	deleted = "EXISTS (SELECT 1 FROM jobs j WHERE j.tenant = live.tenant AND j.id = live.job AND j.state = 4)"
	// heldBack is hold for executions that return to the queue: the pause of their job holds those that its schedule
	// fired.
	heldBack = "CASE WHEN nonce = 0 AND EXISTS (SELECT 1 FROM jobs j WHERE j.tenant = live.tenant AND j.id = live.job AND j.state = 2) THEN 1 ELSE hold END"

	// Any error ends the whole transaction. OR ROLLBACK, and no function that could
	// fail, tell SQLite so: it then keeps no copy of each page to undo one statement.

	// endSQL copies rows of live into history, with their status, end, tries, result and ending.
	endSQL = `
		INSERT OR ROLLBACK INTO executions (id, job, status, token, finished_at, scheduled_at, due_at, started_at, attempt, tries, lost, max_attempts,
			part, priority, trigger, worker, retry_of, tenant, payload, result, ending, leased_at)
		SELECT id, job, ?1, CASE WHEN lease < 0 THEN -lease ELSE lease END, ?2, scheduled_at, due_at, started_at, attempt,
			CASE WHEN tries < ?3 THEN ?3 ELSE tries END, lost, max_attempts,
			part, priority, trigger, worker, retry_of, tenant, payload, ?4, ?5,
			CASE WHEN leased_at <> started_at THEN leased_at END FROM live`
	dropSQL = "DELETE FROM live"
	quietly = " AND id = job" // a one-off job's own fire, which is not tallied
	// unwatched chooses what is of jobs on which no others depend.
	unwatched = " AND NOT EXISTS (SELECT 1 FROM job_edges e WHERE e.tenant = live.tenant AND e.parent = live.job)"
	// dropped lists what is noted of a row that moved into history.
	dropped = " RETURNING id <> job, tenant, job, started_at, id, trigger, scheduled_at"
	// marksSQL leaves marks for the workflow runs that executions belonged to.
	marksSQL = `
		INSERT INTO run_marks (execution, run, place, tenant, status, started_at, finished_at, result, ending)
		SELECT m.execution, m.run, m.place, x.tenant, x.status, x.started_at, x.finished_at, x.result, x.ending
		FROM run_members m CROSS JOIN executions x ON x.id = m.execution WHERE m.execution IN (`
	marked = `) ON CONFLICT (execution, place) DO NOTHING RETURNING execution, run`
	// markTokensSQL leaves a mark for each job that depends on the job of an execution.
	markTokensSQL = `
		INSERT INTO edge_marks (child, execution, tenant, parent, status, at) SELECT child, ?3, tenant, parent, ?4, ?5 FROM job_edges WHERE tenant = ?1 AND parent = ?2
		ON CONFLICT (child, execution) DO NOTHING`
	anyEdgeSQL = "SELECT 1 FROM job_edges LIMIT 1"

	addStatsSQL = "INSERT INTO job_stats (tenant, job, total, succeeded, timed, sum_us, last_status, last_finished_at, last_run_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) " + mergeStats
	mergeStats  = `
		ON CONFLICT (tenant, job) DO UPDATE SET total = total + excluded.total, succeeded = succeeded + excluded.succeeded,
			timed = timed + excluded.timed, sum_us = sum_us + excluded.sum_us,
			last_status = CASE WHEN excluded.last_finished_at < last_finished_at THEN last_status ELSE excluded.last_status END,
			last_finished_at = max(last_finished_at, excluded.last_finished_at),
			last_run_at = nullif(max(coalesce(last_run_at, 0), coalesce(excluded.last_run_at, 0)), 0)`
	addDurationsSQL = `
		INSERT INTO job_durations (tenant, job, bucket, n) VALUES (?, ?, ?, ?)
		ON CONFLICT (tenant, job, bucket) DO UPDATE SET n = n + excluded.n`
)

var (
	// endAllSQL is endSQL for many held executions, each with its tries, result and ending.
	endAllSQL = inSizes(`
		INSERT OR ROLLBACK INTO executions (id, job, status, token, finished_at, scheduled_at, due_at, started_at, attempt, tries, lost, max_attempts,
			part, priority, trigger, worker, retry_of, tenant, payload, result, ending, leased_at)
		SELECT id, job, ?1, lease, ?2, scheduled_at, due_at, started_at, attempt, CASE WHEN tries < column3 THEN column3 ELSE tries END, lost, max_attempts,
			part, priority, trigger, worker, retry_of, tenant, payload, column4, column5, CASE WHEN leased_at <> started_at THEN leased_at END
		FROM (VALUES `, "(?, ?, ?, ?, ?, ?)", ") f CROSS JOIN live WHERE id = column1 AND lease = column2 AND lease > 0 AND (column6 IS NULL OR worker = column6)")
	// markAllSQL marks many.
	markAllSQL = inSizes(marksSQL, "?", marked)
	// dropTallyingSQL drops held executions that have moved into history.
	dropTallyingSQL = inSizes(dropSQL+" WHERE id IN (", "?", ")"+dropped)
	// dropAllSQL drops many held executions that have moved into history and are not tallied.
	dropAllSQL = inSizes(dropSQL+" WHERE id IN (", "?", ")"+quietly)
	// dropUnwatchedSQL is dropAllSQL where some jobs depend on others.
	dropUnwatchedSQL = inSizes(dropSQL+" WHERE id IN (", "?", ")"+quietly+unwatched)
)

// history collects what a transaction moves into history. Every end of an execution goes through it, and tally adds
// what it moved to the statistics once.
type history struct {
	*conn
	now   int64
	sums  map[jobRef]*sums
	tells bool                                // it notes what ended
	told  []engine.Ended                      // where it does
	runs  map[job.ExecutionID]job.ExecutionID // the runs that got marks, by what left them
	left  map[job.ExecutionID]bool            // what left marks for jobs that depend on its own
}

type jobRef struct {
	tenant tenant.ID
	job    job.ID
}

func newHistory(c *conn, now int64) *history { return &history{conn: c, now: now} }

// telling makes a history that records what it ended.
func telling(c *conn, now int64) *history { return &history{conn: c, now: now, tells: true} }

// dropping returns a statement that removes what moved into history.
func (h *history) dropping(where string) *stmt {
	return h.prepare(dropSQL + where + dropped)
}

// finish ends an execution that is held under the lease, and reports whether it was.
func (h *history) finish(l job.Lease, status job.Status, tries int, result, ending []byte) (bool, error) {
	n, err := h.prepare(endSQL + held).int(int64(status)).int(h.now).int(int64(tries)).bytes(result).bytes(ending).
		id(l.Execution).int(int64(l.Token)).exec()
	if err != nil || n == 0 {
		return false, err
	}
	edges, err := h.hasEdges()
	if err != nil {
		return false, err
	}
	if !h.tells {
		sql := dropSQL + held + quietly
		if edges {
			sql += unwatched
		}
		n, err = h.prepare(sql).id(l.Execution).int(int64(l.Token)).exec() // for most, and a third faster than RETURNING
		if err != nil || n > 0 {
			return n > 0, err
		}
	}
	_, err = h.drop(h.dropping(held).id(l.Execution).int(int64(l.Token)), status)
	return true, err
}

// ending describes how a held execution ends.
type ending struct {
	job.Lease
	worker      job.WorkerID // the required holder; zero: any
	tries       int
	result, end []byte
}

// finishAll ends different executions with one status, and reports for each whether it was held.
func (h *history) finishAll(es []ending, status job.Status) (applied []bool, err error) {
	applied = make([]bool, len(es))
	pad := size(len(es)) - len(es)
	q := h.prepare(endAllSQL.of(len(es))).int(int64(status)).int(h.now)
	for i := range es {
		e := &es[i]
		q.id(e.Execution).int(int64(e.Token)).int(int64(e.tries)).bytes(e.result).bytes(e.end).idOrNull(e.worker)
	}
	n, err := q.nulls(6 * pad).exec()
	if err != nil {
		return nil, err
	}
	edges, err := h.hasEdges()
	if err != nil {
		return nil, err
	}
	if n < len(es) { // some were not held
		for i := range es {
			n, err := h.drop(h.dropping(heldBy).id(es[i].Execution).int(int64(es[i].Token)).idOrNull(es[i].worker), status)
			if err != nil {
				return nil, err
			}
			applied[i] = n > 0
		}
		return applied, nil
	}
	sql := dropAllSQL
	if edges {
		sql = dropUnwatchedSQL
	}
	each := func(sql sized) *stmt {
		q := h.prepare(sql.of(len(es)))
		for i := range es {
			q.id(es[i].Execution)
			applied[i] = true
		}
		return q.nulls(pad)
	}
	if n, err = each(sql).exec(); err == nil && n < len(es) { // some must be tallied
		_, err = h.drop(each(dropTallyingSQL), status)
	}
	return applied, err
}

// endFreed ends an execution whose lease has just been taken back.
func (h *history) endFreed(l job.Lease, status job.Status, ending []byte) error {
	_, err := h.prepare(endSQL + freed).int(int64(status)).int(h.now).int(0).null().bytes(ending).id(l.Execution).int(int64(l.Token)).exec()
	if err != nil {
		return err
	}
	_, err = h.drop(h.dropping(freed).id(l.Execution).int(int64(l.Token)), status)
	return err
}

// cancelWaiting ends up to most waiting executions of a deleted job.
func (h *history) cancelWaiting(t tenant.ID, of job.ID, most int) error {
	own, err := h.endAlone(t, job.ExecutionID(of), job.Cancelled, jobDeleted) // its own fire
	if err != nil {
		return err
	}
	left := int64(most)
	if own {
		left = max(left-1, 0)
	}
	_, err = h.prepare(endSQL + waiting).int(int64(job.Cancelled)).int(h.now).int(0).null().bytes(jobDeleted).id(of).text(string(t)).int(left).exec()
	if err != nil {
		return err
	}
	_, err = h.drop(h.dropping(waiting).id(of).text(string(t)).int(left), job.Cancelled)
	return err
}

// endAlone ends an execution that nobody holds, and reports whether it did.
func (h *history) endAlone(t tenant.ID, id job.ExecutionID, status job.Status, ending []byte) (bool, error) {
	n, err := h.prepare(endSQL + alone).int(int64(status)).int(h.now).int(0).null().bytes(ending).id(id).text(string(t)).exec()
	if err != nil || n == 0 {
		return false, err
	}
	_, err = h.drop(h.dropping(alone).id(id).text(string(t)), status)
	return true, err
}

// drop runs a statement that removes what moved into history, records it for tally and returns how many rows it
// removed.
func (h *history) drop(q *stmt, status job.Status) (n int, err error) {
	var members []job.ExecutionID
	var watched []engine.Owned
	edges, err := h.hasEdges()
	if err != nil {
		return 0, err
	}
	err = q.each(func(r *row) error {
		n++
		counts, of, started := r.bool(), jobRef{tenant: tenant.ID(r.text()), job: r.id()}, r.at()
		e := engine.Ended{
			Owned:  engine.Owned{Tenant: of.tenant, Job: of.job, Execution: r.id(), Trigger: job.Trigger(r.int()), ScheduledAt: r.at()},
			Status: status,
		}
		if h.tells {
			h.told = append(h.told, e)
		}
		if e.Trigger == job.ByWorkflow {
			members = append(members, e.Execution)
		}
		if edges && status != job.Skipped {
			watched = append(watched, e.Owned)
		}
		if counts && status != job.Skipped { // which is no run
			h.of(of).add(status, started, time.UnixMicro(h.now).UTC())
		}
		return nil
	})
	for len(members) > 0 && err == nil {
		members, err = h.mark(members)
	}
	for _, e := range watched {
		if err == nil {
			err = h.markTokens(e, status)
		}
	}
	return n, err
}

// markTokens tells the jobs that depend on the job of an execution that this has ended.
func (h *history) markTokens(e engine.Owned, status job.Status) error {
	n, err := h.prepare(markTokensSQL).text(string(e.Tenant)).id(e.Job).id(e.Execution).int(int64(status)).int(h.now).exec()
	if n > 0 {
		if h.left == nil {
			h.left = map[job.ExecutionID]bool{}
		}
		h.left[e.Execution] = true
	}
	return err
}

// hasEdges reports whether any job depends on another, or did since the store was opened.
func (c *conn) hasEdges() (bool, error) {
	if c.edges == nil {
		some, err := c.prepare(anyEdgeSQL).first(nothing)
		if err != nil {
			return false, err
		}
		c.edges = &some
	}
	return *c.edges, nil
}

// mark tells the runs of workflows that some of their executions have ended, and returns those that it has not told of.
func (h *history) mark(ids []job.ExecutionID) (rest []job.ExecutionID, err error) {
	sql, n := markAllSQL.upTo(len(ids), marksSQL+"?"+marked)
	q := h.prepare(sql)
	for _, id := range ids[:n] {
		q.id(id)
	}
	err = q.each(func(r *row) error {
		if h.runs == nil {
			h.runs = map[job.ExecutionID]job.ExecutionID{}
		}
		id := job.ExecutionID(r.id())
		h.runs[id] = r.id()
		return nil
	})
	return ids[n:], err
}

// of returns the sums of a job's executions that have moved so far.
func (h *history) of(ref jobRef) *sums {
	if h.sums == nil {
		h.sums = map[jobRef]*sums{}
	}
	if h.sums[ref] == nil {
		h.sums[ref] = &sums{}
	}
	return h.sums[ref]
}

// tally adds what was moved to the statistics; it comes last in its transaction.
func (h *history) tally() error {
	for ref, s := range h.sums {
		_, err := h.prepare(addStatsSQL).text(string(ref.tenant)).id(ref.job).int(s.total).int(s.succeeded).int(s.timed).int(s.took.Microseconds()).
			int(int64(s.lastStatus)).at(s.lastFinished).at(s.lastRun).exec()
		if err != nil {
			return err
		}
		for bucket, n := range s.durations {
			if _, err := h.prepare(addDurationsSQL).text(string(ref.tenant)).id(ref.job).int(int64(bucket)).int(n).exec(); err != nil {
				return err
			}
		}
	}
	return nil
}

// sums collects the statistics of a job.
type sums struct {
	total, succeeded, timed int64
	took                    time.Duration
	durations               map[int]int64 // by bucket
	lastStatus              job.Status
	lastFinished, lastRun   time.Time
}

// add counts an execution that has ended.
func (s *sums) add(status job.Status, started, finished time.Time) {
	s.total++
	if status == job.Succeeded {
		s.succeeded++
	}
	if !finished.Before(s.lastFinished) {
		s.lastStatus, s.lastFinished = status, finished
	}
	if started.IsZero() {
		return
	}
	s.ran(started)
	d := max(0, finished.Sub(started))
	s.timed++
	s.took += d
	if s.durations == nil {
		s.durations = map[int]int64{}
	}
	s.durations[job.Bucket(d)]++
}

// ran records that an execution started.
func (s *sums) ran(at time.Time) {
	if at.After(s.lastRun) {
		s.lastRun = at
	}
}

func (s *sums) stats() job.Stats {
	out := job.Stats{Total: s.total, Succeeded: s.succeeded, LastStatus: s.lastStatus, LastRunAt: s.lastRun, P95Duration: job.P95(s.durations)}
	if s.timed > 0 {
		out.AvgDuration = time.Duration(math.Round(float64(s.took.Microseconds())/float64(s.timed))) * time.Microsecond
	}
	return out
}
