package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// wantGone wants that nothing is stored any more.
func wantGone(t *testing.T, s *Store) {
	t.Helper()
	const want = "was removed or replaced while it was open"
	s.watch.next.Store(0) // a second has passed
	if _, err := s.CreateJobs(t.Context(), []engine.Creation{some(s, 1)}); !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), want) {
		t.Errorf("create: got %v, want ErrUnavailable and why", err)
	}
	if err := s.Ping(t.Context()); !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), want) {
		t.Errorf("ping: got %v, want ErrUnavailable and why", err)
	}
}

// opened is a store of one job, which the test closes itself.
func opened(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "data", "carillon.db")})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	store(t, s, some(s, 1))
	return s
}

func TestRemovedFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // where open files cannot be removed
	}
	for _, suffix := range []string{"", "-wal", ".lock"} {
		s := opened(t)
		path := s.path + suffix
		if err := os.Rename(path, path+".old"); err != nil {
			t.Fatal(err)
		}
		wantGone(t, s)
		if err := os.Rename(path+".old", path); err != nil {
			t.Fatal(err)
		}
		wantGone(t, s) // for what was refused meanwhile, or lost, is not known
		if err := s.Close(); !errors.Is(err, errGone) {
			t.Errorf("close: got %v", err)
		}
	}
}

func TestReplacedFolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // where open files cannot be removed
	}
	old := opened(t)
	if err := os.RemoveAll(filepath.Dir(old.path)); err != nil {
		t.Fatal(err)
	}
	s := start(t, Config{Path: old.path})
	c := some(s, 1)
	store(t, s, c)
	wantGone(t, old)
	if err := old.Close(); !errors.Is(err, errGone) {
		t.Errorf("close: got %v", err)
	}
	// The one that has the place now is none the worse.
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	store(t, s, some(s, 1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = start(t, Config{Path: old.path})
	p, err := s.FindJobs(t.Context(), engine.JobFilter{Tenant: tenant.Default}, engine.Page{Limit: 5})
	if err != nil || len(p.Jobs) != 2 || p.Jobs[1].ID != c.Jobs[0].ID {
		t.Errorf("found %d jobs, %v; want 2", len(p.Jobs), err)
	}
}

// A look that fails for another reason says so, and the next one may succeed.
func TestUnreadableFolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // where a file in a file is simply not there
	}
	s := opened(t)
	was := s.watch.files[0].path
	s.watch.files[0].path = filepath.Join(was, "in a file")
	s.watch.next.Store(0)
	if _, err := s.CreateJobs(t.Context(), []engine.Creation{some(s, 1)}); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	s.watch.files[0].path = was
	store(t, s, some(s, 1))
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A disk that could not keep what it had taken ends the writing, and whoever runs the store is told; other errors do not.
func TestADiskThatDoesNotKeepWhatItTook(t *testing.T) {
	s := opened(t)
	for _, passing := range []sqlite.ResultCode{sqlite.ResultFull, sqlite.ResultIOErrRead, sqlite.ResultBusy} {
		s.watch.judge(passing.ToError())
	}
	store(t, s, some(s, 1))
	s.watch.judge(sqlite.ResultIOErrFsync.ToError())
	s.watch.judge(sqlite.ResultIOErrFsync.ToError()) // once is told
	if _, err := s.CreateJobs(t.Context(), []engine.Creation{some(s, 1)}); !errors.Is(err, engine.ErrUnavailable) || !errors.Is(err, errUnsure) {
		t.Errorf("create: got %v", err)
	}
	if err := s.Ping(t.Context()); !errors.Is(err, errUnsure) {
		t.Errorf("ping: got %v", err)
	}
	select {
	case err := <-s.Broken():
		if !errors.Is(err, errUnsure) {
			t.Errorf("told: %v", err)
		}
	default:
		t.Error("nobody is told")
	}
	if err := s.Close(); !errors.Is(err, errUnsure) {
		t.Errorf("close: %v", err)
	}
}
