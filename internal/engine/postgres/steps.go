package postgres

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

// A step runs in one transaction and holds every lock until it ends. Over a large table that can keep running servers from writing
// for seconds. Such a step is written in parts: a line "-- part: what it does" begins each, and each is a transaction of its own, or
// one statement that cannot be in any, such as CREATE INDEX CONCURRENTLY. So no lock lasts longer than one part.
//
// A step that was killed begins again with its first part. So every part must be safe to repeat: IF NOT EXISTS, a condition in
// WHERE, VALIDATE CONSTRAINT.

var (
	partMark   = regexp.MustCompile(`(?m)^-- part: .*$`)
	concurrent = regexp.MustCompile(`(?i)\bINDEX\s+CONCURRENTLY\s+IF\s+NOT\s+EXISTS\s+(\w+)`)
)

// parts returns the texts of a step's parts; none: the step is one transaction.
func parts(m engine.Migration) ([]string, error) {
	all := partMark.Split(m.SQL, -1)
	for line := range strings.Lines(all[0]) {
		if line = strings.TrimSpace(line); len(all) > 1 && line != "" && !strings.HasPrefix(line, "--") {
			return nil, fmt.Errorf("%q comes before the first part; want every statement of a step in parts below a line \"-- part: …\"", line)
		}
	}
	return all[1:], nil
}

// applyInParts applies a step part by part, and reports whether it has any.
func applyInParts(ctx context.Context, c *pgx.Conn, m engine.Migration) (bool, error) {
	all, err := parts(m)
	if err != nil || len(all) == 0 {
		return false, err
	}
	for _, sql := range all {
		indexes := concurrent.FindAllStringSubmatch(sql, -1)
		for _, x := range indexes {
			if err := dropHalfBuilt(ctx, c, x[1]); err != nil {
				return true, err
			}
		}
		take := func() error {
			_, err := c.PgConn().Exec(ctx, sql).ReadAll()
			return err
		}
		if len(indexes) > 0 {
			err = unhurried(ctx, c, take)
		} else {
			err = locking(ctx, c, take)
		}
		if err != nil {
			return true, err
		}
		if err := failpoint.Hit("migrate.midStep"); err != nil {
			return true, err
		}
	}
	return true, noteStep(ctx, c, m)
}

// dropHalfBuilt drops an index that a CREATE INDEX CONCURRENTLY left invalid when it was killed: IF NOT EXISTS would keep it.
func dropHalfBuilt(ctx context.Context, c *pgx.Conn, name string) error {
	var invalid bool
	err := c.QueryRow(ctx, "SELECT count(*) > 0 FROM pg_index WHERE indexrelid = to_regclass($1) AND NOT indisvalid", name).Scan(&invalid)
	if err != nil || !invalid {
		return err
	}
	return unhurried(ctx, c, func() error {
		_, err := c.Exec(ctx, "DROP INDEX CONCURRENTLY "+pgx.Identifier{name}.Sanitize())
		return err
	})
}

// unhurried runs f, which builds or drops an index concurrently: it waits for the transactions of others, and they do not wait for it.
func unhurried(ctx context.Context, c *pgx.Conn, f func() error) error {
	if err := setLockTimeout(ctx, c, tableWait); err != nil {
		return err
	}
	return f()
}
