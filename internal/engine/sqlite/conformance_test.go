package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"

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
	})
}
