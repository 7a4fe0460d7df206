package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/config"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
	"github.com/carillon-jobs/carillon/internal/move"
)

// errNotEmbedded says that something is for the embedded store only.
var errNotEmbedded = errors.New("the database is not sqlite:PATH")

// embedded is the file of the embedded store that the settings name: the database, or that of 'carillon dev' in the data folder.
func embedded(c config.Config) (path string, err error) {
	if c.Database == "" {
		c.Database = DevDatabase(c.Data)
	}
	path, ok := strings.CutPrefix(c.Database, "sqlite:")
	if !ok {
		return "", errNotEmbedded
	}
	return path, nil
}

// Backup writes what the embedded store holds into a file. A server may be running on it.
func Backup(ctx context.Context, c config.Config, to string) (sqlite.Summary, error) {
	path, err := embedded(c)
	if err != nil {
		return sqlite.Summary{}, fmt.Errorf("%w: of PostgreSQL backups are made with its own tools, such as pg_dump", err)
	}
	return sqlite.Backup(ctx, path, to)
}

// BackupPlace says where Backup would write, and how large the store is. It changes nothing.
func BackupPlace(c config.Config, to string) (at string, bytes int64, err error) {
	path, err := embedded(c)
	if err != nil {
		return "", 0, fmt.Errorf("%w: of PostgreSQL backups are made with its own tools, such as pg_dump", err)
	}
	return sqlite.Place(path, to)
}

// VerifyBackup checks a backup and says what it holds.
func VerifyBackup(ctx context.Context, file string) (sqlite.Summary, error) {
	return sqlite.Verify(ctx, file)
}

// Restoration says what Restore would do: the backup is checked, and nothing is changed. It answers where the store is, and whether
// there is one that would be replaced.
func Restoration(ctx context.Context, c config.Config, file string) (s sqlite.Summary, path string, there bool, err error) {
	if path, err = embedded(c); err != nil {
		return s, "", false, fmt.Errorf("%w: of PostgreSQL backups are restored with its own tools, such as pg_restore", err)
	}
	if s, err = sqlite.Verify(ctx, file); err != nil {
		return s, path, false, err
	}
	_, err = os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, path, false, err
	}
	return s, path, err == nil, nil
}

// Restore puts a backup in the place of the embedded store, which no server may be running on. What was there is kept
// under the name that it answers with; replace says that there may be something.
func Restore(ctx context.Context, c config.Config, file string, replace bool) (s sqlite.Summary, kept string, err error) {
	path, err := embedded(c)
	if err != nil {
		return s, "", fmt.Errorf("%w: of PostgreSQL backups are restored with its own tools, such as pg_restore", err)
	}
	return sqlite.Restore(ctx, file, path, time.Now(), replace)
}

// ends opens both sides of a move.
func ends(ctx context.Context, c config.Config, to string) (from *sqlite.Store, target *postgres.Store, err error) {
	path, err := embedded(c)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: want the embedded store to move from", err)
	}
	if !strings.HasPrefix(to, "postgres://") && !strings.HasPrefix(to, "postgresql://") {
		return nil, nil, config.Mistakes{{Key: "to", Value: "(not shown)", Want: "where to move: postgres://USER@HOST:PORT/NAME", From: "flag --to"}}
	}
	if _, err := sqlite.Steps(ctx, path); err != nil { // opening it would make it
		return nil, nil, err
	}
	if from, err = sqlite.Open(ctx, sqlite.Config{Path: path}); err != nil {
		return nil, nil, err
	}
	if err := from.CheckSchema(ctx); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("the store to move from: %w", err), from.Close())
	}
	if target, err = postgres.Open(ctx, postgres.Config{URL: to, AllowAsyncCommit: c.AllowAsyncCommit}); err != nil {
		return nil, nil, errors.Join(err, from.Close())
	}
	return from, target, nil
}

// RehearseMove does all of a move where the target has its schema already, and takes it back; where not, it says what would be moved. rehearsed
// says which. Nothing is changed.
func RehearseMove(ctx context.Context, c config.Config, to string, tell move.Progress) (moved []move.Moved, rehearsed bool, err error) {
	from, target, err := ends(ctx, c, to)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	defer target.Close()
	if err := target.CheckSchema(ctx); err == nil {
		moved, err := move.Rehearse(ctx, from, target, time.Now(), tell)
		return moved, true, err
	} else if !errors.Is(err, engine.ErrSchema) {
		return nil, false, err
	}
	tables, err := from.RowTables(ctx)
	for _, t := range tables {
		n, err := from.CountRows(ctx, t.Name)
		if err != nil {
			return nil, false, err
		}
		moved = append(moved, move.Moved{Table: t.Name, Rows: n})
	}
	return moved, false, err
}

// Move takes everything from the embedded store into an empty PostgreSQL database, and, unless it is to be kept, gives the file another name, which it
// answers with.
func Move(ctx context.Context, c config.Config, to string, keep bool, tell move.Progress) (moved []move.Moved, retired string, err error) {
	from, target, err := ends(ctx, c, to)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	defer target.Close()
	if err := target.Migrate(ctx); err != nil {
		return nil, "", fmt.Errorf("make the schema to move to: %w", err)
	}
	if moved, err = move.Run(ctx, from, target, time.Now(), tell); err != nil || keep {
		return moved, "", err
	}
	retired, err = from.Retire(".moved-" + time.Now().UTC().Format("20060102T150405Z"))
	if err != nil {
		err = fmt.Errorf("everything was moved, but the old store has kept its name; do not start a server on it, it would fire everything again: %w", err)
	}
	return moved, retired, err
}
