package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// The second wall is row-level security. The tables belong to the user that the product connects as, and an owner
// bypasses it: what the product does for all tenants costs nothing more. Users' requests run on separate connections,
// as a role that owns nothing and that sees only the rows of the tenant that the connection is set to.
//
// Creations of many requests, of any tenant, share a commit, so they are written by the owner; each row has the
// tenant of its request's credential.
const (
	wallRole    = "carillon_tenant"
	wallSetting = "carillon.tenant"
)

// owned lists the tables that have rows of tenants, and the condition for the rows of one.
const ownedSQL = `
	SELECT c.relname, CASE c.relname
			WHEN 'orders' THEN 'EXISTS (SELECT 1 FROM live v WHERE v.id = orders.execution AND v.lease = orders.token AND v.worker = orders.worker)'
			ELSE CASE c.relname WHEN 'tenants' THEN 'id = ' WHEN 'sessions' THEN 'tenant IS NULL OR tenant = ' ELSE 'tenant = ' END || 'current_setting(''` + wallSetting + `'', true)'
		END
	FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
		AND (c.relname IN ('tenants', 'orders') OR EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant' AND NOT a.attisdropped))
	ORDER BY c.relname`

// extraPolicies restrict the role beyond the rows of its tenant.
var extraPolicies = []struct{ table, name, sql string }{
	{"api_keys", "carillon_role_added", "FOR INSERT TO " + wallRole + " WITH CHECK (role <> 'system')"},
	{"api_keys", "carillon_role_changed", "FOR UPDATE TO " + wallRole + " USING (role <> 'system')"},
	{"api_keys", "carillon_no_drop", "FOR DELETE TO " + wallRole + " USING (false)"}, // the table may be locked
	// Every tenant sees the workers that serve all of them; only an operator of the installation drains or cordons
	// them.
	{"sessions", "carillon_own_changed", "FOR UPDATE TO " + wallRole + " USING (tenant = current_setting('" + wallSetting + "', true))"},
	{"holds", "carillon_of_jobs_added", "FOR INSERT TO " + wallRole + " WITH CHECK (job IS NOT NULL)"},
	{"holds", "carillon_of_jobs_dropped", "FOR DELETE TO " + wallRole + " USING (job IS NOT NULL)"},
	{"executions", "carillon_no_change", "FOR UPDATE TO " + wallRole + " WITH CHECK (false)"},
	{"tenants", "carillon_no_change", "FOR UPDATE TO " + wallRole + " WITH CHECK (false)"}, // its row may be locked
}

// otherGrantsSQL lists what the role needs besides tables: the sequence of the audit log's entries. Nothing else
// draws numbers for it.
const otherGrantsSQL = `
	SELECT format(CASE c.relname WHEN 'audit_seq_seq' THEN 'GRANT USAGE ON SEQUENCE %I TO ` + wallRole + `' ELSE 'REVOKE ALL ON SEQUENCE %I FROM ` + wallRole + `' END, c.relname)
	FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND CASE WHEN c.relkind = 'S'
		THEN (c.relname = 'audit_seq_seq') <> has_sequence_privilege('` + wallRole + `', c.oid, 'USAGE') END
	UNION ALL
	SELECT format('GRANT USAGE ON SCHEMA %I TO ` + wallRole + `', current_schema()) WHERE NOT has_schema_privilege('` + wallRole + `', current_schema(), 'USAGE')`

