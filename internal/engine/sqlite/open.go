package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlstore"
)

// Config holds the options of Open.
type Config struct {
	Path    string      // path of the database file; it and its folder are created if they are missing
	Clock   clock.Clock // decides what is due and alive; nil: this machine's
	Readers int         // connections that read; 0: 4
	// Monotonic is a clock that nobody sets. If nil, it is this machine's or, if Clock is given, none: that clock is
	// trusted.
	Monotonic func() time.Duration
	Tap       *Tap // collects what changes; nil: nobody wants to know
}

// Store is the store over one SQLite file.
type Store struct {
	sqlstore.Settings
	sqlstore.Runs
	sqlstore.Forgetting
	*database

	jobs     // definitions: create, find, change, delete, run again
	leases   // firings, leases and their results
	sessions // workers, and what they held
	reads    // executions, logs and counts for people
	upkeep   // what keeps the file small
}

// database is the open file: its connections, its clock, and cached state.
type database struct {
	path    string
	about   string
	clock   *ticking
	lock    *os.File
	watch   *watch
	writer  chan *conn // holds the writing connection while it is free
	readers chan *conn
	folder  chan *conn                // holds the connection that folds the log, once the store is closed
	folding sync.Mutex                // held while the log is folded, and while a snapshot begins
	tap     *Tap                      // nil: none
	pin     *conn                     // with a tap: keeps the log from beginning anew while it is folded
	grown   chan struct{}             // something was written since fold last checked
	ready   atomic.Bool               // the schema is this version's
	full    atomic.Bool               // a write found the disk full, and none has succeeded since
	roomAt  atomic.Pointer[time.Time] // when there was room

	snapshots sync.WaitGroup // that are open

	closing sync.Once
	closed  chan struct{}
	failed  error // guarded by closing: the result of closing

	revised atomic.Pointer[revisionOf]          // the revision up to which it has looked for those of deleted jobs
	swept   atomic.Int64                        // the token up to which Tidy has examined the directory
	logged  atomic.Pointer[job.ExecutionID]     // the execution up to which Tidy has examined the logs
	alarms  atomic.Pointer[map[job.Token]int64] // when the first execution of a grant may have run for too long, as found by Overrun
	watched atomic.Int64                        // the lease after which Overrun continues; 0: from the first
	memo    engine.Memo                         // of due jobs
}

// Each of these holds the methods of one subject. All share the database.
type (
	jobs     struct{ *database }
	leases   struct{ *database }
	sessions struct{ *database }
	reads    struct{ *database }
	upkeep   struct{ *database }
)

var _ engine.Store = (*Store)(nil)

var writerPragmas = []string{
	"page_size = 8192",
	"journal_mode = WAL",
	"synchronous = FULL", // every commit is on the disk before it is acknowledged
	"fullfsync = ON",     // and not only in the disk's cache, on systems that distinguish the two
	"checkpoint_fullfsync = ON",
	"foreign_keys = OFF",
	"cache_size = -65536",
	"temp_store = MEMORY",
	lastResort,
	"journal_size_limit = 67108864",
}

var readerPragmas = []string{
	"cache_size = -8192",
	"temp_store = MEMORY",
}

