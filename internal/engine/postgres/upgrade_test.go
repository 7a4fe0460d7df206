package postgres

import (
	"os"
	"testing"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/enginetest"
	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
)

// shapeSQL describes all tables but those of days: columns regardless of their order, indexes, constraints, triggers and functions.
const shapeSQL = `
	WITH t AS (SELECT c.oid, c.relname FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition)
	SELECT string_agg(x, E'\n' ORDER BY x) FROM (
		SELECT format('%s.%s %s %s %s %s', relname, attname, format_type(atttypid, atttypmod), attnotnull, attstorage, pg_get_expr(adbin, adrelid)) AS x
		FROM t JOIN pg_attribute a ON attrelid = t.oid AND attnum > 0 AND NOT attisdropped LEFT JOIN pg_attrdef d ON adrelid = t.oid AND adnum = attnum
		UNION ALL SELECT pg_get_indexdef(indexrelid) || ' ' || indisvalid FROM t JOIN pg_index ON indrelid = t.oid
		UNION ALL SELECT format('%s %s %s', conname, pg_get_constraintdef(c.oid), convalidated) FROM t JOIN pg_constraint c ON conrelid = t.oid
		UNION ALL SELECT pg_get_triggerdef(g.oid) FROM t JOIN pg_trigger g ON tgrelid = t.oid AND NOT tgisinternal
		UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
	) x`

// A database of the first release is brought up to date: its schema is that of a new one, and what it held is there.
func TestUpgradeFromTheFirstSchema(t *testing.T) {
	t.Parallel()
	first := must[[]engine.Migration](t)(migrations())[0]
	schema := enginetest.FirstSchema(t, first)
	rows := must[[]byte](t)(os.ReadFile("testdata/first_rows.sql"))

	s := must[*Store](t)(Open(t.Context(), Config{URL: postgrestest.URL(t)}))
	t.Cleanup(func() { _ = s.Close() })
	c := direct(t, s)
	must[[]engine.Applied](t)(applied(t.Context(), c))
	first.SQL = schema
	if err := apply(t.Context(), c, first); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PgConn().Exec(t.Context(), string(rows)).ReadAll(); err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := one[string](t, c, shapeSQL), one[string](t, direct(t, fresh(t)), shapeSQL); got != want {
		t.Errorf("the schema is\n%s\nwant that of a new database:\n%s", got, want)
	}
	enginetest.FirstRows(t, s)
}
