package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/watchdog"
)

func newID() [16]byte { return uuid.Must(uuid.NewV7()) }

// start opens and migrates the store over a file, which the test closes.
func start(t testing.TB, cfg Config) *Store {
	t.Helper()
	watchdog.Watch(t)
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func fresh(t testing.TB) *Store {
	t.Helper()
	return start(t, Config{Path: filepath.Join(t.TempDir(), "carillon.db")})
}

// some makes a creation of n jobs that are due now.
func some(s *Store, n int) engine.Creation {
	c := engine.Creation{Tenant: tenant.Default}
	now := s.clock.machine.Now()
	for i := range n {
		j := job.Job{ID: newID(), Tenant: tenant.Default, State: job.Active, CreatedAt: now, UpdatedAt: now, Revision: 1}
		j.Name, j.Schedule.Type, j.Priority, j.Target.Kind = fmt.Sprint("job ", i), job.Immediate, 5, job.Simulate
		c.Jobs = append(c.Jobs, j)
		c.Executions = append(c.Executions, j.Fire(job.ExecutionID(j.ID), now, now)) // as the service does
	}
	return c
}

func store(t *testing.T, s *Store, c engine.Creation) {
	t.Helper()
	if _, err := s.CreateJobs(t.Context(), []engine.Creation{c}); err != nil {
		t.Fatal(err)
	}
}

func TestOneStoreAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "carillon.db")
	s := start(t, Config{Path: path})
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, link} {
		if _, err := Open(t.Context(), Config{Path: p}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
			t.Errorf("second open: got %v, want an error that names the process", err)
		}
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("the first: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	start(t, Config{Path: path})
}

func TestFileModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // where modes say nothing
	}
	path := filepath.Join(t.TempDir(), "data", "carillon.db")
	s := start(t, Config{Path: path})
	store(t, s, some(s, 1))
	for name, want := range map[string]os.FileMode{filepath.Dir(path): 0o700, path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600, path + ".lock": 0o600} {
		info, err := os.Stat(name)
		if err != nil {
			t.Error(err)
		} else if got := info.Mode().Perm(); got != want {
			t.Errorf("%s: mode %o, want %o", name, got, want)
		}
	}
	if got := s.Describe(); !strings.HasPrefix(got, "SQLite 3.") || !strings.HasSuffix(got, " at "+s.path) {
		t.Errorf("described as %q", got)
	}
}

