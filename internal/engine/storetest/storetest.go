// Package storetest opens engines for the tests of what is built on them: each store is new, has its schema, and is
// closed and removed at the test's end. Tests of the engines themselves are in their own packages.
package storetest

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres"
	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
	"github.com/carillon-jobs/carillon/internal/watchdog"
)

// Each runs a test over each engine, opened as a server opens it: with the product's own timeouts.
func Each(t *testing.T, test func(t *testing.T, s engine.Store)) {
	t.Run("sqlite", func(t *testing.T) { test(t, SQLite(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, Postgres(t)) })
}

// SQLite opens a store over a new file.
func SQLite(t testing.TB) *sqlite.Store {
	t.Helper()
	watchdog.Watch(t)
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "c.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// Postgres opens a store over a new database.
func Postgres(t testing.TB) *postgres.Store {
	t.Helper()
	watchdog.Watch(t)
	s, err := postgres.Open(t.Context(), postgres.Config{URL: PostgresURL(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil { // nothing is missing; this detects the second wall
		t.Fatal(err)
	}
	return s
}

// PostgresURL returns the address of a new database.
func PostgresURL(t testing.TB) string {
	t.Helper()
	return postgrestest.Migrated(t, func(ctx context.Context, url string) error {
		s, err := postgres.Open(ctx, postgres.Config{URL: url})
		if err != nil {
			return err
		}
		return errors.Join(s.Migrate(ctx), s.Close())
	})
}
