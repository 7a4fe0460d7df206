package sqlite

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	// operationColumns are what readOperation reads.
	operationColumns = "id, tenant, kind, state, spec, rate, total, done, passed, error, by_whom, created_at, updated_at, finished_at, version"

	addOperationSQL = "INSERT INTO operations (" + operationColumns + `)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`
	operationSQL = "SELECT " + operationColumns + " FROM operations WHERE tenant = ? AND id = ?"
	// takeSQL is run by the one connection that writes, so what the inner statement finds is free.
	takeSQL = `
		UPDATE operations SET taken_until = ?, version = version + 1 WHERE id =
			(SELECT id FROM operations INDEXED BY operations_running WHERE finished_at IS NULL AND (taken_until IS NULL OR taken_until <= ?)
			ORDER BY updated_at LIMIT 1)
		RETURNING ` + operationColumns
	saveSQL = `
		UPDATE operations SET state = ?, spec = ?, total = ?, done = ?, passed = ?, error = ?, updated_at = ?, finished_at = ?, taken_until = ?,
			version = version + 1
		WHERE tenant = ? AND id = ? AND version = ?`
	stopSQL = `
		UPDATE operations SET state = ?, updated_at = ?, finished_at = ?, taken_until = NULL, version = version + 1
		WHERE tenant = ? AND id = ? AND finished_at IS NULL`
)

func readOperation(r *row) job.Operation {
	o := job.Operation{ID: r.id(), Tenant: tenant.ID(r.text()), Kind: job.OperationKind(r.text()), State: job.OperationState(r.text()), Spec: r.bytes()}
	o.Rate, o.Total, o.Done, o.Passed, o.Error, o.By = r.float(), r.int64(), r.int64(), r.int64(), r.text(), r.text()
	o.CreatedAt, o.UpdatedAt, o.FinishedAt, o.Version = r.at(), r.at(), r.at(), r.int()
	return o
}

// spec is what an operation is over as it is stored: never NULL.
func spec(o *job.Operation) []byte {
	if o.Spec == nil {
		return []byte{}
	}
	return o.Spec
}

// AddOperation stores an operation. One that has been here before is not stored again.
func (s *Store) AddOperation(ctx context.Context, o job.Operation, i engine.Idempotency) (engine.Created, error) {
	var out engine.Created
	err := s.write(ctx, "add an operation", func(c *conn, now int64) error {
		var known bool
		var err error
		if out, known, err = recall(c, o.Tenant, &i, now); err != nil || known {
			engine.Unchanged(ctx)
			return err
		}
		if err := insertOperation(c, &o); err != nil {
			return err
		}
		return remember(c, o.Tenant, &i)
	})
	if err != nil {
		return engine.Created{}, err
	}
	return out, nil
}

func insertOperation(c *conn, o *job.Operation) error {
	_, err := c.prepare(addOperationSQL).id(o.ID).text(string(o.Tenant)).text(string(o.Kind)).text(string(o.State)).bytes(spec(o)).
		float(o.Rate).int(o.Total).int(o.Done).int(o.Passed).text(o.Error).text(o.By).
		at(o.CreatedAt).at(o.UpdatedAt).at(o.FinishedAt).int(int64(o.Version)).exec()
	return err
}

// Operation finds one operation.
func (s *Store) Operation(ctx context.Context, t tenant.ID, id job.OperationID) (job.Operation, error) {
	var out job.Operation
	err := s.look(ctx, "find an operation", func(c *conn) (err error) {
		out, err = findOperation(c, t, id)
		return err
	})
	return out, err
}

func findOperation(c *conn, t tenant.ID, id job.OperationID) (out job.Operation, err error) {
	return oneOperation(c.prepare(operationSQL).text(string(t)).id(id))
}

// oneOperation runs a statement that answers with one operation, or none.
func oneOperation(q *stmt) (out job.Operation, err error) {
	found, err := q.first(func(r *row) error {
		out = readOperation(r)
		return nil
	})
	if err == nil && !found {
		err = engine.ErrNotFound
	}
	return out, err
}

