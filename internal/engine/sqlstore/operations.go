package sqlstore

import (
	"context"
	"errors"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	operationColumns = "id, tenant, kind, state, spec, rate, total, done, passed, error, by_whom, created_at, updated_at, finished_at, version"
	operationSQL     = "SELECT " + operationColumns + " FROM operations WHERE tenant = $1 AND id = $2"
	addOperationSQL  = "INSERT INTO operations (" + operationColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
		ON CONFLICT (id) DO NOTHING`
	// Taking an operation changes its version, so that a slow former holder can no longer save.
	takeOperationSQL = `
		UPDATE operations SET taken_until = $1, version = version + 1
		WHERE id = (
			SELECT id FROM operations /*sqlite: INDEXED BY operations_running*/ WHERE finished_at IS NULL AND (taken_until IS NULL OR taken_until <= $2)
			ORDER BY updated_at LIMIT 1 /*postgres: FOR UPDATE SKIP LOCKED*/
		)
		RETURNING ` + operationColumns
	saveOperationSQL = `
		UPDATE operations SET state = $3, spec = $4, rate = $5, total = $6, done = $7, passed = $8, error = $9, updated_at = $10, finished_at = $11,
			taken_until = $12, version = version + 1
		WHERE id = $1 AND version = $2
		RETURNING ` + operationColumns
	cancelOperationSQL = `
		UPDATE operations SET state = 'CANCELLED', finished_at = $3, updated_at = $3, taken_until = NULL, version = version + 1
		WHERE tenant = $1 AND id = $2 AND finished_at IS NULL`
)

func scanOperation(r Row) (o job.Operation, err error) {
	err = r.Scan((*[16]byte)(&o.ID), (*string)(&o.Tenant), (*string)(&o.Kind), (*string)(&o.State), &o.Spec, &o.Rate, &o.Total, &o.Done, &o.Passed, &o.Error, &o.By,
		&o.CreatedAt, &o.UpdatedAt, &o.FinishedAt, &o.Version)
	return o, err
}

// AddOperation stores an operation; the same one again is not stored again.
func (s operations) AddOperation(ctx context.Context, o job.Operation, i engine.Idempotency, e *audit.Entry) (engine.Created, error) {
	return create(ctx, s.db, "add an operation", e, o.Tenant, i, func(tx Tx) error { return AddOperation(tx, &o) })
}

// AddOperation stores an operation in a transaction that does more.
func AddOperation(tx Tx, o *job.Operation) error {
	_, err := tx.Exec(addOperationSQL, [16]byte(o.ID), string(o.Tenant), string(o.Kind), string(o.State), o.Spec, o.Rate, o.Total, o.Done, o.Passed,
		o.Error, o.By, o.CreatedAt, o.UpdatedAt, o.FinishedAt, o.Version)
	return err
}

// Operation finds one operation.
func (s operations) Operation(ctx context.Context, t tenant.ID, id job.OperationID) (job.Operation, error) {
	return readOne(ctx, s.db, "find an operation", scanOperation, operationSQL, string(t), [16]byte(id))
}

// FindOperations lists operations, newest first.
func (s operations) FindOperations(ctx context.Context, t tenant.ID, p engine.Page) (engine.OperationPage, error) {
	l := listing[job.Operation]{
		table: "operations /*sqlite: INDEXED BY operations_tenant*/", columns: operationColumns, key: []string{"created_at", "id"}, at: "created_at", scan: scanOperation,
		keys: func(p engine.Place) []any { return []any{p.At, [16]byte(p.ID)} },
		place: func(r Row) (p engine.Place, err error) {
			err = r.Scan(&p.At, (*[16]byte)(&p.ID))
			return p, err
		},
	}
	l.where = "tenant = " + l.params.add(string(t))
	l.indexed = len(l.params)
	var out engine.Listed[job.Operation]
	err := s.db.List(ctx, "list operations", func(tx Tx) (err error) {
		l.tx = tx
		out, err = engine.List(p, l, func(o *job.Operation) engine.Place { return engine.Place{At: o.CreatedAt, ID: job.ExecutionID(o.ID)} })
		return err
	})
	return engine.OperationPage{Operations: out.Rows, Next: out.Next, Total: out.Total}, err
}

// TakeOperation hands out, for ttl, the running operation without a holder that was saved longest ago.
func (s operations) TakeOperation(ctx context.Context, ttl time.Duration) (out job.Operation, err error) {
	err = s.db.Write(ctx, "take an operation", func(tx Tx) error {
		now, err := tx.Now()
		if err != nil {
			return err
		}
		out, err = one(tx, scanOperation, takeOperationSQL, now.Add(ttl), now)
		return err
	})
	return out, err
}

// SaveOperation stores the progress of an operation under its version, and returns it with the next one.
func (s operations) SaveOperation(ctx context.Context, o job.Operation, ttl time.Duration) (out job.Operation, err error) {
	err = s.db.Write(ctx, "save an operation", func(tx Tx) error {
		var until time.Time
		if ttl > 0 {
			now, err := tx.Now()
			if err != nil {
				return err
			}
			until = now.Add(ttl)
		}
		out, err = one(tx, scanOperation, saveOperationSQL, [16]byte(o.ID), o.Version, string(o.State), o.Spec, o.Rate, o.Total, o.Done, o.Passed, o.Error,
			o.UpdatedAt, o.FinishedAt, until)
		if errors.Is(err, engine.ErrNotFound) {
			return engine.ErrConflict
		}
		return err
	})
	return out, err
}

// CancelOperation ends an operation that runs as CANCELLED; a cancelled one is returned again.
func (s operations) CancelOperation(ctx context.Context, t tenant.ID, id job.OperationID, e *audit.Entry) (out job.Operation, err error) {
	err = write(ctx, s.db, "cancel an operation", e, func(tx Tx) error {
		now, err := tx.Now()
		if err != nil {
			return err
		}
		if _, err := tx.Exec(cancelOperationSQL, string(t), [16]byte(id), now); err != nil {
			return err
		}
		out, err = one(tx, scanOperation, operationSQL, string(t), [16]byte(id))
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
