package postgrestest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Migrated returns the URL of a new database that migrate has been run on, dropped at the test's end. Only the first test of a
// schema runs migrate, on a database that the others are copied from: a copy takes as long as an empty database does.
func Migrated(t testing.TB, migrate func(ctx context.Context, url string) error) string {
	t.Helper()
	return Prepared(t, "migrated", migrate)
}

// Prepared is like Migrated for a database that is prepared in another, named way.
func Prepared(t testing.TB, way string, prepare func(ctx context.Context, url string) error) string {
	t.Helper()
	u := server(t)
	server := u.String()
	name := "carillon_test_" + strings.ToLower(rand.Text()[:16])
	Exec(t, server, "CREATE DATABASE "+name+" TEMPLATE "+template(t, way, prepare))
	t.Cleanup(func() { Exec(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	u.Path = "/" + name
	return u.String()
}

// made records which templates this process has seen.
var made struct {
	sync.Mutex
	names map[string]string // guarded by Mutex; by kind
}

// template returns the name of a prepared database that nobody connects to; it creates it if missing. The name
// contains a hash of the engine's source, so that a change of a migration, or of what runs them, creates another.
func template(t testing.TB, way string, prepare func(ctx context.Context, url string) error) string {
	t.Helper()
	made.Lock()
	defer made.Unlock()
	if name := made.names[way]; name != "" {
		return name
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	u := server(t)
	c, err := pgx.Connect(ctx, u.String())
	if err != nil {
		t.Fatalf("CARILLON_TEST_POSTGRES: %v", err)
	}
	defer c.Close(ctx)
	name := "carillon_template_" + way + "_" + sourceHash(t)
	// Packages are tested in parallel: one creates it, the others wait.
	if _, err := c.Exec(ctx, "SELECT pg_advisory_lock(7272, 1)"); err != nil {
		t.Fatal(err)
	}
	var there bool
	if err := c.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)", name).Scan(&there); err != nil {
		t.Fatal(err)
	}
	if !there {
		draft := name + "_draft"
		for _, sql := range []string{"DROP DATABASE IF EXISTS " + draft + " WITH (FORCE)", "CREATE DATABASE " + draft} {
			if _, err := c.Exec(ctx, sql); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
		u.Path = "/" + draft
		if err := prepare(ctx, u.String()); err != nil {
			t.Fatalf("prepare the template: %v", err)
		}
		// Connections of prepare may still be open for a moment.
		for _, sql := range []string{"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '" + draft + "'", "ALTER DATABASE " + draft + " RENAME TO " + name} {
			if _, err := c.Exec(ctx, sql); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
	}
	if made.names == nil {
		made.names = map[string]string{}
	}
	made.names[way] = name
	return name
}

// sourceHash returns a hash of the engine's migrations and code.
func sourceHash(t testing.TB) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	h := sha256.New()
	for _, pattern := range []string{"*.go", "migrations/*.sql"} {
		all, err := filepath.Glob(filepath.Join(filepath.Dir(here), "..", pattern))
		if err != nil || len(all) == 0 {
			t.Fatalf("the engine's source is not beside %s: %v", here, err)
		}
		for _, path := range all {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			h.Write(b)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}
