package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
)

func walled(t *testing.T, where string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Config{URL: where})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// fill gives a tenant a row in as many tables as the port lets it.
func fill(t *testing.T, s *Store, id tenant.ID) job.Job {
	t.Helper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	if err := s.CreateTenant(t.Context(), tenant.Tenant{ID: id, Name: string(id), Tier: tenant.Free, CreatedAt: now}, nil); err != nil {
		t.Fatal(err)
	}
	j := job.Job{
		ID: job.ID(uuid.Must(uuid.NewV7())), Tenant: id, State: job.Active, CreatedAt: now, UpdatedAt: now, Revision: 1,
		Definition: job.Definition{Name: "j", Schedule: job.Schedule{Type: job.Interval, Every: time.Hour}, Target: job.Target{Kind: job.Simulate, WorkKind: "noop"}, Queue: "default", Priority: 5},
	}
	j.NextRunAt = now.Add(time.Hour)
	e := j.Fire(job.ExecutionID(uuid.Must(uuid.NewV7())), now, now)
	out, err := s.CreateJobs(t.Context(), []engine.Creation{{
		Tenant: id, Jobs: []job.Job{j}, Executions: []job.Execution{e}, Idempotency: engine.Idempotency{Key: "k", Answer: []byte("{}"), Until: now.Add(time.Hour)},
		Entry: &audit.Entry{Tenant: id, At: now, Action: "job.create"},
	}})
	if err != nil || out[0].Over {
		t.Fatal(out, err)
	}
	for _, err := range []error{
		s.PutCalendar(t.Context(), engine.Calendar{Tenant: id, Name: "c", Spec: []byte("{}"), UpdatedAt: now}, nil),
		s.SetLimit(t.Context(), job.Limit{Tenant: id, Max: 5}, nil),
		second(s.AddSigningSecret(t.Context(), engine.SigningSecret{Tenant: id, ID: "s", Sealed: []byte("x"), CreatedAt: now}, now, engine.Idempotency{}, nil)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.PutSecret(t.Context(), engine.Secret{Tenant: id, Name: "s", Key: "k", Sealed: []byte("x"), CreatedAt: now, UpdatedAt: now}, 9, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CountJobs(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return j
}

// A statement that has lost its predicate finds nothing of another tenant's, in any table, and cannot write there either.
func TestTheWallHoldsWithoutPredicates(t *testing.T) {
	s := walled(t, postgrestest.URL(t))
	if why := s.Wall(); why != "" {
		t.Fatal(why)
	}
	fill(t, s, "a")
	theirs := fill(t, s, "b")
	var tables []string
	err := s.look(t.Context(), "test", func(ctx context.Context, c *pgxpool.Conn) (err error) {
		rows, _ := c.Query(ctx, "SELECT relname::text FROM ("+ownedSQL+") x(relname, expression)")
		tables, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil || len(tables) < 18 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	ctx := engine.Confine(t.Context(), "a")
	count := func(ctx context.Context, sql string) (n int) {
		t.Helper()
		for _, run := range []func(context.Context, string, func(context.Context, *pgxpool.Conn) error) error{s.look, s.write} {
			if err := run(ctx, "test", func(ctx context.Context, c *pgxpool.Conn) error { return c.QueryRow(ctx, sql).Scan(&n) }); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
		return n
	}
	seen := 0
	for _, table := range tables {
		column := "tenant"
		switch table {
		case "tenants":
			column = "id"
		case "orders": // which names no tenant: TestTheWallHidesWhatNamesNoTenant
			continue
		}
		if tenantMay[table].read == "" { // requests of users do not read it at all
			continue
		}
		foreign := fmt.Sprintf("SELECT count(*) FROM %s WHERE %s IS DISTINCT FROM 'a' AND %s IS NOT NULL", table, column, column)
		if n := count(ctx, foreign); n != 0 {
			t.Errorf("%s: %d rows of others", table, n)
		}
		if n := count(t.Context(), foreign); n > 0 { // the owner does see them
			seen++
		}
	}
	if seen < 11 {
		t.Errorf("only %d tables had rows of others to hide", seen)
	}
	if n := count(ctx, "SELECT count(*) FROM jobs"); n != 1 {
		t.Errorf("%d jobs of its own", n)
	}
	if n := count(engine.Confine(t.Context(), "b"), "SELECT count(*) FROM jobs"); n != 1 { // on the same connections
		t.Errorf("%d jobs of the other's", n)
	}
	if n := count(engine.Unconfined(ctx), "SELECT count(*) FROM jobs"); n != 2 {
		t.Errorf("%d jobs for the engine", n)
	}
	for _, sql := range []string{
		"UPDATE jobs SET tenant = 'b'", "INSERT INTO calendars (tenant, name, spec, updated_at) VALUES ('b', 'x', '', now())",
		"UPDATE audit SET by_whom = 'x'", "DELETE FROM audit", "SELECT 1 FROM installation", "DELETE FROM executions_" + time.Now().UTC().Format("20060102"),
	} {
		err := s.write(ctx, "test", func(ctx context.Context, c *pgxpool.Conn) error { _, err := c.Exec(ctx, sql); return err })
		if !isCode(err, insufficientPrivilege) {
			t.Errorf("%s: %v", sql, err)
		}
	}
	err = s.write(ctx, "test", func(ctx context.Context, c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, "DELETE FROM calendars")
		return err
	})
	if n := count(t.Context(), "SELECT count(*) FROM calendars WHERE tenant = 'b'"); err != nil || n != 1 {
		t.Errorf("%v, %d calendars of the other's are left", err, n)
	}
	// The port works in front of the wall, and finds nothing behind it.
	if _, err := s.Job(ctx, "b", engine.Ref{ID: theirs.ID}); err == nil {
		t.Error("found another's job")
	}
	if _, err := s.DeleteJob(engine.Confine(t.Context(), "b"), "b", engine.Deletion{Job: theirs.ID, AsOf: time.Now()}); err != nil {
		t.Errorf("its own: %v", err)
	}
	if err := s.Migrate(t.Context()); err != nil || s.Wall() != "" {
		t.Errorf("again: %v, %s", err, s.Wall())
	}
}

// Where the database's user may not make roles, all works, and it is said that the wall is down.
func TestWithoutTheRightToMakeRoles(t *testing.T) {
	where := postgrestest.URL(t)
	u, err := url.Parse(where)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/") + "_user"
	c, err := pgx.Connect(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	for _, sql := range []string{
		"CREATE ROLE " + name + " LOGIN PASSWORD 'x'", "GRANT ALL ON SCHEMA public TO " + name, "GRANT CREATE ON DATABASE " + strings.TrimPrefix(u.Path, "/") + " TO " + name,
	} {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		ctx := context.Background()
		if c, err := pgx.Connect(ctx, where); err == nil {
			_, _ = c.Exec(ctx, "DROP OWNED BY "+name+" CASCADE")
			_, _ = c.Exec(ctx, "DROP ROLE "+name)
			_ = c.Close(ctx)
		}
	})
	u.User = url.UserPassword(name, "x")
	s := walled(t, u.String())
	if why := s.Wall(); !strings.Contains(why, wallRole) || !strings.Contains(why, "GRANT") {
		t.Errorf("%q", why)
	}
	fill(t, s, "a")
	if n := 0; s.look(engine.Confine(t.Context(), "a"), "test", func(ctx context.Context, c *pgxpool.Conn) error {
		return c.QueryRow(ctx, "SELECT count(*) FROM jobs").Scan(&n)
	}) != nil || n != 1 {
		t.Errorf("%d jobs", n)
	}
	// The operator raises it.
	_, _ = c.Exec(t.Context(), "CREATE ROLE "+wallRole+" NOLOGIN") // another test may have
	if _, err := c.Exec(t.Context(), "GRANT "+wallRole+" TO "+name); err != nil {
		t.Fatal(err)
	}
	up := walled(t, u.String())
	if why := up.Wall(); why != "" {
		t.Error(why)
	}
	fill(t, up, "b")
	n := 0
	err = up.look(engine.Confine(t.Context(), "a"), "test", func(ctx context.Context, c *pgxpool.Conn) error {
		return c.QueryRow(ctx, "SELECT count(*) FROM jobs").Scan(&n)
	})
	if err != nil || n != 1 {
		t.Errorf("%d jobs, %v", n, err)
	}
}

// A server that does not migrate finds the wall that whoever migrated has built, and says so if there is none.
func TestTheWallWithoutMigrating(t *testing.T) {
	where := postgrestest.URL(t)
	first := walled(t, where)
	fill(t, first, "a")
	theirs := fill(t, first, "b")
	open := func() *Store {
		t.Helper()
		s, err := Open(t.Context(), Config{URL: where})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		if err := s.CheckSchema(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	if why := s.Wall(); why != "" {
		t.Fatal(why)
	}
	var n int
	look := func(ctx context.Context) int {
		t.Helper()
		err := s.look(ctx, "test", func(ctx context.Context, c *pgxpool.Conn) error {
			return c.QueryRow(ctx, "SELECT count(*) FROM jobs WHERE id = $1", [16]byte(theirs.ID)).Scan(&n)
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if a, all := look(engine.Confine(t.Context(), "a")), look(t.Context()); a != 0 || all != 1 {
		t.Errorf("a tenant sees %d jobs of another, the product %d", a, all)
	}
	exec(t, direct(t, first), "DROP POLICY carillon_tenant ON jobs")
	if why := open().Wall(); !strings.Contains(why, "carillon migrate up") {
		t.Errorf("without a policy: %q", why)
	}
}

// What a change of a secret leaves behind is written within the wall, too.
func TestPastSecretsWithinTheWall(t *testing.T) {
	s := walled(t, postgrestest.URL(t))
	if s.Wall() != "" {
		t.Skip(s.Wall())
	}
	fill(t, s, "mine")
	fill(t, s, "other")
	ctx := engine.Confine(t.Context(), "mine")
	now := time.Now().UTC().Truncate(time.Microsecond)
	if _, err := s.PutSecret(ctx, engine.Secret{Tenant: "mine", Name: "s", Key: "k", Sealed: []byte("y"), CreatedAt: now, UpdatedAt: now}, 9, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteSecret(ctx, "mine", "s", nil); err != nil {
		t.Fatal(err)
	}
	if got, err := s.PastSecrets(ctx, "mine", 9); err != nil || len(got) != 2 || string(got[0].Sealed) != "y" || string(got[1].Sealed) != "x" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := s.PutSecret(t.Context(), engine.Secret{Tenant: "other", Name: "s", Key: "k", Sealed: []byte("z"), CreatedAt: now, UpdatedAt: now}, 9, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := s.PastSecrets(ctx, "other", 9); err != nil || len(got) != 0 {
		t.Errorf("another tenant's: %+v, %v", got, err)
	}
}

// Badges are made and revoked within the wall; who looks at one is nobody's, and stands outside.
func TestBadgesWithinTheWall(t *testing.T) {
	s := walled(t, postgrestest.URL(t))
	if s.Wall() != "" {
		t.Skip(s.Wall())
	}
	ours, theirs := fill(t, s, "mine"), fill(t, s, "other")
	now := time.Now().UTC().Truncate(time.Microsecond)
	foreign := engine.Badge{ID: "b", Tenant: "other", Job: theirs.ID, Hash: [32]byte{1}, CreatedAt: now}
	if _, err := s.AddBadge(t.Context(), foreign, 9, engine.Idempotency{}, nil); err != nil {
		t.Fatal(err)
	}
	ctx := engine.Confine(t.Context(), "mine")
	own := engine.Badge{ID: "b", Tenant: "mine", Job: ours.ID, Hash: [32]byte{2}, CreatedAt: now}
	if _, err := s.AddBadge(ctx, own, 9, engine.Idempotency{}, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := s.FindBadges(ctx, "mine", engine.Page{Limit: 5}); err != nil || len(got.Rows) != 1 || got.Rows[0] != own {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := s.Badge(ctx, foreign.Hash); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("another tenant's: %+v, %v", got, err)
	}
	if got, err := s.DeleteBadge(ctx, "other", foreign.ID, nil); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("another tenant's: %+v, %v", got, err)
	}
	if got, err := s.DeleteBadge(ctx, "mine", own.ID, nil); err != nil || got != own {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := s.Badge(t.Context(), foreign.Hash); err != nil || got != foreign {
		t.Errorf("%+v, %v", got, err)
	}
}

func second[T any](_ T, err error) error { return err }
