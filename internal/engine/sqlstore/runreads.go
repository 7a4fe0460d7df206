package sqlstore

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	findRunSQL = `
		SELECT ` + runColumns + ` FROM runs r WHERE r.tenant = $2 AND r.id = $1
		UNION ALL SELECT ` + runColumns + ` FROM runs r WHERE r.tenant = $2 AND r.execution = $1 AND r.id <> $1
		UNION ALL SELECT ` + runColumns + ` FROM run_attempts a JOIN runs r ON r.id = a.run WHERE a.execution = $1 AND a.execution <> r.id AND r.tenant = $2`

	// A member that its run takes for live may have ended already; then its mark says how.
	memberColumns = `m.run, m.execution, m.place, m.attempt, m.created_at, coalesce(m.started_at, k.started_at, v.started_at), coalesce(m.finished_at, k.finished_at),
		m.status, coalesce(k.status, 0), v.id IS NOT NULL, coalesce(v.lease, 0), coalesce(v.tries, 0), coalesce(v.hold, 0), v.cancel_at IS NOT NULL`
	// PostgreSQL looks each one up: the tables may have been empty when it planned.
	memberTables = ` FROM run_members m
		/*postgres: LEFT JOIN LATERAL (SELECT status, started_at, finished_at FROM run_marks WHERE execution = m.execution AND place = m.place OFFSET 0) k ON true
		LEFT JOIN LATERAL (SELECT id, lease, tries, hold, started_at, cancel_at FROM live WHERE id = m.execution OFFSET 0) v ON true*/
		/*sqlite: LEFT JOIN run_marks k ON k.execution = m.execution AND k.place = m.place LEFT JOIN live v ON v.id = m.execution*/`
	membersSQL = `SELECT ` + memberColumns + memberTables + `
		WHERE m.run = $1 AND m.tenant = $2 AND m.place >= $3 AND m.place < $4
			AND NOT EXISTS (SELECT 1 FROM run_members l WHERE l.run = m.run AND l.place = m.place AND l.attempt > m.attempt /*postgres: OFFSET 0*/)
		ORDER BY m.place LIMIT $5`
	nodeMembersSQL = `SELECT ` + memberColumns + memberTables + `
		WHERE m.run = $1 AND m.tenant = $2 AND m.place ` + anyPlace + `
			AND NOT EXISTS (SELECT 1 FROM run_members l WHERE l.run = m.run AND l.place = m.place AND l.attempt > m.attempt /*postgres: OFFSET 0*/)
		ORDER BY m.place`
	memberSQL = `SELECT ` + memberColumns + memberTables + ` WHERE m.execution = $1 AND m.tenant = $2`

	// What a run keeps goes before what its executions left behind: a person may have marked the node.
	nodeResults = `
		SELECT place, result, ending FROM run_results WHERE run = $1 AND tenant = $2 AND place >= $3 AND place < $4
		UNION ALL SELECT m.place, e.result, NULL FROM run_members m JOIN executions e ON e.id = m.execution
		WHERE m.run = $1 AND m.tenant = $2 AND m.place >= $3 AND m.place < $4 AND e.finished_at >= $5 AND e.status = 10 AND e.tenant = $2
			AND NOT EXISTS (SELECT 1 FROM run_members l WHERE l.run = m.run AND l.place = m.place AND l.attempt > m.attempt)
			AND NOT EXISTS (SELECT 1 FROM run_results r WHERE r.run = m.run AND r.place = m.place)`
	resultSizeSQL  = `SELECT coalesce(sum(length(result)), 0) FROM (` + nodeResults + `) r`
	nodeResultsSQL = nodeResults + ` ORDER BY place`

	// An execution of the run's current attempt may have ended before the run knows it. What else the run keeps is newer than executions of
	// earlier attempts: it failed before it started.
	runErrorsSQL = `
		SELECT place, ending, 1 AS rank FROM run_results WHERE run = $1 AND tenant = $2 AND ending IS NOT NULL AND place ` + anyPlace + `
		UNION ALL SELECT m.place, e.ending, CASE WHEN m.attempt = $4 THEN 0 ELSE 2 END FROM run_members m JOIN executions e ON e.id = m.execution
		WHERE m.run = $1 AND m.tenant = $2 AND e.finished_at >= $5 AND e.tenant = $2 AND e.ending IS NOT NULL AND m.place ` + anyPlace + `
			AND NOT EXISTS (SELECT 1 FROM run_members l WHERE l.run = m.run AND l.place = m.place AND l.attempt > m.attempt)
		ORDER BY place, rank`
	// anyPlace holds for places that are in the list $3.
	anyPlace = `/*postgres: = ANY ($3::int8[])*//*sqlite: IN (SELECT value FROM json_each($3))*/`

	newApprovalsSQL = "SELECT " + slimColumns + ` FROM run_waits
		WHERE tenant = $1 AND kind = 2 AND begun_at >= $2 AND (begun_at, run, node) > ($2, $3, $4) ORDER BY begun_at, run, node LIMIT $5`
	approvalsSQL = `
		SELECT w.run, w.tenant, w.node, w.kind, w.begun_at, w.wake_at, w.until_at, w.event, w.match, w.asks, w.voters, r.workflow, r.version, coalesce(length(w.schema), 0)
		FROM run_waits w JOIN runs r ON r.id = w.run WHERE w.tenant = $1 AND w.kind = 2 ORDER BY w.begun_at, w.run LIMIT $2`
	schemaSQL    = "SELECT schema FROM run_waits WHERE run = $1 AND node = $2 AND kind = 2"
	oldMarksSQL  = "SELECT DISTINCT run FROM (SELECT run FROM run_marks WHERE finished_at <= $1 ORDER BY finished_at LIMIT $2) m"
	askedRunsSQL = "SELECT DISTINCT run FROM (SELECT run FROM run_marks WHERE place < 0 LIMIT $1) m"
	dueWaitsSQL  = "SELECT DISTINCT run FROM (SELECT run FROM run_waits WHERE wake_at <= $1 ORDER BY wake_at LIMIT $2) w"
	nextWaitSQL  = "SELECT wake_at FROM run_waits WHERE wake_at > $1 ORDER BY wake_at LIMIT 1"
)

