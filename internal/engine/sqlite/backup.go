package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// Summary describes the content of a file.
type Summary struct {
	Path    string
	Bytes   int64
	Version int // how many steps of the schema were applied
	Epoch   int64
	Created time.Time // when the first step was applied, which tells stores apart
	Tables  []TableCount
}

// TableCount is the number of rows of a table.
type TableCount struct {
	Name string
	Rows int64
}

// Backup writes the content of a file at one instant into another, which must not exist, and verifies it. A process
// may have the file open and write to it meanwhile.
func Backup(ctx context.Context, path, to string) (s Summary, err error) {
	doing := "back up " + path
	if to, _, err = Place(path, to); err != nil {
		return s, err
	}
	part := to + ".partial"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // SQLite would create it readable by everyone
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%s exists: another backup is being made, or one was cut off; then remove it", part)
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w", doing, err)
	}
	defer os.Remove(part) // if it has been renamed by then, there is nothing to remove
	if err := f.Close(); err != nil {
		return s, fmt.Errorf("%s: %w", doing, err)
	}
	if err := vacuumInto(ctx, path, part); err != nil {
		return s, translate(ctx, doing, err)
	}
	if s, err = Verify(ctx, part); err != nil {
		return s, fmt.Errorf("%s: %w", doing, err)
	}
	if err := settle(part); err != nil {
		return s, fmt.Errorf("%s: %w", doing, err)
	}
	err = os.Link(part, to) // unlike a rename it does not replace a file created meanwhile
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = os.Rename(part, to) // if there are no links
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w", doing, err)
	}
	s.Path = to
	return s, settle(filepath.Dir(to))
}

// Place returns where a backup would be, and the current size of the store; it fails if there is no store, or
// something in its place.
func Place(path, to string) (at string, bytes int64, err error) {
	at, err = filepath.Abs(to)
	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(path)
	}
	if err == nil {
		err = free(at)
	}
	if err != nil {
		return "", 0, fmt.Errorf("back up %s: %w", path, err)
	}
	return at, info.Size(), nil
}

// free fails if a name is taken.
func free(path string) error {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%s exists; want a name that is free", path)
	}
	return err
}

func vacuumInto(ctx context.Context, path, to string) error {
	c, err := openConn(path, sqlite.OpenReadOnly, readerPragmas...)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetInterrupt(ctx.Done())
	_, err = c.prepare("VACUUM INTO ?").text(to).exec()
	return err
}

// settle waits until a file, or a folder's list of names, is on the disk.
func settle(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if info, bad := f.Stat(); bad == nil && info.IsDir() {
		err = nil // not every system can; those that cannot need not
	}
	return errors.Join(err, f.Close())
}

// Verify checks a file page by page, and returns what it contains. It fails if the file is damaged, not Carillon's,
// or of a newer version.
func Verify(ctx context.Context, path string) (s Summary, err error) {
	all, err := migrations()
	if err != nil {
		return s, err
	}
	err = peek(ctx, path, "verify "+path, func(c *conn) error {
		var faults []string
		if err := c.prepare("PRAGMA integrity_check(10)").each(func(r *row) error {
			if line := r.text(); line != "ok" {
				faults = append(faults, line)
			}
			return nil
		}); err != nil {
			return err
		}
		if len(faults) > 0 {
			return fmt.Errorf("the file is damaged: %s", strings.Join(faults, "; "))
		}
		done, err := readSteps(c)
		if err != nil {
			return err
		}
		if len(done) == 0 {
			return fmt.Errorf("the file holds no Carillon store: %w", engine.ErrSchema)
		}
		if err := engine.Foreign(all, done); err != nil {
			return err
		}
		s.Version, s.Created = done[len(done)-1].Version, done[0].At
		return s.count(c)
	})
	if err != nil {
		return s, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return s, err
	}
	s.Path, s.Bytes = path, info.Size()
	return s, nil
}

// count counts the rows of every table.
func (s *Summary) count(c *conn) error {
	var err error
	if s.Epoch, err = epochOf(c); err != nil {
		return err
	}
	names, err := tableNames(c)
	if err != nil {
		return err
	}
	for _, name := range names {
		t := TableCount{Name: name}
		if _, err := c.prepare("SELECT count(*) FROM " + quoted(name)).first(func(r *row) error { t.Rows = r.int64(); return nil }); err != nil {
			return err
		}
		s.Tables = append(s.Tables, t)
	}
	return nil
}

func tableNames(c *conn) (names []string, err error) {
	err = c.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name").each(func(r *row) error {
		names = append(names, r.text())
		return nil
	})
	return names, err
}

func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// epochOf returns the epoch of the file's tokens.
func epochOf(c *conn) (n int64, err error) {
	_, err = c.prepare("SELECT next FROM tokens").first(func(r *row) error {
		n = engine.EpochOf(r.int64())
		return nil
	})
	return n, err
}

