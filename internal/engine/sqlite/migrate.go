package sqlite

import (
	"context"
	"embed"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

//go:embed migrations/*.sql
var files embed.FS

func migrations() ([]engine.Migration, error) { return engine.Migrations(files, "migrations") }

const stepTime = 10 * time.Minute

// Migrate applies the pending steps, each in one transaction. Concurrent calls wait for each other.
func (s *Store) Migrate(ctx context.Context) error {
	all, err := migrations()
	if err != nil {
		return err
	}
	var pending []engine.Migration
	err = s.alter(ctx, stepTime, "migrate", func(c *conn) error {
		done, err := applied(c)
		if err != nil {
			return err
		}
		pending, err = engine.PendingMigrations(all, done)
		return err
	})
	if err != nil {
		return err
	}
	for _, m := range pending {
		err := s.alter(ctx, stepTime, fmt.Sprintf("migration %04d (%s)", m.Version, m.Name), func(c *conn) error { return s.apply(c, m) })
		if err != nil {
			return err
		}
	}
	s.ready.Store(true)
	return nil
}

// applied creates the table of steps, if it is missing, and lists the steps applied to the file.
func applied(c *conn) ([]engine.Applied, error) {
	_, err := c.prepare(`
		CREATE TABLE IF NOT EXISTS carillon_migrations (
			version    INTEGER PRIMARY KEY,
			name       TEXT NOT NULL,
			sum        TEXT NOT NULL,
			applied_at INTEGER NOT NULL,
			oldest     INTEGER NOT NULL
		) STRICT`).exec()
	if err != nil {
		return nil, err
	}
	return readSteps(c)
}

// readSteps lists the steps applied to the file, and changes nothing.
func readSteps(c *conn) (done []engine.Applied, err error) {
	known, err := c.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'carillon_migrations'").first(func(*row) error { return nil })
	if err != nil || !known {
		return nil, err
	}
	err = c.prepare("SELECT version, name, sum, applied_at, oldest FROM carillon_migrations ORDER BY version").each(func(r *row) error {
		done = append(done, engine.Applied{Version: r.int(), Name: r.text(), Sum: r.text(), At: time.UnixMicro(r.int64()).UTC(), Oldest: r.int()})
		return nil
	})
	return done, err
}

// Steps lists the steps applied to the file, and the pending ones.
func (s *Store) Steps(ctx context.Context) (steps []engine.Step, err error) {
	all, err := migrations()
	if err != nil {
		return nil, err
	}
	err = s.run(ctx, s.readers, readPatience, "read the steps of the schema", "BEGIN", func(c *conn) error {
		done, err := readSteps(c)
		steps = engine.Steps(all, done)
		return err
	})
	return steps, err
}

// CheckSchema returns what Migrate would have to do first.
func (s *Store) CheckSchema(ctx context.Context) error {
	all, err := migrations()
	if err != nil {
		return err
	}
	return s.run(ctx, s.readers, readPatience, "check the schema", "BEGIN", func(c *conn) error {
		done, err := readSteps(c)
		if err == nil {
			err = engine.Outdated(all, done)
		}
		s.ready.Store(err == nil)
		return err
	})
}

// apply applies a step, unless another call has done so meanwhile.
func (s *Store) apply(c *conn, m engine.Migration) error {
	n, err := c.prepare("INSERT INTO carillon_migrations (version, name, sum, applied_at, oldest) VALUES (?, ?, ?, ?, ?) ON CONFLICT (version) DO NOTHING").
		int(int64(m.Version)).text(m.Name).text(m.Sum).int(s.now()).int(int64(m.Oldest)).exec()
	if err != nil || n == 0 {
		return err
	}
	if err := sqlitex.ExecuteScript(c.Conn, m.SQL, nil); err != nil {
		return err
	}
	return failpoint.Hit("migrate.midStep")
}
