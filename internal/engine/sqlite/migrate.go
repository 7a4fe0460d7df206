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

// Migrate applies the steps that are missing, each in one transaction. Of two at once one waits for the other.
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

func applied(c *conn) ([]engine.Applied, error) {
	_, err := c.prepare(`
		CREATE TABLE IF NOT EXISTS carillon_migrations (
			version    INTEGER PRIMARY KEY,
			name       TEXT NOT NULL,
			sum        TEXT NOT NULL,
			applied_at INTEGER NOT NULL
		) STRICT`).exec()
	if err != nil {
		return nil, err
	}
	var done []engine.Applied
	err = c.prepare("SELECT version, sum FROM carillon_migrations ORDER BY version").each(func(r *row) error {
		done = append(done, engine.Applied{Version: r.int(), Sum: r.text()})
		return nil
	})
	return done, err
}

// apply applies a step, unless another call has meanwhile.
func (s *Store) apply(c *conn, m engine.Migration) error {
	n, err := c.prepare("INSERT INTO carillon_migrations (version, name, sum, applied_at) VALUES (?, ?, ?, ?) ON CONFLICT (version) DO NOTHING").
		int(int64(m.Version)).text(m.Name).text(m.Sum).int(s.now()).exec()
	if err != nil || n == 0 {
		return err
	}
	if err := sqlitex.ExecuteScript(c.Conn, m.SQL, nil); err != nil {
		return err
	}
	return failpoint.Hit("migrate.midStep")
}

// schemaVersion is how many steps the file has had, and how many there are.
func schemaVersion(c *conn) (has, want int, err error) {
	ms, err := migrations()
	if err != nil {
		return 0, 0, err
	}
	known, err := c.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'carillon_migrations'").first(func(*row) error { return nil })
	if err != nil || !known {
		return 0, len(ms), err
	}
	_, err = c.prepare("SELECT coalesce(max(version), 0) FROM carillon_migrations").first(func(r *row) error {
		has = r.int()
		return nil
	})
	return has, len(ms), err
}
