package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlstore"
)

// settings runs the statements of sqlstore.
type settings struct{ s *database }

func (d settings) Read(ctx context.Context, doing string, f func(sqlstore.Tx) error) error {
	return d.s.look(ctx, doing, func(ctx context.Context, c *pgxpool.Conn) error { return f(transaction{ctx, c, d.s}) })
}

func (d settings) Ask(ctx context.Context, doing string, f func(sqlstore.Tx) error) error {
	return d.s.ask(ctx, doing, func(ctx context.Context, c *pgxpool.Conn) error { return f(transaction{ctx, c, d.s}) })
}

func (d settings) List(ctx context.Context, doing string, f func(sqlstore.Tx) error) error {
	return d.s.look(ctx, doing, func(ctx context.Context, c *pgxpool.Conn) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, searching); err != nil {
				return err
			}
			return f(transaction{ctx, tx, d.s})
		})
	})
}

func (d settings) Write(ctx context.Context, doing string, f func(sqlstore.Tx) error) error {
	err := d.s.writeDays(ctx, doing, func(ctx context.Context, c *pgxpool.Conn) error {
		// A statement after a lock must see what was committed before it, so not the transaction's first snapshot, which another default would give.
		return pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error { return f(transaction{ctx, tx, d.s}) })
	})
	if isCode(err, uniqueViolation) { // another transaction was first
		return fmt.Errorf("%s: %w", doing, engine.ErrConflict)
	}
	return err
}

// transaction runs statements on a connection, or in a transaction; statements that need a transaction are only run
// in one.
type transaction struct {
	ctx context.Context
	c   speaker
	s   *database // nil in somebody else's transaction
}

func (t transaction) Now() (now time.Time, err error) {
	err = t.c.QueryRow(t.ctx, "SELECT clock_timestamp()").Scan(at(&now))
	return now, err
}

func (t transaction) LockTable(name string) error {
	_, err := t.c.Exec(t.ctx, "LOCK TABLE "+pgx.Identifier{name}.Sanitize()+" IN SHARE ROW EXCLUSIVE MODE")
	return err
}

func (t transaction) LockTenant(id tenant.ID) error {
	_, err := t.c.Exec(t.ctx, "SELECT 1 FROM tenants WHERE id = $1 FOR NO KEY UPDATE", plain(string(id)))
	return err
}

func (t transaction) Record(e *audit.Entry) error { return record(t.ctx, t.c, e) }

func (t transaction) Settled() (int64, error) { return t.s.decided.look(t.ctx, t.c) }

func (t transaction) Claim(of tenant.ID, i *engine.Idempotency) (out engine.Created, known bool, err error) {
	keys := batch{all: []engine.Creation{{Tenant: of, Idempotency: *i}}, chosen: []int{0}}
	answers, err := keys.claimKeys(t.ctx, t.c)
	if err != nil {
		return out, false, err
	}
	prior, known := answers[scoped{of, i.Key}]
	if known {
		if out.Reused = prior.hash != i.Hash; !out.Reused {
			out.Replay = prior.answer
		}
	}
	return out, known, nil
}

func (t transaction) Exec(sql string, args ...any) (int64, error) {
	done, err := t.c.Exec(t.ctx, sqlstore.PostgreSQL.Text(sql), arguments(args)...)
	return done.RowsAffected(), err
}

func (t transaction) ExecEach(sql string, rows [][]any) error {
	if len(rows) == 0 {
		return nil
	}
	var b pgx.Batch
	for _, args := range rows {
		b.Queue(sqlstore.PostgreSQL.Text(sql), arguments(args)...)
	}
	return t.c.SendBatch(t.ctx, &b).Close()
}

func (t transaction) Query(f func(sqlstore.Row) error, sql string, args ...any) error {
	rows, err := t.c.Query(t.ctx, sqlstore.PostgreSQL.Text(sql), arguments(args)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(scanner{rows}); err != nil {
			return err
		}
	}
	return rows.Err()
}

// arguments converts those of sqlstore.Tx for the driver.
func arguments(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		switch v := a.(type) {
		case string:
			out[i] = plain(v)
		case []byte:
			out[i] = notNil(v)
		case time.Time:
			out[i] = orNever(v)
		case sqlstore.OptionalID:
			if v != (sqlstore.OptionalID{}) {
				out[i] = [16]byte(v)
			}
		default:
			out[i] = a
		}
	}
	return out
}

// orNever turns the zero instant into NULL.
func orNever(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

// scanner scans a row; NULL becomes the zero value.
type scanner struct{ rows pgx.Rows }

func (s scanner) Scan(into ...any) error {
	to := make([]any, len(into))
	for i, p := range into {
		switch v := p.(type) {
		case *string:
			to[i] = (*text)(v)
		case *int:
			to[i] = num(v)
		case *int64:
			to[i] = num(v)
		case *time.Time:
			to[i] = at(v)
		case *[16]byte:
			to[i] = (*id)(v)
		case *[32]byte:
			to[i] = (*digest)(v)
		default:
			to[i] = p
		}
	}
	return s.rows.Scan(to...)
}
