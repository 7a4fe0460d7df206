package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	edgeColumns = "child, parent, token, token_at"
	edgesSQL    = `
		/*postgres: SELECT e.* FROM unnest($2::uuid[]) c(id) CROSS JOIN LATERAL (SELECT ` + edgeColumns + ` FROM job_edges WHERE tenant = $1 AND child = c.id OFFSET 0) e ORDER BY 1, 2*/
		/*sqlite: SELECT ` + edgeColumns + ` FROM job_edges WHERE tenant = $1 AND child IN (SELECT unhex(value) FROM json_each($2)) ORDER BY child, parent*/`
	edgesToSQL      = "SELECT " + edgeColumns + " FROM job_edges WHERE tenant = $1 AND child = $2"
	dependantsSQL   = "SELECT child FROM job_edges WHERE tenant = $1 AND parent = $2 LIMIT $3" // no ORDER BY child, for which the key would be walked
	dependantSQL    = "SELECT id, key, name FROM jobs WHERE tenant = $1 AND id = $2 AND state <> 4"
	addEdgeSQL      = "INSERT INTO job_edges (tenant, child, parent) VALUES ($1, $2, $3) ON CONFLICT (tenant, child, parent) DO NOTHING"
	dropEdgeSQL     = "DELETE FROM job_edges WHERE tenant = $1 AND child = $2 AND parent = $3"
	dropEdgesSQL    = "DELETE FROM job_edges WHERE tenant = $1 AND child = $2"
	resetSQL        = "UPDATE job_edges SET token = NULL, token_at = NULL WHERE tenant = $1 AND child = $2 AND token IS NOT NULL"
	dropTokenMarks  = "DELETE FROM edge_marks WHERE child = $1 AND tenant = $2"
	lookAtChildSQL  = "INSERT INTO edge_marks (child, execution, tenant, parent, status, at) VALUES ($1, $1, $2, $1, 0, $3) ON CONFLICT (child, execution) DO NOTHING"
	freeDependent   = "UPDATE live SET hold = $3 WHERE job = $1 AND tenant = $2 AND hold = 2 AND lease <= 0"
	lockDependent   = "SELECT state FROM jobs WHERE tenant = $1 AND id = $2 /*postgres: FOR NO KEY UPDATE*/"
	waitingChildSQL = "SELECT id FROM live WHERE job = $1 AND tenant = $2 AND hold = 2 AND lease <= 0 AND due_at <= $3 ORDER BY scheduled_at LIMIT 1"
	takenKeySQL     = "SELECT 1 FROM live WHERE tenant = $1 AND unique_key = $2 AND unique_key IS NOT NULL"

	// aboveSQL lists edges to jobs from what they depend on and from workflows whose nodes they are, and the edges above those.
	aboveSQL = `
		WITH RECURSIVE above(below, above) AS (
			/*postgres: SELECT l.below, l.above FROM unnest($2::uuid[]) f(id) CROSS JOIN LATERAL (
				(SELECT child AS below, parent AS above FROM job_edges WHERE tenant = $1 AND child = f.id OFFSET 0)
				UNION ALL (SELECT job, workflow FROM workflow_uses WHERE tenant = $1 AND job = f.id OFFSET 0)) l*/
			/*sqlite: SELECT child, parent FROM job_edges WHERE tenant = $1 AND child IN (SELECT unhex(value) FROM json_each($2))
			UNION SELECT job, workflow FROM workflow_uses WHERE tenant = $1 AND job IN (SELECT unhex(value) FROM json_each($2))*/
			/*postgres: UNION SELECT l.below, l.above FROM above a CROSS JOIN LATERAL (
				(SELECT child AS below, parent AS above FROM job_edges WHERE tenant = $1 AND child = a.above OFFSET 0)
				UNION ALL (SELECT job, workflow FROM workflow_uses WHERE tenant = $1 AND job = a.above OFFSET 0)) l*/
			/*sqlite: UNION SELECT e.child, e.parent FROM above CROSS JOIN job_edges e WHERE e.tenant = $1 AND e.child = above.above
			UNION SELECT u.job, u.workflow FROM above CROSS JOIN workflow_uses u WHERE u.tenant = $1 AND u.job = above.above*/
		) SELECT below, above FROM above LIMIT $3`

	tokenMarksSQL = "SELECT execution, parent, status, at FROM edge_marks WHERE child = $1 AND tenant = $2 ORDER BY at, execution LIMIT $3"
	dropMarksSQL  = `
		DELETE FROM edge_marks /*postgres: k USING unnest($1::uuid[], $2::uuid[]) f(child, execution) WHERE k.child = f.child AND k.execution = f.execution*/
		/*sqlite: WHERE child = $1 AND execution = $2*/`
	putTokenSQL = `
		UPDATE job_edges SET token = $4, token_at = $5 WHERE tenant = $1 AND child = $2 AND parent = $3
			AND token /*postgres: IS NOT DISTINCT FROM $6::uuid*//*sqlite: IS $6*/`
	markedChildrenSQL = "SELECT tenant, child FROM edge_marks WHERE at <= $1 ORDER BY at LIMIT $2"
)

