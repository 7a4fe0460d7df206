package sqlstore

import (
	"context"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Forgetting implements engine.Forgetting.
type Forgetting struct{ db DB }

var _ engine.Forgetting = Forgetting{}

// NewForgetting returns the part of a database that forgets.
func NewForgetting(db DB) Forgetting { return Forgetting{db} }

const (
	// anyOf holds for ids that are in the list $2.
	anyOf = `/*postgres: = ANY ($2::uuid[])*//*sqlite: IN (SELECT unhex(value) FROM json_each($2))*/`
	// afterPlace is a condition on a position; a missing instant stands for the start.
	afterPlace = ` > (coalesce(/*postgres: $3::timestamptz, '-infinity'*//*sqlite: $3, -9223372036854775807*/), $4)`

	// oldExecutionsSQL uses the scheduled time in SQLite, which has an index for it: executions scheduled later have
	// not finished before.
	oldExecutionsSQL = `
		SELECT id, finished_at, scheduled_at FROM executions /*sqlite: INDEXED BY executions_tenant*/
		WHERE tenant = $1 AND /*postgres: finished_at*//*sqlite: scheduled_at*/ < $2 AND status > 0 AND (scheduled_at, id)` + afterPlace + `
		ORDER BY scheduled_at, id LIMIT $5`

	// ofNoRun holds for executions that belong to no run. OFFSET 0 makes PostgreSQL look each one up.
	ofNoRun = `NOT EXISTS (SELECT 1 FROM run_members m WHERE m.execution = x.id /*postgres: OFFSET 0*/) AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = x.id /*postgres: OFFSET 0*/)
			AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.execution = x.id /*postgres: OFFSET 0*/) AND NOT EXISTS (SELECT 1 FROM run_attempts a WHERE a.execution = x.id /*postgres: OFFSET 0*/)`
	dropExecutionsSQL = `
		DELETE FROM executions AS x WHERE x.id ` + anyOf + ` AND x.tenant = $1 AND x.finished_at >= $3 AND x.finished_at < $4 AND ` + ofNoRun + `
			AND NOT EXISTS (SELECT 1 FROM holds h WHERE h.tenant = $1 AND h.job = x.job /*postgres: OFFSET 0*/)
		RETURNING id, job`
)

// dropWith lists what is dropped with executions.
var dropWith = []string{
	"DELETE FROM attempts WHERE execution " + anyID, "DELETE FROM events WHERE execution " + anyID, "DELETE FROM logs WHERE execution " + anyID,
	"DELETE FROM dead_letters WHERE execution " + anyID, "DELETE FROM traces WHERE of " + anyID,
}

// old is an execution that may be dropped.
type old struct {
	id                  [16]byte
	finished, scheduled time.Time
}

func scanOld(r Row) (x old, err error) { return x, r.Scan(&x.id, &x.finished, &x.scheduled) }

// dropped is an execution that was.
type dropped struct{ id, job [16]byte }

func scanDropped(r Row) (x dropped, err error) { return x, r.Scan(&x.id, &x.job) }

// ForgetHistory drops executions of a tenant that finished before an instant.
func (s Forgetting) ForgetHistory(ctx context.Context, t tenant.ID, before time.Time, from engine.Place, limit int) (out engine.Forgot, err error) {
	err = s.db.Write(ctx, "forget history", func(tx Tx) error {
		out = engine.Forgot{}
		if held, err := purging(tx, t); held || err != nil {
			return err
		}
		found, err := all(tx, scanOld, oldExecutionsSQL, string(t), before, from.At, [16]byte(from.ID), limit)
		if err != nil {
			return err
		}
		if n := len(found); n == limit && n > 0 {
			out.More, out.Next = true, engine.Place{At: found[n-1].scheduled, ID: found[n-1].id}
		}
		found = slices.DeleteFunc(found, func(x old) bool { return !x.finished.Before(before) })
		gone, err := forget(tx, t, found, before)
		if err != nil {
			return err
		}
		out.N = len(gone)
		return forgetJobsOf(tx, t, gone, before)
	})
	if err != nil {
		return engine.Forgot{}, err
	}
	return out, nil
}

// forget drops those executions that finished before an instant, belong to no run and are not on hold, with all that belongs to them,
// and returns them.
func forget(tx Tx, t tenant.ID, of []old, before time.Time) ([]dropped, error) {
	if len(of) == 0 {
		return nil, nil
	}
	ids, since := make([][16]byte, len(of)), of[0].finished
	for i, x := range of {
		ids[i] = x.id
		if x.finished.Before(since) {
			since = x.finished
		}
	}
	gone, err := all(tx, scanDropped, dropExecutionsSQL, string(t), ids, since, before)
	if err != nil || len(gone) == 0 {
		return nil, err
	}
	ids = ids[:0]
	for _, x := range gone {
		ids = append(ids, x.id)
	}
	for _, sql := range dropWith {
		if _, err := tx.Exec(sql, ids); err != nil {
			return nil, err
		}
	}
	return gone, nil
}

// forgetJobsOf drops the jobs that have ended with executions that were dropped.
func forgetJobsOf(tx Tx, t tenant.ID, gone []dropped, before time.Time) error {
	own := map[[16]byte]bool{} // jobs by whether the execution they were created with is gone, so that none has to look for it
	for _, x := range gone {
		own[x.job] = own[x.job] || x.id == x.job
	}
	var ids, sure [][16]byte
	for id, is := range own {
		if ids = append(ids, id); is {
			sure = append(sure, id)
		}
	}
	_, err := forgetJobs(tx, t, ids, sure, before)
	return err
}

const (
	endedRunsSQL = `
		SELECT id, begun_at, ended_at FROM runs WHERE tenant = $1 AND ended_at IS NOT NULL AND ended_at < $2 AND (ended_at, id)` + afterPlace + `
		ORDER BY ended_at, id LIMIT $5`
	// ofNoOther holds for runs that are no node of another run: such a run goes when the other one has gone.
	ofNoOther      = `NOT EXISTS (SELECT 1 FROM run_members m WHERE m.execution = runs.id /*postgres: OFFSET 0*/) AND NOT EXISTS (SELECT 1 FROM run_members m WHERE m.execution = runs.execution /*postgres: OFFSET 0*/)`
	lockRunSQL     = "SELECT id, execution, coalesce(ended_at, begun_at) FROM runs WHERE id = /*postgres: ANY (ARRAY[$1::uuid])*//*sqlite: $1*/ AND " + ofNoOther + " AND NOT EXISTS (SELECT 1 FROM holds h WHERE h.tenant = runs.tenant AND h.job = runs.workflow /*postgres: OFFSET 0*/) ORDER BY id /*postgres: FOR UPDATE SKIP LOCKED*/"
	dropMembersSQL = `
		DELETE FROM run_members /*postgres: m USING (SELECT execution FROM run_members WHERE run = $1 LIMIT $2) o(id) WHERE m.execution = ANY (ARRAY[o.id])*/
		/*sqlite: WHERE execution IN (SELECT execution FROM run_members WHERE run = $1 LIMIT $2)*/ RETURNING execution, created_at`
	dropSomeSQL  = "DELETE FROM run_results WHERE run = $1 AND place IN (SELECT place FROM run_results WHERE run = $1 ORDER BY place LIMIT $2)"
	dropTriesSQL = "DELETE FROM run_attempts WHERE run = $1 RETURNING execution"

	// runsAtOnce bounds the runs that one call of ForgetRuns looks at.
	runsAtOnce = 50
)

// dropRun lists what is dropped with the row of a run.
var dropRun = []string{"DELETE FROM run_marks WHERE run = $1", "DELETE FROM run_spans WHERE run = $1", "DELETE FROM run_waits WHERE run = $1", "DELETE FROM runs WHERE id = $1"}

// ForgetRuns drops runs of a tenant that ended before an instant, the oldest first.
func (s Forgetting) ForgetRuns(ctx context.Context, t tenant.ID, before time.Time, from engine.Place, limit int) (out engine.Forgot, err error) {
	err = s.db.Write(ctx, "forget runs", func(tx Tx) error {
		out = engine.Forgot{}
		if held, err := purging(tx, t); held || err != nil {
			return err
		}
		found, err := all(tx, scanOld, endedRunsSQL, string(t), before, from.At, [16]byte(from.ID), runsAtOnce)
		if err != nil {
			return err
		}
		out.More, out.Next = len(found) == runsAtOnce, from
		for _, x := range found { // finished is when it began, and scheduled when it ended
			n, whole, err := forgetRun(tx, t, x, before, limit-out.N)
			if err != nil {
				return err
			}
			if out.N += n; !whole {
				out.More = true
				return nil
			}
			out.Next = engine.Place{At: x.scheduled, ID: x.id}
		}
		return nil
	})
	if err != nil {
		return engine.Forgot{}, err
	}
	return out, nil
}

// ended is a run that has.
type ended struct {
	id, execution [16]byte
	ended         time.Time
}

func scanLocked(r Row) (x ended, err error) { return x, r.Scan(&x.id, &x.execution, &x.ended) }

// forgetRun drops up to limit rows of a run, and the run itself if no others are left.
func forgetRun(tx Tx, t tenant.ID, x old, before time.Time, limit int) (n int, whole bool, err error) {
	locked, err := all(tx, scanLocked, lockRunSQL, x.id)
	if err != nil || len(locked) == 0 || !locked[0].ended.Equal(x.scheduled) {
		return 0, true, err // someone retries it, or has, or holds it
	}
	members, err := all(tx, func(r Row) (m old, err error) { return m, r.Scan(&m.id, &m.finished) }, dropMembersSQL, x.id, limit)
	if err != nil {
		return 0, false, err
	}
	if err := forgetOf(tx, t, members, x, before); err != nil {
		return 0, false, err
	}
	results, err := tx.Exec(dropSomeSQL, x.id, limit-len(members))
	if n = len(members) + int(results); err != nil || n >= limit {
		return n, false, err
	}
	tries, err := all(tx, func(r Row) (o old, err error) { return o, r.Scan(&o.id) }, dropTriesSQL, x.id)
	if err != nil {
		return n, false, err
	}
	for _, sql := range dropRun {
		if _, err := tx.Exec(sql, x.id); err != nil {
			return n, false, err
		}
	}
	tries = append(tries, old{id: x.id}, old{id: locked[0].execution})
	return n + 1, true, forgetOf(tx, t, tries, x, before)
}

// forgetOf drops executions that belong to a run, all of which finished while it ran.
func forgetOf(tx Tx, t tenant.ID, of []old, run old, before time.Time) error {
	for i := range of {
		of[i].finished = run.finished
	}
	gone, err := forget(tx, t, of, before)
	if err != nil {
		return err
	}
	return forgetJobsOf(tx, t, gone, before)
}

// scanBytes reads an id.
func scanBytes(r Row) (id [16]byte, err error) { return id, r.Scan(&id) }

// ForgetJobs drops one-off and deleted jobs of which nothing is left.
func (s Forgetting) ForgetJobs(ctx context.Context, t tenant.ID, before time.Time, from engine.Place, limit int) (out engine.Forgot, err error) {
	err = s.db.Write(ctx, "forget jobs", func(tx Tx) error {
		out = engine.Forgot{}
		if held, err := purging(tx, t); held || err != nil {
			return err
		}
		found, err := all(tx, scanAged, agedJobsSQL, string(t), [16]byte(from.ID), [16]byte(engine.FirstID(before)), limit)
		if err != nil {
			return err
		}
		if n := len(found); n == limit && n > 0 {
			out.More, out.Next = true, engine.Place{ID: found[n-1].id}
		}
		var ids [][16]byte
		for _, j := range found {
			if !j.ends() || !j.updated.Before(before) {
				continue
			}
			if ids = append(ids, j.id); len(ids) == jobsAtOnce {
				out.More, out.Next = true, engine.Place{ID: j.id}
				break
			}
		}
		out.N, err = forgetJobs(tx, t, ids, nil, before)
		return err
	})
	if err != nil {
		return engine.Forgot{}, err
	}
	return out, nil
}

// aged is a job of which nothing may be left.
type aged struct {
	id          [16]byte
	state, kind int
	updated     time.Time
	keyed       bool
}

func scanAged(r Row) (j aged, err error) {
	return j, r.Scan(&j.id, &j.state, &j.kind, &j.updated, &j.keyed)
}

// ends reports whether the job goes with its history.
func (j aged) ends() bool {
	return job.EndsWithHistory(job.State(j.state), job.ScheduleType(j.kind), j.keyed)
}
