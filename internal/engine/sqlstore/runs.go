package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

// RunDB is a DB whose transactions may also start and end executions.
type RunDB interface {
	DB
	// WriteRuns runs f in one transaction.
	WriteRuns(ctx context.Context, doing string, f func(RunTx) error) error
}

// RunTx is a transaction that starts and ends executions.
type RunTx interface {
	Tx
	// ReadAll runs queries, one after the other, in one round trip. It returns the store's clock as it was after the last of them.
	ReadAll(qs ...Query) (time.Time, error)
	// WriteAll runs statements and stores executions that wait for workers, in one round trip.
	WriteAll(statements []Bulk, executions []Waiting) error
	// WriteLast is WriteAll after which nothing else is read or written, so that it may commit in the same round trip.
	WriteLast(statements []Bulk, executions []Waiting) error
	// AddParked stores an execution that no worker holds and that does not wait for one either. It returns its token.
	AddParked(e *job.Execution) (job.Token, error)
	// Conclude applies finishes as engine.Leases does, and then runs queries about the runs whose members these are, if they are of any:
	// all in one round trip, if the store can. The queries name no runs. They may also be given runs that the verdicts do not name. It
	// returns the store's clock as it was after the last of them.
	Conclude(fs []job.Finish, qs ...Query) ([]job.Verdict, time.Time, error)
	// FinishExecutions ends executions under their leases, and answers in order.
	FinishExecutions(fs []job.Finish) ([]Finished, error)
	// CancelExecutions cancels executions as engine.Recovery does, and answers with those that it ended. Those that have ended are left as
	// they are.
	CancelExecutions(t tenant.ID, ids []job.ExecutionID, reason string) ([]engine.Ended, error)
	// ReleaseExecution lets go of an execution that waits for the jobs that its job depends on, and reports whether it did.
	ReleaseExecution(t tenant.ID, id job.ExecutionID) (job.Ready, bool, error)
}

// Query reads what belongs to some runs. PostgreSQL gets all their ids as $1, in one array; SQLite runs it for one id after the other.
type Query struct {
	SQL  string
	Runs [][16]byte
	Args []any // $2 and what follows
	Row  func(Row) error
}

// Bulk is a statement for many rows. PostgreSQL gets the values of each column in one array; SQLite runs it for one row after the
// other. In a column, all values are of one type.
type Bulk struct {
	SQL  string
	Rows [][]any
	Each error // returned unless one row changes for each of Rows, whose first column is then an id; nil: any number may change
}

// Waiting is an execution that waits for a worker.
type Waiting struct {
	Tenant    tenant.ID
	Execution *job.Execution
}

// Finished tells what a finish ended, the runs that got marks by it, and whether jobs that depend on its job did.
type Finished struct {
	Ended  []engine.Ended
	Runs   []job.ExecutionID
	Tokens bool
}

// Runs implements engine.Runs and engine.Edges.
type Runs struct{ db RunDB }

var (
	_ engine.Runs  = Runs{}
	_ engine.Edges = Runs{}
)

// NewRuns returns the runs of a database.
func NewRuns(db RunDB) Runs { return Runs{db} }

