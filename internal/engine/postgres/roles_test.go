package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/enginetest"
	"github.com/carillon-jobs/carillon/internal/engine/postgres"
	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
)

// as is a database's URL for another user.
func as(t testing.TB, where, user string) string {
	t.Helper()
	u, err := url.Parse(where)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, "x")
	return u.String()
}

// appRole makes a role that servers run with, once a server of the tests.
func appRole(t testing.TB, name, options string) string {
	t.Helper()
	postgrestest.Exec(t, postgrestest.Server(t), `DO $$ BEGIN CREATE ROLE `+name+` LOGIN PASSWORD 'x' `+options+`; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$`)
	return name
}

func migrated(t testing.TB, where, app string) {
	t.Helper()
	if err := migrateFor(t.Context(), where, app); err != nil {
		t.Fatal(err)
	}
}

// migrateFor brings a database up to date for servers that run with a role of their own.
func migrateFor(ctx context.Context, where, app string) error {
	s, err := postgres.Open(ctx, postgres.Config{URL: where, AppRole: app})
	if err != nil {
		return err
	}
	return errors.Join(s.Migrate(ctx), s.Close())
}

// The whole suite, by a role that owns nothing, and for which row-level security counts.
func TestStoreThatOwnsNothing(t *testing.T) {
	t.Parallel()
	app := appRole(t, "carillon_test_app", "NOINHERIT")
	h := harness(func(*postgres.Store) {})
	h.Guest, h.Migrated = true, nil
	h.New = func(t testing.TB) string {
		where := postgrestest.Prepared(t, "for_an_app", func(ctx context.Context, where string) error { return migrateFor(ctx, where, app) })
		return as(t, where, app)
	}
	enginetest.Store(t, h)
}

// A server's role has no way to change tables, makes those of coming days all the same, and says who must bring the schema up to date.
func TestRolesApart(t *testing.T) {
	app := appRole(t, "carillon_test_app", "NOINHERIT")
	where := postgrestest.URL(t)
	open := func(where string) *postgres.Store {
		t.Helper()
		s, err := postgres.Open(t.Context(), postgres.Config{URL: where})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	migrated(t, where, app)
	s := open(as(t, where, app))
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if why := s.Wall(); why != "" {
		t.Error(why)
	}
	c, err := pgx.Connect(t.Context(), as(t, where, app))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	for _, sql := range []string{
		"CREATE TABLE x ()", "DROP TABLE jobs", "ALTER TABLE jobs ADD COLUMN x int", "TRUNCATE jobs", "DROP TABLE executions_" + today(), "ALTER TABLE jobs DISABLE ROW LEVEL SECURITY",
		"UPDATE carillon_migrations SET sum = ''", "UPDATE audit SET by_whom = ''", "CREATE INDEX ON jobs (name)", "CREATE OR REPLACE FUNCTION carillon_make_day(day date) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
	} {
		if _, err := c.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("%s: %v", sql, err)
		}
	}
	// A table of a day that is missing is made by whoever needs it.
	postgrestest.Exec(t, where, "DROP TABLE executions_"+today())
	if _, err := s.Tidy(t.Context()); err != nil {
		t.Error(err)
	}
	var there bool
	if err := c.QueryRow(t.Context(), "SELECT to_regclass('executions_"+today()+"') IS NOT NULL").Scan(&there); err != nil || !there {
		t.Errorf("the day's table: %v, %v", there, err)
	}
	// A server of a later version than the schema.
	postgrestest.Exec(t, where, "DELETE FROM carillon_migrations WHERE version = (SELECT max(version) FROM carillon_migrations)")
	err = open(as(t, where, app)).Migrate(t.Context())
	if !errors.Is(err, engine.ErrSchema) || !strings.Contains(err.Error(), app+" does not own the tables: run 'carillon migrate up' as their owner") {
		t.Errorf("with a step missing: %v", err)
	}
}

// What is wrong with a role is said before servers run with it.
func TestRolesThatDoNotFit(t *testing.T) {
	where := postgrestest.URL(t)
	migrate := func(app string) error {
		s, err := postgres.Open(t.Context(), postgres.Config{URL: where, AppRole: app})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return s.Migrate(t.Context())
	}
	if err := migrate("carillon_test_nobody"); err == nil || !strings.Contains(err.Error(), "CREATE ROLE") {
		t.Errorf("a role that is not there: %v", err)
	}
	if err := migrate("postgres"); err == nil || !strings.Contains(err.Error(), "owns nothing") {
		t.Errorf("the owner: %v", err)
	}
	heir := appRole(t, "carillon_test_heir", "INHERIT")
	if err := migrate(heir); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), postgres.Config{URL: as(t, where, heir)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Migrate(t.Context()); err != nil { // it was told not to inherit
		t.Error(err)
	}
	postgrestest.Exec(t, where, "ALTER ROLE carillon_test_heir INHERIT; GRANT carillon_tenant TO carillon_test_heir")
	if err := s.CheckSchema(t.Context()); err == nil || !strings.Contains(err.Error(), "NOINHERIT") {
		t.Errorf("one that inherits: %v", err)
	}
}
