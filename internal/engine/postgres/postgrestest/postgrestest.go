// Package postgrestest gives tests a fresh PostgreSQL database each.
//
// The server is the one that CARILLON_TEST_POSTGRES names; make test starts a
// private one and sets it. A test that cannot reach it fails: it never skips,
// since a skipped test looks like one that passed. The databases are named
// carillon_test_ and something random, so that tests and packages run side by
// side on one server, and are dropped with whatever is connected to them.
package postgrestest

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server returns the URL of the server that tests use. Connecting may take as long as it takes on a busy machine:
// only the few tests that are about unresponsive servers set a limit.
func Server(t testing.TB) string { return server(t).String() }

func server(t testing.TB) *url.URL {
	t.Helper()
	named := os.Getenv("CARILLON_TEST_POSTGRES")
	if named == "" {
		t.Fatal("there is no PostgreSQL server to test on: run make test, or set CARILLON_TEST_POSTGRES")
	}
	u, err := url.Parse(named)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		t.Fatal("CARILLON_TEST_POSTGRES is not a URL such as postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable")
	}
	if q := u.Query(); !q.Has("connect_timeout") {
		q.Set("connect_timeout", "60")
		u.RawQuery = q.Encode()
	}
	return u
}

// URL returns the address of a new, empty database that is dropped at the test's end.
func URL(t testing.TB) string {
	t.Helper()
	u := server(t)
	server := u.String()
	name := "carillon_test_" + strings.ToLower(rand.Text()[:16])
	Exec(t, server, "CREATE DATABASE "+name)
	t.Cleanup(func() { Exec(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	u.Path = "/" + name
	return u.String()
}

// Exec runs a statement in a database.
func Exec(t testing.TB, server, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatalf("CARILLON_TEST_POSTGRES: %v", err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