const (
	runColumns = "r.id, r.execution, r.token, r.tenant, r.workflow, r.version, r.attempt, r.status, r.state, r.input, r.output, r.ending, r.scheduled_at, r.begun_at, r.ended_at, r.seq"

	insertRunSQL = `
		INSERT INTO runs (id, execution, token, tenant, workflow, version, attempt, status, state, input, output, ending, scheduled_at, begun_at, ended_at, seq)
		/*postgres: SELECT f.*, 1 FROM unnest($1::uuid[], $2::uuid[], $3::int8[], $4::text[], $5::uuid[], $6::int4[], $7::int4[], $8::int2[], $9::bytea[], $10::bytea[], $11::bytea[],
			$12::bytea[], $13::timestamptz[], $14::timestamptz[], $15::timestamptz[]) f*/
		/*sqlite: VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, 1)*/
		ON CONFLICT (id) DO NOTHING`
	parkRunSQL = `
		UPDATE live AS v SET parked_until = /*postgres: f.until FROM unnest($1::uuid[], $2::int8[], $3::timestamptz[]) f(id, lease, until)
		WHERE v.id = ANY (ARRAY[f.id]) AND v.lease = f.lease AND v.lease > 0*/
		/*sqlite: $3 WHERE id = $1 AND lease = $2 AND lease > 0*/`
	heldRunSQL    = "UPDATE runs SET token = $2 WHERE execution = $1 AND token < $2"
	lockRunsSQL   = `SELECT ` + runColumns + ` FROM runs r WHERE r.id /*postgres: = ANY ($1::uuid[]) ORDER BY r.id FOR UPDATE*//*sqlite: = $1*/`
	lockRunIDsSQL = `SELECT r.id FROM runs r WHERE r.id /*postgres: = ANY ($1::uuid[]) ORDER BY r.id FOR UPDATE*//*sqlite: = $1*/`
	// freeRunsSQL passes over those that others have locked: who ends members holds locks on rows that these others may wait for.
	freeRunsSQL = lockRunsSQL + ` /*postgres: SKIP LOCKED*/`
	saveRunSQL  = `
		UPDATE runs AS r SET execution = /*postgres: f.execution, token = f.token, version = f.version, attempt = f.attempt, status = f.status, state = f.state, input = f.input,
			output = f.output, ending = f.ending, ended_at = f.ended_at, seq = r.seq + 1
		FROM unnest($1::uuid[], $2::uuid[], $3::int8[], $4::int4[], $5::int4[], $6::int2[], $7::bytea[], $8::bytea[], $9::bytea[], $10::bytea[], $11::timestamptz[], $12::int8[])
			f(id, execution, token, version, attempt, status, state, input, output, ending, ended_at, seq)
		WHERE r.id = ANY (ARRAY[f.id]) AND r.seq = f.seq*/
		/*sqlite: $2, token = $3, version = $4, attempt = $5, status = $6, state = $7, input = $8, output = $9, ending = $10, ended_at = $11, seq = seq + 1
		WHERE id = $1 AND seq = $12*/`

	// anyID holds for ids that are in the list $1.
	anyID = `/*postgres: = ANY ($1::uuid[])*//*sqlite: IN (SELECT unhex(value) FROM json_each($1))*/`

	// What belongs to a run is found by an index, however few rows there were when the statement was planned.
	markColumns = "run, execution, place, status, started_at, finished_at, result, ending"
	marksSQL    = `/*postgres: SELECT k.* FROM unnest($1::uuid[]) r(id) CROSS JOIN LATERAL
		(SELECT ` + markColumns + ` FROM run_marks WHERE run = r.id ORDER BY finished_at, execution LIMIT $2) k*/
		/*sqlite: SELECT ` + markColumns + ` FROM run_marks WHERE run = $1 ORDER BY finished_at, execution LIMIT $2*/`
	foldedSQL = `
		UPDATE run_members AS m SET status = /*postgres: f.status, started_at = f.started_at, finished_at = f.finished_at
		FROM unnest($1::uuid[], $2::int2[], $3::timestamptz[], $4::timestamptz[]) f(execution, status, started_at, finished_at) WHERE m.execution = ANY (ARRAY[f.execution])*/
		/*sqlite: $2, started_at = $3, finished_at = $4 WHERE execution = $1*/`
	dropMarkSQL = `
		DELETE FROM run_marks /*postgres: k USING unnest($1::uuid[], $2::int8[]) f(execution, place) WHERE k.execution = ANY (ARRAY[f.execution]) AND k.place = f.place*/
		/*sqlite: WHERE execution = $1 AND place = $2*/`

	insertMemberSQL = `
		INSERT INTO run_members (execution, run, place, attempt, tenant, created_at, target)
		/*postgres: SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::int8[], $4::int4[], $5::text[], $6::timestamptz[], $7::bytea[])*/
		/*sqlite: VALUES ($1, $2, $3, $4, $5, $6, $7)*/`
	beforeSQL      = "SELECT execution, place FROM run_members WHERE run = $1 AND place >= $2 AND place <= $3 ORDER BY place, attempt"
	liveMembersSQL = "SELECT m.execution, m.place FROM run_members m WHERE m.run = $1 AND m.place >= $2 AND m.place < $3 AND m.status = 0 ORDER BY m.place LIMIT $4"

	// askBelowSQL leaves marks for the runs that members are. One that has not begun gets its mark, too, once it is about to.
	askBelowSQL = `
		INSERT INTO run_marks (execution, run, place, tenant, status, finished_at)
		SELECT v.id, coalesce((SELECT r.id FROM runs r WHERE r.execution = v.id), v.id), CAST($4 AS bigint), v.tenant, CAST($5 AS smallint), /*postgres: CAST($6 AS timestamptz)*//*sqlite: $6*/
		FROM run_members m
		/*postgres: CROSS JOIN LATERAL (SELECT id, tenant FROM live WHERE id = m.execution AND class = 'workflow' AND lease > 0 OFFSET 0) v*/
		/*sqlite: JOIN live v ON v.id = m.execution AND v.class = 'workflow' AND v.lease > 0*/
		WHERE m.run = $1 AND m.place >= $2 AND m.place < $3 AND m.status = 0 ON CONFLICT (execution, place) DO NOTHING`

	// orphanedSQL drops what was asked of runs that will never be, since their executions have ended without.
	orphanedSQL = `
		DELETE FROM run_marks WHERE run = $1 AND place < 0 AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = run_marks.run)
			AND NOT EXISTS (SELECT 1 FROM live v WHERE v.id = run_marks.execution)`

	// exhumeSQL drops the dead letter of what is run again.
	exhumeSQL = `
		DELETE FROM dead_letters /*postgres: d USING unnest($1::text[], $2::uuid[]) f(tenant, execution) WHERE d.execution = ANY (ARRAY[f.execution]) AND d.tenant = f.tenant*/
		/*sqlite: WHERE tenant = $1 AND execution = $2*/`

	putResultSQL = `
		INSERT INTO run_results (run, place, tenant, result, ending)
		/*postgres: SELECT * FROM unnest($1::uuid[], $2::int8[], $3::text[], $4::bytea[], $5::bytea[])*/
		/*sqlite: VALUES ($1, $2, $3, $4, $5)*/
		ON CONFLICT (run, place) DO UPDATE SET result = excluded.result, ending = excluded.ending`
	dropResultsSQL = `
		DELETE FROM run_results /*postgres: x USING unnest($1::uuid[], $2::int8[], $3::int8[]) f(run, low, high) WHERE x.run = ANY (ARRAY[f.run]) AND x.place >= f.low AND x.place < f.high*/
		/*sqlite: WHERE run = $1 AND place >= $2 AND place < $3*/`
	resultsSQL = "SELECT place, result, ending FROM run_results WHERE run = $1 AND place >= $2 AND place < $3 ORDER BY place"

	beganSQL = `
		INSERT INTO run_spans (run, place, tenant, started_at) /*postgres: SELECT * FROM unnest($1::uuid[], $2::int8[], $3::text[], $4::timestamptz[])*//*sqlite: VALUES ($1, $2, $3, $4)*/
		ON CONFLICT (run, place) DO UPDATE SET started_at = excluded.started_at, finished_at = NULL`
	overSQL = `
		UPDATE run_spans AS x SET finished_at = /*postgres: f.at FROM unnest($1::uuid[], $2::int8[], $3::timestamptz[]) f(run, place, at) WHERE x.run = ANY (ARRAY[f.run]) AND x.place = f.place*/
		/*sqlite: $3 WHERE run = $1 AND place = $2*/`
	spansSQL = "SELECT place, started_at, finished_at FROM run_spans WHERE run = $1 AND tenant = $2 ORDER BY place"

	slimColumns = "run, tenant, node, kind, begun_at, wake_at, until_at, event, match, asks, voters"
	waitColumns = slimColumns + ", votes"
	waitsSQL    = "SELECT " + waitColumns + " FROM run_waits WHERE run /*postgres: = ANY ($1::uuid[])*//*sqlite: = $1*/ ORDER BY run, node, kind"
	putWaitSQL  = `
		INSERT INTO run_waits (run, tenant, node, kind, begun_at, wake_at, until_at, event, digest, match, votes, asks, schema, voters)
		/*postgres: SELECT * FROM unnest($1::uuid[], $2::text[], $3::int4[], $4::int2[], $5::timestamptz[], $6::timestamptz[], $7::timestamptz[], $8::text[], $9::bytea[],
			$10::bytea[], $11::bytea[], $12::bytea[], $13::bytea[], $14::bytea[])*/
		/*sqlite: VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)*/
		ON CONFLICT (run, node, kind) DO UPDATE SET begun_at = excluded.begun_at, wake_at = excluded.wake_at, until_at = excluded.until_at,
			event = excluded.event, digest = excluded.digest, match = excluded.match, votes = excluded.votes, asks = excluded.asks, voters = excluded.voters,
			schema = CASE WHEN length(excluded.schema) > 0 THEN excluded.schema ELSE run_waits.schema END`
	dropWaitSQL = `
		DELETE FROM run_waits /*postgres: w USING unnest($1::uuid[], $2::int4[], $3::int2[]) f(run, node, kind) WHERE w.run = ANY (ARRAY[f.run]) AND w.node = f.node AND w.kind = f.kind*/
		/*sqlite: WHERE run = $1 AND node = $2 AND kind = $3*/`
	dropWaitsSQL   = "DELETE FROM run_waits WHERE run /*postgres: = ANY ($1::uuid[])*//*sqlite: = $1*/"
	keepAttemptSQL = `
		INSERT INTO run_attempts (execution, run, tenant) /*postgres: SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[])*//*sqlite: VALUES ($1, $2, $3)*/
		ON CONFLICT (execution) DO NOTHING`

	anyEventSQL = "SELECT " + eventColumns + " FROM run_events WHERE tenant = $1 AND event = $2 AND at >= $3 ORDER BY at LIMIT 1"
	eventSQL    = "SELECT " + eventColumns + " FROM run_events WHERE tenant = $1 AND event = $2 AND at >= $3 AND digest = $4 ORDER BY at LIMIT 1"

	eventColumns = "id, tenant, event, match, payload, at"
)

