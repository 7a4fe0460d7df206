package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

//go:embed migrations/*.sql
var files embed.FS

func migrations() ([]engine.Migration, error) { return engine.Migrations(files, "migrations") }

const (
	migrationLock = 0x4361_7269            // the first half of the advisory lock's key; the other is the schema's name
	migrationWait = time.Minute            // for another process that migrates
	tableWait     = 5 * time.Second        // for a table that others hold
	tableTry      = 300 * time.Millisecond // of it at a stretch
	tablePause    = 200 * time.Millisecond // between tries
	stepTime      = 10 * time.Minute
)

// Migrate applies the steps that are missing, each in one transaction, and
// prepares the tables of the coming days. Of two at once one waits for the other.
func (s *Store) Migrate(ctx context.Context) error {
	cfg := s.admin.Copy()
	cfg.RuntimeParams["statement_timeout"] = setting(stepTime)
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return translate("migrate", err)
	}
	defer c.Close(context.WithoutCancel(ctx)) // which also gives the lock back
	me, err := identify(ctx, c)
	if err != nil {
		return translate("migrate", err)
	}
	if err := s.become(me); err != nil {
		return err
	}
	if !me.owns {
		return s.serveOnly(ctx, c, me)
	}
	if err := setLockTimeout(ctx, c, migrationWait); err != nil {
		return translate("migrate", err)
	}
	_, err = c.Exec(ctx, "SELECT pg_advisory_lock($1, hashtext(current_schema()))", migrationLock)
	if isCode(err, lockNotAvailable) {
		return fmt.Errorf("migrate: %w: another process has been migrating this database for %v; want it to end, or its connection ended", engine.ErrUnavailable, migrationWait)
	}
	if err != nil {
		return translate("migrate", err)
	}
	if err := setLockTimeout(ctx, c, tableWait); err != nil {
		return translate("migrate", err)
	}
	done, err := applied(ctx, c)
	if err != nil {
		return translate("migrate", err)
	}
	all, err := migrations()
	if err != nil {
		return err
	}
	pending, err := engine.PendingMigrations(all, done)
	if err != nil {
		return err
	}
	for _, m := range pending {
		if err := apply(ctx, c, m); err != nil {
			return translate(fmt.Sprintf("migration %04d (%s)", m.Version, m.Name), err)
		}
	}
	err = locking(ctx, c, func() error {
		_, err := prepareDays(ctx, c)
		return err
	})
	if err != nil {
		return translate("migrate", err)
	}
	if err := s.recognize(ctx, c); err != nil {
		return translate("migrate", err)
	}
	var schema string
	if err := c.QueryRow(ctx, "SELECT current_schema()").Scan(&schema); err != nil {
		return translate("migrate", err)
	}
	var why string
	err = locking(ctx, c, func() (err error) {
		why, err = raise(ctx, c)
		return err
	})
	if err != nil {
		return translate("raise the wall between tenants", err)
	}
	if s.app != "" {
		if err := admit(ctx, c, s.app); err != nil {
			return translate("admit the role of servers", err)
		}
	}
	if err := s.stand(ctx, schema, why); err != nil {
		return translate("raise the wall between tenants", err)
	}
	s.ready.Store(true)
	return nil
}

func setLockTimeout(ctx context.Context, c *pgx.Conn, d time.Duration) error {
	_, err := c.Exec(ctx, "SELECT set_config('lock_timeout', $1, false)", setting(d))
	return err
}

// applied makes the table of steps, where it is missing, and lists those that the database has had.
func applied(ctx context.Context, c *pgx.Conn) ([]engine.Applied, error) {
	_, err := c.Exec(ctx, `
		CREATE TABLE IF NOT EXISTS carillon_migrations (
			version    int PRIMARY KEY,
			name       text NOT NULL,
			sum        text NOT NULL,
			applied_at timestamptz NOT NULL DEFAULT now(),
			oldest     int NOT NULL
		)`)
	if err != nil {
		return nil, err
	}
	return readSteps(ctx, c)
}

