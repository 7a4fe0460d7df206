package sqlite_test

import (
	"context"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	driver "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/enginetest"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
)

func TestConformance(t *testing.T) {
	enginetest.Store(t, enginetest.Harness{
		New: func(t testing.TB) string { return filepath.Join(t.TempDir(), "carillon.db") },
		Open: func(ctx context.Context, where string) (engine.Store, error) {
			return sqlite.Open(ctx, sqlite.Config{Path: where})
		},
		AgeSeals: ageSeals,
		Behind:   sqlite.RunsBehind,
		Rows:     countRows,
	})
}

// countRows counts the rows of every table beside the store.
func countRows(t testing.TB, where string) map[string]int64 {
	t.Helper()
	c, err := driver.OpenConn(where, driver.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetBusyTimeout(time.Minute)
	out := map[string]int64{}
	for _, name := range texts(t, c, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'") {
		n, err := strconv.ParseInt(texts(t, c, "SELECT count(*) FROM "+name)[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = n
	}
	return out
}

// texts reads the first column of each row.
func texts(t testing.TB, c *driver.Conn, sql string) (out []string) {
	t.Helper()
	if err := sqlitex.Execute(c, sql, &sqlitex.ExecOptions{ResultFunc: func(r *driver.Stmt) error { out = append(out, r.ColumnText(0)); return nil }}); err != nil {
		t.Fatal(err)
	}
	return out
}

// ageSeals makes seals older beside the store, as another process may.
func ageSeals(t testing.TB, where string, by time.Duration) {
	t.Helper()
	c, err := driver.OpenConn(where, driver.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetBusyTimeout(time.Minute)
	err = sqlitex.Execute(c, "UPDATE audit_seals SET sealed_at = sealed_at - ?", &sqlitex.ExecOptions{Args: []any{by.Microseconds()}})
	if err != nil {
		t.Fatal(err)
	}
}