// errBegun says that one of several runs is stored already.
var errBegun = errors.New("a run is stored already")

// BeginRuns stores runs and what their first decisions start. Where one of them cannot begin, each gets a transaction of its own.
func (s Runs) BeginRuns(ctx context.Context, all []engine.NewRun) (out []engine.Begun, err error) {
	if len(all) > 1 {
		err = s.db.WriteRuns(ctx, "begin runs", func(tx RunTx) error {
			out, err = beginRuns(tx, all)
			return err
		})
		if !errors.Is(err, errBegun) && !errors.Is(err, engine.ErrConflict) {
			return out, err
		}
	}
	out = make([]engine.Begun, 0, len(all))
	for i := range all {
		var one []engine.Begun
		err = s.db.WriteRuns(ctx, "begin a run", func(tx RunTx) (err error) {
			one, err = beginRuns(tx, all[i:i+1])
			return err
		})
		if errors.Is(err, errBegun) {
			err = s.db.WriteRuns(ctx, "hold a run", func(tx RunTx) (err error) {
				one, err = heldRun(tx, all[i].Run)
				return err
			})
		}
		if errors.Is(err, engine.ErrConflict) {
			one, err = []engine.Begun{{Run: all[i].Run, Lost: true}}, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, one...)
	}
	return out, nil
}