// Restore puts a backup in place of a file that no process has open. The previous file is kept under the returned
// name; if keep is not set, ErrConflict if there is one. Tokens that anyone drew since the backup are smaller than
// those that the restored store draws.
func Restore(ctx context.Context, backup, path string, now time.Time, keep bool) (s Summary, kept string, err error) {
	if s, err = Verify(ctx, backup); err != nil {
		return s, "", err
	}
	return install(ctx, s, path, now, keep, func(part string) error { return duplicate(ctx, backup, part) })
}

// Adopt makes a store of pages that were put together in a file, which becomes the file at path; ErrConflict if there is
// one. epoch is the highest that is known of this store; see Restore.
func Adopt(ctx context.Context, file, path string, epoch int64, now time.Time) (s Summary, err error) {
	// The pages say that there is a log beside them, which is not part of them.
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err == nil {
		_, err = f.WriteAt([]byte{1, 1}, 18)
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err != nil {
		return s, fmt.Errorf("restore %s: %w", path, err)
	}
	if s, err = Verify(ctx, file); err != nil {
		return s, err
	}
	s.Epoch = max(s.Epoch, epoch)
	s, _, err = install(ctx, s, path, now, false, func(part string) error { return os.Rename(file, part) })
	return s, err
}

// install puts the file that fill makes in place of the one at path.
func install(ctx context.Context, s Summary, path string, now time.Time, keep bool, fill func(part string) error) (_ Summary, kept string, err error) {
	doing := "restore " + path
	if path, err = filepath.Abs(path); err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err != nil {
		return s, "", fmt.Errorf("%s: %w", doing, err)
	}
	if at, err := filepath.EvalSymlinks(path); err == nil {
		path = at
	}
	lock, err := acquire(path + ".lock")
	if err != nil {
		return s, "", fmt.Errorf("%s: %w", doing, err)
	}
	defer lock.Close()
	if err := give(path + ".lock"); err != nil {
		return s, "", fmt.Errorf("%s: %w", doing, err)
	}
	epoch := s.Epoch
	there := free(path) != nil
	if there && !keep {
		return s, "", fmt.Errorf("%s: %w: there is a store already", doing, engine.ErrConflict)
	}
	if there { // a damaged one is replaced all the same
		_ = peek(ctx, path, doing, func(c *conn) error {
			if has, err := epochOf(c); err == nil {
				epoch = max(epoch, has)
			}
			return nil
		})
	}
	first := engine.TokenAfterLoss(engine.FirstToken(epoch), now)
	s.Epoch = engine.EpochOf(first)
	part := path + ".restoring"
	defer os.Remove(part)
	if err = fill(part); err == nil {
		err = renew(ctx, part, first, now)
	}
	if err == nil {
		err = give(part)
	}
	if err != nil {
		return s, "", translate(ctx, doing, err)
	}
	if there {
		kept = path + ".replaced-" + now.UTC().Format("20060102T150405Z")
		if err := setAside(path, kept); err != nil {
			return s, "", fmt.Errorf("%s: %w", doing, err)
		}
	}
	if err := os.Rename(part, path); err != nil {
		return s, kept, fmt.Errorf("%s: %w", doing, err)
	}
	s.Path = path
	return s, kept, settle(filepath.Dir(path))
}

// duplicate copies the content of a file including its log, which may hold the latest changes after a restore or a
// crash.
func duplicate(ctx context.Context, from, to string) error {
	_ = os.Remove(to) // of a restore that was cut off
	_ = os.Remove(to + "-journal")
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = vacuumInto(ctx, from, to)
	}
	if err == nil {
		err = settle(to)
	}
	return err
}

// renew makes a file draw its tokens from one on, and ends the sessions in it: their leases are lost.
func renew(ctx context.Context, path string, first int64, now time.Time) error {
	c, err := openConn(path, sqlite.OpenReadWrite, "journal_mode = DELETE", "synchronous = FULL", "fullfsync = ON")
	if err != nil {
		return err
	}
	err = c.transact(ctx, "BEGIN IMMEDIATE", func(c *conn) error {
		if _, err := c.prepare("UPDATE tokens SET next = ?").int(first).exec(); err != nil {
			return err
		}
		_, err := c.prepare("UPDATE sessions SET deposed = 1, expires_at = min(expires_at, ?) WHERE deposed = 0").int(now.UnixMicro()).exec()
		return err
	})
	return errors.Join(err, c.Close())
}

// setAside renames a database, with its log.
func setAside(path, to string) error {
	if err := free(to); err != nil {
		return err
	}
	// The log first: without it the file is an older state, but with another file's log it would be corrupt.
	if err := os.Rename(path+"-wal", to+"-wal"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Remove(path + "-shm"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(path, to)
}
