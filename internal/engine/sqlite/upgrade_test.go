package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/carillon-jobs/carillon/internal/engine/enginetest"
)

// shape describes all tables: columns regardless of their order, options, indexes and triggers.
func shape(t *testing.T, s *Store) string {
	t.Helper()
	var all []string
	err := s.run(t.Context(), s.readers, time.Minute, "describe the schema", "BEGIN", func(c *conn) error {
		for _, sql := range []string{
			"SELECT 'column ' || m.name || '.' || x.name, x.type || ' ' || x.'notnull' || ' ' || coalesce(x.dflt_value, '') || ' ' || x.pk FROM sqlite_schema m, pragma_table_xinfo(m.name) x WHERE m.type = 'table'",
			"SELECT 'table ' || name, wr || ' ' || strict FROM pragma_table_list WHERE schema = 'main'",
			"SELECT type || ' ' || name, coalesce(sql, '') FROM sqlite_schema WHERE type <> 'table'",
		} {
			if err := c.prepare(sql).each(func(r *row) error {
				all = append(all, fmt.Sprint(r.text(), " ", r.text()))
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// A file of the first release is brought up to date: its schema is that of a new one, and what it held is there.
func TestUpgradeFromTheFirstSchema(t *testing.T) {
	all, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	first := all[0]
	first.SQL = enginetest.FirstSchema(t, first)
	rows, err := os.ReadFile("testdata/first_rows.sql")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "carillon.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.alter(t.Context(), time.Minute, "begin", func(c *conn) error {
		if _, err := applied(c); err != nil {
			return err
		}
		if err := s.apply(c, first); err != nil {
			return err
		}
		return sqlitex.ExecuteScript(c.Conn, string(rows), nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := shape(t, s), shape(t, newBench(t).Store); got != want {
		t.Errorf("the schema is\n%s\nwant that of a new file:\n%s", got, want)
	}
	enginetest.FirstRows(t, s)
}
