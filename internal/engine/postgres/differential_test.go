package postgres_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/enginetest"
	"github.com/carillon-jobs/carillon/internal/engine/postgres"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
)

// SQLite, PostgreSQL and PostgreSQL with everything in bundles answer alike, whatever they are asked, and end up with the same, also where
// commits are reported as failed and calls are made again.
func TestEnginesAgree(t *testing.T) {
	t.Parallel()
	enginetest.Differential(t, map[string]enginetest.Harness{
		"sqlite": {
			New: func(t testing.TB) string { return filepath.Join(t.TempDir(), "c.db") },
			Open: func(ctx context.Context, where string) (engine.Store, error) {
				return sqlite.Open(ctx, sqlite.Config{Path: where})
			},
		},
		"postgres":            harness(func(*postgres.Store) {}),
		"postgres in bundles": harness((*postgres.Store).PackAll),
	})
}