func TestReopeningEndsSessions(t *testing.T) {
	cfg := Config{Path: filepath.Join(t.TempDir(), "carillon.db"), Clock: clock.NewManual(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))}
	s := start(t, cfg)
	c := some(s, 3)
	store(t, s, c)
	w := job.Worker{ID: newID(), Host: "h", StartedAt: cfg.Clock.Now()}
	if err := s.Register(t.Context(), w, time.Hour); err != nil {
		t.Fatal(err)
	}
	as, err := s.Lease(t.Context(), []engine.Grant{{Worker: w.ID, Executions: []job.ExecutionID{c.Executions[0].ID, c.Executions[1].ID}}}, engine.Fence{})
	if err != nil || len(as) != 2 {
		t.Fatalf("leased %d, %v", len(as), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = start(t, cfg)
	mine := job.Worker{ID: newID(), Host: "h", StartedAt: cfg.Clock.Now()}
	if err := s.Register(t.Context(), mine, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := s.Renew(t.Context(), []engine.Renewal{{Worker: w.ID}, {Worker: mine.ID}}, time.Hour)
	if err != nil || len(got.Ended) != 1 || got.Ended[0] != w.ID {
		t.Errorf("ended: %v, %v; want only the old one", got.Ended, err)
	}
	rs, err := s.Reap(t.Context(), 10, 3)
	if err != nil || len(rs.Ready) != 2 || rs.Sessions != 0 {
		t.Fatalf("reaped %+v, %v; want 2", rs, err)
	}
	e, err := s.Execution(t.Context(), tenant.Default, as[0].Execution)
	if err != nil || e.Status != job.Pending || e.Lost != 1 {
		t.Errorf("got %+v, %v", e, err)
	}
}

func TestGivesUpWaiting(t *testing.T) {
	s := fresh(t)
	for _, pool := range []chan *conn{s.writer, s.readers} {
		var taken []*conn
		for range cap(pool) {
			taken = append(taken, <-pool)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			if pool == s.writer {
				done <- s.Register(ctx, job.Worker{ID: newID()}, time.Hour)
			} else {
				done <- s.Ping(ctx)
			}
		}()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
		for _, c := range taken {
			pool <- c
		}
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if err := s.Ping(ctx); !errors.Is(err, engine.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("out of time: got %v, want ErrUnavailable and DeadlineExceeded", err)
	}
}

func TestInterrupts(t *testing.T) {
	s := fresh(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := s.write(ctx, "count", func(c *conn, _ int64) error {
		if _, err := c.prepare("INSERT INTO tenants (id, created_at) VALUES ('half', 0)").exec(); err != nil {
			return err
		}
		time.AfterFunc(time.Millisecond, cancel)
		_, err := c.prepare("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n").exec()
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if has, err := s.HasTenant(t.Context(), "half"); has || err != nil {
		t.Errorf("what was interrupted is stored: %v, %v", has, err)
	}
	// What is done by the time the context ends is committed, and said to be.
	ctx, cancel = context.WithCancel(t.Context())
	err = s.write(ctx, "insert", func(c *conn, _ int64) error {
		_, err := c.prepare("INSERT INTO tenants (id, created_at) VALUES ('whole', 0)").exec()
		cancel()
		return err
	})
	if err != nil {
		t.Errorf("got %v", err)
	}
	if has, err := s.HasTenant(t.Context(), "whole"); !has || err != nil {
		t.Errorf("what was done is not stored: %v, %v", has, err)
	}
}

func TestClosed(t *testing.T) {
	s := fresh(t)
	c := some(s, 1)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				if _, err := s.CreateJobs(t.Context(), []engine.Creation{some(s, 1)}); err != nil {
					if !errors.Is(err, engine.ErrUnavailable) {
						t.Errorf("while closing: %v", err)
					}
					return
				}
			}
		})
	}
	store(t, s, c)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"ping":    func() error { return s.Ping(ctx) },
		"migrate": func() error { return s.Migrate(ctx) },
		"now":     func() error { _, err := s.Now(ctx); return err },
		"create":  func() error { _, err := s.CreateJobs(ctx, []engine.Creation{c}); return err },
		"job":     func() error { _, err := s.Job(ctx, tenant.Default, engine.Ref{ID: c.Jobs[0].ID}); return err },
		"lanes":   func() error { _, err := s.Lanes(ctx, nil, 1000); return err },
		"reap":    func() error { _, err := s.Reap(ctx, 1, 3); return err },
		"tidy":    func() error { _, err := s.Tidy(ctx); return err },
	} {
		if err := call(); !errors.Is(err, engine.ErrUnavailable) {
			t.Errorf("%s: got %v, want ErrUnavailable", name, err)
		}
	}
	if info, err := os.Stat(s.path + "-wal"); err == nil && info.Size() > 0 {
		t.Errorf("the log was left with %d bytes", info.Size())
	}
}

func TestFullDisk(t *testing.T) {
	s := fresh(t)
	limit := func(pages string) {
		c := <-s.writer
		defer func() { s.writer <- c }()
		if _, err := c.prepare("PRAGMA max_page_count = " + pages).exec(); err != nil {
			t.Fatal(err)
		}
	}
	limit("1") // which SQLite takes for as many as there are
	c := some(s, 2000)
	if _, err := s.CreateJobs(t.Context(), []engine.Creation{c}); !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), "the disk is full") {
		t.Fatalf("got %v, want ErrUnavailable and why", err)
	}
	if !s.full.Load() {
		t.Error("a ping would not look for room")
	}
	if p, err := s.FindJobs(t.Context(), engine.JobFilter{Tenant: tenant.Default}, engine.Page{Limit: 1}); err != nil || p.Total.Count != 0 {
		t.Errorf("%+v are stored, %v; want none", p.Total, err)
	}
	limit("1000000")
	if err := s.Ping(t.Context()); err != nil || s.full.Load() {
		t.Errorf("with room again: %v", err)
	}
	store(t, s, c)
}

// A ping finds that the disk is full also where nothing was written, and that it no longer is.
func TestPingLooksForRoom(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full here, which has no room for anything")
	}
	s := fresh(t)
	for range 2 {
		before := time.Now().Add(-3 * time.Second)
		s.roomAt.Store(&before)
		if err := os.Symlink("/dev/full", s.path+".room"); err != nil {
			t.Fatal(err)
		}
		if err := s.Ping(t.Context()); !errors.Is(err, engine.ErrNoRoom) || !errors.Is(err, engine.ErrUnavailable) {
			t.Errorf("got %v, want ErrNoRoom", err)
		}
		if err := s.Ping(t.Context()); err != nil { // that ping removed the link
			t.Errorf("with room again: %v", err)
		}
		if err := os.Symlink("/dev/full", s.path+".room"); err != nil {
			t.Fatal(err)
		}
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("a moment later it was looked for again: %v", err)
		}
		if err := os.Remove(s.path + ".room"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestForeignFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(path, []byte(strings.Repeat("not a database\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the lock is given back
		_, err := Open(t.Context(), Config{Path: path})
		if err == nil || errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), "not an SQLite database") {
			t.Errorf("got %v", err)
		}
	}
}

func TestBeforeMigration(t *testing.T) {
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "carillon.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Lanes(t.Context(), nil, 1000); !errors.Is(err, engine.ErrSchema) {
		t.Errorf("got %v, want ErrSchema", err)
	}
}

func TestCommitsAreOnTheDisk(t *testing.T) {
	s := fresh(t)
	c := <-s.writer
	defer func() { s.writer <- c }()
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "fullfsync": "1", "checkpoint_fullfsync": "1"} {
		got := ""
		if _, err := c.prepare("PRAGMA " + pragma).first(func(r *row) error { got = r.text(); return nil }); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %s", pragma, got, err, want)
		}
	}
}
