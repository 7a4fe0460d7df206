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

// errNotEmbedded means that a command works with the embedded store only.
var errNotEmbedded = errors.New("the database is not sqlite:PATH")

// embedded returns the file of the embedded store in the settings: the database, or that of 'carillon dev' in the
// data folder.
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

// Backup writes the content of the embedded store to a file. A server may be running on it.
func Backup(ctx context.Context, c config.Config, to string) (sqlite.Summary, error) {
	path, err := embedded(c)
	if err != nil {
		return sqlite.Summary{}, fmt.Errorf("%w: back up PostgreSQL with its own tools, such as pg_dump", err)
	}
	return sqlite.Backup(ctx, path, to)
}

// BackupPlace returns where Backup would write, and the size of the store. It changes nothing.
func BackupPlace(c config.Config, to string) (at string, bytes int64, err error) {
	path, err := embedded(c)
	if err != nil {
		return "", 0, fmt.Errorf("%w: back up PostgreSQL with its own tools, such as pg_dump", err)
	}
	return sqlite.Place(path, to)
}

// VerifyBackup checks a backup and returns what it contains.
func VerifyBackup(ctx context.Context, file string) (sqlite.Summary, error) {
	return sqlite.Verify(ctx, file)
}

// Restoration checks the backup and returns what Restore would do: where the store is, and whether there is one that
// would be replaced. It changes nothing.
func Restoration(ctx context.Context, c config.Config, file string) (s sqlite.Summary, path string, there bool, err error) {
	if path, err = embedded(c); err != nil {
		return s, "", false, fmt.Errorf("%w: restore PostgreSQL with its own tools, such as pg_restore", err)
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

// Restore puts a backup in place of the embedded store, on which no server may be running. The previous store is kept
// under the returned name; replace allows there to be one.
func Restore(ctx context.Context, c config.Config, file string, replace bool) (s sqlite.Summary, kept string, err error) {
	path, err := embedded(c)
	if err != nil {
		return s, "", fmt.Errorf("%w: restore PostgreSQL with its own tools, such as pg_restore", err)
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

// RehearseMove performs a whole move and rolls it back if the target already has its schema; otherwise it returns
// what would be moved. rehearsed reports which of the two it did. It changes nothing.
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

// Move copies everything from the embedded store into an empty PostgreSQL database and then, unless the file is to be
// kept, renames the file and returns its new name.
func Move(ctx context.Context, c config.Config, to string, keep bool, tell move.Progress) (moved []move.Moved, retired string, err error) {
	from, target, err := ends(ctx, c, to)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	defer target.Close()
	if err := target.Migrate(ctx); err != nil {
		return nil, "", fmt.Errorf("create the schema in the target: %w", err)
	}
	if moved, err = move.Run(ctx, from, target, time.Now(), tell); err != nil || keep {
		return moved, "", err
	}
	retired, err = from.Retire(".moved-" + time.Now().UTC().Format("20060102T150405Z"))
	if err != nil {
		err = fmt.Errorf("everything was moved, but the old store could not be renamed; do not start a server on it, since it would run everything again: %w", err)
	}
	return moved, retired, err
}
