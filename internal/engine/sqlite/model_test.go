package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/enginetest"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
)

// SQLite answers as the model does; TestEnginesAgree of package postgres compares it with the other engines, too.
func TestModel(t *testing.T) {
	t.Parallel()
	enginetest.Differential(t, map[string]enginetest.Harness{"sqlite": {
		New: func(t testing.TB) string { return filepath.Join(t.TempDir(), "c.db") },
		Open: func(ctx context.Context, where string) (engine.Store, error) {
			return sqlite.Open(ctx, sqlite.Config{Path: where})
		},
	}})
}
