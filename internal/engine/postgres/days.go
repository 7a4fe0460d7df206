package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	daysAhead = 3
	dayLock   = 0x4361_7264 // the first half of the advisory lock's key
)

func dayTable(day time.Time) string { return "executions_" + day.Format("20060102") }

// prepareDays makes the tables of today and the coming days that are missing, and says how many.
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

// makeDay makes a day's table. Attaching one, unlike creating it as a part of
// executions, does not wait for those who read and write executions.
func makeDay(ctx context.Context, c beginner, day time.Time) error {
	name := pgx.Identifier{dayTable(day)}.Sanitize()
	from, to := day.Format(time.RFC3339), day.AddDate(0, 0, 1).Format(time.RFC3339)
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1, hashtext(current_schema()))", dayLock); err != nil {
			return err
		}
		var exists bool
		if err := tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", name).Scan(&exists); err != nil || exists {
			return err
		}
		if _, err := tx.Exec(ctx, fmt.Sprintf("CREATE TABLE %s (LIKE executions INCLUDING ALL)", name)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, fmt.Sprintf("ALTER TABLE executions ATTACH PARTITION %s FOR VALUES FROM ('%s') TO ('%s')", name, from, to))
		return err
	})
}

// withDays runs f, which inserts into executions, and once more if the day's table was missing.
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