// raise builds the wall, or its missing parts, and returns why it cannot.
func raise(ctx context.Context, c *pgx.Conn) (why string, err error) {
	var user string
	var exists, member bool
	err = c.QueryRow(ctx, `
		SELECT current_user, EXISTS (SELECT 1 FROM pg_roles WHERE rolname = $1), coalesce((SELECT pg_has_role(current_user, oid, 'MEMBER') FROM pg_roles WHERE rolname = $1), false)`,
		wallRole).Scan(&user, &exists, &member)
	if err != nil {
		return "", err
	}
	how := fmt.Sprintf("as a superuser run: CREATE ROLE %s NOLOGIN; GRANT %s TO %s; and start again", wallRole, wallRole, pgx.Identifier{user}.Sanitize())
	if !exists {
		_, err := c.Exec(ctx, "CREATE ROLE "+wallRole+" NOLOGIN")
		if isCode(err, insufficientPrivilege) {
			return fmt.Sprintf("the database user may not create the role %s; %s", wallRole, how), nil
		}
		if err != nil && !isCode(err, "42710") && !isCode(err, uniqueViolation) { // another database of the server was quicker
			return "", err
		}
	}
	if !member || !exists {
		_, err := c.Exec(ctx, fmt.Sprintf("GRANT %s TO CURRENT_USER", wallRole))
		if isCode(err, insufficientPrivilege) {
			return fmt.Sprintf("the database user is not a member of the role %s; %s", wallRole, how), nil
		}
		if err != nil {
			return "", err
		}
	}
	var bypass bool
	if err := c.QueryRow(ctx, "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = $1", wallRole).Scan(&bypass); err != nil {
		return "", err
	}
	if bypass {
		return fmt.Sprintf("the role %s may pass row-level security; as a superuser run: ALTER ROLE %s NOSUPERUSER NOBYPASSRLS", wallRole, wallRole), nil
	}
	return "", build(ctx, c)
}

