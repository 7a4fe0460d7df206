package sqlite

import (
	"cmp"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// listing is a list that an index returns in its order.
type listing[T any] struct {
	c       *conn
	table   string // that the index is of
	index   *where // what the index finds
	all     *where // and what else is to hold
	asked   string // what to query instead; "": the table
	from    string // and where the columns are; "": likewise
	columns string
	key     []string // the columns of the order
	at      string   // an instant that goes with the order
	read    func(r *row) (T, error)
	keys    func(p engine.Place) []func(*stmt) // a place, in the form in which the key is compared with it
	place   func(r *row) engine.Place          // of a row of the key
}

func (l listing[T]) each(before, after string) (out string) {
	for i, k := range l.key {
		if i > 0 {
			out += ", "
		}
		out += before + k + after
	}
	return out
}

func (l listing[T]) within(w *where, in engine.Span) *where {
	w = w.copy()
	marks := "?"
	if len(l.key) == 2 {
		marks = "?, ?"
	}
	if !in.After.IsZero() {
		w.and("("+l.each("", "")+") < ("+marks+")", l.keys(in.After)...)
	}
	if !in.Until.IsZero() {
		w.and("("+l.each("", "")+") >= ("+marks+")", l.keys(in.Until)...)
	}
	return w
}

func (l listing[T]) descending() string { return " ORDER BY " + l.each("", " DESC") + " LIMIT ?" }

// Nth returns the place of the n-th row after a place.
func (l listing[T]) Nth(after engine.Place, n int) (at engine.Place, err error) {
	w := l.within(l.index, engine.Span{After: after})
	_, err = w.bind(l.c.prepare("SELECT " + l.each("", "") + " FROM " + l.table + " WHERE " + w.String() + l.descending() + " OFFSET ?")).int(1).int(int64(n - 1)).first(func(r *row) error {
		at = l.place(r)
		return nil
	})
	return at, err
}

// Read lists up to limit of a span.
func (l listing[T]) Read(in engine.Span, limit int) (out []T, err error) {
	w := l.within(l.all, in)
	err = w.bind(l.c.prepare("SELECT " + l.columns + " FROM " + cmp.Or(l.from, l.table) + " WHERE " + w.String() + l.descending())).int(int64(limit)).each(func(r *row) error {
		x, err := l.read(r)
		out = append(out, x)
		return err
	})
	return out, err
}

// Count counts up to limit of a span.
func (l listing[T]) Count(in engine.Span, limit int) (n int64, err error) {
	w := l.within(l.all, in)
	_, err = w.bind(l.c.prepare("SELECT count(*) FROM (SELECT 1 FROM " + cmp.Or(l.asked, l.table) + " WHERE " + w.String() + l.descending() + ")")).int(int64(limit)).first(func(r *row) error {
		n = r.int64()
		return nil
	})
	return n, err
}

// Rows assumes that everything the index finds is as dense as the newest rows.
func (l listing[T]) Rows() (int64, error) {
	const look = engine.TotalExact
	instant := func(order string, skip int64) (at time.Time, err error) {
		sql := "SELECT " + l.at + " FROM " + l.table + " WHERE " + l.index.String() + " ORDER BY " + l.each("", order) + " LIMIT 1 OFFSET ?"
		_, err = l.index.bind(l.c.prepare(sql)).int(skip).first(func(r *row) error {
			at = r.at()
			return nil
		})
		return at, err
	}
	newest, err := instant(" DESC", 0)
	if err != nil {
		return 0, err
	}
	seen, err := instant(" DESC", look-1)
	if err != nil || seen.IsZero() {
		return 0, err
	}
	oldest, err := instant("", 0)
	if d := newest.Sub(seen); d > 0 {
		return int64(look * float64(newest.Sub(oldest)) / float64(d)), err
	}
	return look, err
}