func scanEdge(r Row) (e engine.Edge, err error) {
	err = r.Scan((*[16]byte)(&e.Child), (*[16]byte)(&e.Parent), (*[16]byte)(&e.Token), &e.At)
	return e, err
}

// ChangeParents stores the edges to a job that are others than before, sees to it that no job depends on itself, and has the job looked
// at. It locks the tenant, so that two changes that make a circle only together do not come about.
func ChangeParents(tx Tx, j *job.Job, c engine.ParentsChange) error {
	if err := tx.LockTenant(j.Tenant); err != nil {
		return err
	}
	t, child := string(j.Tenant), [16]byte(j.ID)
	for _, id := range j.DependsOn {
		if _, err := one(tx, func(r Row) (id [16]byte, err error) { return id, r.Scan(&id) }, usableSQL, t, [16]byte(id)); err != nil {
			return fmt.Errorf("job %s, on which the job depends: %w", id, err)
		}
	}
	was, err := all(tx, scanEdge, edgesToSQL, t, child)
	if err != nil {
		return err
	}
	var drops, adds [][]any
	for _, e := range was {
		if !slices.Contains(j.DependsOn, e.Parent) {
			drops = append(drops, []any{t, child, [16]byte(e.Parent)})
		}
	}
	for _, id := range j.DependsOn {
		adds = append(adds, []any{t, child, [16]byte(id)})
	}
	if err := tx.ExecEach(dropEdgeSQL, drops); err != nil {
		return err
	}
	if err := tx.ExecEach(addEdgeSQL, adds); err != nil {
		return err
	}
	if c.Reset {
		if _, err := tx.Exec(resetSQL, t, child); err != nil {
			return err
		}
	}
	return noCircle(tx, j.Tenant, j.ID)
}

// noCircle returns engine.ErrConflict if a job would have itself run, or if more is above it than may be. The caller has locked the
// tenant.
func noCircle(tx Tx, t tenant.ID, of job.ID) error {
	edges, err := all(tx, scanArrow, aboveSQL, string(t), [][16]byte{of}, engine.MaxAbove+1)
	if err != nil {
		return err
	}
	if len(edges) > engine.MaxAbove {
		return fmt.Errorf("%w: more than %d edges lead to the job", engine.ErrConflict, engine.MaxAbove)
	}
	if slices.ContainsFunc(edges, func(e engine.Edge) bool { return e.Parent == of }) {
		return fmt.Errorf("%w: the job would depend on itself", engine.ErrConflict)
	}
	return nil
}

func scanArrow(r Row) (e engine.Edge, err error) {
	err = r.Scan((*[16]byte)(&e.Child), (*[16]byte)(&e.Parent))
	return e, err
}

// Above lists edges to jobs, and the edges above those.
func (s Runs) Above(ctx context.Context, t tenant.ID, of []job.ID, limit int) ([]engine.Edge, error) {
	ids := make([][16]byte, len(of))
	for i := range of {
		ids[i] = of[i]
	}
	return readAll(ctx, s.db, "list what a job follows from", scanArrow, aboveSQL, string(t), ids, limit)
}

// LookAtChild has a job that was changed looked at, if it depends on others. If it does not, nothing of it waits for them any more.
func LookAtChild(tx Tx, j *job.Job, c *engine.ParentsChange) error {
	if len(j.DependsOn) > 0 {
		now, err := tx.Now()
		if err != nil {
			return err
		}
		_, err = tx.Exec(lookAtChildSQL, [16]byte(j.ID), string(j.Tenant), now)
		return err
	}
	if c == nil {
		return nil
	}
	hold := 0
	if j.State == job.Paused {
		hold = 1
	}
	_, err := tx.Exec(freeDependent, [16]byte(j.ID), string(j.Tenant), hold)
	return err
}

// dropChild drops the edges to a job that is deleted.
func dropChild(tx Tx, t tenant.ID, of job.ID) error {
	_, err := tx.Exec(dropEdgesSQL, string(t), [16]byte(of))
	return err
}

// Dependencies lists the edges to jobs.
func (s Runs) Dependencies(ctx context.Context, t tenant.ID, of []job.ID) ([]engine.Edge, error) {
	ids := make([][16]byte, len(of))
	for i := range of {
		ids[i] = of[i]
	}
	return readAll(ctx, s.db, "list what a job depends on", scanEdge, edgesSQL, string(t), ids)
}

// Dependants lists jobs that depend on a job.
func (s Runs) Dependants(ctx context.Context, t tenant.ID, of job.ID, limit int) ([]job.ID, error) {
	out, err := readAll(ctx, s.db, "list what depends on a job", func(r Row) (id job.ID, err error) {
		return id, r.Scan((*[16]byte)(&id))
	}, dependantsSQL, string(t), [16]byte(of), limit)
	slices.SortFunc(out, func(a, b job.ID) int { return bytes.Compare(a[:], b[:]) })
	return out, err
}

