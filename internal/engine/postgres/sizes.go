package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// A table with one partition per day is the sum of its days; executions in bundles count as rows of live.
const tableSizesSQL = `
	SELECT CASE WHEN c.relname = 'bundles' THEN 'live' ELSE coalesce(p.relname, c.relname)::text END, coalesce(sum(pg_total_relation_size(c.oid)), 0)::int8,
		coalesce(sum(greatest(c.reltuples, 0) * CASE WHEN c.relname = 'bundles' THEN 32 ELSE 1 END), 0)::int8
	FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid LEFT JOIN pg_class p ON p.oid = i.inhparent
	WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND coalesce(p.relname, c.relname) = ANY ($1::text[] || 'bundles'::text)
	GROUP BY 1`

// Time limits of counting rows, in total and for one table: a table that was full a moment ago takes long, however
// few rows it has.
const (
	sizesTime = 2 * time.Second
	rowsTime  = 500 * time.Millisecond
)

// Sizes returns the size of the database and its tables. It counts rows if that is quick, and otherwise uses
// statistics.
func (s *reads) Sizes(ctx context.Context) (out engine.Sizes, err error) {
	err = s.look(ctx, "measure the store", func(ctx context.Context, c *pgxpool.Conn) error {
		out = engine.Sizes{}
		if err := c.QueryRow(ctx, "SELECT pg_database_size(current_database())").Scan(&out.Bytes); err != nil {
			return err
		}
		type measured struct{ bytes, rows int64 }
		all := map[string]measured{}
		var name string
		var m measured
		rows, _ := c.Query(ctx, tableSizesSQL, engine.SizedTables[:])
		if _, err := pgx.ForEachRow(rows, []any{&name, &m.bytes, &m.rows}, func() error { all[name] = m; return nil }); err != nil {
			return err
		}
		begun := time.Now()
		for _, name := range engine.SizedTables {
			t := engine.TableSize{Name: name, Bytes: all[name].bytes, Rows: engine.Total{Count: all[name].rows, Estimate: true}}
			if time.Since(begun) < sizesTime {
				n, err := countRows(ctx, c, name)
				switch {
				case isCode(err, queryCanceled):
				case err != nil:
					return err
				case n > engine.TotalExact:
					t.Rows.Count = max(t.Rows.Count, engine.TotalExact)
				default:
					t.Rows = engine.Total{Count: n}
				}
			}
			out.Tables = append(out.Tables, t)
		}
		return nil
	})
	return out, err
}

// countRows counts the rows of a table, up to one more than are counted exactly.
func countRows(ctx context.Context, c *pgxpool.Conn, table string) (n int64, err error) {
	err = pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = '"+setting(rowsTime)+"'"); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, "SELECT count(*) FROM (SELECT 1 FROM "+table+" LIMIT $1) x", engine.TotalExact+1).Scan(&n); err != nil || table != "live" {
			return err
		}
		var packed int64
		err := tx.QueryRow(ctx, "SELECT coalesce(sum(bit_count(open::bit(64))), 0) FROM (SELECT open FROM bundles LIMIT $1) x", engine.TotalExact+1).Scan(&packed)
		n += packed
		return err
	})
	return n, err
}
