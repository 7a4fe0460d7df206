package sqlite

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlstore"
)

// settings runs the statements of sqlstore.
type settings struct{ s *database }

func (d settings) Read(ctx context.Context, doing string, f func(sqlstore.Tx) error) error {
	return d.s.look(ctx, doing, func(c *conn) error { return f(transaction{c, d.s.now()}) })
}

func (d settings) Ask(ctx context.Context, doing string, f func(sqlstore.Tx) error) error {
	return d.Read(ctx, doing, f)
}

func (d settings) List(ctx context.Context, doing string, f func(sqlstore.Tx) error) error {
	return d.Read(ctx, doing, f)
}

func (d settings) Write(ctx context.Context, doing string, f func(sqlstore.Tx) error) error {
	return d.s.write(ctx, doing, func(c *conn, now int64) error { return f(transaction{c, now}) })
}

// transaction is a transaction on a connection, at an instant. There is one writer, so it needs no locks.
type transaction struct {
	c   *conn
	now int64
}

func (t transaction) Now() (time.Time, error)     { return time.UnixMicro(t.now).UTC(), nil }
func (t transaction) LockTable(string) error      { return nil }
func (t transaction) LockTenant(tenant.ID) error  { return nil }
func (t transaction) Record(e *audit.Entry) error { return record(t.c, e) }
func (t transaction) Settled() (last int64, _ error) {
	_, err := t.c.prepare("SELECT coalesce(max(seq), 0) FROM audit").first(func(r *row) error { last = r.int64(); return nil })
	return last, err
}

func (t transaction) Claim(of tenant.ID, i *engine.Idempotency) (engine.Created, bool, error) {
	out, known, err := recall(t.c, of, i, t.now)
	if err != nil || known {
		return out, known, err
	}
	return out, false, remember(t.c, of, i)
}

func (t transaction) Exec(sql string, args ...any) (int64, error) {
	n, err := t.c.prepare(sqlstore.SQLite.Text(sql)).args(args).exec()
	return int64(n), err
}

func (t transaction) ExecEach(sql string, rows [][]any) error {
	for _, args := range rows {
		if _, err := t.Exec(sql, args...); err != nil {
			return err
		}
	}
	return nil
}

func (t transaction) Query(f func(sqlstore.Row) error, sql string, args ...any) error {
	return t.c.prepare(sqlstore.SQLite.Text(sql)).args(args).each(func(r *row) error { return f(r) })
}

// args binds arguments of sqlstore.Tx.
func (q *stmt) args(args []any) *stmt {
	for _, a := range args {
		switch v := a.(type) {
		case string:
			q.text(v)
		case []byte:
			if v == nil {
				v = []byte{}
			}
			q.bytes(v)
		case int:
			q.int(int64(v))
		case int64:
			q.int(v)
		case float64:
			q.float(v)
		case bool:
			q.bool(v)
		case time.Time:
			q.at(v)
		case [16]byte:
			q.id(v)
		case sqlstore.OptionalID:
			q.idOrNull(v)
		case []string:
			q.text(jsonArray(v))
		case []int64:
			doc, err := json.Marshal(v)
			if err != nil && q.err == nil {
				q.err = err
			}
			q.text(string(doc))
		case [][16]byte:
			texts := make([]string, len(v))
			for i := range v {
				texts[i] = hex.EncodeToString(v[i][:])
			}
			q.text(jsonArray(texts))
		default:
			if q.err == nil {
				q.err = fmt.Errorf("an argument of type %T", a)
			}
		}
	}
	return q
}

// jsonArray returns texts as a JSON array.
func jsonArray(v []string) string { return cmp.Or(array(v), "[]") }

// Scan reads the columns into the values that pointers point to.
func (r *row) Scan(into ...any) error {
	for _, p := range into {
		switch v := p.(type) {
		case *string:
			*v = r.text()
		case *[]byte:
			*v = r.bytes()
		case *int:
			*v = r.int()
		case *int64:
			*v = r.int64()
		case *float64:
			*v = r.float()
		case *bool:
			*v = r.bool()
		case *time.Time:
			*v = r.at()
		case *[16]byte:
			*v = r.id()
		case *[32]byte:
			*v = [32]byte{}
			copy(v[:], r.bytes())
		case *[]string:
			if err := r.texts(v); err != nil {
				return err
			}
		default:
			return fmt.Errorf("read a column into a %T", p)
		}
	}
	return nil
}
