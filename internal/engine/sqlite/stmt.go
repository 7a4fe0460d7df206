package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"
)

// stmt is a prepared statement. Its parameters are bound in order, by calls that chain; an error, even of preparing
// it, is returned when it runs.
type stmt struct {
	conn *sqlite.Conn
	on   *sqlite.Stmt
	err  error
	in   int
	row  row
}

// row reads the columns of a statement's current row, in order; NULL is the zero value.
type row struct {
	on *sqlite.Stmt
	n  int
}

// text binds a text.
func (q *stmt) text(v string) *stmt {
	q.in++
	if q.err == nil {
		q.on.BindText(q.in, v)
	}
	return q
}

// textOrNull binds a text, the empty one as NULL.
func (q *stmt) textOrNull(v string) *stmt {
	if v == "" {
		return q.null()
	}
	return q.text(v)
}

// texts binds texts as a JSON array, none as NULL.
func (q *stmt) texts(v []string) *stmt { return q.textOrNull(array(v)) }

// array returns texts as a JSON array, or "" for none.
func array(v []string) string {
	if len(v) == 0 {
		return ""
	}
	b, _ := json.Marshal(v) // texts always encode
	return string(b)
}

// bytes binds bytes, nil as NULL.
func (q *stmt) bytes(v []byte) *stmt {
	if v == nil {
		return q.null()
	}
	q.in++
	if q.err == nil {
		q.on.BindBytes(q.in, v)
	}
	return q
}

// id binds an id.
func (q *stmt) id(v [16]byte) *stmt {
	q.in++
	if q.err == nil {
		q.on.BindBytes(q.in, v[:])
	}
	return q
}

// idOrNull binds an id, the zero one as NULL.
func (q *stmt) idOrNull(v [16]byte) *stmt {
	if v == [16]byte{} {
		return q.null()
	}
	return q.id(v)
}

// int binds an integer.
func (q *stmt) int(v int64) *stmt {
	q.in++
	if q.err == nil {
		q.on.BindInt64(q.in, v)
	}
	return q
}

// bool binds 1 or 0.
func (q *stmt) bool(v bool) *stmt {
	if v {
		return q.int(1)
	}
	return q.int(0)
}

// at binds an instant, the zero one as NULL.
func (q *stmt) at(t time.Time) *stmt {
	if t.IsZero() {
		return q.null()
	}
	return q.int(t.UnixMicro())
}

// ms returns a duration in milliseconds: any above 0 is at least one.
func ms(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// intOrNull binds an integer, 0 as NULL.
func (q *stmt) intOrNull(v int64) *stmt {
	if v == 0 {
		return q.null()
	}
	return q.int(v)
}

// float binds a number.
func (q *stmt) float(v float64) *stmt {
	q.in++
	if q.err == nil {
		q.on.BindFloat(q.in, v)
	}
	return q
}

func (q *stmt) null() *stmt {
	q.in++
	if q.err == nil {
		q.on.BindNull(q.in)
	}
	return q
}

// until runs the statement and calls f for every row until f has enough.
func (q *stmt) until(f func(r *row) (enough bool, err error)) (rows int, err error) {
	if q.err != nil {
		return 0, q.err
	}
	q.in = 0
	for {
		more, err := q.on.Step() // which resets, where it fails
		if err != nil {
			return rows, err
		}
		if !more {
			return rows, q.on.Reset()
		}
		rows++
		q.row.n = 0
		if enough, err := f(&q.row); err != nil || enough {
			return rows, errors.Join(err, q.on.Reset())
		}
	}
}

// each runs the statement and calls f for every row.
func (q *stmt) each(f func(r *row) error) error {
	_, err := q.until(func(r *row) (bool, error) { return false, f(r) })
	return err
}

// first runs the statement, calls f for its first row and reports whether there was one.
func (q *stmt) first(f func(r *row) error) (found bool, err error) {
	rows, err := q.until(func(r *row) (bool, error) { return true, f(r) })
	return rows > 0, err
}

// exec runs the statement and returns how many rows it changed.
func (q *stmt) exec() (changed int, err error) {
	if err := q.each(nothing); err != nil {
		return 0, err
	}
	return q.conn.Changes(), nil
}

// nothing is for statements whose rows are not read.
func nothing(*row) error { return nil }

func (r *row) next() int {
	r.n++
	return r.n - 1
}

func (r *row) text() string { return r.on.ColumnText(r.next()) }
func (r *row) int() int     { return int(r.on.ColumnInt64(r.next())) }
func (r *row) int64() int64 { return r.on.ColumnInt64(r.next()) }
func (r *row) bool() bool   { return r.on.ColumnInt64(r.next()) != 0 }

func (r *row) float() float64    { return r.on.ColumnFloat(r.next()) }
func (r *row) ms() time.Duration { return time.Duration(r.int64()) * time.Millisecond }

// texts reads a JSON array of texts into v, which NULL leaves as it is.
func (r *row) texts(v *[]string) error {
	s := r.text()
	if s == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(s), v); err != nil {
		return fmt.Errorf("read a stored list: %w", err)
	}
	return nil
}

func (r *row) id() (v [16]byte) {
	r.on.ColumnBytes(r.next(), v[:])
	return v
}

// bytes copies a column's bytes; NULL becomes nil, and an empty value does not.
func (r *row) bytes() []byte {
	i := r.next()
	n := r.on.ColumnLen(i)
	if n == 0 && r.on.ColumnIsNull(i) {
		return nil
	}
	b := make([]byte, n)
	r.on.ColumnBytes(i, b)
	return b
}

func (r *row) at() time.Time {
	i := r.next()
	v := r.on.ColumnInt64(i)
	if v == 0 && r.on.ColumnIsNull(i) {
		return time.Time{}
	}
	return time.UnixMicro(v).UTC()
}
