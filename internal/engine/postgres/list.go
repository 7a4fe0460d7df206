package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// listing is a list that an index returns in its order, in a transaction.
type listing[T any] struct {
	ctx    context.Context
	tx     pgx.Tx
	table  string // that the index is of
	where  string // what the index finds
	params params
	found  int      // how many of these conditions the index handles
	also   string   // what else is to hold
	from   string   // what to read instead of the table; "": the table
	key    []string // the columns of the order
	read   func(where string, limit string) string
	scan   pgx.RowToFunc[T]
	keys   func(p engine.Place, ps *params) string // a place, in the form in which the key is compared with it
	place  func(r pgx.Row) (engine.Place, error)   // of a row of the key
}

// listed reads a page of a listing in one snapshot, through indexes in their order.
func listed[T any](ctx context.Context, s *database, doing string, p engine.Page, place func(*T) engine.Place, list listing[T], then func(ctx context.Context, tx pgx.Tx, found []T) error) (engine.Listed[T], error) {
	var out engine.Listed[T]
	err := s.look(ctx, doing, func(ctx context.Context, c *pgxpool.Conn) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, searching); err != nil {
				return err
			}
			list.ctx, list.tx = ctx, tx
			var err error
			if out, err = engine.List(p, list, place); err != nil || then == nil {
				return err
			}
			return then(ctx, tx, out.Rows)
		})
	})
	return out, err
}

func (l listing[T]) descending() string {
	return " ORDER BY " + strings.Join(l.key, " DESC, ") + " DESC"
}

// within adds a span to the conditions of the index.
func (l listing[T]) within(in engine.Span, of params) (where string, ps params) {
	where, ps = l.where, append(params(nil), of...)
	key := "(" + strings.Join(l.key, ", ") + ")"
	if !in.After.IsZero() {
		where += " AND " + key + " < " + l.keys(in.After, &ps)
	}
	if !in.Until.IsZero() {
		where += " AND " + key + " >= " + l.keys(in.Until, &ps)
	}
	return where, ps
}

// Nth returns the place of the n-th row after a place.
func (l listing[T]) Nth(after engine.Place, n int) (engine.Place, error) {
	where, ps := l.within(engine.Span{After: after}, l.params[:l.found])
	sql := "SELECT " + strings.Join(l.key, ", ") + " FROM " + l.table + " WHERE " + where + l.descending() + " LIMIT 1 OFFSET " + ps.add(n-1)
	at, err := l.place(l.tx.QueryRow(l.ctx, sql, ps...))
	if err == pgx.ErrNoRows {
		return engine.Place{}, nil
	}
	return at, err
}

// Read lists up to limit of a span.
func (l listing[T]) Read(in engine.Span, limit int) ([]T, error) {
	where, ps := l.within(in, l.params)
	rows, _ := l.tx.Query(l.ctx, l.read(where+l.also+l.descending(), ps.add(limit)), ps...)
	return pgx.CollectRows(rows, l.scan)
}

// Count counts up to limit of a span.
func (l listing[T]) Count(in engine.Span, limit int) (n int64, err error) {
	where, ps := l.within(in, l.params)
	from := l.table
	if l.from != "" {
		from = l.from
	}
	err = l.tx.QueryRow(l.ctx, "SELECT count(*) FROM (SELECT 1 FROM "+from+" WHERE "+where+l.also+" LIMIT "+ps.add(limit)+") t", ps...).Scan(&n)
	return n, err
}

// Rows returns the planner's estimate of how many rows the index finds.
func (l listing[T]) Rows() (int64, error) {
	var text []byte
	if err := l.tx.QueryRow(l.ctx, fmt.Sprintf("EXPLAIN (FORMAT JSON) SELECT 1 FROM %s WHERE %s", l.table, l.where), l.params[:l.found]...).Scan(&text); err != nil {
		return 0, err
	}
	return planned(text)
}
