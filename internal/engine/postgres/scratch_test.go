package postgres

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
)

// ask reads one number.
func ask(t *testing.T, server, sql string, args ...any) (n int) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if err := c.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// as is the URL for a new role that may only what the grant says.
func as(t *testing.T, server, role, grant string) string {
	t.Helper()
	for _, sql := range []string{"CREATE ROLE " + role + " LOGIN", grant} {
		if err := once(t.Context(), server, sql); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, sql := range []string{"DROP OWNED BY " + role, "DROP ROLE " + role} {
			if err := once(context.Background(), server, sql); err != nil {
				t.Error(err)
			}
		}
	})
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(role)
	return u.String()
}

func TestScratch(t *testing.T) {
	live := postgrestest.URL(t)
	u, err := url.Parse(live)
	if err != nil {
		t.Fatal(err)
	}
	db := strings.TrimPrefix(u.Path, "/")
	u.RawQuery += "&dbname=" + db // which would win over the path
	role := "r" + strings.TrimPrefix(db, "carillon_test")
	const (
		databases = "SELECT count(*) FROM pg_database WHERE datname = $1"
		schemas   = "SELECT count(*) FROM pg_namespace WHERE nspname = $1"
	)
	for kind, c := range map[string]struct{ server, count string }{
		"database": {u.String(), databases},
		"schema":   {as(t, live, role, "GRANT CREATE ON DATABASE "+db+" TO "+role), schemas},
	} {
		place, remove, err := Scratch(t.Context(), c.server)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		p, err := url.Parse(place)
		if err != nil {
			t.Fatal(err)
		}
		name := p.Query().Get("search_path")
		if kind == "database" {
			name = strings.TrimPrefix(p.Path, "/")
		}
		if !strings.HasPrefix(name, scratchPrefix) || ask(t, c.server, c.count, name) != 1 {
			t.Fatalf("%s: %q was not made", kind, name)
		}
		s, err := Open(t.Context(), Config{URL: place})
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if err := s.Migrate(t.Context()); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if n := ask(t, live, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"); n != 0 {
			t.Errorf("%s: %d tables were made in the database that the URL names", kind, n)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := remove(t.Context()); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if ask(t, live, c.count, name) != 0 {
			t.Errorf("%s: it is still there", kind)
		}
	}
}

func TestScratchThatMayNotBe(t *testing.T) {
	live := postgrestest.URL(t)
	u, err := url.Parse(live)
	if err != nil {
		t.Fatal(err)
	}
	role := "n" + strings.TrimPrefix(u.Path, "/carillon_test")
	_, _, err = Scratch(t.Context(), as(t, live, role, "SELECT 1"))
	if err == nil || !strings.Contains(err.Error(), "want a role with CREATEDB, or with CREATE on the database") {
		t.Errorf("got %v", err)
	}
}

func TestScratchForACallerWhoLeft(t *testing.T) {
	live := postgrestest.URL(t)
	const count = "SELECT count(*) FROM pg_database WHERE datname LIKE 'carillon_bench_%' AND datdba = (SELECT oid FROM pg_roles WHERE rolname = current_user)"
	u, err := url.Parse(live)
	if err != nil {
		t.Fatal(err)
	}
	role := "g" + strings.TrimPrefix(u.Path, "/carillon_test")
	own := as(t, live, role, "ALTER ROLE "+role+" CREATEDB") // so that nobody else's are counted
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Scratch(ctx, own); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if n := ask(t, own, count); n != 0 {
		t.Errorf("%d databases were left behind", n)
	}
}
