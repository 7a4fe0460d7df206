package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// A small installation has one database role: it owns the tables, migrates and serves. A larger one has two: the
// owner, which runs 'carillon migrate up', and the app role, which runs servers and owns nothing: it can change rows,
// not tables.

// identity describes the database role of a store.
type identity struct {
	user     string
	owns     bool // it owns the tables, or there are none yet
	bypasses bool // row-level security does not apply to it
	inherits bool // it inherits the privileges of the role carillon_tenant
}

const identitySQL = `
	SELECT current_user::text, coalesce((SELECT pg_has_role(current_user, c.relowner, 'USAGE') FROM pg_class c WHERE c.oid = to_regclass('carillon_migrations')), true),
		(SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user),
		coalesce((SELECT pg_has_role(current_user, oid, 'USAGE') FROM pg_roles WHERE rolname = '` + wallRole + `'), false)`

func identify(ctx context.Context, c interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (i identity, err error) {
	err = c.QueryRow(ctx, identitySQL).Scan(&i.user, &i.owns, &i.bypasses, &i.inherits)
	return i, err
}

// check returns why a store cannot work with its role.
func (i identity) check() error {
	if i.owns || i.bypasses || !i.inherits {
		return nil
	}
	return fmt.Errorf("%w: the database user %s does not own the tables and inherits the limits of %s, so that it would see no rows; as a superuser run: ALTER ROLE %s NOINHERIT (from PostgreSQL 16 on: GRANT %s TO %s WITH INHERIT FALSE, SET TRUE)",
		engine.ErrSchema, i.user, wallRole, quoted(i.user), wallRole, quoted(i.user))
}

// become records what the store may do with its role. COPY is unavailable to roles under row-level security, whatever
// the policies say.
func (s *Store) become(i identity) error {
	s.noCopy.Store(!i.owns && !i.bypasses)
	return i.check()
}

// serveOnly stands in for Migrate if the tables belong to another role: nothing but tables of days may be missing.
func (s *Store) serveOnly(ctx context.Context, c *pgx.Conn, i identity) error {
	if err := s.check(ctx, c); err != nil {
		return fmt.Errorf("the database user %s does not own the tables: run 'carillon migrate up' as their owner: %w", i.user, err)
	}
	if _, err := prepareDays(ctx, c); err != nil {
		return translate("migrate", err)
	}
	return s.CheckSchema(ctx)
}

// admit gives the app role what servers need: rows of all tables, and membership in the tenants' role, without
// inheriting it.
func admit(ctx context.Context, c *pgx.Conn, app string) error {
	var exists, owner, bypasses, number = false, false, false, 0
	err := c.QueryRow(ctx, `
		SELECT count(*) > 0, coalesce(bool_or(pg_has_role(oid, current_user, 'USAGE')), false), coalesce(bool_or(rolbypassrls), false), current_setting('server_version_num')::int
		FROM pg_roles WHERE rolname = $1`, app).Scan(&exists, &owner, &bypasses, &number)
	if err != nil {
		return err
	}
	role := quoted(app)
	switch {
	case !exists:
		return fmt.Errorf("store.app_role: there is no role %s; as a superuser run: CREATE ROLE %s LOGIN NOINHERIT BYPASSRLS PASSWORD '…'", app, role)
	case owner:
		return fmt.Errorf("store.app_role: %s is the owner of the tables, a member of it, or a superuser; want a role that owns nothing", app)
	}
	has, err := granted(ctx, c, app)
	if err != nil {
		return err
	}
	rows, _ := c.Query(ctx, `
		SELECT format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), $1::text) WHERE NOT has_schema_privilege($1, current_schema(), 'USAGE')
		UNION ALL
		SELECT format('GRANT SELECT, USAGE ON SEQUENCE %I TO %I', relname, $1::text) FROM pg_class
		WHERE relnamespace = current_schema()::regnamespace AND CASE WHEN relkind = 'S' THEN NOT (has_sequence_privilege($1, oid, 'USAGE') AND has_sequence_privilege($1, oid, 'SELECT')) END
		UNION ALL
		SELECT format('GRANT UPDATE ON SEQUENCE tokens TO %I', $1::text) WHERE NOT has_sequence_privilege($1, 'tokens', 'UPDATE') -- to begin a new epoch
		UNION ALL
		SELECT format('GRANT EXECUTE ON FUNCTION carillon_make_day(date) TO %I', $1::text) WHERE NOT has_function_privilege($1, 'carillon_make_day(date)', 'EXECUTE')
		UNION ALL
		SELECT format('GRANT EXECUTE ON FUNCTION carillon_drop_day(date) TO %I', $1::text) WHERE NOT has_function_privilege($1, 'carillon_drop_day(date)', 'EXECUTE')
		UNION ALL
		SELECT format('GRANT EXECUTE ON FUNCTION carillon_leave_day(date, bigint, bigint) TO %I', $1::text) WHERE NOT has_function_privilege($1, 'carillon_leave_day(date, bigint, bigint)', 'EXECUTE')`, app)
	others, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		for _, sql := range append(others, regrant(has, role, asApp)...) {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return join(ctx, c, app, bypasses, number >= 160000)
}

// join makes the app role a member of the tenants' role, which it assumes for users' requests.
func join(ctx context.Context, c *pgx.Conn, app string, bypasses, splits bool) error {
	role := quoted(app)
	var there, member, inherits bool
	ask := func() error {
		return c.QueryRow(ctx, `
			SELECT count(*) > 0, coalesce(bool_or(pg_has_role($1, oid, 'MEMBER')), false), coalesce(bool_or(pg_has_role($1, oid, 'USAGE')), false)
			FROM pg_roles WHERE rolname = '`+wallRole+`'`, app).Scan(&there, &member, &inherits)
	}
	if err := ask(); err != nil || !there { // row-level security is unavailable, as raise has said
		return err
	}
	grant := fmt.Sprintf("GRANT %s TO %s", wallRole, role)
	if splits {
		grant += " WITH INHERIT FALSE, SET TRUE"
	}
	try := func(sql string) error {
		_, err := c.Exec(ctx, sql)
		if isCode(err, insufficientPrivilege) {
			return fmt.Errorf("store.app_role: the database user may not make %s a member of %s; as a superuser run: %s", app, wallRole, sql)
		}
		return err
	}
	if !member || inherits && splits && !bypasses {
		if err := try(grant); err != nil {
			return err
		}
		if err := ask(); err != nil {
			return err
		}
	}
	if inherits && !bypasses {
		return try(fmt.Sprintf("ALTER ROLE %s NOINHERIT", role))
	}
	return nil
}

func quoted(role string) string { return pgx.Identifier{role}.Sanitize() }