// beginRuns stores runs. It returns errBegun if one is stored already, and ErrConflict if the execution of one is not held any more.
func beginRuns(tx RunTx, all []engine.NewRun) ([]engine.Begun, error) {
	c := &changes{tx: tx}
	order := make([]int, len(all)) // rows are locked in the order of their ids, as wherever several are
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return bytes.Compare(all[a].Run.ID[:], all[b].Run.ID[:]) })
	for _, i := range order {
		r := &all[i].Run
		c.begin = append(c.begin, []any{[16]byte(r.ID), [16]byte(r.Execution), int64(r.Token), string(r.Tenant), [16]byte(r.Workflow), r.Version, r.Attempt, r.Status, r.State,
			r.Input, r.Output, engine.EncodeEnd(r.Error, nil), r.ScheduledAt, r.BegunAt, r.EndedAt})
		if all[i].First.Next == nil {
			c.parks = append(c.parks, []any{[16]byte(r.Execution), int64(r.Token), job.Forever})
		}
	}
	out := make([]engine.Begun, len(all))
	for i := range all {
		r := all[i].Run
		r.Seq = 1
		out[i] = engine.Begun{Run: r, New: true}
		if err := c.add(r, r.BegunAt, &all[i].First, &out[i].Changed); err != nil {
			return nil, err
		}
	}
	if err := c.write(); err != nil {
		return nil, err
	}
	return out, failpoint.Hit("workflow.beforeBegin")
}

// heldRun notes the lease under which a stored run's execution is held now, and returns the run.
func heldRun(tx RunTx, r engine.WorkflowRun) ([]engine.Begun, error) {
	if _, err := tx.Exec(heldRunSQL, [16]byte(r.Execution), int64(r.Token)); err != nil {
		return nil, err
	}
	stored, err := findRun(tx, r.Tenant, r.Execution)
	return []engine.Begun{{Run: stored}}, err
}