func scanRun(r Row) (out engine.WorkflowRun, err error) {
	var ending []byte
	var token int64
	err = r.Scan((*[16]byte)(&out.ID), (*[16]byte)(&out.Execution), &token, (*string)(&out.Tenant), (*[16]byte)(&out.Workflow), &out.Version, &out.Attempt, &out.Status,
		&out.State, &out.Input, &out.Output, &ending, &out.ScheduledAt, &out.BegunAt, &out.EndedAt, &out.Seq)
	if err != nil {
		return out, err
	}
	out.Token, out.Input, out.Output = job.Token(token), orNil(out.Input), orNil(out.Output)
	out.Error, _, err = engine.DecodeEnd(orNil(ending))
	return out, err
}

// orNil makes nil of empty bytes.
func orNil(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

func scanMark(r Row) (run job.ExecutionID, m engine.RunMark, err error) {
	var place int64
	var status int
	var ending []byte
	if err := r.Scan((*[16]byte)(&run), (*[16]byte)(&m.Execution), &place, &status, &m.StartedAt, &m.FinishedAt, &m.Result, &ending); err != nil {
		return run, m, err
	}
	m.Place, m.Status, m.Result = engine.NodePlace(place), job.Status(status), orNil(m.Result)
	m.Error, _, err = engine.DecodeEnd(orNil(ending))
	return run, m, err
}

func scanWait(r Row) (w engine.RunWait, err error) {
	var votes []byte
	w, err = scanSlimWait(longer{r, []any{&votes}})
	w.Votes = orNil(votes)
	return w, err
}

func scanSlimWait(r Row) (w engine.RunWait, err error) {
	var kind int
	err = r.Scan((*[16]byte)(&w.Run), (*string)(&w.Tenant), &w.Node, &kind, &w.BegunAt, &w.WakeAt, &w.Until, &w.Event, &w.Match, &w.Asks, &w.Voters)
	w.Kind, w.Match, w.Asks, w.Voters = engine.WaitKind(kind), orNil(w.Match), orNil(w.Asks), orNil(w.Voters)
	return w, err
}

// approval is an approval whose schema is not read yet.
type approval struct {
	engine.OpenApproval
	schema int // its length
}

func scanApproval(r Row) (a approval, err error) {
	a.RunWait, err = scanSlimWait(longer{r, []any{(*[16]byte)(&a.Workflow), &a.Version, &a.schema}})
	return a, err
}

// longer is a row of which another scans the first columns.
type longer struct {
	Row
	rest []any
}

func (l longer) Scan(into ...any) error { return l.Row.Scan(append(into, l.rest...)...) }

func scanResult(r Row) (out engine.RunResult, err error) {
	var place int64
	var ending []byte
	if err := r.Scan(&place, &out.Result, &ending); err != nil {
		return out, err
	}
	out.Place, out.Result = engine.NodePlace(place), orNil(out.Result)
	out.Error, _, err = engine.DecodeEnd(orNil(ending))
	return out, err
}

func scanError(r Row) (out engine.RunResult, err error) {
	var place int64
	var rank int
	var ending []byte
	if err := r.Scan(&place, &ending, &rank); err != nil {
		return out, err
	}
	out.Place = engine.NodePlace(place)
	out.Error, _, err = engine.DecodeEnd(orNil(ending))
	return out, err
}

func scanEvent(r Row) (e engine.RunEvent, err error) {
	err = r.Scan(&e.ID, (*string)(&e.Tenant), &e.Name, &e.Match, &e.Payload, &e.At)
	e.Match, e.Payload = orNil(e.Match), orNil(e.Payload)
	return e, err
}

func scanMember(r Row) (m engine.Member, err error) {
	var place, lease int64
	var status, marked, tries, hold int
	var live, asked bool
	err = r.Scan((*[16]byte)(&m.Run), (*[16]byte)(&m.Execution), &place, &m.Attempt, &m.CreatedAt, &m.StartedAt, &m.FinishedAt, &status, &marked, &live, &lease, &tries, &hold, &asked)
	m.Place, m.Status = engine.NodePlace(place), job.Status(max(status, marked))
	if !m.Status.Final() {
		m.Status = liveStatus(lease > 0, asked, tries, hold)
		if !live {
			m.Status = job.Pending // it ends just now
		}
	}
	return m, err
}

// liveStatus says how an execution stands that has not ended.
func liveStatus(leased, asked bool, tries, hold int) job.Status {
	switch {
	case leased && asked:
		return job.Cancelling
	case leased:
		return job.Running
	case hold != 0:
		return job.Waiting
	case tries > 0:
		return job.Retrying
	}
	return job.Pending
}

func findRun(tx Tx, t tenant.ID, id job.ExecutionID) (engine.WorkflowRun, error) {
	return one(tx, scanRun, findRunSQL, [16]byte(id), string(t))
}

// WorkflowRun finds a run by the id of any of its attempts.
func (s Runs) WorkflowRun(ctx context.Context, t tenant.ID, id job.ExecutionID) (out engine.WorkflowRun, err error) {
	return readOne(ctx, s.db, "find a run", scanRun, findRunSQL, [16]byte(id), string(t))
}

// Members lists executions of nodes in the order of their places.
func (s Runs) Members(ctx context.Context, t tenant.ID, run job.ExecutionID, from, until engine.NodePlace, limit int) ([]engine.Member, error) {
	return readAll(ctx, s.db, "list nodes", scanMember, membersSQL, [16]byte(run), string(t), int64(from), int64(until), max(limit, 0))
}

// NodeMembers lists the latest executions of nodes that are no maps.
func (s Runs) NodeMembers(ctx context.Context, t tenant.ID, run job.ExecutionID, nodes []int) ([]engine.Member, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	return readAll(ctx, s.db, "list nodes", scanMember, nodeMembersSQL, [16]byte(run), string(t), placesOf(nodes))
}

// placesOf lists the places of nodes that are no maps.
func placesOf(nodes []int) []int64 {
	out := make([]int64, len(nodes))
	for i, n := range nodes {
		out[i] = int64(engine.PlaceOf(n, -1))
	}
	return out
}

// MemberOf finds the member that an execution is.
func (s Runs) MemberOf(ctx context.Context, t tenant.ID, id job.ExecutionID) (engine.Member, error) {
	return readOne(ctx, s.db, "find the run of an execution", scanMember, memberSQL, [16]byte(id), string(t))
}

const answeredSQL = "SELECT hash, answer FROM idempotency WHERE tenant = $1 AND key = $2 AND expires_at > $3"

// Answered finds the answer of an earlier request with an idempotency key.
func (s Runs) Answered(ctx context.Context, t tenant.ID, i engine.Idempotency) (out engine.Created, err error) {
	if i.Key == "" {
		return out, nil
	}
	err = s.db.Read(ctx, "find the answer of a request", func(tx Tx) error {
		out = engine.Created{}
		now, err := tx.Now()
		if err != nil {
			return err
		}
		return tx.Query(func(r Row) error {
			var hash, answer []byte
			if err := r.Scan(&hash, &answer); err != nil {
				return err
			}
			if out.Reused = !bytes.Equal(hash, i.Hash[:]); !out.Reused {
				out.Replay = answer
			}
			return nil
		}, answeredSQL, string(t), i.Key, now)
	})
	if err != nil {
		return engine.Created{}, err
	}
	return out, nil
}

const (
	answerSQL = "UPDATE idempotency SET answer = $4 WHERE tenant = $1 AND key = $2 AND hash = $3 AND answer = $5"
	storedSQL = "SELECT answer FROM idempotency WHERE tenant = $1 AND key = $2 AND hash = $3"
)

// Answer replaces the draft of an answer.
func (s Runs) Answer(ctx context.Context, t tenant.ID, i engine.Idempotency, draft []byte) (out []byte, err error) {
	err = s.db.Write(ctx, "answer a request", func(tx Tx) (err error) {
		out, err = answer(tx, t, i, draft)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// answer replaces the draft of an answer, and returns the answer that counts. If the key is not known, that is the new one.
func answer(tx Tx, t tenant.ID, i engine.Idempotency, draft []byte) ([]byte, error) {
	if n, err := tx.Exec(answerSQL, string(t), i.Key, i.Hash[:], i.Answer, draft); err != nil || n > 0 {
		return i.Answer, err
	}
	stored, err := all(tx, func(r Row) (b []byte, err error) { return b, r.Scan(&b) }, storedSQL, string(t), i.Key, i.Hash[:])
	if err != nil || len(stored) > 0 {
		return append(stored, i.Answer)[0], err
	}
	_, _, err = tx.Claim(t, &i)
	return i.Answer, err
}

// RunResults lists the results that a run keeps.
func (s Runs) RunResults(ctx context.Context, t tenant.ID, run job.ExecutionID, from, until engine.NodePlace) ([]engine.RunResult, error) {
	return readAll(ctx, s.db, "list results", scanResult, "SELECT place, result, ending FROM run_results WHERE run = $1 AND place >= $2 AND place < $3 AND tenant = $4 ORDER BY place",
		[16]byte(run), int64(from), int64(until), string(t))
}

// NodeSpans lists when maps and waits of a run began and ended.
func (s Runs) NodeSpans(ctx context.Context, t tenant.ID, run job.ExecutionID) ([]engine.NodeSpan, error) {
	return readAll(ctx, s.db, "list the times of nodes", func(r Row) (x engine.NodeSpan, err error) {
		var place int64
		err = r.Scan(&place, &x.StartedAt, &x.FinishedAt)
		x.Node = engine.NodePlace(place).Node()
		return x, err
	}, spansSQL, [16]byte(run), string(t))
}

// NodeResults lists results, those that the run keeps and those of executions.
func (s Runs) NodeResults(ctx context.Context, q engine.ResultQuery, most int64) (rs []engine.RunResult, size int64, err error) {
	args := []any{[16]byte(q.Run), string(q.Tenant), int64(q.From), int64(q.Until), q.Since}
	size, err = readOne(ctx, s.db, "measure results", func(r Row) (n int64, err error) { return n, r.Scan(&n) }, resultSizeSQL, args...)
	if err != nil || size > most {
		return nil, size, err
	}
	rs, err = readAll(ctx, s.db, "list results of nodes", scanResult, nodeResultsSQL, args...)
	return rs, size, err
}

// RunErrors lists the errors at a run's places.
func (s Runs) RunErrors(ctx context.Context, q engine.ErrorQuery) (out []engine.RunResult, err error) {
	if len(q.Places) == 0 {
		return nil, nil
	}
	places := make([]int64, len(q.Places))
	for i, p := range q.Places {
		places[i] = int64(p)
	}
	all, err := readAll(ctx, s.db, "list errors of nodes", scanError, runErrorsSQL, [16]byte(q.Run), string(q.Tenant), places, q.Attempt, q.Since)
	for _, r := range all {
		if r.Error != nil && (len(out) == 0 || out[len(out)-1].Place != r.Place) {
			out = append(out, r)
		}
	}
	return out, err
}

// RunWaits lists what a run waits for.
func (s Runs) RunWaits(ctx context.Context, t tenant.ID, run job.ExecutionID) ([]engine.RunWait, error) {
	return readAll(ctx, s.db, "list waits", scanWait, "SELECT "+waitColumns+" FROM run_waits WHERE run = $1 AND tenant = $2 ORDER BY node, kind", [16]byte(run), string(t))
}

// Approvals lists approvals that a tenant's runs wait for.
func (s Runs) Approvals(ctx context.Context, t tenant.ID, limit int) (out []engine.OpenApproval, err error) {
	err = s.db.Read(ctx, "list approvals", func(tx Tx) error {
		found, err := all(tx, scanApproval, approvalsSQL, string(t), max(limit, 0))
		if err == nil {
			out, err = withSchemas(tx, found)
		}
		return err
	})
	return out, err
}

// withSchemas reads the schemas of approvals, each only once, until they fill a page.
func withSchemas(tx Tx, found []approval) (out []engine.OpenApproval, err error) {
	type asked struct {
		workflow      job.ID
		version, node int
	}
	schemas, bytes := map[asked][]byte{}, 0
	for _, a := range found {
		if bytes >= engine.PageBytes {
			break
		}
		of := asked{a.Workflow, a.Version, a.Node}
		if schemas[of] == nil && a.schema > 0 {
			if schemas[of], err = value[[]byte](tx, schemaSQL, [16]byte(a.Run), a.Node); err != nil {
				return nil, err
			}
			bytes += len(schemas[of])
		}
		a.Schema = schemas[of]
		out = append(out, a.OpenApproval)
	}
	return out, nil
}

// NewApprovals lists approvals that came after one.
func (s Runs) NewApprovals(ctx context.Context, t tenant.ID, after engine.RunWait, limit int) ([]engine.RunWait, error) {
	return readAll(ctx, s.db, "list new approvals", scanSlimWait, newApprovalsSQL, string(t), after.BegunAt, [16]byte(after.Run), after.Node, max(limit, 0))
}

func scanID(r Row) (id job.ExecutionID, err error) { return id, r.Scan((*[16]byte)(&id)) }

// WakeRuns lists runs that somebody must look after, after it has gone on with events whose senders have stopped.
func (s Runs) WakeRuns(ctx context.Context, limit int) (out []job.ExecutionID, next time.Time, err error) {
	var left []waking
	err = s.db.Ask(ctx, "find runs to look after", func(tx Tx) error {
		now, err := tx.Now()
		if err != nil {
			return err
		}
		if left, err = all(tx, scanWaking, leftEventsSQL, now.Add(-time.Second), eventsAtOnce); err != nil {
			return err
		}
		marked, err := all(tx, scanID, oldMarksSQL, now.Add(-time.Second), limit)
		if err != nil {
			return err
		}
		asked, err := all(tx, scanID, askedRunsSQL, limit)
		if err != nil {
			return err
		}
		due, err := all(tx, scanID, dueWaitsSQL, now, limit)
		if err != nil {
			return err
		}
		out = slices.Concat(marked, asked, due)
		later, err := all(tx, func(r Row) (at time.Time, err error) { return at, r.Scan(&at) }, nextWaitSQL, now)
		if len(later) > 0 {
			next = later[0]
		}
		return err
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	woken, err := s.wakeLeft(ctx, left)
	return append(out, woken[:min(len(woken), limit)]...), next, err
}