// build creates the missing policies, and grants.
func build(ctx context.Context, c *pgx.Conn) error {
	rows, _ := c.Query(ctx, ownedSQL)
	type owned struct{ Table, Rows string }
	tables, err := pgx.CollectRows(rows, pgx.RowToStructByPos[owned])
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		for _, t := range tables {
			var stands bool
			err := tx.QueryRow(ctx, `
				SELECT c.relrowsecurity AND (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname IN ('carillon_all', 'carillon_tenant')) = 2
				FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = $1`, t.Table).Scan(&stands)
			if err != nil {
				return err
			}
			if stands { // creating it again would lock the table
				continue
			}
			name := pgx.Identifier{t.Table}.Sanitize()
			for _, sql := range []string{
				"DROP POLICY IF EXISTS carillon_all ON " + name,
				"DROP POLICY IF EXISTS carillon_tenant ON " + name,
				"CREATE POLICY carillon_all ON " + name + " AS PERMISSIVE TO PUBLIC USING (true) WITH CHECK (true)",
				"CREATE POLICY carillon_tenant ON " + name + " AS RESTRICTIVE TO " + wallRole + " USING (" + t.Rows + ") WITH CHECK (" + t.Rows + ")",
				"ALTER TABLE " + name + " ENABLE ROW LEVEL SECURITY",
			} {
				if _, err := tx.Exec(ctx, sql); err != nil {
					return err
				}
			}
		}
		more, err := policiesMissing(ctx, tx)
		if err != nil {
			return err
		}
		has, err := granted(ctx, tx, wallRole)
		if err != nil {
			return err
		}
		rows, _ := tx.Query(ctx, otherGrantsSQL)
		others, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		for _, sql := range slices.Concat(more, regrant(has, wallRole, asTenant), others) {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
}

// policiesMissing lists the statements that create the missing extra policies.
func policiesMissing(ctx context.Context, c querier) (out []string, err error) {
	rows, _ := c.Query(ctx, "SELECT c.relname || ' ' || p.polname FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid WHERE c.relnamespace = current_schema()::regnamespace")
	there, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, x := range extraPolicies {
		if !slices.Contains(there, x.table+" "+x.name) {
			out = append(out, fmt.Sprintf("CREATE POLICY %s ON %s AS RESTRICTIVE %s", x.name, x.table, x.sql))
		}
	}
	return out, err
}

// standingSQL asks for the schema, whether the role can be assumed, and whether it is restricted and admitted
// everywhere.
const standingSQL = `
	SELECT current_schema(), coalesce((SELECT pg_has_role(current_user, oid, 'MEMBER') AND NOT rolsuper AND NOT rolbypassrls FROM pg_roles WHERE rolname = '` + wallRole + `'), false),
		NOT EXISTS (
			SELECT 1 FROM (` + ownedSQL + `) o(relname, rows) JOIN pg_class c ON c.relname = o.relname AND c.relnamespace = current_schema()::regnamespace
			WHERE NOT c.relrowsecurity OR (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname IN ('carillon_all', 'carillon_tenant')) <> 2
		)`

// standing checks for the wall that a migration has built, and returns why it is missing.
func standing(ctx context.Context, c *pgxpool.Conn) (schema, why string, err error) {
	var role, built bool
	if err := c.QueryRow(ctx, standingSQL).Scan(&schema, &role, &built); err != nil {
		return "", "", err
	}
	holes, err := misgranted(ctx, c, wallRole, asTenant)
	if err != nil {
		return "", "", err
	}
	more, err := policiesMissing(ctx, c)
	if err != nil {
		return "", "", err
	}
	switch {
	case !role:
		why = fmt.Sprintf("the database user is not a member of a role %s that row-level security holds back; carillon migrate up makes it, or says how", wallRole)
	case !built || len(more) > 0:
		why = "not every table has its policy; carillon migrate up makes them"
	case len(holes) > 0:
		why = fmt.Sprintf("the role %s has other rights than it needs on %s; carillon migrate up gives it these", wallRole, strings.Join(holes, ", "))
	}
	return schema, why, nil
}

// wall holds the connections under row-level security.
type wall struct {
	why       string // why there is none; "" if there is
	hot, read *pgxpool.Pool
}

// Wall returns why there is no second wall; "" if it stands.
func (s *database) Wall() string {
	if w := s.wall.Load(); w != nil {
		return w.why
	}
	return "the schema was not looked at yet"
}

// stand opens the connections under row-level security, or records that there is none.
func (s *database) stand(ctx context.Context, schema, why string) error {
	if s.wall.Load() != nil {
		return nil
	}
	w := &wall{why: why}
	if why == "" {
		var err error
		role := map[string]string{"role": wallRole, "search_path": pgx.Identifier{schema}.Sanitize()} // "$user" would be another's
		if w.hot, err = s.open(ctx, s.size.hot, hotSettings, role); err != nil {
			return err
		}
		if w.read, err = s.open(ctx, s.size.read, readSettings, role); err != nil {
			w.hot.Close()
			return err
		}
	}
	if !s.wall.CompareAndSwap(nil, w) && why == "" {
		w.hot.Close()
		w.read.Close()
	}
	return nil
}

// within returns the pool for a context, and f adapted to it: on a connection under row-level security, if the
// context is confined and there is one.
func (s *database) within(ctx context.Context, pool *pgxpool.Pool, f func(context.Context, *pgxpool.Conn) error) (*pgxpool.Pool, func(context.Context, *pgxpool.Conn) error) {
	t, confined := engine.Confined(ctx)
	w := s.wall.Load()
	if !confined || w == nil || w.why != "" {
		return pool, f
	}
	front := w.hot
	if pool == s.read {
		front = w.read
	}
	return front, func(ctx context.Context, c *pgxpool.Conn) error {
		if err := settle(ctx, c, t); err != nil {
			return err
		}
		return f(ctx, c)
	}
}

// settle sets a connection to a tenant, unless it is already.
func settle(ctx context.Context, c *pgxpool.Conn, t tenant.ID) error {
	known := c.Conn().PgConn().CustomData()
	if known[wallSetting] == t {
		return nil
	}
	delete(known, wallSetting)
	if _, err := c.Exec(ctx, "SELECT set_config('"+wallSetting+"', $1, false)", string(t)); err != nil {
		return err
	}
	known[wallSetting] = t
	return nil
}
