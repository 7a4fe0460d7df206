package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// quickTx is a transaction that begins with its first statements and ends with its last ones, without round trips of
// its own.
type quickTx struct {
	*pgxpool.Conn
	begun, ended bool
}

// quickly runs f in a transaction.
func quickly(ctx context.Context, c *pgxpool.Conn, f func(*quickTx) error) error {
	t := &quickTx{Conn: c}
	err := f(t)
	if err == nil && t.begun && !t.ended {
		var done pgconn.CommandTag
		if done, err = c.Exec(ctx, "commit"); err == nil && done.String() == "ROLLBACK" {
			err = pgx.ErrTxCommitRollback
		}
	}
	if err != nil && c.Conn().PgConn().TxStatus() != 'I' && !c.Conn().IsClosed() {
		if _, undone := c.Exec(ctx, "rollback"); undone != nil {
			end(c.Conn()) // nobody can tell how it stands
		}
	}
	return err
}

// SendBatch sends statements, of which none may be empty, after the beginning of the transaction.
func (t *quickTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if t.begun || b.Len() == 0 {
		return t.Conn.SendBatch(ctx, b)
	}
	t.begun = true
	first := &pgx.QueuedQuery{SQL: "begin"}
	b.QueuedQueries = append([]*pgx.QueuedQuery{first}, b.QueuedQueries...)
	return t.Conn.SendBatch(ctx, b)
}

func (t *quickTx) begin(ctx context.Context) error {
	if t.begun {
		return nil
	}
	t.begun = true
	_, err := t.Conn.Exec(ctx, "begin")
	return err
}

// Exec runs a statement.
func (t *quickTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := t.begin(ctx); err != nil {
		return pgconn.CommandTag{}, err
	}
	return t.Conn.Exec(ctx, sql, args...)
}

// Query runs a statement that answers with rows.
func (t *quickTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := t.begin(ctx); err != nil {
		return nil, err
	}
	return t.Conn.Query(ctx, sql, args...)
}

// QueryRow runs a statement that answers with one row.
func (t *quickTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := t.begin(ctx); err != nil {
		return failedRow{err}
	}
	return t.Conn.QueryRow(ctx, sql, args...)
}

type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

const divisionByZero = "22012"

// insisting makes a statement fail unless it changes a row for each id in its first argument.
func insisting(sql string) string {
	return "WITH changed AS (" + sql + " RETURNING 1) SELECT 1 / CASE WHEN count(*) = cardinality($1::uuid[]) THEN 1 ELSE 0 END FROM changed"
}

// insist adds a statement to a batch that fails with an error unless it changes a row for each id in its first argument.
func insist(b *pgx.Batch, otherwise error, sql string, args []any) {
	b.Queue(insisting(sql), args...).QueryRow(func(row pgx.Row) error {
		var one int
		err := row.Scan(&one)
		if isCode(err, divisionByZero) {
			return otherwise
		}
		return err
	})
}
