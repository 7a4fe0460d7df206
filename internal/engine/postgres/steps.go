package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

// A step's text runs in one transaction, and holds each lock until that ends. On large tables some steps would so keep servers, which
// run on, from writing for seconds. These run in parts instead, to the same end: none holds a lock that keeps writers out for longer
// than it takes to change the catalog. The step is written down at the end. Killed before that it is begun again, and what is done is found done.

// large is from how many rows on a table is large: below, a step's text takes well under a second.
const large = 50_000

// inParts are the steps that run in parts where one of the tables is large.
var inParts = map[int]struct {
	tables []string
	run    func(context.Context, *pgx.Conn) error
}{
	19: {[]string{"jobs", "dead_letters"}, listsInParts},
	23: {[]string{"secrets"}, keysInParts},
}

// applyInParts takes a step in parts, if it is one for that, and reports whether it was.
func applyInParts(ctx context.Context, c *pgx.Conn, m engine.Migration) (bool, error) {
	step, ok := inParts[m.Version]
	if !ok {
		return false, nil
	}
	needs := false
	for _, table := range step.tables {
		few, err := isFew(ctx, c, table)
		if err != nil {
			return false, err
		}
		needs = needs || !few
	}
	if !needs {
		return false, nil
	}
	if err := step.run(ctx, c); err != nil {
		return true, err
	}
	if err := failpoint.Hit("migrate.midStep"); err != nil {
		return true, err
	}
	return true, noteStep(ctx, c, m)
}

// isFew reports whether a table has few rows, by counting no more than these.
func isFew(ctx context.Context, c rower, table string) (few bool, err error) {
	err = c.QueryRow(ctx, fmt.Sprintf("SELECT count(*) <= %d FROM (SELECT FROM %s LIMIT %d) r", large, pgx.Identifier{table}.Sanitize(), large+1)).Scan(&few)
	return few, err
}

// listsInParts makes the indexes of step 19 without keeping writers out.
func listsInParts(ctx context.Context, c *pgx.Conn) error {
	for _, x := range []struct{ name, on string }{
		{"jobs_name", "jobs (tenant, name, id)"},
		{"jobs_aside", "jobs (tenant, state, id) WHERE state IN (2, 4)"},
		{"jobs_kind", "jobs (tenant, kind, id) WHERE kind <> 1"},
		{"dead_letters_reason", "dead_letters (tenant, reason, at, execution)"},
	} {
		var there, valid bool
		err := c.QueryRow(ctx, "SELECT count(*) > 0, coalesce(bool_and(indisvalid), false) FROM pg_index WHERE indexrelid = to_regclass($1)", x.name).Scan(&there, &valid)
		if err != nil {
			return err
		}
		if valid {
			continue
		}
		if there { // of one who was killed
			if _, err := c.Exec(ctx, "DROP INDEX CONCURRENTLY "+x.name); err != nil {
				return err
			}
		}
		if _, err := c.Exec(ctx, "CREATE INDEX CONCURRENTLY "+x.name+" ON "+x.on); err != nil {
			return err
		}
	}
	return nil
}

const credentialsKey = "secrets_tenant_job_fkey"

// keysInParts makes the keys of step 23 anew, each table for itself. The credentials' reference to their jobs, which stands in the way of
// the jobs' key, is put back unchecked, and checked while others write.
func keysInParts(ctx context.Context, c *pgx.Conn) error {
	for _, table := range []string{"dead_letters", "operations", "tenant_minutes", "depths", "job_months", "failures"} {
		if err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error { return remakeKey(ctx, tx, table) }); err != nil {
			return err
		}
	}
	few, err := isFew(ctx, c, "jobs")
	if err != nil {
		return err
	}
	if few {
		err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "LOCK TABLE jobs, secrets IN ACCESS EXCLUSIVE MODE"); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "ALTER TABLE secrets DROP CONSTRAINT IF EXISTS "+credentialsKey); err != nil {
				return err
			}
			if err := remakeKey(ctx, tx, "jobs"); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "ALTER TABLE secrets ADD CONSTRAINT "+credentialsKey+" FOREIGN KEY (tenant, job) REFERENCES jobs (tenant, id) ON DELETE CASCADE NOT VALID")
			return err
		})
		if err != nil {
			return err
		}
	}
	_, err = c.Exec(ctx, "ALTER TABLE secrets VALIDATE CONSTRAINT "+credentialsKey) // does nothing where it is
	return err
}

// remakeKey makes a table's key anew, after its other indexes, unless the table is large.
func remakeKey(ctx context.Context, tx pgx.Tx, table string) error {
	name := pgx.Identifier{table}.Sanitize()
	if _, err := tx.Exec(ctx, "LOCK TABLE "+name+" IN ACCESS EXCLUSIVE MODE"); err != nil {
		return err
	}
	few, err := isFew(ctx, tx, table)
	if err != nil || !few {
		return err
	}
	var key, is string
	if err := tx.QueryRow(ctx, "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = $1::regclass AND contype = 'p'", table).Scan(&key, &is); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, fmt.Sprintf("ALTER TABLE %s DROP CONSTRAINT %s, ADD CONSTRAINT %[2]s %s", name, pgx.Identifier{key}.Sanitize(), is))
	return err
}
