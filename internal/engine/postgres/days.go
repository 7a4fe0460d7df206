package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const daysAhead = 3

func dayTable(day time.Time) string { return "executions_" + day.Format("20060102") }

// prepareDays creates missing tables of today and the coming days, and returns how many.
func prepareDays(ctx context.Context, c *pgx.Conn) (made int, err error) {
	var now time.Time
	var have []string
	err = c.QueryRow(ctx, `
		SELECT now(), coalesce(array_agg(c.relname::text), '{}')
		FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'executions'::regclass`).Scan(&now, &have)
	if err != nil {
		return 0, err
	}
	exists := make(map[string]bool, len(have))
	for _, name := range have {
		exists[name] = true
	}
	today := now.UTC().Truncate(24 * time.Hour)
	for i := range daysAhead + 1 {
		day := today.AddDate(0, 0, i)
		if exists[dayTable(day)] {
			continue
		}
		if err := makeDay(ctx, c, day); err != nil {
			return made, fmt.Errorf("make table %s: %w", dayTable(day), err)
		}
		made++
	}
	return made, nil
}

// makeDay creates a day's table, with a function of the tables' owner: the caller may own none.
func makeDay(ctx context.Context, c querier, day time.Time) error {
	rows, _ := c.Query(ctx, "SELECT carillon_make_day($1)", day)
	_, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
	return err
}

// withDays runs f, which inserts into executions, and again if the day's table was missing.
func withDays(ctx context.Context, c *pgxpool.Conn, f func() error) error {
	err := f()
	if !isCode(err, checkViolation) {
		return err
	}
	if _, err := prepareDays(ctx, c.Conn()); err != nil {
		return err
	}
	return f()
}

// pastDaysSQL lists the days before yesterday that have a table, after the one with a name.
const pastDaysSQL = `
	SELECT to_date(right(c.relname, 8), 'YYYYMMDD') FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
	WHERE i.inhparent = 'executions'::regclass AND c.relname > $1 AND c.relname < 'executions_' || to_char(now() AT TIME ZONE 'UTC' - interval '1 day', 'YYYYMMDD') ORDER BY c.relname LIMIT $2`

const daysLookedAt = 10

// dropDays drops tables of past days that nothing is left of, once vacuum has emptied their files: of the next few, and
// of the first ones again once it has seen all. A table that others use just now is left for another time.
func (s *upkeep) dropDays(ctx context.Context, c *pgx.Conn) error {
	var from string
	if p := s.dropped.Load(); p != nil {
		from = *p
	}
	rows, _ := c.Query(ctx, pastDaysSQL, from, daysLookedAt)
	found, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err != nil {
		return err
	}
	from = ""
	if len(found) == daysLookedAt {
		from = dayTable(found[daysLookedAt-1])
	}
	s.dropped.Store(&from) // first: a table that cannot be dropped must not keep the others
	for _, day := range found {
		var gone bool
		if err := c.QueryRow(ctx, "SELECT carillon_drop_day($1)", day).Scan(&gone); err != nil && !isCode(err, lockNotAvailable) {
			return err
		}
	}
	return nil
}
