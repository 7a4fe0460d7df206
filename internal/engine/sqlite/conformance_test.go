package sqlite_test

import (
	"context"
	"path/filepath"
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
	})
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