// ChangeRuns locks runs, has decide say what changes in each, and commits that.
func (s Runs) ChangeRuns(ctx context.Context, ids []job.ExecutionID, decide engine.Decide) (out []engine.RunChanged, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	err = s.db.WriteRuns(ctx, "change runs", func(tx RunTx) error {
		views, err := readRuns(tx, lockRunsSQL, ids)
		if err == nil {
			err = orphaned(tx, ids, views)
		}
		if err == nil {
			out, err = changeRuns(tx, views, decide)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// orphaned drops what was asked of runs that do not exist and never will.
func orphaned(tx RunTx, ids []job.ExecutionID, views []engine.RunView) error {
	if len(views) == len(ids) {
		return nil
	}
	is := make(map[job.ExecutionID]bool, len(views))
	for i := range views {
		is[views[i].Run.ID] = true
	}
	for _, id := range ids {
		if is[id] {
			continue
		}
		is[id] = true
		if _, err := tx.Exec(orphanedSQL, [16]byte(id)); err != nil {
			return err
		}
	}
	return nil
}

// FinishNodes applies transitions, and commits with them what follows in the runs whose members ended.
func (s Runs) FinishNodes(ctx context.Context, fs []job.Finish, decide engine.Decide) (vs []job.Verdict, out []engine.RunChanged, err error) {
	if len(fs) == 0 {
		return nil, nil, nil
	}
	err = s.db.WriteRuns(ctx, "finish nodes", func(tx RunTx) (err error) {
		out = nil
		var read runsRead
		var now time.Time
		if vs, now, err = tx.Conclude(fs, read.queries(freeRunsSQL, nil)...); err != nil {
			return err
		}
		left := map[job.ExecutionID]bool{}
		for i := range vs {
			left[vs[i].Run] = !vs[i].Run.IsZero()
		}
		views := slices.DeleteFunc(read.done(tx, now), func(v engine.RunView) bool { return !left[v.Run.ID] })
		if len(views) > 0 {
			out, err = changeRuns(tx, views, decide)
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return vs, out, nil
}

// changeRuns has decide say what changes in runs that are locked, and writes that.
func changeRuns(tx RunTx, views []engine.RunView, decide engine.Decide) ([]engine.RunChanged, error) {
	out := make([]engine.RunChanged, len(views))
	c := &changes{tx: tx}
	for i := range views {
		v, to := &views[i], &out[i]
		next, err := decide(*v)
		if to.Run = v.Run.ID; err != nil {
			to.Err = err
			continue
		}
		to.More = len(v.Marks) == engine.MarksAtOnce
		c.fold(v.Marks)
		if next == nil {
			continue
		}
		if err := c.add(v.Run, v.Now, next, to); err != nil {
			return nil, err
		}
	}
	if err := c.write(); err != nil {
		return nil, err
	}
	return out, failpoint.Hit("workflow.beforeCommit")
}

func listed(ids []job.ExecutionID) [][16]byte {
	list := make([][16]byte, len(ids))
	for i := range ids {
		list[i] = ids[i]
	}
	return list
}

// readRuns locks runs by a statement and reads what decisions about them are made from.
func readRuns(tx RunTx, locking string, ids []job.ExecutionID) ([]engine.RunView, error) {
	var read runsRead
	now, err := tx.ReadAll(read.queries(locking, Distinct(ids))...)
	return read.done(tx, now), err
}

// Distinct returns the ids of runs in order, each once.
func Distinct(ids []job.ExecutionID) [][16]byte {
	list := listed(ids)
	slices.SortFunc(list, func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(list)
}

// runsRead is what decisions about runs are made from, as it is read.
type runsRead struct {
	views []engine.RunView
	at    map[job.ExecutionID]int
}

// queries lock runs by a statement and read them, in this order.
func (x *runsRead) queries(locking string, runs [][16]byte) []Query {
	x.at = make(map[job.ExecutionID]int, len(runs))
	return []Query{
		{SQL: locking, Runs: runs, Row: func(r Row) error {
			run, err := scanRun(r)
			x.at[run.ID] = len(x.views)
			x.views = append(x.views, engine.RunView{Run: run})
			return err
		}},
		{SQL: marksSQL, Runs: runs, Args: []any{engine.MarksAtOnce}, Row: func(r Row) error {
			run, m, err := scanMark(r)
			if i, ok := x.at[run]; ok {
				x.views[i].Marks = append(x.views[i].Marks, m)
			}
			return err
		}},
		{SQL: waitsSQL, Runs: runs, Row: func(r Row) error {
			w, err := scanWait(r)
			if i, ok := x.at[w.Run]; ok {
				x.views[i].Waits = append(x.views[i].Waits, w)
			}
			return err
		}},
	}
}

func (x *runsRead) done(tx RunTx, now time.Time) []engine.RunView {
	for i := range x.views {
		x.views[i].Now, x.views[i].Reader = now, reader{tx}
	}
	return x.views
}
