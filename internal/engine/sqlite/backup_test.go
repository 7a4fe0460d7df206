package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func rows(s Summary, table string) int64 {
	for _, t := range s.Tables {
		if t.Name == table {
			return t.Rows
		}
	}
	return -1
}

// leaseOne leases an execution to a new session.
func leaseOne(t *testing.T, s *Store, id job.ExecutionID) job.Token {
	t.Helper()
	w := job.Worker{ID: newID(), Host: "h", StartedAt: time.Now()}
	if err := s.Register(t.Context(), w, time.Hour); err != nil {
		t.Fatal(err)
	}
	as, err := s.Lease(t.Context(), []engine.Grant{{Worker: w.ID, Executions: []job.ExecutionID{id}}}, engine.Fence{})
	if err != nil || len(as) != 1 {
		t.Fatalf("leased %d, %v", len(as), err)
	}
	return as[0].Token
}

func TestBackupWhileOthersWrite(t *testing.T) {
	s := fresh(t)
	dir := t.TempDir()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := s.CreateJobs(t.Context(), []engine.Creation{some(s, 2)}); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	for i := range 3 {
		to := filepath.Join(dir, fmt.Sprint(i))
		got, err := Backup(t.Context(), s.path, to)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(to)
		if err != nil || info.Mode().Perm() != 0o600 || got.Bytes != info.Size() || rows(got, "jobs") != rows(got, "live") {
			t.Errorf("got %+v, %v, %v", got, info, err)
		}
		if _, err := Backup(t.Context(), s.path, to); err == nil || !strings.Contains(err.Error(), "exists") {
			t.Errorf("over another: %v", err)
		}
	}
	close(stop)
	wg.Wait()
	if left, _ := filepath.Glob(filepath.Join(dir, "*.partial")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestRestore(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	path, saved := filepath.Join(dir, "carillon.db"), filepath.Join(dir, "saved")
	open := func() *Store {
		s, err := Open(ctx, Config{Path: path})
		if err == nil {
			err = s.Migrate(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	c := some(s, 1)
	store(t, s, c)
	old := leaseOne(t, s, c.Executions[0].ID)
	if _, err := Backup(ctx, path, saved); err != nil {
		t.Fatal(err)
	}
	store(t, s, some(s, 1))
	now := time.Now()
	if _, _, err := Restore(ctx, saved, path, now, true); err == nil || !strings.Contains(err.Error(), "has this database open") {
		t.Errorf("while it is open: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Restore(ctx, saved, path, now, false); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("over another: %v", err)
	}
	first, kept, err := Restore(ctx, saved, path, now, true)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Verify(ctx, kept); err != nil || rows(got, "jobs") != 2 {
		t.Errorf("what was there: %+v, %v", got, err)
	}
	second, _, err := Restore(ctx, saved, path, now.Add(time.Second), true)
	if err != nil || second.Epoch != first.Epoch+1 {
		t.Errorf("the epoch after %d is %d, %v", first.Epoch, second.Epoch, err)
	}
	s = open()
	defer s.Close()
	if page, err := s.FindJobs(ctx, engine.JobFilter{Tenant: tenant.Default}, engine.Page{Limit: 10}); err != nil || len(page.Jobs) != 1 {
		t.Errorf("got %+v, %v", page, err)
	}
	back, err := s.Reap(ctx, 10, 0)
	if err != nil || len(back.Ready) != 1 {
		t.Fatalf("what ran at the backup: %+v, %v", back, err)
	}
	fresh := leaseOne(t, s, c.Executions[0].ID)
	if fresh <= old || engine.EpochOf(int64(fresh)) != second.Epoch {
		t.Errorf("token %d after %d, in epoch %d", fresh, old, second.Epoch)
	}
}

// TestRestoreTakesTheLog restores a file as a crash leaves it, or as an earlier restore has set it aside: what was committed last is in its log only.
func TestRestoreTakesTheLog(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	live, left, to := filepath.Join(dir, "live.db"), filepath.Join(dir, "left.db"), filepath.Join(dir, "to.db")
	s, err := Open(ctx, Config{Path: live})
	if err == nil {
		err = s.Migrate(ctx)
	}
	if err == nil {
		err = s.Close()
	}
	if err == nil {
		s, err = Open(ctx, Config{Path: live})
	}
	if err == nil {
		err = s.Migrate(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	store(t, s, some(s, 1))
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(live + suffix)
		if err == nil {
			err = os.WriteFile(left+suffix, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	said, _, err := Restore(ctx, left, to, time.Now(), false)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Verify(ctx, to); err != nil || rows(said, "jobs") != 1 || rows(got, "jobs") != 1 {
		t.Errorf("said %d jobs, restored %d, %v", rows(said, "jobs"), rows(got, "jobs"), err)
	}
	if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestVerifyRefuses(t *testing.T) {
	s := fresh(t)
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	if _, err := Backup(t.Context(), s.path, good); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(data) / 2; i < len(data)/2+20_000; i++ {
		data[i] ^= 0x55
	}
	for name, text := range map[string][]byte{"damaged": data, "cut": data[:len(data)/3], "notes": []byte(strings.Repeat("not a database\n", 1000)), "empty": nil} {
		bad := filepath.Join(dir, name)
		if err := os.WriteFile(bad, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(t.Context(), bad); err == nil {
			t.Errorf("%s is taken for a backup", name)
		}
		if _, _, err := Restore(t.Context(), bad, filepath.Join(dir, "to.db"), time.Now(), true); err == nil {
			t.Errorf("%s is restored", name)
		}
	}
	if _, err := Verify(t.Context(), filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "to.db")); err == nil {
		t.Error("something was restored")
	}
}
