package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	// operationColumns are what scanOperation reads.
	operationColumns = `id, tenant, kind, state, spec, rate, total, done, passed, error, by_whom, created_at, updated_at, finished_at, version`

	addOperationSQL = `
		INSERT INTO operations (` + operationColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
		ON CONFLICT (id) DO NOTHING`
	// To take one is a change of it: whoever had it before, and was too slow, saves nothing more.
	takeOperationSQL = `
		UPDATE operations SET taken_until = now() + $1, version = version + 1
		WHERE id = (
			SELECT id FROM operations WHERE finished_at IS NULL AND (taken_until IS NULL OR taken_until <= now())
			ORDER BY updated_at LIMIT 1 FOR UPDATE SKIP LOCKED
		)
		RETURNING ` + operationColumns
	saveOperationSQL = `
		UPDATE operations SET state = $3, spec = $4, rate = $5, total = $6, done = $7, passed = $8, error = $9, updated_at = $10, finished_at = $11,
			taken_until = CASE WHEN $12::interval > interval '0' THEN now() + $12 END, version = version + 1
		WHERE id = $1 AND version = $2
		RETURNING ` + operationColumns
	cancelOperationSQL = `
		UPDATE operations SET state = 'CANCELLED', finished_at = now(), updated_at = now(), taken_until = NULL, version = version + 1
		WHERE id = $2 AND tenant = $1 AND finished_at IS NULL`
	operationSQL = `SELECT ` + operationColumns + ` FROM operations WHERE id = $2 AND tenant = $1`
)

func scanOperation(r pgx.CollectableRow) (o job.Operation, err error) {
	err = r.Scan((*[16]byte)(&o.ID), (*string)(&o.Tenant), (*string)(&o.Kind), (*string)(&o.State), &o.Spec, &o.Rate, &o.Total, &o.Done, &o.Passed, &o.Error, &o.By,
		at(&o.CreatedAt), at(&o.UpdatedAt), at(&o.FinishedAt), &o.Version)
	return o, err
}

// AddOperation stores an operation; the same one again is not stored again.
func (s *Store) AddOperation(ctx context.Context, o job.Operation, i engine.Idempotency) (engine.Created, error) {
	var out engine.Created
	err := s.change(ctx, "add an operation", func(ctx context.Context, c writer) error {
		out = engine.Created{}
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			keys := batch{all: []engine.Creation{{Tenant: o.Tenant, Idempotency: i}}, chosen: []int{0}}
			known, err := keys.claimKeys(ctx, tx)
			if err != nil {
				return err
			}
			if prior, ok := known[scoped{o.Tenant, i.Key}]; ok {
				if out.Reused = prior.hash != i.Hash; !out.Reused {
					out.Replay = prior.answer
				}
				engine.Unchanged(ctx)
				return nil
			}
			return insertOperation(ctx, tx, &o)
		})
	})
	return out, err
}

func insertOperation(ctx context.Context, tx pgx.Tx, o *job.Operation) error {
	_, err := tx.Exec(ctx, addOperationSQL, [16]byte(o.ID), string(o.Tenant), string(o.Kind), string(o.State), notNil(o.Spec), o.Rate, o.Total, o.Done, o.Passed,
		plain(o.Error), plain(o.By), o.CreatedAt, o.UpdatedAt, orNever(o.FinishedAt), o.Version)
	return err
}

// Operation finds one operation.
func (s *Store) Operation(ctx context.Context, t tenant.ID, o job.OperationID) (job.Operation, error) {
	var out job.Operation
	err := s.look(ctx, "find an operation", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, operationSQL, string(t), [16]byte(o))
		var err error
		out, err = pgx.CollectExactlyOneRow(rows, scanOperation)
		return found(err)
	})
	return out, err
}

// FindOperations lists operations, the newest first.
func (s *Store) FindOperations(ctx context.Context, t tenant.ID, p engine.Page) (engine.OperationPage, error) {
	var ps params
	w := "tenant = " + ps.add(string(t))
	all, allParams := "FROM operations WHERE "+w, ps
	if p.Cursor != "" {
		instant, after, err := engine.DecodeCursor(p.Cursor)
		if err != nil {
			return engine.OperationPage{}, err
		}
		w += " AND (created_at, id) < (" + ps.add(instant) + ", " + ps.add(after) + ")"
	}
	limit := max(p.Limit, 1)
	page := fmt.Sprintf("SELECT %s FROM operations WHERE %s ORDER BY created_at DESC, id DESC LIMIT %d", operationColumns, w, limit+1)
	var out engine.OperationPage
	err := s.look(ctx, "list operations", func(ctx context.Context, c *pgxpool.Conn) error {
		out = engine.OperationPage{}
		rows, _ := c.Query(ctx, page, ps...)
		var err error
		if out.Operations, err = pgx.CollectRows(rows, scanOperation); err != nil {
			return err
		}
		if len(out.Operations) > limit {
			out.Operations = out.Operations[:limit]
			last := &out.Operations[limit-1]
			out.Next = engine.EncodeCursor(last.CreatedAt, last.ID)
		}
		out.Total, err = total(ctx, c, all, allParams)
		return err
	})
	return out, err
}

// TakeOperation hands out, for ttl, one that runs and that nobody has.
func (s *Store) TakeOperation(ctx context.Context, ttl time.Duration) (job.Operation, error) {
	var out job.Operation
	err := s.write(ctx, "take an operation", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, takeOperationSQL, ttl)
		var err error
		out, err = pgx.CollectExactlyOneRow(rows, scanOperation)
		return found(err)
	})
	return out, err
}

// SaveOperation keeps how far an operation has come, under the version it has.
func (s *Store) SaveOperation(ctx context.Context, o job.Operation, ttl time.Duration) (job.Operation, error) {
	var out job.Operation
	err := s.write(ctx, "save an operation", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, saveOperationSQL, [16]byte(o.ID), o.Version, string(o.State), notNil(o.Spec), o.Rate, o.Total, o.Done, o.Passed, plain(o.Error),
			o.UpdatedAt, orNever(o.FinishedAt), ttl)
		var err error
		if out, err = pgx.CollectExactlyOneRow(rows, scanOperation); errors.Is(err, pgx.ErrNoRows) {
			return engine.ErrConflict
		}
		return err
	})
	return out, err
}

// CancelOperation ends one that runs; one that is cancelled answers again.
func (s *Store) CancelOperation(ctx context.Context, t tenant.ID, o job.OperationID) (job.Operation, error) {
	var out job.Operation
	err := s.change(ctx, "cancel an operation", func(ctx context.Context, c writer) error {
		if _, err := c.Exec(ctx, cancelOperationSQL, string(t), [16]byte(o)); err != nil {
			return err
		}
		rows, _ := c.Query(ctx, operationSQL, string(t), [16]byte(o))
		var err error
		out, err = pgx.CollectExactlyOneRow(rows, scanOperation)
		if err == nil && out.State != job.OpCancelled {
			return engine.ErrConflict
		}
		return found(err)
	})
	if err != nil {
		return job.Operation{}, err
	}
	return out, nil
}