// MarkedChildren lists children that have marks.
func (s Runs) MarkedChildren(ctx context.Context, age time.Duration, limit int) (out []engine.Child, err error) {
	err = s.db.Ask(ctx, "find jobs whose parents have ended", func(tx Tx) error {
		now, err := tx.Now()
		if err != nil {
			return err
		}
		out = nil
		return tx.Query(func(r Row) error {
			var c engine.Child
			err := r.Scan((*string)(&c.Tenant), (*[16]byte)(&c.Job))
			if !slices.Contains(out, c) {
				out = append(out, c)
			}
			return err
		}, markedChildrenSQL, now.Add(-age), limit)
	})
	return out, err
}

// FoldTokens takes the marks of a child and commits what they lead to.
func (s Runs) FoldTokens(ctx context.Context, c engine.Child, decide engine.FoldTokens) (out engine.TokensFolded, err error) {
	err = s.db.WriteRuns(ctx, "fold tokens", func(tx RunTx) error {
		out = engine.TokensFolded{}
		v, err := readChild(tx, c)
		if err != nil || len(v.Marks) == 0 {
			return err
		}
		if v.State == job.Deleted || len(v.Edges) == 0 {
			_, err := tx.Exec(dropTokenMarks, [16]byte(c.Job), string(c.Tenant))
			return err
		}
		next, err := decide(v)
		if err != nil {
			return err
		}
		out.More = len(v.Marks) == engine.MarksAtOnce
		return writeChild(tx, &v, &next, &out)
	})
	if err != nil {
		return engine.TokensFolded{}, err
	}
	return out, nil
}

// readChild locks a child, as an update of it does, and reads what is decided by.
func readChild(tx RunTx, c engine.Child) (v engine.TokenView, err error) {
	t, id := string(c.Tenant), [16]byte(c.Job)
	v = engine.TokenView{Child: c, Taken: func(unique string) (bool, error) {
		n, err := value[int](tx, takenKeySQL, t, unique)
		return n != 0, err
	}}
	state, err := one(tx, func(r Row) (n int, err error) { return n, r.Scan(&n) }, lockDependent, t, id)
	if errors.Is(err, engine.ErrNotFound) {
		state, err = int(job.Deleted), nil
	}
	if err != nil {
		return v, err
	}
	v.State = job.State(state)
	if v.Edges, err = all(tx, scanEdge, edgesToSQL, t, id); err != nil {
		return v, err
	}
	slices.SortFunc(v.Edges, func(a, b engine.Edge) int { return bytes.Compare(a.Parent[:], b.Parent[:]) })
	v.Marks, err = all(tx, func(r Row) (m engine.TokenMark, err error) {
		var status int
		err = r.Scan((*[16]byte)(&m.Execution), (*[16]byte)(&m.Parent), &status, &m.At)
		m.Status = job.Status(status)
		return m, err
	}, tokenMarksSQL, id, t, engine.MarksAtOnce)
	if err != nil || len(v.Marks) == 0 {
		return v, err
	}
	if v.Now, err = tx.Now(); err != nil {
		return v, err
	}
	waiting, err := value[[16]byte](tx, waitingChildSQL, id, t, v.Now)
	v.Waiting = waiting
	return v, err
}

// writeChild drops the marks, stores the tokens, and lets go or starts what fires. A mark or a token that is not as it was read is a
// conflict: someone else took it.
func writeChild(tx RunTx, v *engine.TokenView, next *engine.TokenChange, out *engine.TokensFolded) error {
	t, id := string(v.Tenant), [16]byte(v.Job)
	marks := Bulk{SQL: dropMarksSQL, Each: engine.ErrConflict}
	for _, m := range v.Marks {
		marks.Rows = append(marks.Rows, []any{id, [16]byte(m.Execution)})
	}
	var starts []Waiting
	for i := range next.Start {
		starts = append(starts, Waiting{v.Tenant, &next.Start[i]})
		out.Ready = append(out.Ready, next.Start[i].Ready())
	}
	if err := tx.WriteAll([]Bulk{marks}, starts); err != nil {
		return err
	}
	for _, e := range next.Tokens {
		was := OptionalID{}
		for _, b := range v.Edges {
			if b.Parent == e.Parent {
				was = OptionalID(b.Token)
			}
		}
		if err := changeOne(tx, engine.ErrConflict, putTokenSQL, t, id, [16]byte(e.Parent), OptionalID(e.Token), e.At, was); err != nil {
			return err
		}
	}
	if !next.Release.IsZero() {
		r, ok, err := tx.ReleaseExecution(v.Tenant, next.Release)
		if err == nil && !ok {
			err = engine.ErrConflict
		}
		if err != nil {
			return err
		}
		out.Ready = append(out.Ready, r)
	}
	if next.Again {
		_, err := tx.Exec(lookAtChildSQL, id, t, v.Now)
		return err
	}
	return nil
}