// readSteps lists the steps that the database has had, and changes nothing.
func readSteps(ctx context.Context, c querier) ([]engine.Applied, error) {
	rows, err := c.Query(ctx, "SELECT to_regclass('carillon_migrations') IS NOT NULL")
	if err != nil {
		return nil, err
	}
	if known, err := pgx.CollectOneRow(rows, pgx.RowTo[bool]); err != nil || !known {
		return nil, err
	}
	rows, err = c.Query(ctx, "SELECT version, name, sum, applied_at, oldest FROM carillon_migrations ORDER BY version")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (a engine.Applied, err error) {
		err = r.Scan(&a.Version, &a.Name, &a.Sum, &a.At, &a.Oldest)
		a.At = a.At.UTC()
		return a, err
	})
}

// Steps lists the steps that the database has had, and those to come.
func (s *Store) Steps(ctx context.Context) (steps []engine.Step, err error) {
	all, err := migrations()
	if err != nil {
		return nil, err
	}
	err = s.ask(ctx, "read the steps of the schema", func(ctx context.Context, c *pgxpool.Conn) error {
		done, err := readSteps(ctx, c)
		steps = engine.Steps(all, done)
		return err
	})
	return steps, err
}

// Present lists the hosts of live servers. A database without the table of them has had none.
func (s *Store) Present(ctx context.Context) (hosts []string, err error) {
	err = s.ask(ctx, "look for servers", func(ctx context.Context, c *pgxpool.Conn) error {
		var has bool
		if err := c.QueryRow(ctx, "SELECT to_regclass('servers') IS NOT NULL").Scan(&has); err != nil || !has {
			return err
		}
		rows, err := c.Query(ctx, "SELECT DISTINCT host FROM servers s WHERE "+serves+" ORDER BY host")
		if err != nil {
			return err
		}
		hosts, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return hosts, err
}

// CheckSchema says what Migrate would have to do first. Where that is nothing, it takes its place behind the wall that stands.
func (s *Store) CheckSchema(ctx context.Context) error {
	var schema, why string
	err := s.ask(ctx, "check the schema", func(ctx context.Context, c *pgxpool.Conn) (err error) {
		if err := s.check(ctx, c); err != nil {
			return err
		}
		me, err := identify(ctx, c)
		if err != nil {
			return err
		}
		if err := s.become(me); err != nil {
			return err
		}
		schema, why, err = standing(ctx, c)
		return err
	})
	if err != nil {
		return err
	}
	if err := s.stand(ctx, schema, why); err != nil {
		return translate("look for the wall between tenants", err)
	}
	return nil
}

func (s *Store) check(ctx context.Context, c querier) error {
	all, err := migrations()
	if err != nil {
		return err
	}
	done, err := readSteps(ctx, c)
	if err == nil {
		err = engine.Outdated(all, done)
	}
	if err == nil || errors.Is(err, engine.ErrSchema) { // else nobody knows
		s.ready.Store(err == nil)
	}
	return err
}

// apply takes a step. One that met with servers who lock tables in another order is taken back, and tried again.
func apply(ctx context.Context, c *pgx.Conn, m engine.Migration) error {
	if done, err := applyInParts(ctx, c, m); done || err != nil {
		return err
	}
	once := func() error { return locking(ctx, c, func() error { return applyOnce(ctx, c, m) }) }
	for range races {
		if err := once(); !isCode(err, deadlockDetected) {
			return err
		}
	}
	return once()
}

// locking runs f, which locks tables, and runs it again while others hold one of them, for tableWait. Whoever asks for a table
// after a lock that waits must wait, too; so a try waits for tableTry only, and all others are served between two tries.
func locking(ctx context.Context, c *pgx.Conn, f func() error) error {
	if err := setLockTimeout(ctx, c, tableTry); err != nil {
		return err
	}
	for end := time.Now().Add(tableWait); ; {
		err := f()
		if !isCode(err, lockNotAvailable) || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(tablePause):
		}
	}
}

func applyOnce(ctx context.Context, c *pgx.Conn, m engine.Migration) error {
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		// A step is many statements, which only the simple protocol takes at once.
		if _, err := c.PgConn().Exec(ctx, m.SQL).ReadAll(); err != nil {
			return err
		}
		if err := failpoint.Hit("migrate.midStep"); err != nil {
			return err
		}
		return noteStep(ctx, tx, m)
	})
}

// noteStep writes down that a step was taken.
func noteStep(ctx context.Context, c interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}, m engine.Migration) error {
	_, err := c.Exec(ctx, "INSERT INTO carillon_migrations (version, name, sum, oldest) VALUES ($1, $2, $3, $4)", m.Version, m.Name, m.Sum, m.Oldest)
	return err
}
