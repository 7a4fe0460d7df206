package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
)

// asTenantOf is a connection of the role that user requests run with, set to a tenant.
func asTenantOf(t *testing.T, s *Store, id tenant.ID) *pgx.Conn {
	t.Helper()
	c := direct(t, s)
	exec(t, c, "SET ROLE "+wallRole)
	exec(t, c, "SELECT set_config('"+wallSetting+"', $1, false)", string(id))
	return c
}

// attemptIt runs a statement, takes it back, and says how it went and how many rows it changed.
func attemptIt(t *testing.T, c *pgx.Conn, sql string) (changed int64, err error) {
	t.Helper()
	exec(t, c, "BEGIN")
	tag, err := c.Exec(t.Context(), sql)
	exec(t, c, "ROLLBACK")
	return tag.RowsAffected(), err
}

// The role of user requests may do to each table what was decided, column by column, and nothing else. A table that nobody
// has decided on fails here.
func TestTheWallIsVertical(t *testing.T) {
	s := walled(t, postgrestest.URL(t))
	if why := s.Wall(); why != "" {
		t.Fatal(why)
	}
	fill(t, s, "a")
	c := asTenantOf(t, s, "a")
	rows, _ := direct(t, s).Query(t.Context(), `
		SELECT c.relname::text, array_agg(a.attname::text ORDER BY a.attnum) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition GROUP BY c.relname`)
	type table struct {
		Name    string
		Columns []string
	}
	tables, err := pgx.CollectRows(rows, pgx.RowToStructByPos[table])
	if err != nil || len(tables) < 40 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	rows, _ = direct(t, s).Query(t.Context(), `
		SELECT c.relname::text FROM pg_class c JOIN pg_policy p ON p.polrelid = c.oid
		WHERE c.relrowsecurity AND p.polname = 'carillon_tenant' AND NOT p.polpermissive AND p.polcmd = '*' AND p.polroles = ARRAY(SELECT oid FROM pg_roles WHERE rolname = $1)`, wallRole)
	held, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	may := func(columns, column string) bool {
		return columns == every || slices.Contains(strings.Fields(columns), column)
	}
	for _, x := range tables {
		want, decided := tenantMay[x.Name]
		if !decided {
			t.Errorf("nobody has decided what user requests may do to the table %s: see tenantMay", x.Name)
			continue
		}
		is := func(sql string, want bool) {
			t.Helper()
			if _, err := attemptIt(t, c, sql); isCode(err, insufficientPrivilege) == want && !strings.Contains(fmt.Sprint(err), "row-level security") {
				t.Errorf("%s: %v; want it allowed: %v", sql, err, want)
			}
		}
		for _, col := range x.Columns {
			is(fmt.Sprintf("SELECT %s FROM %s LIMIT 1", col, x.Name), may(want.read, col))
			is(fmt.Sprintf("INSERT INTO %s (%s) VALUES (NULL)", x.Name, col), may(want.add, col))
			is(fmt.Sprintf("UPDATE %s SET %s = NULL WHERE false", x.Name, col), may(want.change, col))
		}
		is("DELETE FROM "+x.Name+" WHERE false", want.drop)
		is("TRUNCATE "+x.Name+" CASCADE", false)
		if x.Name == "audit_sealed" { // one number, which is of no tenant: they read it
			want.read = ""
		}
		if want != (allowed{}) && !slices.Contains(held, x.Name) {
			t.Errorf("user requests may do something to the table %s, and no policy keeps them to the rows of their tenant", x.Name)
		}
	}
	for name := range tenantMay {
		if !slices.ContainsFunc(tables, func(x table) bool { return x.Name == name }) {
			t.Errorf("tenantMay names the table %s, which is not there", name)
		}
	}
	for _, sql := range []string{
		"SELECT nextval('tokens')", "SELECT carillon_make_day('2040-01-01')", "CREATE TABLE x ()", "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
		"DROP TABLE jobs", "ALTER TABLE jobs DISABLE ROW LEVEL SECURITY", "DROP POLICY carillon_tenant ON jobs", "SELECT 1 FROM executions_" + time.Now().UTC().Format("20060102"),
		"ALTER TABLE api_keys DISABLE TRIGGER ALL",
	} {
		if _, err := attemptIt(t, c, sql); !isCode(err, insufficientPrivilege) {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// Tables whose rows name no tenant, or several, show nothing of another's, and take nothing for it.
func TestTheWallHidesWhatNamesNoTenant(t *testing.T) {
	s := walled(t, postgrestest.URL(t))
	fill(t, s, "a")
	theirs := leaseMany(t, s, 2) // of the tenant default
	must[[]engine.Drawn](t)(s.Draw(t.Context(), []engine.Draw{{Bucket: "group/0123456789abcdef", Rate: job.Rate{Count: 1, Per: time.Hour, Burst: 1}, N: 1}}))
	must[engine.Cancelled](t)(s.Cancel(t.Context(), tenant.Default, theirs[0].Execution, "", nil))
	owner := direct(t, s)
	for _, table := range []string{"leases", "buckets", "orders"} {
		if n := one[int](t, owner, "SELECT count(*) FROM "+table); n == 0 {
			t.Errorf("the table %s has no row to hide", table)
		}
	}
	c := asTenantOf(t, s, "a")
	worker := one[string](t, owner, "SELECT worker::text FROM live WHERE id = $1", [16]byte(theirs[1].Execution))
	tell := fmt.Sprintf("INSERT INTO orders (worker, execution, token, kind, at) SELECT '%s', '%s', %d, 2, now()", worker, theirs[1].Execution, theirs[1].Token)
	for _, sql := range []string{"SELECT 1 FROM leases", "SELECT 1 FROM buckets", "SELECT 1 FROM orders", tell} {
		if n, err := attemptIt(t, c, sql); !isCode(err, insufficientPrivilege) {
			t.Errorf("%s: %d rows, %v", sql, n, err)
		}
	}
	if n, err := attemptIt(t, asTenantOf(t, s, tenant.Default), tell); err != nil || n != 1 {
		t.Errorf("its own: %d, %v", n, err)
	}
	// What requests of users need of these tables, the port answers: of their own.
	for id, want := range map[tenant.ID]int{"a": 0, tenant.Default: 2} {
		ctx := engine.Confine(t.Context(), id)
		if rs := must[[]engine.Running](t)(s.Running(ctx, nil)); len(rs) != want {
			t.Errorf("%d run for %s, want %d", len(rs), id, want)
		}
		if ds := must[[]engine.Drawn](t)(s.Draw(ctx, []engine.Draw{{Bucket: "group/0123456789abcdef", Rate: job.Rate{Count: 1, Per: time.Hour, Burst: 1}}})); ds[0].Wait == 0 {
			t.Errorf("%s sees a full bucket", id)
		}
		if _, err := s.Draw(ctx, []engine.Draw{{Bucket: "x", Rate: job.Rate{Count: 1, Per: time.Hour, Burst: 1}, N: 1}}); !isCode(err, insufficientPrivilege) {
			t.Errorf("%s draws: %v", id, err)
		}
	}
	if st, err := s.Cancel(engine.Confine(t.Context(), tenant.Default), tenant.Default, theirs[1].Execution, "", nil); err != nil || st.Status.Final() {
		t.Errorf("cancels its own: %v, %v", st, err)
	}
}

// What an admin's request, gone astray, could make itself more powerful with.
func TestTheWallHoldsAgainstEscalation(t *testing.T) {
	s := walled(t, postgrestest.URL(t))
	j := fill(t, s, "a")
	if _, err := s.DeleteJob(t.Context(), "a", engine.Deletion{Job: j.ID, AsOf: j.CreatedAt}); err != nil { // which makes history
		t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	for i, role := range []tenant.Role{tenant.Admin, tenant.System} {
		k := engine.Key{ID: string(role), Tenant: "a", Role: role, Hash: [32]byte{byte(i + 1)}, CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
		if _, err := s.AddKey(t.Context(), "a", k, 9, engine.Idempotency{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	owner := direct(t, s)
	leaseMany(t, s, 1)
	if n := one[int](t, owner, "SELECT count(*) FROM sessions WHERE tenant IS NULL"); n == 0 {
		t.Error("there is no worker that serves all tenants")
	}
	exec(t, owner, "INSERT INTO api_keys (id, tenant, role, name, hash, created_at, revoked_at) VALUES ('revoked', 'a', 'admin', '', 'x', now(), now())")
	c := asTenantOf(t, s, "a")
	for _, sql := range []string{
		"UPDATE api_keys SET role = 'system'",
		"UPDATE api_keys SET role = 'system' WHERE id = 'admin'",
		"UPDATE api_keys SET tenant = 'b'",
		"UPDATE api_keys SET hash = '\\x00'",
		"UPDATE api_keys SET expires_at = NULL WHERE id = 'admin'",
		"UPDATE api_keys SET expires_at = expires_at + interval '1 second' WHERE id = 'admin'",
		"UPDATE api_keys SET revoked_at = NULL WHERE id = 'revoked'",
		"INSERT INTO api_keys (id, tenant, role, name, hash, created_at) VALUES ('x', 'a', 'system', '', 'y', now())",
		"INSERT INTO api_keys (id, tenant, role, name, hash, created_at) VALUES ('x', 'b', 'viewer', '', 'y', now())",
		"INSERT INTO api_keys (id, tenant, role, name, hash, created_at) VALUES ('admin', 'a', 'system', '', 'y', now()) ON CONFLICT (id) DO UPDATE SET name = ''",
		"INSERT INTO sign_ins SELECT * FROM sign_ins",
		"UPDATE tenants SET tier = 'enterprise'", "UPDATE tenants SET quotas = '{}'", "UPDATE tenants SET reach = '0.0.0.0/0'", "UPDATE tenants SET name = 'x'",
		"INSERT INTO tenants (id, name, tier, quotas, created_at) VALUES ('x', '', 'free', '{}', now())",
		"UPDATE audit SET by_whom = 'x'", "DELETE FROM audit", "INSERT INTO audit (seq, at, tenant, action) VALUES (1, now(), 'a', 'x')",
		"DELETE FROM audit_seals", "UPDATE audit_sealed SET upto = 0",
		"SELECT value FROM installation", "INSERT INTO installation VALUES ('x', '\\x00')",
		"UPDATE live SET lease = 1", "UPDATE live SET tenant = 'b'", "UPDATE live SET worker = id", "UPDATE jobs SET tenant = 'b'",
		"UPDATE executions SET tally = NOT tally", "UPDATE executions SET status = 10", "DELETE FROM executions",
		"UPDATE sessions SET secret = 'x'", "UPDATE sessions SET tenant = NULL",
		"UPDATE operations SET spec = ''", "UPDATE operations SET kind = 'delete'",
	} {
		if _, err := attemptIt(t, c, sql); !isCode(err, insufficientPrivilege) {
			t.Errorf("%s: %v", sql, err)
		}
	}
	for sql, want := range map[string]int64{
		"UPDATE api_keys SET revoked_at = now() WHERE id = 'system'": 0, // which only system may
		"DELETE FROM api_keys": 0,
		"UPDATE sessions SET cordoned = true WHERE tenant IS NULL":                             0, // they serve all tenants
		"UPDATE api_keys SET revoked_at = now() WHERE id = 'admin'":                            1,
		"UPDATE api_keys SET expires_at = expires_at - interval '1 second' WHERE id = 'admin'": 1,
	} {
		if n, err := attemptIt(t, c, sql); err != nil || n != want {
			t.Errorf("%s: %d rows, %v; want %d", sql, n, err, want)
		}
	}
	for _, sql := range []string{"UPDATE api_keys SET role = 'system' WHERE id = 'admin'", "UPDATE api_keys SET revoked_at = NULL WHERE id = 'revoked'"} {
		if _, err := attemptIt(t, owner, sql); !isCode(err, insufficientPrivilege) {
			t.Errorf("the owner: %s: %v", sql, err)
		}
	}
}

// An installation of a version before, in which the role had all rights on all tables, loses what is too much.
func TestTheWallTakesBack(t *testing.T) {
	where := postgrestest.URL(t)
	s := walled(t, where)
	exec(t, direct(t, s), "GRANT SELECT, INSERT, UPDATE, DELETE ON servers, api_keys, leases TO "+wallRole+"; GRANT UPDATE (tenant) ON jobs TO "+wallRole)
	loose, err := Open(t.Context(), Config{URL: where})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { loose.Close() })
	if err := loose.CheckSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	if why := loose.Wall(); !strings.Contains(why, "api_keys, jobs, leases, servers") {
		t.Errorf("a server that does not migrate says %q", why)
	}
	if why := walled(t, where).Wall(); why != "" {
		t.Error(why)
	}
	if bad, err := misgranted(context.Background(), direct(t, s), wallRole, asTenant); err != nil || len(bad) > 0 {
		t.Errorf("left: %v, %v", bad, err)
	}
}
