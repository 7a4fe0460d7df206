package sqlstore

import (
	"fmt"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// params collects the arguments of a statement under construction.
type params []any

// add appends an argument and returns its name in the text.
func (p *params) add(v any) string {
	*p = append(*p, v)
	return fmt.Sprintf("$%d", len(*p))
}

// since returns an instant to begin from: the zero one, which would be NULL, is before all others.
func since(t time.Time) time.Time {
	if t.IsZero() {
		return time.UnixMicro(1)
	}
	return t
}

// listing pages through a table in the order of an index. It implements engine.SourceOf.
type listing[T any] struct {
	tx      Tx
	table   string // including the index to use, if the database has to be told
	where   string // the condition that the index answers
	also    string // further conditions, each with " AND " before it
	params  params // of where, then of also
	indexed int    // how many of the params belong to where
	columns string
	key     []string // the columns of the order; the first one that is an instant is at
	at      string   // the instant that grows with the order, to estimate from
	scan    func(Row) (T, error)
	keys    func(p engine.Place) []any // the key's values at a place
	place   func(Row) (engine.Place, error)
}

func (l listing[T]) order(direction string) string {
	return " ORDER BY " + strings.Join(l.key, direction+", ") + direction
}

// within limits a condition to a span.
func (l listing[T]) within(in engine.Span, ps *params) (out string) {
	compare := func(sign string, p engine.Place) string {
		var marks []string
		for _, v := range l.keys(p) {
			marks = append(marks, ps.add(v))
		}
		return " AND (" + strings.Join(l.key, ", ") + ") " + sign + " (" + strings.Join(marks, ", ") + ")"
	}
	if !in.After.IsZero() {
		out += compare("<", in.After)
	}
	if !in.Until.IsZero() {
		out += compare(">=", in.Until)
	}
	return out
}

// Nth returns the place of the n-th row after a place.
func (l listing[T]) Nth(after engine.Place, n int) (at engine.Place, err error) {
	ps := append(params(nil), l.params[:l.indexed]...)
	sql := "SELECT " + strings.Join(l.key, ", ") + " FROM " + l.table + " WHERE " + l.where + l.within(engine.Span{After: after}, &ps) + l.order(" DESC") + " LIMIT 1 OFFSET " + ps.add(n-1)
	err = l.tx.Query(func(r Row) (err error) {
		at, err = l.place(r)
		return err
	}, sql, ps...)
	return at, err
}

// Read returns up to limit rows of a span.
func (l listing[T]) Read(in engine.Span, limit int) ([]T, error) {
	ps := append(params(nil), l.params...)
	sql := "SELECT " + l.columns + " FROM " + l.table + " WHERE " + l.where + l.also + l.within(in, &ps) + l.order(" DESC") + " LIMIT " + ps.add(limit)
	return all(l.tx, l.scan, sql, ps...)
}

// Count counts up to limit rows of a span.
func (l listing[T]) Count(in engine.Span, limit int) (int64, error) {
	ps := append(params(nil), l.params...)
	return value[int64](l.tx, "SELECT count(*) FROM (SELECT 1 FROM "+l.table+" WHERE "+l.where+l.also+l.within(in, &ps)+" LIMIT "+ps.add(limit)+") t", ps...)
}

// Rows estimates how many rows the index finds, assuming that all are as dense as the newest.
func (l listing[T]) Rows() (int64, error) {
	const look = engine.TotalExact
	instant := func(order string, skip int64) (time.Time, error) {
		ps := append(params(nil), l.params[:l.indexed]...)
		return value[time.Time](l.tx, "SELECT "+l.at+" FROM "+l.table+" WHERE "+l.where+l.order(order)+" LIMIT 1 OFFSET "+ps.add(skip), ps...)
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