// FindOperations lists operations, the newest first.
func (s *Store) FindOperations(ctx context.Context, t tenant.ID, p engine.Page) (engine.OperationPage, error) {
	const from, newest = " FROM operations INDEXED BY operations_tenant WHERE ", " ORDER BY created_at DESC, id DESC"
	w := &where{}
	w.and("tenant = ?", text(string(t)))
	all := *w
	if p.Cursor != "" {
		at, after, err := engine.DecodeCursor(p.Cursor)
		if err != nil {
			return engine.OperationPage{}, err
		}
		w.and("(created_at, id) < (?, ?)", number(at.UnixMicro()), id(after))
	}
	limit := max(p.Limit, 1)
	var out engine.OperationPage
	err := s.look(ctx, "list operations", func(c *conn) error {
		q := c.prepare("SELECT " + operationColumns + from + w.String() + newest + " LIMIT ?")
		err := w.bind(q).int(int64(limit) + 1).each(func(r *row) error {
			out.Operations = append(out.Operations, readOperation(r))
			return nil
		})
		if err != nil {
			return err
		}
		if len(out.Operations) > limit {
			out.Operations = out.Operations[:limit]
			last := &out.Operations[limit-1]
			out.Next = engine.EncodeCursor(last.CreatedAt, last.ID)
		}
		list := "SELECT created_at" + from + all.String()
		out.Total, err = tally(all.bind(c.prepare(list+newest)), all.bind(c.prepare(list+" ORDER BY created_at LIMIT 1")))
		return err
	})
	if err != nil {
		return engine.OperationPage{}, err
	}
	return out, nil
}

// TakeOperation hands out, for ttl, the running operation that nobody has and that was saved the longest ago. It has a new
// version then, so that whoever had it before saves nothing more.
func (s *Store) TakeOperation(ctx context.Context, ttl time.Duration) (job.Operation, error) {
	var out job.Operation
	err := s.write(ctx, "take an operation", func(c *conn, now int64) (err error) {
		out, err = oneOperation(c.prepare(takeSQL).int(now + ttl.Microseconds()).int(now))
		return err
	})
	if err != nil {
		return job.Operation{}, err
	}
	return out, nil
}

// SaveOperation keeps how far an operation has come under the version it has, and answers with the next one.
func (s *Store) SaveOperation(ctx context.Context, o job.Operation, ttl time.Duration) (job.Operation, error) {
	err := s.write(ctx, "save an operation", func(c *conn, now int64) error {
		q := c.prepare(saveSQL).text(string(o.State)).bytes(spec(&o)).int(o.Total).int(o.Done).int(o.Passed).text(o.Error).at(o.UpdatedAt).at(o.FinishedAt)
		if ttl == 0 {
			q = q.null()
		} else {
			q = q.int(now + ttl.Microseconds())
		}
		n, err := q.text(string(o.Tenant)).id(o.ID).int(int64(o.Version)).exec()
		if err == nil && n == 0 {
			return engine.ErrConflict
		}
		return err
	})
	if err != nil {
		return job.Operation{}, err
	}
	o.Version++
	return o, nil
}

// CancelOperation ends an operation that runs as CANCELLED; one that is cancelled answers again.
func (s *Store) CancelOperation(ctx context.Context, t tenant.ID, id job.OperationID) (job.Operation, error) {
	var out job.Operation
	err := s.write(ctx, "cancel an operation", func(c *conn, now int64) error {
		_, err := c.prepare(stopSQL).text(string(job.OpCancelled)).int(now).int(now).text(string(t)).id(id).exec()
		if err != nil {
			return err
		}
		out, err = findOperation(c, t, id)
		if err == nil && out.State != job.OpCancelled {
			return engine.ErrConflict
		}
		return err
	})
	if err != nil {
		return job.Operation{}, err
	}
	return out, nil
}