// Open opens the file, which no other Store may have open, and ends the sessions of the process that had it before.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Path == "" {
		return nil, errors.New("open SQLite: no path is given; want that of a file")
	}
	path, err := place(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("open SQLite at %s: %w", cfg.Path, err)
	}
	doing := "open SQLite at " + path
	lock, err := acquire(path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	if cfg.Tap != nil {
		err = cfg.Tap.open(path)
	}
	var conns []*conn
	if err == nil {
		conns, err = connect(path, cmp.Or(max(cfg.Readers, 0), 4), cfg.Tap != nil)
	}
	if err != nil {
		_ = lock.Close()
		return nil, translate(ctx, doing, err)
	}
	var pin *conn
	if cfg.Tap != nil {
		pin, conns = conns[len(conns)-1], conns[:len(conns)-1]
	}
	d := &database{
		tap: cfg.Tap, pin: pin,
		path: path, clock: newTicking(cfg), lock: lock, writer: make(chan *conn, 1), readers: make(chan *conn, len(conns)-2), folder: make(chan *conn, 1), grown: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	s := &Store{sqlstore.New(settings{d}), sqlstore.NewRuns(settings{d}), sqlstore.NewForgetting(settings{d}), d, jobs{d}, leases{d}, sessions{d}, reads{d}, upkeep{d}}
	s.writer <- conns[0]
	go s.fold(conns[1])
	for _, c := range conns[2:] {
		s.readers <- c
	}
	err = s.run(ctx, s.writer, writePatience, doing, "BEGIN IMMEDIATE", s.inspect)
	if err == nil {
		if s.watch, err = newWatch(path, path+"-wal", path+".lock"); err != nil {
			err = translate(ctx, doing, err)
		}
	}
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// place returns the canonical path of a file and creates its folder.
func place(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	// Only if it is missing: closing a file releases all locks that this process has on it, including SQLite's.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// acquire takes the lock that marks the database as open.
func acquire(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	free, err := lockFile(f)
	if err == nil && !free {
		holder := ""
		if b, _ := os.ReadFile(path); len(b) > 0 {
			holder = " (process " + strings.TrimSpace(string(b)) + ")"
		}
		err = fmt.Errorf("another Carillon%s has this database open; want one process a file, or PostgreSQL", holder)
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// connect opens the connections: one for writing, one for folding the log, several for reading and, for a tap, one more of
// these; only the one for folding then folds the log.
func connect(path string, readers int, tapped bool) (all []*conn, err error) {
	defer func() {
		if err != nil {
			for _, c := range all {
				_ = c.Close()
			}
		}
	}()
	pragmas := writerPragmas
	if tapped {
		pragmas = append(slices.Clone(pragmas), "wal_autocheckpoint = 0")
		readers++
	}
	c, err := openConn(path, sqlite.OpenReadWrite, pragmas...)
	if err != nil {
		return nil, err
	}
	all = append(all, c)
	if c, err = openConn(path, sqlite.OpenReadWrite, folderPragmas...); err != nil {
		return all, err
	}
	all = append(all, c)
	for range readers {
		c, err := openConn(path, sqlite.OpenReadOnly, readerPragmas...)
		if err != nil {
			return all, err
		}
		all = append(all, c)
	}
	return all, nil
}

// inspect checks the content of the file, and ends the sessions in it.
func (s *Store) inspect(c *conn) error {
	ask := func(sql string) (answer string, err error) {
		_, err = c.prepare(sql).first(func(r *row) error { answer = r.text(); return nil })
		return answer, err
	}
	mode, err := ask("PRAGMA journal_mode")
	if err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("the journal mode is %s; want wal, which needs a local file system with shared memory", mode)
	}
	version, err := ask("SELECT sqlite_version()")
	if err != nil {
		return err
	}
	s.about = fmt.Sprintf("SQLite %s at %s", version, s.path)
	all, err := migrations()
	if err != nil {
		return err
	}
	done, err := readSteps(c)
	if err != nil || len(done) == 0 {
		return err
	}
	if err := engine.Foreign(all, done); err != nil {
		return err // before anything is changed
	}
	s.ready.Store(engine.Outdated(all, done) == nil)
	return s.depose(c)
}

// depose ends all sessions: this process has exclusive use of the file and has begun none.
func (s *Store) depose(c *conn) error {
	_, err := c.prepare("UPDATE sessions SET deposed = 1, expires_at = min(expires_at, ?) WHERE deposed = 0").int(s.now()).exec()
	return err
}

// Broken returns a channel that delivers the reason once nothing can be stored any more until a restart.
func (s *Store) Broken() <-chan error { return s.watch.told }

// Describe returns the version and the file.
func (s *Store) Describe() string { return s.about }

// Now returns the time of Config's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	select {
	case <-s.closed:
		return time.Time{}, s.unready("read the clock")
	default:
		return time.UnixMicro(s.now()).UTC(), translate(ctx, "read the clock", ctx.Err())
	}
}

// Ping reports whether the file is where it was opened, answers and has this version's schema. It also checks now and
// then, and after a write that found the disk full, whether there is room.
func (s *Store) Ping(ctx context.Context) error {
	last := s.roomAt.Load()
	if s.full.Load() || last == nil || time.Since(*last) >= roomEvery {
		if why, err := roomError(room(s.path)); why != nil {
			s.full.Store(true) // checked at each ping until there is room
			return fmt.Errorf("ping: %w: %w", why, err)
		} else if err == nil {
			now := time.Now()
			s.roomAt.Store(&now)
			s.full.Store(false)
		} // otherwise something else is wrong with the folder, and the file itself will tell
	}
	return s.run(ctx, s.readers, readPatience, "ping", "BEGIN", func(c *conn) error {
		if err := s.watch.check(); err != nil {
			return err
		}
		if s.ready.Load() {
			_, err := c.prepare("SELECT 1 FROM tokens").exec()
			return err
		}
		all, err := migrations()
		if err != nil {
			return err
		}
		done, err := readSteps(c)
		if err != nil {
			return err
		}
		return engine.Outdated(all, done)
	})
}

// roomEvery is how often a ping checks for space if no write has failed: for a server that writes nothing for a
// while.
const roomEvery = 3 * time.Second

// roomError maps the error of a file that could not be written beside the database; nil: it is not about the disk.
func roomError(err error) (why, is error) {
	for _, no := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, no) {
			return engine.ErrNoRoom, err
		}
	}
	if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		return engine.ErrReadOnly, err
	}
	return nil, err
}

// room fails if there is not enough room beside the file for an ordinary write.
func room(path string) error {
	path += ".room" // one name, so that a crash leaves one file at most
	err := os.WriteFile(path, make([]byte, 256<<10), 0o600)
	if gone := os.Remove(path); err == nil && !errors.Is(gone, fs.ErrNotExist) { // two may look at once
		err = gone
	}
	return err
}

// Close waits for calls in progress, folds the log into the file and releases it. If the file is gone, its
// connections stay open until the process ends: closing them would remove the log of that name, even another file's.
func (s *Store) Close() error {
	s.closing.Do(func() {
		close(s.closed)
		s.failed = s.disconnect()
	})
	return s.failed
}

func (s *Store) disconnect() error {
	var errs []error
	readers := make([]*conn, cap(s.readers))
	for i := range readers {
		readers[i] = <-s.readers
	}
	w, f := <-s.writer, <-s.folder
	s.snapshots.Wait()
	if s.watch != nil { // nil: it was never open
		if err := s.watch.check(); errors.Is(err, errGone) || errors.Is(err, errUnsure) {
			return fmt.Errorf("close %s: %w", s.about, errors.Join(err, s.lock.Close()))
		}
	}
	if s.tap != nil {
		for !s.tap.read(true) { // somebody else does, for a moment
			s.tap.read(false)
		}
		s.tap.release()
		readers = append(readers, s.pin)
	}
	for _, r := range append(readers, f) {
		errs = append(errs, r.Close())
	}
	_, err := w.prepare("PRAGMA wal_checkpoint(TRUNCATE)").exec()
	errs = append(errs, err, w.Close())
	if s.tap != nil && errors.Join(errs...) == nil {
		s.tap.closed(s.path)
	}
	if err := errors.Join(append(errs, s.lock.Close())...); err != nil {
		return fmt.Errorf("close %s: %w", s.about, err)
	}
	return nil
}
